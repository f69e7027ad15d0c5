//! What can go wrong, in RocksDB's codes and subcodes, with what failed, where, expected, found.
//!
//! [`Malformed`] is what pure decoders return: an offset and a fact. The layer that knows the file
//! turns it into an [`Error`] with [`Malformed::in_file`].

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The result of everything that can fail above the decoders.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// RocksDB's status codes. The numbers are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Code {
    /// Something named does not exist. Not used for missing keys, which are `Ok(None)`.
    NotFound = 1,
    /// Bytes that cannot be what they should be.
    Corruption = 2,
    /// Cairn does not do this.
    NotSupported = 3,
    /// The caller asked for something that makes no sense.
    InvalidArgument = 4,
    /// The file system failed.
    IoError = 5,
    /// Merge operands without a merge operator to combine them.
    MergeInProgress = 6,
    /// The call stopped before its end, as asked (a limit, no I/O allowed, no stall allowed).
    Incomplete = 7,
    /// The database is being closed.
    ShutdownInProgress = 8,
    /// A lock or deadline was not met in time.
    TimedOut = 9,
    /// The operation was aborted.
    Aborted = 10,
    /// Somebody else holds what the call needs.
    Busy = 11,
    /// A transaction outlived its expiration.
    Expired = 12,
    /// Trying again may succeed.
    TryAgain = 13,
    /// The compaction would be larger than allowed.
    CompactionTooLarge = 14,
    /// The column family has been dropped.
    ColumnFamilyDropped = 15,
}

/// RocksDB's status subcodes. The numbers are its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Subcode {
    /// No more is known.
    #[default]
    None = 0,
    /// Waiting for a mutex took too long.
    MutexTimeout = 1,
    /// Waiting for a lock took too long.
    LockTimeout = 2,
    /// Too many locks.
    LockLimit = 3,
    /// The device is full.
    NoSpace = 4,
    /// Transactions wait for each other.
    Deadlock = 5,
    /// A file handle outlived its file.
    StaleFile = 6,
    /// A memory limit was reached.
    MemoryLimit = 7,
    /// A space limit was reached.
    SpaceLimit = 8,
    /// A path does not exist.
    PathNotFound = 9,
    /// The caller's array for merge operands is too small.
    MergeOperandsInsufficientCapacity = 10,
    /// A manual compaction was paused.
    ManualCompactionPaused = 11,
    /// A value was overwritten.
    Overwritten = 12,
    /// A transaction has not been prepared.
    TxnNotPrepared = 13,
    /// Another writer has fenced this one off.
    IoFenced = 14,
    /// The merge operator refused its operands.
    MergeOperatorFailed = 15,
    /// More merge operands than the caller wants to see.
    MergeOperandThresholdExceeded = 16,
    /// Running compactions were told to end.
    CompactionAborted = 19,
}

/// How bad a background error is. The numbers are RocksDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Severity {
    /// None.
    NoError = 0,
    /// Writes go on; the failed job is tried again.
    Soft = 1,
    /// The database is read-only until it is resumed.
    Hard = 2,
    /// The database is read-only until it is reopened.
    Fatal = 3,
    /// The database is damaged for good.
    Unrecoverable = 4,
}

impl Code {
    /// The words with which RocksDB begins a status text of this code; C programs match them.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Code::NotFound => "NotFound: ",
            Code::Corruption => "Corruption: ",
            Code::NotSupported => "Not implemented: ",
            Code::InvalidArgument => "Invalid argument: ",
            Code::IoError => "IO error: ",
            Code::MergeInProgress => "Merge in progress: ",
            Code::Incomplete => "Result incomplete: ",
            Code::ShutdownInProgress => "Shutdown in progress: ",
            Code::TimedOut => "Operation timed out: ",
            Code::Aborted => "Operation aborted: ",
            Code::Busy => "Resource busy: ",
            Code::Expired => "Operation expired: ",
            Code::TryAgain => "Operation failed. Try again.: ",
            Code::CompactionTooLarge => "Compaction too large: ",
            Code::ColumnFamilyDropped => "Column family dropped: ",
        }
    }
}

