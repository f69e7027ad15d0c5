//! Compression dictionaries: data that a codec treats as if it preceded every block.

use std::fmt;

use cairn_types::{Error, Result};
use zstd_safe::DDict;

/// A dictionary as stored in a table, with zstd's digested form for decompression.
pub struct Dictionary {
    raw: Vec<u8>,
    /// `None` if the bytes have zstd's dictionary magic but are invalid. LZ4 and zlib accept any bytes.
    zstd: Option<DDict<'static>>,
}

impl Dictionary {
    /// Creates a dictionary for decompression.
    #[must_use]
    pub fn new(raw: Vec<u8>) -> Dictionary {
        let zstd = DDict::try_create(&raw);
        Dictionary { raw, zstd }
    }

    /// The bytes stored in the table.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The digested form.
    pub(crate) fn zstd(&self) -> Option<&DDict<'static>> {
        self.zstd.as_ref()
    }

    /// The memory used, including the digested form.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        size_of::<Dictionary>() + self.raw.capacity() + self.zstd.as_ref().map_or(0, DDict::sizeof)
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({} bytes)", self.raw.len())
    }
}

/// Trains a zstd dictionary of at most `max_bytes`. The samples are concatenated in `samples`, with their
/// lengths in `sizes`.
///
/// # Errors
///
/// `InvalidArgument` if the samples are insufficient. The caller continues without a dictionary.
pub fn train_zstd(samples: &[u8], sizes: &[usize], max_bytes: usize) -> Result<Vec<u8>> {
    zstd::dict::from_continuous(samples, sizes, max_bytes).map_err(|error| {
        Error::invalid_argument(format!(
            "training a zstd dictionary of at most {max_bytes} bytes from {} samples: {error}",
            sizes.len()
        ))
    })
}
