//! The pauses of readers while the capacity of a full cache drops to a tenth.
//!
//! A reader looks up random blocks and inserts those that it misses. Its longest operation and the number of operations
//! above a millisecond are printed for each kind of cache and size of blocks: at rest, and while another thread lowers
//! the capacity. The time for which the reader was runnable but other threads had its processor does not count.
//! `--mib N` sets the capacity (default 256), `--rounds N` the number of rounds, of which the one with the shortest
//! pause is printed: a thread that holds a lock may lose its processor too.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_memory::{BlockCache, CacheKey, CacheKind, CacheOptions, CachePriority, CacheRole};
use cairn_platform::{Buffer, Clock, SystemClock};

/// The lengths of blocks.
const LENGTHS: [usize; 3] = [200, 4096, 40_000];

/// Operations of a reader.
#[derive(Clone, Copy, Default)]
struct Pauses {
    longest: u64,
    above_millisecond: u64,
    operations: u64,
}

fn key(n: u64) -> CacheKey {
    CacheKey::of_block([0x1234_5678_9abc_def0, 42], n << 12)
}

fn insert(cache: &BlockCache, n: u64, len: usize) {
    let block = Buffer::from(vec![0; len]);
    cache.insert(key(n), block, CacheRole::Data, CachePriority::Low);
}

/// The time for which this thread waited for a processor, in nanoseconds.
struct Waits(File);

impl Waits {
    fn of_this_thread() -> Waits {
        Waits(
            File::open("/proc/thread-self/schedstat").expect("the kernel has scheduler statistics"),
        )
    }

    fn nanos(&self) -> u64 {
        let mut text = [0; 64];
        let len = self.0.read_at(&mut text, 0).expect("it can be read");
        let text = std::str::from_utf8(&text[..len]).expect("it is text");
        let waits = text.split_whitespace().nth(1);
        waits
            .and_then(|waits| waits.parse().ok())
            .expect("the second number")
    }
}

/// Reads until `stop` is set.
fn read(cache: &BlockCache, blocks: u64, len: usize, stop: &AtomicBool) -> Pauses {
    let mut pauses = Pauses::default();
    let waits = Waits::of_this_thread();
    let mut n: u64 = 0;
    let mut waited = waits.nanos();
    while !stop.load(Ordering::Relaxed) {
        n = n
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let n = (n >> 33) % blocks;
        let from = SystemClock.monotonic_nanos();
        if cache.lookup(&key(n), CacheRole::Data).is_none() {
            insert(cache, n, len);
        }
        let nanos = SystemClock.monotonic_nanos() - from;
        let before = std::mem::replace(&mut waited, waits.nanos());
        let nanos = nanos.saturating_sub(waited - before);
        pauses.longest = pauses.longest.max(nanos);
        pauses.above_millisecond += u64::from(nanos > 1_000_000);
        pauses.operations += 1;
    }
    pauses
}

/// Pauses while `work` runs.
fn during(cache: &Arc<BlockCache>, blocks: u64, len: usize, work: impl FnOnce()) -> Pauses {
    let stop = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(cache, blocks, len, &stop));
        work();
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("the reader ends")
    })
}

fn argument(name: &str, default: usize) -> usize {
    let mut args = std::env::args().skip_while(|arg| arg != name).skip(1);
    args.next()
        .map_or(default, |text| text.parse().expect("a number"))
}

fn main() {
    let capacity = argument("--mib", 256) << 20;
    let rounds = argument("--rounds", 3);
    println!("cache  block      pause at rest  while lowered       > 1 ms  operations  lowered in");
    for kind in [CacheKind::Clock, CacheKind::Lru] {
        for len in LENGTHS {
            let mut best: Option<[u64; 5]> = None;
            for _ in 0..rounds {
                let options = CacheOptions {
                    kind,
                    ..CacheOptions::default()
                };
                let cache = Arc::new(BlockCache::new(capacity, options));
                let mut blocks = 0;
                while cache.usage() < capacity / 100 * 99 {
                    insert(&cache, blocks, len);
                    blocks += 1;
                }
                let rest = || SystemClock.sleep(std::time::Duration::from_millis(100));
                let rested = during(&cache, blocks, len, rest);
                let from = SystemClock.monotonic_nanos();
                let mut lowered = 0;
                let pauses = during(&cache, blocks, len, || {
                    cache.set_capacity(capacity / 10);
                    lowered = SystemClock.monotonic_nanos() - from;
                });
                let all = [
                    pauses.longest,
                    rested.longest,
                    pauses.above_millisecond,
                    pauses.operations,
                    lowered,
                ];
                best = Some(best.map_or(all, |best| best.min(all)));
            }
            let [pause, rest, long, operations, lowered] = best.expect("there is a round");
            let millis = |nanos: u64| nanos as f64 / 1e6;
            println!(
                "{:<6} {len:>6} {:>13.2} ms {:>11.2} ms {long:>12} {operations:>11} {:>8.1} ms",
                format!("{kind:?}"),
                millis(rest),
                millis(pause),
                millis(lowered),
            );
        }
    }
}
