//! The engines that run a workload.

use std::path::Path;

use cairn_bench::rocksdb::{Db, Family, OpenMode};

use crate::content::{Content, Row, without_columns};
use crate::reference;
use crate::workload::{Change, Durable, Engine, FAMILIES};

/// The options of a workload's families: those of each family, and `common`.
#[must_use]
pub fn family_options(common: &str) -> Vec<(&'static str, String)> {
    let options = FAMILIES.map(|family| (family.name, format!("{};{common}", family.options)));
    options.to_vec()
}

/// A RocksDB database.
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
        if changes
            .iter()
            .any(|change| matches!(change, Change::PutEntity(..)))
        {
            let batch = self.0.batch_of(&encoded(changes));
            return self.0.write(&batch).expect("RocksDB writes");
        }
        let mut batch = self.0.batch();
        for change in changes {
            match change {
                Change::PutEntity(..) => unreachable!("there is none"),
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

    /// The C interface returns only the default column.
    fn shown(&self, content: Content) -> Content {
        without_columns(content)
    }
}

/// `changes` as a serialized write batch. The id of a family is its index in the list.
fn encoded(changes: &[Change]) -> Vec<u8> {
    let mut batch = cairn_format::batch::WriteBatch::new();
    let id = |family: &usize| u32::try_from(*family).expect("there are few families");
    for change in changes {
        let added = match change {
            Change::Put(family, key, value) => batch.put(id(family), key, value),
            Change::PutEntity(family, key, columns) => {
                let pairs = columns.iter().map(|(name, value)| (&name[..], &value[..]));
                let mut entity = Vec::new();
                cairn_format::wide::encode_unsorted(&pairs.collect::<Vec<_>>(), &mut entity)
                    .expect("the columns have different names");
                batch.put_entity(id(family), key, &entity)
            }
            Change::Merge(family, key, operand) => batch.merge(id(family), key, operand),
            Change::Delete(family, key) => batch.delete(id(family), key),
            Change::SingleDelete(family, key) => batch.single_delete(id(family), key),
            Change::DeleteRange(family, begin, end) => batch.delete_range(id(family), begin, end),
        };
        added.expect("the batch is small");
    }
    batch.into_bytes()
}

/// A Cairn database.
pub struct Cairn(cairn::Db);

impl Durable for Cairn {
    fn open(path: &Path, options: &str, common: &str) -> Result<Cairn, String> {
        let words = |error: cairn::Error| error.to_string();
        let options = cairn::Options::default()
            .create_if_missing(true)
            .create_missing_column_families(true)
            .text(options)
            .map_err(words)?;
        let mut families = Vec::new();
        for (name, text) in family_options(common) {
            let family = cairn::Options::default().text(&text).map_err(words)?.family;
            families.push(cairn::FamilyDescriptor::new(name, family));
        }
        let builder = cairn::Db::builder(path).options(options);
        builder.families(families).open().map(Cairn).map_err(words)
    }
}

impl Cairn {
    /// Opens a secondary instance of the database at `path`, with a LOG in `own`.
    ///
    /// # Errors
    ///
    /// Those of Cairn.
    pub fn follow(path: &Path, own: &Path) -> Result<Cairn, String> {
        let words = |error: cairn::Error| error.to_string();
        let mut families = Vec::new();
        for (name, text) in family_options("") {
            let family = cairn::Options::default().text(&text).map_err(words)?.family;
            families.push(cairn::FamilyDescriptor::new(name, family));
        }
        let builder = cairn::Db::builder(path).families(families);
        builder.open_as_secondary(own).map(Cairn).map_err(words)
    }

    /// Brings a secondary instance up to date.
    ///
    /// # Errors
    ///
    /// Those of Cairn.
    pub fn catch_up(&self) -> Result<(), String> {
        let caught_up = self.0.try_catch_up_with_primary();
        caught_up.map_err(|error| error.to_string())
    }

    fn family(&self, number: usize) -> cairn::Family<'_> {
        self.0.family(FAMILIES[number].name).expect("it was opened")
    }
}

impl Engine for Cairn {
    fn write(&mut self, changes: &[Change]) {
        let mut batch = cairn::WriteBatch::new();
        for change in changes {
            match change {
                Change::PutEntity(family, key, columns) => {
                    let columns = columns.iter().map(|(name, value)| (&name[..], &value[..]));
                    let columns: Vec<_> = columns.collect();
                    batch.put_entity_in(&self.family(*family), key, &columns);
                }
                Change::Put(family, key, value) => batch.put_in(&self.family(*family), key, value),
                Change::Merge(family, key, operand) => {
                    batch.merge_in(&self.family(*family), key, operand);
                }
                Change::Delete(family, key) => batch.delete_in(&self.family(*family), key),
                Change::SingleDelete(family, key) => {
                    batch.single_delete_in(&self.family(*family), key);
                }
                Change::DeleteRange(family, begin, end) => {
                    batch.delete_range_in(&self.family(*family), begin, end);
                }
            }
        }
        self.0.write(&batch).expect("Cairn writes");
    }

    fn flush(&mut self, family: usize) {
        self.family(family).flush().expect("Cairn flushes");
    }

    fn compact(&mut self, family: usize) {
        let whole = cairn::CompactRangeOptions::default();
        self.family(family)
            .compact_range(None, None, &whole)
            .expect("Cairn compacts");
    }

    fn settle(&mut self) {
        self.0.wait_until_quiet().expect("Cairn becomes quiet");
    }

    fn content(&mut self) -> Content {
        let mut content = Content::new();
        for family in self.0.families() {
            let mut rows = crate::content::Rows::default();
            let mut iter = family.iter();
            iter.seek_to_first();
            while iter.valid() {
                let columns = iter.columns().expect("it stands on a key");
                let columns: Vec<_> = columns.iter().collect();
                let row = Row::of(iter.key(), iter.value());
                rows.rows.push(row.with_columns(&columns));
                iter.next();
            }
            rows.error = iter.status().err().map(|error| error.to_string());
            content.insert(family.name().to_owned(), rows);
        }
        content
    }
}
