//! A directory under construction: filled under a temporary name, then renamed.
//!
//! A crash leaves `NAME.tmp` or the whole directory. An error leaves nothing.

use std::path::{Path, PathBuf};

use cairn_platform::FileSystem;
use cairn_platform::fs::parent;
use cairn_types::{Code, Error, Result, Subcode};

/// A directory that does not have its final name yet. Dropping it before [`Staging::publish`] removes its
/// files.
pub(crate) struct Staging<'a> {
    fs: &'a dyn FileSystem,
    target: PathBuf,
    dir: PathBuf,
    published: bool,
}

impl<'a> Staging<'a> {
    /// Creates an empty directory that is to become `target`, which must not exist.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `target` exists or has no name of its own; `IoError`, with the subcode `PathNotFound` if the
    /// directory above it does not exist.
    pub(crate) fn create(fs: &'a dyn FileSystem, target: &Path) -> Result<Staging<'a>> {
        if fs.exists(target)? {
            return Err(Error::invalid_argument(format!(
                "{} exists",
                target.display()
            )));
        }
        let above = parent(target);
        if !fs.exists(above)? {
            return Err(Error::new(
                Code::IoError,
                Subcode::PathNotFound,
                format!(
                    "{}: the directory {} does not exist",
                    target.display(),
                    above.display()
                ),
            ));
        }
        let name = target.file_name().ok_or_else(|| {
            Error::invalid_argument(format!(
                "{} is not the name of a directory",
                target.display()
            ))
        })?;
        let mut temporary = name.to_owned();
        temporary.push(".tmp");
        let dir = target.with_file_name(temporary);
        remove_all(fs, &dir)?;
        fs.create_dir_all(&dir)?;
        Ok(Staging {
            fs,
            target: target.to_owned(),
            dir,
            published: false,
        })
    }

    /// The path of the file `name` in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Renames the directory, durably; its files are already synced.
    pub(crate) fn publish(mut self) -> Result<()> {
        self.fs.sync_dir(&self.dir)?;
        self.fs.rename(&self.dir, &self.target)?;
        self.published = true;
        self.fs.sync_dir(parent(&self.target))
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        if !self.published {
            // The error that caused this is reported.
            let _ = remove_all(self.fs, &self.dir);
        }
    }
}

/// Removes a directory of files that an earlier attempt may have left.
fn remove_all(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let names = match fs.list(dir) {
        Err(error) if error.subcode() == Subcode::PathNotFound => return Ok(()),
        names => names?,
    };
    for name in names {
        fs.remove(&dir.join(name))?;
    }
    fs.remove_dir(dir)
}
