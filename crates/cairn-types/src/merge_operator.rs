//! Merge operators: user code that combines a value with merge operands.

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
