//! Decides where one compaction output ends and the next begins.
//!
//! A file should reach its target size without overlapping much of the next level, because the
//! overlap is rewritten when the file is compacted further. A file therefore ends before the
//! overlap exceeds the limit, before it reaches its target size if that skips a whole grandparent
//! file, and preferably at a grandparent boundary.

use std::cmp::Ordering;

use cairn_platform::sync::Arc;
use cairn_types::KeyOrder;
use cairn_version::{FileMeta, bounds};

use crate::pick::Output;

/// Output boundaries of one subcompaction.
pub(crate) struct OutputSplitter {
    order: KeyOrder,
    below: Vec<Arc<FileMeta>>,
    target_bytes: u64,
    max_bytes: u64,
    max_compaction_bytes: u64,
    /// Index of the first grandparent that does not end before the last key.
    at: usize,
    /// True if the last key is inside that file, false if it is before it.
    inside: bool,
    /// True after the first key.
    begun: bool,
    /// Bytes of grandparents that the current output overlaps.
    overlap: u64,
    /// Grandparent boundaries that the current output has crossed.
    passed: u64,
}

impl OutputSplitter {
    /// Creates a splitter for `output` above the grandparents `below`. Outputs to level 0 are not
    /// split: files of level 0 must not be disjoint parts of one run.
    pub(crate) fn new(order: KeyOrder, output: &Output, below: &[Arc<FileMeta>]) -> OutputSplitter {
        let unlimited = output.level == 0;
        debug_assert!(
            output.target_bytes <= output.max_bytes,
            "a file may reach its target size"
        );
        debug_assert!(
            below.windows(2).all(|pair| bounds::compare(
                &order,
                pair[0].smallest.as_bytes(),
                pair[1].smallest.as_bytes()
            )
            .is_le()),
            "grandparents are in key order"
        );
        OutputSplitter {
            order,
            below: if unlimited {
                Vec::new()
            } else {
                below.to_vec()
            },
            target_bytes: output.target_bytes,
            max_bytes: if unlimited {
                u64::MAX
            } else {
                output.max_bytes
            },
            max_compaction_bytes: output.max_compaction_bytes,
            at: 0,
            inside: false,
            begun: false,
            overlap: 0,
            passed: 0,
        }
    }

    /// True if the current file, of `size` bytes, should end before `key`. Called for every key in
    /// ascending order; if the file is then ended, the caller calls [`OutputSplitter::cut`].
    #[inline]
    pub(crate) fn ends_before(&mut self, key: &[u8], size: u64) -> bool {
        if self.below.is_empty() {
            return size >= self.max_bytes;
        }
        let overlap = self.overlap;
        let in_gap = !self.inside;
        let borders = self.go_to(key);
        size >= self.max_bytes || (borders > 0 && self.is_good(size, borders, overlap, in_gap))
    }

    /// Records that the current file ended before the last key passed to `ends_before`.
    pub(crate) fn cut(&mut self) {
        debug_assert!(!self.inside || self.at < self.below.len());
        self.passed = 0;
        self.overlap = match self.inside {
            true => self.below[self.at].size,
            false => 0,
        };
    }

    /// Advances to `key` and returns the number of grandparent boundaries crossed.
    fn go_to(&mut self, key: &[u8]) -> u64 {
        let mut borders = 0;
        while let Some(file) = self.below.get(self.at) {
            let crosses = match self.inside {
                false => self.compare(key, file.smallest.as_bytes()).is_ge(),
                true => match self.compare(key, file.largest.as_bytes()) {
                    Ordering::Less => false,
                    Ordering::Greater => true,
                    // The next file may begin with the same user key.
                    Ordering::Equal => self
                        .below
                        .get(self.at + 1)
                        .is_some_and(|next| self.compare(key, next.smallest.as_bytes()).is_ge()),
                },
            };
            if !crosses {
                break;
            }
            if self.inside {
                self.at += 1;
            } else if self.begun {
                self.overlap = self.overlap.saturating_add(file.size);
            }
            self.inside = !self.inside;
            borders += u64::from(self.begun);
        }
        if !self.begun {
            self.begun = true;
            self.cut();
        }
        self.passed += borders;
        borders
    }

    fn compare(&self, key: &[u8], bound: &[u8]) -> Ordering {
        bounds::compare(&self.order, key, bound)
    }

    /// True if the boundary just crossed is a good place to end a file of `size` bytes.
    fn is_good(&self, size: u64, borders: u64, overlap_before: u64, in_gap: bool) -> bool {
        if self.overlap.saturating_add(size) > self.max_compaction_bytes {
            return true;
        }
        debug_assert!(
            overlap_before <= self.overlap,
            "the overlap grows until the file ends"
        );
        // The file ends here if that skips a whole grandparent file.
        let skips = borders >= if in_gap { 2 } else { 3 };
        if skips && self.overlap - overlap_before > self.target_bytes / 8 {
            return true;
        }
        // The more boundaries a file has crossed, the more it is likely to cross before it is full,
        // so the threshold rises.
        let percent = 50 + (self.passed.saturating_sub(borders) * 5).min(40);
        size >= self.target_bytes.div_ceil(100).saturating_mul(percent)
    }
}
