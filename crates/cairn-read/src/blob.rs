//! Values in blob files, and the blob files that are open.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use cairn_blob::BlobFile;
use cairn_format::blob::BlobIndex;
use cairn_format::names;
use cairn_platform::fs::FileMode;
use cairn_platform::sync::Mutex;
use cairn_platform::{FileSystem, Io};
use cairn_types::{FileNumber, Result};

use crate::value::Value;

/// Reads values out of a family's blob files, and keeps the files open.
pub struct BlobSource {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    mode: FileMode,
    open: Mutex<HashMap<FileNumber, Arc<BlobFile>>>,
}

impl BlobSource {
    /// A source of the blob files in `dir`.
    #[must_use]
    pub fn new(fs: Arc<dyn FileSystem>, dir: PathBuf, mode: FileMode) -> BlobSource {
        BlobSource {
            fs,
            dir,
            mode,
            open: Mutex::new(HashMap::new()),
        }
    }

    /// The blob file with this number, opened if it was not.
    ///
    /// # Errors
    ///
    /// `IoError`, or `Corruption` if it is no blob file.
    pub fn file(&self, number: FileNumber) -> Result<Arc<BlobFile>> {
        if let Some(file) = self.open.lock().get(&number) {
            return Ok(file.clone());
        }
        // Opened without the lock: two readers may both do it, and one of them wins.
        let path = self.dir.join(names::blob(number));
        let file = Arc::new(BlobFile::open(self.fs.open(&path, self.mode)?, number)?);
        Ok(self.open.lock().entry(number).or_insert(file).clone())
    }

    /// The value of `user_key` (timestamp included) that the encoded `index` leads to.
    ///
    /// # Errors
    ///
    /// `Corruption` if the index or what it leads to is damaged, and those of
    /// [`BlobSource::file`].
    pub fn read(&self, index: &[u8], user_key: &[u8], io: &Io) -> Result<Value> {
        let index = BlobIndex::decode(index).map_err(|e| e.in_file("a blob index", 0))?;
        let file = self.file(index.file)?;
        let record = io.read_now(&file.request(&index, user_key)?)?;
        let (buffer, range) = file.complete(&index, user_key, record)?.into_parts();
        Ok(Value::in_block(buffer, range))
    }

    /// Closes a blob file that has become obsolete.
    pub fn forget(&self, number: FileNumber) {
        self.open.lock().remove(&number);
    }
}
