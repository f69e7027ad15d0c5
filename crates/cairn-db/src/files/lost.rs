//! The directory `lost` of a database: files with data that is no longer part of the database.
//!
//! A file is linked there durably before a state without the file becomes current; only then is the old name
//! removed. Files in `lost` are never read or deleted.

use std::path::{Path, PathBuf};

use cairn_platform::FileSystem;
use cairn_types::Result;

use super::copy;

/// The name of the directory.
const NAME: &str = "lost";

/// The directory `lost` of one database, which may not exist yet.
pub(crate) struct Lost<'a> {
    fs: &'a dyn FileSystem,
    db: &'a Path,
    use_fsync: bool,
}

impl<'a> Lost<'a> {
    /// Returns that of the database in `db`.
    pub(crate) fn of(fs: &'a dyn FileSystem, db: &'a Path, use_fsync: bool) -> Lost<'a> {
        Lost { fs, db, use_fsync }
    }

    /// Links the file at `path` there, and returns the new path: its own name, with a number appended if that
    /// is in use. The old name is kept.
    pub(crate) fn keep(&self, path: &Path) -> Result<PathBuf> {
        let lost = self.db.join(NAME);
        self.fs.create_dir_all(&lost)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut to = lost.join(&*name);
        let mut attempt = 0;
        while self.fs.exists(&to)? {
            attempt += 1;
            to = lost.join(format!("{name}.{attempt}"));
        }
        match self.fs.link(path, &to) {
            Err(error) if copy::cannot_link(&error) => {
                copy::copy(self.fs, path, &to, None, self.use_fsync)?;
            }
            linked => linked?,
        }
        Ok(to)
    }

    /// Makes the names durable.
    pub(crate) fn sync(&self) -> Result<()> {
        let lost = self.db.join(NAME);
        match self.fs.exists(&lost)? {
            true => {
                self.fs.sync_dir(&lost)?;
                self.fs.sync_dir(self.db)
            }
            false => Ok(()),
        }
    }
}
