//! Parts of the description of a table that belong together.

use std::borrow::Cow;

use cairn_types::SequenceNumber;

/// The name of the checksum function of a file without a checksum.
pub const NO_CHECKSUM_FUNCTION: &str = "Unknown";

/// The sequence numbers of the entries of a table, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceRange {
    /// The smallest sequence number.
    pub smallest: SequenceNumber,
    /// The largest sequence number; in an ingested file, the sequence number of all entries.
    pub largest: SequenceNumber,
}

impl SequenceRange {
    /// The range of a table whose sequence numbers are unknown or all zero.
    pub const ZERO: SequenceRange = SequenceRange {
        smallest: SequenceNumber::ZERO,
        largest: SequenceNumber::ZERO,
    };
}

/// The checksum of a whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChecksum {
    /// The checksum; empty if there is none.
    pub value: Vec<u8>,
    /// The name of the checksum function; [`NO_CHECKSUM_FUNCTION`] if there is none.
    pub function: Cow<'static, str>,
}

impl Default for FileChecksum {
    fn default() -> FileChecksum {
        FileChecksum {
            value: Vec::new(),
            function: Cow::Borrowed(NO_CHECKSUM_FUNCTION),
        }
    }
}

/// The user-defined timestamps of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// The smallest timestamp; empty if unknown.
    pub min: Vec<u8>,
    /// The largest timestamp; empty if unknown.
    pub max: Vec<u8>,
    /// True if keys are stored with their timestamps.
    pub persisted: bool,
}

impl Default for Timestamps {
    fn default() -> Timestamps {
        Timestamps {
            min: Vec::new(),
            max: Vec::new(),
            persisted: true,
        }
    }
}

/// The times at which a table and its data were created, in seconds since 1970; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CreationTimes {
    /// The write time of the oldest data.
    pub oldest_ancester: u64,
    /// The creation time of the file.
    pub file: u64,
}
