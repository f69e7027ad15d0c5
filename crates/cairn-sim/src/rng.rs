//! A small seeded random number generator.

/// The increment of the state (`splitmix64`).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator whose output is determined by its seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let once = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let twice = (once ^ (once >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        twice ^ (twice >> 31)
    }

    /// A random number less than `limit`, or 0 if `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        match limit as u64 {
            0 => 0,
            limit => (self.next_u64() % limit) as usize,
        }
    }

    /// True with a probability of `times` out of `of`.
    pub fn chance(&mut self, times: usize, of: usize) -> bool {
        self.below(of) < times
    }

    /// A random element of `choices`, which must not be empty.
    pub fn pick<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.below(choices.len())]
    }

    /// Derives an independent generator for `purpose`, so that additional choices there do not affect this
    /// one.
    #[must_use]
    pub fn fork(&self, purpose: u64) -> Rng {
        let mut rng = Rng(self.0 ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        rng.next_u64();
        rng
    }
}
