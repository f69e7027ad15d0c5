//! Iteration over all versions of keys with timestamps, deletions included (`iter_start_ts`).
//!
//! A version is a key with its timestamp. Of the entries of one version, the newest visible one is returned; versions
//! outside the range of timestamps and versions covered by a range tombstone are skipped. A version that is a merge
//! operand has the value that a read at its timestamp returns: its older versions are read for it, and the merging
//! iterator then returns to it.

use cairn_format::key;
use cairn_options::ReadOptions;
use cairn_types::{Progress, Result, SequenceNumber, ValueKind};

use super::bounds::unknown_kind;
use super::{DbIter, Newest, Part, Position, Task};
use crate::columns::{default_column, has_blobs};
use crate::value::Value;

/// The state of an iteration over versions.
pub(super) struct History {
    /// The oldest timestamp that is returned.
    start: Vec<u8>,
    /// The internal key of the current version.
    internal: Vec<u8>,
}

impl History {
    pub(super) fn new(options: &ReadOptions) -> Option<Box<History>> {
        let start = options.iter_start_ts.clone()?;
        let internal = Vec::new();
        Some(Box::new(History { start, internal }))
    }
}

impl Task {
    /// Returns the task in an iteration over versions.
    pub(super) fn of_versions(self) -> Task {
        match self {
            Task::Forward => Task::NextVersion,
            Task::Backward => Task::PrevVersion,
            other => other,
        }
    }
}

impl DbIter {
    /// With `iter_start_ts`, returns the internal key of the current version: the key with its timestamp, the sequence
    /// number and the kind, encoded as in [`cairn_format::key`]. `None` without `iter_start_ts`, or if the iterator is
    /// not valid.
    #[must_use]
    pub fn internal_key(&self) -> Option<&[u8]> {
        let history = self.history.as_ref().filter(|_| self.valid())?;
        Some(&history.internal)
    }

    /// With `iter_start_ts`, true if the current version is a deletion.
    #[must_use]
    pub fn is_deletion(&self) -> bool {
        self.internal_key()
            .and_then(|internal| key::parse(internal).ok())
            .is_some_and(|parsed| parsed.kind.is_deletion())
    }

    /// Records the current entry as the current version.
    fn note_version(&mut self) {
        if let Some(history) = &mut self.history {
            history.internal.clear();
            history.internal.extend_from_slice(self.merging.key());
        }
    }

    /// True if the timestamp of `user` is outside the range that is returned.
    fn is_out_of_time(&self, user: &[u8]) -> bool {
        let start = self.history.as_ref().map(|history| &history.start);
        let order = &self.view.family.order;
        let plain = key::strip_timestamp(user, order.timestamp_size());
        // Keys that differ only in their timestamps are ordered newest first.
        let is_too_old = |start: &Vec<u8>| {
            let oldest = [plain, start].concat();
            order.compare(user, &oldest).is_gt()
        };
        self.is_too_new(user) || start.is_some_and(is_too_old)
    }

    /// True if `user` is the key of the current version, with its timestamp.
    fn is_same_version(&self, user: &[u8]) -> bool {
        self.view.family.order.compare(user, &self.key).is_eq()
    }

    /// True if a range tombstone covers the current entry.
    fn is_covered_version(&mut self) -> Result<bool> {
        let parsed =
            key::parse(self.merging.key()).map_err(|_| unknown_kind(self.merging.key()))?;
        match &mut self.range_dels {
            Some(range_dels) => Ok(parsed.seq < range_dels.covering(parsed.user_key)?),
            None => Ok(false),
        }
    }

    /// Moves to the next version.
    pub(super) fn find_next_version(&mut self) -> Result<Progress> {
        loop {
            if !self.merging.valid() {
                if self.merging.lacks() {
                    return Ok(Progress::Lacks);
                }
                return self.end_iteration();
            }
            let internal = self.merging.key();
            let parsed = key::parse(internal).map_err(|_| unknown_kind(internal))?;
            let user = parsed.user_key;
            let is_older = self.versions.same_key && self.is_same_version(user);
            if !is_older && self.is_past_end(user) {
                return self.set_position(Position::Invalid);
            }
            self.check_hidden()?;
            if !is_older && parsed.seq <= self.seq && !self.is_out_of_time(user) {
                let kind = parsed.kind;
                self.save_key();
                self.versions.same_key = true;
                if !self.is_covered_version()? {
                    self.note_version();
                    return self.set_version(kind);
                }
            }
            self.count_hidden();
            let _progress = self.merging.next();
        }
    }

