//! Compression dictionaries: bytes that a codec treats as if they stood before every block.

use std::fmt;

use cairn_types::Result;

use crate::zstd::{self, Digested};

/// A dictionary as a table stores it, with what zstd makes of it for decompression.
pub struct Dictionary {
    raw: Vec<u8>,
    /// `None` if the bytes claim to be a zstd dictionary and are none; LZ4 and zlib do not mind.
    zstd: Option<Digested>,
}

impl Dictionary {
    /// A dictionary for decompression.
    #[must_use]
    pub fn new(raw: Vec<u8>) -> Dictionary {
        let zstd = Digested::new(&raw);
        Dictionary { raw, zstd }
    }

    /// The bytes that the table stores.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// What zstd made of it.
    pub(crate) fn zstd(&self) -> Option<&Digested> {
        self.zstd.as_ref()
    }

    /// Bytes of memory that the dictionary takes, digested form included.
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

/// Trains a zstd dictionary of at most `max_bytes` from samples that lie one behind the other in
/// `samples`, `sizes` long.
///
/// # Errors
///
/// `InvalidArgument` if zstd finds too little in the samples; the caller goes on without one.
pub fn train_zstd(samples: &[u8], sizes: &[usize], max_bytes: usize) -> Result<Vec<u8>> {
    zstd::train(samples, sizes, max_bytes)
}
