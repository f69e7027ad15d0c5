//! What a benchmark asks of an engine, and the benchmarks: the same code for both.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

/// An engine with one family. Errors end the benchmark.
pub trait Store: Sized {
    /// The engine's name.
    const NAME: &'static str;

    /// Opens the database at `path`, or makes it, with options in RocksDB's text form.
    ///
    /// # Errors
    ///
    /// The engine's words.
    fn open(path: &Path, options: &str) -> Result<Self, String>;
    /// Sets a key: in the log, not synced.
    fn put(&mut self, key: &[u8], value: &[u8]);
    /// Hands the value of a key to `see`; says whether there is one.
    fn get(&self, key: &[u8], see: impl FnMut(&[u8])) -> bool;
    /// Seeks each of `keys` with one iterator and hands key and value found to `see`.
    fn seek(&self, keys: impl Iterator<Item = [u8; KEY_LEN]>, see: impl FnMut(&[u8], &[u8]));
    /// Hands every entry to `see`, in order or in the reverse order.
    fn scan(&self, reverse: bool, see: impl FnMut(&[u8], &[u8]));
    /// Writes memtables to tables and compacts everything.
    fn settle(&mut self);
}

/// Bytes of a key.
pub const KEY_LEN: usize = 16;
/// Bytes of a value.
pub const VALUE_LEN: usize = 100;

/// The benchmarks, in the order they run.
pub const BENCHMARKS: [&str; 7] = [
    "fillseq",
    "fillrandom",
    "readrandom",
    "readmissing",
    "seekrandom",
    "readseq",
    "readreverse",
];

/// db_bench's key of a number: big-endian, filled up with `0`.
#[must_use]
pub fn key(number: u64) -> [u8; KEY_LEN] {
    let mut key = [b'0'; KEY_LEN];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key
}

/// A value for each number; half of its bytes can be compressed away.
#[derive(Debug)]
pub struct Values(Vec<u8>);

impl Values {
    /// The values of every run.
    #[must_use]
    pub fn new() -> Values {
        let mut rng = Rng(301);
        let mut text = Vec::new();
        while text.len() < 1 << 20 {
            let piece: Vec<u8> = (0..VALUE_LEN / 2)
                .map(|_| b' ' + rng.below(95) as u8)
                .collect();
            text.extend(piece.iter().cycle().take(VALUE_LEN));
        }
        Values(text)
    }

    /// The value of `number`.
    #[must_use]
    pub fn of(&self, number: u64) -> &[u8] {
        let at = Rng(number).below((self.0.len() - VALUE_LEN) as u64) as usize;
        &self.0[at..at + VALUE_LEN]
    }
}

impl Default for Values {
    fn default() -> Values {
        Values::new()
    }
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((u128::from(mixed ^ (mixed >> 31)) * u128::from(limit)) >> 64) as u64
    }
}

/// What one operation costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Time on the clock.
    pub wall: Duration,
    /// Time of the processor, in all threads of the process.
    pub cpu: Duration,
}

/// The processor time that this process has used so far.
fn cpu_now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Runs every benchmark with `num` entries on fresh databases below `folder`; returns the cost of
/// one operation of each. What is read is checked.
///
/// # Errors
///
/// The engine's words.
pub fn run<S: Store>(folder: &Path, options: &str, num: u64) -> Result<Vec<Cost>, String> {
    let values = Values::new();
    let mut times = Vec::new();
    let mut timed = |work: &mut dyn FnMut()| {
        let (started, cpu) = (Instant::now(), cpu_now());
        work();
        let count = u32::try_from(num).unwrap_or(u32::MAX);
        times.push(Cost {
            wall: started.elapsed() / count,
            cpu: (cpu_now() - cpu) / count,
        });
    };
    let mut store = S::open(&folder.join("seq"), options)?;
    timed(&mut || (0..num).for_each(|number| store.put(&key(number), values.of(number))));
    drop(store);
    let mut store = S::open(&folder.join("random"), options)?;
    timed(&mut || {
        let mut rng = Rng(1);
        for _ in 0..num {
            let number = rng.below(num);
            store.put(&key(number), values.of(number));
        }
    });
    drop(store);

    let mut store = S::open(&folder.join("seq"), options)?;
    store.settle();
    // Everything is in the cache before reads are timed.
    store.scan(false, |key, value| {
        black_box((key, value));
    });
    timed(&mut || reads(&store, &values, num));
    timed(&mut || {
        let mut rng = Rng(3);
        for _ in 0..num {
            let mut missing = key(rng.below(num));
            missing[KEY_LEN - 1] = b'1';
            assert!(!store.get(&missing, |_| {}), "a key that was never put");
        }
    });
    timed(&mut || {
        let mut rng = Rng(4);
        store.seek((0..num).map(|_| key(rng.below(num))), |found, value| {
            black_box((found, value));
        });
    });
    for reverse in [false, true] {
        timed(&mut || {
            let mut count = 0;
            store.scan(reverse, |key, value| {
                black_box((key, value));
                count += 1;
            });
            assert_eq!(count, num, "every entry is met");
        });
    }
    Ok(times)
}

