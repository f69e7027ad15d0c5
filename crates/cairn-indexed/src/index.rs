//! The index: the keys of each family in order, with the offsets of their records in the batch.
//!
//! Adding a record costs one search in a balanced tree and a copy of the key. The records of a key are
//! read newest first. With overwriting, a record other than a merge replaces the newest one; merges are
//! always added, because earlier operands remain valid.
//!
//! Keys are indexed without their timestamps, which the batch gets when it is complete.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

use cairn_db::WriteBatch;
use cairn_format::batch::{BatchRef, Record};
use cairn_format::key::{compare_plain, strip_timestamp};
use cairn_types::{Error, KeyOrder, Result};

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteKind {
    /// Puts a plain value.
    Put,
    /// Puts a wide-column entity; the value is the encoded entity.
    PutEntity,
    /// Adds a merge operand; the value is the operand.
    Merge,
    /// Deletes the key.
    Delete,
    /// Deletes a key that has been put once.
    SingleDelete,
}

/// A key with the order of its family.
#[derive(Clone)]
struct Ordered {
    order: KeyOrder,
    key: Box<[u8]>,
}

/// An ordered key, borrowed or owned, so that the tree can be searched without copying the key.
trait InOrder {
    fn parts(&self) -> (&KeyOrder, &[u8]);
}

impl InOrder for Ordered {
    fn parts(&self) -> (&KeyOrder, &[u8]) {
        (&self.order, &self.key)
    }
}

impl InOrder for (&KeyOrder, &[u8]) {
    fn parts(&self) -> (&KeyOrder, &[u8]) {
        *self
    }
}

impl Ord for dyn InOrder + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        let (order, key) = self.parts();
        compare_plain(order, key, other.parts().1)
    }
}

impl PartialOrd for dyn InOrder + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn InOrder + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn InOrder + '_ {}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_plain(&self.order, &self.key, &other.key)
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

impl<'a> Borrow<dyn InOrder + 'a> for Ordered {
    fn borrow(&self) -> &(dyn InOrder + 'a) {
        self
    }
}

/// The index of one family.
pub(crate) struct FamilyIndex {
    order: KeyOrder,
    /// Offsets of the records of each key in the batch, newest last.
    keys: BTreeMap<Ordered, Vec<usize>>,
}

impl FamilyIndex {
    fn new(order: KeyOrder) -> FamilyIndex {
        FamilyIndex {
            order,
            keys: BTreeMap::new(),
        }
    }

    /// Returns the offsets of the records of `key`, newest last; empty if there are none.
    pub(crate) fn records(&self, key: &[u8]) -> &[usize] {
        let target: &dyn InOrder = &(&self.order, key);
        self.keys.get(target).map_or(&[], Vec::as_slice)
    }

    /// Returns the first key at or after `from`.
    pub(crate) fn at_or_after(&self, from: Bound<&[u8]>) -> Option<&[u8]> {
        self.range(from, Bound::Unbounded).next()
    }

    /// Returns the last key at or before `to`.
    pub(crate) fn at_or_before(&self, to: Bound<&[u8]>) -> Option<&[u8]> {
        self.range(Bound::Unbounded, to).next_back()
    }

    fn range<'a>(
        &'a self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = &'a [u8]> {
        let (from, to) = (
            from.map(|key| (&self.order, key)),
            to.map(|key| (&self.order, key)),
        );
        let bounds = (
            from.as_ref().map(|key| key as &dyn InOrder),
            to.as_ref().map(|key| key as &dyn InOrder),
        );
        let found = self.keys.range::<dyn InOrder, _>(bounds);
        found.map(|(key, _)| &*key.key)
    }

    fn add(&mut self, key: &[u8], at: usize, replaces: bool) {
        let target: &dyn InOrder = &(&self.order, key);
        let Some(records) = self.keys.get_mut(target) else {
            let key = Ordered {
                order: self.order.clone(),
                key: key.into(),
            };
            self.keys.insert(key, vec![at]);
            return;
        };
        match records.last_mut() {
            Some(newest) if replaces => *newest = at,
            _ => records.push(at),
        }
    }
}

/// A batch with its index.
pub(crate) struct Indexed {
    /// Shared while it is written, without the lock; a change meanwhile copies it.
    batch: Arc<WriteBatch>,
    families: BTreeMap<u32, FamilyIndex>,
    /// The key order of column families for which none is given.
    default_order: KeyOrder,
    overwrite: bool,
    /// True if further records are indexed.
    pub(crate) indexing: bool,
    /// The ranges of the batch with records that are not indexed, in order.
    unindexed: Vec<Range<usize>>,
}

impl Indexed {
    pub(crate) fn new(default_order: KeyOrder, overwrite: bool) -> Indexed {
        Indexed {
            batch: Arc::default(),
            families: BTreeMap::new(),
            default_order,
            overwrite,
            indexing: true,
            unindexed: Vec::new(),
        }
    }

    /// An empty batch with the same order and treatment of overwritten keys.
    pub(crate) fn fresh(&self) -> Indexed {
        Indexed::new(self.default_order.clone(), self.overwrite)
    }

    pub(crate) fn batch(&self) -> &WriteBatch {
        &self.batch
    }

