//! Accumulates edits on top of a version and builds the resulting version.
//!
//! Only the levels that an edit touches are unpacked, and a replay of ten thousand edits builds a
//! single version.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cairn_format::key::InternalKey;
use cairn_platform::sync::Arc;
use cairn_types::{Error, FileNumber, KeyOrder, Result};

use crate::blob_file_meta::{BlobFileMeta, BlobGarbage};
use crate::edit::TreeEdit;
use crate::file_meta::FileMeta;
use crate::level::LevelFiles;
use crate::version::Version;

/// Exclusive upper bound of level numbers in a MANIFEST; larger ones are corruption.
pub const MAX_LEVELS: usize = cairn_options::sanitize::MAX_LEVELS;

/// Builder of a version.
pub struct Builder {
    order: KeyOrder,
    levels: Vec<Level>,
    blob_files: Arc<BTreeMap<FileNumber, Arc<BlobFileMeta>>>,
    cursors: Vec<Option<InternalKey>>,
    history_low: Arc<[u8]>,
    /// True if a blob file may have lost its last referring table.
    blobs_touched: bool,
}

/// A level under construction.
enum Level {
    /// Unchanged.
    Whole(Arc<LevelFiles>),
    /// Unpacked, because an edit touched it.
    Open(HashMap<FileNumber, Arc<FileMeta>>),
}

impl From<&Version> for Builder {
    fn from(version: &Version) -> Builder {
        Builder {
            order: version.order.clone(),
            levels: version.levels.iter().cloned().map(Level::Whole).collect(),
            blob_files: version.blob_files.clone(),
            cursors: version.cursors.clone(),
            history_low: version.history_low.clone(),
            blobs_touched: false,
        }
    }
}

impl Builder {
    /// Applies one edit: deletions first, so that a file may move between levels.
    ///
    /// # Errors
    ///
    /// `Corruption` if it deletes a file that does not exist, or adds one that does.
    pub fn apply(&mut self, edit: &TreeEdit) -> Result<()> {
        for &(level, number) in &edit.deleted {
            if self.open(level)?.remove(&number).is_none() {
                return Err(Error::corruption(format!(
                    "version edit deletes table {number} from level {level}, which does not contain it"
                )));
            }
        }
        for (level, file) in &edit.added {
            if self
                .open(*level)?
                .insert(file.number, file.clone())
                .is_some()
            {
                return Err(Error::corruption(format!(
                    "version edit adds table {} to level {level}, which already contains it",
                    file.number
                )));
            }
        }
        for blob in &edit.added_blobs {
            self.add_blob(blob)?;
        }
        for garbage in &edit.blob_garbage {
            self.add_garbage(garbage)?;
        }
        // Keys that differ only in their timestamps are ordered newest first. A timestamp alone is such a key.
        if let Some(low) = &edit.history_low
            && (self.history_low.is_empty() || self.order.compare(low, &self.history_low).is_lt())
        {
            self.history_low = Arc::from(low.as_slice());
        }
        for (level, key) in &edit.cursors {
            self.check_level(*level)?;
            self.cursors[*level] = Some(key.clone());
        }
        self.blobs_touched |= !edit.deleted.is_empty() || !edit.blob_garbage.is_empty();
        Ok(())
    }

    /// Replaces the key order.
    #[must_use]
    pub fn with_order(mut self, order: KeyOrder) -> Builder {
        self.order = order;
        self
    }

    /// Replaces every file with the result of `change`.
    pub(crate) fn map_files(&mut self, mut change: impl FnMut(&Arc<FileMeta>) -> Arc<FileMeta>) {
        for level in 0..self.levels.len() {
            let files = self.open(level).expect("the level exists");
            for file in files.values_mut() {
                *file = change(file);
            }
        }
    }

