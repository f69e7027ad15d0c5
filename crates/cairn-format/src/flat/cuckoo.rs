//! A CuckooTable: a hash table of entries of one size, and its builder.
//!
//! ```text
//! bucket = key  value
//! key    = the user key, if all sequence numbers are 0, or the internal key
//! ```
//!
//! A key is in one of the buckets of its hashes, each followed by the other buckets of its cuckoo block: `cuckoo_block_size`
//! buckets in a row. Hence the table has that many buckets, less one, after the last one that a hash selects. An empty
//! bucket starts with a key that the table does not have. Its sizes, its hash functions and that key are properties.

mod build;

use cairn_types::{Decoded, Malformed, SequenceNumber, ValueKind};

use crate::coding::Input;
use crate::key;
use crate::table::Properties;

pub use build::{CuckooBuilder, CuckooOptions, Unhashable};

const EMPTY_KEY: &[u8] = b"rocksdb.cuckoo.bucket.empty.key";
const HASHES: &[u8] = b"rocksdb.cuckoo.hash.num";
const TABLE_SIZE: &[u8] = b"rocksdb.cuckoo.hash.size";
const VALUE_LEN: &[u8] = b"rocksdb.cuckoo.value.length";
const IS_LAST_LEVEL: &[u8] = b"rocksdb.cuckoo.file.islastlevel";
const BLOCK_SIZE: &[u8] = b"rocksdb.cuckoo.hash.cuckooblocksize";
const IDENTITY_FIRST: &[u8] = b"rocksdb.cuckoo.hash.identityfirst";
const USE_MODULE: &[u8] = b"rocksdb.cuckoo.hash.usemodule";
const USER_KEY_LEN: &[u8] = b"rocksdb.cuckoo.hash.userkeylength";

/// The seed of the hash function `n` is `n` times this number.
const SEED: u32 = 816_922_183;

/// The hash functions of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CuckooHash {
    /// True if the first hash is the first eight bytes of the key.
    pub identity_first: bool,
    /// True if a hash is reduced by a division, and not by a mask.
    pub use_module: bool,
}

impl CuckooHash {
    /// The bucket of `user_key` by hash function `number`, in a table of `size` buckets.
    #[must_use]
    pub fn bucket(self, user_key: &[u8], number: u32, size: u64) -> u64 {
        let value = match number {
            // RocksDB reads beyond the end of a shorter key, whose identity is therefore undefined.
            0 if self.identity_first => {
                let mut first = [0; 8];
                let len = user_key.len().min(8);
                first[..len].copy_from_slice(&user_key[..len]);
                u64::from_le_bytes(first)
            }
            _ => murmur64(user_key, SEED.wrapping_mul(number)),
        };
        match self.use_module {
            true => value % size,
            false => value & (size - 1),
        }
    }
}

/// MurmurHash64A.
fn murmur64(bytes: &[u8], seed: u32) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut h = u64::from(seed) ^ (bytes.len() as u64).wrapping_mul(M);
    let (groups, tail) = bytes.as_chunks::<8>();
    for group in groups {
        let mut k = u64::from_le_bytes(*group).wrapping_mul(M);
        k = (k ^ (k >> 47)).wrapping_mul(M);
        h = (h ^ k).wrapping_mul(M);
    }
    if !tail.is_empty() {
        for (i, &byte) in tail.iter().enumerate() {
            h ^= u64::from(byte) << (8 * i);
        }
        h = h.wrapping_mul(M);
    }
    h = (h ^ (h >> 47)).wrapping_mul(M);
    h ^ (h >> 47)
}

/// The layout of a table, from its properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CuckooLayout {
    /// The hash functions.
    pub hash: CuckooHash,
    /// The number of hash functions.
    pub hashes: u32,
    /// The number of buckets that a hash selects.
    pub table_size: u64,
    /// The number of buckets of a cuckoo block.
    pub block_size: u32,
    /// True if the keys are user keys, whose sequence numbers are 0.
    pub is_last_level: bool,
    /// The length of a stored key.
    pub key_len: usize,
    /// The length of a value.
    pub value_len: usize,
    /// The key of empty buckets.
    pub empty_key: Vec<u8>,
    /// The number of entries.
    pub entries: u64,
}

