//! Bloom filters that keep all bits of a key in one line of the processor's cache.
//!
//! The probes are those of RocksDB (util/bloom_impl.h, Apache 2.0): `FastLocalBloomImpl`, and `LegacyLocalityBloomImpl` for
//! filters that are read only.

use crate::hash::fastrange32;

/// Bytes of a line of filters that are written.
pub(super) const LINE_LEN: usize = 64;
const LINE_BITS: usize = 8 * LINE_LEN;
/// The longest FastLocalBloom filter.
const MAX_LEN: u64 = 0xffff_ffc0;

/// The bits of a key in its line, one after another.
#[inline(always)]
fn fast_probes(hash: u64, probes: u8) -> impl Iterator<Item = usize> {
    let mut g = (hash >> 32) as u32;
    (0..probes).map(move |_| {
        let bit = (g >> 23) as usize;
        g = g.wrapping_mul(0x9e37_79b9);
        bit
    })
}

#[inline]
pub(super) fn fast_may_match(bytes: &[u8], lines: u32, probes: u8, hash: u64) -> bool {
    let Some(line) = bytes
        .get(fast_line(lines, hash)..)
        .and_then(|rest| rest.first_chunk::<LINE_LEN>())
    else {
        return true;
    };
    fast_probes(hash, probes).all(|bit| line[bit >> 3] >> (bit & 7) & 1 != 0)
}

/// Where the line of a key begins.
#[inline]
pub(super) fn fast_line(lines: u32, hash: u64) -> usize {
    fastrange32(hash as u32, lines) as usize * LINE_LEN
}

#[inline]
pub(super) fn legacy_may_match(
    bytes: &[u8],
    lines: u32,
    line_len: u32,
    probes: u8,
    mut hash: u32,
) -> bool {
    let at = (hash % lines) as usize * line_len as usize;
    let Some(line) = bytes.get(at..at + line_len as usize) else {
        return true;
    };
    let delta = hash.rotate_right(17);
    for _ in 0..probes {
        let bit = (hash & (8 * line_len - 1)) as usize;
        if line[bit >> 3] >> (bit & 7) & 1 == 0 {
            return false;
        }
        hash = hash.wrapping_add(delta);
    }
    true
}

/// How many bits a key should set where it has `millibits` thousandths of a bit to itself.
pub(super) fn fast_probe_count(millibits: u32) -> u8 {
    const UP_TO: [u32; 12] = [
        2080, 3580, 5100, 6640, 8300, 10070, 11720, 14001, 16050, 18300, 22001, 25501,
    ];
    match UP_TO.iter().position(|&limit| millibits <= limit) {
        Some(i) => i as u8 + 1,
        None if millibits > 50_000 => 24,
        None => ((millibits - 1) / 2000 - 1) as u8,
    }
}

/// Bytes of lines for `keys` keys.
pub(super) fn fast_len(keys: usize, millibits: u32) -> usize {
    let bits = (keys as u64).saturating_mul(u64::from(millibits));
    let len = bits
        .div_ceil(8000)
        .checked_next_multiple_of(LINE_LEN as u64)
        .map_or(MAX_LEN, |len| len.min(MAX_LEN));
    usize::try_from(len).unwrap_or(usize::MAX / LINE_LEN * LINE_LEN)
}

/// A FastLocalBloom filter of `hashes`, of which there are `keys`, not none.
pub(super) fn build_fast(
    hashes: impl Iterator<Item = u64>,
    keys: usize,
    millibits: u32,
) -> Vec<u8> {
    let len = fast_len(keys, millibits);
    let lines = (len / LINE_LEN) as u32;
    let probes = fast_probe_count(millibits);
    // The end of a filter fits too.
    let mut out = Vec::with_capacity(len + super::METADATA_LEN);
    out.resize(len, 0);
    hashes.for_each(|hash| {
        let at = fastrange32(hash as u32, lines) as usize * LINE_LEN;
        let line = &mut out[at..at + LINE_LEN];
        for bit in fast_probes(hash, probes) {
            line[bit >> 3] |= 1 << (bit & 7);
        }
    });
    out.extend([super::FAST_LOCAL_BLOOM, 0, probes, 0, 0]);
    out
}

/// A legacy Bloom filter of `hashes` (32 bits each), of which there are `keys`, not none.
pub(super) fn build_legacy(
    hashes: impl Iterator<Item = u64>,
    keys: usize,
    millibits: u32,
) -> Vec<u8> {
    let bits = u64::from((millibits + 500) / 1000);
    let probes = (bits * 69 / 100).clamp(1, 30) as u8;
    let lines = (keys as u64 * bits).div_ceil(LINE_BITS as u64) | 1;
    // Counts are 32 bits in the format; a file has not that many keys.
    let lines = u32::try_from(lines).unwrap_or(u32::MAX);
    let mut out = vec![0; lines as usize * LINE_LEN];
    for hash in hashes {
        let mut hash = hash as u32;
        let at = (hash % lines) as usize * LINE_LEN;
        let delta = hash.rotate_right(17);
        for _ in 0..probes {
            let bit = hash as usize % LINE_BITS;
            out[at + (bit >> 3)] |= 1 << (bit & 7);
            hash = hash.wrapping_add(delta);
        }
    }
    out.push(probes);
    out.extend(lines.to_le_bytes());
    out
}

/// The share of absent keys that a FastLocalBloom filter of `millibits` lets pass.
pub(super) fn fast_false_positive_rate(millibits: u32) -> f64 {
    let probes = f64::from(fast_probe_count(millibits));
    let rate = |keys_per_line: f64| {
        let unset = (-probes * keys_per_line / LINE_BITS as f64).exp();
        (1.0 - unset).powf(probes)
    };
    // Keys fall into lines unevenly; one standard deviation to either side stands for all.
    let per_line = LINE_BITS as f64 * 1000.0 / f64::from(millibits);
    let deviation = per_line.sqrt();
    (rate(per_line + deviation) + rate((per_line - deviation).max(0.0))) / 2.0
}