    /// Builds the resulting version.
    ///
    /// # Errors
    ///
    /// `Corruption` if files overlap in a level other than level 0.
    pub fn build(self) -> Result<Version> {
        let order = self.order;
        let mut levels = Vec::with_capacity(self.levels.len());
        for (number, level) in self.levels.into_iter().enumerate() {
            levels.push(match (level, number) {
                (Level::Whole(files), _) => files,
                (Level::Open(files), 0) => {
                    Arc::new(LevelFiles::level_zero(files.into_values().collect()))
                }
                (Level::Open(files), _) => {
                    let files = files.into_values().collect();
                    Arc::new(LevelFiles::sorted(&order, number, files)?)
                }
            });
        }
        let mut version = Version {
            order,
            levels,
            blob_files: self.blob_files,
            cursors: self.cursors,
            history_low: self.history_low,
        };
        assert!(!version.levels.is_empty(), "a tree has level 0");
        assert_eq!(
            version.levels.len(),
            version.cursors.len(),
            "every level has a cursor"
        );
        if self.blobs_touched {
            drop_unreferenced_blobs(&mut version);
        }
        Ok(version)
    }

    /// Extends the levels to include `level`.
    fn check_level(&mut self, level: usize) -> Result<()> {
        if level >= MAX_LEVELS {
            return Err(Error::corruption(format!(
                "level of a version edit: expected less than {MAX_LEVELS}, found {level}"
            )));
        }
        while self.levels.len() <= level {
            self.levels.push(Level::Whole(Arc::default()));
            self.cursors.push(None);
        }
        assert_eq!(
            self.levels.len(),
            self.cursors.len(),
            "every level has a cursor"
        );
        Ok(())
    }

    /// Unpacks `level` and returns its files by number.
    fn open(&mut self, level: usize) -> Result<&mut HashMap<FileNumber, Arc<FileMeta>>> {
        self.check_level(level)?;
        let slot = &mut self.levels[level];
        if let Level::Whole(files) = slot {
            let files = files.files().iter();
            *slot = Level::Open(files.map(|file| (file.number, file.clone())).collect());
        }
        match slot {
            Level::Open(files) => Ok(files),
            Level::Whole(_) => unreachable!("the level was just unpacked"),
        }
    }

    fn add_blob(&mut self, blob: &Arc<BlobFileMeta>) -> Result<()> {
        let files = Arc::make_mut(&mut self.blob_files);
        match files.insert(blob.number, blob.clone()) {
            None => Ok(()),
            Some(_) => Err(Error::corruption(format!(
                "version edit adds blob file {} twice",
                blob.number
            ))),
        }
    }

    fn add_garbage(&mut self, garbage: &BlobGarbage) -> Result<()> {
        let files = Arc::make_mut(&mut self.blob_files);
        let Some(slot) = files.get_mut(&garbage.number) else {
            return Err(Error::corruption(format!(
                "version edit adds garbage to blob file {}, which does not exist",
                garbage.number
            )));
        };
        let mut blob = BlobFileMeta::clone(slot);
        debug_assert_eq!(
            blob.number, garbage.number,
            "blob files are stored by number"
        );
        let sums = (
            blob.garbage_count.checked_add(garbage.count),
            blob.garbage_bytes.checked_add(garbage.bytes),
        );
        match sums {
            (Some(count), Some(bytes))
                if count <= blob.total_count && bytes <= blob.total_bytes =>
            {
                (blob.garbage_count, blob.garbage_bytes) = (count, bytes);
                *slot = Arc::new(blob);
                Ok(())
            }
            _ => Err(Error::corruption(format!(
                "garbage of blob file {}: expected at most {} blobs of {} bytes, found {} of {} \
                 more than the {} of {} known",
                blob.number,
                blob.total_count,
                blob.total_bytes,
                garbage.count,
                garbage.bytes,
                blob.garbage_count,
                blob.garbage_bytes
            ))),
        }
    }
}

/// Drops obsolete blob files: those older than the oldest one that any table refers to, and those
/// that are all garbage and are not the oldest blob file of any table.
fn drop_unreferenced_blobs(version: &mut Version) {
    if version.blob_files.is_empty() {
        return;
    }
    let linked: BTreeSet<FileNumber> = version
        .files()
        .filter_map(|(_, file)| file.oldest_blob)
        .collect();
    let Some(&oldest) = linked.first() else {
        version.blob_files = Arc::default();
        return;
    };
    let kept = |number: &FileNumber, blob: &Arc<BlobFileMeta>| {
        *number >= oldest && (!blob.is_all_garbage() || linked.contains(number))
    };
    if !version
        .blob_files
        .iter()
        .all(|(number, blob)| kept(number, blob))
    {
        Arc::make_mut(&mut version.blob_files).retain(|number, blob| kept(number, blob));
    }
}
