//! The hash index of a data block, which maps a user key to the restart point before it.
//!
//! ```text
//! u8 bucket x n | fixed16 n        bucket of a user key = hash32(user key, 397) mod n
//!
//! bucket  0 to 253 restart of all keys in it; 254 keys of several restarts; 255 no key
//! ```

use super::layout::BlockLayout;
use crate::hash::hash32;

const SEED: u32 = 397;
/// The largest restart index that a bucket can store.
const MAX_RESTART: u8 = 253;
const COLLISION: u8 = 254;
const EMPTY: u8 = 255;

/// The result of a lookup in a hash index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashHit {
    /// The key can only be in the interval of this restart point.
    Restart(u32),
    /// The block does not have the key. The next block may start with it.
    Absent,
    /// The bucket has keys of several restart intervals. Search the block.
    Collision,
    /// The block has no hash index. Search the block.
    None,
}

/// Looks up `user_key` in the hash index of a block.
#[inline]
#[must_use]
pub fn hash_lookup(bytes: &[u8], layout: &BlockLayout, user_key: &[u8]) -> HashHit {
    if layout.buckets == 0 {
        return HashHit::None;
    }
    let bucket = hash32(user_key, SEED) % u32::from(layout.buckets);
    match bytes.get(layout.buckets_at as usize + bucket as usize) {
        Some(&EMPTY) => HashHit::Absent,
        Some(&COLLISION) | None => HashHit::Collision,
        Some(&restart) => HashHit::Restart(u32::from(restart)),
    }
}

/// The builder of a hash index.
pub(super) struct HashIndexBuilder {
    buckets_per_key: f64,
    wanted: f64,
    keys: Vec<(u32, u8)>,
    /// True if a bucket can store the restart points of all keys so far.
    usable: bool,
}

impl HashIndexBuilder {
    /// Creates a builder with one bucket per `util_ratio` keys.
    pub fn new(util_ratio: f64) -> HashIndexBuilder {
        HashIndexBuilder {
            buckets_per_key: 1.0 / if util_ratio > 0.0 { util_ratio } else { 0.75 },
            wanted: 0.0,
            keys: Vec::new(),
            usable: true,
        }
    }

    pub fn reset(&mut self) {
        self.wanted = 0.0;
        self.keys.clear();
        self.usable = true;
    }

    pub fn add(&mut self, user_key: &[u8], restart: usize) {
        match u8::try_from(restart) {
            Ok(restart) if restart <= MAX_RESTART => {
                self.wanted += self.buckets_per_key;
                self.keys.push((hash32(user_key, SEED), restart));
            }
            _ => self.usable = false,
        }
    }

    fn buckets(&self) -> u16 {
        // The cast saturates; a block with so many keys is too large for a hash index.
        (self.wanted as u16).max(1) | 1
    }

    /// The size of the index, if the block can have one.
    pub fn size(&self) -> Option<usize> {
        (self.usable && !self.keys.is_empty()).then(|| usize::from(self.buckets()) + 2)
    }

    pub fn finish(&self, out: &mut Vec<u8>) {
        let count = self.buckets();
        let start = out.len();
        out.resize(start + usize::from(count), EMPTY);
        for &(hash, restart) in &self.keys {
            let bucket = &mut out[start + (hash % u32::from(count)) as usize];
            *bucket = match *bucket {
                EMPTY => restart,
                same if same == restart => restart,
                _ => COLLISION,
            };
        }
        out.extend_from_slice(&count.to_le_bytes());
    }
}
