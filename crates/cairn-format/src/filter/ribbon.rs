//! Ribbon filters: each key is a linear equation over 128 consecutive slots, modulo 2.
//!
//! A filter is a solution of all equations, with one bit per slot and column. The equation of an
//! absent key holds in each column with a probability of one half, so the false-positive rate with
//! `c` columns is 2^-c. The first blocks of 128 slots have one column fewer than the others, which
//! allows fractional averages.
//!
//! The construction is that of "Ribbon filter: practically smaller than Bloom and Xor" (Dillinger, Walzer,
//! 2021). Hashing, seeds and block sizes are RocksDB's (util/ribbon_*.h, Apache 2.0), with which the format
//! is compatible.

use super::METADATA_LEN;
use crate::hash::fastrange64;

/// The number of slots in a block, and of coefficients in an equation.
const WIDTH: u32 = 128;
const SEGMENT_LEN: usize = 16;
/// The maximum number of columns, and so of bits in the result of an equation.
const MAX_COLUMNS: u32 = 32;

/// The dimensions of a Ribbon filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RibbonShape {
    blocks: u32,
    /// The number of columns of the other blocks.
    columns: u32,
    /// The number of blocks at the front, which have one column fewer.
    front: u32,
    seed: u32,
}

/// The equation of a key: its first slot, its coefficients from there, and its result by column.
#[derive(Clone, Copy)]
struct Equation {
    start: u64,
    coefficients: u128,
    result: u32,
}

fn mixed_seed(seed: u8) -> u32 {
    let mixed = u64::from(seed).wrapping_mul(0xc782_19a2_3eea_dd03);
    (mixed ^ (mixed & 0xf0f0_f0f0_f0f0_f0f0) >> 4) as u32
}

#[inline]
fn equation(hash: u64, seed: u32, blocks: u32) -> Equation {
    let h = (hash ^ u64::from(seed)).wrapping_mul(0x6193_d459_236a_3a0d);
    let starts = u64::from(WIDTH) * u64::from(blocks) - u64::from(WIDTH - 1);
    let a = h.wrapping_mul(0xc28f_8282_2b65_0bed);
    Equation {
        start: fastrange64(h, starts),
        coefficients: u128::from(a) << 64 | u128::from(a ^ 0xc367_844a_6e52_731d) | 1,
        result: a.swap_bytes() as u32,
    }
}

impl RibbonShape {
    /// The shape of a filter with `len` bytes of segments, or `None` if `len` is invalid.
    pub(super) fn new(len: usize, seed: u8, blocks: u32) -> Option<RibbonShape> {
        if blocks < 2 {
            return None;
        }
        let segments = (len / SEGMENT_LEN) as u64;
        let wide = u64::from(blocks);
        let columns = segments.div_ceil(wide);
        let (columns, front) = if columns > u64::from(MAX_COLUMNS) {
            (MAX_COLUMNS, 0)
        } else {
            (columns as u32, (columns * wide - segments) as u32)
        };
        Some(RibbonShape {
            blocks,
            columns,
            front,
            seed: mixed_seed(seed),
        })
    }

    /// The first segment of a block, and the number of columns of the block.
    #[inline]
    fn block(&self, block: u64) -> (u64, u64) {
        let front = u64::from(self.front);
        let columns = u64::from(self.columns);
        (
            block * columns - block.min(front),
            columns.saturating_sub(u64::from(block < front)),
        )
    }

    #[inline]
    pub(super) fn may_match(&self, bytes: &[u8], hash: u64) -> bool {
        let equation = equation(hash, self.seed, self.blocks);
        let bit = (equation.start % u64::from(WIDTH)) as u32;
        let (first, columns) = self.block(equation.start / u64::from(WIDTH));
        let low = equation.coefficients << bit;
        // The part of the equation in the next block.
        let high = match bit {
            0 => 0,
            _ => equation.coefficients >> (WIDTH - bit),
        };
        (0..columns).all(|i| {
            let mut sum = segment(bytes, first + i) & low;
            if high != 0 {
                sum ^= segment(bytes, first + columns + i) & high;
            }
            sum.count_ones() & 1 == equation.result >> i & 1
        })
    }
}

#[inline]
fn segment(bytes: &[u8], i: u64) -> u128 {
    let at = usize::try_from(i)
        .ok()
        .and_then(|i| i.checked_mul(SEGMENT_LEN));
    at.and_then(|at| bytes.get(at..)?.first_chunk())
        .map_or(0, |chunk| u128::from_le_bytes(*chunk))
}

/// The number of keys in 2^8, 2^9, ... slots for which one of twenty seeds fails.
const CAPACITY: [f64; 10] = [
    248.851, 499.532, 1001.26, 2003.97, 4005.59, 8000.39, 15966.6, 31828.1, 63447.3, 126_506.0,
];
const FIRST_POWER: usize = 8;

/// The number of keys for 2^`power` slots.
fn capacity(power: usize) -> f64 {
    match CAPACITY.get(power - FIRST_POWER) {
        Some(&keys) => keys,
        None => {
            let last = FIRST_POWER + CAPACITY.len() - 1;
            let base = (1u64 << last) as f64 / CAPACITY[CAPACITY.len() - 1] - last as f64 * 0.0038;
            (power as f64).exp2() / (base + 0.0038 * power as f64)
        }
    }
}

