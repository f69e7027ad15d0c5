//! Batched point reads of an open database, and consistent views of several families.

use std::sync::Arc;

use cairn_options::ReadOptions;
use cairn_read::merge_operands::{Below, Merged, full_merge};
use cairn_read::{BatchKey, Columns, Found, Value, View, multi_get, multi_get_async};
use cairn_types::{Error, Result, SequenceNumber};

use crate::catalog::family::FamilyState;
use crate::catalog::release::check_held;
use crate::db::Db;
use crate::db::futures::AwaitedView;
use crate::db::handle::Family;
use crate::db::timestamps::TimestampedValue;
use crate::read::get::{lookup, tier_of};
use crate::shared::Shared;

/// The number of attempts to take the views of several families without a concurrent memtable switch.
const TRIES: usize = 3;

impl Shared {
    /// Returns the views for a read of several families without a snapshot, all with the state at the same
    /// sequence number.
    ///
    /// A view is complete up to a sequence number if its memtable is still the mutable one after the number
    /// was read. If memtables are switched faster than views can be taken, a snapshot retains the state until
    /// the views are taken.
    pub(crate) fn newest_of(&self, families: &[&FamilyState]) -> (Vec<Arc<View>>, SequenceNumber) {
        let take = || -> Vec<Arc<View>> {
            let views = families.iter().map(|family| family.view_full());
            views.collect()
        };
        if self.context.follows.is_some() {
            let _publication = self.tree.lock();
            return (take(), self.published());
        }
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
        let may_wait = || self.may_write().is_ok();
        let snapshots = &self.catalog.snapshots;
        let snapshot = snapshots.take(|| self.published(), may_wait);
        (take(), snapshot.sequence())
    }
}

impl Family {
    /// Returns the values of `keys` in their order, from a consistent view, each with its own result, so that
    /// an error of one does not affect the others. Much cheaper than a [`Family::get`] for each: all keys are
    /// looked up level by level together, and missing blocks are read in one batch.
    ///
    /// `options.value_size_soft_limit` limits the size of the values: keys beyond it fail with `Aborted`.
    #[must_use]
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Value>>> {
        self.batch(keys, options, false, Found::into_value)
    }

    /// Like [`Family::multi_get`], for keys in the family's order, which saves sorting them. Other keys are
    /// found as well, but more slowly.
    #[must_use]
    pub fn multi_get_sorted<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Value>>> {
        self.batch(keys, options, true, Found::into_value)
    }

    /// Like [`Family::multi_get`], for wide-column entities; a plain value is one column without a name.
    #[must_use]
    pub fn multi_get_entity<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<Columns>>> {
        self.batch(keys, options, false, Found::into_columns)
    }

    /// Like [`Family::multi_get`], but distinguishes plain values and entities. `sorted` states that the keys
    /// ascend.
    #[must_use]
    pub fn multi_find<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Found>> {
        self.batch(keys, options, sorted, Ok)
    }

    /// Returns the value of `key` after merging `operands` (oldest first) with its current value and
    /// operands: the value that a read would return if they were written.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the family has no merge operator; `Corruption` if the operator fails.
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
    /// Like [`Family::multi_get`], for keys of several families, all from a consistent view. `sorted` states
    /// that the keys of each family are adjacent and ascend.
    #[must_use]
    pub fn multi_get_in(
        &self,
        keys: &[(&Family, &[u8])],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Option<Value>>> {
        find_all(self.shared(), keys, options, sorted, Found::into_value)
    }

    /// [`Db::multi_get_in`] as a future.
    pub async fn multi_get_async(
        &self,
        keys: &[(&Family, &[u8])],
        options: &ReadOptions,
        sorted: bool,
    ) -> Vec<Result<Option<Value>>> {
        find_all_async(self.shared(), keys, options, sorted, Found::into_value).await
    }

    /// Like [`Db::multi_get_in`], for wide-column entities.
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

/// The keys of a batch that can be looked up, and the errors of the others.
struct Wanted<'a> {
    keys: Vec<BatchKey<'a>>,
    /// For each key of the call, the error of one that cannot be looked up; empty if there is none.
    refused: Vec<Option<Error>>,
}

/// The families of `keys`, and for each key the index of its family.
fn families_of<'k>(keys: &[(&'k Family, &[u8])]) -> (Vec<&'k FamilyState>, Vec<usize>) {
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
    (families, of_key)
}

