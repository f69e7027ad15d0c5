//! The write-ahead log: its writer, its reader, and the WALs of a directory.
//!
//! A WAL is a log file (see [`cairn_format::log`]) whose records are write batches. This crate moves records
//! to and from files. It is independent of column families and memtables; [`cairn_format::log::RecoveryMode`]
//! and the recovery code define the reaction to damage.
//!
//! Durability is controlled by the caller: `add` buffers a record in memory, `hand_over` passes the buffer to
//! the kernel in one call, and `sync` makes it survive a power failure. An I/O error disables the writer
//! permanently, because the content of the file is then unknown.

mod directory;
mod reader;
mod writer;

use cairn_types::{Error, Result};

pub use cairn_format::log::{
    Dropped, End, Predecessor, Reason, RecoveryMode, TimestampSizes, Verdict,
};
pub use directory::{WalFile, WalSummary, among, check_predecessor, list};
pub use reader::{WalEvent, WalReader};
pub use writer::{WalOptions, WalWriter};

/// The maximum length in bytes of a record, before compression. The writer rejects a longer one
/// before framing any of it; the reader treats a compressed record that expands to more as damage.
/// RocksDB has no such limit, but batches of up to 4 GiB, of which a program holds several copies
/// during a write, are at most half of it.
pub const MAX_RECORD_LEN: u64 = 8 << 30;

/// Rejects a record of more than [`MAX_RECORD_LEN`] bytes.
///
/// # Errors
///
/// `InvalidArgument`, with the limit and the length.
#[inline]
pub fn check_record(len: u64) -> Result<()> {
    match len <= MAX_RECORD_LEN {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!(
            "log record is too large: expected at most {MAX_RECORD_LEN} bytes, found {len}"
        ))),
    }
}

#[cfg(test)]
mod kill_tests;
#[cfg(test)]
mod tests;
