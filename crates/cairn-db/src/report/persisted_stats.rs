//! The history of statistics in a column family (`persist_stats_to_disk`), in RocksDB's form.
//!
//! ```text
//! 1800000000#rocksdb.block.cache.miss    -> 17      the growth of a ticker up to this second since 1970
//! __persistent_stats_format_version__    -> 1
//! __persistent_stats_compatible_version__ -> 1
//! ```
//!
//! The family has options of its own, and is opened without being listed, also without the option. It holds no log for
//! long: it is flushed with other families once it is the only one that needs an old log.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_observe::statistics::Ticker;
use cairn_observe::statistics::history::Slice;
use cairn_options::{ReadOptions, WriteOptions};
use cairn_types::{Error, Result};

use crate::catalog::family::FamilyState;
use crate::db::Db;
use crate::report::stats_family::{self, STATS_FAMILY};
use crate::shared::Shared;
use crate::write::awaited_writes::AwaitedWrites;
use crate::write::batch::WriteBatch;

const FORMAT_KEY: &[u8] = b"__persistent_stats_format_version__";
const COMPATIBLE_KEY: &[u8] = b"__persistent_stats_compatible_version__";
/// The version of the form above, and the first version whose readers know it.
const VERSION: u64 = 1;

/// The maximum length of a key.
const MAX_KEY: usize = 100;

/// Writes of statistics must not delay those of the program.
fn write_options() -> WriteOptions {
    WriteOptions {
        low_pri: true,
        no_slowdown: true,
        ..WriteOptions::default()
    }
}

/// Returns the key of the ticker `name` at `seconds`, the first ten digits of which sort by time.
fn key(seconds: u64, name: &str) -> Vec<u8> {
    let mut key = format!("{seconds:010}#{name}").into_bytes();
    key.truncate(MAX_KEY);
    key
}

/// Returns the time and the name of the ticker in `key`; `None` for a version.
fn parse_key(key: &[u8]) -> Option<(u64, &str)> {
    let (seconds, name) = std::str::from_utf8(key).ok()?.split_once('#')?;
    Some((seconds.parse().ok()?, name))
}

fn parse_number(value: &[u8]) -> Option<u64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}

impl Db {
    /// Opens the history: creates the family unless it exists in a form that can be read.
    ///
    /// # Errors
    ///
    /// `IoError` of the family; those of creations and writes.
    pub(crate) fn open_persisted_stats(&self) -> Result<()> {
        if let Some(family) = self.family(STATS_FAMILY) {
            let version = |key: &[u8]| match family.get(key) {
                Ok(value) => Ok(value.and_then(|value| parse_number(&value))),
                Err(error) if error.is_corruption() => Ok(None),
                Err(error) => Err(error),
            };
            let versions = (version(FORMAT_KEY)?, version(COMPATIBLE_KEY)?);
            let is_known = matches!(
                versions,
                (Some(format), Some(compatible)) if format <= VERSION || compatible <= VERSION
            );
            if is_known {
                return Ok(());
            }
            self.shared().context.info.warn(format_args!(
                "the persisted history of statistics is begun again: its versions {versions:?} are not known"
            ));
            self.drop_family(&family)?;
        }
        let created = self.create_family(STATS_FAMILY, &stats_family::options())?;
        let mut batch = WriteBatch::new();
        for key in [FORMAT_KEY, COMPATIBLE_KEY] {
            let value = VERSION.to_string();
            batch.add(created.id(), |batch| {
                batch.put(created.id(), key, value.as_bytes())
            });
        }
        self.shared().write_undated(&batch, &write_options())
    }