impl<'a> Wanted<'a> {
    /// Looks `keys` up in those of `views` with the indices `of_key`, as of a sequence number.
    fn new(
        shared: &Arc<Shared>,
        keys: &[(&Family, &[u8])],
        of_key: &[usize],
        (views, seq): (&[&'a View], SequenceNumber),
        options: &ReadOptions,
    ) -> Wanted<'a> {
        let mut wanted = Wanted {
            keys: Vec::with_capacity(keys.len()),
            refused: Vec::new(),
        };
        for (at, (&(family, key), &of)) in keys.iter().zip(of_key).enumerate() {
            let view = views[of];
            let found = match Arc::ptr_eq(&family.db.shared, shared) {
                true => check_held(view).and_then(|()| lookup(view, key, seq, options)),
                false => Err(family.foreign_to(shared)),
            };
            match found {
                Ok(lookup) => wanted.keys.push(BatchKey { view, lookup }),
                Err(error) => wanted.refuse(at, keys.len(), error),
            }
        }
        wanted
    }

    /// Notes the error of the key at an index of the call, which has `len` keys.
    #[cold]
    fn refuse(&mut self, at: usize, len: usize, error: Error) {
        self.refused.resize(len, None);
        self.refused[at] = Some(error);
    }

    /// The results of all keys of the call.
    fn results<T>(self, found: Vec<Result<T>>) -> Vec<Result<T>> {
        assert_eq!(found.len(), self.keys.len(), "each key has one answer");
        if self.refused.is_empty() {
            return found;
        }
        let mut found = found.into_iter();
        let mut next = || {
            found
                .next()
                .expect("each key that was looked up has an answer")
        };
        self.refused
            .into_iter()
            .map(|refused| match refused {
                Some(error) => Err(error),
                None => next(),
            })
            .collect()
    }
}

/// The views of the families of `keys`, for each key the index of its view, and the sequence number of the read.
fn views_of(
    shared: &Shared,
    keys: &[(&Family, &[u8])],
    options: &ReadOptions,
) -> Result<(Vec<Arc<View>>, Vec<usize>, SequenceNumber)> {
    if shared.trace.is_on() {
        shared.trace_multi_get(keys);
    }
    shared.context.check_reader()?;
    shared.context.check_snapshot(options.snapshot)?;
    let (families, of_key) = families_of(keys);
    let (views, seq) = shared.newest_of(&families);
    Ok((views, of_key, options.snapshot.unwrap_or(seq)))
}

fn find_all<T>(
    shared: &Arc<Shared>,
    keys: &[(&Family, &[u8])],
    options: &ReadOptions,
    sorted: bool,
    show: fn(Found) -> Result<T>,
) -> Vec<Result<T>> {
    find_all_by(shared, keys, options, |keys, options| {
        multi_get(keys, options, sorted, show)
    })
}

/// [`find_all`] by the function `get`, which returns a result for each of the keys that it is called with.
#[inline]
pub(crate) fn find_all_by<T>(
    shared: &Arc<Shared>,
    keys: &[(&Family, &[u8])],
    options: &ReadOptions,
    get: impl FnOnce(&[BatchKey<'_>], &ReadOptions) -> Vec<Result<T>>,
) -> Vec<Result<T>> {
    let (views, of_key, seq) = match views_of(shared, keys, options) {
        Ok(views) => views,
        Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
    };
    let views: Vec<_> = views
        .into_iter()
        .map(|view| shared.limited(view, options))
        .collect();
    let views: Vec<&View> = views.iter().map(|view| &**view).collect();
    let wanted = Wanted::new(shared, keys, &of_key, (&views, seq), options);
    let options = tier_of(shared, options);
    let found = get(&wanted.keys, &options);
    wanted.results(found)
}

/// [`find_all`] as a future. All missing blocks are in flight together, unless `options` limit that.
async fn find_all_async<T>(
    shared: &Arc<Shared>,
    keys: &[(&Family, &[u8])],
    options: &ReadOptions,
    sorted: bool,
    show: fn(Found) -> Result<T>,
) -> Vec<Result<T>> {
    let (views, of_key, seq) = match views_of(shared, keys, options) {
        Ok(views) => views,
        Err(error) => return keys.iter().map(|_| Err(error.clone())).collect(),
    };
    let views: Vec<_> = views
        .into_iter()
        .map(|view| AwaitedView::new(view, shared))
        .collect();
    let views: Vec<&View> = views.iter().map(|view| &**view).collect();
    let wanted = Wanted::new(shared, keys, &of_key, (&views, seq), options);
    let options = ReadOptions {
        async_io: true,
        ..tier_of(shared, options).into_owned()
    };
    let found = multi_get_async(&wanted.keys, &options, sorted, show).await;
    wanted.results(found)
}

impl Family {
    /// [`Family::get_with_timestamp`] for several keys, all at the same sequence number.
    #[must_use]
    pub fn multi_get_with_timestamps<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        options: &ReadOptions,
    ) -> Vec<Result<Option<TimestampedValue>>> {
        let keys: Vec<_> = keys.iter().map(|key| (self, key.as_ref())).collect();
        multi_get_with_timestamps(&keys, options)
    }
}

/// [`Family::get_with_timestamp`] for several keys in families of one database, all at the same sequence number.
///
/// `options.value_size_soft_limit` limits the size of the values: keys beyond it fail with `Aborted`.
#[must_use]
pub fn multi_get_with_timestamps(
    keys: &[(&Family, &[u8])],
    options: &ReadOptions,
) -> Vec<Result<Option<TimestampedValue>>> {
    let Some((first, _)) = keys.first() else {
        return Vec::new();
    };
    let found = find_all_by(
        &first.db.shared,
        keys,
        options,
        cairn_read::multi_get_with_timestamps,
    );
    let shown = |found: Result<(Found, Vec<u8>)>| {
        let (found, timestamp) = found?;
        Ok(found.into_value()?.map(|value| (value, timestamp)))
    };
    found.into_iter().map(shown).collect()
}
