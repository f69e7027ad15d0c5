//! Filters: approximate sets with a few bits per key and without false negatives.
//!
//! The type of a filter is in its last five bytes. Unknown types match every key. A filter of at
//! most five bytes matches no key.
//!
//! ```text
//! FastLocalBloom  64-byte lines | ff 00 probes 00 00
//! LegacyBloom     lines | u8 probes (1 to 127) | fixed32 number of lines
//! Ribbon128       columns of 128 slots, 16 bytes each | fe | u8 seed | u24 blocks
//! always true     anything | 00 ....
//! ```
//!
//! [`FilterKind`] reads filters, [`FilterBuilder`] builds them, and options select a
//! [`FilterPolicy`]. A query hashes its key once, as a [`FilterKey`], and uses it with the filter
//! of every file: a cached Bloom filter takes about 10 ns and accesses one cache line.

mod bloom;
mod builder;
mod policy;
mod ribbon;

pub use builder::FilterBuilder;
pub use policy::FilterPolicy;

use std::cell::Cell;

use crate::hash::{hash32, hash64};
use ribbon::RibbonShape;

/// The length of the metadata at the end of a filter.
pub const METADATA_LEN: usize = 5;

/// The metaindex name of all built-in filters, independent of the policy.
pub const BUILTIN_NAME: &str = "rocksdb.BuiltinBloomFilter";

const LEGACY_SEED: u32 = 0xbc9f_1d34;
const FAST_LOCAL_BLOOM: u8 = 0xff;
const RIBBON: u8 = 0xfe;

/// The hashes of a key for filters.
#[derive(Clone, Debug)]
pub struct FilterKey<'a> {
    key: &'a [u8],
    hash: u64,
    /// Computed on demand, as only legacy filters need it.
    legacy: Cell<Option<u32>>,
}

impl<'a> FilterKey<'a> {
    /// Hashes `key`, a user key without timestamp or a prefix of one.
    #[inline]
    #[must_use]
    pub fn new(key: &'a [u8]) -> FilterKey<'a> {
        FilterKey::with_hash(key, hash64(key))
    }

    /// Creates a filter key with a known 64-bit hash.
    #[inline]
    #[must_use]
    pub fn with_hash(key: &'a [u8], hash: u64) -> FilterKey<'a> {
        FilterKey {
            key,
            hash,
            legacy: Cell::new(None),
        }
    }

    /// The 64-bit hash.
    #[inline]
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    fn legacy(&self) -> u32 {
        let hash = self
            .legacy
            .get()
            .unwrap_or_else(|| hash32(self.key, LEGACY_SEED));
        self.legacy.set(Some(hash));
        hash
    }
}

/// The type and parameters of a filter, decoded from its metadata. Valid for the bytes it was decoded from;
/// with other bytes results are unspecified, but there is no panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterKind {
    /// Matches no key.
    AlwaysFalse,
    /// Matches every key. Also used for unknown types.
    AlwaysTrue,
    /// A Bloom filter with 64-byte lines (format version 5 and later).
    FastLocalBloom {
        /// The number of lines.
        lines: u32,
        /// The number of bits per key.
        probes: u8,
    },
    /// A Bloom filter with cache lines of variable size (format version 4 and earlier).
    LegacyBloom {
        /// The number of lines.
        lines: u32,
        /// The length of a line, a power of two.
        line_len: u32,
        /// The number of bits per key.
        probes: u8,
    },
    /// A Ribbon filter: the solution of a system of linear equations.
    Ribbon128(RibbonShape),
}

impl FilterKind {
    /// Decodes the type of the filter `bytes`.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> FilterKind {
        let Some((bits, &[kind, a, b, c, d])) = bytes.split_last_chunk::<METADATA_LEN>() else {
            return FilterKind::AlwaysFalse;
        };
        if bits.is_empty() {
            return FilterKind::AlwaysFalse;
        }
        match kind {
            FAST_LOCAL_BLOOM => match u32::try_from(bits.len() / bloom::LINE_LEN) {
                // A zero, followed by 3 bits of line size (0 is 64 bytes) and 5 of probes.
                Ok(lines) if lines > 0 && a == 0 && (1..=30).contains(&b) && c == 0 && d == 0 => {
                    FilterKind::FastLocalBloom { lines, probes: b }
                }
                _ => FilterKind::AlwaysTrue,
            },
            RIBBON => match RibbonShape::new(bits.len(), a, u32::from_le_bytes([b, c, d, 0])) {
                Some(shape) => FilterKind::Ribbon128(shape),
                None => FilterKind::AlwaysTrue,
            },
            1..=127 => legacy(bits.len(), u32::from_le_bytes([a, b, c, d]), kind),
            _ => FilterKind::AlwaysTrue,
        }
    }

    /// True if `key` may be in the filter `bytes`.
    #[inline]
    #[must_use]
    pub fn may_match(&self, bytes: &[u8], key: &FilterKey<'_>) -> bool {
        match *self {
            FilterKind::FastLocalBloom { lines, probes } => {
                bloom::fast_may_match(bytes, lines, probes, key.hash)
            }
            FilterKind::Ribbon128(ref shape) => shape.may_match(bytes, key.hash),
            FilterKind::LegacyBloom {
                lines,
                line_len,
                probes,
            } => bloom::legacy_may_match(bytes, lines, line_len, probes, key.legacy()),
            FilterKind::AlwaysFalse => false,
            FilterKind::AlwaysTrue => true,
        }
    }

    /// The range of the filter that [`FilterKind::may_match`] will access, at most 64 bytes. When many
    /// filters are queried, all ranges are prefetched first, so that the cache misses overlap.
    #[inline]
    #[must_use]
    pub fn place(&self, key: &FilterKey<'_>) -> usize {
        match *self {
            FilterKind::FastLocalBloom { lines, .. } => bloom::fast_line(lines, key.hash),
            FilterKind::LegacyBloom {
                lines, line_len, ..
            } => (key.legacy() % lines) as usize * line_len as usize,
            _ => 0,
        }
    }
}

fn legacy(len: usize, lines: u32, probes: u8) -> FilterKind {
    if lines == 0 || !len.is_multiple_of(lines as usize) {
        return FilterKind::AlwaysTrue;
    }
    match u32::try_from(len / lines as usize) {
        // The hash that selects a bit must cover all bits of a line.
        Ok(line_len) if line_len.is_power_of_two() && line_len <= 1 << 28 => {
            FilterKind::LegacyBloom {
                lines,
                line_len,
                probes,
            }
        }
        _ => FilterKind::AlwaysTrue,
    }
}

/// True if `key` may be in the filter `bytes`, for a single query.
#[must_use]
pub fn may_match(bytes: &[u8], key: &[u8]) -> bool {
    FilterKind::parse(bytes).may_match(bytes, &FilterKey::new(key))
}

#[cfg(test)]
mod tests;
