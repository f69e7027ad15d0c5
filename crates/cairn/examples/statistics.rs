//! Observing a database: statistics, properties, the perf context and listeners.
//!
//! `cargo run -p cairn --example statistics`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cairn::observe::perf::{self, PerfLevel, PerfMetric};
use cairn::observe::{EventListener, FlushJobInfo, Histogram, Ticker};
use cairn::{Db, Options};

/// Counts flushes.
#[derive(Default)]
struct Flushes(AtomicU64);

impl EventListener for Flushes {
    fn on_flush_completed(&self, info: &FlushJobInfo) {
        println!("{} (reason: {})", info.file_path, info.flush_reason.text());
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let flushes = Arc::new(Flushes::default());
    let options = Options::default().create_if_missing(true);
    let db = Db::open(dir.path(), &options.listener(flushes.clone()))?;
    for number in 0..1000_u32 {
        db.put(&number.to_be_bytes(), &[7; 100])?;
    }
    db.flush()?;

    // Counters of the calling thread.
    perf::set_level(PerfLevel::EnableCount);
    perf::reset();
    for number in 0..100_u32 {
        assert!(db.get(&number.to_be_bytes())?.is_some());
    }
    assert_eq!(perf::metric(PerfMetric::GetReadBytes), 100 * 100);
    println!("{}", perf::report(true));

    // Tickers and histograms of the database, by RocksDB's names.
    let statistics = db.statistics().ok_or("statistics are enabled by default")?;
    assert_eq!(statistics.ticker(Ticker::NumberKeysWritten), 1000);
    assert_eq!(statistics.ticker(Ticker::NumberKeysRead), 100);
    let written = statistics.histogram(Histogram::BytesPerWrite);
    println!("bytes per write: {:.0} on average", written.average());
    assert!(written.average() > 100.0);

    // Properties.
    let files = db.property("rocksdb.num-files-at-level0");
    assert_eq!(files.as_deref(), Some("1"));
    println!(
        "{}",
        db.property("rocksdb.stats")
            .ok_or("every database has this property")?
    );
    assert_eq!(flushes.0.load(Ordering::Relaxed), 1);
    Ok(db.close()?)
}
