//! Backward iteration: the versions of a key are visited oldest first and gathered until the
//! previous key begins. A version is not gathered if another child is positioned on a newer version
//! that hides it. Nor is the last remaining version: if its block shows that the preceding entry
//! has a different user key, and no other child is on the same key, the iterator is positioned on
//! the entry in place.

use cairn_format::key;
use cairn_types::{Progress, Result, SequenceNumber, ValueKind};

use super::bounds::unknown_kind;
use super::{DbIter, Newest, Part, Position, Task};
use crate::columns::default_column;
use crate::merge_operands::Below;

impl DbIter {
    /// Moves to the previous key that has a value.
    pub(super) fn find_prev_entry(&mut self) -> Result<Progress> {
        loop {
            if !self.merging.valid() {
                if self.merging.lacks() {
                    return Ok(Progress::Lacks);
                }
                self.merging.status()?;
                if self.versions.same_key && self.resolve_gathered()? {
                    return Ok(Progress::Ready);
                }
                return self.end_iteration();
            }
            let internal = self.merging.key();
            let user = key::user_key(internal);
            if self.versions.same_key {
                if self.is_same(user, &self.key) {
                    self.gather()?;
                    if self.task != Task::Backward {
                        return Ok(Progress::Ready);
                    }
                    continue;
                }
                if self.resolve_gathered()? {
                    return Ok(Progress::Ready);
                }
                continue;
            }
            if self.is_before_start(user) {
                self.end_run();
                return self.set_position(Position::Invalid);
            }
            if let Some(range_dels) = &mut self.range_dels {
                self.versions.covered_by = range_dels.covering(user)?;
                // If a child with newer entries is on the same key, it is visited next.
                let seq = SequenceNumber(key::packed(internal) >> 8);
                if seq < self.versions.covered_by && self.skip_tombstone_range() {
                    self.counters.counts.back += 1;
                    self.check_hidden()?;
                    continue;
                }
            }
            let internal = self.merging.key();
            let user = key::user_key(internal);
            if self.settings.no_timestamps
                && self.counters.skipped < self.view.family.max_sequential_skip
                && self
                    .merging
                    .is_hidden(user, self.seq, |a, b| self.is_same(a, b))
            {
                self.counters.skipped += 1;
                self.count_visited();
                self.check_hidden()?;
                let _progress = self.merging.prev();
                continue;
            }
            let packed = key::packed(internal);
            let seq = SequenceNumber(packed >> 8);
            if self.settings.no_timestamps
                && seq <= self.seq
                && seq >= self.versions.covered_by
                && self
                    .merging
                    .is_newest_version(user, |a, b| self.is_same(a, b))
            {
                // The truncation is intended: the kind is the lowest byte.
                match ValueKind::from_u8(packed as u8) {
                    Some(ValueKind::Value) => {
                        self.counters.skipped = 0;
                        self.counters.counts.back += 1;
                        self.end_run();
                        return self.set_entry(Part::All);
                    }
                    Some(kind) if kind.is_deletion() => {
                        self.count_visited();
                        self.counters.counts.back_deletions += 1;
                        self.check_hidden()?;
                        self.count_deleted_back();
                        let _progress = self.merging.prev();
                        continue;
                    }
                    _ => {}
                }
            }
            self.save_key();
            self.versions.same_key = true;
            self.counters.skipped = 0;
            self.versions.newest = Newest::Missing;
            self.versions.operands.clear();
            self.note_gathered(SequenceNumber::ZERO, false);
        }
    }

