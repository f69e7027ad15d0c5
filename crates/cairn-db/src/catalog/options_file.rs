//! The OPTIONS file, which is written whenever options or families change.

use std::path::Path;

use cairn_format::names::FileName;
use cairn_options::file::OptionsFile;
use cairn_platform::FileSystem;
use cairn_platform::fs::FileMode;
use cairn_types::{FileNumber, Result};

use super::Catalog;
use super::purge::old_options;

/// Replaces `path` by a file with `content`, durably, by way of `temporary`.
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
    file.append(content)?;
    file.sync(false)?;
    file.close()?;
    fs.rename(temporary, path)?;
    fs.sync_dir(path.parent().unwrap_or(Path::new(".")))
}

impl Catalog {
    /// Writes the current options to a new OPTIONS file, and deletes all but the newest two.
    pub(crate) fn write_options_file(&self) -> Result<()> {
        let _alone = self.settings.lock_file();
        self.add_options_file()?;
        for name in old_options(self.context.world.fs.list(&self.context.dir)?) {
            self.delete(&self.context.dir.join(name));
        }
        Ok(())
    }

    /// Writes the current options to a new OPTIONS file, and returns its name. Calls must be serialized.
    pub(crate) fn add_options_file(&self) -> Result<String> {
        let families = self.families();
        let file = OptionsFile {
            db: (**self.options()).clone(),
            families: families
                .iter()
                .map(|family| (family.name().to_owned(), (**family.options()).clone()))
                .collect(),
            ..OptionsFile::default()
        };
        let number = self.new_file_number();
        let temporary = self
            .context
            .dir
            .join(FileName::OptionsTemp(number).to_string());
        let name = FileName::Options(number).to_string();
        replace(
            &*self.context.world.fs,
            &temporary,
            &self.context.dir.join(&name),
            file.to_text().as_bytes(),
        )?;
        Ok(name)
    }

    /// The newest OPTIONS file, with its length.
    pub(crate) fn newest_options(&self) -> Result<Option<(FileNumber, u64)>> {
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
