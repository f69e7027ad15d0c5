//! Values in blob files that records of a log refer to: see [`crate::write::direct_blobs`].

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use cairn_format::blob::BlobIndex;
use cairn_memtable::Memtable;
use cairn_read::BlobSource;
use cairn_types::{Error, FileNumber, Result, Subcode};
use cairn_version::Version;

/// Blob files in no version that a database that follows another one keeps open, by the memtables that refer to them: the
/// primary may delete them.
#[derive(Default)]
pub(crate) struct HeldBlobs(BTreeMap<FileNumber, Vec<Weak<Memtable>>>);

impl HeldBlobs {
    /// Adds a file that was opened for a check.
    pub(crate) fn opened(&mut self, number: FileNumber) {
        self.0.entry(number).or_default();
    }

    /// Records that `memtable` refers to the file of the encoded `index`, if it is one of these.
    pub(crate) fn refers(&mut self, index: &[u8], memtable: &Arc<Memtable>) {
        let Some(held) = BlobIndex::decode(index)
            .ok()
            .and_then(|index| self.0.get_mut(&index.file))
        else {
            return;
        };
        let memtable = Arc::downgrade(memtable);
        if !held.last().is_some_and(|last| last.ptr_eq(&memtable)) {
            held.push(memtable);
        }
    }

    /// Closes the files of `blobs` that no memtable refers to any more.
    pub(crate) fn release(&mut self, blobs: &BlobSource) {
        self.0.retain(|number, memtables| {
            memtables.retain(|memtable| memtable.strong_count() > 0);
            if memtables.is_empty() {
                blobs.forget(*number);
            }
            !memtables.is_empty()
        });
    }
}

/// Checks that the value of `key` is in the blob file that the encoded `index` of a log refers to, and returns the number of
/// the file. It need not be in `version`, and may lack a footer and the last values that were appended to it.
///
/// # Errors
///
/// `Corruption` if the value is missing or damaged; `IoError`, also if the file is missing and the database `follows` another
/// one, which may have deleted it meanwhile.
pub(crate) fn check_logged_blob(
    blobs: &BlobSource,
    version: &Version,
    key: &[u8],
    index: &[u8],
    follows: bool,
) -> Result<FileNumber> {
    let index = BlobIndex::decode(index).map_err(|e| e.in_file("a blob index of the log", 0))?;
    if version.blob_files().contains_key(&index.file) {
        // It was synced before the edit that added it.
        return Ok(index.file);
    }
    let path = blobs.path(index.file);
    let missing = |found: &dyn std::fmt::Display| {
        Error::corruption(format!(
            "the log refers to a value at offset {} of {}: expected {} bytes, found {found}",
            index.offset,
            path.display(),
            index.size
        ))
    };
    let file = match blobs.open_unsealed(index.file) {
        Err(error) if error.subcode() == Subcode::PathNotFound && !follows => {
            return Err(missing(&"no file"));
        }
        Err(error) if error.is_corruption() => return Err(missing(&error.text())),
        file => file?,
    };
    let (len, end) = (file.current_len()?, index.offset.saturating_add(index.size));
    if len < end {
        return Err(missing(&format_args!(
            "{}",
            len.saturating_sub(index.offset)
        )));
    }
    match file.read(&index, key) {
        Err(error) if error.is_corruption() => Err(missing(&error.text())),
        read => read.map(|_| index.file),
    }
}

/// Checks that the blob file that the encoded `index` of a log refers to is in `version`, for a follower, which would copy
/// the file before it is complete.
///
/// # Errors
///
/// `NotSupported` if it is not; `Corruption`.
pub(crate) fn check_added_blob(version: &Version, index: &[u8]) -> Result<()> {
    let index = BlobIndex::decode(index).map_err(|e| e.in_file("a blob index of the log", 0))?;
    match version.blob_files().contains_key(&index.file) {
        true => Ok(()),
        false => Err(Error::not_supported(format!(
            "a follower of a database with enable_blob_direct_write: blob file {} is not complete; its values can be \
             read after a flush, or by a secondary instance",
            index.file
        ))),
    }
}
