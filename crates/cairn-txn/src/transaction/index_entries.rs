//! Writes of records that have entries in secondary indexes: see [`crate::secondary_index`].
//!
//! ```text
//! lock the record and read it -> delete its entries -> write it, with the values of the indexes -> put the new entries
//! ```
//!
//! Each write is a save point of its own: after an error or a panic of an index, nothing of it remains. The records that
//! it adds to the batch are those of RocksDB, in the same order. Entries are checked for conflicts if the record is.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use cairn_db::{Column, Columns, Family};
use cairn_options::ReadOptions;
use cairn_types::Result;

use super::access::{Access, Change};
use super::{Policy, Transaction};
use crate::secondary_index::{SecondaryIndex, SecondaryIndexIter, entry_key, secondary_family};

/// A column of a record that is being written: name and value.
type Written<'a> = (&'a [u8], Cow<'a, [u8]>);

/// The indexes of a transaction.
type Indexes = Vec<Arc<dyn SecondaryIndex>>;

impl Transaction {
    /// True if records of `family`, or of the default family, have entries in indexes that this transaction maintains.
    #[inline]
    pub(crate) fn is_indexed(&self, family: Option<&Family>) -> bool {
        self.maintains_indexes && self.has_index(family.unwrap_or(self.db.default_family()))
    }

    #[cold]
    fn has_index(&self, family: &Family) -> bool {
        let name = family.name();
        let mut indexes = self.all_indexes().iter();
        indexes.any(|index| index.primary_family() == name)
    }

    /// The indexes of all families.
    fn all_indexes(&self) -> &[Arc<dyn SecondaryIndex>] {
        match &self.policy {
            Policy::Optimistic(_) => &[],
            Policy::Pessimistic(own) => &own.locking.options().secondary_indices,
        }
    }

    /// The indexes of `family`.
    fn indexes_of(&self, family: &Family) -> Indexes {
        let name = family.name();
        let all = self.all_indexes().iter();
        all.filter(|index| index.primary_family() == name)
            .cloned()
            .collect()
    }

    /// Returns an iterator over the entries of `index` as they will be once the transaction is committed.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the secondary family does not exist.
    pub fn index_iter(
        &self,
        index: Arc<dyn SecondaryIndex>,
        options: &ReadOptions,
    ) -> Result<SecondaryIndexIter> {
        SecondaryIndexIter::in_transaction(index, &self.db, |family| self.iter_in(family, options))
    }

    /// Makes `change` to the record `key` of an indexed family, or of the default family, and changes its entries.
    ///
    /// # Errors
    ///
    /// Those of the indexes; those of writes and reads for update.
    #[cold]
    pub(super) fn write_indexed(
        &mut self,
        family: Option<&Family>,
        key: &[u8],
        change: &Change<'_>,
        access: Access,
    ) -> Result<()> {
        self.db.check_families(family)?;
        let family = family.unwrap_or(self.db.default_family()).clone();
        self.set_save_point();
        // A later write of the record has to find this one.
        let indexing = self.batch.set_indexing(true);
        let written = catch_unwind(AssertUnwindSafe(|| {
            self.change_record(&family, key, change, access)
        }));
        self.batch.set_indexing(indexing);
        match written {
            Ok(Ok(())) => self.pop_save_point(),
            Ok(Err(error)) => self.take_back_to_save_point().and(Err(error)),
            Err(panic) => {
                // There is a save point, so it cannot fail.
                let _ = self.take_back_to_save_point();
                resume_unwind(panic)
            }
        }
    }

