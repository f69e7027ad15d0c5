//! Values other than plain ones: wide-column entities, attribute groups, timed puts, and unmerged operands.
//!
//! An entity is a value that consists of named columns. A plain get returns its column without a name; a
//! plain value is an entity with only that column. Attribute groups are entities of one key in several
//! families, so that columns that are read together are stored together.

use cairn_format::wide;
use cairn_options::{ReadOptions, WriteOptions};
use cairn_read::{Columns, GetMergeOperandsOptions, Operands, operands};
use cairn_types::{Error, Result};

use crate::db::Db;
use crate::db::handle::Family;
use crate::db::timestamps::needs_timestamp;
use crate::write::batch::WriteBatch;

/// A column to write: name and value.
pub type Column<'a> = (&'a [u8], &'a [u8]);

/// Encodes an entity of `columns`, which may be in any order.
fn encoded(columns: &[Column<'_>]) -> Result<Vec<u8>> {
    let mut entity = Vec::new();
    wide::encode_unsorted(columns, &mut entity)?;
    Ok(entity)
}

impl WriteBatch {
    /// Sets `key` to an entity of `columns`, pairs of name and value in any order. The empty name is that of
    /// the default column. Duplicate names fail with `Corruption` when the batch is written, as in RocksDB.
    pub fn put_entity(&mut self, key: &[u8], columns: &[Column<'_>]) {
        self.put_entity_of(0, key, columns);
    }

    /// [`WriteBatch::put_entity`] in `family`.
    pub fn put_entity_in(&mut self, family: &Family, key: &[u8], columns: &[Column<'_>]) {
        if family.timestamp_size() > 0 {
            return self.refuse(needs_timestamp(family.name()));
        }
        let id = self.id_of(family);
        self.put_entity_of(id, key, columns);
    }

    fn put_entity_of(&mut self, family: u32, key: &[u8], columns: &[Column<'_>]) {
        self.add(family, |batch| {
            batch.put_entity(family, key, &encoded(columns)?)
        });
    }

    /// Sets `key` to an entity in each of several families.
    pub fn put_attribute_groups(&mut self, key: &[u8], groups: &[(&Family, &[Column<'_>])]) {
        for (family, columns) in groups {
            self.put_entity_in(family, key, columns);
        }
    }

    /// Sets `key` to `value` with the write time `unix_seconds`. The time only affects the placement of the
    /// value by RocksDB's tiered compaction.
    pub fn timed_put(&mut self, key: &[u8], value: &[u8], unix_seconds: u64) {
        self.add(0, |batch| batch.timed_put(0, key, value, unix_seconds));
    }

    /// [`WriteBatch::timed_put`] in `family`.
    pub fn timed_put_in(&mut self, family: &Family, key: &[u8], value: &[u8], unix_seconds: u64) {
        if family.timestamp_size() > 0 {
            return self.refuse(Error::not_supported(
                "timed puts in a column family whose keys have timestamps",
            ));
        }
        let id = self.id_of(family);
        self.add(id, |batch| batch.timed_put(id, key, value, unix_seconds));
    }
}

impl Family {
    /// Sets `key` to an entity of `columns`, pairs of name and value in any order.
    ///
    /// # Errors
    ///
    /// `Corruption` for duplicate names; otherwise see [`Db::write_with`].
    pub fn put_entity(&self, key: &[u8], columns: &[Column<'_>]) -> Result<()> {
        self.put_entity_with(key, columns, &WriteOptions::default())
    }

    /// Like [`Family::put_entity`], with options.
    ///
    /// # Errors
    ///
    /// Those of [`Family::put_entity`].
    pub fn put_entity_with(
        &self,
        key: &[u8],
        columns: &[Column<'_>],
        options: &WriteOptions,
    ) -> Result<()> {
        self.single(options, |batch| batch.put_entity_in(self, key, columns))
    }

    /// Sets `key` to `value` with the write time `unix_seconds`.
    ///
    /// # Errors
    ///
    /// See [`Db::write_with`].
    pub fn timed_put(&self, key: &[u8], value: &[u8], unix_seconds: u64) -> Result<()> {
        self.single(&WriteOptions::default(), |batch| {
            batch.timed_put_in(self, key, value, unix_seconds);
        })
    }

    /// Returns the value of `key` and its merge operands, oldest first, pinned without a copy; empty if the key
    /// does not exist. The merge operator is not called. For an entity, the value is that of the default column.
    ///
    /// # Errors
    ///
    /// `Incomplete` (`MergeOperandsInsufficientCapacity`) if there are more than `expected_max`; the message has
    /// their number. Otherwise those of [`Family::get_with`].
    pub fn get_merge_operands(
        &self,
        key: &[u8],
        expected_max: usize,
        options: &ReadOptions,
    ) -> Result<Operands> {
        let mut request = GetMergeOperandsOptions {
            expected_max_number_of_operands: expected_max,
            ..GetMergeOperandsOptions::default()
        };
        self.get_merge_operands_with(key, &mut request, options)
    }

    /// Like [`Family::get_merge_operands`], with a function that ends the read at an operand.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_merge_operands`]; `request` then has the number of operands.
    pub fn get_merge_operands_with(
        &self,
        key: &[u8],
        request: &mut GetMergeOperandsOptions<'_>,
        options: &ReadOptions,
    ) -> Result<Operands> {
        self.found_by(key, options, |view, lookup, options| {
            operands(view, lookup, options, request)
        })
    }
}

impl Db {
    /// Sets `key` to an entity in each of several families, atomically.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` without any group; otherwise those of [`Family::put_entity`].
    pub fn put_attribute_groups(
        &self,
        key: &[u8],
        groups: &[(&Family, &[Column<'_>])],
        options: &WriteOptions,
    ) -> Result<()> {
        if groups.is_empty() {
            return Err(Error::invalid_argument(
                "attribute groups to put: expected one or more, found none",
            ));
        }
        let mut batch = WriteBatch::new();
        batch.put_attribute_groups(key, groups);
        self.write_with(&batch, options)
    }

    /// Returns the columns of `key` in each of `families`, or an error for each that cannot be read, from a
    /// consistent view.
    pub fn get_attribute_groups(
        &self,
        key: &[u8],
        families: &[&Family],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Columns>>> {
        if let Err(error) = self.check_families(families.iter().copied()) {
            return families.iter().map(|_| Err(error.clone())).collect();
        }
        let keys: Vec<_> = families.iter().map(|family| (*family, key)).collect();
        self.multi_get_entity_in(&keys, options, false)
    }
}
