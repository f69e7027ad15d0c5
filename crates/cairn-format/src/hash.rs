//! Hash functions that are part of the file formats: for keys in filters and hash indexes, and for
//! ids.
//!
//! [`hash64`] is *not* the final XXH3 but the preview in xxHash 0.7.2 (seed 0), with a different
//! result for empty input; filters on disk depend on it. [`hash32`] is LevelDB's hash, with sign
//! extension of the trailing bytes. [`xxh3_128`] is the published algorithm.

/// The default secret of XXH3.
const SECRET: [u8; 192] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

const P64_1: u64 = 0x9e37_79b1_85eb_ca87;
const P64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const P64_3: u64 = 0x1656_67b1_9e37_79f9;
const P64_4: u64 = 0x85eb_ca77_c2b2_ae63;
const P64_5: u64 = 0x27d4_eb2f_1656_67c5;
const P32_1: u64 = 0x9e37_79b1;
const P32_2: u64 = 0x85eb_ca77;
const P32_3: u64 = 0xc2b2_ae3d;

/// The input consumed by one step of the long hash, 8 bytes per accumulator.
const STRIPE: usize = 64;
/// The number of stripes between scrambles.
const STRIPES_PER_BLOCK: usize = 16;
const BLOCK: usize = STRIPE * STRIPES_PER_BLOCK;

#[inline(always)]
fn read64(bytes: &[u8], at: usize) -> u64 {
    let chunk = bytes[at..].first_chunk().expect("the length was checked");
    u64::from_le_bytes(*chunk)
}

#[inline(always)]
fn read32(bytes: &[u8], at: usize) -> u32 {
    let chunk = bytes[at..].first_chunk().expect("the length was checked");
    u32::from_le_bytes(*chunk)
}

#[inline(always)]
fn secret(at: usize) -> u64 {
    read64(&SECRET, at)
}

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn avalanche(mut h: u64) -> u64 {
    h ^= h >> 37;
    h = h.wrapping_mul(P64_3);
    h ^ (h >> 32)
}

/// Mixes 16 bytes of the input at `at` with 16 of the secret at `from`.
#[inline(always)]
fn mix(bytes: &[u8], at: usize, from: usize) -> u64 {
    fold(
        read64(bytes, at) ^ secret(from),
        read64(bytes, at + 8) ^ secret(from + 8),
    )
}

/// The hash of keys in filters.
#[inline]
#[must_use]
pub fn hash64(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    match n {
        0 => fold(secret(0), P64_2),
        1..=3 => {
            let c = u32::from(bytes[0])
                | u32::from(bytes[n / 2]) << 8
                | u32::from(bytes[n - 1]) << 16
                | (n as u32) << 24;
            avalanche(u64::from(c ^ read32(&SECRET, 0)).wrapping_mul(P64_1))
        }
        4..=8 => {
            let x = u64::from(read32(bytes, 0)) | u64::from(read32(bytes, n - 4)) << 32;
            let k = x ^ secret(0);
            let m = (n as u64).wrapping_add((k ^ (k >> 51)).wrapping_mul(P32_1));
            avalanche((m ^ (m >> 47)).wrapping_mul(P64_2))
        }
        9..=16 => {
            let low = read64(bytes, 0) ^ secret(0);
            let high = read64(bytes, n - 8) ^ secret(8);
            let sum = (n as u64).wrapping_add(low).wrapping_add(high);
            avalanche(sum.wrapping_add(fold(low, high)))
        }
        17..=128 => hash_to_128(bytes),
        129..=240 => hash_to_240(bytes),
        _ => hash_long(bytes),
    }
}

fn hash_to_128(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    let mut acc = (n as u64).wrapping_mul(P64_1);
    // From the outside in: longer inputs use more pairs from both ends.
    for pair in (0..n.div_ceil(32)).rev() {
        acc = acc
            .wrapping_add(mix(bytes, 16 * pair, 32 * pair))
            .wrapping_add(mix(bytes, n - 16 * (pair + 1), 32 * pair + 16));
    }
    avalanche(acc)
}

fn hash_to_240(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    let mut acc = (n as u64).wrapping_mul(P64_1);
    for i in 0..8 {
        acc = acc.wrapping_add(mix(bytes, 16 * i, 16 * i));
    }
    acc = avalanche(acc);
    for i in 8..n / 16 {
        acc = acc.wrapping_add(mix(bytes, 16 * i, 16 * (i - 8) + 3));
    }
    avalanche(acc.wrapping_add(mix(bytes, n - 16, 119)))
}

/// Accumulates one stripe of `bytes` with the secret at `from`.
#[inline(always)]
fn accumulate(acc: &mut [u64; 8], bytes: &[u8], from: usize) {
    for (i, lane) in acc.iter_mut().enumerate() {
        let value = read64(bytes, 8 * i);
        let keyed = value ^ secret(from + 8 * i);
        *lane = lane
            .wrapping_add(value)
            .wrapping_add((keyed & 0xffff_ffff).wrapping_mul(keyed >> 32));
    }
}