impl CuckooLayout {
    /// The layout that the properties of a table of `file_len` bytes state.
    ///
    /// # Errors
    ///
    /// If a property is missing or invalid.
    pub fn of(properties: &Properties, file_len: u64) -> Decoded<CuckooLayout> {
        let number = |name: &[u8]| {
            let value = find(properties, name)?;
            let mut bytes = [0; 8];
            let len = value.len().min(8);
            bytes[..len].copy_from_slice(&value[..len]);
            match value.len() {
                1 | 4 | 8 => Ok(u64::from_le_bytes(bytes)),
                _ => Err(invalid(name)),
            }
        };
        let small = |name: &[u8]| u32::try_from(number(name)?).map_err(|_| invalid(name));
        let layout = CuckooLayout {
            hash: CuckooHash {
                identity_first: number(IDENTITY_FIRST)? != 0,
                use_module: number(USE_MODULE)? != 0,
            },
            hashes: small(HASHES)?,
            table_size: number(TABLE_SIZE)?,
            block_size: small(BLOCK_SIZE)?,
            is_last_level: number(IS_LAST_LEVEL)? != 0,
            key_len: u32::try_from(properties.fixed_key_len).map_err(|_| invalid(b"key"))? as usize,
            value_len: small(VALUE_LEN)? as usize,
            empty_key: find(properties, EMPTY_KEY)?.clone(),
            entries: properties.num_entries,
        };
        layout.check(u64::from(small(USER_KEY_LEN)?), file_len)?;
        Ok(layout)
    }

    fn check(&self, user_key_len: u64, file_len: u64) -> Decoded<()> {
        if self.entries == 0 {
            return Ok(());
        }
        let suffix = match self.is_last_level {
            true => 0,
            false => key::SUFFIX_LEN as u64,
        };
        let is_sound = self.block_size > 0
            && self.key_len + self.value_len > 0
            && user_key_len + suffix == self.key_len as u64
            && self.empty_key.len() == self.key_len;
        if !is_sound {
            return Err(Malformed::at(0, "sizes of a CuckooTable do not agree"));
        }
        let bucket = self.bucket_len() as u64;
        let end = self
            .buckets()
            .and_then(|buckets| buckets.checked_mul(bucket));
        if end.is_none_or(|end| end > file_len) {
            return Err(Malformed::mismatch(
                0,
                "size of the buckets of a CuckooTable",
                format_args!("at most {file_len}"),
                format_args!("{} buckets of {bucket} bytes", self.table_size),
            ));
        }
        if self.buckets().is_some_and(|buckets| buckets < self.entries) {
            return Err(Malformed::at(
                0,
                "CuckooTable with more entries than buckets",
            ));
        }
        Ok(())
    }

    /// The length of a bucket.
    #[must_use]
    pub fn bucket_len(&self) -> usize {
        self.key_len + self.value_len
    }

    /// The number of buckets; `None` if it exceeds 64 bits.
    fn buckets(&self) -> Option<u64> {
        self.table_size.checked_add(u64::from(self.block_size) - 1)
    }

