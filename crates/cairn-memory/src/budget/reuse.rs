//! Ghosts: evicted keys without their blocks, which show how many reads a larger cache would have saved.
//!
//! A sample of the evicted keys is remembered with the number of bytes evicted so far. If a key is inserted
//! again, the number of bytes evicted in between is its distance: how much larger the cache would have had to
//! be to keep the block. The distances of an interval form a [`ReuseCurve`], from which `decide` derives the
//! value of each region. Lookups are not affected; an insertion or an eviction of a key outside the sample
//! costs one multiplication.

use std::collections::{BTreeMap, VecDeque};

use cairn_platform::sync::{AtomicU64, Mutex, Ordering};

/// The number of ghosts.
const MAX_GHOSTS: usize = 16 << 10;

/// The distances that ghosts should cover, as a multiple of the capacity.
const COVERED: usize = 8;

/// The assumed size of blocks, for the share of keys that is sampled.
const BLOCK: usize = 4 << 10;

/// The unit of distances: the width of the first buckets.
const UNIT: u64 = 64 << 10;

/// Buckets for each doubling of the distance.
const PER_DOUBLING: usize = 4;

/// The number of buckets: distances up to 2^32 units.
const BUCKETS: usize = 32 * PER_DOUBLING;

/// Numbers of insertions by distance.
#[derive(Clone, Debug, PartialEq)]
pub struct ReuseCurve {
    buckets: Vec<f64>,
    /// Insertions of keys that are not among the ghosts: first reads, and distances beyond the ghosts.
    cold: f64,
}

impl Default for ReuseCurve {
    fn default() -> ReuseCurve {
        ReuseCurve {
            buckets: vec![0.0; BUCKETS],
            cold: 0.0,
        }
    }
}

/// The lowest distance of bucket `at`.
fn start(at: usize) -> f64 {
    let doublings = at / PER_DOUBLING;
    let part = (at % PER_DOUBLING) as f64 / PER_DOUBLING as f64;
    // The first doubling begins at 0: [0, 1) unit, then [1, 2), [2, 4) and so on.
    let unit = UNIT as f64;
    match doublings {
        0 => unit * part,
        _ => unit * (1u64 << (doublings - 1)) as f64 * (1.0 + part),
    }
}

/// The bucket of `distance`.
fn bucket(distance: u64) -> usize {
    let units = distance / UNIT;
    let at = match units {
        0 => (distance * PER_DOUBLING as u64 / UNIT) as usize,
        _ => {
            let doublings = units.ilog2() as usize;
            let base = UNIT << doublings;
            let part = ((distance - base) / (base / PER_DOUBLING as u64)) as usize;
            (doublings + 1) * PER_DOUBLING + part
        }
    };
    at.min(BUCKETS - 1)
}

impl ReuseCurve {
    /// Adds `count` insertions at `distance` bytes.
    pub fn add(&mut self, distance: u64, count: f64) {
        self.buckets[bucket(distance)] += count;
    }

    /// Adds `count` insertions without a distance.
    pub fn add_cold(&mut self, count: f64) {
        self.cold += count;
    }

    /// Insertions without a distance.
    #[must_use]
    pub fn cold(&self) -> f64 {
        self.cold
    }

    /// Insertions with a distance.
    #[must_use]
    pub fn known(&self) -> f64 {
        self.buckets.iter().sum()
    }

    /// Returns the number of insertions at distances below `distance`. For a negative distance the result is
    /// negative: the hits that a cache smaller by that much would lose, assuming that its last bytes are hit
    /// as often as the next ones would be.
    #[must_use]
    pub fn below(&self, distance: f64) -> f64 {
        if distance < 0.0 {
            return -self.below(-distance);
        }
        let mut sum = 0.0;
        for (at, count) in self.buckets.iter().enumerate() {
            let (from, to) = (start(at), start(at + 1));
            if distance <= from {
                break;
            }
            sum += count * ((distance - from) / (to - from)).min(1.0);
        }
        sum
    }

    /// The smallest distance below which `count` insertions lie; infinite if there are fewer.
    #[must_use]
    pub fn distance_of(&self, count: f64) -> f64 {
        let mut sum = 0.0;
        for (at, own) in self.buckets.iter().enumerate() {
            if *own > 0.0 && sum + own >= count {
                let (from, to) = (start(at), start(at + 1));
                return from + (to - from) * ((count - sum) / own).clamp(0.0, 1.0);
            }
            sum += own;
        }
        f64::INFINITY
    }

    /// Adds the insertions of `other`.
    pub fn merge(&mut self, other: &ReuseCurve) {
        for (own, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += more;
        }
        self.cold += other.cold;
    }

    /// Multiplies all counts.
    pub fn scale(&mut self, factor: f64) {
        self.buckets.iter_mut().for_each(|count| *count *= factor);
        self.cold *= factor;
    }
}

/// The ghosts of a cache.
#[derive(Default)]
pub(crate) struct Ghosts {
    /// Bytes evicted so far.
    evicted: AtomicU64,
    /// Bytes inserted so far.
    inserted: AtomicU64,
    /// A key is in the sample if the upper bits of a product of its hash are zero: this many.
    sample_bits: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By hash: the bytes evicted when the ghost was made, and its number.
    ghosts: BTreeMap<u64, (u64, u64)>,
    /// Hash and number of each ghost, the oldest first, including ghosts that have since been taken.
    order: VecDeque<(u64, u64)>,
    made: u64,
    curve: ReuseCurve,
}

