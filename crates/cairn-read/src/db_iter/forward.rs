//! Forward iteration: the first visible version of a key determines its value.

use cairn_format::block::SkipLimits;
use cairn_format::key;
use cairn_observe::statistics::Histogram;
use cairn_types::{Error, KeyOrder, Progress, Result, SequenceNumber, ValueKind};

use super::bounds::unknown_kind;
use super::{DbIter, Part, Position, Task};
use crate::columns::{default_column, has_blobs};
use crate::merge_operands::{Below, Merged, full_merge};
use crate::value::{Value, mergeable};

impl DbIter {
    /// Moves to the next key that has a value.
    #[inline]
    pub(super) fn find_next_entry(&mut self) -> Result<Progress> {
        loop {
            if !self.merging.valid() {
                if self.merging.lacks() {
                    return Ok(Progress::Lacks);
                }
                return self.end_iteration();
            }
            let internal = self.merging.key();
            let user = key::user_key(internal);
            if self.versions.same_key && self.is_same(user, &self.key) {
                self.check_hidden()?;
                self.skip_entry(SkipReason::OlderVersion);
                continue;
            }
            if self.is_past_end(user) {
                self.end_run();
                return self.set_position(Position::Invalid);
            }
            self.check_hidden()?;
            let packed = key::packed(internal);
            let seq = SequenceNumber(packed >> 8);
            if seq > self.seq || self.is_too_new(user) {
                self.counters.counts.recent += 1;
                self.skip_entry(SkipReason::NotVisible);
                continue;
            }
            if let Some(range_dels) = &mut self.range_dels {
                self.versions.covered_by = range_dels.covering(user)?;
                if seq < self.versions.covered_by {
                    if self.skip_tombstone_range() {
                        continue;
                    }
                    // The tombstone hides all older versions of the key.
                    self.skip_key();
                    self.count_hidden();
                    let _progress = self.merging.next();
                    continue;
                }
            }
            // The truncation is intended: the kind is the lowest byte.
            match ValueKind::from_u8(packed as u8) {
                Some(ValueKind::Value) => {
                    self.end_run_at_entry();
                    return self.set_entry(Part::All);
                }
                Some(kind) if kind.is_deletion() => {
                    self.count_deleted();
                    if self.merging.may_have_more_of_key() && self.skip_deleted() {
                        continue;
                    }
                    self.skip_key();
                    self.counters.counts.deletions += 1;
                    self.count_hidden();
                    self.count_memtable_hidden();
                    let _progress = self.merging.next();
                    self.skip_deletions();
                }
                Some(kind) => {
                    self.end_run_at_entry();
                    return self.resolve_version(kind);
                }
                None => return Err(unknown_kind(internal)),
            }
        }
    }

    /// The merging iterator is on the newest visible version of a key, which is not a plain value.
    fn resolve_version(&mut self, kind: ValueKind) -> Result<Progress> {
        let value = self.merging.value();
        match kind {
            ValueKind::Value => self.set_entry(Part::All),
            ValueKind::ValuePreferredSeqno => {
                let len = value.len().saturating_sub(size_of::<u64>());
                self.set_entry(Part::Range(0..len))
            }
            ValueKind::WideColumnEntity => {
                if has_blobs(value)? {
                    self.stay_on_entry();
                    let entity = self.merging.value_pin();
                    return self.set_entity(entity);
                }
                let column = default_column(value)?;
                self.set_entry(Part::Column(column))
            }
            ValueKind::BlobIndex if self.settings.defer_blob_values && !self.back => {
                self.stay_on_entry();
                let index = self.merging.value_pin();
                self.set_position(Position::Index(index))
            }
            ValueKind::BlobIndex => {
                self.stay_on_entry();
                let value = self.blob(&self.key, self.merging.value())?;
                let value = self.strip_ttl(value)?;
                self.set_position(Position::Value(value))
            }
            ValueKind::Merge => {
                self.skip_key();
                self.versions.operands.clear();
                self.versions.operands.push(self.merging.value_pin());
                self.task = Task::Collect;
                let _progress = self.merging.next();
                Ok(Progress::Ready)
            }
            _ => Err(unknown_kind(self.merging.key())),
        }
    }

