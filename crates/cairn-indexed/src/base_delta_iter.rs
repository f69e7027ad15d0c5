//! An iterator over a column family as it will be once a batch is written, like RocksDB's
//! `BaseDeltaIterator`: it merges an iterator over the database (base) with the keys of the batch
//! (delta).
//!
//! Both sides are at their next key in the direction of iteration. The nearer key is returned; if
//! the keys are equal, the batch takes precedence, with merge operands applied to the database's
//! value. A change of direction seeks both sides from the current key.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use cairn_db::{Columns, Family, Found, Iter};
use cairn_format::key::compare_plain;
use cairn_format::wide::{self, Column, ColumnValue};
use cairn_options::ReadOptions;
use cairn_platform::sync::Mutex;
use cairn_types::{Error, KeyOrder, Result};

use crate::index::Indexed;
use crate::read::{BatchEffect, merged, resolve};

/// The position of the iterator.
enum At {
    Nowhere,
    /// At the entry of the base iterator.
    Base,
    /// At a key of the batch, with this value or entity.
    Own(Found),
}

/// A bidirectional iterator over the content of a column family once a batch is written. It sees later
/// additions, unless it has passed the last key of the batch in its direction; then, after a seek.
pub struct BaseDeltaIter {
    shared: Arc<Mutex<Indexed>>,
    family: Family,
    order: KeyOrder,
    base: Iter,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
    /// The next key of the batch in the direction of iteration.
    own: Option<Vec<u8>>,
    back: bool,
    at: At,
    error: Option<Error>,
}

impl BaseDeltaIter {
    pub(crate) fn new(
        shared: Arc<Mutex<Indexed>>,
        family: Family,
        base: Iter,
        options: &ReadOptions,
    ) -> BaseDeltaIter {
        BaseDeltaIter {
            shared,
            order: family.options().comparator.clone(),
            family,
            base,
            lower: options.iterate_lower_bound.clone(),
            upper: options.iterate_upper_bound.clone(),
            own: None,
            back: false,
            at: At::Nowhere,
            error: None,
        }
    }

