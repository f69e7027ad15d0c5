//! Prefix extractors: the part of a key that prefix filters and prefix scans go by.

use std::fmt;
use std::sync::Arc;

/// A function from keys to prefixes, as a user may write one.
///
/// For keys `a <= b` of one prefix, every key between them must have that prefix too.
pub trait SliceTransform: Send + Sync {
    /// The name that files record; a reader whose extractor has another name does not use the
    /// prefixes in a file.
    fn name(&self) -> &str;
    /// True if `key` has a prefix.
    fn in_domain(&self, key: &[u8]) -> bool;
    /// The length of the prefix of `key`, which is in the domain.
    fn prefix_len(&self, key: &[u8]) -> usize;
}

/// RocksDB's built-in extractors, or one of the user's.
#[derive(Clone)]
pub enum PrefixExtractor {
    /// The first `n` bytes; shorter keys have no prefix. `rocksdb.FixedPrefix.n`.
    Fixed(usize),
    /// The first `n` bytes, or the whole of a shorter key. `rocksdb.CappedPrefix.n`.
    Capped(usize),
    /// The whole key. `rocksdb.Noop`.
    Noop,
    /// The user's own.
    Custom(Arc<dyn SliceTransform>),
}

impl PrefixExtractor {
    /// The name that table properties record.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            PrefixExtractor::Fixed(n) => format!("rocksdb.FixedPrefix.{n}"),
            PrefixExtractor::Capped(n) => format!("rocksdb.CappedPrefix.{n}"),
            PrefixExtractor::Noop => "rocksdb.Noop".to_owned(),
            PrefixExtractor::Custom(custom) => custom.name().to_owned(),
        }
    }

    /// The built-in extractor with this name, in the long form that properties record
    /// (`rocksdb.FixedPrefix.4`) or the short one of option texts (`fixed:4`, `capped:4`, `noop`,
    /// `rocksdb.FixedPrefix`-less numbers are not names).
    #[must_use]
    pub fn from_name(name: &str) -> Option<PrefixExtractor> {
        let number = |text: &str| text.parse().ok();
        if let Some(n) = name
            .strip_prefix("rocksdb.FixedPrefix.")
            .or(name.strip_prefix("fixed:"))
        {
            number(n).map(PrefixExtractor::Fixed)
        } else if let Some(n) = name
            .strip_prefix("rocksdb.CappedPrefix.")
            .or(name.strip_prefix("capped:"))
        {
            number(n).map(PrefixExtractor::Capped)
        } else if name == "rocksdb.Noop" || name == "noop" {
            Some(PrefixExtractor::Noop)
        } else {
            None
        }
    }

    /// True if both take the same prefix of every key. Extractors of users go by their names.
    #[must_use]
    pub fn is_like(&self, other: &PrefixExtractor) -> bool {
        use PrefixExtractor::{Capped, Custom, Fixed, Noop};
        match (self, other) {
            (Fixed(a), Fixed(b)) | (Capped(a), Capped(b)) => a == b,
            (Noop, Noop) => true,
            (Custom(a), Custom(b)) => a.name() == b.name(),
            _ => false,
        }
    }

    /// The prefix of `key` (without timestamp), or `None` if the key is outside the domain.
    #[inline]
    #[must_use]
    pub fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        match self {
            PrefixExtractor::Fixed(n) => key.get(..*n),
            PrefixExtractor::Capped(n) => Some(&key[..key.len().min(*n)]),
            PrefixExtractor::Noop => Some(key),
            PrefixExtractor::Custom(custom) => custom
                .in_domain(key)
                .then(|| &key[..custom.prefix_len(key).min(key.len())]),
        }
    }
}

impl fmt::Debug for PrefixExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_prefix_excludes_short_keys_and_a_capped_one_does_not() {
        assert_eq!(PrefixExtractor::Fixed(3).prefix(b"ab"), None);
        assert_eq!(PrefixExtractor::Fixed(3).prefix(b"abcd"), Some(&b"abc"[..]));
        assert_eq!(PrefixExtractor::Capped(3).prefix(b"ab"), Some(&b"ab"[..]));
        assert_eq!(
            PrefixExtractor::Capped(3).prefix(b"abcd"),
            Some(&b"abc"[..])
        );
    }

    #[test]
    fn names_lead_back_to_their_extractor() {
        for extractor in [
            PrefixExtractor::Fixed(4),
            PrefixExtractor::Capped(9),
            PrefixExtractor::Noop,
        ] {
            let again = PrefixExtractor::from_name(&extractor.name()).map(|e| e.name());
            assert_eq!(again, Some(extractor.name()));
        }
    }
}
