//! A trivial cipher for tests, which changes every byte and is not secure.

use cairn_platform::BlockCipher;

/// RocksDB's `ROT13` with 32-byte blocks: adds 13 to each byte.
pub struct SampleCipher;

impl BlockCipher for SampleCipher {
    fn block_size(&self) -> usize {
        32
    }

    fn encrypt_blocks(&self, blocks: &mut [u8]) {
        for byte in blocks {
            *byte = byte.wrapping_add(13);
        }
    }
}
