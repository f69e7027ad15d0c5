//! The random choices of a simulation: a small generator with the few questions tests ask.

/// What the state grows by each step (`splitmix64`).
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A generator whose whole future follows from its seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The generator of `seed`.
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

    /// A number below `limit`, or 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        match limit as u64 {
            0 => 0,
            limit => (self.next_u64() % limit) as usize,
        }
    }

    /// True if something happens that happens `times` in `of` times.
    pub fn chance(&mut self, times: usize, of: usize) -> bool {
        self.below(of) < times
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<'c, T>(&mut self, choices: &'c [T]) -> &'c T {
        &choices[self.below(choices.len())]
    }

    /// A generator of its own for `purpose`, so that more choices there change nothing here.
    #[must_use]
    pub fn fork(&self, purpose: u64) -> Rng {
        let mut rng = Rng(self.0 ^ purpose.wrapping_mul(0xd6e8_feb8_6659_fd93));
        rng.next_u64();
        rng
    }
}
