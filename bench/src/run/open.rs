//! Opens a database repeatedly and reads the first key.
//!
//! Cairn opens a table on first use; RocksDB opens all tables with the database, unless `max_open_files`
//! prevents it. `openall` makes them comparable: every table is opened before the read, which is verified by
//! means of the open file descriptors of the process.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use cairn::{Error, Result};

use super::{Checked, Outcome, Run, seed, settings, wrong_value};
use crate::bench_stats::BenchStats;
use crate::benchmarks::Benchmark;
use crate::engine::{Engine, Session, Source};
use crate::key_value_gen::Rng;
use crate::measurement::Measurement;
use crate::resource_usage::{Usage, peak_memory, reset_peak};

impl<S: Source> Run<'_, S> {
    /// Opens the database, gets a random key and closes it, repeatedly. Closing is not measured;
    /// background work during the read is. With `all`, every table is open before the read.
    pub(super) fn open_again_and_again(
        &mut self,
        benchmark: &Benchmark,
        checked: Checked,
        all: bool,
    ) -> Result<Outcome> {
        self.close()?;
        let flags = &benchmark.flags;
        let (values, layout) = (checked.values(benchmark), flags.layout());
        let mut rng = Rng::new(seed(benchmark, 0));
        let mut key = vec![0; flags.key_size];
        let (mut stats, mut usage) = (BenchStats::default(), Usage::default());
        let (mut opening, mut elapsed) = (0, 0);
        reset_peak();
        for _ in 0..benchmark.operations() {
            let number = rng.below(flags.num.max(1));
            layout.write(number, &mut key);
            let cache = benchmark.setup.cache.as_ref();
            let cache = cache.map(|cache| self.source.cache(cache)).transpose()?;
            let (before, began) = (Usage::now(), Instant::now());
            let options = &benchmark.setup.options;
            let db = self.source.open(&self.dir, options, cache.as_ref())?;
            if all {
                // This property opens every table.
                let _ = db.property("rocksdb.aggregated-table-properties");
            }
            let opened = began.elapsed().as_nanos() as u64;
            if all {
                every_table_is_open(&self.dir)?;
            }
            let got = Instant::now();
            let found = db.session(&settings(flags)).get(&key, |value| {
                stats.bytes += (flags.key_size + value.len()) as u64;
                match checked.is_right(&values, number, value) {
                    true => Ok(()),
                    false => Err(wrong_value(number, value.len())),
                }
            })?;
            // The check of the file descriptors is excluded.
            let nanos = opened + got.elapsed().as_nanos() as u64;
            usage.add(&Usage::now().since(&before));
            opening += opened;
            elapsed += nanos;
            stats.looked += 1;
            stats.found += u64::from(found);
            stats.done += 1;
            if flags.histogram {
                stats.record(nanos);
            }
            db.close()?;
        }
        stats.nanos = elapsed;
        let mut measured = Measurement::of(&benchmark.name, &stats, elapsed);
        measured.usage = usage;
        measured.peak_memory = peak_memory();
        measured.space = crate::db_dir::space(&self.dirs(benchmark));
        let each = |nanos: u64| nanos as f64 / 1e6 / stats.done.max(1) as f64;
        measured.figures = vec![
            ("milliseconds to open".to_owned(), each(opening)),
            ("milliseconds to the first get".to_owned(), each(elapsed)),
        ];
        Ok(Outcome {
            stats,
            measured,
            text: String::new(),
        })
    }
}

/// Fails if a table in `dir` is not open in this process.
fn every_table_is_open(dir: &Path) -> Result<()> {
    let (tables, open) = (tables(dir)?, open_tables(dir)?);
    match tables.iter().find(|table| !open.contains(*table)) {
        None => Ok(()),
        Some(table) => Err(Error::io_text(format!(
            "openall requires all tables to be open (max_open_files=-1): {} of {} are open, {} is not",
            open.len(),
            tables.len(),
            table.display()
        ))),
    }
}

/// Returns the tables in `dir`.
fn tables(dir: &Path) -> Result<BTreeSet<PathBuf>> {
    let failed = |error| Error::io("list", dir, error);
    let dir = std::fs::canonicalize(dir).map_err(failed)?;
    let entries = std::fs::read_dir(&dir).map_err(failed)?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| is_table(path)).collect())
}

/// Returns the tables in `dir` that this process has open.
fn open_tables(dir: &Path) -> Result<BTreeSet<PathBuf>> {
    let descriptors = Path::new("/proc/self/fd");
    let dir = std::fs::canonicalize(dir).map_err(|error| Error::io("find", dir, error))?;
    let entries =
        std::fs::read_dir(descriptors).map_err(|error| Error::io("list", descriptors, error))?;
    let links = entries
        .flatten()
        .map(|entry| std::fs::read_link(entry.path()));
    let links = links.flatten();
    Ok(links
        .filter(|path| path.starts_with(&dir) && is_table(path))
        .collect())
}

fn is_table(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "sst")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_not_open_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["000007.sst", "000008.sst", "LOG"] {
            std::fs::write(dir.path().join(name), b"x").unwrap();
        }
        let one = std::fs::File::open(dir.path().join("000007.sst")).unwrap();
        let error = every_table_is_open(dir.path()).unwrap_err().to_string();
        assert!(
            error.contains("1 of 2") && error.contains("000008.sst"),
            "{error}"
        );
        let two = std::fs::File::open(dir.path().join("000008.sst")).unwrap();
        every_table_is_open(dir.path()).unwrap();
        drop((one, two));
    }
}
