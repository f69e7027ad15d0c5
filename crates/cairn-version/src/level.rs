//! The files of one level, and finding among them.
//!
//! From level 1 on, files are sorted by key and do not overlap, so a key is in at most one of
//! them. The search runs over an array of the first 8 bytes of the upper bounds, which lie
//! together in memory; a file is looked at only where those are equal. Level 0 is ordered from
//! newest to oldest, and its files may overlap.

use std::cmp::Ordering;
use std::ops::Range;

use cairn_format::key;
use cairn_platform::sync::Ordering::Relaxed;
use cairn_platform::sync::{Arc, AtomicUsize};
use cairn_types::{Error, FileNumber, KeyOrder, Result};

use crate::bounds;
use crate::file_meta::FileMeta;

/// The files of one level, immutable.
#[derive(Clone, Debug, Default)]
pub struct LevelFiles {
    files: Vec<Arc<FileMeta>>,
    /// The first 8 bytes of the user keys of the upper bounds; empty where keys do not compare
    /// as their bytes do, and in level 0.
    prefixes: Vec<u64>,
    bytes: u64,
    tombstone_free: TombstoneFree,
}

/// How many of the first files are known to have no range tombstones.
#[derive(Debug, Default)]
struct TombstoneFree(AtomicUsize);

impl Clone for TombstoneFree {
    fn clone(&self) -> TombstoneFree {
        // Relaxed, here and below: what the number says stays true, and an older one is no harm.
        TombstoneFree(AtomicUsize::new(self.0.load(Relaxed)))
    }
}

/// The first 8 bytes of `user_key` as a number that orders as they do.
fn prefix(user_key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let len = user_key.len().min(8);
    bytes[..len].copy_from_slice(&user_key[..len]);
    u64::from_be_bytes(bytes)
}

/// Whether level-0 file `a` comes before `b`: the newer first.
pub(crate) fn newer_first(a: &FileMeta, b: &FileMeta) -> Ordering {
    b.epoch.cmp(&a.epoch).then_with(|| newer_first_by_seq(a, b))
}

/// The order of level-0 files without regard to epochs: the newer first.
pub(crate) fn newer_first_by_seq(a: &FileMeta, b: &FileMeta) -> Ordering {
    b.largest_seq
        .cmp(&a.largest_seq)
        .then_with(|| b.smallest_seq.cmp(&a.smallest_seq))
        .then_with(|| b.number.cmp(&a.number))
}

impl LevelFiles {
    /// The files of level 0, in any order.
    #[must_use]
    pub(crate) fn level_zero(mut files: Vec<Arc<FileMeta>>) -> LevelFiles {
        let by_epoch = files.iter().all(|file| file.epoch != 0);
        files.sort_by(|a, b| match by_epoch {
            true => newer_first(a, b),
            false => newer_first_by_seq(a, b),
        });
        let bytes = files.iter().map(|file| file.size).sum();
        LevelFiles {
            files,
            prefixes: Vec::new(),
            bytes,
            tombstone_free: TombstoneFree::default(),
        }
    }

    /// The files of a level from 1 on, in any order.
    ///
    /// # Errors
    ///
    /// `Corruption` if two of them overlap, or the bounds of one are the wrong way round.
    pub(crate) fn sorted(
        order: &KeyOrder,
        level: usize,
        mut files: Vec<Arc<FileMeta>>,
    ) -> Result<LevelFiles> {
        files.sort_by(|a, b| {
            key::compare(order, a.smallest.as_bytes(), b.smallest.as_bytes())
                .then_with(|| a.number.cmp(&b.number))
        });
        for file in &files {
            if key::compare(order, file.smallest.as_bytes(), file.largest.as_bytes()).is_gt() {
                return Err(Error::corruption(format!(
                    "smallest key of table {} in level {level} is larger than its largest key",
                    file.number
                )));
            }
        }
        for pair in files.windows(2) {
            let (left, right) = (&pair[0], &pair[1]);
            if !key::compare(order, left.largest.as_bytes(), right.smallest.as_bytes()).is_lt() {
                return Err(Error::corruption(format!(
                    "tables {} and {} overlap in level {level}: {left:?} and {right:?}",
                    left.number, right.number
                )));
            }
        }
        let prefixes = match order.is_bytewise() {
            true => files
                .iter()
                .map(|file| prefix(file.largest.user_key()))
                .collect(),
            false => Vec::new(),
        };
        let bytes = files.iter().map(|file| file.size).sum();
        Ok(LevelFiles {
            files,
            prefixes,
            bytes,
            tombstone_free: TombstoneFree::default(),
        })
    }