/// The number of slots for `keys` keys: whole blocks, at least two.
pub(super) fn slots(keys: usize) -> u64 {
    let keys = keys as f64;
    let mut power = FIRST_POWER;
    while capacity(power) < keys && power < 40 {
        power += 1;
    }
    let slots = if power == FIRST_POWER {
        256.0
    } else {
        let (low, high) = (capacity(power - 1), capacity(power));
        let below = ((power - 1) as f64).exp2();
        below + below * (keys - low) / (high - low)
    };
    (slots.ceil() as u64).next_multiple_of(u64::from(WIDTH))
}

/// The number of segments for which `blocks` blocks have the false-positive rate `rate`.
fn segments(blocks: u64, rate: f64) -> u64 {
    let columns = (1.0 / rate).log2().floor().clamp(1.0, 31.0);
    // Some blocks get one more column to meet the average. The rate is never exceeded.
    let more = (2.0 * (1.0 - rate * columns.exp2())).clamp(0.0, 1.0);
    blocks * columns as u64 + (blocks as f64 * more).ceil() as u64
}

/// The length of a filter of `keys` keys, including metadata.
pub(super) fn len(keys: usize, rate: f64) -> usize {
    let blocks = slots(keys) / u64::from(WIDTH);
    segments(blocks, rate) as usize * SEGMENT_LEN + METADATA_LEN
}

/// Builds a Ribbon filter of `hashes` with a false-positive rate of about `rate`; `keys` is the
/// number of hashes, at least one. Returns `None` if no seed makes the equations solvable.
pub(super) fn build(
    hashes: &(impl Iterator<Item = u64> + Clone),
    keys: usize,
    rate: f64,
) -> Option<Vec<u8>> {
    let blocks = u32::try_from(slots(keys) / u64::from(WIDTH)).ok()?;
    if blocks >= 1 << 24 {
        return None;
    }
    let len = segments(u64::from(blocks), rate) as usize * SEGMENT_LEN;
    let first_seed = hashes.clone().next()? as u8;
    let mut band = Band::new(blocks);
    let seed = (0..=u8::MAX)
        .map(|i| first_seed.wrapping_add(i))
        .find(|&seed| band.solve(hashes.clone(), mixed_seed(seed), blocks))?;
    let shape = RibbonShape::new(len, seed, blocks)?;
    let mut out = vec![0; len];
    band.write(&shape, &mut out);
    out.extend([super::RIBBON, seed]);
    out.extend(&blocks.to_le_bytes()[..3]);
    Some(out)
}

/// The memory of an equation of the band, in bytes.
pub(super) const EQUATION_BYTES: usize = size_of::<u128>() + size_of::<u32>();

/// Equations in row echelon form: the equation at a slot starts there.
struct Band {
    coefficients: Vec<u128>,
    results: Vec<u32>,
}

impl Band {
    fn new(blocks: u32) -> Band {
        let slots = blocks as usize * WIDTH as usize;
        Band {
            coefficients: vec![0; slots],
            results: vec![0; slots],
        }
    }

    /// Adds the equations of all hashes. Returns false if they are contradictory.
    fn solve(&mut self, mut hashes: impl Iterator<Item = u64>, seed: u32, blocks: u32) -> bool {
        self.coefficients.fill(0);
        self.results.fill(0);
        hashes.all(|hash| self.add(equation(hash, seed, blocks)))
    }

    fn add(&mut self, equation: Equation) -> bool {
        let mut at = equation.start as usize;
        let (mut coefficients, mut result) = (equation.coefficients, equation.result);
        loop {
            if self.coefficients[at] == 0 {
                self.coefficients[at] = coefficients;
                self.results[at] = result;
                return true;
            }
            coefficients ^= self.coefficients[at];
            result ^= self.results[at];
            if coefficients == 0 {
                return result == 0;
            }
            // Both start with a one, so their sum starts at a later slot.
            let skip = coefficients.trailing_zeros();
            coefficients >>= skip;
            at += skip as usize;
        }
    }

    /// Writes a solution, from the last slot to the first.
    fn write(&self, shape: &RibbonShape, out: &mut [u8]) {
        // The solved bits of each column in the 128 slots from the current one.
        let mut solved = [0u128; MAX_COLUMNS as usize];
        let solved = &mut solved[..shape.columns as usize];
        for slot in (0..self.coefficients.len()).rev() {
            let (coefficients, result) = (self.coefficients[slot], self.results[slot]);
            for (column, bits) in solved.iter_mut().enumerate() {
                let behind = *bits << 1;
                let sum = (behind & coefficients).count_ones() & 1;
                *bits = behind | u128::from(sum ^ (result >> column & 1));
            }
            if slot % WIDTH as usize == 0 {
                let (first, columns) = shape.block(slot as u64 / u64::from(WIDTH));
                for (i, bits) in solved[..columns as usize].iter().enumerate() {
                    let at = (first as usize + i) * SEGMENT_LEN;
                    out[at..at + SEGMENT_LEN].copy_from_slice(&bits.to_le_bytes());
                }
            }
        }
    }
}