    /// Collects further operands of `key` until a base value, a deletion or the next key.
    pub(super) fn collect_operands(&mut self) -> Result<Progress> {
        loop {
            if !self.merging.valid() {
                if self.merging.lacks() {
                    return Ok(Progress::Lacks);
                }
                self.merging.status()?;
                return self.merge_into(Below::Nothing);
            }
            let internal = self.merging.key();
            let parsed = key::parse(internal).map_err(|_| unknown_kind(internal))?;
            if !self.settings.no_timestamps && self.is_same(parsed.user_key, &self.key) {
                if parsed.seq > self.seq {
                    // Versions with older timestamps may have newer sequence numbers.
                    let _progress = self.merging.next();
                    continue;
                }
                if let Some(range_dels) = &mut self.range_dels {
                    self.versions.covered_by = range_dels.covering(parsed.user_key)?;
                }
            }
            if !self.is_same(parsed.user_key, &self.key) || parsed.seq < self.versions.covered_by {
                return self.merge_into(Below::Nothing);
            }
            let value = self.merging.value_pin();
            // The operands and the entry below them make up the value: none of them is hidden.
            self.versions.on_returned = parsed.kind != ValueKind::Merge;
            return match parsed.kind {
                ValueKind::Merge => {
                    self.versions.operands.push(value);
                    let _progress = self.merging.next();
                    continue;
                }
                ValueKind::Value => self.merge_into(Below::Value(&value)),
                ValueKind::ValuePreferredSeqno => {
                    let len = value.len().saturating_sub(size_of::<u64>());
                    self.merge_into(Below::Value(&value[..len]))
                }
                ValueKind::WideColumnEntity => {
                    let entity = self.with_blobs(parsed.user_key, value)?;
                    self.merge_into(Below::Entity(&entity))
                }
                ValueKind::BlobIndex => {
                    let blob = self.blob(parsed.user_key, &value)?;
                    self.merge_into(Below::Value(&blob))
                }
                kind if kind.is_deletion() => self.merge_into(Below::Nothing),
                _ => Err(unknown_kind(internal)),
            };
        }
    }

    /// Merges the operands of `key`, newest first, into `below` and positions on the result.
    fn merge_into(&mut self, below: Below<'_>) -> Result<Progress> {
        self.versions.operands.reverse();
        self.merge_gathered(below)
    }

    /// Merges the operands of `key`, oldest first, into `below` and positions on the result.
    pub(super) fn merge_gathered(&mut self, below: Below<'_>) -> Result<Progress> {
        let operands = self.versions.operands.iter();
        let operands: Result<Vec<&[u8]>> = operands
            .map(|one| mergeable(one, self.settings.dated))
            .collect();
        let below = match below {
            Below::Value(value) => Below::Value(mergeable(value, self.settings.dated)?),
            other => other,
        };
        let operands = operands?;
        if let Some(statistics) = &self.view.family.statistics {
            statistics.record(Histogram::ReadNumMergeOperands, operands.len() as u64);
        }
        let merged = full_merge(&self.view.family, &self.key, below, &operands)?;
        self.versions.operands.clear();
        match merged {
            Merged::Value(value) => self.set_position(Position::Value(value.into())),
            Merged::Entity(entity) => {
                let column = default_column(&entity)?;
                self.set_position(Position::Entity(entity.into(), column))
            }
        }
    }

    /// Positions on `key` with `entity`.
    pub(super) fn set_entity(&mut self, entity: Value) -> Result<Progress> {
        let entity = self.with_blobs(&self.key, entity)?;
        let column = default_column(&entity)?;
        self.set_position(Position::Entity(entity, column))
    }

