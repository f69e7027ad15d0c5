//! Compression dictionaries: data that a codec treats as if it preceded every block.

use std::fmt;

use cairn_types::Result;

use crate::zstd::{self, Digested};

/// A dictionary as stored in a table, with zstd's digested form for decompression.
pub struct Dictionary {
    raw: Vec<u8>,
    /// `None` if the bytes have zstd's dictionary magic but are invalid. LZ4 and zlib accept any bytes.
    zstd: Option<Digested>,
}

impl Dictionary {
    /// Creates a dictionary for decompression.
    #[must_use]
    pub fn new(raw: Vec<u8>) -> Dictionary {
        let zstd = Digested::new(&raw);
        Dictionary { raw, zstd }
    }

    /// The bytes stored in the table.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The digested form.
    pub(crate) fn zstd(&self) -> Option<&Digested> {
        self.zstd.as_ref()
    }

    /// The memory used, including the digested form.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        size_of::<Dictionary>()
            + self.raw.capacity()
            + self.zstd.as_ref().map_or(0, Digested::memory_usage)
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
    zstd::train(samples, sizes, max_bytes)
}
