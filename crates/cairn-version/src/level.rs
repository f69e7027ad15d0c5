//! The files of one level, and searches in them.
//!
//! In every level but level 0, files are sorted by key and do not overlap, so that at most one file
//! contains a key. The search uses a contiguous array of the first 8 bytes of the upper bounds and
//! compares whole keys only among equal prefixes. Level 0 is ordered from newest to oldest, and its
//! files may overlap.

use std::cmp::Ordering;
use std::ops::Range;

use cairn_format::key;
use cairn_platform::sync::Ordering::Relaxed;
use cairn_platform::sync::{Arc, AtomicUsize};
use cairn_types::{Error, FileNumber, KeyOrder, Result};

use crate::bounds;
use crate::file_meta::FileMeta;

/// The immutable files of one level.
#[derive(Clone, Debug, Default)]
pub struct LevelFiles {
    files: Vec<Arc<FileMeta>>,
    /// The first 8 bytes of the user keys of the upper bounds. Empty for other orders than the
    /// bytewise one, and in level 0.
    prefixes: Vec<u64>,
    bytes: u64,
    tombstone_free: TombstoneFree,
}

/// Number of leading files that are known to have no range tombstones.
#[derive(Debug, Default)]
struct TombstoneFree(AtomicUsize);

impl Clone for TombstoneFree {
    fn clone(&self) -> TombstoneFree {
        // Relaxed, here and below: the length only grows, and a stale value costs a repeated check.
        TombstoneFree(AtomicUsize::new(self.0.load(Relaxed)))
    }
}

/// Returns the first 8 bytes of `user_key` as a big-endian number, which has the same order.
fn prefix(user_key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = user_key.len().min(8);
    bytes[..len].copy_from_slice(&user_key[..len]);
    u64::from_be_bytes(bytes)
}

/// Orders level-0 files from newest to oldest.
pub(crate) fn newer_first(a: &FileMeta, b: &FileMeta) -> Ordering {
    b.epoch.cmp(&a.epoch).then_with(|| newer_first_by_seq(a, b))
}

/// Orders level-0 files from newest to oldest by sequence number, ignoring epochs.
pub(crate) fn newer_first_by_seq(a: &FileMeta, b: &FileMeta) -> Ordering {
    b.seqs
        .largest
        .cmp(&a.seqs.largest)
        .then_with(|| b.seqs.smallest.cmp(&a.seqs.smallest))
        .then_with(|| b.number.cmp(&a.number))
}

/// Sorts level-0 files from newest to oldest: by epoch, or by sequence number if a file has no epoch.
pub(crate) fn sort_newest_first(files: &mut [Arc<FileMeta>]) {
    let by_epoch = files.iter().all(|file| file.epoch != 0);
    files.sort_by(|a, b| match by_epoch {
        true => newer_first(a, b),
        false => newer_first_by_seq(a, b),
    });
    debug_assert!(
        !by_epoch || files.windows(2).all(|pair| pair[0].epoch >= pair[1].epoch),
        "newer files come first"
    );
}

/// Checks that no bounds of `files` in `level` are inverted.
pub(crate) fn check_bounds(order: &KeyOrder, level: usize, files: &[Arc<FileMeta>]) -> Result<()> {
    for file in files {
        if key::compare(order, file.smallest.as_bytes(), file.largest.as_bytes()).is_gt() {
            return Err(Error::corruption(format!(
                "smallest key of table {} in level {level} is larger than its largest key",
                file.number
            )));
        }
    }
    Ok(())
}

impl LevelFiles {
    /// Creates level 0 from files in any order.
    #[must_use]
    pub(crate) fn level_zero(mut files: Vec<Arc<FileMeta>>) -> LevelFiles {
        sort_newest_first(&mut files);
        let bytes = files
            .iter()
            .fold(0, |sum: u64, file| sum.saturating_add(file.size));
        LevelFiles {
            files,
            prefixes: Vec::new(),
            bytes,
            tombstone_free: TombstoneFree::default(),
        }
    }

    /// Creates a sorted level from files in any order.
    ///
    /// # Errors
    ///
    /// `Corruption` if two files overlap, or the bounds of a file are inverted.
    pub(crate) fn sorted(
        order: &KeyOrder,
        level: usize,
        mut files: Vec<Arc<FileMeta>>,
    ) -> Result<LevelFiles> {
        files.sort_by(|a, b| {
            key::compare(order, a.smallest.as_bytes(), b.smallest.as_bytes())
                .then_with(|| a.number.cmp(&b.number))
        });
        check_bounds(order, level, &files)?;
        for pair in files.windows(2) {
            let (left, right) = (&pair[0], &pair[1]);
            if !key::compare(order, left.largest.as_bytes(), right.smallest.as_bytes()).is_lt() {
                return Err(Error::corruption(format!(
                    "tables {} and {} overlap in level {level}: {left:?} and {right:?}",
                    left.number, right.number
                )));
            }
        }
        let prefixes = match order.bytewise_before_timestamp() {
            Some(size) => files
                .iter()
                .map(|file| prefix(key::strip_timestamp(file.largest.user_key(), size)))
                .collect(),
            None => Vec::new(),
        };
        debug_assert!(prefixes.is_sorted(), "prefixes sort like upper bounds");
        let bytes = files
            .iter()
            .fold(0, |sum: u64, file| sum.saturating_add(file.size));
        Ok(LevelFiles {
            files,
            prefixes,
            bytes,
            tombstone_free: TombstoneFree::default(),
        })
    }

