//! The system's random number generator: seeded by the kernel once, and advanced by one atomic addition.

use cairn_types::{Error, Result};
use rustix::io::Errno;

use crate::random::Random;
use crate::sync::{AtomicU64, Ordering};

/// The increment of the state: 2^64 divided by the golden ratio, so that successive states are far apart.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A thread-safe generator (`splitmix64`).
pub struct SystemRandom(AtomicU64);

impl SystemRandom {
    /// Creates a generator with a seed from the kernel.
    #[must_use]
    pub fn new() -> SystemRandom {
        let mut seed = [0u8; 8];
        let flags = rustix::rand::GetRandomFlags::empty();
        let got = rustix::rand::getrandom(&mut seed[..], flags);
        if got != Ok(seed.len()) {
            // On kernels without the call: the time and the address of a local vary between runs.
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
            let mixed = (now.tv_nsec as u64) ^ ((now.tv_sec as u64) << 32);
            seed = (mixed ^ (seed.as_ptr().addr() as u64)).to_le_bytes();
        }
        SystemRandom::seeded(u64::from_le_bytes(seed))
    }

    /// Creates a generator from `seed`, with reproducible output.
    #[must_use]
    pub fn seeded(seed: u64) -> SystemRandom {
        SystemRandom(AtomicU64::new(seed))
    }
}

impl Default for SystemRandom {
    fn default() -> SystemRandom {
        SystemRandom::new()
    }
}

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        // Relaxed: each caller needs a distinct state, and the number orders no other access.
        mix(self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP))
    }
}

/// Fills `bytes` with cryptographically secure random bytes from the kernel.
///
/// # Errors
///
/// `IoError` if the kernel does not provide them.
pub(crate) fn fill_from_kernel(bytes: &mut [u8]) -> Result<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        match rustix::rand::getrandom(&mut bytes[filled..], flags) {
            Ok(more) => filled += more,
            Err(Errno::INTR) => {}
            Err(errno) => {
                return Err(Error::io_text(format!(
                    "ask the kernel for random bytes: {errno}"
                )));
            }
        }
    }
    Ok(())
}

/// The output function of `splitmix64`.
fn mix(state: u64) -> u64 {
    let once = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ (once >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ (twice >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_determine_the_numbers() {
        // The first outputs of splitmix64 for seed 0, as published with the algorithm.
        let random = SystemRandom::seeded(0);
        assert_eq!(random.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn system_generators_differ() {
        assert_ne!(
            SystemRandom::new().next_u64(),
            SystemRandom::new().next_u64()
        );
    }
}
