//! The engines that carry out a workload.

use std::path::Path;

use cairn_bench::rocksdb::{Db, Family, OpenMode};

use crate::content::Content;
use crate::reference;
use crate::workload::{Change, Durable, Engine, FAMILIES};

/// Options of the families of a workload: what is special about each, and `common`.
#[must_use]
pub fn family_options(common: &str) -> Vec<(&'static str, String)> {
    let options = FAMILIES.map(|family| (family.name, format!("{};{common}", family.options)));
    options.to_vec()
}

/// RocksDB, on a directory.
pub struct RocksDb(Db);

impl Durable for RocksDb {
    fn open(path: &Path, options: &str, common: &str) -> Result<RocksDb, String> {
        let library = reference::library()?;
        let families = family_options(common);
        let families: Vec<_> = families
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .collect();
        Db::open(&library, path, options, &families, OpenMode::Create)
            .map(RocksDb)
            .map_err(|error| error.to_string())
    }
}

impl Engine for RocksDb {
    fn write(&mut self, changes: &[Change]) {
        let mut batch = self.0.batch();
        for change in changes {
            match change {
                Change::Put(family, key, value) => batch.put(Family(*family), key, value),
                Change::Merge(family, key, operand) => batch.merge(Family(*family), key, operand),
                Change::Delete(family, key) => batch.delete(Family(*family), key),
                Change::SingleDelete(family, key) => batch.single_delete(Family(*family), key),
                Change::DeleteRange(family, begin, end) => {
                    batch.delete_range(Family(*family), begin, end);
                }
            }
        }
        self.0.write(&batch).expect("RocksDB writes");
    }

    fn flush(&mut self, family: usize) {
        self.0.flush(Family(family)).expect("RocksDB flushes");
    }

    fn compact(&mut self, family: usize) {
        self.0.compact(Family(family));
    }

    fn content(&mut self) -> Content {
        reference::read(&self.0)
    }
}
