//! Gets in flight: throughput and memory of thousands of awaited gets, from two threads, on storage with a latency.
//!
//! `cargo run --release -p cairn-bench --example gets_in_flight -- [IN_FLIGHT] [LATENCY_US] [QUEUE_DEPTH] [SECONDS]`

use std::collections::VecDeque;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use cairn::world::RemoteSettings;
use cairn::{CompactRangeOptions, Db, Options, World};
use cairn_platform::sync::{Condvar, Mutex};

const KEYS: u32 = 1_000_000;
const THREADS: usize = 2;
/// The size of blocks, which are read without a cache.
const BLOCK: usize = 4096;

/// The tasks of a thread that were woken.
#[derive(Default)]
struct Woken {
    tasks: Mutex<VecDeque<usize>>,
    changed: Condvar,
}

struct Task {
    woken: Arc<Woken>,
    number: usize,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.woken.tasks.lock().push_back(self.number);
        self.woken.changed.notify_one();
    }
}

type Get = Pin<Box<dyn Future<Output = bool> + Send>>;

/// A get of a random key.
fn get(db: &Arc<Db>, seed: &mut u64) -> Get {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    let key = ((*seed >> 33) as u32 % KEYS).to_be_bytes();
    let db = db.clone();
    Box::pin(async move { matches!(db.get_async(&key).await, Ok(Some(_))) })
}

/// Keeps `count` gets in flight until `until`. Calls `filled` once they are. Returns the number that completed.
fn drive(db: &Arc<Db>, count: usize, mut seed: u64, until: Instant, filled: impl FnOnce()) -> u64 {
    let woken = Arc::new(Woken::default());
    let waker = |number| {
        let woken = woken.clone();
        Waker::from(Arc::new(Task { woken, number }))
    };
    let wakers: Vec<_> = (0..count).map(waker).collect();
    let mut gets: Vec<Get> = (0..count).map(|_| get(db, &mut seed)).collect();
    let mut done = 0;
    let mut ready: VecDeque<usize> = (0..count).collect();
    let mut filled = Some(filled);
    loop {
        while let Some(at) = ready.pop_front() {
            let mut context = Context::from_waker(&wakers[at]);
            while let Poll::Ready(found) = gets[at].as_mut().poll(&mut context) {
                assert!(found, "every key exists");
                done += 1;
                gets[at] = get(db, &mut seed);
            }
        }
        if let Some(filled) = filled.take() {
            filled();
        }
        if Instant::now() >= until {
            return done;
        }
        let mut tasks = woken.tasks.lock();
        while tasks.is_empty() {
            woken.changed.wait(&mut tasks);
        }
        std::mem::swap(&mut *tasks, &mut ready);
    }
}

/// The resident memory of the process.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number of pages") * 4096
}

fn opened(path: &Path, settings: RemoteSettings) -> Result<Db, Box<dyn std::error::Error>> {
    let options = Options::default().create_if_missing(true).text(&format!(
        "compression=kNoCompression;block_based_table_factory={{block_size={BLOCK};no_block_cache=true}}"
    ))?;
    let world = World::posix().remote(settings);
    Ok(Db::builder(path).world(world).options(options).open()?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| match arguments.next() {
        Some(text) => text.parse(),
        None => Ok(default),
    };
    let (in_flight, latency) = (number(10_000)? as usize, number(1000)?);
    let (queue_depth, seconds) = (number(64)? as usize, number(5)?);
    let dir = std::env::temp_dir().join(format!("gets_in_flight.{}", std::process::id()));
    let fast = RemoteSettings {
        latency: Duration::ZERO,
        ..RemoteSettings::default()
    };
    let db = opened(&dir, fast)?;
    for n in 0..KEYS {
        db.put(&n.to_be_bytes(), &[n as u8; 100])?;
    }
    db.compact_range(None, None, &CompactRangeOptions::default())?;
    db.close()?;
    let settings = RemoteSettings {
        latency: Duration::from_micros(latency),
        bandwidth: 0,
        queue_depth,
    };
    let db = Arc::new(opened(&dir, settings)?);
    for n in 0..KEYS / 1000 {
        // Opens all tables.
        db.get(&(n * 1000).to_be_bytes())?;
    }
    let key = [0; 4];
    println!(
        "the future of a get has {} bytes",
        size_of_val(&db.get_async(&key))
    );
    let before = resident();
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let done: u64 = std::thread::scope(|scope| {
        let start = |thread: usize| {
            let (db, share) = (&db, in_flight / THREADS);
            scope.spawn(move || {
                drive(db, share, thread as u64 * 7919 + 1, until, || {
                    let grown = resident().saturating_sub(before);
                    let each = grown as f64 / in_flight as f64 - BLOCK as f64;
                    println!("thread {thread} has {share} gets in flight; at most {each:.0} bytes each besides the block");
                })
            })
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .sum()
    });
    let rate = done as f64 / began.elapsed().as_secs_f64();
    let limit = queue_depth as f64 * 1e6 / latency as f64;
    println!(
        "{rate:.0} gets per second, {:.1} % of {limit:.0}",
        rate / limit * 100.0
    );
    drop(db);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
