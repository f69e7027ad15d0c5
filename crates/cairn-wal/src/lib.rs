//! The write-ahead log: its writer, its reader, and the logs of a directory.
//!
//! A WAL is a log file (see [`cairn_format::log`]) whose records are write batches. This crate
//! moves them to and from files; it knows neither column families nor memtables, and what damage
//! means is for [`cairn_format::log::RecoveryMode`] and those who replay.
//!
//! Durability is the caller's: `add` frames into memory, `hand_over` gives everything to the
//! kernel in one call, `sync` makes it survive a power cut. An error of the file ends a writer for
//! good, because nobody knows how much of what it handed over is in the file.

mod directory;
mod reader;
mod writer;

pub use cairn_format::log::{
    Dropped, End, Predecessor, Reason, RecoveryMode, TimestampSizes, Verdict,
};
pub use directory::{WalFile, WalSummary, among, check_predecessor, list};
pub use reader::{MAX_RECORD_LEN, WalEvent, WalReader};
pub use writer::{WalOptions, WalWriter};

#[cfg(test)]
mod kill_tests;
#[cfg(test)]
mod tests;