    /// The files that `keep` returns true for, asked in their order.
    #[must_use]
    pub fn filtered(&self, mut keep: impl FnMut(&Arc<FileMeta>) -> bool) -> LevelFiles {
        let mut kept = LevelFiles::default();
        for (at, file) in self.files.iter().enumerate().filter(|(_, file)| keep(file)) {
            kept.files.push(file.clone());
            kept.prefixes.extend(self.prefixes.get(at));
            kept.bytes += file.size;
        }
        kept
    }

    /// The same files, each replaced by what `change` makes of it; bounds and order must stay.
    pub(crate) fn mapped(&self, change: impl FnMut(&Arc<FileMeta>) -> Arc<FileMeta>) -> LevelFiles {
        LevelFiles {
            files: self.files.iter().map(change).collect(),
            prefixes: self.prefixes.clone(),
            bytes: self.bytes,
            tombstone_free: TombstoneFree::default(),
        }
    }

    /// True if it is known that no file has range tombstones. A file whose table was never open is
    /// not known; each is looked at once.
    #[inline]
    #[must_use]
    pub fn has_no_tombstones(&self) -> bool {
        let before = self.tombstone_free.0.load(Relaxed);
        let has_none = |file: &Arc<FileMeta>| {
            let table = file.table.get();
            table.is_some_and(|table| table.range_tombstones().is_none())
        };
        let more = self.files[before..]
            .iter()
            .take_while(|file| has_none(file));
        let known = before + more.count();
        // Iterators on all cores come here: nothing is written where nothing is new.
        if known > before {
            self.tombstone_free.0.store(known, Relaxed);
        }
        known == self.files.len()
    }

    /// The files: from newest to oldest in level 0, by key from level 1 on.
    #[inline]
    #[must_use]
    pub fn files(&self) -> &[Arc<FileMeta>] {
        &self.files
    }

    /// How many files.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// True if there is none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The sum of the files' sizes in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where the file with this number stands.
    #[must_use]
    pub fn position(&self, number: FileNumber) -> Option<usize> {
        self.files.iter().position(|file| file.number == number)
    }

    /// The first file whose upper bound is at or after `internal`: the only one of a sorted level
    /// that can hold it, or [`LevelFiles::len`]. Not for level 0.
    #[inline]
    #[must_use]
    pub fn find(&self, order: &KeyOrder, internal: &[u8]) -> usize {
        let candidates = match self.prefixes.is_empty() {
            true => 0..self.files.len(),
            false => {
                let target = prefix(key::user_key(internal));
                let from = self.prefixes.partition_point(|&bound| bound < target);
                let until = from + self.prefixes[from..].partition_point(|&bound| bound <= target);
                from..until
            }
        };
        candidates.start
            + self.files[candidates].partition_point(|file| {
                key::compare(order, file.largest.as_bytes(), internal).is_lt()
            })
    }

    /// The files of a sorted level that touch the bounds from `begin` to `end`, both inclusive
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

    /// The files of level 0 that touch the bounds from `begin` to `end`, from newest to oldest.
    /// With `expand`, the range grows with each file found, until no file touches it that is not
    /// among those returned.
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
