//! Errors, with RocksDB's status codes and subcodes and a message.
//!
//! Pure decoders return [`Malformed`]: an offset and a description. The layer that knows the file converts it
//! to an [`Error`] by [`Malformed::in_file`].

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The result of operations above the decoders.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// RocksDB's status codes. The numbers are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Code {
    /// A named object does not exist. Not used for missing keys, which are `Ok(None)`.
    NotFound = 1,
    /// Invalid data.
    Corruption = 2,
    /// An unsupported operation or format.
    NotSupported = 3,
    /// An invalid argument.
    InvalidArgument = 4,
    /// A file system error.
    IoError = 5,
    /// Merge operands without a merge operator.
    MergeInProgress = 6,
    /// The operation ended early because of a limit set by the caller: no I/O, no stall, or an upper bound.
    Incomplete = 7,
    /// The database is shutting down.
    ShutdownInProgress = 8,
    /// A lock or deadline timed out.
    TimedOut = 9,
    /// The operation was aborted.
    Aborted = 10,
    /// A required resource is in use.
    Busy = 11,
    /// A transaction expired.
    Expired = 12,
    /// The operation may succeed if retried.
    TryAgain = 13,
    /// The compaction exceeds its size limit.
    CompactionTooLarge = 14,
    /// The column family has been dropped.
    ColumnFamilyDropped = 15,
}

/// RocksDB's status subcodes. The numbers are its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum Subcode {
    /// No subcode.
    #[default]
    None = 0,
    /// Timeout while acquiring a mutex.
    MutexTimeout = 1,
    /// Timeout while acquiring a lock.
    LockTimeout = 2,
    /// Too many locks.
    LockLimit = 3,
    /// The device is full.
    NoSpace = 4,
    /// Deadlock of transactions.
    Deadlock = 5,
    /// A stale file handle.
    StaleFile = 6,
    /// A memory limit was reached.
    MemoryLimit = 7,
    /// A space limit was reached.
    SpaceLimit = 8,
    /// A path does not exist.
    PathNotFound = 9,
    /// The caller's array is too small for the merge operands.
    MergeOperandsInsufficientCapacity = 10,
    /// A manual compaction was paused.
    ManualCompactionPaused = 11,
    /// A value was overwritten.
    Overwritten = 12,
    /// A transaction has not been prepared.
    TxnNotPrepared = 13,
    /// The writer was fenced off by another.
    IoFenced = 14,
    /// The merge operator failed.
    MergeOperatorFailed = 15,
    /// More merge operands than the caller's threshold.
    MergeOperandThresholdExceeded = 16,
    /// Compactions were aborted on request.
    CompactionAborted = 19,
}

/// The severity of a background error. The numbers are RocksDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
pub enum Severity {
    /// None.
    NoError = 0,
    /// Writes continue; the failed job is retried.
    Soft = 1,
    /// The database is read-only until it is resumed.
    Hard = 2,
    /// The database is read-only until it is reopened.
    Fatal = 3,
    /// The database is damaged and cannot be recovered.
    Unrecoverable = 4,
}

impl Code {
    /// The prefix of RocksDB's status text for this code. C programs match it.
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
    /// The part of RocksDB's status text for this subcode.
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

/// An error with RocksDB's code and subcode, and a message.
///
/// One pointer wide and cheap to clone: after a write error the same error is returned by every later write.
#[derive(Clone)]
pub struct Error(Arc<Body>);

struct Body {
    code: Code,
    subcode: Subcode,
    text: String,
    source: Option<Arc<io::Error>>,
    is_panic: bool,
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
    /// An error with the given code and subcode and the message `text`.
    #[must_use]
    #[cold]
    pub fn new(code: Code, subcode: Subcode, text: impl Into<String>) -> Error {
        Error(Arc::new(Body {
            code,
            subcode,
            text: text.into(),
            source: None,
            is_panic: false,
        }))
    }

