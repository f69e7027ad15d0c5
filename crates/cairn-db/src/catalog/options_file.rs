//! OPTIONS files: a new one with the current options is written whenever options or families change.
//!
//! A file is written and listed under the lock of [`Settings`], so that the newest file has the newest options (OPT2).

use std::path::Path;
use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_format::options_text::to_bytes;
use cairn_options::file::OptionsFile;
use cairn_platform::FileSystem;
use cairn_platform::fs::FileMode;
use cairn_types::{FileNumber, Result};

use super::Catalog;
use super::family::Families;
use super::file_numbers::FileNumbers;
use super::scan::old_options;
use crate::context::DbContext;
use crate::options::settings::{OptionsFileLock, Settings};

/// Durably replaces `path` with a file that contains `content`, which is first written to `temporary`. After an error,
/// `temporary` does not exist, unless it cannot be removed.
pub(crate) fn replace(
    fs: &dyn FileSystem,
    temporary: &Path,
    path: &Path,
    content: &[u8],
) -> Result<()> {
    if fs.exists(temporary)? {
        fs.remove(temporary)?;
    }
    let file = fs.create(temporary, FileMode::default())?;
    let named = file
        .append(content)
        .and_then(|()| file.sync(false))
        .and_then(|()| file.close())
        .and_then(|()| fs.rename(temporary, path));
    named.inspect_err(|_| {
        // The error is reported; one that stays is removed by the next opening.
        let _ = fs.remove(temporary);
    })?;
    fs.sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// The OPTIONS files of a database.
pub(crate) struct OptionsFiles {
    context: Arc<DbContext>,
    settings: Arc<Settings>,
}

impl OptionsFiles {
    /// The files in the directory of a database.
    pub(super) fn new(context: Arc<DbContext>, settings: Arc<Settings>) -> OptionsFiles {
        OptionsFiles { context, settings }
    }

    /// Writes the current options, with those of `families`, to a new file, and returns its name.
    pub(crate) fn write(
        &self,
        _alone: &OptionsFileLock<'_>,
        families: &Families,
        numbers: &FileNumbers,
    ) -> Result<String> {
        let file = OptionsFile {
            db: (**self.settings.get()).clone(),
            families: families
                .iter()
                .map(|family| (family.name().to_owned(), (**family.options()).clone()))
                .collect(),
            ..OptionsFile::default()
        };
        let (dir, number) = (&self.context.dir, numbers.take());
        let temporary = dir.join(FileName::OptionsTemp(number).to_string());
        let name = FileName::Options(number).to_string();
        replace(
            &*self.context.world.fs,
            &temporary,
            &dir.join(&name),
            &to_bytes(&file.to_text()),
        )?;
        Ok(name)
    }

    /// Returns the newest file, with its length.
    pub(crate) fn newest(&self) -> Result<Option<(FileNumber, u64)>> {
        let _alone = self.settings.lock_file();
        let fs = &*self.context.world.fs;
        let numbers = fs.list(&self.context.dir)?.into_iter().filter_map(|name| {
            match FileName::parse(&name) {
                Some(FileName::Options(number)) => Some(number),
                _ => None,
            }
        });
        let Some(newest) = numbers.max() else {
            return Ok(None);
        };
        let path = self.context.dir.join(FileName::Options(newest).to_string());
        Ok(Some((newest, fs.status(&path)?.len)))
    }
}

impl Catalog {
    /// Writes the current options to a new OPTIONS file, and deletes all but the newest two.
    ///
    /// # Errors
    ///
    /// `IoError`.
    pub(crate) fn write_options_file(&self) -> Result<()> {
        let alone = self.settings.lock_file();
        self.options_files
            .write(&alone, &self.families(), &self.numbers)?;
        for name in old_options(self.context.world.fs.list(&self.context.dir)?) {
            self.deletions.delete(&self.context.dir.join(name));
        }
        Ok(())
    }
}
