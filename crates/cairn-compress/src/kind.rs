//! The codecs and their names.

use std::fmt;

use cairn_types::Error;

/// How a block is compressed. The numbers stand in block trailers and blob file headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
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
    /// LZ4 with a thorough search; decodes as LZ4 does.
    Lz4hc = 5,
    /// Microsoft's XPRESS, which Cairn knows by name only.
    Xpress = 6,
    /// Zstandard.
    Zstd = 7,
}

/// Every codec with its name in options and its name in table properties.
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

/// What RocksDB before 5.x wrote for zstd, and still accepts as an option's value.
const ZSTD_NOT_FINAL: u8 = 0x40;

impl Compression {
    /// The codec of families that name none, chosen for speed: LZ4, or Snappy in a build without it.
    pub const FAST: Compression = match cfg!(feature = "lz4") {
        true => Compression::Lz4,
        false => Compression::Snappy,
    };

    /// Every codec, by number.
    pub fn all() -> impl Iterator<Item = Compression> {
        NAMES.iter().map(|row| row.0)
    }

    /// The codec with this number, or `None` if Cairn knows none.
    #[must_use]
    pub fn from_u8(byte: u8) -> Option<Compression> {
        match byte {
            ZSTD_NOT_FINAL => Some(Compression::Zstd),
            _ => NAMES.get(usize::from(byte)).map(|row| row.0),
        }
    }

    /// The name in options: `kZSTD`.
    #[must_use]
    pub fn option_name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// The codec that an option's value names.
    #[must_use]
    pub fn from_option_name(name: &str) -> Option<Compression> {
        match name {
            "kZSTDNotFinalCompression" => Some(Compression::Zstd),
            _ => NAMES.iter().find(|row| row.1 == name).map(|row| row.0),
        }
    }

    /// The name in table properties: `ZSTD`.
    #[must_use]
    pub fn property_name(self) -> &'static str {
        NAMES[self as usize].2
    }

    /// The codec that a table property names.
    #[must_use]
    pub fn from_property_name(name: &str) -> Option<Compression> {
        match name {
            "ZSTDNotFinal" => Some(Compression::Zstd),
            _ => NAMES.iter().find(|row| row.2 == name).map(|row| row.0),
        }
    }

    /// The feature of this crate that the codec needs, and true if this build has it.
    fn feature(self) -> Option<(&'static str, bool)> {
        match self {
            Compression::Lz4 | Compression::Lz4hc => Some(("lz4", cfg!(feature = "lz4"))),
            Compression::Zstd => Some(("zstd", cfg!(feature = "zstd"))),
            _ => None,
        }
    }

    /// True if this build compresses and decompresses with it.
    #[must_use]
    pub fn is_supported(self) -> bool {
        match self.feature() {
            Some((_, built)) => built,
            None => self != Compression::Xpress,
        }
    }

    /// The codec and the feature that it needs, as the text of the error of a codec that is not supported.
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

    /// True if blocks of this codec may be compressed with a dictionary.
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
    fn names_and_numbers_lead_back_to_their_codec() {
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