    /// Calls `visit` with the offset, the internal key and the value of every entry in `file`, in the order of the buckets.
    ///
    /// # Errors
    ///
    /// The offset of a malformed key, or a number of entries other than that in the properties; and those of `visit`.
    pub fn visit<'a>(
        &self,
        file: &'a [u8],
        mut visit: impl FnMut(usize, &[u8], &'a [u8]) -> Decoded<()>,
    ) -> Decoded<()> {
        let mut found = 0;
        if self.entries > 0 {
            let len = self.bucket_len();
            let count = self.buckets().unwrap_or(0);
            let all = usize::try_from(count).unwrap_or(0).saturating_mul(len);
            let buckets = Input::new(file).take(all)?;
            let mut stored = Vec::with_capacity(self.key_len + key::SUFFIX_LEN);
            for (number, bucket) in buckets.chunks_exact(len).enumerate() {
                let (key, value) = bucket.split_at(self.key_len);
                if key == self.empty_key {
                    continue;
                }
                let at = number * len;
                found += 1;
                stored.clear();
                match self.is_last_level {
                    true => key::append_internal(
                        &mut stored,
                        key,
                        SequenceNumber::ZERO,
                        ValueKind::Value,
                    ),
                    false => stored.extend_from_slice(key),
                }
                let parsed = key::parse(&stored).map_err(|error| error.shifted(at))?;
                // A deletion is stored with a value of no meaning.
                let value = if parsed.kind.is_deletion() {
                    &[][..]
                } else {
                    value
                };
                visit(at, &stored, value)?;
            }
        }
        if found != self.entries {
            return Err(Malformed::mismatch(
                0,
                "number of entries of a CuckooTable",
                self.entries,
                found,
            ));
        }
        Ok(())
    }

    /// The offset of the bucket with `user_key` in `file`, found by its hashes; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If a bucket is outside of the file.
    pub fn find(&self, file: &[u8], user_key: &[u8]) -> Decoded<Option<usize>> {
        if self.entries == 0 || self.table_size == 0 {
            return Ok(None);
        }
        let (len, user_len) = (self.bucket_len(), user_key.len());
        for number in 0..self.hashes {
            let first = self.hash.bucket(user_key, number, self.table_size);
            for bucket in first..first.saturating_add(u64::from(self.block_size)) {
                let at = usize::try_from(bucket)
                    .unwrap_or(usize::MAX)
                    .saturating_mul(len);
                let stored = file
                    .get(at..at.saturating_add(self.key_len))
                    .and_then(|key| key.get(..user_len))
                    .ok_or_else(|| Malformed::at(0, "bucket outside of the CuckooTable"))?;
                if stored == user_key {
                    return Ok(Some(at));
                }
                if self.empty_key.get(..user_len) == Some(stored) {
                    return Ok(None);
                }
            }
        }
        Ok(None)
    }

    /// Adds the properties that describe the layout.
    pub fn describe(&self, properties: &mut Properties) {
        let suffix = match self.is_last_level {
            true => 0,
            false => key::SUFFIX_LEN,
        };
        let user_key_len = self.key_len.saturating_sub(suffix) as u32;
        let mut put = |name: &[u8], value: &[u8]| {
            properties.others.insert(name.to_vec(), value.to_vec());
        };
        put(EMPTY_KEY, &self.empty_key);
        put(HASHES, &self.hashes.to_le_bytes());
        put(TABLE_SIZE, &self.table_size.to_le_bytes());
        put(VALUE_LEN, &(self.value_len as u64).to_le_bytes());
        put(IS_LAST_LEVEL, &[self.is_last_level.into()]);
        put(BLOCK_SIZE, &self.block_size.to_le_bytes());
        put(IDENTITY_FIRST, &[self.hash.identity_first.into()]);
        put(USE_MODULE, &[self.hash.use_module.into()]);
        put(USER_KEY_LEN, &user_key_len.to_le_bytes());
        properties.fixed_key_len = self.key_len as u64;
    }
}

fn find<'p>(properties: &'p Properties, name: &[u8]) -> Decoded<&'p Vec<u8>> {
    properties.others.get(name).ok_or_else(|| {
        let name = String::from_utf8_lossy(name);
        Malformed::at(0, format!("CuckooTable without the property {name}"))
    })
}

fn invalid(name: &[u8]) -> Malformed {
    let name = String::from_utf8_lossy(name);
    Malformed::at(0, format!("invalid property {name} of a CuckooTable"))
}

#[cfg(test)]
mod tests;
