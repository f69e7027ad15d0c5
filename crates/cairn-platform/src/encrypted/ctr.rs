//! Counter mode with any block cipher, in the format of RocksDB's `CTREncryptionProvider`.
//!
//! ```text
//! prefix, 4096 bytes, for a cipher with blocks of B bytes:
//!      0     8  counter, little-endian
//!      B     B  nonce, whose first 8 bytes are unused
//!            the rest, random bytes, is unused
//! ```
//!
//! Block n of the file (at offset `n * B`, including the prefix) is XORed with the encryption of the nonce
//! whose first 8 bytes are replaced by `counter + n`, little-endian. The pair of counter and nonce must be
//! unique per key; random pairs of 16 bytes are. Ciphers with smaller blocks have fewer random bytes: an
//! 8-byte counter alone does not suffice for many files.

use std::path::Path;
use std::sync::Arc;

use cairn_types::{Error, Result};

use super::{CipherStream, EncryptionProvider};
use crate::posix::fill_from_kernel;
use crate::random::Random;

/// The length of the prefix.
const PREFIX_LEN: usize = 4096;
/// The length of the counter.
const COUNTER_LEN: usize = 8;
/// The number of bytes of key stream generated at a time.
const AT_ONCE: usize = 2048;

/// A keyed block cipher, such as AES. The application provides the cipher and its key; the engine has none.
pub trait BlockCipher: Send + Sync {
    /// The constant block size in bytes; 16 for AES.
    fn block_size(&self) -> usize;
    /// Encrypts `blocks`, a multiple of the block size, each block independently.
    fn encrypt_blocks(&self, blocks: &mut [u8]);
}

/// An encryption provider for a block cipher in counter mode, with a nonce per file.
pub struct CtrProvider {
    cipher: Arc<dyn BlockCipher>,
    /// The source of nonces; the kernel by default.
    random: Option<Arc<dyn Random>>,
}

impl std::fmt::Debug for CtrProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CtrProvider").finish_non_exhaustive()
    }
}

impl CtrProvider {
    /// Creates a provider for `cipher`, with nonces from the kernel.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for block sizes of less than 8 or more than 2048 bytes.
    pub fn new(cipher: Arc<dyn BlockCipher>) -> Result<CtrProvider> {
        let size = cipher.block_size();
        if !(COUNTER_LEN..=AT_ONCE).contains(&size) {
            return Err(Error::invalid_argument(format!(
                "a cipher for counter mode has blocks of {COUNTER_LEN} to {AT_ONCE} bytes, this one \
                 of {size}"
            )));
        }
        Ok(CtrProvider {
            cipher,
            random: None,
        })
    }

    /// Uses `random` as the source of nonces. For reproducible simulations only: repeated nonces reveal the
    /// plaintext.
    #[must_use]
    pub fn with_random(mut self, random: Arc<dyn Random>) -> CtrProvider {
        self.random = Some(random);
        self
    }
}

impl EncryptionProvider for CtrProvider {
    fn prefix_len(&self) -> usize {
        PREFIX_LEN
    }

    fn new_prefix(&self, _path: &Path) -> Result<Vec<u8>> {
        let mut prefix = vec![0; PREFIX_LEN];
        match &self.random {
            Some(random) => {
                for bytes in prefix.chunks_exact_mut(8) {
                    bytes.copy_from_slice(&random.next_u64().to_le_bytes());
                }
            }
            None => fill_from_kernel(&mut prefix)?,
        }
        Ok(prefix)
    }

    fn stream(&self, path: &Path, prefix: &[u8]) -> Result<Box<dyn CipherStream>> {
        let size = self.cipher.block_size();
        let (Some(counter), Some(nonce)) = (
            prefix.first_chunk::<COUNTER_LEN>(),
            prefix.get(size..2 * size),
        ) else {
            return Err(Error::corruption(format!(
                "prefix of {}: expected {} bytes, found {}",
                path.display(),
                2 * size,
                prefix.len()
            )));
        };
        Ok(Box::new(CtrStream {
            cipher: self.cipher.clone(),
            size,
            counter: u64::from_le_bytes(*counter),
            nonce: nonce.into(),
        }))
    }
}

struct CtrStream {
    cipher: Arc<dyn BlockCipher>,
    size: usize,
    counter: u64,
    nonce: Box<[u8]>,
}

impl CtrStream {
    /// Encrypts or decrypts `data` at `offset`. Both are the same operation.
    fn apply(&self, mut offset: u64, mut data: &mut [u8]) {
        let size = self.size;
        let mut keys = [0; AT_ONCE];
        while !data.is_empty() {
            let (block, skip) = (offset / size as u64, (offset % size as u64) as usize);
            let blocks = (skip + data.len()).div_ceil(size).min(AT_ONCE / size);
            let keys = &mut keys[..blocks * size];
            for (number, key) in (block..).zip(keys.chunks_exact_mut(size)) {
                key.copy_from_slice(&self.nonce);
                let counter = self.counter.wrapping_add(number);
                key[..COUNTER_LEN].copy_from_slice(&counter.to_le_bytes());
            }
            self.cipher.encrypt_blocks(keys);
            let (now, later) = data.split_at_mut((blocks * size - skip).min(data.len()));
            for (byte, key) in now.iter_mut().zip(&keys[skip..]) {
                *byte ^= key;
            }
            offset = offset.wrapping_add(now.len() as u64);
            data = later;
        }
    }
}

impl CipherStream for CtrStream {
    fn encrypt(&self, offset: u64, data: &mut [u8]) -> Result<()> {
        self.apply(offset, data);
        Ok(())
    }

    fn decrypt(&self, offset: u64, data: &mut [u8]) -> Result<()> {
        self.apply(offset, data);
        Ok(())
    }
}
