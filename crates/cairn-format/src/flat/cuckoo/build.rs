//! The builder of a CuckooTable.
//!
//! A key goes to the first empty bucket of its hashes. If there is none, a breadth-first search looks for a chain of keys
//! that can each move to another of their buckets, until one is empty. If there is no short chain, the table gets another
//! hash function. The order of all steps is RocksDB's, so that both build the same table.

use super::{CuckooHash, CuckooLayout};
use crate::key::{self, SUFFIX_LEN};

/// The options of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CuckooOptions {
    /// The hash functions.
    pub hash: CuckooHash,
    /// The number of entries for each bucket.
    pub hash_table_ratio: f64,
    /// The maximum length of a chain of keys to move.
    pub max_search_depth: u32,
    /// The number of buckets of a cuckoo block.
    pub block_size: u32,
}

/// The maximum number of hash functions.
const MAX_HASHES: u32 = 64;
/// A bucket without an entry.
const EMPTY: u32 = u32::MAX;

/// A reason why entries cannot be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unhashable {
    /// A user key of another length.
    KeyLength,
    /// A value of another length.
    ValueLength,
    /// Two entries of a user key.
    SameKey,
    /// No hash function has an empty bucket.
    Collisions,
    /// Every key of this length is taken.
    NoUnusedKey,
    /// More than 2^32 - 2 entries, or a table beyond the address space.
    TooMany,
}

#[derive(Clone, Copy)]
struct Bucket {
    /// The number of the entry; [`EMPTY`] for none.
    entry: u32,
    /// The last search that visited the bucket.
    search: u32,
}

/// A bucket reached by a search.
struct Step {
    bucket: usize,
    depth: u32,
    parent: usize,
}

/// Builder of a table: keeps all entries until the end.
pub struct CuckooBuilder {
    options: CuckooOptions,
    /// The internal keys of values, and those of deletions, one after the other.
    values_keys: Vec<u8>,
    deletions: Vec<u8>,
    /// The values.
    values: Vec<u8>,
    /// The lengths of a user key and of a value, once known.
    user_key_len: Option<usize>,
    value_len: Option<usize>,
    /// The number of values, and of all entries.
    value_count: u64,
    count: u64,
    /// The number of buckets that a hash selects, without `use_module`.
    table_size: u64,
    /// The smallest and the largest user key, bytewise.
    limits: (Vec<u8>, Vec<u8>),
    /// True if all sequence numbers are 0, and there are no deletions.
    is_last_level: bool,
}

impl CuckooBuilder {
    /// Creates an empty builder.
    #[must_use]
    pub fn new(options: CuckooOptions) -> CuckooBuilder {
        CuckooBuilder {
            options: CuckooOptions {
                block_size: options.block_size.max(1),
                ..options
            },
            values_keys: Vec::new(),
            deletions: Vec::new(),
            values: Vec::new(),
            user_key_len: None,
            value_len: None,
            value_count: 0,
            count: 0,
            table_size: if options.hash.use_module { 0 } else { 2 },
            limits: (Vec::new(), Vec::new()),
            is_last_level: true,
        }
    }

    /// Adds a value, or a deletion if `is_deletion`.
    ///
    /// # Errors
    ///
    /// If its length differs from that of the others.
    pub fn add(
        &mut self,
        internal: &[u8],
        value: &[u8],
        is_deletion: bool,
    ) -> Result<(), Unhashable> {
        let user = key::user_key(internal);
        if self.count >= u64::from(EMPTY - 1) {
            return Err(Unhashable::TooMany);
        }
        if *self.user_key_len.get_or_insert(user.len()) != user.len() {
            return Err(Unhashable::KeyLength);
        }
        if is_deletion {
            self.deletions.extend_from_slice(internal);
        } else {
            if *self.value_len.get_or_insert(value.len()) != value.len() {
                return Err(Unhashable::ValueLength);
            }
            self.values_keys.extend_from_slice(internal);
            self.values.extend_from_slice(value);
            self.value_count += 1;
        }
        if is_deletion || key::sequence(internal).0 != 0 {
            self.is_last_level = false;
        }
        if self.count == 0 {
            self.limits = (user.to_vec(), user.to_vec());
        } else if *user < *self.limits.0 {
            self.limits.0 = user.to_vec();
        } else if *user > *self.limits.1 {
            self.limits.1 = user.to_vec();
        }
        self.count += 1;
        let wanted = self.count as f64 / self.options.hash_table_ratio;
        if !self.options.hash.use_module && (self.table_size as f64) < wanted {
            self.table_size *= 2;
        }
        Ok(())
    }

