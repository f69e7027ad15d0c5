//! Cache-local Bloom filters: all bits of a key are in one cache line.
//!
//! The probes are RocksDB's (util/bloom_impl.h, Apache 2.0): `FastLocalBloomImpl`, and
//! `LegacyLocalityBloomImpl` for legacy filters.

use crate::hash::fastrange32;

/// The size of a line of FastLocalBloom filters.
pub(super) const LINE_LEN: usize = 64;
const LINE_BITS: usize = 8 * LINE_LEN;
/// The maximum length of a FastLocalBloom filter.
const MAX_LEN: u64 = 0xffff_ffc0;

/// The bits of a key within its line.
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

/// The offset of a key's line.
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

/// The number of probes for `millibits` thousandths of a bit per key.
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

/// The length of the lines for `keys` keys.
pub(super) fn fast_len(keys: usize, millibits: u32) -> usize {
    let bits = (keys as u64).saturating_mul(u64::from(millibits));
    let len = bits
        .div_ceil(8000)
        .checked_next_multiple_of(LINE_LEN as u64)
        .map_or(MAX_LEN, |len| len.min(MAX_LEN));
    usize::try_from(len).unwrap_or(usize::MAX / LINE_LEN * LINE_LEN)
}

/// Builds a FastLocalBloom filter of `hashes`; `keys` is their number, at least one.
pub(super) fn build_fast(
    hashes: impl Iterator<Item = u64>,
    keys: usize,
    millibits: u32,
) -> Vec<u8> {
    let len = fast_len(keys, millibits);
    let lines = (len / LINE_LEN) as u32;
    let probes = fast_probe_count(millibits);
    // Includes the metadata.
    let mut out = Vec::with_capacity(len + super::METADATA_LEN);
    out.resize(len, 0);
    let (filter, _) = out.as_chunks_mut::<LINE_LEN>();
    hashes.for_each(|hash| {
        let line = &mut filter[fastrange32(hash as u32, lines) as usize];
        for bit in fast_probes(hash, probes) {
            line[bit >> 3] |= 1 << (bit & 7);
        }
    });
    out.extend([super::FAST_LOCAL_BLOOM, 0, probes, 0, 0]);
    out
}

/// Builds a legacy Bloom filter of 32-bit `hashes`; `keys` is their number, at least one.
pub(super) fn build_legacy(
    hashes: impl Iterator<Item = u64>,
    keys: usize,
    millibits: u32,
) -> Vec<u8> {
    let bits = u64::from((millibits + 500) / 1000);
    let probes = (bits * 69 / 100).clamp(1, 30) as u8;
    let lines = (keys as u64 * bits).div_ceil(LINE_BITS as u64) | 1;
    // The format has 32-bit counts, and no file has that many keys.
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

/// The estimated false-positive rate of a FastLocalBloom filter with `millibits`.
pub(super) fn fast_false_positive_rate(millibits: u32) -> f64 {
    let probes = f64::from(fast_probe_count(millibits));
    let rate = |keys_per_line: f64| {
        let unset = (-probes * keys_per_line / LINE_BITS as f64).exp();
        (1.0 - unset).powf(probes)
    };
    // Keys are distributed unevenly over lines; one standard deviation to either side approximates
    // this.
    let per_line = LINE_BITS as f64 * 1000.0 / f64::from(millibits);
    let deviation = per_line.sqrt();
    (rate(per_line + deviation) + rate((per_line - deviation).max(0.0))) / 2.0
}
