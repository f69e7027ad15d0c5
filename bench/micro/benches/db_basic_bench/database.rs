//! Databases of the cases.

use std::env;
use std::path::PathBuf;
use std::process;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cairn::compaction::WaitForCompactOptions;
use cairn::observe::{Histogram, Keeping, Statistics, StatsLevel};
use cairn::{Db, Options, Range, SizeApproximationOptions, WriteOptions};
use cairn_bench::key_value_gen::Rng;

use crate::keys::{KEY_LEN, KeyGenerator, random_text};

/// RocksDB's names of the compaction styles, by their numbers.
const STYLES: [&str; 3] = [
    "kCompactionStyleLevel",
    "kCompactionStyleUniversal",
    "kCompactionStyleFIFO",
];

/// Options of a database without automatic compactions and without limits that would delay its writes.
pub const NO_COMPACTION: &str = "disable_auto_compactions=true;level0_file_num_compaction_trigger=1073741824;\
     level0_slowdown_writes_trigger=1073741824;level0_stop_writes_trigger=1073741824;\
     soft_pending_compaction_bytes_limit=0;hard_pending_compaction_bytes_limit=0;";

/// Returns options for the compaction style with this number, with statistics if `statistics` is not 0.
pub fn options(style: u64, statistics: u64) -> Options {
    let mut options = with_text(&format!("compaction_style={}", STYLES[style as usize]));
    options.db.statistics = match statistics {
        0 => Keeping::Nothing,
        _ => Keeping::Shared(Arc::new(Statistics::new(StatsLevel::ExceptDetailedTimers))),
    };
    options
}

/// Returns the default options with the changes in `text`.
pub fn with_text(text: &str) -> Options {
    let options = Options::default().create_if_missing(true);
    options.text(text).expect("the options are valid")
}

/// A new database, destroyed when it is dropped.
pub struct Database {
    db: Option<Db>,
    path: PathBuf,
    options: Options,
}

impl Database {
    /// Creates the database of `case`.
    pub fn create(case: &str, options: Options) -> Database {
        let parent = env::var_os("TEST_TMPDIR").map_or_else(env::temp_dir, PathBuf::from);
        let path = parent.join(format!("{case}{}", process::id()));
        Db::destroy(&path, &options).expect("a database left behind can be destroyed");
        let db = Db::open(&path, &options).expect("the database can be created");
        Database {
            db: Some(db),
            path,
            options,
        }
    }

    /// The open database.
    pub fn db(&self) -> &Db {
        self.db.as_ref().expect("the database is open")
    }

    /// Opens the database. Returns the time that it took.
    pub fn open(&mut self) -> Duration {
        let began = Instant::now();
        let db = Db::open(&self.path, &self.options).expect("the database can be opened");
        let time = began.elapsed();
        self.db = Some(db);
        time
    }

    /// Closes the database. Returns the time that it took.
    pub fn close(&mut self) -> Duration {
        let db = self.db.take().expect("the database is open");
        let began = Instant::now();
        db.close().expect("the database can be closed");
        began.elapsed()
    }

    /// Writes `count` values of `len` characters without a log, each to the next of `keys`.
    pub fn fill(&self, keys: &mut KeyGenerator, count: u64, len: usize) {
        let (mut random, mut value) = (Rng::new(301), vec![0; len]);
        for _ in 0..count {
            random_text(&mut random, &mut value);
            self.put_unlogged(&keys.next_key(), &value);
        }
    }

    /// Writes an entry without a log.
    pub fn put_unlogged(&self, key: &[u8], value: &[u8]) {
        let options = WriteOptions {
            disable_wal: true,
            ..WriteOptions::default()
        };
        let written = self.db().put_with(key, value, &options);
        written.expect("the entry can be written");
    }

    /// Flushes the database and waits for all compactions.
    pub fn settle(&self) {
        self.db().flush().expect("the database can be flushed");
        self.wait_for_compactions();
    }

    /// Waits for all compactions.
    pub fn wait_for_compactions(&self) {
        let waited = self
            .db()
            .wait_for_compact(&WaitForCompactOptions::default());
        waited.expect("compactions succeed");
    }

    /// The total size of the tables, by RocksDB's name.
    pub fn size(&self) -> (&'static str, f64) {
        let range = Range::new(&[0; KEY_LEN], &[0xff; KEY_LEN]);
        let options = SizeApproximationOptions::default();
        let sizes = self
            .db()
            .default_family()
            .approximate_sizes(&[range], &options);
        ("db_size", sizes.expect("the size can be read")[0] as f64)
    }

    /// Mean and percentiles of a histogram in microseconds, here in nanoseconds; empty without statistics.
    pub fn times(
        &self,
        histogram: Histogram,
        names: [&'static str; 3],
    ) -> Vec<(&'static str, f64)> {
        let Some(statistics) = self.db().statistics() else {
            return Vec::new();
        };
        let data = statistics.histogram(histogram);
        let values = [data.average(), data.percentile(95.0), data.percentile(99.0)];
        let nanos = values.map(|micros| micros * 1000.0);
        names.into_iter().zip(nanos).collect()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        drop(self.db.take());
        let destroyed = Db::destroy(&self.path, &self.options);
        if let Err(error) = destroyed {
            eprintln!("{} could not be destroyed: {error}", self.path.display());
        }
    }
}
