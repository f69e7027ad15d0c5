//! The fast path of steps: only user keys, sequence numbers and kinds are checked.
//!
//! Iteration bounds, a required prefix and range tombstones are evaluated once, after a seek or a
//! general step. They limit the *fast range*, the keys around the current position that are in
//! bounds and uncovered. A step within the fast range checks none of them again; a step that leaves
//! it is a general step.

use cairn_format::key;
use cairn_types::{Error, KeyOrder, PrefixExtractor};

use super::DbIter;
use crate::range_del_aggregator::RangeDelAggregator;

/// The fast range in one direction.
#[derive(Debug, Default)]
pub(super) struct FastRange {
    extent: Extent,
    /// The key that ends the range, exclusive, if `extent` is `Limited`.
    limit: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Extent {
    #[default]
    Empty,
    Unbounded,
    Limited,
}

impl FastRange {
    /// True if the range is not empty.
    #[inline]
    pub(super) fn is_enabled(&self) -> bool {
        self.extent != Extent::Empty
    }

    /// True if the range contains the user key `user`, reached by a forward step.
    #[inline]
    pub(super) fn contains_forward(&self, user: &[u8]) -> bool {
        self.extent != Extent::Limited || key::compare_bytewise(user, &self.limit).is_lt()
    }

    /// True if the range contains the user key `user`, reached by a backward step.
    #[inline]
    pub(super) fn contains_backward(&self, user: &[u8]) -> bool {
        self.extent != Extent::Limited || key::compare_bytewise(user, &self.limit).is_gt()
    }

    /// Extends the range to the nearest of `limits`, or without limit if there are none. `nearer`
    /// selects the nearer of two.
    fn limit<'a>(
        &mut self,
        limits: impl Iterator<Item = &'a [u8]>,
        nearer: impl Fn(&'a [u8], &'a [u8]) -> &'a [u8],
    ) {
        self.extent = Extent::Unbounded;
        if let Some(limit) = limits.reduce(nearer) {
            self.extent = Extent::Limited;
            self.limit.clear();
            self.limit.extend_from_slice(limit);
        }
    }
}

impl DbIter {
    /// Computes the fast ranges at the current position. They are valid until the next seek or
    /// general step.
    pub(super) fn update_fast_ranges(&mut self) {
        self.fast_ranges
            .iter_mut()
            .for_each(|range| range.extent = Extent::Empty);
        // Hidden entries are counted by step, which the fast path does not do.
        if !self.settings.fast_path || self.counters.flush_trigger.is_some() {
            return;
        }
        let range_dels = self.range_dels.as_mut().and_then(|range_dels| {
            range_dels.drop_empty_levels();
            (!range_dels.is_empty()).then_some(&**range_dels)
        });
        let bounded = self.bounds.upper.is_some()
            || self.bounds.lower.is_some()
            || self.bounds.prefix.is_some();
        if range_dels.is_none() && !bounded {
            // The common case: no limits to compute.
            for range in &mut self.fast_ranges {
                range.extent = Extent::Unbounded;
            }
            return;
        }
        let [after, before] = match range_dels.map(RangeDelAggregator::uncovered) {
            // The next key is covered, or may be.
            Some(None) => return,
            Some(Some(edges)) => edges,
            None => [None; 2],
        };
        let end_of_prefix = match &self.bounds.prefix {
            Some(prefix) => {
                let extractor = self.view.family.prefix_extractor.as_ref();
                match extractor.and_then(|extractor| end_of_prefix(extractor, prefix)) {
                    Some(end) => end,
                    None => return,
                }
            }
            None => None,
        };
        let [upper, lower, prefix] = [&self.bounds.upper, &self.bounds.lower, &self.bounds.prefix]
            .map(|bound| bound.as_deref());
        let until = [upper, end_of_prefix.as_deref(), before];
        let from = [lower, prefix, after];
        if !matches!(self.view.family.order, KeyOrder::Bytewise)
            && (until.iter().chain(&from)).any(Option::is_some)
        {
            return;
        }
        let [forward, back] = &mut self.fast_ranges;
        forward.limit(until.into_iter().flatten(), Ord::min);
        back.limit(from.into_iter().flatten(), Ord::max);
    }

    /// True if `user` is known to be uncovered by range tombstones. An invariant of the fast path.
    pub(super) fn is_uncovered(&self, user: &[u8]) -> bool {
        let range_dels = self.range_dels.as_ref();
        range_dels.is_none_or(|range_dels| range_dels.is_known_uncovered(user))
    }

    /// Updates the fast ranges after a general step. Only tombstones can have changed them.
    #[inline]
    pub(super) fn refresh_fast_ranges(&mut self) {
        if self
            .range_dels
            .as_ref()
            .is_some_and(|range_dels| !range_dels.is_empty())
        {
            self.update_fast_ranges();
        }
    }
}

/// The error of a fast step to a key that bounds or range tombstones exclude. Keys in order cannot do that, so it is
/// looked for only with debug assertions: other builds do not pay for damaged tables in every step.
#[cold]
pub(super) fn out_of_range() -> Error {
    Error::corruption(
        "keys of a table are out of order: a step led out of the bounds of the iteration, or under a range tombstone",
    )
}

/// Returns the first key after all keys with `prefix`, `Some(None)` if there is none. Returns
/// `None` if the keys with the prefix are not contiguous in bytewise order, or if there is only
/// one.
#[expect(
    clippy::option_option,
    reason = "`None`: unknown; `Some(None)`: there is no such key"
)]
fn end_of_prefix(extractor: &PrefixExtractor, prefix: &[u8]) -> Option<Option<Vec<u8>>> {
    match extractor {
        PrefixExtractor::Fixed(n) | PrefixExtractor::Capped(n) if prefix.len() == *n => {
            let mut end = prefix.to_vec();
            while let Some(last) = end.pop() {
                if last < u8::MAX {
                    end.push(last + 1);
                    return Some(Some(end));
                }
            }
            Some(None)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_of_prefix_is_first_key_after_it() {
        let fixed = |n, prefix: &[u8]| end_of_prefix(&PrefixExtractor::Fixed(n), prefix);
        assert_eq!(fixed(2, b"ab"), Some(Some(b"ac".to_vec())));
        assert_eq!(fixed(3, b"a\xff\xff"), Some(Some(b"b".to_vec())));
        assert_eq!(fixed(2, b"\xff\xff"), Some(None));
        assert_eq!(fixed(0, b""), Some(None));
        // A key shorter than a capped prefix is the only key with that prefix.
        assert_eq!(end_of_prefix(&PrefixExtractor::Capped(3), b"ab"), None);
        assert_eq!(end_of_prefix(&PrefixExtractor::Noop, b"ab"), None);
    }
}
