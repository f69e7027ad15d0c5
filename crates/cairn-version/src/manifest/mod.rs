//! The MANIFEST: the log of version edits.
//!
//! A file belongs to the database once its edit is synced to the MANIFEST, not before, and may be
//! deleted once the edit that drops it is synced. CURRENT names the MANIFEST in use. A new MANIFEST
//! starts with a snapshot of the whole state and takes effect when CURRENT is replaced by a rename.

mod best_effort;
mod replay;
mod tail;
#[cfg(test)]
mod tests;
mod torn;
mod writer;

use std::path::{Path, PathBuf};

use cairn_format::names::{self, FileName};
use cairn_platform::FileSystem;
use cairn_platform::fs::FileMode;
use cairn_types::{Code, Error, FileNumber, Result, Subcode};

pub use best_effort::{FileProbe, replay_best_effort};
pub use replay::{CleanEnd, Recovered, RecoveredFamily, UnreadTail, families, replay, verify};
pub use tail::{News, Tail, bytes_before};
pub use writer::{Contents, FamilyContents, Manifest, WriteFailed};

/// A size larger than any valid CURRENT file.
const MAX_CURRENT_LEN: usize = 256;

/// Returns the MANIFEST that CURRENT of `dir` names, or `None` without a CURRENT.
///
/// # Errors
///
/// `Corruption` if CURRENT does not name a MANIFEST; `IoError`.
pub fn current(fs: &dyn FileSystem, dir: &Path) -> Result<Option<FileNumber>> {
    let path = dir.join(FileName::Current.to_string());
    let file = match fs.open(&path, FileMode::default()) {
        Err(error) if error.subcode() == Subcode::PathNotFound => return Ok(None),
        file => file?,
    };
    let mut content = [0; MAX_CURRENT_LEN];
    let len = file.read_up_to_end(0, &mut content)?;
    let number = names::decode_current(&content[..len])
        .map_err(|malformed| malformed.in_file(path.display(), 0))?;
    Ok(Some(number))
}

/// The error of a read of a database without a CURRENT. RocksDB's programs distinguish a missing database from a
/// damaged one by the code.
#[must_use]
pub fn no_database(dir: &Path) -> Error {
    let path = dir.join(FileName::Current.to_string());
    let text = format!("{} does not exist", path.display());
    Error::new(Code::IoError, Subcode::PathNotFound, text)
}

/// Writes a temporary file that is to become CURRENT and names MANIFEST `number` of `dir`. Returns its path.
fn write_next_current(fs: &dyn FileSystem, dir: &Path, number: FileNumber) -> Result<PathBuf> {
    let temp = dir.join(FileName::Temp(number).to_string());
    remove_leftover(fs, &temp)?;
    let file = fs.create(&temp, FileMode::default())?;
    file.append(names::encode_current(number).as_bytes())?;
    file.sync(false)?;
    file.close()?;
    Ok(temp)
}

/// Durably replaces CURRENT of `dir` by `temp`. After an error, it is one or the other.
fn replace_current(fs: &dyn FileSystem, dir: &Path, temp: &Path) -> Result<()> {
    fs.rename(temp, &dir.join(FileName::Current.to_string()))?;
    fs.sync_dir(dir)
}

/// Removes a file that an interrupted attempt may have left.
fn remove_leftover(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    match fs.remove(path) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Ok(()),
        removed => removed,
    }
}

/// Returns a corruption error of MANIFEST `path` at `offset`.
#[cold]
fn damaged(path: &Path, offset: u64, what: impl std::fmt::Display) -> Error {
    Error::corruption(format!("{what} at offset {offset} of {}", path.display()))
}
