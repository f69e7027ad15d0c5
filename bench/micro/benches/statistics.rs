//! Statistics against their budget: the update of a cached get, by a thread with a slot and by one
//! without; and reading every ticker and histogram, in 50 µs, while 4,096 threads exist and one of
//! them counts.
#![expect(missing_docs, reason = "criterion's macro generates a public function")]

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_observe::statistics::{
    self, BlockPart, Histogram, Hit, Statistics, StatsLevel, TableCounts, Update,
};
use criterion::{Criterion, criterion_group, criterion_main};

const THREADS: usize = 4_096;

/// The statistics of a get that finds its value in a cached block of level 2, after four negative filters.
fn bring(update: &Update<'_>, counts: &TableCounts, bytes: u64) {
    update.get(Some(counts), black_box(Hit::Level(2)), Some(bytes));
}

fn count(counts: &TableCounts) {
    // One at a time, as a get does; a single update would be a different code path.
    for may_match in [false, false, false, true] {
        black_box(counts).filter(may_match);
    }
    black_box(counts).hit(BlockPart::Data, 4_096);
    statistics::count(&black_box(counts).filters_true, 1);
}

fn get(c: &mut Criterion, name: &str, level: StatsLevel) {
    let counts = TableCounts::default();
    let statistics = Statistics::new(level);
    c.bench_function(&format!("statistics/a get, {name}"), |b| {
        b.iter(|| {
            count(black_box(&counts));
            statistics.update(|update| bring(update, &counts, black_box(100)));
        });
    });
}

fn gets(c: &mut Criterion) {
    get(c, "on", StatsLevel::ExceptTimers);
    get(c, "off", StatsLevel::DisableAll);
}

/// Reads everything, as an exporter would.
fn read(statistics: &Statistics) -> f64 {
    let tickers: u64 = statistics.tickers().iter().sum();
    let all = Histogram::ALL.iter().map(|&one| statistics.histogram(one));
    tickers as f64 + all.map(|one| one.percentile(99.0)).sum::<f64>()
}

fn reading(c: &mut Criterion) {
    let statistics = Statistics::new(StatsLevel::All);
    let (begun, over) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let (statistics, begun, over, done) = (&statistics, &begun, &over, &done);
            scope.spawn(move || {
                for &histogram in Histogram::ALL {
                    for value in 0..50 {
                        statistics.record(histogram, value * value);
                    }
                }
                begun.wait();
                let counts = TableCounts::default();
                while number == 0 && !done.load(Ordering::Relaxed) {
                    count(&counts);
                    statistics.update(|update| bring(update, &counts, 100));
                }
                over.wait();
            });
        }
        begun.wait();
        c.bench_function("statistics/reading all, 4096 threads", |b| {
            b.iter(|| black_box(read(&statistics)));
        });
        // The other threads have leased all slots before this thread tries to.
        get(c, "on, no slot", StatsLevel::ExceptTimers);
        done.store(true, Ordering::Relaxed);
        over.wait();
    });
}

criterion_group!(benches, reading, gets);
criterion_main!(benches);