impl Subcode {
    /// The words with which RocksDB continues a status text of this subcode.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Subcode::None => "",
            Subcode::MutexTimeout => "Timeout Acquiring Mutex",
            Subcode::LockTimeout => "Timeout waiting to lock key",
            Subcode::LockLimit => "Failed to acquire lock due to max_num_locks limit",
            Subcode::NoSpace => "No space left on device",
            Subcode::Deadlock => "Deadlock",
            Subcode::StaleFile => "Stale file handle",
            Subcode::MemoryLimit => "Memory limit reached",
            Subcode::SpaceLimit => "Space limit reached",
            Subcode::PathNotFound => "No such file or directory",
            Subcode::MergeOperandsInsufficientCapacity => {
                "Insufficient capacity for merge operands"
            }
            Subcode::ManualCompactionPaused => "Manual compaction paused",
            Subcode::Overwritten => " (overwritten)",
            Subcode::TxnNotPrepared => "Txn not prepared",
            Subcode::IoFenced => "IO fenced off",
            Subcode::MergeOperatorFailed => "Merge operator failed",
            Subcode::MergeOperandThresholdExceeded => {
                "Number of operands merged exceeded threshold"
            }
            Subcode::CompactionAborted => "Compaction aborted",
        }
    }
}

/// An error with RocksDB's code and subcode and a sentence that a person can act on.
///
/// One pointer wide and cheap to clone: the same error is reported by every write that follows it.
#[derive(Clone)]
pub struct Error(Arc<Body>);

struct Body {
    code: Code,
    subcode: Subcode,
    text: String,
    source: Option<Arc<io::Error>>,
}

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $code:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        #[cold]
        pub fn $name(text: impl Into<String>) -> Error {
            Error::new(Code::$code, Subcode::None, text)
        }
    )*};
}

impl Error {
    /// An error of `code` and `subcode` that says `text`.
    #[must_use]
    #[cold]
    pub fn new(code: Code, subcode: Subcode, text: impl Into<String>) -> Error {
        Error(Arc::new(Body {
            code,
            subcode,
            text: text.into(),
            source: None,
        }))
    }

    constructors! {
        /// Something named does not exist.
        not_found => NotFound;
        /// Bytes that cannot be what they should be.
        corruption => Corruption;
        /// Cairn does not do this.
        not_supported => NotSupported;
        /// The caller asked for something that makes no sense.
        invalid_argument => InvalidArgument;
        /// The call stopped before its end, as asked.
        incomplete => Incomplete;
        /// The database is being closed.
        shutdown => ShutdownInProgress;
        /// Somebody else holds what the call needs.
        busy => Busy;
        /// The operation was aborted.
        aborted => Aborted;
        /// A lock or deadline was not met in time.
        timed_out => TimedOut;
        /// Trying again may succeed.
        try_again => TryAgain;
        /// An I/O error that no system call reported.
        io_text => IoError;
    }

    /// What the file system said when `doing` (a verb, as in "write") to `path`.
    #[must_use]
    #[cold]
    pub fn io(doing: &str, path: &Path, source: io::Error) -> Error {
        let subcode = match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Subcode::NoSpace,
            io::ErrorKind::NotFound => Subcode::PathNotFound,
            io::ErrorKind::StaleNetworkFileHandle => Subcode::StaleFile,
            _ => Subcode::None,
        };
        let text = format!("{doing} {}: {source}", path.display());
        Error(Arc::new(Body {
            code: Code::IoError,
            subcode,
            text,
            source: Some(Arc::new(source)),
        }))
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// The subcode.
    #[must_use]
    pub fn subcode(&self) -> Subcode {
        self.0.subcode
    }

