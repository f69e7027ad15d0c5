//! The WALs of a directory, and detection of missing or truncated ones.

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
    /// Its path.
    pub path: PathBuf,
}

/// The WALs in `dir`, oldest first. Names that the database never generates, such as `7.log`, are ignored.
///
/// # Errors
///
/// Those of the file system.
pub fn list(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<WalFile>> {
    Ok(among(&fs.list(dir)?, dir))
}

/// The WALs among the `names` of files in `dir`; see [`list`].
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
    debug_assert!(
        wals.is_sorted_by(|a, b| a.number < b.number),
        "names in a directory are unique"
    );
    wals
}

/// The summary of a WAL that has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalSummary {
    /// Its number.
    pub number: FileNumber,
    /// The offset after its last complete record.
    pub bytes: u64,
    /// The sequence number of its last batch, 0 if it has none.
    pub last_sequence: SequenceNumber,
}

/// Checks the summary of the preceding log, as recorded in WAL `number`, against the log that was
/// read.
///
/// `before` is the log that was read before this one. `oldest_needed` is the oldest log that
/// recovery requires; older ones may have been deleted.
///
/// # Errors
///
/// `Corruption` if the recorded log is missing, shorter than recorded, or ends with another sequence number.
pub fn check_predecessor(
    number: FileNumber,
    stated: &Predecessor,
    before: Option<&WalSummary>,
    oldest_needed: FileNumber,
) -> Result<()> {
    debug_assert!(
        before.is_none_or(|before| before.number < number),
        "logs are read in order"
    );
    let stated_number = FileNumber(stated.log_number);
    let Some(before) = before else {
        if stated_number < oldest_needed {
            return Ok(());
        }
        return Err(Error::corruption(format!(
            "log {stated_number} is missing: log {number} records it as its predecessor"
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
