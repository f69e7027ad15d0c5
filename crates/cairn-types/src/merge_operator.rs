//! Merge operators: user code that combines a value with merge operands.

use std::ops::Deref;

/// The input of a full merge.
pub struct MergeInput<'a> {
    /// The user key, without timestamp.
    pub key: &'a [u8],
    /// The value beneath the operands; `None` if there is none or it was deleted.
    pub existing: Option<&'a [u8]>,
    /// The operands, oldest first.
    pub operands: &'a [&'a [u8]],
}

impl std::fmt::Debug for MergeInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MergeInput")
            .field("key_len", &self.key.len())
            .field("existing_len", &self.existing.map(<[u8]>::len))
            .field("operands", &self.operands.len())
            .finish_non_exhaustive()
    }
}

/// The memory of a merge result that is not a vector, for operators that cannot return one without a copy.
pub trait MergeMemory: Send + Sync {
    /// The result: the same bytes at the same address each time, also after the box was moved.
    fn bytes(&self) -> &[u8];

    /// Gives the memory to the caller, who frees it with C's `free`.
    ///
    /// # Errors
    ///
    /// The memory, if it was not allocated with C's `malloc`.
    fn into_malloc(self: Box<Self>) -> Result<*mut u8, Box<dyn MergeMemory>>;
}

/// The result of a merge for a read.
pub enum MergeResult {
    /// A vector.
    Owned(Vec<u8>),
    /// Bytes elsewhere.
    Elsewhere(Box<dyn MergeMemory>),
}

impl Deref for MergeResult {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            MergeResult::Owned(bytes) => bytes,
            MergeResult::Elsewhere(memory) => memory.bytes(),
        }
    }
}

impl std::fmt::Debug for MergeResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MergeResult({} bytes)", self.len())
    }
}

/// A merge operator. It must be a pure function: the same input gives the same output on every machine and
/// thread.
pub trait MergeOperator: Send + Sync {
    /// The name recorded in table properties and OPTIONS files. Ports of RocksDB's operators have RocksDB's
    /// names.
    fn name(&self) -> &str;

    /// The operator as an option value: its name, or `{id=NAME;property=value;}`.
    fn option_text(&self) -> String {
        self.name().to_owned()
    }

    /// Merges `input` into a value. `None` fails the read or compaction with `Corruption` and the
    /// subcode [`MergeOperatorFailed`](crate::error::Subcode::MergeOperatorFailed).
    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>>;

    /// [`MergeOperator::full_merge`] for point reads, whose result may remain in memory of the operator.
    fn full_merge_for_read(&self, input: &MergeInput<'_>) -> Option<MergeResult> {
        self.full_merge(input).map(MergeResult::Owned)
    }

    /// Combines `operands` (oldest first, at least two) into one with the same effect, or returns `None` if
    /// they can only be combined with the value beneath them.
    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let _ = (key, operands);
        None
    }

    /// True if [`MergeOperator::partial_merge`] accepts a single operand.
    fn allow_single_operand(&self) -> bool {
        false
    }
}
