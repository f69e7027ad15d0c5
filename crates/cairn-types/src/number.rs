//! Distinct types for sequence numbers, which order writes, and file numbers, which name files.

use std::fmt;

/// The position of a write in the total order of all writes to a database; 56 bits.
///
/// Ordinary writes start at 1. Zero marks data whose history is irrelevant: the bottommost level and ingested
/// files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    /// The sequence number of data without history.
    pub const ZERO: SequenceNumber = SequenceNumber(0);
    /// The largest number that an internal key can hold: 2^56 - 1.
    pub const MAX: SequenceNumber = SequenceNumber((1 << 56) - 1);

    /// The sequence number `count` writes later.
    #[must_use]
    pub fn plus(self, count: u64) -> SequenceNumber {
        SequenceNumber(self.0 + count)
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number in a file's name. WALs, tables, blob files, MANIFESTs and OPTIONS files share one counter, so a
/// number is never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileNumber(pub u64);

impl fmt::Display for FileNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06}", self.0)
    }
}
