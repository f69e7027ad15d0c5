//! Checksums of blocks and records.
//!
//! WALs, MANIFESTs and blob files use CRC32C. The footer of a table selects the checksum of its
//! blocks. CRCs are stored *masked*, because computing the CRC of a string that contains embedded
//! CRCs is problematic. As of format version 6, a block's checksum also depends on its file and
//! offset ([`context_modifier`]), which detects intact but misplaced blocks.

use std::hash::Hasher as _;

use cairn_types::{Decoded, Malformed};
use twox_hash::{XxHash3_64, XxHash32, XxHash64};

/// The checksum of block trailers. The numbers are part of the file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum ChecksumKind {
    /// None. The field is ignored.
    None = 0,
    /// CRC32C, masked.
    Crc32c = 1,
    /// XXH32.
    XxHash = 2,
    /// The lower half of XXH64.
    XxHash64 = 3,
    /// The lower half of XXH3, the default.
    #[default]
    Xxh3 = 4,
}

impl ChecksumKind {
    /// The kind with this number, or `None`.
    #[must_use]
    pub fn from_u8(byte: u8) -> Option<ChecksumKind> {
        Some(match byte {
            0 => ChecksumKind::None,
            1 => ChecksumKind::Crc32c,
            2 => ChecksumKind::XxHash,
            3 => ChecksumKind::XxHash64,
            4 => ChecksumKind::Xxh3,
            _ => return None,
        })
    }

    /// The kind with this number, read at offset `at` of the input.
    ///
    /// # Errors
    ///
    /// If there is no such kind.
    pub fn decode(byte: u8, at: usize) -> Decoded<ChecksumKind> {
        ChecksumKind::from_u8(byte)
            .ok_or_else(|| Malformed::mismatch(at, "checksum kind", "0 to 4", byte))
    }
}

/// The CRC32C of `bytes`, hardware-accelerated if possible.
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

/// Extends a CRC32C by `bytes`.
#[inline]
#[must_use]
pub fn crc32c_extend(crc: u32, bytes: &[u8]) -> u32 {
    ::crc32c::crc32c_append(crc, bytes)
}

const MASK_DELTA: u32 = 0xa282_ead8;