impl Ghosts {
    /// Ghosts for a cache of `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Ghosts {
        let ghosts = Ghosts::default();
        ghosts.set_capacity(capacity);
        ghosts
    }

    /// Changes the share of keys that is sampled. Ghosts of keys outside the new sample expire.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        let wanted = capacity / BLOCK * COVERED;
        let bits = (wanted / MAX_GHOSTS)
            .checked_ilog2()
            .map_or(0, |bits| bits + 1);
        self.sample_bits.store(bits.into(), Ordering::Relaxed);
    }

    #[inline]
    fn sample_bits(&self) -> u32 {
        // Relaxed, here and elsewhere: samples that order nothing. Truncation is impossible: at most 63.
        self.sample_bits.load(Ordering::Relaxed) as u32
    }

    #[inline]
    fn is_sampled(&self, hash: u64) -> bool {
        let bits = self.sample_bits();
        bits == 0 || hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits) == 0
    }

    /// Records the insertion of an entry with `hash` after a miss.
    #[inline]
    pub(crate) fn inserted(&self, hash: u64, charge: usize) {
        self.inserted.fetch_add(charge as u64, Ordering::Relaxed);
        if self.is_sampled(hash) {
            let now = self.evicted.load(Ordering::Relaxed);
            let mut state = self.state.lock();
            match state.ghosts.remove(&hash) {
                Some((then, _)) => state.curve.add(now.saturating_sub(then), 1.0),
                None => state.curve.add_cold(1.0),
            }
        }
    }

    /// Records the eviction of an entry with `hash`.
    #[inline]
    pub(crate) fn evicted(&self, hash: u64, charge: usize) {
        let before = self.evicted.fetch_add(charge as u64, Ordering::Relaxed);
        if self.is_sampled(hash) {
            self.state.lock().remember(hash, before);
        }
    }

    /// The curve of the insertions since the last call, scaled to all keys, and the bytes inserted so far.
    pub(crate) fn take(&self) -> (ReuseCurve, u64) {
        let mut curve = std::mem::take(&mut self.state.lock().curve);
        curve.scale((1u64 << self.sample_bits()) as f64);
        (curve, self.inserted.load(Ordering::Relaxed))
    }
}

impl State {
    fn remember(&mut self, hash: u64, evicted: u64) {
        self.made += 1;
        self.ghosts.insert(hash, (evicted, self.made));
        self.order.push_back((hash, self.made));
        while self.order.len() > MAX_GHOSTS
            && let Some((oldest, number)) = self.order.pop_front()
        {
            if self
                .ghosts
                .get(&oldest)
                .is_some_and(|ghost| ghost.1 == number)
            {
                self.ghosts.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_where_their_distances_are() {
        for at in 0..BUCKETS - 1 {
            let (from, to) = (start(at), start(at + 1));
            assert!(from < to);
            assert_eq!(bucket(from as u64), at);
            assert_eq!(bucket(to as u64 - 1), at);
        }
        assert_eq!(bucket(u64::MAX / 8), BUCKETS - 1);
    }

    #[test]
    fn a_curve_is_read_in_both_directions() {
        let mut curve = ReuseCurve::default();
        curve.add(10 * UNIT, 30.0);
        curve.add(100 * UNIT, 70.0);
        curve.add_cold(5.0);
        assert_eq!((curve.below(0.0), curve.below(UNIT as f64)), (0.0, 0.0));
        assert_eq!(curve.below(50.0 * UNIT as f64), 30.0);
        assert_eq!(curve.below(-50.0 * UNIT as f64), -30.0);
        assert_eq!(curve.below(f64::INFINITY), 100.0);
        assert_eq!(curve.distance_of(200.0), f64::INFINITY);
        let half = curve.distance_of(65.0);
        assert!((curve.below(half) - 65.0).abs() < 1e-6);
        assert_eq!((curve.known(), curve.cold()), (100.0, 5.0));
    }

    /// A cyclic scan of 100 blocks through a FIFO cache for 60 blocks misses each time, by 40 blocks.
    #[test]
    fn a_loop_misses_by_the_excess_over_the_capacity() {
        let ghosts = Ghosts::new(1 << 20);
        let block = 16 << 10;
        let mut cached = VecDeque::new();
        for n in 0..1000u64 {
            let hash = n % 100;
            assert!(!cached.contains(&hash), "a FIFO order misses every time");
            ghosts.inserted(hash, block);
            cached.push_back(hash);
            if cached.len() > 60
                && let Some(oldest) = cached.pop_front()
            {
                ghosts.evicted(oldest, block);
            }
        }
        let (curve, inserted) = ghosts.take();
        assert_eq!(inserted, 1000 * block as u64);
        assert_eq!((curve.cold(), curve.known()), (100.0, 900.0));
        let distance = 40.0 * block as f64;
        assert_eq!(curve.below(0.7 * distance), 0.0);
        assert_eq!(curve.below(1.3 * distance), 900.0);
        assert_eq!(ghosts.take().0, ReuseCurve::default());
    }

    #[test]
    fn large_caches_are_sampled() {
        let ghosts = Ghosts::new(1 << 30);
        assert_eq!(ghosts.sample_bits(), 8);
        for hash in 0..1_000_000u64 {
            ghosts.inserted(hash, 4096);
            ghosts.evicted(hash, 4096);
        }
        let state = ghosts.state.lock();
        assert!(
            (2000..6000).contains(&state.ghosts.len()),
            "{}",
            state.ghosts.len()
        );
        drop(state);
        let cold = ghosts.take().0.cold();
        assert!((900_000.0..1_100_000.0).contains(&cold), "{cold}");
    }
}