fn hash_long(bytes: &[u8]) -> u64 {
    let n = bytes.len();
    let mut acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1];
    let blocks = bytes.chunks_exact(BLOCK);
    let tail = blocks.remainder();
    for block in blocks {
        for (i, stripe) in block.chunks_exact(STRIPE).enumerate() {
            accumulate(&mut acc, stripe, 8 * i);
        }
        for (i, lane) in acc.iter_mut().enumerate() {
            *lane ^= *lane >> 47;
            *lane ^= secret(128 + 8 * i);
            *lane = lane.wrapping_mul(P32_1);
        }
    }
    for (i, stripe) in tail.chunks_exact(STRIPE).enumerate() {
        accumulate(&mut acc, stripe, 8 * i);
    }
    if !n.is_multiple_of(STRIPE) {
        accumulate(&mut acc, &bytes[n - STRIPE..], 121);
    }
    let mut result = (n as u64).wrapping_mul(P64_1);
    for i in 0..4 {
        result = result.wrapping_add(fold(
            acc[2 * i] ^ secret(11 + 16 * i),
            acc[2 * i + 1] ^ secret(19 + 16 * i),
        ));
    }
    avalanche(result)
}

/// The hash of keys in legacy Bloom filters and data block hash indexes.
#[must_use]
pub fn hash32(bytes: &[u8], seed: u32) -> u32 {
    const M: u32 = 0xc6a4_a793;
    // All arithmetic is modulo 2^32, including the length.
    let mut h = seed ^ (bytes.len() as u32).wrapping_mul(M);
    let groups = bytes.chunks_exact(4);
    let tail = groups.remainder();
    for group in groups {
        h = h.wrapping_add(read32(group, 0)).wrapping_mul(M);
        h ^= h >> 16;
    }
    if tail.is_empty() {
        return h;
    }
    for (i, &byte) in tail.iter().enumerate() {
        // Sign-extended: the original implementation used signed chars, which determined the file format.
        h = h.wrapping_add((byte as i8 as u32) << (8 * i));
    }
    h = h.wrapping_mul(M);
    h ^ (h >> 24)
}

/// Maps `hash` from 32 bits to `0..range`.
#[inline]
#[must_use]
pub fn fastrange32(hash: u32, range: u32) -> u32 {
    ((u64::from(hash) * u64::from(range)) >> 32) as u32
}

/// Maps `hash` from 64 bits to `0..range`.
#[inline]
#[must_use]
pub fn fastrange64(hash: u64, range: u64) -> u64 {
    ((u128::from(hash) * u128::from(range)) >> 64) as u64
}

/// The seeded 128-bit XXH3, as (high, low). Used for unique ids of tables.
#[must_use]
pub fn xxh3_128(bytes: &[u8], seed: u64) -> (u64, u64) {
    let hash = twox_hash::XxHash3_128::oneshot_with_seed(seed, bytes);
    ((hash >> 64) as u64, hash as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hash64_has_the_documented_values() {
        let cases: [(&[u8], u64); 14] = [
            (b"", 0x5342_c301_0fe1_dd04),
            (b"a", 0x88d8_68bf_6076_81c7),
            (b"abc", 0xd39e_eb71_bb53_42e8),
            (b"abcd", 0x97a5_ba1d_02e8_378c),
            (b"abcdefgh", 0x5917_16e1_ea46_3467),
            (b"abcdefghi", 0x4b6f_4735_8ab1_c286),
            (&[b'x'; 16], 0xdde4_f7a8_acac_aa3a),
            (&[b'x'; 17], 0x61c6_37ab_957e_33d1),
            (&[b'x'; 100], 0x33d6_819f_258f_cb22),
            (&[b'x'; 129], 0x47a8_8963_4586_ea83),
            (&[b'x'; 240], 0x4796_d5f2_e54c_1b92),
            (&[b'x'; 241], 0x9f0e_6f7c_bbce_9b3d),
            (&[b'x'; 1024], 0x5696_c5fe_02cd_179a),
            (&[b'x'; 1025], 0x0aa1_daba_f7cb_9d81),
        ];
        for (input, expected) in cases {
            assert_eq!(hash64(input), expected, "{} bytes", input.len());
        }
    }

    #[test]
    fn hash32_has_the_documented_values() {
        let cases: [(&[u8], u32, u32); 5] = [
            (b"", 0x0000_018d, 0xbc9f_1d34),
            (b"a", 0x5c84_73b1, 0x286e_9db0),
            (b"abc", 0x1d9a_a392, 0x855d_012f),
            (b"abcd", 0x0c6f_6be9, 0xb9c8_3353),
            (&[b'x'; 100], 0x5c96_efd5, 0xe926_5013),
        ];
        for (input, index, bloom) in cases {
            assert_eq!(hash32(input, 397), index);
            assert_eq!(hash32(input, 0xbc9f_1d34), bloom);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn every_input_has_a_hash(bytes in prop::collection::vec(any::<u8>(), 0..1500), range: u32) {
            let hash = hash64(&bytes);
            prop_assert!(fastrange64(hash, u64::from(range)) < u64::from(range).max(1));
            prop_assert!(fastrange32(hash32(&bytes, 1), range) < range.max(1));
        }
    }
}
