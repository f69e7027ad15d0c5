//! The write-ahead log: its writer, its reader, and the logs of a directory.
//!
//! A WAL is a log file (see [`cairn_format::log`]) whose records are write batches. This crate
//! moves them to and from files; it knows neither column families nor memtables, and what damage
//! means is for [`cairn_format::log::RecoveryMode`] and those who replay.
//!
//! Durability is the caller's: `add` frames into memory, `hand_over` gives everything to the
//! kernel in one call, `sync` makes it survive a power cut. An error of the file ends a writer for
//! good, because it is not known how much of what it handed over is in the file.

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

/// Bytes of the longest record, before compression. The writer refuses longer ones before it frames anything, and
/// for the reader a compressed record that gives more is damage. RocksDB has no limit; its batches, of which a program
/// holds several copies while it writes one, reach 4 GiB, and this is twice as much.
pub const MAX_RECORD_LEN: u64 = 8 << 30;

/// Refuses a record of `len` bytes if it is longer than [`MAX_RECORD_LEN`].
///
/// # Errors
///
/// `InvalidArgument`, which names limit and length.
#[inline]
pub fn check_record(len: u64) -> Result<()> {
    match len <= MAX_RECORD_LEN {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!(
            "a record of the log is too large: expected at most {MAX_RECORD_LEN} bytes, found {len}"
        ))),
    }
}

#[cfg(test)]
mod kill_tests;
#[cfg(test)]
mod tests;