    /// Returns the intervals in the family that ended between `from` (inclusive) and `to` (exclusive).
    pub(crate) fn persisted_stats(&self, from: u64, to: u64) -> Result<Vec<Arc<Slice>>> {
        let Some(family) = self.family(STATS_FAMILY) else {
            return Ok(Vec::new());
        };
        let mut slices = BTreeMap::<u64, Vec<(Ticker, u64)>>::new();
        let mut iter = family.iter_with(&ReadOptions::default());
        iter.seek(format!("{from:010}").as_bytes());
        while iter.valid() {
            let Some((seconds, name)) = parse_key(iter.key()).filter(|(at, _)| *at < to) else {
                break;
            };
            let grown = parse_number(iter.value()).ok_or_else(|| {
                Error::corruption(format!("the persisted statistics of second {seconds}"))
            })?;
            let slice = slices.entry(seconds).or_default();
            slice.extend(Ticker::named(name).map(|ticker| (ticker, grown)));
            iter.next();
        }
        iter.status()?;
        let slices = slices.into_iter();
        Ok(slices
            .map(|(seconds, grown)| Arc::new(Slice::new(seconds, grown)))
            .collect())
    }
}

impl Shared {
    /// Appends `slice` to the history, on another thread: the write may wait for a flush, for which this thread may be
    /// needed.
    pub(crate) fn persist_stats(self: &Arc<Self>, slice: Slice) {
        let weak = Arc::downgrade(self);
        let write = move || {
            let Some(shared) = weak.upgrade().filter(|it| !it.lifecycle.is_closing()) else {
                return;
            };
            if let Err(error) = shared.write_stats(&slice) {
                shared.context.info.info(format_args!(
                    "Writing to persistent stats CF failed -- {error}"
                ));
            }
        };
        AwaitedWrites::start(&self.awaited, false, Box::new(write));
    }

    fn write_stats(self: &Arc<Self>, slice: &Slice) -> Result<()> {
        let family = self.catalog.families().named(STATS_FAMILY).cloned();
        let family = family.ok_or_else(|| Error::not_found("the column family was dropped"))?;
        let id = family.id();
        let mut batch = WriteBatch::new();
        for (ticker, grown) in slice.tickers() {
            let (key, value) = (key(slice.seconds(), ticker.name()), grown.to_string());
            batch.add(id, |batch| batch.put(id, &key, value.as_bytes()));
        }
        self.write_undated(&batch, &write_options())
    }

    /// Writes `batch` to the family, whose values have no times of their writing.
    fn write_undated(self: &Arc<Self>, batch: &WriteBatch, options: &WriteOptions) -> Result<()> {
        self.check_write(batch, options)?;
        self.write_stored(batch, options, None)
    }

    /// Returns `families`, which are to be flushed, and that of statistics if it would be the only one to keep old logs.
    pub(crate) fn with_lagging_stats(
        &self,
        families: &[Arc<FamilyState>],
    ) -> Vec<Arc<FamilyState>> {
        let stats = self.lagging_stats(families);
        families.iter().cloned().chain(stats).collect()
    }

    fn lagging_stats(&self, families: &[Arc<FamilyState>]) -> Option<Arc<FamilyState>> {
        if !self.options().persist_stats_to_disk {
            return None;
        }
        let stats = self.catalog.families().named(STATS_FAMILY).cloned()?;
        let is_included = families.iter().any(|family| family.id() == stats.id());
        if families.is_empty() || is_included || stats.memtable().is_empty() {
            return None;
        }
        let tree = self.tree.lock();
        let needed = tree.families.get(&stats.id())?.log_number;
        let mut others = tree.families.iter().filter(|(id, _)| **id != stats.id());
        let is_last = others.all(|(_, other)| other.log_number > needed);
        drop(tree);
        is_last.then_some(stats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_rocksdb() {
        let short = key(1_700_000_000, "rocksdb.bytes.read");
        assert_eq!(short, b"1700000000#rocksdb.bytes.read");
        assert_eq!(key(17, "t"), b"0000000017#t");
        assert_eq!(key(17, &"t".repeat(200)).len(), 100);
        assert_eq!(
            parse_key(&short),
            Some((1_700_000_000, "rocksdb.bytes.read"))
        );
        for other in [FORMAT_KEY, COMPATIBLE_KEY, b"x#y", b"17", b"\xff#a"] {
            assert_eq!(parse_key(other), None);
        }
        assert!(key(u64::from(u32::MAX), "t") < FORMAT_KEY.to_vec());
    }
}
