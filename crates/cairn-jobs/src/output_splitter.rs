//! Where an output of a compaction ends and the next begins.
//!
//! A file should have its target size, and it should not overlap much of the level below its own:
//! that would all have to be rewritten when the file is compacted further. So a file ends before
//! the overlap grows too large, earlier than its size asks if that leaves out a file below, and
//! preferably where a file below ends.

use std::cmp::Ordering;

use cairn_platform::sync::Arc;
use cairn_types::KeyOrder;
use cairn_version::{FileMeta, bounds};

use crate::pick::Output;

/// Where the outputs of one part of a compaction are cut.
pub(crate) struct OutputSplitter {
    order: KeyOrder,
    below: Vec<Arc<FileMeta>>,
    target_bytes: u64,
    max_bytes: u64,
    max_compaction_bytes: u64,
    /// The first file below that does not end before the last key.
    at: usize,
    /// True if the last key lies in that file, rather than before it.
    inside: bool,
    /// True if there was a key.
    begun: bool,
    /// Bytes of files below that the current output overlaps.
    overlap: u64,
    /// Borders of files below that the current output has passed.
    passed: u64,
}

impl OutputSplitter {
    /// OutputSplitter for `output`, which lies above the files `below`. Level 0 is not cut: its files must
    /// not be told apart by keys.
    pub(crate) fn new(order: KeyOrder, output: &Output, below: &[Arc<FileMeta>]) -> OutputSplitter {
        let unlimited = output.level == 0;
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

    /// True if the current file, of `size` bytes, should end before `key`. To be asked about every
    /// key in ascending order; if it is ended, [`OutputSplitter::cut`] is to be called.
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

    /// The current file ended before the key that was asked about last.
    pub(crate) fn cut(&mut self) {
        self.passed = 0;
        self.overlap = match self.inside {
            true => self.below[self.at].size,
            false => 0,
        };
    }

    /// Moves to `key`, and returns how many borders of files below lie between it and the last.
    fn go_to(&mut self, key: &[u8]) -> u64 {
        let mut borders = 0;
        while let Some(file) = self.below.get(self.at) {
            let crosses = match self.inside {
                false => self.compare(key, file.smallest.as_bytes()).is_ge(),
                true => match self.compare(key, file.largest.as_bytes()) {
                    Ordering::Less => false,
                    Ordering::Greater => true,
                    // The key may go on in the next file.
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

    /// True if a border, just passed, is a good place to end a file of `size` bytes.
    fn is_good(&self, size: u64, borders: u64, overlap_before: u64, in_gap: bool) -> bool {
        if self.overlap.saturating_add(size) > self.max_compaction_bytes {
            return true;
        }
        // A whole file below lies between the last key and this one, and is worth leaving out.
        let skips = borders >= if in_gap { 2 } else { 3 };
        if skips && self.overlap - overlap_before > self.target_bytes / 8 {
            return true;
        }
        // The more borders a file has seen, the more are likely to come before it is full.
        let percent = 50 + (self.passed.saturating_sub(borders) * 5).min(40);
        size >= self.target_bytes.div_ceil(100).saturating_mul(percent)
    }
}