fn reads<S: Store>(store: &S, values: &Values, num: u64) {
    let mut rng = Rng(2);
    for _ in 0..num {
        let number = rng.below(num);
        let found = store.get(&key(number), |value| {
            assert!(value == values.of(number), "the value that was put");
        });
        assert!(found, "every key was put");
    }
}

mod cairn_store {
    //! Cairn as a store.

    use std::path::Path;

    use super::{KEY_LEN, Store};

    impl Store for cairn::Db {
        const NAME: &'static str = "Cairn";

        fn open(path: &Path, options: &str) -> Result<cairn::Db, String> {
            let options = cairn::Options::default()
                .create_if_missing(true)
                .text(options);
            options
                .and_then(|options| cairn::Db::open(path, &options))
                .map_err(|error| error.to_string())
        }

        fn put(&mut self, key: &[u8], value: &[u8]) {
            cairn::Db::put(self, key, value).expect("the write succeeds");
        }

        fn get(&self, key: &[u8], mut see: impl FnMut(&[u8])) -> bool {
            let value = cairn::Db::get(self, key).expect("the read succeeds");
            value.as_deref().map(&mut see).is_some()
        }

        fn seek(
            &self,
            keys: impl Iterator<Item = [u8; KEY_LEN]>,
            mut see: impl FnMut(&[u8], &[u8]),
        ) {
            let mut iter = self.iter();
            for key in keys {
                iter.seek(&key);
                see(iter.key(), iter.value());
            }
        }

        fn scan(&self, reverse: bool, mut see: impl FnMut(&[u8], &[u8])) {
            let mut iter = self.iter();
            if reverse {
                iter.seek_to_last()
            } else {
                iter.seek_to_first()
            }
            while iter.valid() {
                see(iter.key(), iter.value());
                if reverse { iter.prev() } else { iter.next() }
            }
            iter.status().expect("the scan reaches the end");
        }

        fn settle(&mut self) {
            self.flush().expect("the flush succeeds");
            self.compact_range(None, None, &cairn::CompactRangeOptions::default())
                .expect("it compacts");
        }
    }
}

mod rocksdb {
    //! RocksDB as a store.

    use std::path::Path;

    use super::{KEY_LEN, Store};
    use crate::rocksdb::{Db, Family, Library, OpenMode};

    const DEFAULT: Family = Family(0);

    impl Store for Db {
        const NAME: &'static str = "RocksDB";

        fn open(path: &Path, options: &str) -> Result<Db, String> {
            let library = Library::locate().map_err(|error| error.to_string())?;
            Db::open(
                &library,
                path,
                options,
                &[("default", options)],
                OpenMode::Create,
            )
            .map_err(|error| error.to_string())
        }

        fn put(&mut self, key: &[u8], value: &[u8]) {
            Db::put(self, DEFAULT, key, value).expect("the write succeeds");
        }

        fn get(&self, key: &[u8], mut see: impl FnMut(&[u8])) -> bool {
            let value = Db::get(self, DEFAULT, key).expect("the read succeeds");
            value.as_deref().map(&mut see).is_some()
        }

        fn seek(
            &self,
            keys: impl Iterator<Item = [u8; KEY_LEN]>,
            mut see: impl FnMut(&[u8], &[u8]),
        ) {
            let mut iter = self.iter(DEFAULT);
            for key in keys {
                iter.seek(&key);
                see(iter.key(), iter.value());
            }
        }

        fn scan(&self, reverse: bool, mut see: impl FnMut(&[u8], &[u8])) {
            let mut iter = self.iter(DEFAULT);
            if reverse {
                iter.seek_to_last()
            } else {
                iter.seek_to_first()
            }
            while iter.valid() {
                see(iter.key(), iter.value());
                if reverse { iter.prev() } else { iter.next() }
            }
            iter.status().expect("the scan reaches the end");
        }

        fn settle(&mut self) {
            self.flush(DEFAULT).expect("the flush succeeds");
            self.compact(DEFAULT);
        }
    }
}