    /// Gathers the current entry, a version of `key`, and moves to the previous entry.
    fn gather(&mut self) -> Result<()> {
        let internal = self.merging.key();
        let parsed = key::parse(internal).map_err(|_| unknown_kind(internal))?;
        // Before it is counted: the entry may be the one that is returned.
        self.check_hidden()?;
        self.counters.skipped += 1;
        if self.counters.skipped > self.view.family.max_sequential_skip {
            // Too many versions to visit one by one: seek to the newest visible one.
            self.counters.counts.reseeks += 1;
            self.counters.hidden += 1;
            self.counters.counts.back_skipped += 1;
            self.counters.skipped = 0;
            self.versions.operands.clear();
            let user = std::mem::take(&mut self.key);
            let size = self.view.family.order.timestamp_size();
            self.set_target_newest_visible(key::strip_timestamp(&user, size));
            self.key = user;
            self.versions.covered_by = Default::default();
            let _progress = self.merging.seek(&self.target);
            self.task = Task::Newest;
            return Ok(());
        }
        if parsed.seq > self.seq || self.is_too_new(parsed.user_key) {
            self.count_recent_back();
            let _progress = self.merging.prev();
            return Ok(());
        }
        if self.view.family.order.timestamp_size() > 0 {
            // The key is shown with the timestamp of its visible version.
            self.key.clear();
            self.key.extend_from_slice(parsed.user_key);
            if let Some(range_dels) = &mut self.range_dels {
                self.versions.covered_by = range_dels.covering(parsed.user_key)?;
            }
        }
        let (seq, is_covered) = (parsed.seq, parsed.seq < self.versions.covered_by);
        let is_deletion = !is_covered && parsed.kind.is_deletion();
        let kind = match is_covered {
            true => ValueKind::Deletion,
            false => parsed.kind,
        };
        match kind {
            ValueKind::Merge => self.versions.operands.push(self.merging.value_pin()),
            kind => {
                self.versions.operands.clear();
                self.versions.newest = self.version(kind)?;
                if let Newest::Blob(_) | Newest::Entity(_) = self.versions.newest {
                    self.versions.base_key.clone_from(&self.key);
                }
            }
        }
        self.note_gathered(seq, is_deletion);
        self.count_visited();
        self.counters.counts.back_deletions += u64::from(kind.is_deletion());
        let _progress = self.merging.prev();
        Ok(())
    }

    /// Counts the current entry, a visible version that backward iteration visits, as skipped.
    #[inline]
    pub(super) fn count_visited(&mut self) {
        self.counters.hidden += 1;
        self.counters.counts.back += 1;
        self.counters.counts.back_skipped += 1;
    }

    /// Counts the current entry, which backward iteration visits and which the read does not see, as skipped.
    pub(super) fn count_recent_back(&mut self) {
        self.counters.hidden += 1;
        self.counters.counts.skipped += 1;
        self.counters.counts.recent += 1;
    }

    /// The current entry, of kind `kind`, as a version that hides all older ones.
    pub(super) fn version(&self, kind: ValueKind) -> Result<Newest> {
        let value = || self.merging.value_pin();
        Ok(match kind {
            ValueKind::Value => Newest::Value(value()),
            ValueKind::WideColumnEntity => Newest::Entity(value()),
            ValueKind::BlobIndex => Newest::Blob(value()),
            ValueKind::ValuePreferredSeqno => {
                let value = value();
                let len = value.len().saturating_sub(size_of::<u64>());
                Newest::Value(value.slice(0..len))
            }
            kind if kind.is_deletion() => Newest::Missing,
            _ => return Err(unknown_kind(self.merging.key())),
        })
    }

    /// All versions of `key` are gathered. Positions on the key and returns true if it has a value.
    fn resolve_gathered(&mut self) -> Result<bool> {
        self.versions.same_key = false;
        let newest = std::mem::replace(&mut self.versions.newest, Newest::Missing);
        let owner = &self.versions.base_key;
        let newest = match newest {
            Newest::Blob(index) => Newest::Value(self.blob(owner, &index)?),
            Newest::Entity(entity) => Newest::Entity(self.with_blobs(owner, entity)?),
            other => other,
        };
        if !self.versions.operands.is_empty() {
            self.count_returned();
            self.end_run();
            let below = match &newest {
                Newest::Value(value) | Newest::Blob(value) => Below::Value(value),
                Newest::Entity(entity) => Below::Entity(entity),
                Newest::Missing => Below::Nothing,
            };
            let _progress = self.merge_gathered(below)?;
            return Ok(true);
        }
        let at = match newest {
            Newest::Missing => {
                self.count_gathered();
                self.check_hidden()?;
                return Ok(false);
            }
            Newest::Value(value) | Newest::Blob(value) => Position::Value(self.strip_ttl(value)?),
            Newest::Entity(entity) => {
                let column = default_column(&entity)?;
                Position::Entity(entity, column)
            }
        };
        self.count_returned();
        self.end_run();
        let _progress = self.set_position(at)?;
        Ok(true)
    }

    /// One of the versions that were visited and counted is returned, so it is not skipped.
    pub(super) fn count_returned(&mut self) {
        let skipped = &mut self.counters.counts.back_skipped;
        debug_assert!(*skipped > 0, "a version that is returned was visited");
        *skipped -= 1;
    }

    /// Moves the merging iterator backward to the last entry before all versions of `key`.
    pub(super) fn seek_before_key(&mut self) {
        self.needs_reposition = false;
        if self.history.is_some() {
            self.set_target_before_version();
        } else {
            let user = std::mem::take(&mut self.key);
            let size = self.view.family.order.timestamp_size();
            self.set_target_before_all(key::strip_timestamp(&user, size));
            self.key = user;
        }
        let _progress = self.merging.seek_for_prev(&self.target);
    }
}