    /// The size that the buckets would have now, and with one more entry if the table doubles with it.
    #[must_use]
    pub fn estimated_size(&self) -> u64 {
        let Some(user_key_len) = self.user_key_len else {
            return 0;
        };
        let suffix = if self.is_last_level { 0 } else { SUFFIX_LEN };
        let bucket = (user_key_len + suffix + self.value_len.unwrap_or(0)) as u64;
        let ratio = self.options.hash_table_ratio;
        if self.options.hash.use_module {
            return ((bucket * self.count) as f64 / ratio) as u64;
        }
        let doubles = (self.table_size as f64) < (self.count + 1) as f64 / ratio;
        let size = if doubles {
            2 * self.table_size
        } else {
            self.table_size
        };
        (bucket * size).saturating_sub(1)
    }

    /// The memory of the builder, in bytes.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.values_keys.capacity() + self.deletions.capacity() + self.values.capacity()
    }

    /// Places all entries. Returns the layout, and the entries of the buckets for [`CuckooBuilder::bucket`].
    ///
    /// # Errors
    ///
    /// If that is impossible.
    pub fn place(&self) -> Result<(CuckooLayout, Vec<Option<u32>>), Unhashable> {
        let table_size = match self.options.hash.use_module {
            true => (self.count as f64 / self.options.hash_table_ratio) as u64,
            false => self.table_size,
        };
        let suffix = if self.is_last_level { 0 } else { SUFFIX_LEN };
        let mut layout = CuckooLayout {
            hash: self.options.hash,
            hashes: 2,
            table_size,
            block_size: self.options.block_size,
            is_last_level: self.is_last_level && self.count > 0,
            key_len: self.user_key_len.map_or(0, |len| len + suffix),
            value_len: self.value_len.unwrap_or(0),
            empty_key: Vec::new(),
            entries: self.count,
        };
        if self.count == 0 {
            return Ok((layout, Vec::new()));
        }
        let buckets = table_size
            .checked_add(u64::from(self.options.block_size) - 1)
            .filter(|_| table_size > 0)
            .filter(|&count| {
                count
                    .checked_mul(layout.bucket_len().max(8) as u64)
                    .is_some()
            })
            .and_then(|count| usize::try_from(count).ok())
            .ok_or(Unhashable::TooMany)?;
        let mut placement = Placement {
            builder: self,
            buckets: vec![
                Bucket {
                    entry: EMPTY,
                    search: 0
                };
                buckets
            ],
            hashes: 2,
            size: table_size,
            searches: 0,
        };
        for entry in 0..self.count as u32 {
            placement.insert(entry)?;
        }
        layout.hashes = placement.hashes;
        layout.empty_key = self.unused_key().ok_or(Unhashable::NoUnusedKey)?;
        if !self.is_last_level {
            let value = key::pack(
                cairn_types::SequenceNumber::ZERO,
                cairn_types::ValueKind::Value,
            );
            layout.empty_key.extend_from_slice(&value.to_le_bytes());
        }
        let entries = placement.buckets.into_iter();
        let entries = entries.map(|bucket| (bucket.entry != EMPTY).then_some(bucket.entry));
        Ok((layout, entries.collect()))
    }

    /// Appends the bucket of `entry`, or an empty one, to `out`.
    pub fn bucket(&self, layout: &CuckooLayout, entry: Option<u32>, out: &mut Vec<u8>) {
        let start = out.len();
        match entry {
            None => out.extend_from_slice(&layout.empty_key),
            Some(entry) => {
                let key = match layout.is_last_level {
                    true => self.user_key(entry),
                    false => self.internal_key(entry),
                };
                out.extend_from_slice(key);
                if u64::from(entry) < self.value_count {
                    let at = entry as usize * layout.value_len;
                    out.extend_from_slice(&self.values[at..at + layout.value_len]);
                }
            }
        }
        out.resize(start + layout.bucket_len(), b'a');
    }

    /// A user key that no entry has: the predecessor of the smallest or the successor of the largest.
    fn unused_key(&self) -> Option<Vec<u8>> {
        let (smallest, largest) = &self.limits;
        let mut unused = smallest.clone();
        for at in (0..unused.len()).rev() {
            unused[at] = unused[at].wrapping_sub(1);
            if unused < *smallest {
                return Some(unused);
            }
        }
        let mut unused = largest.clone();
        for at in (0..unused.len()).rev() {
            unused[at] = unused[at].wrapping_add(1);
            if unused > *largest {
                return Some(unused);
            }
        }
        None
    }

    /// The internal key of an entry. Deletions are numbered after the values.
    fn internal_key(&self, entry: u32) -> &[u8] {
        let len = self.user_key_len.unwrap_or(0) + SUFFIX_LEN;
        let entry = u64::from(entry);
        let (keys, number) = match entry < self.value_count {
            true => (&self.values_keys, entry),
            false => (&self.deletions, entry - self.value_count),
        };
        let at = number as usize * len;
        &keys[at..at + len]
    }

    fn user_key(&self, entry: u32) -> &[u8] {
        key::user_key(self.internal_key(entry))
    }
}

