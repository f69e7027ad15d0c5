//! Batched point reads of an open database, and views of several families at one moment.

use std::sync::Arc;

use cairn_options::ReadOptions;
use cairn_read::merge_operands::{Below, Merged, full_merge};
use cairn_read::{BatchKey, Columns, Found, Value, View, multi_get};
use cairn_types::{Error, Result, SequenceNumber};

use crate::catalog::family::FamilyState;
use crate::catalog::release::check_held;
use crate::db::Db;
use crate::handle::Family;
use crate::reads::{lookup, tier_of};
use crate::shared::Shared;

/// Attempts to take the views of several families while none of them switches its memtable.
const TRIES: usize = 3;

impl Shared {
    /// The views of a read of several families without a snapshot: the state of all of them after one
    /// and the same write.
    ///
    /// A view shows everything up to a moment if its memtable still takes writes then. If memtables
    /// are switched faster than views can be taken, a snapshot keeps the moment alive until the
    /// views hold it.
    pub(crate) fn newest_of(&self, families: &[&FamilyState]) -> (Vec<Arc<View>>, SequenceNumber) {
        let take = || -> Vec<Arc<View>> {
            let views = families.iter().map(|family| family.view_full());
            views.collect()
        };
        for _ in 0..TRIES {
            let views = take();
            let seq = self.published();
            let unchanged = |(family, view): (&&FamilyState, &Arc<View>)| {
                Arc::ptr_eq(&family.view().memtable, &view.memtable)
            };
            if families.len() == 1 || families.iter().zip(&views).all(unchanged) {
                return (views, seq);
            }
        }
        let snapshot = self.catalog.snapshots().take(|| self.published());
        (take(), snapshot.sequence())
    }
}

impl Family {
    /// The values of `keys`, in their order, all as of one moment: each with its own result, so
    /// that an error of one leaves the others right. Much cheaper than a [`Family::get`] for each:
    /// the keys go down the tree together, and the blocks that are not in memory are read together.
    ///
    /// `options.value_size_soft_limit` bounds what is read: keys beyond it fail with `Aborted`.
    #[must_use]
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Value>>> {
        self.batch(keys, options, false, Found::into_value)
    }

    /// [`Family::multi_get`] of keys that ascend in the order of the family, which saves sorting
    /// them. Keys that do not are found all the same, less quickly.
    #[must_use]
    pub fn multi_get_sorted<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Value>>> {
        self.batch(keys, options, true, Found::into_value)
    }

    /// [`Family::multi_get`] of wide-column entities; a plain value is one column without a name.
    #[must_use]
    pub fn multi_get_entity<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Columns>>> {
        self.batch(keys, options, false, Found::into_columns)
    }

    /// [`Family::multi_get`] that distinguishes plain values and entities. `sorted` promises that the
    /// keys ascend.
    #[must_use]
    pub fn multi_find<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Found>> {
        self.batch(keys, options, sorted, Ok)
    }

    /// The value of `operands` (oldest first) over what lies below them at `key`: what a read would find
    /// if they were written.
    ///
    /// # Errors
    ///
    /// `MergeInProgress` if the family has no merge operator, `Corruption` if it refuses.
    pub fn merge_operands(
        &self,
        key: &[u8],
        below: Below<'_>,
        operands: &[&[u8]],
    ) -> Result<Merged> {
        full_merge(&self.state.view().family, key, below, operands)
    }

    fn batch<K: AsRef<[u8]>, T>(
        &self,
        keys: &[K],
        options: &ReadOptions,
        sorted: bool,
        show: fn(Found) -> Result<T>,
    ) -> Vec<Result<T>> {
        let keys = keys.iter().map(|key| (self, key.as_ref()));
        find_all(
            &self.db.shared,
            &keys.collect::<Vec<_>>(),
            options,
            sorted,
            show,
        )
    }
}

impl Db {
    /// [`Family::multi_get`] of keys of several families, all as of one moment. `sorted` promises
    /// that the keys of one family stand together and ascend.
    #[must_use]
    pub fn multi_get_in(
        &self,
        keys: &[(&Family, &[u8])],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Option<Value>>> {
        find_all(self.shared(), keys, options, sorted, Found::into_value)
    }

    /// [`Db::multi_get_in`] of wide-column entities.
    #[must_use]
    pub fn multi_get_entity_in(
        &self,
        keys: &[(&Family, &[u8])],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Option<Columns>>> {
        find_all(self.shared(), keys, options, sorted, Found::into_columns)
    }
}

fn find_all<T>(
    shared: &Arc<Shared>,
    keys: &[(&Family, &[u8])],
    options: &ReadOptions,
    sorted: bool,
    show: fn(Found) -> Result<T>,
) -> Vec<Result<T>> {
    if let Err(error) = shared.context.check_reader() {
        return keys.iter().map(|_| Err(error.clone())).collect();
    }
    let mut families: Vec<&FamilyState> = Vec::new();
    let mut of_key = Vec::with_capacity(keys.len());
    for (family, _) in keys {
        let state: &FamilyState = &family.state;
        let known = families
            .iter()
            .rposition(|known| std::ptr::eq(*known, state));
        of_key.push(known.unwrap_or_else(|| {
            families.push(state);
            families.len() - 1
        }));
    }
    let (views, seq) = shared.newest_of(&families);
    let seq = options.snapshot.unwrap_or(seq);
    // What cannot be looked up at all has its error here and no place in the batch.
    let mut refused: Vec<Option<Error>> = Vec::with_capacity(keys.len());
    let mut wanted = Vec::with_capacity(keys.len());
    for (&(family, key), &of) in keys.iter().zip(&of_key) {
        let found = match Arc::ptr_eq(&family.db.shared, shared) {
            true => check_held(&views[of]).and_then(|()| lookup(&family.state, key, seq, options)),
            false => Err(Error::invalid_argument(format!(
                "column family {:?} belongs to another database",
                family.name()
            ))),
        };
        refused.push(match found {
            Ok(lookup) => {
                let view = &*views[of];
                wanted.push(BatchKey { view, lookup });
                None
            }
            Err(error) => Some(error),
        });
    }
    let options = tier_of(shared, options);
    let found = multi_get(&wanted, &options, sorted);
    assert_eq!(found.len(), wanted.len(), "each key has one answer");
    let mut found = found.into_iter();
    let mut next = || {
        found
            .next()
            .expect("each key that was looked up has an answer")
    };
    refused
        .into_iter()
        .map(|refused| match refused {
            Some(error) => Err(error),
            None => next().and_then(show),
        })
        .collect()
}