    /// The merging iterator is on the newest visible version of `key`, or past it if there is none.
    pub(super) fn find_newest(&mut self) -> Result<Progress> {
        if !self.merging.valid() && self.merging.lacks() {
            return Ok(Progress::Lacks);
        }
        self.merging.status()?;
        let internal = self.merging.valid().then(|| self.merging.key());
        let version = match internal.map(|internal| (internal, key::parse(internal))) {
            Some((_, Ok(parsed))) if self.is_same(parsed.user_key, &self.key) => Some(parsed),
            Some((internal, Err(_))) => return Err(unknown_kind(internal)),
            _ => None,
        };
        if version.is_some_and(|version| version.seq > self.seq) {
            // Versions with older timestamps follow, with any sequence number.
            let _progress = self.merging.next();
            return Ok(Progress::Ready);
        }
        self.needs_reposition = true;
        let Some(parsed) = version else {
            return self.continue_backward();
        };
        if let Some(range_dels) = &mut self.range_dels {
            self.versions.covered_by = range_dels.covering(parsed.user_key)?;
        }
        let (kind, is_covered) = (parsed.kind, parsed.seq < self.versions.covered_by);
        self.count_visited();
        if is_covered || kind.is_deletion() {
            if !is_covered {
                self.count_deleted_back();
            }
            self.check_hidden()?;
            return self.continue_backward();
        }
        self.count_returned();
        self.end_run();
        let _progress = self.resolve_version(kind)?;
        // In backward iteration the position does not refer to the entry of the merging iterator.
        match std::mem::replace(&mut self.position, Position::Invalid) {
            Position::Entry(part) => {
                let value = self.merging.value_pin();
                self.position = match part {
                    Part::All => Position::Value(value),
                    Part::Range(range) => Position::Value(value.slice(range)),
                    Part::Column(range) => Position::Entity(value, range),
                };
            }
            other => self.position = other,
        }
        Ok(Progress::Ready)
    }

    /// `key` has no value: continues with the preceding keys.
    fn continue_backward(&mut self) -> Result<Progress> {
        self.seek_before_key();
        let order = &self.view.family.order;
        if !self.last_reseek_target.is_empty()
            && !key::compare(order, &self.target, &self.last_reseek_target).is_lt()
        {
            return Err(Error::corruption(
                "keys of a table are out of order: the seek target did not move backward",
            ));
        }
        self.last_reseek_target.clone_from(&self.target);
        self.versions.same_key = false;
        self.task = Task::Backward;
        Ok(Progress::Ready)
    }

    /// Skips the current deletion and the following ones together with the entries that they hide
    /// in the next child: the fast path through runs of deletions over the deleted entries. Returns
    /// false if nothing was skipped.
    fn skip_deleted(&mut self) -> bool {
        if !self.skips_runs() {
            return false;
        }
        let hidden = SkipLimits {
            seq: self.seq,
            limit: self.bounds.upper.as_deref(),
            budget: self.skip_budget(),
        };
        let skipped = self.merging.skip_deleted(&hidden, &mut self.key);
        if skipped.total() == 0 {
            return false;
        }
        self.versions.same_key = true;
        self.counters.skipped = 0;
        self.counters.hidden += skipped.total();
        self.counters.counts.skipped += skipped.total();
        self.counters.counts.deletions += skipped.deletions;
        // The first is counted.
        self.count_more_deleted(skipped.deletions.saturating_sub(1));
        true
    }

    /// True if runs of deletions can be skipped at once, which requires bytewise order.
    #[inline]
    fn skips_runs(&self) -> bool {
        matches!(self.view.family.order, KeyOrder::Bytewise) && self.bounds.prefix.is_none()
    }

    /// The number of entries that may still be skipped.
    #[inline]
    fn skip_budget(&self) -> u64 {
        match self.settings.max_skippable {
            0 => u64::MAX,
            max => max.saturating_sub(self.counters.hidden),
        }
    }

