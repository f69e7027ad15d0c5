//! The Bloom filter of a memtable. If the filter excludes a key or a prefix, the lookup skips the
//! search in the skiplist.
//!
//! All bits of a hash lie in one cache line. They are set before the entry is linked, and hence
//! before its sequence number is published, so a reader that uses a published number sees them
//! although every access is relaxed. A reader that uses an unpublished number may miss the bits,
//! just as it may miss the link. An insertion or a lookup costs one hash and one cache line (two
//! for an insertion with both prefixes and whole keys); without a filter, both cost one branch.

use cairn_format::hash::hash64;
use cairn_platform::sync::{AtomicU64, Ordering};
use cairn_types::PrefixExtractor;

/// Size and content of a memtable's filter. The default is no filter.
#[derive(Clone, Debug, Default)]
pub struct FilterOptions {
    /// Size in bytes; 0 for no filter.
    pub bytes: usize,
    /// True if whole keys are added.
    pub whole_keys: bool,
    /// The extractor of the prefixes that are added, if any.
    pub prefix_extractor: Option<PrefixExtractor>,
}

/// Bits set per hash.
const PROBES: u32 = 6;

/// The unit that one hash maps to: one cache line of bits.
#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; 8]);

/// The filter; see the module's documentation.
pub(crate) struct Filter {
    lines: Box<[Line]>,
    whole_keys: bool,
    prefix_extractor: Option<PrefixExtractor>,
}

impl Filter {
    /// Returns an empty filter, or `None` if `options` enable neither whole keys nor prefixes.
    pub(crate) fn new(options: FilterOptions) -> Option<Filter> {
        if options.bytes == 0 || !options.whole_keys && options.prefix_extractor.is_none() {
            return None;
        }
        let lines = options.bytes.div_ceil(size_of::<Line>());
        debug_assert!(lines > 0, "a filter has at least one line");
        Some(Filter {
            lines: (0..lines).map(|_| Line::default()).collect(),
            whole_keys: options.whole_keys,
            prefix_extractor: options.prefix_extractor,
        })
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
    }

    /// True if the filter holds the prefixes produced by `extractor`.
    pub(crate) fn has_prefixes_of(&self, extractor: &PrefixExtractor) -> bool {
        let mine = self.prefix_extractor.as_ref();
        mine.is_some_and(|mine| mine.is_like(extractor))
    }

    /// Adds `key`, which must have no timestamp.
    #[inline]
    pub(crate) fn add(&self, key: &[u8]) {
        if let Some(prefix) = self.prefix(key) {
            self.set(hash64(prefix));
        }
        if self.whole_keys {
            self.set(hash64(key));
        }
    }

    /// True if `key`, which must have no timestamp, may have been added.
    #[inline]
    pub(crate) fn may_have(&self, key: &[u8]) -> bool {
        if self.whole_keys {
            self.is_set(hash64(key))
        } else {
            self.may_have_prefix_of(key)
        }
    }

    /// True if a key with the prefix of `key` may have been added, or if `key` has no prefix.
    #[inline]
    pub(crate) fn may_have_prefix_of(&self, key: &[u8]) -> bool {
        self.prefix(key)
            .is_none_or(|prefix| self.is_set(hash64(prefix)))
    }

    #[inline]
    fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let extractor = self.prefix_extractor.as_ref()?;
        extractor.prefix(key)
    }

    #[inline]
    fn set(&self, hash: u64) {
        for (word, bit) in self.probes(hash) {
            // Load first: most bits of a prefix are already set, and a shared cache line stays shared.
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    fn is_set(&self, hash: u64) -> bool {
        self.probes(hash)
            .all(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// The bits of `hash`. Its upper bits select the line; nine bits of a remixed hash select each bit within
    /// the line.
    #[inline]
    fn probes(&self, hash: u64) -> impl Iterator<Item = (&AtomicU64, u64)> {
        // Less than the number of lines, as the hash is less than 2^64.
        let line = (u128::from(hash) * self.lines.len() as u128) >> 64;
        debug_assert!((line as usize) < self.lines.len(), "a hash maps to a line");
        let words = &self.lines[line as usize].0;
        let mixed = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (0..PROBES).map(move |nth| {
            let chosen = mixed >> (64 - 9 * (nth + 1));
            (&words[(chosen >> 6) as usize & 7], 1 << (chosen & 63))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn filter(bytes: usize, whole_keys: bool, prefix: Option<usize>) -> Option<Filter> {
        Filter::new(FilterOptions {
            bytes,
            whole_keys,
            prefix_extractor: prefix.map(PrefixExtractor::Fixed),
        })
    }

    #[test]
    fn options_without_content_yield_no_filter() {
        assert!(filter(0, true, Some(1)).is_none());
        assert!(filter(1024, false, None).is_none());
        assert_eq!(filter(1, true, None).unwrap().bytes(), 64);
        assert_eq!(filter(65, true, None).unwrap().bytes(), 128);
    }

    #[test]
    fn ten_bits_per_key_reject_nearly_all_absent_keys() {
        let filter = filter(12_500, true, None).unwrap();
        for n in 0..10_000_u32 {
            filter.add(&n.to_be_bytes());
        }
        assert!((0..10_000_u32).all(|n| filter.may_have(&n.to_be_bytes())));
        let absent = 10_000..110_000_u32;
        let passed = absent.filter(|n| filter.may_have(&n.to_be_bytes())).count();
        // The best filter of this shape has a false-positive rate of about 1.1 %.
        assert!(passed < 2_000, "{passed} of 100000 absent keys passed");
    }

    #[test]
    fn keys_without_a_prefix_pass() {
        let filter = filter(1024, false, Some(3)).unwrap();
        filter.add(b"abcd");
        filter.add(b"x");
        assert!(filter.may_have(b"abcz") && filter.may_have(b"x") && filter.may_have(b"y"));
        assert!(!filter.may_have(b"xyz"));
        assert!(filter.has_prefixes_of(&PrefixExtractor::Fixed(3)));
        assert!(!filter.has_prefixes_of(&PrefixExtractor::Capped(3)));
    }

    #[test]
    fn whole_keys_distinguish_keys_of_one_prefix() {
        let filter = filter(1024, true, Some(2)).unwrap();
        filter.add(b"abc");
        assert!(filter.may_have_prefix_of(b"abd") && !filter.may_have(b"abd"));
    }

    #[test]
    fn concurrent_additions_lose_no_bits() {
        let filter = filter(256, true, None).unwrap();
        let key = |thread: u32, n: u32| [thread.to_be_bytes(), n.to_be_bytes()].concat();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let filter = &filter;
                scope.spawn(move || (0..50).for_each(|n| filter.add(&key(thread, n))));
            }
        });
        let mut keys = (0..4).flat_map(|thread| (0..50).map(move |n| key(thread, n)));
        assert!(keys.all(|key| filter.may_have(&key)));
    }
}