    fn change_record(
        &mut self,
        family: &Family,
        key: &[u8],
        change: &Change<'_>,
        access: Access,
    ) -> Result<()> {
        let options = ReadOptions::default();
        let options = self.options_for_update(family, &options, access.validates)?;
        self.lock(Some(family), key, access)?;
        let existing = self.get_entity_in(family, key, &options)?;
        let indexes = self.indexes_of(family);
        if let Some(existing) = &existing {
            self.delete_entries(&indexes, key, existing, access)?;
        }
        match *change {
            Change::Put(value) => {
                let mut columns = [(&[][..], Cow::Borrowed(value))];
                let applied = update_values(&indexes, key, &mut columns)?;
                let [(_, value)] = &columns;
                self.write(Some(family), key, access, |batch, family, counts| {
                    batch.put_in(family, key, value);
                    &mut counts.puts
                })?;
                self.put_entries(&applied, key, &columns, access)
            }
            Change::PutEntity(columns) => {
                let columns = columns.iter().map(|(name, value)| (*name, (*value).into()));
                let mut columns: Vec<Written<'_>> = columns.collect();
                let applied = update_values(&indexes, key, &mut columns)?;
                let written: Vec<Column<'_>> = columns.iter().map(|(n, v)| (*n, &**v)).collect();
                self.write(Some(family), key, access, |batch, family, counts| {
                    batch.put_entity_in(family, key, &written);
                    &mut counts.put_entities
                })?;
                self.put_entries(&applied, key, &columns, access)
            }
            // As in RocksDB.
            Change::Delete | Change::SingleDelete if existing.is_none() => Ok(()),
            Change::Delete => self.write(Some(family), key, access, |batch, family, counts| {
                batch.delete_in(family, key);
                &mut counts.deletes
            }),
            Change::SingleDelete => {
                self.write(Some(family), key, access, |batch, family, counts| {
                    batch.single_delete_in(family, key);
                    &mut counts.deletes
                })
            }
        }
    }

    /// Deletes the entries of the record `key` with the columns `existing`.
    fn delete_entries(
        &mut self,
        indexes: &Indexes,
        key: &[u8],
        existing: &Columns,
        access: Access,
    ) -> Result<()> {
        for index in indexes {
            let Some(value) = existing.get(index.primary_column()) else {
                continue;
            };
            let entry = entry_key(&**index, key, value)?;
            let secondary = secondary_family(&**index, &self.db)?;
            self.write(Some(&secondary), &entry, access, |batch, family, counts| {
                batch.single_delete_in(family, &entry);
                &mut counts.deletes
            })?;
        }
        Ok(())
    }

    /// Puts the entries of the record `key` with `columns` in the indexes `applied`.
    fn put_entries(
        &mut self,
        applied: &[Applied<'_>],
        key: &[u8],
        columns: &[Written<'_>],
        access: Access,
    ) -> Result<()> {
        for Applied {
            index,
            column,
            previous,
        } in applied
        {
            let value = &columns[*column].1;
            let entry = entry_key(*index, key, value)?;
            let secondary_value = index.secondary_value(key, value, previous)?;
            let secondary_value = secondary_value.as_deref().unwrap_or_default();
            let secondary = secondary_family(*index, &self.db)?;
            self.write(Some(&secondary), &entry, access, |batch, family, counts| {
                batch.put_in(family, &entry, secondary_value);
                &mut counts.puts
            })?;
        }
        Ok(())
    }
}

/// An index that applies to a record.
struct Applied<'a> {
    index: &'a dyn SecondaryIndex,
    /// The position of its column.
    column: usize,
    /// The value of the column before the index changed it.
    previous: Cow<'a, [u8]>,
}

/// Replaces the values of indexed columns by those that the indexes store. Returns the indexes whose column there is.
fn update_values<'a>(
    indexes: &'a Indexes,
    key: &[u8],
    columns: &mut [Written<'a>],
) -> Result<Vec<Applied<'a>>> {
    let mut applied = Vec::new();
    for index in indexes {
        let mut names = columns.iter().map(|(name, _)| *name);
        let Some(column) = names.position(|name| name == index.primary_column()) else {
            continue;
        };
        let previous = columns[column].1.clone();
        if let Some(updated) = index.updated_value(key, &previous)? {
            columns[column].1 = Cow::Owned(updated.into_owned());
        }
        applied.push(Applied {
            index: &**index,
            column,
            previous,
        });
    }
    Ok(applied)
}
