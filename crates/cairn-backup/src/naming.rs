//! Names of the files of a backup, and the decision which of them are copied.
//!
//! A table is identified by its number and the id of the session that wrote it, which are read from its properties.
//! Files without a session id are identified by number, checksum and size.

use std::collections::HashSet;
use std::sync::Arc;

use cairn_db::{FileType, LiveFileStorageInfo};
use cairn_format::backup::{BackupDir, BackupPath, shared_checksum_path};
use cairn_platform::fs::FileMode;
use cairn_platform::{FileSystem, Io};
use cairn_table::Table;
use cairn_types::{Code, Error, Result, Subcode};

use crate::catalog::StoredFile;
use crate::create::Creation;

/// The name of the checksum function whose values are CRC-32C, in big-endian order.
const CRC32C_FUNCTION: &str = "FileChecksumCrc32c";

/// A file of the database, and its place in the backup.
pub(crate) enum Plan {
    /// An earlier backup has it.
    Existing(Arc<StoredFile>),
    /// It is copied to `path`, or if that is `None` to the path that its checksum determines. `crc32c` is the checksum
    /// that it must have, if known.
    Copy {
        path: Option<BackupPath>,
        crc32c: Option<u32>,
    },
}

/// Shared files whose names contain their checksums, by name in the database and size.
#[derive(Default)]
pub(crate) struct NamedByChecksum(HashSet<(String, u64)>);

impl NamedByChecksum {
    pub(crate) fn of<'a>(files: impl Iterator<Item = &'a Arc<StoredFile>>) -> NamedByChecksum {
        let named = files.filter(|file| {
            let detail = file.path.name().split('_').nth(1);
            detail.is_some_and(|detail| !detail.starts_with('s'))
        });
        NamedByChecksum(
            named
                .map(|file| (file.path.database_name(), file.size))
                .collect(),
        )
    }
}

impl Creation {
    /// Returns the place of `file` in the backup.
    pub(crate) fn plan(&self, file: &LiveFileStorageInfo) -> Result<Plan> {
        let options = &self.core.options;
        let data = matches!(file.file_type, FileType::Table | FileType::Blob);
        let recorded = recorded_crc32c(file);
        let private = |name: &str| BackupPath::new(BackupDir::Private(self.id), name);
        if !data || !options.share_table_files {
            return Ok(Plan::Copy {
                path: Some(named(file, private(&file.relative_filename))?),
                crc32c: recorded,
            });
        }
        if !options.share_files_with_checksum {
            let path = BackupPath::new(BackupDir::Shared, &file.relative_filename);
            return self.reuse(file, named(file, path)?, recorded, true);
        }
        let naming = options.share_files_with_checksum_naming;
        if file.file_type == FileType::Table
            && naming.uses_session()
            && let Some(session) = session_id(&*self.core.db_world.fs, file)?
        {
            let name = &file.relative_filename;
            let path = match naming.includes_size() {
                true => shared_checksum_path(name, format_args!("s{session}_{}", file.size)),
                false => shared_checksum_path(name, format_args!("s{session}")),
            };
            return self.reuse(file, named(file, path)?, recorded, false);
        }
        let known = recorded.or_else(|| self.remembered(file));
        let may_exist = self
            .by_checksum
            .0
            .contains(&(file.relative_filename.clone(), file.size));
        let crc32c = match known {
            None if may_exist || self.exclude_files.is_some() => {
                let crc32c = self.checksum(file)?;
                self.remember(file, crc32c);
                Some(crc32c)
            }
            known => known,
        };
        match crc32c {
            Some(crc32c) => self.reuse(
                file,
                self.path_by_checksum(file, crc32c)?,
                Some(crc32c),
                false,
            ),
            None => Ok(Plan::Copy { path: None, crc32c }),
        }
    }

    /// Returns the plan for `file`, which has the place `path`. With `verify`, other files may have the same path. A file
    /// that the directory has lost is copied again.
    fn reuse(
        &self,
        file: &LiveFileStorageInfo,
        path: BackupPath,
        crc32c: Option<u32>,
        verify: bool,
    ) -> Result<Plan> {
        let existing = self.core.catalog.lock().shared(&path);
        let Some(existing) = existing else {
            return Ok(Plan::Copy {
                path: Some(path),
                crc32c,
            });
        };
        let differs = |what: &str, expected: u64, found: u64| {
            Error::corruption(format!(
                "{what} of {}: expected {expected} as in an earlier backup, found {found}; if the file of the \
                 database is intact, delete the earlier backups or use another directory",
                file.directory.join(&file.relative_filename).display()
            ))
        };
        if existing.size != file.size {
            return Err(differs("length", existing.size, file.size));
        }
        if !self.is_complete(&existing)? {
            return Ok(Plan::Copy {
                path: Some(path),
                crc32c: crc32c.or(existing.crc32c),
            });
        }
        let crc32c = match crc32c {
            None if verify => Some(self.checksum(file)?),
            known => known,
        };
        match (existing.crc32c, crc32c) {
            (Some(expected), Some(found)) if expected != found => {
                Err(differs("checksum", expected.into(), found.into()))
            }
            _ => Ok(Plan::Existing(existing)),
        }
    }

    /// True if the file of an earlier backup is still there with its length: it may have been removed or truncated since
    /// the catalog was read.
    fn is_complete(&self, existing: &StoredFile) -> Result<bool> {
        match self.core.fs().status(&self.core.path(&existing.path)) {
            Err(error) if error.subcode() == Subcode::PathNotFound => Ok(false),
            status => Ok(status?.len == existing.size),
        }
    }

    /// The path of `file` with its checksum in the name.
    pub(crate) fn path_by_checksum(
        &self,
        file: &LiveFileStorageInfo,
        crc32c: u32,
    ) -> Result<BackupPath> {
        let name = &file.relative_filename;
        let path = shared_checksum_path(name, format_args!("{crc32c}_{}", file.size));
        named(file, path)
    }
}

fn named(file: &LiveFileStorageInfo, path: Option<BackupPath>) -> Result<BackupPath> {
    path.ok_or_else(|| {
        Error::not_supported(format!(
            "{} cannot be part of a backup",
            file.directory.join(&file.relative_filename).display()
        ))
    })
}

/// The checksum of `file` in the MANIFEST.
fn recorded_crc32c(file: &LiveFileStorageInfo) -> Option<u32> {
    let bytes = file.file_checksum.as_slice().try_into().ok()?;
    (file.file_checksum_func_name == CRC32C_FUNCTION).then(|| u32::from_be_bytes(bytes))
}

/// The id of the session that wrote the table; `None` if it has none, or is of an unsupported format.
fn session_id(fs: &dyn FileSystem, table: &LiveFileStorageInfo) -> Result<Option<String>> {
    let path = table.directory.join(&table.relative_filename);
    let file = fs.open(&path, FileMode::default())?;
    let len = file.len()?;
    let properties = match Table::read_properties(&file, len, &Io::blocking()) {
        Err(error) if error.code() == Code::NotSupported => return Ok(None),
        properties => properties?,
    };
    let session = properties.db_session_id;
    let usable = !session.is_empty() && session.bytes().all(|b| b.is_ascii_alphanumeric());
    Ok(usable.then(|| session.to_string()))
}

/// The session id of the table at `path` of a database that is restored; `None` if it cannot be read.
pub(crate) fn session_of(fs: &dyn FileSystem, path: &std::path::Path) -> Option<String> {
    let file = fs.open(path, FileMode::default()).ok()?;
    let properties = Table::read_properties(&file, file.len().ok()?, &Io::blocking()).ok()?;
    Some(properties.db_session_id.to_string())
}
