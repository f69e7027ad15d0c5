//! Merge operators: how a value and the operands stacked on it become one value.

/// What a full merge works on.
pub struct MergeInput<'a> {
    /// The user key, without timestamp.
    pub key: &'a [u8],
    /// The value below the operands, or `None` if there is none (or it was deleted).
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

/// Combines operands with values. An operator is a pure function; the same input gives the same
/// output on every machine and in every thread.
pub trait MergeOperator: Send + Sync {
    /// The name that table properties and OPTIONS files record, RocksDB's for its own operators.
    fn name(&self) -> &str;

    /// The operator as the value of an option text: its name, or `{id=NAME;property=value;}`.
    fn option_text(&self) -> String {
        self.name().to_owned()
    }

    /// The value that `input` amounts to, or `None` if the operands make no sense; the read or
    /// compaction that needed it then fails with `Corruption` (subcode merge operator failed).
    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>>;

    /// One operand that has the effect of `operands` (oldest first, at least two) applied in
    /// turn, or `None` if they can only be combined with the value below them.
    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let _ = (key, operands);
        None
    }

    /// True if a single operand may be given to [`MergeOperator::partial_merge`].
    fn allow_single_operand(&self) -> bool {
        false
    }
}
