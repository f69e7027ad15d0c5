//! An iterator over the records of one family in a batch.

use std::ops::Bound;
use std::sync::Arc;

use cairn_platform::sync::Mutex;
use cairn_types::{Error, Result};

use crate::index::{Indexed, WriteKind};

/// One write of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteEntry {
    /// The kind.
    pub kind: WriteKind,
    /// The key.
    pub key: Vec<u8>,
    /// The value, operand or encoded entity; empty for deletions.
    pub value: Vec<u8>,
}

/// An iterator over the records of one family in a batch, in key order; records of one key are
/// ordered newest first. The iterator sees later additions; the current entry is a copy.
pub struct BatchIter {
    shared: Arc<Mutex<Indexed>>,
    family: u32,
    /// The current entry, and the number of newer records of its key.
    at: Option<(WriteEntry, usize)>,
    error: Option<Error>,
}

impl std::fmt::Debug for BatchIter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchIter")
            .field("valid", &self.valid())
            .finish_non_exhaustive()
    }
}

impl BatchIter {
    pub(crate) fn new(shared: Arc<Mutex<Indexed>>, family: u32) -> BatchIter {
        BatchIter {
            shared,
            family,
            at: None,
            error: None,
        }
    }

    /// Moves to the newest record of the first key.
    pub fn seek_to_first(&mut self) {
        self.seek_to_bound(Bound::Unbounded, false);
    }

    /// Moves to the oldest record of the last key.
    pub fn seek_to_last(&mut self) {
        self.seek_to_bound(Bound::Unbounded, true);
    }

    /// Moves to the newest record of the first key at or after `target`.
    pub fn seek(&mut self, target: &[u8]) {
        self.seek_to_bound(Bound::Included(target), false);
    }

    /// Moves to the oldest record of the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) {
        self.seek_to_bound(Bound::Included(target), true);
    }

    /// Moves to the next older record of the key, or to the next key.
    pub fn next(&mut self) {
        let Some((entry, newer)) = self.at.take() else {
            return;
        };
        if !self.set_position(&entry.key, newer + 1) {
            self.seek_to_bound(Bound::Excluded(&entry.key), false);
        }
    }

    /// Moves to the next newer record of the key, or to the previous key.
    pub fn prev(&mut self) {
        let Some((entry, newer)) = self.at.take() else {
            return;
        };
        if newer == 0 || !self.set_position(&entry.key, newer - 1) {
            self.seek_to_bound(Bound::Excluded(&entry.key), true);
        }
    }

    /// True if the iterator is at a record.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.at.is_some()
    }

    /// Returns the record, or `None` if not valid.
    #[must_use]
    pub fn entry(&self) -> Option<&WriteEntry> {
        self.at.as_ref().map(|(entry, _)| entry)
    }

    /// Returns the error that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// `Corruption` if the batch cannot be decoded.
    pub fn status(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Moves to the first key at or after `bound`, or to the last one at or before it if `back`.
    fn seek_to_bound(&mut self, bound: Bound<&[u8]>, back: bool) {
        self.at = None;
        self.error = None;
        let found = {
            let indexed = self.shared.lock();
            let Some(index) = indexed.family(self.family) else {
                return;
            };
            let key = match back {
                true => index.at_or_before(bound),
                false => index.at_or_after(bound),
            };
            key.map(|key| (key.to_vec(), index.records(key).len()))
        };
        if let Some((key, records)) = found {
            self.set_position(&key, if back { records - 1 } else { 0 });
        }
    }

    /// Moves to the record of `key` that has `newer` newer ones. Returns false if there is none.
    fn set_position(&mut self, key: &[u8], newer: usize) -> bool {
        let indexed = self.shared.lock();
        let records = indexed
            .family(self.family)
            .map_or(&[][..], |index| index.records(key));
        let Some(&at) = records.iter().rev().nth(newer) else {
            return false;
        };
        match indexed.record(at) {
            Ok((kind, value)) => {
                let entry = WriteEntry {
                    kind,
                    key: key.to_vec(),
                    value: value.to_vec(),
                };
                self.at = Some((entry, newer));
            }
            Err(error) => self.error = Some(error),
        }
        true
    }
}
