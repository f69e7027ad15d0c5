//! Prefix extractors: the prefix of a key that prefix filters and prefix seeks use.

use std::fmt;
use std::sync::Arc;

/// A user-defined function from keys to prefixes.
///
/// If keys `a <= b` share a prefix, every key between them must share it as well.
pub trait SliceTransform: Send + Sync {
    /// The name recorded in files. Prefix filters built by an extractor with another name are not
    /// used.
    fn name(&self) -> &str;
    /// True if `key` has a prefix.
    fn in_domain(&self, key: &[u8]) -> bool;
    /// The length of the prefix of `key`, which is in the domain.
    fn prefix_len(&self, key: &[u8]) -> usize;
}

/// RocksDB's built-in extractors, and user-defined ones.
#[derive(Clone)]
pub enum PrefixExtractor {
    /// The first `n` bytes; shorter keys have no prefix. `rocksdb.FixedPrefix.n`.
    Fixed(usize),
    /// The first `n` bytes, or the whole of a shorter key. `rocksdb.CappedPrefix.n`.
    Capped(usize),
    /// The whole key. `rocksdb.Noop`.
    Noop,
    /// A user-defined extractor.
    Custom(Arc<dyn SliceTransform>),
}

impl PrefixExtractor {
    /// The name recorded in table properties.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            PrefixExtractor::Fixed(n) => format!("rocksdb.FixedPrefix.{n}"),
            PrefixExtractor::Capped(n) => format!("rocksdb.CappedPrefix.{n}"),
            PrefixExtractor::Noop => "rocksdb.Noop".to_owned(),
            PrefixExtractor::Custom(custom) => custom.name().to_owned(),
        }
    }

    /// The built-in extractor with this name, either as table properties spell it
    /// (`rocksdb.FixedPrefix.4`) or as option strings do (`fixed:4`, `capped:4`, `noop`). Bare
    /// numbers are not names.
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

    /// True if both extract the same prefix from every key. User-defined extractors are compared by
    /// name.
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

    /// The prefix of `key`, which has no timestamp; `None` if the key is outside the domain.
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
    fn short_keys_have_capped_but_no_fixed_prefixes() {
        assert_eq!(PrefixExtractor::Fixed(3).prefix(b"ab"), None);
        assert_eq!(PrefixExtractor::Fixed(3).prefix(b"abcd"), Some(&b"abc"[..]));
        assert_eq!(PrefixExtractor::Capped(3).prefix(b"ab"), Some(&b"ab"[..]));
        assert_eq!(
            PrefixExtractor::Capped(3).prefix(b"abcd"),
            Some(&b"abc"[..])
        );
    }

    #[test]
    fn extractors_round_trip_by_name() {
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
