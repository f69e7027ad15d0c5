//! The hash index of a data block: from a user key to the restart before it.
//!
//! ```text
//! u8 bucket x n | fixed16 n        bucket of a user key = hash32(user key, 397) mod n
//!
//! bucket  0 to 253 restart of all keys in it; 254 keys of several restarts; 255 no key
//! ```

use super::layout::BlockLayout;
use crate::hash::hash32;

const SEED: u32 = 397;
/// The last restart that a bucket can name.
const MAX_RESTART: u8 = 253;
const COLLISION: u8 = 254;
const EMPTY: u8 = 255;

/// What the hash index of a block says of a user key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HashHit {
    /// If the block has the key, then from this restart on.
    Restart(u32),
    /// The block does not have the key; the next one may, as its first.
    Absent,
    /// Several restarts share the bucket: search.
    Collision,
    /// The block has no hash index: search.
    None,
}

/// Asks the hash index of a block for `user_key`.
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

/// Collects the keys of a block for its hash index.
pub(super) struct HashIndexBuilder {
    buckets_per_key: f64,
    wanted: f64,
    keys: Vec<(u32, u8)>,
    /// True if every key's restart can be named so far.
    usable: bool,
}

impl HashIndexBuilder {
    /// A builder that makes one bucket for `util_ratio` keys.
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
        // The cast saturates; a block with so many keys is too large for a hash index anyway.
        (self.wanted as u16).max(1) | 1
    }

    /// Bytes that the index will take, if the block can have one.
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
