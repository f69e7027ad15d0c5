//! Values returned by reads: pinned in the block or memtable that holds them.

use std::fmt;
use std::ops::{Deref, Range};

use cairn_format::dated;
use cairn_memtable::PinnedEntry;
use cairn_platform::Buffer;
use cairn_types::{Error, Malformed, MergeResult, Result};

/// A value, pinned in the block, memtable entry or blob that holds it for as long as it lives.
/// `Value::to_vec` makes an independent copy.
#[derive(Clone)]
pub struct Value(Storage);

enum Storage {
    Block(Buffer, Range<usize>),
    Memtable(PinnedEntry, Range<usize>),
    /// The result of a merge, or a vector.
    Merged {
        result: MergeResult,
        too_many_operands: bool,
    },
}

impl Clone for Storage {
    fn clone(&self) -> Storage {
        match self {
            Storage::Block(buffer, range) => Storage::Block(buffer.clone(), range.clone()),
            Storage::Memtable(entry, range) => Storage::Memtable(entry.clone(), range.clone()),
            Storage::Merged {
                result,
                too_many_operands,
            } => Storage::Merged {
                result: MergeResult::Owned(result.to_vec()),
                too_many_operands: *too_many_operands,
            },
        }
    }
}

impl Value {
    /// The bytes `range` of `buffer`.
    #[inline]
    #[must_use]
    pub fn in_block(buffer: Buffer, range: Range<usize>) -> Value {
        debug_assert!(range.end <= buffer.len());
        Value(Storage::Block(buffer, range))
    }

    /// The value of a memtable entry.
    #[inline]
    #[must_use]
    pub fn in_memtable(entry: PinnedEntry) -> Value {
        let len = entry.value().len();
        Value(Storage::Memtable(entry, 0..len))
    }

    /// The result of a merge; `too_many_operands` if their number exceeded
    /// `merge_operand_count_threshold`.
    pub(crate) fn merged(result: MergeResult, too_many_operands: bool) -> Value {
        Value(Storage::Merged {
            result,
            too_many_operands,
        })
    }

    /// True if the value is pinned neither in a block nor in a memtable: the result of a merge, or a vector.
    #[inline]
    #[must_use]
    pub fn is_merged(&self) -> bool {
        matches!(self.0, Storage::Merged { .. })
    }

    /// Returns the memory of the value if a merge operator allocated it with C's `malloc`. The caller frees it
    /// with C's `free`.
    ///
    /// # Errors
    ///
    /// The value otherwise.
    pub fn into_malloc(self) -> Result<*mut u8, Value> {
        match self.0 {
            Storage::Merged {
                result: MergeResult::Elsewhere(memory),
                too_many_operands,
            } => memory
                .into_malloc()
                .map_err(|memory| Value::merged(MergeResult::Elsewhere(memory), too_many_operands)),
            other => Err(Value(other)),
        }
    }

    /// True if the read merged more operands than `merge_operand_count_threshold`; RocksDB reports
    /// the subcode `MergeOperandThresholdExceeded`. A compaction of the key, or a put of this
    /// value, makes the next read cheaper.
    #[must_use]
    pub fn has_too_many_operands(&self) -> bool {
        matches!(
            self.0,
            Storage::Merged {
                too_many_operands: true,
                ..
            }
        )
    }

    /// The bytes `range` of this value.
    ///
    /// # Panics
    ///
    /// If the range is out of bounds.
    #[must_use]
    pub fn slice(self, range: Range<usize>) -> Value {
        assert!(range.start <= range.end && range.end <= self.len());
        let moved = |outer: Range<usize>| outer.start + range.start..outer.start + range.end;
        Value(match self.0 {
            Storage::Block(buffer, outer) => Storage::Block(buffer, moved(outer)),
            Storage::Memtable(entry, outer) => Storage::Memtable(entry, moved(outer)),
            Storage::Merged {
                result,
                too_many_operands,
            } => Storage::Merged {
                result: MergeResult::Owned(result[range].to_vec()),
                too_many_operands,
            },
        })
    }
}

impl Value {
    /// The value without its TTL timestamp.
    ///
    /// # Errors
    ///
    /// `Corruption` if it has none.
    pub(crate) fn strip_ttl(self) -> Result<Value> {
        let len = strip_ttl(&self)?.len();
        Ok(self.slice(0..len))
    }
}

/// Returns a stored value without its TTL timestamp.
///
/// # Errors
///
/// `Corruption` if it has none.
pub(crate) fn strip_ttl(stored: &[u8]) -> Result<&[u8]> {
    let decoded = dated::decode(stored);
    decoded
        .map(|(value, _)| value)
        .map_err(missing_ttl_timestamp)
}

/// Returns an operand, or the base value of operands, in the form that the merge operator receives:
/// without its TTL timestamp if `dated`. As in RocksDB the range of the timestamp is not checked.
///
/// # Errors
///
/// `Corruption` if it has none.
pub(crate) fn mergeable(stored: &[u8], dated: bool) -> Result<&[u8]> {
    if !dated {
        return Ok(stored);
    }
    let split = dated::split(stored);
    split.map(|(value, _)| value).map_err(missing_ttl_timestamp)
}

#[cold]
fn missing_ttl_timestamp(malformed: Malformed) -> Error {
    malformed.in_file("a value of a database with a time to live", 0)
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value::merged(MergeResult::Owned(bytes), false)
    }
}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Vec<u8> {
        match value.0 {
            Storage::Merged {
                result: MergeResult::Owned(bytes),
                ..
            } => bytes,
            _ => value.to_vec(),
        }
    }
}

impl Deref for Value {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Storage::Block(buffer, range) => &buffer[range.clone()],
            Storage::Memtable(entry, range) => &entry.value()[range.clone()],
            Storage::Merged { result, .. } => result,
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq<[u8]> for Value {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.len())
    }
}
