//! The codecs and their names.

use std::fmt;

use cairn_types::Error;

/// The codec of a block. The numbers are those in block trailers and blob file headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    #[default]
    None = 0,
    /// Snappy.
    Snappy = 1,
    /// Raw deflate.
    Zlib = 2,
    /// bzip2.
    Bzip2 = 3,
    /// LZ4.
    Lz4 = 4,
    /// LZ4 with an exhaustive search; decoded like LZ4.
    Lz4hc = 5,
    /// Microsoft's XPRESS, which is recognised but not supported.
    Xpress = 6,
    /// Zstandard.
    Zstd = 7,
}

/// Each codec with its option name and its property name.
const NAMES: [(Compression, &str, &str); 8] = [
    (Compression::None, "kNoCompression", "NoCompression"),
    (Compression::Snappy, "kSnappyCompression", "Snappy"),
    (Compression::Zlib, "kZlibCompression", "Zlib"),
    (Compression::Bzip2, "kBZip2Compression", "BZip2"),
    (Compression::Lz4, "kLZ4Compression", "LZ4"),
    (Compression::Lz4hc, "kLZ4HCCompression", "LZ4HC"),
    (Compression::Xpress, "kXpressCompression", "Xpress"),
    (Compression::Zstd, "kZSTD", "ZSTD"),
];

/// The number of zstd in RocksDB before 5.x; still accepted as an option value.
const ZSTD_NOT_FINAL: u8 = 0x40;

impl Compression {
    /// The default codec of a column family: LZ4, or Snappy in a build without LZ4.
    pub const FAST: Compression = match cfg!(feature = "lz4") {
        true => Compression::Lz4,
        false => Compression::Snappy,
    };

    /// All codecs, by number.
    pub fn all() -> impl Iterator<Item = Compression> {
        NAMES.iter().map(|row| row.0)
    }

    /// The codec with this number, or `None`.
    #[must_use]
    pub fn from_u8(byte: u8) -> Option<Compression> {
        match byte {
            ZSTD_NOT_FINAL => Some(Compression::Zstd),
            _ => NAMES.get(usize::from(byte)).map(|row| row.0),
        }
    }

    /// The name in options, such as `kZSTD`.
    #[must_use]
    pub fn option_name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// The codec with this option name.
    #[must_use]
    pub fn from_option_name(name: &str) -> Option<Compression> {
        match name {
            "kZSTDNotFinalCompression" => Some(Compression::Zstd),
            _ => NAMES.iter().find(|row| row.1 == name).map(|row| row.0),
        }
    }

    /// The name in table properties, such as `ZSTD`.
    #[must_use]
    pub fn property_name(self) -> &'static str {
        NAMES[self as usize].2
    }

    /// The codec with this property name.
    #[must_use]
    pub fn from_property_name(name: &str) -> Option<Compression> {
        match name {
            "ZSTDNotFinal" => Some(Compression::Zstd),
            _ => NAMES.iter().find(|row| row.2 == name).map(|row| row.0),
        }
    }

    /// The Cargo feature that the codec needs, if any, and whether it is enabled.
    fn feature(self) -> Option<(&'static str, bool)> {
        match self {
            Compression::Lz4 | Compression::Lz4hc => Some(("lz4", cfg!(feature = "lz4"))),
            Compression::Zstd => Some(("zstd", cfg!(feature = "zstd"))),
            _ => None,
        }
    }

    /// True if this build can compress and decompress with the codec.
    #[must_use]
    pub fn is_supported(self) -> bool {
        match self.feature() {
            Some((_, built)) => built,
            None => self != Compression::Xpress,
        }
    }

    /// The error text for a codec that is not supported: the codec and the feature it needs.
    #[must_use]
    #[cold]
    pub fn absence(self) -> String {
        let name = self.option_name();
        match self.feature() {
            Some((feature, _)) => {
                format!("compression type {self} ({name}): built without the feature `{feature}`")
            }
            None => format!("compression type {self} ({name})"),
        }
    }

    /// [`Compression::absence`] as an error.
    #[cold]
    pub(crate) fn not_supported(self) -> Error {
        Error::not_supported(self.absence())
    }

    /// True if the codec supports dictionaries.
    #[must_use]
    pub fn takes_dictionary(self) -> bool {
        use Compression::{Lz4, Lz4hc, Zlib, Zstd};
        matches!(self, Zlib | Lz4 | Lz4hc | Zstd)
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.property_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_round_trip_by_name_and_number() {
        for kind in Compression::all() {
            assert_eq!(Compression::from_u8(kind as u8), Some(kind));
            assert_eq!(
                Compression::from_option_name(kind.option_name()),
                Some(kind)
            );
            assert_eq!(
                Compression::from_property_name(kind.property_name()),
                Some(kind)
            );
        }
        assert_eq!(Compression::from_u8(0x40), Some(Compression::Zstd));
        assert_eq!(Compression::from_u8(8), None);
    }
}
