//! Filter policies, which select the type of filter of a table.

use std::fmt;

use super::BUILTIN_NAME;
use super::builder::{FilterBuilder, Shape};

/// The first format version whose readers support the current filters.
const FAST_LOCAL_SINCE: u32 = 5;

/// A filter policy. All policies can read all built-in filters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum FilterPolicy {
    /// `bloomfilter:bits`: Bloom filters.
    Bloom {
        /// Bits per key.
        bits_per_key: f64,
    },
    /// `ribbonfilter:bits:level`: Ribbon filters, which are smaller and slower to build.
    Ribbon {
        /// Bits per key of a Bloom filter with the same false-positive rate.
        bloom_equivalent_bits_per_key: f64,
        /// Levels before this one get Bloom filters. Flushes count as level -1; `i32::MAX` selects them for
        /// all tables.
        bloom_before_level: i32,
    },
    /// `rocksdb.BuiltinBloomFilter`: reads filters but builds none.
    ReadOnly,
}

impl FilterPolicy {
    /// The level for [`FilterPolicy::builder`] of a flush.
    pub const FLUSH: i32 = -1;

    /// The level for [`FilterPolicy::builder`] of tables outside of a tree, or in one with FIFO compaction: as in RocksDB, they
    /// count as bottommost, and the largest number is reserved for Bloom filters everywhere.
    pub const UNKNOWN_LEVEL: i32 = i32::MAX - 1;

    /// Parses a policy. Returns `None` if the text is invalid; callers handle `nullptr` first.
    #[must_use]
    pub fn from_text(text: &str) -> Option<FilterPolicy> {
        let text = text.trim();
        if let Some(fields) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) {
            return FilterPolicy::from_fields(fields);
        }
        let mut parts = text.split(':');
        let (name, rest) = (parts.next()?, parts.collect::<Vec<_>>());
        let bits = |text: &str| text.parse::<f64>().ok().filter(|bits| !bits.is_nan());
        match (name, &rest[..]) {
            (
                "bloomfilter" | "rocksdb.BloomFilter" | "rocksdb.internal.FastLocalBloomFilter",
                [b],
            ) => Some(FilterPolicy::Bloom {
                bits_per_key: bits(b)?,
            }),
            // The last field used to select an obsolete format; both of its values are accepted and
            // ignored.
            ("bloomfilter" | "rocksdb.BloomFilter", [b, "true" | "false" | "0" | "1"]) => {
                Some(FilterPolicy::Bloom {
                    bits_per_key: bits(b)?,
                })
            }
            ("ribbonfilter" | "rocksdb.RibbonFilter", [b]) => Some(FilterPolicy::Ribbon {
                bloom_equivalent_bits_per_key: bits(b)?,
                bloom_before_level: 0,
            }),
            ("ribbonfilter" | "rocksdb.RibbonFilter", [b, level]) => Some(FilterPolicy::Ribbon {
                bloom_equivalent_bits_per_key: bits(b)?,
                bloom_before_level: level.parse().ok()?,
            }),
            (BUILTIN_NAME, []) => Some(FilterPolicy::ReadOnly),
            _ => None,
        }
    }

    /// `id=ribbonfilter:10:1;bloom_before_level=1;`, as written by 11.x.
    fn from_fields(fields: &str) -> Option<FilterPolicy> {
        let mut policy = None;
        let mut before = None;
        for field in fields.split(';').map(str::trim).filter(|f| !f.is_empty()) {
            match field.split_once('=')? {
                ("id", text) if !text.contains('{') => policy = FilterPolicy::from_text(text),
                ("bloom_before_level", level) => before = Some(level.parse::<i32>().ok()?),
                _ => return None,
            }
        }
        match (policy?, before) {
            (policy, None) => Some(policy),
            (
                FilterPolicy::Ribbon {
                    bloom_equivalent_bits_per_key,
                    ..
                },
                Some(bloom_before_level),
            ) => Some(FilterPolicy::Ribbon {
                bloom_equivalent_bits_per_key,
                bloom_before_level,
            }),
            _ => None,
        }
    }

    /// The name recorded in the property `rocksdb.filter.policy`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            FilterPolicy::Bloom { .. } => "bloomfilter",
            FilterPolicy::Ribbon { .. } => "ribbonfilter",
            FilterPolicy::ReadOnly => BUILTIN_NAME,
        }
    }

    /// Returns a builder for a table of `format_version` on `level`, which may be [`FilterPolicy::FLUSH`] or
    /// [`FilterPolicy::UNKNOWN_LEVEL`]; `None` if the table gets no filter.
    #[must_use]
    pub fn builder(&self, format_version: u32, level: i32) -> Option<FilterBuilder> {
        let (bits, shape) = match *self {
            FilterPolicy::Bloom { bits_per_key } => (bits_per_key, Shape::Fast),
            FilterPolicy::Ribbon {
                bloom_equivalent_bits_per_key,
                bloom_before_level,
            } => {
                let bloom = level < bloom_before_level;
                (
                    bloom_equivalent_bits_per_key,
                    if bloom { Shape::Fast } else { Shape::Ribbon },
                )
            }
            FilterPolicy::ReadOnly => return None,
        };
        let shape = match shape {
            _ if format_version < FAST_LOCAL_SINCE => Shape::Legacy,
            shape => shape,
        };
        Some(FilterBuilder::new(shape, millibits(bits)?))
    }
}

/// Thousandths of a bit per key, or `None` if there are too few for a filter.
fn millibits(bits_per_key: f64) -> Option<u32> {
    if bits_per_key < 0.5 || bits_per_key.is_nan() {
        return None;
    }
    Some((bits_per_key.clamp(1.0, 100.0) * 1000.0).round() as u32)
}

impl fmt::Display for FilterPolicy {
    /// The text for OPTIONS files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterPolicy::Bloom { bits_per_key } => write!(f, "bloomfilter:{bits_per_key}:false"),
            FilterPolicy::Ribbon {
                bloom_equivalent_bits_per_key: bits,
                bloom_before_level: level,
            } => write!(f, "ribbonfilter:{bits}:{level}"),
            FilterPolicy::ReadOnly => f.write_str(BUILTIN_NAME),
        }
    }
}
