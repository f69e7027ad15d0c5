//! Randomness: the trait of its sources.

/// A source of random numbers; nothing secret depends on it.
pub trait Random: Send + Sync {
    /// 64 random bits.
    fn next_u64(&self) -> u64;
}