    /// The error `Aborted` of an operation that panicked, which leaves an unknown state.
    #[must_use]
    #[cold]
    pub fn panicked(text: impl Into<String>) -> Error {
        Error(Arc::new(Body {
            code: Code::Aborted,
            subcode: Subcode::None,
            text: text.into(),
            source: None,
            is_panic: true,
        }))
    }

    constructors! {
        /// A named object does not exist.
        not_found => NotFound;
        /// Invalid data.
        corruption => Corruption;
        /// An unsupported operation or format.
        not_supported => NotSupported;
        /// An invalid argument.
        invalid_argument => InvalidArgument;
        /// The operation ended early because of a limit set by the caller.
        incomplete => Incomplete;
        /// The database is shutting down.
        shutdown => ShutdownInProgress;
        /// A required resource is in use.
        busy => Busy;
        /// The operation was aborted.
        aborted => Aborted;
        /// A lock or deadline timed out.
        timed_out => TimedOut;
        /// The operation may succeed if retried.
        try_again => TryAgain;
        /// An I/O error without an errno.
        io_text => IoError;
    }

    /// An I/O error from the operation `doing` (a verb, such as "write") on `path`.
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
            is_panic: false,
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

    /// The message, without the prefix for the code and subcode.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// The kind of the underlying I/O error, if a system call reported one.
    #[must_use]
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        self.0.source.as_deref().map(io::Error::kind)
    }

    /// True for invalid data, as opposed to I/O errors and invalid arguments.
    #[must_use]
    pub fn is_corruption(&self) -> bool {
        self.code() == Code::Corruption
    }

    /// True for the error of an operation that panicked ([`Error::panicked`]).
    #[must_use]
    pub fn is_panic(&self) -> bool {
        self.0.is_panic
    }

    /// Returns the error with `context` prepended to its message.
    #[must_use]
    #[cold]
    pub fn context(&self, context: impl fmt::Display) -> Error {
        Error(Arc::new(Body {
            code: self.0.code,
            subcode: self.0.subcode,
            text: format!("{context}: {}", self.0.text),
            source: self.0.source.clone(),
            is_panic: self.0.is_panic,
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

/// Invalid input of a pure decoder: its offset, and what was expected or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// Offset in the decoder's input, in bytes.
    pub at: usize,
    /// A description, as a clause: "footer is truncated", "restart count: expected 1 to 7, found 99".
    pub what: Cow<'static, str>,
    /// True if the input may be valid but is of an unsupported kind.
    pub unsupported: bool,
}

/// The result of a pure decoder.
pub type Decoded<T> = std::result::Result<T, Malformed>;

impl Malformed {
    /// Input that is invalid at offset `at`, as described by `what`.
    #[must_use]
    #[cold]
    pub fn at(at: usize, what: impl Into<Cow<'static, str>>) -> Malformed {
        Malformed {
            at,
            what: what.into(),
            unsupported: false,
        }
    }

    /// Input at offset `at` that is of an unsupported kind.
    #[must_use]
    #[cold]
    pub fn unsupported(at: usize, what: impl Into<Cow<'static, str>>) -> Malformed {
        Malformed {
            at,
            what: what.into(),
            unsupported: true,
        }
    }

    /// Input whose `field`, at offset `at`, is `found` instead of `expected`.
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

    /// Adds `base` to the offset, for a decoder that was given part of a larger input.
    #[must_use]
    pub fn shifted(mut self, base: usize) -> Malformed {
        self.at += base;
        self
    }

    /// Converts to an error for users. The decoded input begins at offset `base` of `file`.
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
    fn messages_have_rocksdbs_prefixes() {
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
    fn the_source_is_the_error_of_the_system_call() {
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
    fn a_panic_is_told_from_other_aborted_operations() {
        let panicked = Error::panicked("a job panicked").context("flush");
        assert_eq!(panicked.code(), Code::Aborted);
        assert!(panicked.is_panic() && !Error::aborted("cancelled").is_panic());
    }

    #[test]
    fn an_error_is_one_pointer_wide() {
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }
}
