//! Plain steps: those in which only keys, sequence numbers and kinds have to be thought of.
//!
//! Bounds of the walk, a prefix that all keys must have, and range tombstones are thought of once, when
//! the walk comes to where it stands: they amount to a key that ends the part of the walk in which
//! they decide nothing. A step that stays before that key need not ask them again; one that does not asks them all.

use cairn_format::key;
use cairn_types::{KeyOrder, PrefixExtractor};

use super::DbIter;
use crate::range_del_aggregator::RangeDelAggregator;

/// How far steps in one direction are plain.
#[derive(Debug, Default)]
pub(super) struct FastRange {
    extent: Extent,
    /// The key that ends it, if `extent` is `Limited`.
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
    /// True if there may be plain steps at all.
    #[inline]
    pub(super) fn is_enabled(&self) -> bool {
        self.extent != Extent::Empty
    }

    /// True if a step forward to the user key `user` is plain; it is not if it leads to the limit.
    #[inline]
    pub(super) fn contains_forward(&self, user: &[u8]) -> bool {
        self.extent != Extent::Limited || key::compare_bytewise(user, &self.limit).is_lt()
    }

    /// True if a step back to the user key `user` is plain; it is not if it leads to the limit.
    #[inline]
    pub(super) fn contains_backward(&self, user: &[u8]) -> bool {
        self.extent != Extent::Limited || key::compare_bytewise(user, &self.limit).is_gt()
    }

    /// Steps are plain up to the nearest of `limits`, and everywhere without one; `nearer` chooses between two.
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
    /// Notes which steps are plain from where the iterator stands, until a seek or a step that is not
    /// plain.
    pub(super) fn update_fast_ranges(&mut self) {
        self.fast_ranges
            .iter_mut()
            .for_each(|range| range.extent = Extent::Empty);
        // Hidden entries are counted by step, which plain steps do not know of.
        if !self.rules.fast_path || self.counters.flush_trigger.is_some() {
            return;
        }
        let range_dels = self.range_dels.as_mut().and_then(|range_dels| {
            range_dels.drop_empty_levels();
            (!range_dels.is_empty()).then_some(&*range_dels)
        });
        let bounded = self.bounds.upper.is_some()
            || self.bounds.lower.is_some()
            || self.bounds.prefix.is_some();
        if range_dels.is_none() && !bounded {
            // Most walks: nothing ends them, and a seek need not look for what does.
            for range in &mut self.fast_ranges {
                range.extent = Extent::Unbounded;
            }
            return;
        }
        let [after, before] = match range_dels.map(RangeDelAggregator::uncovered) {
            // Tombstones hide what comes next, or may do so.
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

    /// True if it is known that no range tombstone covers `user`: what plain steps rely on.
    pub(super) fn is_uncovered(&self, user: &[u8]) -> bool {
        let range_dels = self.range_dels.as_ref();
        range_dels.is_none_or(|range_dels| range_dels.is_known_uncovered(user))
    }

    /// [`DbIter::update_fast_ranges`] after a step that was not plain: only range tombstones that are known now may
    /// decide where they did not.
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

/// The first key behind all those that have `prefix`, if any can be; `None` if these do not lie side by side
/// in the order of their bytes, or are but one.
#[expect(
    clippy::option_option,
    reason = "that nothing is known is one thing, that there is no such key another"
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
    fn the_end_of_a_prefix_is_the_first_key_that_does_not_have_it() {
        let fixed = |n, prefix: &[u8]| end_of_prefix(&PrefixExtractor::Fixed(n), prefix);
        assert_eq!(fixed(2, b"ab"), Some(Some(b"ac".to_vec())));
        assert_eq!(fixed(3, b"a\xff\xff"), Some(Some(b"b".to_vec())));
        assert_eq!(fixed(2, b"\xff\xff"), Some(None));
        assert_eq!(fixed(0, b""), Some(None));
        // A key that is shorter than a capped prefix is the only one that has it as a whole.
        assert_eq!(end_of_prefix(&PrefixExtractor::Capped(3), b"ab"), None);
        assert_eq!(end_of_prefix(&PrefixExtractor::Noop, b"ab"), None);
    }
}
