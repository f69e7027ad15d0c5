//! Benchmarks that few ask for: operands unmerged, a tree of always the same shape, and figures of
//! the tree instead of times.

use std::fmt::Write;
use std::path::Path;

use cairn::{CompactRangeOptions, Db};
use cairn_platform::{FileSystem, PosixFileSystem};
use cairn_types::Result;

use super::Worker;
use crate::bench::work::write_key;

/// As many operands of a key are asked for at most.
const MOST_OPERANDS: usize = 1000;

/// Properties that `stats` prints.
const PROPERTIES: [&str; 6] = [
    "rocksdb.estimate-num-keys",
    "rocksdb.total-sst-files-size",
    "rocksdb.live-sst-files-size",
    "rocksdb.total-blob-file-size",
    "rocksdb.estimate-live-data-size",
    "rocksdb.estimate-pending-compaction-bytes",
];

/// The tree and its space, as text.
pub(super) fn stats(db: &Db, dir: &Path) -> Result<String> {
    let mut text = db.property("rocksdb.levelstats").unwrap_or_default();
    for name in PROPERTIES {
        if let Some(value) = db.property(name) {
            let _ = writeln!(text, "{name}: {value}");
        }
    }
    if let Some(stats) = db.property("rocksdb.stats") {
        text += &stats;
    }
    let (fs, mut bytes) = (PosixFileSystem, 0);
    for name in fs.list(dir)? {
        // A file may have gone since.
        bytes += fs.status(&dir.join(name)).map_or(0, |status| status.len);
    }
    let _ = writeln!(text, "bytes on disk: {bytes}");
    Ok(text)
}

impl Worker<'_> {
    /// Gets the operands of random keys.
    pub(super) fn operands(&mut self) -> Result<()> {
        let mut done = 0;
        while self.goes_on(done) {
            self.random_key();
            self.tally.looked += 1;
            let family = &self.job.family;
            let operands = family.get_merge_operands(&self.key, MOST_OPERANDS, &self.read)?;
            self.tally.found += u64::from(!operands.is_empty());
            self.tally.bytes += operands.iter().map(|one| one.len() as u64).sum::<u64>();
            done += 1;
            self.finished(1);
        }
        Ok(())
    }

    /// Writes all keys in order as many times as there are levels to fill, each time fewer of them:
    /// the first, largest part goes to the last level, and so on upwards, as db_bench does it.
    pub(super) fn fill_levels(&mut self) -> Result<()> {
        const LEVELS: u32 = 4;
        let mut share = self.flags.num;
        for level in 0..LEVELS {
            for number in 0..share {
                write_key(number, &mut self.key);
                let value = self.job.values.of(number);
                self.tally.bytes += (self.key.len() + value.len()) as u64;
                self.job.db.put_with(&self.key, value, &self.write)?;
                self.finished(1);
            }
            self.job.db.flush()?;
            if level == 0 {
                let whole = CompactRangeOptions::default();
                self.job.db.compact_range(None, None, &whole)?;
            }
            self.job.db.wait_until_quiet()?;
            share = (share / 10).max(1);
        }
        Ok(())
    }
}
