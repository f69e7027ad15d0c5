//! Counter mode: what RocksDB's `CTREncryptionProvider` lays down, for any block cipher.
//!
//! ```text
//! prefix, 4096 bytes, for a cipher with blocks of B bytes:
//!      0     8  counter, little-endian
//!      B     B  nonce, of which the first 8 bytes are not used
//!            the rest, random bytes, is not used
//! ```
//!
//! The bytes of block n of the file (from `n * B` on, the prefix counted) are combined by exclusive or with
//! the encryption of the nonce whose first 8 bytes are `counter + n`, little-endian. No two files may have
//! the same counter and nonce under one key; random ones of 16 bytes never have. A block that is smaller
//! has fewer random bytes: 8 bytes of counter are too few for many files.

use std::path::Path;
use std::sync::Arc;

use cairn_types::{Error, Result};

use super::{CipherStream, EncryptionProvider};
use crate::posix::fill_from_kernel;
use crate::random::Random;

/// Bytes of the prefix.
const PREFIX_LEN: usize = 4096;
/// Bytes of the counter.
const COUNTER_LEN: usize = 8;
/// Bytes of key stream that are made at once.
const AT_ONCE: usize = 2048;

/// A block cipher with its key, such as AES. Which one, and where the key comes from, is the program's
/// affair; no cipher comes with the engine.
pub trait BlockCipher: Send + Sync {
    /// Bytes of a block; always the same. 16 for AES.
    fn block_size(&self) -> usize;
    /// Encrypts `blocks`, one or more whole blocks, each by itself.
    fn encrypt_blocks(&self, blocks: &mut [u8]);
}

/// Encrypts files with a block cipher in counter mode, each with a nonce of its own.
pub struct CtrProvider {
    cipher: Arc<dyn BlockCipher>,
    /// Where nonces come from; without it, the kernel.
    random: Option<Arc<dyn Random>>,
}

impl std::fmt::Debug for CtrProvider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CtrProvider").finish_non_exhaustive()
    }
}

impl CtrProvider {
    /// Encrypts with `cipher`; nonces come from the kernel.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a cipher whose blocks have less than 8 bytes or more than 2048.
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

    /// The provider, with nonces from `random`. For simulations, which repeat; nonces that repeat give
    /// away what they encrypt.
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
    /// Encrypts or decrypts `data` at `offset`: both are the same.
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
