//! A consistent list of the files of all families.

use std::path::PathBuf;
use std::sync::Arc;

use cairn_types::{Error, FileNumber, Result};
use cairn_version::{BlobFileMeta, FileMeta};

use super::install::Editor;

/// A consistent list of the files of all families, with their directories.
#[derive(Clone)]
pub(crate) struct LiveFiles {
    pub(crate) tables: Vec<(PathBuf, Arc<FileMeta>)>,
    pub(crate) blobs: Vec<(PathBuf, Arc<BlobFileMeta>)>,
    /// The number of the MANIFEST that describes them, and the length of its relevant part.
    pub(crate) manifest: (FileNumber, u64),
}

impl Editor<'_> {
    /// Returns the files of the live families. They are kept as long as they are pinned.
    ///
    /// # Errors
    ///
    /// `ShutdownInProgress`.
    pub(crate) fn live_files(&self) -> Result<LiveFiles> {
        let manifest = self
            .manifest
            .as_ref()
            .ok_or_else(|| Error::shutdown("the database is closed"))?;
        let mut live = LiveFiles {
            tables: Vec::new(),
            blobs: Vec::new(),
            manifest: (manifest.number(), manifest.size()),
        };
        for family in self.catalog.families().iter() {
            let version = family.view().version.clone();
            let tables = family.tables();
            let dir = |file: &FileMeta| {
                let path = tables.path(file);
                path.parent()
                    .map_or(self.catalog.context.dir.clone(), PathBuf::from)
            };
            for (_, file) in version.files() {
                live.tables.push((dir(file), file.clone()));
            }
            for blob in version.blob_files().values() {
                live.blobs.push((tables.paths[0].clone(), blob.clone()));
            }
        }
        Ok(live)
    }
}
