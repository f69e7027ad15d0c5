//! The tree of a column family at one point in time: an immutable value shared by readers.
//!
//! An edit produces a new version, which shares the levels that the edit does not touch; the cost is
//! linear in the touched levels.

use std::collections::BTreeMap;

use cairn_format::key::InternalKey;
use cairn_memory::{ChargePolicy, MemoryUse};
use cairn_platform::sync::Arc;
use cairn_types::{Error, FileNumber, KeyOrder, Result};

use crate::blob_file_meta::BlobFileMeta;
use crate::builder::Builder;
use crate::edit::TreeEdit;
use crate::file_meta::FileMeta;
use crate::level::LevelFiles;

/// The files of one column family at one point in time.
#[derive(Clone, Debug)]
pub struct Version {
    pub(crate) order: KeyOrder,
    pub(crate) levels: Vec<Arc<LevelFiles>>,
    pub(crate) blob_files: Arc<BTreeMap<FileNumber, Arc<BlobFileMeta>>>,
    pub(crate) cursors: Vec<Option<InternalKey>>,
    /// The timestamp below which history may have been dropped; empty if never set.
    pub(crate) history_low: Arc<[u8]>,
}

impl Version {
    /// Creates a tree without files.
    #[must_use]
    pub fn empty(order: KeyOrder, num_levels: usize) -> Version {
        let nothing = Arc::new(LevelFiles::default());
        Version {
            order,
            levels: vec![nothing; num_levels.max(1)],
            blob_files: Arc::default(),
            cursors: vec![None; num_levels.max(1)],
            history_low: Arc::from([]),
        }
    }

    /// The timestamp below which history may have been dropped (`full_history_ts_low`); empty if never set.
    #[inline]
    #[must_use]
    pub fn history_low(&self) -> &[u8] {
        &self.history_low
    }

    /// Returns the version with this timestamp below which history may have been dropped.
    #[must_use]
    pub fn with_history_low(mut self, low: &[u8]) -> Version {
        self.history_low = Arc::from(low);
        self
    }

    /// Charges the metadata of the files that are in this version and not in `before`.
    pub fn charge_files(&self, before: Option<&Version>, policy: &ChargePolicy) {
        for (number, level) in self.levels.iter().enumerate() {
            let old = before.and_then(|before| before.levels.get(number));
            if old.is_some_and(|old| Arc::ptr_eq(old, level)) {
                continue;
            }
            for file in level.files() {
                if file.charge.get().is_none()
                    && let Some(charge) =
                        policy.charge(MemoryUse::FileMetadata, file.memory_usage())
                {
                    // A charge that another thread made first counts; this one is dropped.
                    let _ = file.charge.set(Arc::new(charge));
                }
            }
        }
    }

    /// Returns a builder on top of this version.
    #[must_use]
    pub fn builder(&self) -> Builder {
        Builder::from(self)
    }

    /// Returns this version with `edit` applied.
    ///
    /// # Errors
    ///
    /// `Corruption` if the edit adds an existing file, deletes a missing one, or leaves overlapping
    /// files in a level other than level 0.
    pub fn with_edit(&self, edit: &TreeEdit) -> Result<Version> {
        let mut builder = self.builder();
        builder.apply(edit)?;
        let version = builder.build()?;
        debug_assert!(
            edit.added
                .iter()
                .all(|(level, file)| version.level(*level).position(file.number).is_some()),
            "added files are part of the version"
        );
        Ok(version)
    }

    /// Returns the same tree with another number of levels.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a removed level has files.
    pub fn with_num_levels(&self, num_levels: usize) -> Result<Version> {
        if self.num_non_empty_levels() > num_levels {
            return Err(Error::invalid_argument(format!(
                "num_levels: expected at least {}, because that many levels hold files, found \
                 {num_levels}",
                self.num_non_empty_levels()
            )));
        }
        assert!(num_levels > 0, "a tree has level 0");
        let mut version = self.clone();
        version.levels.resize_with(num_levels, Arc::default);
        version.cursors.resize(num_levels, None);
        Ok(version)
    }

    /// Returns the key order.
    #[inline]
    #[must_use]
    pub fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Returns the number of levels, including level 0.
    #[inline]
    #[must_use]
    pub fn num_levels(&self) -> usize {
        self.levels.len()
    }

    /// Returns the number of levels up to the last non-empty one.
    #[must_use]
    pub fn num_non_empty_levels(&self) -> usize {
        let last = self.levels.iter().rposition(|level| !level.is_empty());
        last.map_or(0, |last| last + 1)
    }

    /// Returns the levels, starting with level 0.
    #[inline]
    #[must_use]
    pub fn levels(&self) -> &[Arc<LevelFiles>] {
        &self.levels
    }

    /// Returns the files of `level`: newest to oldest in level 0, in key order in other levels.
    ///
    /// # Panics
    ///
    /// If the level does not exist.
    #[inline]
    #[must_use]
    pub fn level(&self, level: usize) -> &LevelFiles {
        &self.levels[level]
    }

    /// Returns every file with its level.
    pub fn files(&self) -> impl Iterator<Item = (usize, &Arc<FileMeta>)> {
        let levels = self.levels.iter().enumerate();
        levels.flat_map(|(level, files)| files.files().iter().map(move |file| (level, file)))
    }

    /// Returns the index of the first file of `level` (1 or more) whose upper bound is at or after
    /// `internal`; the number of files if there is none.
    #[inline]
    #[must_use]
    pub fn find_file(&self, level: usize, internal: &[u8]) -> usize {
        self.levels[level].find(&self.order, internal)
    }

    /// Returns the files of `level` that overlap the bounds `begin` to `end` (internal keys, inclusive
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

    /// True if a file of `level` overlaps the bounds `begin` to `end`.
    #[must_use]
    pub fn overlaps(&self, level: usize, begin: Option<&[u8]>, end: Option<&[u8]>) -> bool {
        match level {
            0 => !self.overlapping(0, begin, end).is_empty(),
            _ => !self.levels[level]
                .overlapping(&self.order, begin, end)
                .is_empty(),
        }
    }

    /// Returns the blob files by number.
    #[must_use]
    pub fn blob_files(&self) -> &BTreeMap<FileNumber, Arc<BlobFileMeta>> {
        &self.blob_files
    }

    /// Returns the start key of the next round-robin compaction of `level`.
    #[must_use]
    pub fn cursor(&self, level: usize) -> Option<&InternalKey> {
        self.cursors.get(level).and_then(Option::as_ref)
    }

    /// Returns the largest epoch number of a file; the next flush uses a larger one.
    #[must_use]
    pub fn max_epoch(&self) -> u64 {
        self.files().map(|(_, file)| file.epoch).max().unwrap_or(0)
    }

    /// Returns the edit that creates this version from an empty one.
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
            history_low: (!self.history_low.is_empty()).then(|| self.history_low.to_vec()),
        }
    }

    /// Returns the tree with an epoch number for every file. Databases without epochs order level-0
    /// files by sequence number (formats.md 5.4). Below level 0, the files of a level share an
    /// epoch, and lower levels get smaller ones. `reserve_first` keeps epoch 1 for `ingest_behind`.
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
        assert!(
            version.files().all(|(_, file)| file.epoch != 0),
            "every file has an epoch"
        );
        debug_assert!(
            version
                .level(0)
                .files()
                .iter()
                .rev()
                .map(|file| file.number)
                .eq(oldest_first.iter().map(|file| file.number)),
            "level 0 keeps its order"
        );
        version
    }
}
