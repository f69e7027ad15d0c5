//! Simulation of cache policies on traces of block reads.
mod arc;
mod belady;
mod blocks;
mod hyper_clock;
mod lfu;
mod lirs;
mod lists;
mod policy;
mod queues;
mod s3_fifo;
mod tiny_lfu;
mod trace;
mod two_queue;

use policy::Policy;
use queues::{OneQueue, Order};
use trace::{Event, Trace};

pub const NAMES: [&str; 14] = [
    "lru", "fifo", "mru", "clock", "hyper", "sieve", "s3fifo", "2q", "arc", "lirs", "lfu", "tlfu1", "tlfu20", "belady",
];

fn named(name: &str, trace: &Trace, capacity: u64) -> Box<dyn Policy> {
    let keys = trace.keys;
    let one = |order| Box::new(OneQueue::new(order, keys, capacity)) as Box<dyn Policy>;
    match name {
        "lru" => one(Order::Lru),
        "fifo" => one(Order::Fifo),
        "mru" => one(Order::Mru),
        "clock" => one(Order::Clock),
        "sieve" => one(Order::Sieve),
        "hyper" => Box::new(hyper_clock::HyperClock::new(keys, capacity)),
        "s3fifo" => Box::new(s3_fifo::S3Fifo::new(keys, capacity)),
        "2q" => Box::new(two_queue::TwoQueue::new(keys, capacity)),
        "arc" => Box::new(arc::Arc::new(keys, capacity)),
        "lirs" => Box::new(lirs::Lirs::new(keys, capacity)),
        "lfu" => Box::new(lfu::Lfu::new(keys, capacity)),
        "tlfu1" => Box::new(tiny_lfu::TinyLfu::new(keys, capacity, 0.01)),
        "tlfu20" => Box::new(tiny_lfu::TinyLfu::new(keys, capacity, 0.2)),
        "belady" => Box::new(belady::Belady::new(trace, capacity)),
        _ => panic!("{name}"),
    }
}

fn ratio(policy: &mut dyn Policy, trace: &Trace) -> f64 {
    let (mut reads, mut hits) = (0u64, 0u64);
    for (at, event) in trace.events.iter().enumerate() {
        match event {
            Event::Read(request) => {
                let hit = policy.request(request);
                if at >= trace.warm_up {
                    reads += 1;
                    hits += u64::from(hit);
                }
            }
            Event::Erase(key) => policy.erase(*key),
        }
    }
    hits as f64 / reads as f64
}

pub fn traces(scale: f64) -> Vec<Box<dyn Fn() -> Trace>> {
    let b = (40_000.0 * scale) as u64;
    let r = (1_000_000.0 * scale) as usize;
    let n = (100_000.0 * scale) as u64;
    vec![
        Box::new(move || trace::zipf(b, r)),
        Box::new(move || trace::zipf_and_scans(b, r)),
        Box::new(move || trace::cycle(b / 2, r)),
        Box::new(move || trace::zipf_and_cycle(b, r)),
        Box::new(move || trace::shifting(b, r, 10)),
        Box::new(move || trace::drifting(b, r)),
        Box::new(move || trace::recent(b, r)),
        Box::new(move || trace::phases(b, r)),
        Box::new(move || blocks::linkbench("linkbench", n, n * 5, true)),
        Box::new(move || blocks::linkbench("linkbench-noerase", n, n * 5, false)),
    ]
}

pub fn experiment(scale: f64, filter: &str, policies: &str) -> String {
    let names: Vec<&str> = if policies.is_empty() { NAMES.to_vec() } else { policies.split(',').collect() };
    print!("{:24}", "");
    for n in &names { print!(" {n:>7}"); }
    println!();
    for make in traces(scale) {
        let trace = make();
        if !filter.is_empty() && !filter.split(',').any(|f| trace.name == f) { continue; }
        for share in trace.shares {
            let capacity = (trace.bytes as f64 * share) as u64;
            print!("{:18}{share:5.2} ", trace.name);
            for name in &names {
                let mut policy = named(name, &trace, capacity);
                let r = ratio(policy.as_mut(), &trace);
                print!(" {:7.2}", r * 100.0);
            }
            println!();
        }
    }
    String::new()
}