/// The placement of entries in buckets.
struct Placement<'b> {
    builder: &'b CuckooBuilder,
    buckets: Vec<Bucket>,
    /// The number of hash functions in use.
    hashes: u32,
    size: u64,
    searches: u32,
}

impl Placement<'_> {
    fn block(&self) -> usize {
        self.builder.options.block_size as usize
    }

    fn first(&self, user_key: &[u8], hash: u32) -> usize {
        self.builder.options.hash.bucket(user_key, hash, self.size) as usize
    }

    fn insert(&mut self, entry: u32) -> Result<(), Unhashable> {
        let builder = self.builder;
        let user_key = builder.user_key(entry);
        let mut taken = Vec::new();
        for hash in 0..self.hashes {
            if let Some(bucket) = self.find_empty(user_key, hash, &mut taken, true)? {
                self.buckets[bucket].entry = entry;
                return Ok(());
            }
        }
        loop {
            self.searches += 1;
            if let Some(bucket) = self.make_space(&taken) {
                self.buckets[bucket].entry = entry;
                return Ok(());
            }
            if self.hashes >= MAX_HASHES {
                return Err(Unhashable::Collisions);
            }
            let hash = self.hashes;
            self.hashes += 1;
            if let Some(bucket) = self.find_empty(user_key, hash, &mut taken, false)? {
                self.buckets[bucket].entry = entry;
                return Ok(());
            }
        }
    }

    /// Returns the first empty bucket of the cuckoo block of `hash`, and adds the buckets before it to `taken`.
    fn find_empty(
        &self,
        user_key: &[u8],
        hash: u32,
        taken: &mut Vec<usize>,
        checks: bool,
    ) -> Result<Option<usize>, Unhashable> {
        let first = self.first(user_key, hash);
        for bucket in first..first + self.block() {
            let entry = self.buckets[bucket].entry;
            if entry == EMPTY {
                return Ok(Some(bucket));
            }
            if checks && self.builder.user_key(entry) == user_key {
                return Err(Unhashable::SameKey);
            }
            taken.push(bucket);
        }
        Ok(None)
    }

    /// Moves a chain of entries so that one of the first buckets of `taken`, which it returns, is empty.
    fn make_space(&mut self, taken: &[usize]) -> Option<usize> {
        let roots = self.hashes as usize;
        let mut steps: Vec<Step> = Vec::new();
        for &bucket in &taken[..roots] {
            self.buckets[bucket].search = self.searches;
            steps.push(Step {
                bucket,
                depth: 0,
                parent: 0,
            });
        }
        let mut at = 0;
        let mut is_found = false;
        while !is_found && at < steps.len() {
            let Step { bucket, depth, .. } = steps[at];
            if depth >= self.builder.options.max_search_depth {
                break;
            }
            is_found = self.reach(bucket, (depth + 1, at), &mut steps);
            at += 1;
        }
        if !is_found {
            return None;
        }
        let mut at = steps.len() - 1;
        while at >= roots {
            let Step { bucket, parent, .. } = steps[at];
            self.buckets[bucket] = self.buckets[steps[parent].bucket];
            at = parent;
        }
        Some(steps[at].bucket)
    }

    /// Adds the buckets to which the entry of `bucket` can move to `steps`. Returns true once one is empty.
    fn reach(
        &mut self,
        bucket: usize,
        (depth, parent): (u32, usize),
        steps: &mut Vec<Step>,
    ) -> bool {
        let builder = self.builder;
        let user_key = builder.user_key(self.buckets[bucket].entry);
        for hash in 0..self.hashes {
            let first = self.first(user_key, hash);
            for bucket in first..first + self.block() {
                let child = &mut self.buckets[bucket];
                if child.search == self.searches {
                    continue;
                }
                child.search = self.searches;
                steps.push(Step {
                    bucket,
                    depth,
                    parent,
                });
                if child.entry == EMPTY {
                    return true;
                }
            }
        }
        false
    }
}