    /// Skips the deletions of the current child that follow the deletion just skipped: the fast
    /// path through runs of deletions.
    #[inline]
    fn skip_deletions(&mut self) {
        if !self.skips_runs() || !self.merging.valid() {
            return;
        }
        let budget = self.skip_budget();
        let (seq, upper) = (self.seq, self.bounds.upper.as_deref());
        let counted = self.counters.flush_trigger.is_some() && self.is_in_active_memtable();
        // The last deletion becomes the key whose older versions are skipped.
        let skipped = self
            .merging
            .skip_deletions(seq, upper, budget, &mut self.key);
        self.counters.hidden += skipped;
        self.counters.counts.skipped += skipped;
        self.counters.counts.deletions += skipped;
        self.count_more_deleted(skipped);
        if let Some(trigger) = self.counters.flush_trigger.as_mut().filter(|_| counted) {
            trigger.add_hidden(skipped);
        }
    }

    /// True if the current entry is in the active memtable.
    fn is_in_active_memtable(&self) -> bool {
        let seq = SequenceNumber(key::packed(self.merging.key()) >> 8);
        self.counters
            .flush_trigger
            .as_ref()
            .is_some_and(|trigger| trigger.owns(seq))
    }

    /// Counts the current entry, which is hidden, for the flush trigger.
    #[inline]
    fn count_memtable_hidden(&mut self) {
        if self.counters.flush_trigger.is_some()
            && self.is_in_active_memtable()
            && let Some(trigger) = &mut self.counters.flush_trigger
        {
            trigger.add_hidden(1);
        }
    }

    /// Marks the user key of the current entry as skipped: its older versions are hidden.
    #[inline]
    fn skip_key(&mut self) {
        // The count for a reseek is per key: many keys with few versions each do not justify a
        // seek.
        self.counters.skipped = 0;
        self.save_key();
        self.versions.same_key = true;
    }

    /// Like [`DbIter::skip_key`], but the current entry is the one that is returned: the merging iterator stays on it
    /// until the next step.
    fn stay_on_entry(&mut self) {
        self.skip_key();
        self.versions.on_returned = true;
    }

    /// Skips the current entry, by a seek if too many have been skipped.
    #[inline]
    fn skip_entry(&mut self, reason: SkipReason) {
        self.count_hidden();
        if reason == SkipReason::OlderVersion {
            self.count_memtable_hidden();
        }
        self.counters.skipped += 1;
        if self.counters.skipped <= self.view.family.max_sequential_skip {
            let _progress = self.merging.next();
            return;
        }
        self.counters.skipped = 0;
        match reason {
            SkipReason::OlderVersion => self.set_target_after_key(),
            SkipReason::NotVisible => {
                let user = key::user_key(self.merging.key()).to_vec();
                let size = self.view.family.order.timestamp_size();
                self.set_target_newest_visible(key::strip_timestamp(&user, size));
            }
        }
        let order = &self.view.family.order;
        let is_further = self.last_reseek_target.is_empty()
            || key::compare(order, &self.target, &self.last_reseek_target).is_gt();
        if is_further {
            self.counters.counts.reseeks += 1;
            self.last_reseek_target.clone_from(&self.target);
            let _progress = self.merging.seek(&self.target);
        } else {
            let _progress = self.merging.next();
        }
    }

    /// Counts the current entry as skipped. [`DbIter::check_hidden`] follows at the next entry within the bounds: an
    /// iteration that ends with hidden entries succeeds.
    #[inline]
    pub(super) fn count_hidden(&mut self) {
        self.counters.hidden += 1;
        self.counters.counts.skipped += 1;
    }

    /// Returns an error if more entries were skipped than `max_skippable_internal_keys` allows.
    #[inline]
    pub(super) fn check_hidden(&self) -> Result<()> {
        match self.settings.max_skippable {
            0 => Ok(()),
            max if self.counters.hidden <= max => Ok(()),
            _ => Err(self.too_many_hidden()),
        }
    }

    #[cold]
    fn too_many_hidden(&self) -> Error {
        Error::incomplete(format!(
            "the iterator skipped more than {} hidden entries \
             (max_skippable_internal_keys)",
            self.settings.max_skippable
        ))
    }
}

/// The reason for skipping an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SkipReason {
    /// A newer version of its key is visible.
    OlderVersion,
    /// It is newer than the snapshot or the timestamp of the read.
    NotVisible,
}