/// The stored form of a CRC.
#[inline]
#[must_use]
pub fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// The CRC with the stored form `masked`.
#[inline]
#[must_use]
pub fn unmask(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

/// The checksum of a block with the content `data` and the compression type `last_byte`, as in its trailer.
#[inline]
#[must_use]
pub fn block_checksum(kind: ChecksumKind, data: &[u8], last_byte: u8) -> u32 {
    match kind {
        ChecksumKind::None => 0,
        ChecksumKind::Crc32c => mask(crc32c_extend(crc32c(data), &[last_byte])),
        ChecksumKind::XxHash => {
            let mut state = XxHash32::with_seed(0);
            state.write(data);
            state.write(&[last_byte]);
            state.finish_32()
        }
        ChecksumKind::XxHash64 => {
            let mut state = XxHash64::with_seed(0);
            state.write(data);
            state.write(&[last_byte]);
            state.finish() as u32
        }
        // XXH3 is fastest on contiguous data, so the last byte is mixed in afterwards.
        ChecksumKind::Xxh3 => {
            XxHash3_64::oneshot(data) as u32 ^ u32::from(last_byte).wrapping_mul(0x6b90_83d9)
        }
    }
}

/// The checksum of data without a trailer, such as a footer.
#[must_use]
pub fn buffer_checksum(kind: ChecksumKind, bytes: &[u8]) -> u32 {
    match bytes.split_last() {
        Some((&last, data)) => block_checksum(kind, data, last),
        None if kind == ChecksumKind::Xxh3 || kind == ChecksumKind::None => 0,
        None if kind == ChecksumKind::Crc32c => mask(0),
        None if kind == ChecksumKind::XxHash => XxHash32::oneshot(0, bytes),
        None => XxHash64::oneshot(0, bytes) as u32,
    }
}

/// The amount added (wrapping) to the checksum of the block at `offset` of a file with the base context
/// checksum `base`, which is 0 before format version 6.
#[inline]
#[must_use]
pub fn context_modifier(base: u32, offset: u64) -> u32 {
    if base == 0 {
        return 0;
    }
    base ^ (offset as u32).wrapping_add((offset >> 32) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use xxhash_rust::{xxh3, xxh32, xxh64};

    #[test]
    fn crc32c_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c_extend(crc32c(b"1234"), b"56789"), 0xe306_9283);
        assert_eq!(mask(0), MASK_DELTA);
    }

    #[test]
    fn each_kind_is_its_published_algorithm() {
        let data = b"some block";
        let whole = b"some block\x07";
        let sum = |kind| block_checksum(kind, data, 7);
        assert_eq!(sum(ChecksumKind::None), 0);
        assert_eq!(sum(ChecksumKind::Crc32c), mask(crc32c(whole)));
        assert_eq!(sum(ChecksumKind::XxHash), xxh32::xxh32(whole, 0));
        assert_eq!(sum(ChecksumKind::XxHash64), xxh64::xxh64(whole, 0) as u32);
        assert_eq!(
            sum(ChecksumKind::Xxh3),
            xxh3::xxh3_64(data) as u32 ^ 7u32.wrapping_mul(0x6b90_83d9)
        );
        assert_eq!(
            buffer_checksum(ChecksumKind::Xxh3, whole),
            sum(ChecksumKind::Xxh3)
        );
        assert_eq!(buffer_checksum(ChecksumKind::Xxh3, b""), 0);
    }

    /// Data in which all stripes differ.
    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| ((i * 31) ^ (i >> 3)) as u8).collect()
    }

    /// The hashes of `pattern(length)` by xxHash 0.8.1: XXH32, and the lower halves of XXH64 and XXH3.
    const KNOWN: [(usize, u32, u32, u32); 11] = [
        (0, 0x02cc_5d05, 0x51d8_e999, 0x38d3_94c2),
        (1, 0xcf65_b03e, 0xdb05_2768, 0x074e_ecdb),
        (3, 0x7b62_c7c0, 0xe4b3_469a, 0x91e6_25f9),
        (16, 0xac05_d371, 0x4acd_5861, 0xad5a_ee3d),
        (128, 0xd1ad_71d7, 0xba48_ea36, 0x3431_abcd),
        (240, 0xd95c_7737, 0x56e7_eb65, 0x46bb_70e8),
        (241, 0x5103_e083, 0x8c19_9af2, 0xb971_5cff),
        (1024, 0x518c_3bdf, 0x6895_c4c3, 0x0664_5d3d),
        (1025, 0x0834_1a6a, 0x3a70_16f8, 0x5f87_6e85),
        (4096, 0xc933_e15a, 0xc1c7_4261, 0x0c81_f2b9),
        (20_000, 0x16c2_b852, 0xda38_ae10, 0x703b_0147),
    ];

    #[test]
    fn long_and_short_inputs_have_the_published_hashes() {
        for (len, xxh32, xxh64, xxh3) in KNOWN {
            let bytes = pattern(len);
            let whole = |kind| buffer_checksum(kind, &bytes);
            assert_eq!(whole(ChecksumKind::XxHash), xxh32, "{len} bytes");
            assert_eq!(whole(ChecksumKind::XxHash64), xxh64, "{len} bytes");
            // A last byte of zero leaves the hash unchanged.
            let hash = block_checksum(ChecksumKind::Xxh3, &bytes, 0);
            assert_eq!(hash, xxh3, "{len} bytes");
        }
    }

    /// The long form, which depends on CPU features, starts at 241 bytes and has rounds of 1,024.
    /// Inputs cover every alignment.
    #[test]
    fn both_implementations_agree_at_every_length() {
        let bytes = pattern((20 << 10) + 64);
        for len in 0..=20 << 10 {
            let input = &bytes[len % 64..][..len];
            let hash = block_checksum(ChecksumKind::Xxh3, input, 0);
            assert_eq!(hash, xxh3::xxh3_64(input) as u32, "{len} bytes");
            let wide = xxh3::xxh3_128_with_seed(input, len as u64);
            let (high, low) = crate::hash::xxh3_128(input, len as u64);
            assert_eq!(
                u128::from(high) << 64 | u128::from(low),
                wide,
                "{len} bytes"
            );
        }
    }

    #[test]
    fn kinds_have_numbers_0_to_4() {
        for byte in 0..=4 {
            assert_eq!(ChecksumKind::decode(byte, 0).unwrap() as u8, byte);
        }
        assert!(ChecksumKind::decode(5, 0).is_err());
    }

    #[test]
    fn the_context_requires_a_base_checksum() {
        assert_eq!(context_modifier(0, 77), 0);
        assert_eq!(context_modifier(0xff, (3 << 32) | 5), 0xff ^ 8);
        assert_eq!(context_modifier(1, u64::MAX), 1 ^ 0xffff_fffe);
    }

    proptest! {
        #[test]
        fn unmask_undoes_mask(crc: u32) {
            prop_assert_eq!(unmask(mask(crc)), crc);
        }

        #[test]
        fn both_implementations_agree(data in prop::collection::vec(any::<u8>(), 0..5000), last: u8) {
            let sum = |kind| block_checksum(kind, &data, last);
            let mut whole = data.clone();
            whole.push(last);
            prop_assert_eq!(sum(ChecksumKind::XxHash), xxh32::xxh32(&whole, 0));
            prop_assert_eq!(sum(ChecksumKind::XxHash64), xxh64::xxh64(&whole, 0) as u32);
            let mixed = u32::from(last).wrapping_mul(0x6b90_83d9);
            prop_assert_eq!(sum(ChecksumKind::Xxh3), xxh3::xxh3_64(&data) as u32 ^ mixed);
        }
    }
}
