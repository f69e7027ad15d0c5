//! The interface of random number generators.

/// A random number generator, not for cryptography.
pub trait Random: Send + Sync {
    /// 64 random bits.
    fn next_u64(&self) -> u64;
}