    /// The sentence, without the words of code and subcode.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The kind of the I/O error behind this one, if a system call reported it.
    #[must_use]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.0.source.as_deref().map(io::Error::kind)
    }

    /// True if the bytes were bad (as opposed to unreadable, or the call wrong).
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        self.code() == Code::Corruption
    }

    /// The same error with `context` in front of its sentence.
    #[must_use]
    #[cold]
    pub fn context(&self, context: impl fmt::Display) -> Error {
        Error(Arc::new(Body {
            code: self.0.code,
            subcode: self.0.subcode,
            text: format!("{context}: {}", self.0.text),
            source: self.0.source.clone(),
        }))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code().words())?;
        let subcode = self.subcode().words();
        f.write_str(subcode)?;
        if !subcode.is_empty() && !self.text().is_empty() {
            f.write_str(": ")?;
        }
        f.write_str(self.text())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    /// The I/O error behind this one, if a system call reported it.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.0.source.as_deref()?;
        Some(source)
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        self.code() == other.code()
            && self.subcode() == other.subcode()
            && self.text() == other.text()
    }
}

/// Bytes that a pure decoder refuses: where in its input, and what was expected or found there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Offset in the decoder's input, in bytes.
    pub at: usize,
    /// What is wrong, as a clause: "footer is cut short", "restart count: expected 1 to 7, found 99".
    pub what: Cow<'static, str>,
    /// True if the bytes may be right but are of a kind that Cairn does not read.
    pub unsupported: bool,
}

/// The result of a pure decoder.
pub type Decoded<T> = std::result::Result<T, Malformed>;

impl Malformed {
    /// `what` is wrong at offset `at` of the input.
    #[must_use]
    #[cold]
    pub fn at(at: usize, what: impl Into<Cow<'static, str>>) -> Malformed {
        Malformed {
            at,
            what: what.into(),
            unsupported: false,
        }
    }

    /// The input at `at` is of a kind that Cairn does not read.
    #[must_use]
    #[cold]
    pub fn unsupported(at: usize, what: impl Into<Cow<'static, str>>) -> Malformed {
        Malformed {
            at,
            what: what.into(),
            unsupported: true,
        }
    }

    /// `field` at `at`: `expected` against `found`.
    #[must_use]
    #[cold]
    pub fn mismatch(
        at: usize,
        field: &str,
        expected: impl fmt::Display,
        found: impl fmt::Display,
    ) -> Malformed {
        Malformed::at(at, format!("{field}: expected {expected}, found {found}"))
    }

    /// The same, with the offset moved by `base`: for a decoder that works on a part of an input.
    #[must_use]
    pub fn shifted(mut self, base: usize) -> Malformed {
        self.at += base;
        self
    }

    /// The error that a user sees: `self` happened in `file`, whose part that was decoded begins
    /// at offset `base`.
    #[must_use]
    #[cold]
    pub fn in_file(self, file: impl fmt::Display, base: u64) -> Error {
        let at = base.saturating_add(self.at as u64);
        let text = format!("{} at offset {at} of {file}", self.what);
        if self.unsupported {
            Error::not_supported(text)
        } else {
            Error::corruption(text)
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.what, self.at)
    }
}

impl std::error::Error for Malformed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_begin_with_the_words_that_c_programs_match() {
        let full = Error::new(Code::IoError, Subcode::NoSpace, "append 000012.log");
        assert_eq!(
            full.to_string(),
            "IO error: No space left on device: append 000012.log"
        );
        assert_eq!(
            Error::corruption("bad block").to_string(),
            "Corruption: bad block"
        );
        let wrong = Malformed::mismatch(4, "magic", 1, 2).in_file("000007.sst", 100);
        assert_eq!(
            wrong.to_string(),
            "Corruption: magic: expected 1, found 2 at offset 104 of 000007.sst"
        );
    }

    #[test]
    fn the_source_is_what_the_system_call_reported() {
        use std::error::Error as _;
        let full = io::Error::from_raw_os_error(28);
        let error = Error::io("write", Path::new("000012.log"), full).context("flush");
        let source = error
            .source()
            .and_then(|source| source.downcast_ref::<io::Error>());
        assert_eq!(source.and_then(io::Error::raw_os_error), Some(28));
        assert!(Error::corruption("bad block").source().is_none());
    }

    #[test]
    fn an_error_is_one_pointer_wide() {
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }
}