    /// Moves to the first key at or after `target`.
    pub fn seek(&mut self, target: &[u8]) {
        self.base.seek(target);
        self.seek_delta(Bound::Included(target), false);
        self.settle();
    }

    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) {
        self.base.seek_for_prev(target);
        self.seek_delta(Bound::Included(target), true);
        self.settle();
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        self.base.seek_to_first();
        self.seek_delta(Bound::Unbounded, false);
        self.settle();
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        self.base.seek_to_last();
        self.seek_delta(Bound::Unbounded, true);
        self.settle();
    }

    /// Moves to the next key. The iterator must be valid.
    pub fn next(&mut self) {
        self.step(false);
    }

    /// Moves to the previous key. The iterator must be valid.
    pub fn prev(&mut self) {
        self.step(true);
    }

    fn step(&mut self, back: bool) {
        if !self.valid() {
            return;
        }
        let key = self.key().to_vec();
        // As in RocksDB, a key that is added behind the last one of the batch is only seen after a seek.
        let is_exhausted = self.back == back && self.own.is_none();
        if self.back != back {
            match back {
                true => self.base.seek_for_prev(&key),
                false => self.base.seek(&key),
            }
        }
        if self.base.valid() && compare_plain(&self.order, self.base.key(), &key).is_eq() {
            self.step_base(back);
        }
        match is_exhausted {
            true => self.at = At::Nowhere,
            false => self.seek_delta(Bound::Excluded(&key), back),
        }
        self.settle();
    }

    fn step_base(&mut self, back: bool) {
        match back {
            true => self.base.prev(),
            false => self.base.next(),
        }
    }

    /// True if the iterator is at a key.
    #[must_use]
    pub fn valid(&self) -> bool {
        !matches!(self.at, At::Nowhere)
    }

    /// Returns the key; empty if not valid.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match &self.at {
            At::Nowhere => &[],
            At::Base => self.base.key(),
            At::Own(_) => self.own.as_deref().unwrap_or_default(),
        }
    }

    /// Returns the timestamp of the current key: empty if keys have none, if not valid, and for a key of the batch, which
    /// gets its timestamp later.
    #[must_use]
    pub fn timestamp(&self) -> &[u8] {
        match &self.at {
            At::Base => self.base.timestamp(),
            At::Nowhere | At::Own(_) => &[],
        }
    }

    /// Returns the value, or the default column of an entity; empty if not valid.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match &self.at {
            At::Nowhere | At::Own(Found::Missing) => &[],
            At::Base => self.base.value(),
            At::Own(Found::Value(value)) => value,
            At::Own(Found::Entity(entity)) => {
                // Already decoded by `settle`.
                let decoded = wide::decode(entity).ok();
                let default = decoded.and_then(|decoded| decoded.default_value());
                match default {
                    Some(ColumnValue::Inline(value)) => value,
                    _ => &[],
                }
            }
        }
    }

    /// Returns the columns; a plain value is one unnamed column. `None` if not valid.
    #[must_use]
    pub fn columns(&self) -> Option<Columns> {
        match &self.at {
            At::Nowhere => None,
            At::Base => self.base.columns(),
            At::Own(found) => found.clone().into_columns().ok().flatten(),
        }
    }

    /// Reads the value of the entry if that was deferred (`allow_unprepared_value`). Returns false if it cannot be read; the
    /// error is then the status, and the iterator is not valid.
    pub fn prepare_value(&mut self) -> bool {
        if matches!(self.at, At::Base) && !self.base.prepare_value() {
            self.at = At::Nowhere;
            self.error = self.base.status().err();
        }
        self.valid()
    }

    /// Returns the error that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// Errors of the base iterator and of merges.
    pub fn status(&self) -> Result<()> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => self.base.status(),
        }
    }

    /// Returns the base iterator.
    #[must_use]
    pub fn base(&self) -> &Iter {
        &self.base
    }

    /// Finds the next key of the batch at or after `bound` (at or before it if `back`), within the
    /// bounds.
    fn seek_delta(&mut self, bound: Bound<&[u8]>, back: bool) {
        self.back = back;
        self.error = None;
        self.at = At::Nowhere;
        let (limit, end) = match back {
            true => (self.upper.as_deref().map(Bound::Excluded), &self.lower),
            false => (self.lower.as_deref().map(Bound::Included), &self.upper),
        };
        let bound = nearer_end(&self.order, bound, limit, back);
        let indexed = self.shared.lock();
        let found = indexed
            .family(self.family.id())
            .and_then(|index| match back {
                true => index.at_or_before(bound),
                false => index.at_or_after(bound),
            });
        let within = |key: &&[u8]| {
            end.as_deref().is_none_or(|end| match back {
                true => compare_plain(&self.order, key, end).is_ge(),
                false => compare_plain(&self.order, key, end).is_lt(),
            })
        };
        let found = found.filter(within).map(<[u8]>::to_vec);
        drop(indexed);
        self.own = found;
    }

    /// Positions at the nearer key of both sides, skipping keys that the batch deletes.
    fn settle(&mut self) {
        if let Err(error) = self.find() {
            self.at = At::Nowhere;
            self.error = Some(error);
        }
    }

    fn find(&mut self) -> Result<()> {
        loop {
            if !self.base.valid() {
                self.base.status()?;
            }
            let Some(own) = self.own.clone() else {
                if self.base.valid() {
                    self.at = At::Base;
                }
                return Ok(());
            };
            let side = match self.base.valid() {
                false => Ordering::Greater,
                true => compare_plain(&self.order, self.base.key(), &own),
            };
            let side = match self.back && self.base.valid() {
                true => side.reverse(),
                false => side,
            };
            if side == Ordering::Less {
                self.at = At::Base;
                return Ok(());
            }
            let said = resolve(&self.shared.lock(), self.family.id(), &own)?;
            let found = match said {
                BatchEffect::Nothing => {
                    // A rollback has removed the key in the meantime: the database decides.
                    self.seek_delta(Bound::Excluded(&own), self.back);
                    continue;
                }
                BatchEffect::Found(found) => found,
                BatchEffect::Operands(operands, Some(below)) => {
                    merged(&self.family, &own, &below, &operands)?
                }
                BatchEffect::Operands(operands, None) => {
                    let below = match side == Ordering::Equal {
                        true => self.base_found()?,
                        false => Found::Missing,
                    };
                    merged(&self.family, &own, &below, &operands)?
                }
            };
            if let Found::Missing = found {
                if side == Ordering::Equal {
                    self.step_base(self.back);
                }
                self.seek_delta(Bound::Excluded(&own), self.back);
                continue;
            }
            if let Found::Entity(_) = &found {
                found.clone().into_value()?;
            }
            self.at = At::Own(found);
            return Ok(());
        }
    }

    /// Returns the entry of the base iterator, whose value may not have been read.
    fn base_found(&mut self) -> Result<Found> {
        if !self.base.prepare_value() {
            self.base.status()?;
        }
        let Some(columns) = self.base.columns() else {
            return Err(Error::corruption("an entity below cannot be decoded"));
        };
        let only = columns.iter().next().filter(|_| columns.len() == 1);
        if let Some((b"", value)) = only {
            return Ok(Found::Value(value.to_vec().into()));
        }
        let columns: Vec<Column<'_>> = columns
            .iter()
            .map(|(name, value)| Column {
                name,
                value: ColumnValue::Inline(value),
            })
            .collect();
        let mut entity = Vec::new();
        wide::encode(&columns, &mut entity)?;
        Ok(Found::Entity(entity.into()))
    }
}

/// Returns the more restrictive of `bound` and `limit`.
fn nearer_end<'a>(
    order: &KeyOrder,
    bound: Bound<&'a [u8]>,
    limit: Option<Bound<&'a [u8]>>,
    back: bool,
) -> Bound<&'a [u8]> {
    let key = |bound: &Bound<&'a [u8]>| match *bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    };
    let Some(limit) = limit else {
        return bound;
    };
    match (key(&bound), key(&limit)) {
        (Some(a), Some(b)) => {
            let bound_is_further = match compare_plain(order, a, b) {
                Ordering::Equal => back && matches!(bound, Bound::Included(_)),
                Ordering::Less => !back,
                Ordering::Greater => back,
            };
            if bound_is_further { limit } else { bound }
        }
        _ => limit,
    }
}
