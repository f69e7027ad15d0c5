//! The WALs of a directory, and whether one of them is missing or cut.

use std::path::{Path, PathBuf};

use cairn_format::log::Predecessor;
use cairn_format::names::FileName;
use cairn_platform::FileSystem;
use cairn_types::{Error, FileNumber, Result, SequenceNumber};

/// A WAL in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WalFile {
    /// Its number.
    pub number: FileNumber,
    /// Where it lies.
    pub path: PathBuf,
}

/// The WALs in `dir`, oldest first. Names that no database prints (`7.log`) are not among them.
///
/// # Errors
///
/// Those of the file system.
pub fn list(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<WalFile>> {
    Ok(among(&fs.list(dir)?, dir))
}

/// The WALs among the `names` that `dir` has; see [`list`].
#[must_use]
pub fn among(names: &[String], dir: &Path) -> Vec<WalFile> {
    let mut wals: Vec<WalFile> = Vec::new();
    for name in names {
        match FileName::parse(name) {
            Some(parsed @ FileName::Wal(number)) if parsed.to_string() == *name => {
                wals.push(WalFile {
                    number,
                    path: dir.join(name),
                });
            }
            _ => {}
        }
    }
    wals.sort_unstable();
    wals
}

/// The findings about a WAL while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalSummary {
    /// Its number.
    pub number: FileNumber,
    /// Bytes up to its last whole record.
    pub bytes: u64,
    /// The sequence number at which its last batch begins, 0 if it has none.
    pub last_sequence: SequenceNumber,
}

/// Compares what a log says about the one before it with what was read.
///
/// `before` is the log that was read before this one, `oldest_needed` the oldest that recovery
/// has to read: an older one may be gone.
///
/// # Errors
///
/// `Corruption` if the stated log is missing, shorter than it was, or ends with another sequence
/// number; the text says which.
pub fn check_predecessor(
    number: FileNumber,
    stated: &Predecessor,
    before: Option<&WalSummary>,
    oldest_needed: FileNumber,
) -> Result<()> {
    let stated_number = FileNumber(stated.log_number);
    let Some(before) = before else {
        if stated_number < oldest_needed {
            return Ok(());
        }
        return Err(Error::corruption(format!(
            "log {stated_number} is missing: log {number} follows it"
        )));
    };
    let differs = |what: &str, expected: u64, found: u64| {
        Err(Error::corruption(format!(
            "{what} before log {number}: expected {expected}, found {found}"
        )))
    };
    if before.number != stated_number {
        return differs("number of the log", stated.log_number, before.number.0);
    }
    if before.bytes != stated.bytes {
        return differs("size of the log", stated.bytes, before.bytes);
    }
    if before.last_sequence != stated.last_sequence {
        let (expected, found) = (stated.last_sequence.0, before.last_sequence.0);
        return differs(
            "sequence number of the last batch of the log",
            expected,
            found,
        );
    }
    Ok(())
}
