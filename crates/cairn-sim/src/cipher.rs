//! A cipher for tests: it changes every byte, and anybody can read it.

use cairn_platform::BlockCipher;

/// What RocksDB calls `ROT13`, with its blocks of 32 bytes: 13 is added to each byte.
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