    /// Returns the files for which `keep`, called in order, returns true.
    #[must_use]
    pub fn filtered(&self, mut keep: impl FnMut(&Arc<FileMeta>) -> bool) -> LevelFiles {
        let mut kept = LevelFiles::default();
        for (at, file) in self.files.iter().enumerate().filter(|(_, file)| keep(file)) {
            kept.files.push(file.clone());
            kept.prefixes.extend(self.prefixes.get(at));
            kept.bytes = kept.bytes.saturating_add(file.size);
        }
        assert!(kept.prefixes.is_empty() || kept.prefixes.len() == kept.files.len());
        debug_assert!(
            kept.bytes <= self.bytes,
            "the kept files are a subset of the level"
        );
        kept
    }

    /// Returns the level with each file replaced by the result of `change`, which must keep bounds and
    /// order.
    pub(crate) fn mapped(&self, change: impl FnMut(&Arc<FileMeta>) -> Arc<FileMeta>) -> LevelFiles {
        let files: Vec<Arc<FileMeta>> = self.files.iter().map(change).collect();
        debug_assert!(
            self.files.iter().zip(&files).all(|(before, after)| {
                before.number == after.number
                    && before.smallest == after.smallest
                    && before.largest == after.largest
            }),
            "the files keep their bounds"
        );
        LevelFiles {
            files,
            prefixes: self.prefixes.clone(),
            bytes: self.bytes,
            tombstone_free: TombstoneFree::default(),
        }
    }

    /// True if all files are known to have no range tombstones. Nothing is known about a file whose
    /// table has never been opened. Each file is checked once.
    #[inline]
    #[must_use]
    pub fn has_no_tombstones(&self) -> bool {
        let before = self.tombstone_free.0.load(Relaxed);
        debug_assert!(before <= self.files.len());
        let has_none = |file: &Arc<FileMeta>| {
            let table = file.table.get();
            table.is_some_and(|table| table.range_tombstones().is_none())
        };
        let more = self.files[before..]
            .iter()
            .take_while(|file| has_none(file));
        let known = before + more.count();
        // Iterators on all cores call this, so avoid the shared write unless the value changes.
        if known > before {
            self.tombstone_free.0.store(known, Relaxed);
        }
        known == self.files.len()
    }

    /// Returns the files: newest to oldest in level 0, in key order in other levels.
    #[inline]
    #[must_use]
    pub fn files(&self) -> &[Arc<FileMeta>] {
        &self.files
    }

    /// Returns the number of files.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// True if the level has no files.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns the total file size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the index of file `number`.
    #[must_use]
    pub fn position(&self, number: FileNumber) -> Option<usize> {
        self.files.iter().position(|file| file.number == number)
    }

    /// Returns the index of the first file whose upper bound is at or after `internal`, the only
    /// one of a sorted level that can contain it, or [`LevelFiles::len`]. Not for level 0.
    #[inline]
    #[must_use]
    pub fn find(&self, order: &KeyOrder, internal: &[u8]) -> usize {
        let candidates = match self.prefixes.is_empty() {
            true => 0..self.files.len(),
            false => {
                let timestamp = order.bytewise_before_timestamp().unwrap_or(0);
                let target = prefix(key::strip_timestamp(key::user_key(internal), timestamp));
                let from = self.prefixes.partition_point(|&bound| bound < target);
                let until = from + self.prefixes[from..].partition_point(|&bound| bound <= target);
                from..until
            }
        };
        let ends_before =
            |file: &Arc<FileMeta>| key::compare(order, file.largest.as_bytes(), internal).is_lt();
        let found =
            candidates.start + self.files[candidates].partition_point(|file| ends_before(file));
        debug_assert!(found == 0 || ends_before(&self.files[found - 1]));
        debug_assert!(self.files.get(found).is_none_or(|file| !ends_before(file)));
        found
    }

    /// Returns the files of a sorted level that overlap the bounds `begin` to `end`, both inclusive
    /// unless they are sentinels; `None` is unbounded. Not for level 0.
    #[must_use]
    pub fn overlapping(
        &self,
        order: &KeyOrder,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Range<usize> {
        let from = begin.map_or(0, |begin| {
            self.files.partition_point(|file| {
                bounds::compare(order, file.largest.as_bytes(), begin).is_lt()
            })
        });
        let until = end.map_or(self.files.len(), |end| {
            self.files.partition_point(|file| {
                bounds::compare(order, file.smallest.as_bytes(), end).is_le()
            })
        });
        from..until.max(from)
    }

    /// Returns the files of level 0 that overlap the bounds `begin` to `end`, newest first. With
    /// `expand`, the range is extended by each file found, until no other file overlaps it.
    #[must_use]
    pub fn overlapping_level_zero(
        &self,
        order: &KeyOrder,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
        expand: bool,
    ) -> Vec<Arc<FileMeta>> {
        let (mut begin, mut end) = (begin, end);
        let mut taken = vec![false; self.files.len()];
        loop {
            let mut grew = false;
            for (file, taken) in self.files.iter().zip(&mut taken) {
                let (low, high) = (file.smallest.as_bytes(), file.largest.as_bytes());
                if *taken
                    || begin.is_some_and(|begin| bounds::compare(order, high, begin).is_lt())
                    || end.is_some_and(|end| bounds::compare(order, low, end).is_gt())
                {
                    continue;
                }
                *taken = true;
                if expand {
                    grew = true;
                    begin = begin.map(|begin| bounds::min(order, begin, low));
                    end = end.map(|end| bounds::max(order, end, high));
                }
            }
            if !grew {
                break;
            }
        }
        let chosen = self.files.iter().zip(taken);
        chosen
            .filter(|(_, taken)| *taken)
            .map(|(file, _)| file.clone())
            .collect()
    }
}