    /// Positions on the current entry, the newest visible one of its version.
    fn set_version(&mut self, kind: ValueKind) -> Result<Progress> {
        let value = self.merging.value();
        match kind {
            kind if kind.is_deletion() => self.set_position(Position::Entry(Part::Range(0..0))),
            ValueKind::Value => self.set_entry(Part::All),
            ValueKind::ValuePreferredSeqno => {
                let len = value.len().saturating_sub(size_of::<u64>());
                self.set_entry(Part::Range(0..len))
            }
            ValueKind::WideColumnEntity if has_blobs(value)? => {
                self.versions.on_returned = true;
                let entity = self.merging.value_pin();
                self.set_entity(entity)
            }
            ValueKind::WideColumnEntity => {
                let column = default_column(value)?;
                self.set_entry(Part::Column(column))
            }
            ValueKind::BlobIndex => {
                self.versions.on_returned = true;
                let value = self.blob(&self.key, value)?;
                let value = self.strip_ttl(value)?;
                self.set_position(Position::Value(value))
            }
            ValueKind::Merge => {
                self.merge_version();
                Ok(Progress::Ready)
            }
            _ => Err(unknown_kind(self.merging.key())),
        }
    }

    /// Begins to merge the current version, a merge operand at which the merging iterator is, with older ones.
    fn merge_version(&mut self) {
        self.needs_reposition = true;
        self.versions.operands.clear();
        self.task = Task::Collect;
    }

    /// Moves to the previous version: its entries are visited oldest first.
    pub(super) fn find_prev_version(&mut self) -> Result<Progress> {
        loop {
            if !self.merging.valid() {
                if self.merging.lacks() {
                    return Ok(Progress::Lacks);
                }
                self.merging.status()?;
                if self.versions.same_key && self.resolve_version_back()? {
                    return Ok(Progress::Ready);
                }
                return self.end_iteration();
            }
            let internal = self.merging.key();
            let parsed = key::parse(internal).map_err(|_| unknown_kind(internal))?;
            let user = parsed.user_key;
            if self.versions.same_key && !self.is_same_version(user) {
                if self.resolve_version_back()? {
                    return Ok(Progress::Ready);
                }
                continue;
            }
            if self.is_before_start(user) {
                return self.set_position(Position::Invalid);
            }
            let is_visible = parsed.seq <= self.seq && !self.is_out_of_time(user);
            if is_visible {
                let kind = parsed.kind;
                self.save_key();
                self.versions.same_key = true;
                // A newer entry of the version replaces an older one.
                self.versions.newest = Newest::Missing;
                match self.is_covered_version()? {
                    true => {
                        if let Some(history) = &mut self.history {
                            history.internal.clear();
                        }
                    }
                    false => {
                        self.note_version();
                        if kind != ValueKind::Merge {
                            self.versions.newest = self.version(kind)?;
                        }
                    }
                }
            }
            // Before it is counted: the entry may be the one that is returned.
            self.check_hidden()?;
            match is_visible {
                true => self.count_visited(),
                false => self.count_recent_back(),
            }
            let _progress = self.merging.prev();
        }
    }

    /// All entries of the version `key` are visited. Positions on it and returns true if it is to be returned.
    fn resolve_version_back(&mut self) -> Result<bool> {
        self.versions.same_key = false;
        let newest = std::mem::replace(&mut self.versions.newest, Newest::Missing);
        let internal = self.history.as_ref().map_or(&[][..], |it| &it.internal);
        let Ok(parsed) = key::parse(internal) else {
            return Ok(false);
        };
        if parsed.kind == ValueKind::Merge {
            self.target.clear();
            self.target.extend_from_slice(internal);
            let _progress = self.merging.seek(&self.target);
            self.count_returned();
            self.merge_version();
            return Ok(true);
        }
        let at = match newest {
            Newest::Missing => Position::Value(Value::from(Vec::new())),
            Newest::Value(value) => Position::Value(self.strip_ttl(value)?),
            Newest::Blob(index) => Position::Value(self.strip_ttl(self.blob(&self.key, &index)?)?),
            Newest::Entity(entity) => {
                let entity = self.with_blobs(&self.key, entity)?;
                let column = default_column(&entity)?;
                Position::Entity(entity, column)
            }
        };
        self.count_returned();
        let _progress = self.set_position(at)?;
        Ok(true)
    }

    /// Sets the target after all entries of the current version.
    #[cold]
    pub(super) fn set_target_after_version(&mut self) {
        self.target.clone_from(&self.key);
        self.target.extend_from_slice(&0_u64.to_le_bytes());
    }

    /// Sets the target before all entries of the current version.
    #[cold]
    pub(super) fn set_target_before_version(&mut self) {
        let packed = key::pack(SequenceNumber::MAX, ValueKind::FOR_SEEK);
        self.target.clone_from(&self.key);
        self.target.extend_from_slice(&packed.to_le_bytes());
    }
}
