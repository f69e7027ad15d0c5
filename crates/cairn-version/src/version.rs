//! The tree at one moment: an immutable value that readers share.
//!
//! A version is made from another by an edit. Levels that the edit does not touch are shared
//! between the two, so making one costs what the touched levels hold.

use std::collections::BTreeMap;

use cairn_format::key::InternalKey;
use cairn_platform::sync::Arc;
use cairn_types::{Error, FileNumber, KeyOrder, Result};

use crate::blob_file_meta::BlobFileMeta;
use crate::builder::Builder;
use crate::edit::TreeEdit;
use crate::file_meta::FileMeta;
use crate::level::LevelFiles;

/// The files of one column family at one moment.
#[derive(Clone, Debug)]
pub struct Version {
    pub(crate) order: KeyOrder,
    pub(crate) levels: Vec<Arc<LevelFiles>>,
    pub(crate) blob_files: Arc<BTreeMap<FileNumber, Arc<BlobFileMeta>>>,
    pub(crate) cursors: Vec<Option<InternalKey>>,
}

impl Version {
    /// A tree without files.
    #[must_use]
    pub fn empty(order: KeyOrder, num_levels: usize) -> Version {
        let nothing = Arc::new(LevelFiles::default());
        Version {
            order,
            levels: vec![nothing; num_levels.max(1)],
            blob_files: Arc::default(),
            cursors: vec![None; num_levels.max(1)],
        }
    }

    /// A builder of the next version, on top of this one.
    #[must_use]
    pub fn builder(&self) -> Builder {
        Builder::from(self)
    }

    /// This version, changed by `edit`.
    ///
    /// # Errors
    ///
    /// `Corruption` if the edit adds a file that is there, deletes one that is not, or leaves
    /// files that overlap in a level from 1 on.
    pub fn with_edit(&self, edit: &TreeEdit) -> Result<Version> {
        let mut builder = self.builder();
        builder.apply(edit)?;
        builder.build()
    }

    /// The same tree with another number of levels.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if files lie in levels that would be gone.
    pub fn with_num_levels(&self, num_levels: usize) -> Result<Version> {
        if self.num_non_empty_levels() > num_levels {
            return Err(Error::invalid_argument(format!(
                "num_levels: expected at least {}, because that many levels hold files, found \
                 {num_levels}",
                self.num_non_empty_levels()
            )));
        }
        let mut version = self.clone();
        version.levels.resize_with(num_levels, Arc::default);
        version.cursors.resize(num_levels, None);
        Ok(version)
    }

    /// The order of the keys.
    #[inline]
    #[must_use]
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// How many levels there are, level 0 included.
    #[inline]
    #[must_use]
    pub fn num_levels(&self) -> usize {
        self.levels.len()
    }

    /// How many levels there are up to the last one that holds files.
    #[must_use]
    pub fn num_non_empty_levels(&self) -> usize {
        let last = self.levels.iter().rposition(|level| !level.is_empty());
        last.map_or(0, |last| last + 1)
    }

    /// The levels, from 0 on.
    #[inline]
    #[must_use]
    pub fn levels(&self) -> &[Arc<LevelFiles>] {
        &self.levels
    }

    /// The files of `level`: from newest to oldest in level 0, by key below.
    ///
    /// # Panics
    ///
    /// If there is no such level.
    #[inline]
    #[must_use]
    pub fn level(&self, level: usize) -> &LevelFiles {
        &self.levels[level]
    }

    /// Every file with its level.
    pub fn files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(level, files)| files.files().iter().map(move |file| (level, file)))
    }

    /// The first file of `level` (1 or more) whose upper bound is at or after `internal`, by
    /// position; the number of files if there is none.
    #[inline]
    #[must_use]
    pub fn find_file(&self, level: usize, internal: &[u8]) -> usize {
        self.levels[level].find(&self.order, internal)
    }

    /// The files of `level` that touch the bounds `begin` and `end` (internal keys, inclusive
    /// unless they are sentinels; `None` is unbounded).
    #[must_use]
    pub fn overlapping(
        &self,
        level: usize,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Vec<Arc<FileMeta>> {
        let files = &self.levels[level];
        match level {
            0 => files.overlapping_level_zero(&self.order, begin, end, false),
            _ => files.files()[files.overlapping(&self.order, begin, end)].to_vec(),
        }
    }

    /// True if any file of `level` touches the bounds `begin` and `end`.
    #[must_use]
    pub fn overlaps(&self, level: usize, begin: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        match level {
            0 => !self.overlapping(0, begin, end).is_empty(),
            _ => !self.levels[level]
                .overlapping(&self.order, begin, end)
                .is_empty(),
        }
    }

    /// The blob files by number.
    #[must_use]
    pub fn blob_files(&self) -> &BTreeMap<FileNumber, Arc<BlobFileMeta>> {
        &self.blob_files
    }

    /// Where the next round-robin compaction of `level` begins.
    #[must_use]
    pub fn cursor(&self, level: usize) -> Option<&InternalKey> {
        self.cursors.get(level).and_then(Option::as_ref)
    }

    /// The largest epoch of a file; the next flush takes a larger one.
    #[must_use]
    pub fn max_epoch(&self) -> u64 {
        self.files().map(|(_, file)| file.epoch).max().unwrap_or(0)
    }

    /// The edit that makes this version out of an empty one; what a fresh MANIFEST holds.
    #[must_use]
    pub fn as_edit(&self) -> TreeEdit {
        let blobs = self.blob_files.values();
        let cursors = self.cursors.iter().enumerate();
        TreeEdit {
            deleted: Vec::new(),
            added: self
                .files()
                .map(|(level, file)| (level, file.clone()))
                .collect(),
            added_blobs: blobs.cloned().collect(),
            blob_garbage: Vec::new(),
            cursors: cursors
                .filter_map(|(level, key)| Some((level, key.clone()?)))
                .collect(),
        }
    }

    /// The same tree with an epoch for every file, if one lacks it: databases older than epochs
    /// tell the age of level-0 files by sequence numbers (formats.md 5.4). Files of one level
    /// from 1 on share an epoch; deeper levels are older. `reserve_first` keeps epoch 1 free for
    /// files ingested behind.
    #[must_use]
    pub fn with_epochs(&self, reserve_first: bool) -> Version {
        if self.files().all(|(_, file)| file.epoch != 0) {
            return self.clone();
        }
        let mut next = if reserve_first { 2 } else { 1 };
        let mut version = self.clone();
        let assign = |file: &Arc<FileMeta>, epoch: u64| {
            let mut file = FileMeta::clone(file);
            file.epoch = epoch;
            Arc::new(file)
        };
        for level in (1..self.num_levels())
            .rev()
            .filter(|&at| !self.levels[at].is_empty())
        {
            version.levels[level] = Arc::new(self.levels[level].mapped(|file| assign(file, next)));
            next += 1;
        }
        let mut oldest_first = self.levels[0].files().to_vec();
        oldest_first.sort_by(|a, b| crate::level::newer_first_by_seq(b, a));
        let with_epochs = oldest_first.iter().map(|file| {
            next += 1;
            assign(file, next - 1)
        });
        version.levels[0] = Arc::new(LevelFiles::level_zero(with_epochs.collect()));
        version
    }
}
