//! Statistics, properties, listeners and perf contexts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairn::observe::perf::{self, PerfLevel, PerfMetric};
use cairn::observe::{EventListener, FlushJobInfo, Statistics, Ticker};
use cairn::properties::approximate_memory_usage;
use cairn::{Db, Options, World};

use crate::database;

#[test]
fn tickers_and_properties_count_what_was_done() {
    let db = database("");
    for key in 0..10 {
        db.put(&[key], b"value").unwrap();
    }
    let statistics: &Arc<Statistics> = db.statistics().unwrap();
    assert_eq!(statistics.ticker(Ticker::NumberKeysWritten), 10);
    let in_memory = "rocksdb.num-entries-active-mem-table";
    assert_eq!(db.property_number(in_memory), Some(10));
    db.flush().unwrap();
    assert_eq!(db.property_number(in_memory), Some(0));
    assert!(db.property("rocksdb.stats").unwrap().contains("DB Stats"));
    assert!(Db::property_names().any(|name| name == in_memory));
    assert_eq!(db.properties_of_all_tables().unwrap().len(), 1);
    assert!(db.get(&[1]).unwrap().is_some());
    let usage = approximate_memory_usage(&[&db], &[]);
    assert!(usage.mem_table_total >= usage.mem_table_unflushed);
    assert!(usage.cache_total > 0, "the caches of the families count");
}

#[test]
fn a_thread_counts_its_own_reads() {
    let db = database("");
    db.put(b"k", b"value").unwrap();
    perf::set_level(PerfLevel::EnableCount);
    perf::reset();
    db.get(b"k").unwrap();
    assert_eq!(perf::metric(PerfMetric::GetReadBytes), 5);
}

#[derive(Default)]
struct Flushes(AtomicU64);

impl EventListener for Flushes {
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        assert_eq!(info.family_name, "default");
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn listeners_are_called() {
    let flushes = Arc::new(Flushes::default());
    let options = Options::default().create_if_missing(true);
    let builder = Db::builder("/db").world(World::in_memory());
    let options = options.listener(flushes.clone());
    let db = builder.options(options).open().unwrap();
    db.put(b"k", b"v").unwrap();
    db.flush().unwrap();
    assert_eq!(flushes.0.load(Ordering::Relaxed), 1);
}