    /// Returns the batch as it is now, which later changes do not affect.
    pub(crate) fn share_batch(&self) -> Arc<WriteBatch> {
        self.batch.clone()
    }

    pub(crate) fn batch_mut(&mut self) -> &mut WriteBatch {
        Arc::make_mut(&mut self.batch)
    }

    pub(crate) fn family(&self, id: u32) -> Option<&FamilyIndex> {
        self.families.get(&id)
    }

    /// Adds a write with `add` and indexes it under `key`, unless the batch rejects it or indexing is disabled.
    pub(crate) fn add(
        &mut self,
        family: u32,
        order: impl FnOnce() -> KeyOrder,
        key: &[u8],
        kind: WriteKind,
        add: impl FnOnce(&mut WriteBatch),
    ) {
        let (at, count) = (self.batch.data().len(), self.batch.count());
        add(self.batch_mut());
        if !self.indexing {
            self.note_unindexed(at..self.batch.data().len());
        } else if self.batch.count() > count {
            let index = self.families.entry(family);
            let index = index.or_insert_with(|| FamilyIndex::new(order()));
            index.add(key, at, self.overwrite && kind != WriteKind::Merge);
        }
    }

    pub(crate) fn note_unindexed(&mut self, records: Range<usize>) {
        match self.unindexed.last_mut() {
            Some(last) if last.end == records.start => last.end = records.end,
            _ => self.unindexed.push(records),
        }
    }

    fn is_indexed(&self, at: usize) -> bool {
        let next = self.unindexed.partition_point(|range| range.end <= at);
        !self
            .unindexed
            .get(next)
            .is_some_and(|range| range.contains(&at))
    }

    /// Replaces the records by those of `batch`, and keeps the settings. The index is unchanged.
    ///
    /// # Errors
    ///
    /// Those of [`WriteBatch::set_protected`].
    pub(crate) fn replace_batch(&mut self, mut batch: WriteBatch) -> Result<()> {
        batch.set_max_bytes(self.batch.max_bytes());
        batch.set_protected(self.batch.is_protected())?;
        self.batch = Arc::new(batch);
        Ok(())
    }

    pub(crate) fn clear(&mut self) {
        match Arc::get_mut(&mut self.batch) {
            Some(batch) => batch.clear(),
            // Not copied by `batch_mut` only to be cleared.
            None => self
                .replace_batch(WriteBatch::new())
                .expect("an empty batch has no damaged records"),
        }
        self.unindexed.clear();
        for index in self.families.values_mut() {
            index.keys.clear();
        }
    }

    /// Rebuilds the index from the batch, of which records may have been removed at the end.
    pub(crate) fn rebuild(&mut self) -> Result<()> {
        let len = self.batch.data().len();
        self.unindexed.retain(|range| range.start < len);
        if let Some(last) = self.unindexed.last_mut() {
            last.end = last.end.min(len);
        }
        for index in self.families.values_mut() {
            index.keys.clear();
        }
        let bad = |error: cairn_types::Malformed| error.in_file("the write batch", 0);
        let mut records = BatchRef::parse(self.batch.data()).map_err(bad)?.records();
        loop {
            let at = records.at();
            let Some(record) = records.next() else {
                return Ok(());
            };
            let record = record.map_err(bad)?;
            if !self.is_indexed(at) {
                continue;
            }
            let Some((family, kind, key, _)) = keyed(&record) else {
                if record.is_counted() {
                    return Err(unsupported(&record));
                }
                continue;
            };
            let index = self.families.entry(family);
            let index = index.or_insert_with(|| FamilyIndex::new(self.default_order.clone()));
            let key = strip_timestamp(key, index.order.timestamp_size());
            index.add(key, at, self.overwrite && kind != WriteKind::Merge);
        }
    }

    /// Returns the kind and the value of the record at offset `at`.
    pub(crate) fn record(&self, at: usize) -> Result<(WriteKind, &[u8])> {
        let record = BatchRef::parse(self.batch.data())
            .and_then(|batch| batch.record_at(at))
            .map_err(|error| error.in_file("the write batch", 0))?;
        match keyed(&record) {
            Some((_, kind, _, value)) => Ok((kind, value)),
            None => Err(unsupported(&record)),
        }
    }
}

/// Returns the family, kind, key and value of a single-key record.
fn keyed<'a>(record: &Record<'a>) -> Option<(u32, WriteKind, &'a [u8], &'a [u8])> {
    Some(match *record {
        Record::Put { family, key, value } => (family, WriteKind::Put, key, value),
        Record::PutEntity {
            family,
            key,
            entity,
        } => (family, WriteKind::PutEntity, key, entity),
        Record::Merge {
            family,
            key,
            operand,
        } => (family, WriteKind::Merge, key, operand),
        Record::Delete { family, key } => (family, WriteKind::Delete, key, &[]),
        Record::SingleDelete { family, key } => (family, WriteKind::SingleDelete, key, &[]),
        _ => return None,
    })
}

#[cold]
fn unsupported(record: &Record<'_>) -> Error {
    let what = match record {
        Record::DeleteRange { .. } => "a range deletion",
        Record::TimedPut { .. } => "a put with a time",
        _ => "a record that does not change a single key",
    };
    Error::not_supported(format!("{what} in a write batch with index"))
}
