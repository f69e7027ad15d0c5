//! Iteration over several families: the values of a key in all of them are returned together, coalesced into
//! one set of columns or separately as attribute groups.

use std::cmp::Ordering;

use cairn_options::ReadOptions;
use cairn_read::{Columns, Value};
use cairn_types::{Error, KeyOrder, Result};

use crate::db::Db;
use crate::db::handle::Family;
use crate::read::bounds::compare;
use crate::read::iter::Iter;

/// An iterator over several families, which returns each key once, in order, from a consistent view.
pub struct CoalescingIter {
    families: Vec<(Family, Iter)>,
    order: KeyOrder,
    back: bool,
    /// The families that have the current key, in the order in which they were given; empty if the iterator
    /// is not positioned.
    at: Vec<usize>,
    error: Option<Error>,
}

impl Db {
    /// Creates an iterator over `families`, whose views are of the same sequence number. It is not
    /// positioned.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` without any family, if their comparators differ, or if one belongs to another
    /// database.
    pub fn coalescing_iterator(
        &self,
        families: &[&Family],
        options: &ReadOptions,
    ) -> Result<CoalescingIter> {
        let iters = self.iterators(families, options)?;
        let [first, others @ ..] = families else {
            return Err(Error::invalid_argument(
                "column families to walk over: expected one or more, found none",
            ));
        };
        let order = first.state.order();
        let odd = others
            .iter()
            .find(|family| family.state.order().name() != order.name());
        if let Some(odd) = odd {
            return Err(Error::invalid_argument(format!(
                "comparator of column family {:?}: expected {} as of {:?}, found {}",
                odd.name(),
                order.name(),
                first.name(),
                odd.state.order().name()
            )));
        }
        Ok(CoalescingIter {
            order: order.clone(),
            families: families.iter().copied().cloned().zip(iters).collect(),
            back: false,
            at: Vec::new(),
            error: None,
        })
    }
}

impl CoalescingIter {
    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        self.move_all(false, Iter::seek_to_first);
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        self.move_all(true, Iter::seek_to_last);
    }

    /// Moves to the first key at or after `target`.
    pub fn seek(&mut self, target: &[u8]) {
        self.move_all(false, |iter| iter.seek(target));
    }

    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) {
        self.move_all(true, |iter| iter.seek_for_prev(target));
    }

    /// Moves to the next key. Does nothing unless the iterator is valid.
    pub fn next(&mut self) {
        if self.back && self.valid() {
            let key = self.key().to_vec();
            self.seek(&key);
        }
        self.step(Iter::next);
    }

    /// Moves to the previous key. Does nothing unless the iterator is valid.
    pub fn prev(&mut self) {
        if !self.back && self.valid() {
            let key = self.key().to_vec();
            self.seek_for_prev(&key);
        }
        self.step(Iter::prev);
    }

    /// True if the iterator is positioned at a key.
    #[must_use]
    pub fn valid(&self) -> bool {
        !self.at.is_empty()
    }

    /// Returns the error that made the iterator invalid, if any. The next seek clears it.
    ///
    /// # Errors
    ///
    /// Those of an iterator over one of the families.
    pub fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Returns the key without timestamp; empty if the iterator is not valid.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        let first = self.at.first();
        first.map_or(&[], |&at| self.families[at].1.key())
    }

    /// Returns the value: the default column of [`CoalescingIter::columns`], or an empty value if there is
    /// none.
    #[must_use]
    pub fn value(&self) -> Value {
        let mut last_first = self.at.iter().rev().map(|&at| &self.families[at].1);
        let has_default = |iter: &&Iter| {
            iter.columns()
                .is_some_and(|columns| columns.get(b"").is_some())
        };
        last_first
            .find(has_default)
            .map_or_else(|| Vec::new().into(), |iter| iter.value_pinned())
    }

    /// Returns the columns of the key in all families. If several have a column of the same name, the family
    /// that was given last takes precedence. A plain value is a column without a name.
    #[must_use]
    pub fn columns(&self) -> Columns {
        let parts: Vec<Columns> = self.groups().map(|(_, columns)| columns).collect();
        Columns::coalesced(&parts)
    }

    /// Returns the columns of the key in each family that has it, in the order in which the families were
    /// given.
    #[must_use]
    pub fn attribute_groups(&self) -> Vec<(&Family, Columns)> {
        self.groups().collect()
    }

    fn groups(&self) -> impl Iterator<Item = (&Family, Columns)> {
        let each = self.at.iter().map(|&at| &self.families[at]);
        each.filter_map(|(family, iter)| Some((family, iter.columns()?)))
    }

    /// Reads the values of the key, if that was deferred (`allow_unprepared_value`). Returns false if one
    /// cannot be read; the iterator is then invalid, with the error as its status.
    pub fn prepare_value(&mut self) -> bool {
        for &at in &self.at {
            let iter = &mut self.families[at].1;
            if !iter.prepare_value() {
                self.error = iter.status().err();
                self.at.clear();
                return false;
            }
        }
        self.valid()
    }

    fn move_all(&mut self, back: bool, mut to: impl FnMut(&mut Iter)) {
        self.back = back;
        self.families.iter_mut().for_each(|(_, iter)| to(iter));
        self.stand();
    }

    /// Advances the families that are at the current key.
    fn step(&mut self, to: impl Fn(&mut Iter)) {
        if self.valid() {
            for at in std::mem::take(&mut self.at) {
                to(&mut self.families[at].1);
            }
            self.stand();
        }
    }

    /// Positions the iterator at the next key in this direction, with all families that have it.
    fn stand(&mut self) {
        self.at.clear();
        self.error = self
            .families
            .iter()
            .find_map(|(_, iter)| iter.status().err());
        if self.error.is_some() {
            return;
        }
        for at in 0..self.families.len() {
            let iter = &self.families[at].1;
            if !iter.valid() {
                continue;
            }
            let standing = match self.at.first() {
                None => Ordering::Equal,
                Some(&first) => compare(&self.order, iter.key(), self.families[first].1.key()),
            };
            let comes_first = match self.back {
                true => standing.is_gt(),
                false => standing.is_lt(),
            };
            if comes_first {
                self.at.clear();
            }
            if comes_first || standing.is_eq() {
                self.at.push(at);
            }
        }
    }
}
