//! The compaction iterator: selects the entries of the merged inputs that a flush or compaction writes.
//!
//! Entries of one user key arrive newest first. Snapshots divide the sequence numbers into
//! *stripes*: two entries are in the same stripe if no snapshot sees the older one without the
//! newer one. Within a stripe, only the newest state matters:
//!
//! 1. An entry is dropped if a newer entry of its key in its stripe supersedes it (a value or a
//!    deletion), or if a range tombstone of its stripe covers it. A single deletion below a newer value
//!    is kept, since the value it deletes may be in another file.
//! 2. Merge operands of one stripe are merged into a value once the entry below them is known, and into
//!    one operand otherwise if the operator supports partial merges.
//! 3. A single deletion and the value below it in its stripe cancel out.
//! 4. A deletion in the oldest stripe is dropped if no lower level can hold its key.
//! 5. A value in the oldest stripe gets sequence number 0 if no lower level can hold any key of the
//!    output. Range tombstones of that stripe, than which it would become older, are dropped too.
//!
//! With user-defined timestamps, each key with its timestamp is a separate key, and only rules 1 (without range
//! tombstones) and 2 apply, until its timestamp is old (see [`crate::history`]). The old versions of a key are versions
//! of one key, to which all rules but the third apply; rule 5 also sets their timestamps to the minimum. A single
//! deletion has the effect of a deletion. Operands are not merged with a version that a range tombstone hides from some
//! readers.

mod merges;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;

use cairn_format::key;
use cairn_format::range_del::Fragments;
use cairn_observe::statistics::{Meter, Ticker};
use cairn_platform::sync::Arc;
use cairn_types::{
    Code, Error, KeyOrder, Malformed, MergeOperator, Result, SequenceNumber, Subcode, ValueKind,
};

use crate::blob_garbage::BlobGarbageMeter;
use crate::blobs::BlobReader;
use crate::context::Cancel;
use crate::filter::{Filter, Ruling};
use crate::history::{self, TimestampRules};
use crate::lower_levels::LowerLevels;
use crate::sorted_runs::Run;
use crate::stats::{BlobsRead, Dropped};

/// The number of entries between two checks for cancellation.
const CANCEL_EVERY: u32 = 256;

/// The number of entries to step over when a filter skips keys, before the runs seek instead.
const STEPS_BEFORE_SEEK: u32 = 64;

/// Parameters of the iterator.
pub struct Rules {
    /// The key order.
    pub order: KeyOrder,
    /// Sequence numbers of snapshots, ascending.
    pub snapshots: Vec<SequenceNumber>,
    /// The merge operator; without one, operands are written unchanged.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// True if values and operands carry TTL timestamps, which the merge operator handles. Entities
    /// do not.
    pub dated: bool,
    /// Range tombstones of all inputs.
    pub tombstones: Arc<Fragments>,
    /// True if no lower level can hold any key of the output.
    pub bottommost: bool,
    /// Lookup of older entries below the output.
    pub below: LowerLevels,
    /// The user's filter.
    pub filter: Option<Filter>,
    /// True if a single deletion above another deletion is an error.
    pub strict_single_deletions: bool,
    /// Cancellation token.
    pub cancel: Cancel,
    /// Statistics sink for the merge operator.
    pub meter: Meter,
    /// The treatment of timestamps.
    pub history: TimestampRules,
    /// Entries with larger sequence numbers keep them.
    pub zero_through: SequenceNumber,
}

/// An entry to write.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its internal key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// The location of the returned entry.
enum Out {
    /// Key and value are those of the input.
    Input,
    /// The key is `CompactionIterator::key`, the value that of the input.
    Rekeyed,
    /// Both are in `CompactionIterator::made`; the input has advanced.
    Made(Made),
}

/// A computed entry: ranges of `CompactionIterator::made`.
struct Made {
    key: Range<usize>,
    value: Range<usize>,
}

/// The timestamps of keys.
#[derive(Default)]
struct Timestamps {
    /// Their size; 0 if keys have none.
    size: usize,
    /// True if the timestamp of the current key is old.
    is_old: bool,
    /// True if the current version is dropped because of its timestamp.
    is_trimmed: bool,
    /// The newest timestamp read; only if timestamps are stripped.
    newest: Vec<u8>,
}

impl Timestamps {
    /// True if keys have timestamps.
    #[inline]
    fn exist(&self) -> bool {
        self.size > 0
    }
}

/// Iterator over the entries of `input` to write.
pub struct CompactionIterator<R> {
    input: R,
    rules: Rules,
    timestamps: Timestamps,
    /// The current user key, and the sequence number of its last entry.
    user: Vec<u8>,
    seq: SequenceNumber,
    has_user: bool,
    /// The upper end of the stripe whose older entries of `user` are shadowed.
    decided: Option<SequenceNumber>,
    /// The range tombstone region of the last lookup.
    region: usize,
    key: Vec<u8>,
    made: Vec<u8>,
    queue: VecDeque<Made>,
    /// True if a value is written whenever it is the first entry of its key: there are no range tombstones, filters and
    /// timestamps, and different bytes are different keys.
    is_plain: bool,
    /// True if the current input entry has been returned.
    used: bool,
    /// True if the next entry is the newest of its key, which the filter decides on.
    newest: bool,
    /// True if entries were skipped by a seek.
    jumped: bool,
    until_cancel: u32,
    /// Entries read but not returned, by cause.
    pub dropped: Dropped,
    /// Nanoseconds in the merge operator, if detailed timers are enabled.
    merging: Cell<u64>,
    /// Blob references of the input.
    pub garbage: BlobGarbageMeter,
    /// Reads blobs as merge bases; without it, operands above blobs stay unmerged.
    pub(crate) blobs: Option<BlobReader>,
}

impl<R: Run> CompactionIterator<R> {
    /// Creates the iterator over `input`, which is positioned at its first entry.
    #[must_use]
    pub fn new(input: R, rules: Rules) -> CompactionIterator<R> {
        debug_assert!(rules.snapshots.is_sorted(), "snapshots ascend");
        let is_plain = matches!(rules.order, KeyOrder::Bytewise | KeyOrder::ReverseBytewise)
            && rules.filter.is_none()
            && rules.tombstones.is_empty()
            && !rules.history.strips();
        CompactionIterator {
            is_plain,
            timestamps: Timestamps {
                size: rules.order.timestamp_size(),
                ..Timestamps::default()
            },
            input,
            rules,
            user: Vec::new(),
            seq: SequenceNumber::ZERO,
            has_user: false,
            decided: None,
            region: 0,
            key: Vec::new(),
            made: Vec::new(),
            queue: VecDeque::new(),
            used: false,
            newest: false,
            jumped: false,
            until_cancel: CANCEL_EVERY,
            dropped: Dropped::default(),
            merging: Cell::new(0),
            garbage: BlobGarbageMeter::default(),
            blobs: None,
        }
    }

    /// Returns the input.
    #[must_use]
    pub fn input(&self) -> &R {
        &self.input
    }

    /// Returns the newest timestamp read if timestamps are stripped; empty if there is none.
    #[must_use]
    pub fn newest_timestamp(&self) -> &[u8] {
        &self.timestamps.newest
    }

    /// True if a filter skipped entries by a seek, so that the entry count is not exact.
    #[must_use]
    pub fn jumped(&self) -> bool {
        self.jumped
    }

    /// Returns the blobs read for the filter and as merge bases.
    #[must_use]
    pub fn blobs_read(&self) -> BlobsRead {
        let merged = self.blobs.as_ref().map(|blobs| blobs.read);
        let filtered = self.rules.filter.as_ref().map(Filter::blobs_read);
        merged
            .unwrap_or_default()
            .and(&filtered.unwrap_or_default())
    }

    /// True if a filter may skip entries by a seek.
    #[must_use]
    pub fn may_jump(&self) -> bool {
        self.rules.filter.is_some()
    }

    /// Returns the user key of the last returned entry. At most one entry with a larger key has
    /// been read.
    #[must_use]
    pub fn user_key(&self) -> &[u8] {
        &self.user
    }

    /// Returns the next entry to write, or `None` at the end. `end` is the exclusive upper bound, a
    /// user key.
    ///
    /// # Errors
    ///
    /// Errors of the input; `Corruption` of an entry or by the merge operator; `Aborted` on cancellation.
    pub fn next(&mut self, end: Option<&[u8]>) -> Result<Option<Entry<'_>>> {
        if std::mem::take(&mut self.used) {
            debug_assert!(
                self.queue.is_empty(),
                "the input entry is returned after queued ones"
            );
            self.advance();
        }
        let out = if self.queue.is_empty() {
            self.made.clear();
            match self.find_plain(end) {
                None => self.find(end)?,
                found => found,
            }
        } else {
            self.queue.pop_front().map(Out::Made)
        };
        let entry = match out {
            None => {
                self.input.status()?;
                return Ok(None);
            }
            Some(Out::Input) => Entry {
                key: self.input.key(),
                value: self.input.value(),
            },
            Some(Out::Rekeyed) => Entry {
                key: &self.key,
                value: self.input.value(),
            },
            Some(Out::Made(made)) => Entry {
                key: &self.made[made.key],
                value: &self.made[made.value],
            },
        };
        Ok(Some(entry))
    }

    /// Returns the current entry if it is a value that is written because it is the first entry of its key, and `None`
    /// if [`CompactionIterator::find`] has to decide.
    #[inline]
    fn find_plain(&mut self, end: Option<&[u8]>) -> Option<Out> {
        if !self.is_plain || self.until_cancel <= 1 || !self.input.valid() {
            return None;
        }
        let internal = self.input.key();
        let packed = key::packed(internal);
        // Truncation is intended: the kind is the lowest byte. A key that is too short has another kind.
        if packed as u8 != ValueKind::Value as u8 {
            return None;
        }
        let user = key::user_key(internal);
        let is_next =
            !self.has_user || key::compare_plain(&self.rules.order, user, &self.user).is_gt();
        if !is_next || end.is_some_and(|end| !self.is_before(user, end)) {
            return None;
        }
        self.until_cancel -= 1;
        let seq = SequenceNumber(packed >> 8);
        let stripe = self.stripe(seq);
        debug_assert!(seq <= stripe, "the snapshot of a stripe sees its entries");
        key::copy_user_key(&mut self.user, internal);
        self.has_user = true;
        self.seq = seq;
        self.newest = false;
        self.decided = Some(stripe);
        self.used = true;
        if seq == SequenceNumber::ZERO || !self.may_zero_seq(stripe, seq) {
            return Some(Out::Input);
        }
        key::copy_user_key(&mut self.key, internal);
        let suffix = key::pack(SequenceNumber::ZERO, ValueKind::Value);
        self.key.extend_from_slice(&suffix.to_le_bytes());
        Some(Out::Rekeyed)
    }

    /// The error of an entry that belongs before the last one.
    #[cold]
    fn out_of_order(&self) -> Error {
        Error::corruption(format!(
            "the keys of {} are out of order: user key {} and sequence number {} after {} and {}",
            self.input.source(),
            key::user_key(self.input.key()).escape_ascii(),
            key::packed(self.input.key()) >> 8,
            self.user.escape_ascii(),
            self.seq
        ))
    }

    /// The error of an entry whose key is malformed.
    #[cold]
    fn bad_key(&self, malformed: Malformed) -> Error {
        malformed.in_file(format_args!("a key in {}", self.input.source()), 0)
    }

    /// Counts an entry, and checks for cancellation now and then.
    #[inline]
    fn check_cancel(&mut self) -> Result<()> {
        self.until_cancel -= 1;
        if self.until_cancel == 0 {
            self.until_cancel = CANCEL_EVERY;
            if self.rules.cancel.is_set() {
                return Err(Error::new(
                    Code::Aborted,
                    Subcode::None,
                    "the job is cancelled",
                ));
            }
        }
        Ok(())
    }

    /// Advances to the next entry to write.
    fn find(&mut self, end: Option<&[u8]>) -> Result<Option<Out>> {
        while self.input.valid() {
            self.check_cancel()?;
            let parsed =
                key::parse(self.input.key()).map_err(|malformed| self.bad_key(malformed))?;
            let (seq, kind) = (parsed.seq, parsed.kind);
            if !self.has_user || parsed.user_key != self.user {
                if end.is_some_and(|end| !self.is_before(parsed.user_key, end)) {
                    return Ok(None);
                }
                let user = parsed.user_key;
                // Under a user-defined comparator, different bytes may still be equal keys.
                let step = match self.has_user {
                    true => key::compare_user(&self.rules.order, user, &self.user),
                    false => Ordering::Greater,
                };
                if step.is_lt() {
                    return Err(self.out_of_order());
                }
                if step.is_gt() && !(self.timestamps.exist() && self.is_older_version(user)) {
                    self.decided = None;
                    self.newest = true;
                }
                self.user.clear();
                self.user.extend_from_slice(user);
                self.has_user = true;
                if self.timestamps.exist() {
                    self.note_timestamp();
                }
            } else if seq > self.seq {
                return Err(self.out_of_order());
            }
            self.seq = seq;
            if self.timestamps.is_trimmed {
                self.count_blobs(kind)?;
                self.dropped.hidden += 1;
                self.input.next();
                continue;
            }
            let newest = std::mem::take(&mut self.newest);
            self.count_blobs(kind)?;
            let stripe = self.stripe(seq);
            debug_assert!(seq <= stripe, "the snapshot of a stripe sees its entries");
            // A version in an older stripe can precede one in a newer stripe only if it has a newer timestamp.
            let hidden = self.decided.is_some_and(|decided| decided <= stripe);
            // A shadowed single deletion must still meet its value, possibly in another job,
            // because the newer value may be cancelled by a single deletion of its own.
            let is_owed = hidden && kind == ValueKind::SingleDeletion && !self.timestamps.exist();
            if hidden && !is_owed {
                self.dropped.hidden += 1;
                self.input.next();
                continue;
            }
            if self.is_covered(seq, stripe) {
                self.dropped.hidden += 1;
                self.dropped.covered += 1;
                self.input.next();
                continue;
            }
            let ruling = match newest {
                true => self.rule(kind)?,
                false => Ruling::Keep,
            };
            let out = match ruling {
                Ruling::Keep => self.take(seq, kind, stripe)?,
                other => self.take_ruled(other, seq, stripe)?,
            };
            if let Some(out) = out {
                return Ok(Some(out));
            }
        }
        Ok(None)
    }

    /// Returns the filter's decision about the current entry.
    fn rule(&self, kind: ValueKind) -> Result<Ruling> {
        use ValueKind::{BlobIndex, Value, WideColumnEntity};
        match (&self.rules.filter, kind) {
            (Some(filter), Value | BlobIndex | WideColumnEntity) => {
                let ruling = filter.rule(&self.user, kind, self.input.value())?;
                Ok(self.without_empty_skip(ruling))
            }
            _ => Ok(Ruling::Keep),
        }
    }

    /// Returns `ruling`, or `Keep` in place of a skip to a key that has already been reached.
    fn without_empty_skip(&self, ruling: Ruling) -> Ruling {
        match ruling {
            Ruling::SkipUntil(key) if self.rules.order.compare(&key, &self.user).is_le() => {
                Ruling::Keep
            }
            other => other,
        }
    }

    /// Applies the filter's decision to the current entry.
    fn take_ruled(
        &mut self,
        ruling: Ruling,
        seq: SequenceNumber,
        stripe: SequenceNumber,
    ) -> Result<Option<Out>> {
        let (kind, value) = match ruling {
            Ruling::Keep => unreachable!("kept entries are handled by the caller"),
            Ruling::SkipUntil(key) => {
                self.skip_until(&key)?;
                return Ok(None);
            }
            Ruling::Remove => {
                self.dropped.filtered += 1;
                if self.is_droppable(stripe) {
                    self.count_obsolete();
                    self.decided = Some(stripe);
                    self.advance();
                    return Ok(None);
                }
                match self.timestamps.exist() {
                    true => (ValueKind::DeletionWithTimestamp, Vec::new()),
                    false => (ValueKind::Deletion, Vec::new()),
                }
            }
            Ruling::Change(kind, value) => (kind, value),
        };
        debug_assert!(
            self.decided != Some(stripe),
            "the filter sees the newest entry only"
        );
        self.decided = Some(stripe);
        let zero = !kind.is_deletion() && self.may_rekey(kind) && self.may_zero_seq(stripe, seq);
        let made = match zero {
            true => self.make_zeroed(kind, &value),
            false => self.make(seq, kind, &value),
        };
        self.advance();
        Ok(Some(Out::Made(made)))
    }

    /// Skips all entries of keys before `key`. Blob references must be counted to detect garbage; without
    /// any, a long distance is skipped by a seek.
    #[cold]
    fn skip_until(&mut self, key: &[u8]) -> Result<()> {
        let order = self.rules.order.clone();
        let mut steps = 0;
        while self.input.valid() {
            let internal = self.input.key();
            let user = key::user_key(internal);
            if order.compare(user, key).is_ge() {
                break;
            }
            if steps == STEPS_BEFORE_SEEK && !self.garbage.is_expected() {
                let target = key::InternalKey::new(key, SequenceNumber::MAX, ValueKind::FOR_SEEK);
                self.input.start(Some(target.as_bytes()));
                self.jumped = true;
                break;
            }
            // The entry that the filter decided on has already been counted.
            if steps > 0 {
                let kind = ValueKind::from_u8(key::packed(internal) as u8);
                count_blobs(&mut self.garbage, user, kind, self.input.value())
                    .map_err(|error| error.context(self.input.source()))?;
            }
            steps += 1;
            self.input.next();
            self.check_cancel()?;
        }
        Ok(())
    }

    /// Counts the blob references of the current entry, of `kind`.
    #[inline]
    fn count_blobs(&mut self, kind: ValueKind) -> Result<()> {
        count_blobs(
            &mut self.garbage,
            &self.user,
            Some(kind),
            self.input.value(),
        )
        .map_err(|error| error.context(self.input.source()))
    }

    fn is_before(&self, user: &[u8], end: &[u8]) -> bool {
        self.rules.order.compare_without_timestamp(user, end) == Ordering::Less
    }

    /// Moves past the current entry.
    #[inline]
    fn advance(&mut self) {
        self.input.next();
    }

    /// Handles the current entry, which is not shadowed. Returns `None` if nothing is written; the
    /// input is then at the next entry to handle.
    #[inline]
    fn take(
        &mut self,
        seq: SequenceNumber,
        kind: ValueKind,
        stripe: SequenceNumber,
    ) -> Result<Option<Out>> {
        match kind {
            ValueKind::Value | ValueKind::BlobIndex | ValueKind::WideColumnEntity => {
                self.decided = Some(stripe);
                self.used = true;
                if self.may_rekey(kind)
                    && self.may_zero_seq(stripe, seq)
                    && (seq != SequenceNumber::ZERO || self.timestamps.exist())
                {
                    self.rekey_zeroed(kind);
                    return Ok(Some(Out::Rekeyed));
                }
            }
            ValueKind::ValuePreferredSeqno => {
                self.decided = Some(stripe);
            }
            ValueKind::SingleDeletion if !self.timestamps.exist() => {
                return self.take_single(seq, stripe);
            }
            ValueKind::Deletion | ValueKind::DeletionWithTimestamp | ValueKind::SingleDeletion => {
                self.decided = Some(stripe);
                if self.is_droppable(stripe) {
                    self.count_obsolete();
                    self.advance();
                    return Ok(None);
                }
            }
            ValueKind::Merge => {
                if let Some(operator) = self.rules.merge_operator.clone() {
                    return self.take_merge(&*operator, stripe);
                }
            }
            other => {
                return Err(Error::corruption(format!(
                    "entry of kind {other:?} in a table"
                )));
            }
        }
        self.used = true;
        if self.rules.history.strips() {
            self.rekey(seq, kind);
            return Ok(Some(Out::Rekeyed));
        }
        Ok(Some(Out::Input))
    }

    /// True if `user` is an older version of the current key, which counts as a version without timestamp because both
    /// timestamps are old.
    fn is_older_version(&self, user: &[u8]) -> bool {
        let order = &self.rules.order;
        self.has_user
            && self.timestamps.is_old
            && order.compare_without_timestamp(user, &self.user).is_eq()
    }

    /// Notes the timestamp of the current key.
    fn note_timestamp(&mut self) {
        let (order, rules) = (&self.rules.order, &self.rules.history);
        let timestamp = &self.user[self.user.len().saturating_sub(self.timestamps.size)..];
        self.timestamps.is_old = rules.is_old(order, timestamp);
        self.timestamps.is_trimmed = rules.is_trimmed(order, timestamp);
        if rules.strips() {
            history::raise(order, &mut self.timestamps.newest, timestamp);
        }
    }

    /// Counts a dropped deletion.
    #[cold]
    fn count_obsolete(&mut self) {
        self.dropped.obsolete += 1;
        if !self.rules.bottommost {
            self.dropped.obsolete_early += 1;
        }
    }

    /// Stores the current key with another sequence number and kind in `self.key`.
    fn rekey(&mut self, seq: SequenceNumber, kind: ValueKind) {
        self.key.clear();
        if self.rules.history.strips() {
            push_stripped(&mut self.key, &self.user, self.timestamps.size, seq, kind);
            return;
        }
        key::append_internal(&mut self.key, &self.user, seq, kind);
    }

    /// Stores the current key with sequence number 0, the smallest timestamp and another kind in `self.key`.
    fn rekey_zeroed(&mut self, kind: ValueKind) {
        self.key.clear();
        let seq = SequenceNumber::ZERO;
        push_stripped(&mut self.key, &self.user, self.timestamps.size, seq, kind);
    }

    /// Returns the upper end of the stripe of `seq`: the oldest snapshot that sees it.
    #[inline]
    fn stripe(&self, seq: SequenceNumber) -> SequenceNumber {
        let snapshots = &self.rules.snapshots;
        match snapshots.last() {
            Some(&last) if seq <= last => {
                snapshots[snapshots.partition_point(|&snapshot| snapshot < seq)]
            }
            _ => SequenceNumber::MAX,
        }
    }

    /// True if `stripe` is the oldest.
    #[inline]
    fn is_oldest(&self, stripe: SequenceNumber) -> bool {
        self.rules
            .snapshots
            .first()
            .is_none_or(|&oldest| stripe == oldest)
    }

    /// True if a range tombstone of the same stripe covers an entry of the current key.
    #[inline]
    fn is_covered(&mut self, seq: SequenceNumber, stripe: SequenceNumber) -> bool {
        if self.rules.tombstones.is_empty() {
            return false;
        }
        if self.timestamps.exist() {
            return self.timestamps.is_old && self.is_covered_version(seq, stripe);
        }
        let (tombstones, order) = (&self.rules.tombstones, &self.rules.order);
        self.region = tombstones.region_near(order, self.region, &self.user);
        tombstones.newest(self.region, stripe) > seq
    }

    /// [`CompactionIterator::is_covered`] for an old version.
    fn is_covered_version(&self, seq: SequenceNumber, stripe: SequenceNumber) -> bool {
        let Rules {
            order,
            tombstones,
            history,
            ..
        } = &self.rules;
        let user = key::user_key(self.input.key());
        tombstones.covering_at(order, user, stripe, history.newest_covering()) > seq
    }

    /// True if a range tombstone of the same stripe hides the current version, but not the operands above it, from
    /// readers at some timestamps.
    fn is_covered_for_some(&self, seq: SequenceNumber, stripe: SequenceNumber) -> bool {
        let Rules {
            order, tombstones, ..
        } = &self.rules;
        let user = key::user_key(self.input.key());
        self.timestamps.exist() && tombstones.covering_at(order, user, stripe, None) > seq
    }

    /// True if versions of the current key are dropped like those of a key without timestamps.
    #[inline]
    fn is_collapsible(&self) -> bool {
        !self.timestamps.exist() || self.timestamps.is_old
    }

    /// True if a value of `stripe` with the sequence number `seq` may get sequence number 0.
    #[inline]
    fn may_zero_seq(&self, stripe: SequenceNumber, seq: SequenceNumber) -> bool {
        self.rules.bottommost
            && self.is_collapsible()
            && self.is_oldest(stripe)
            && seq <= self.rules.zero_through
    }

    /// True if the timestamp of an entry of kind `kind` may change: a blob, which columns of an entity may refer to, has
    /// the key with its timestamp.
    #[inline]
    fn may_rekey(&self, kind: ValueKind) -> bool {
        !self.timestamps.exist()
            || !matches!(kind, ValueKind::BlobIndex | ValueKind::WideColumnEntity)
    }

    /// True if a deletion of the current key in `stripe` shadows nothing.
    fn is_droppable(&mut self, stripe: SequenceNumber) -> bool {
        self.is_collapsible() && self.is_oldest(stripe) && !self.is_below()
    }

    /// True if a lower level may hold the current key.
    fn is_below(&mut self) -> bool {
        !self.rules.bottommost && self.rules.below.may_hold(&self.rules.order, &self.user)
    }

    /// Returns the sequence number and kind of the current entry, if it belongs to the current key and
    /// `stripe`.
    fn same(&self, stripe: SequenceNumber) -> Result<Option<(SequenceNumber, ValueKind)>> {
        if !self.is_same_key() {
            return Ok(None);
        }
        let parsed = key::parse(self.input.key()).map_err(|malformed| self.bad_key(malformed))?;
        Ok((self.stripe(parsed.seq) == stripe).then_some((parsed.seq, parsed.kind)))
    }

    fn is_same_key(&self) -> bool {
        if !self.input.valid() {
            return false;
        }
        let user = key::user_key(self.input.key());
        self.rules.order.compare(user, &self.user).is_eq()
            || self.timestamps.exist() && self.is_older_version(user)
    }

    /// Handles a single deletion. It cancels out with the value below it; above any other entry, which
    /// violates its contract, it acts as a deletion.
    fn take_single(&mut self, seq: SequenceNumber, stripe: SequenceNumber) -> Result<Option<Out>> {
        let hidden = self.decided == Some(stripe);
        self.advance();
        let kind = match self.same(stripe)? {
            Some((_, ValueKind::Deletion)) if !hidden && self.rules.strict_single_deletions => {
                return Err(Error::corruption(format!(
                    "a single deletion above a deletion of the key {:?}: the application mixes \
                     both for one key, which SingleDelete forbids; \
                     enforce_single_del_contracts=false lets compactions go on",
                    String::from_utf8_lossy(&self.user)
                )));
            }
            // The next single deletion or deletion has the same effect.
            Some((_, ValueKind::SingleDeletion | ValueKind::Deletion)) => {
                self.dropped.obsolete += 1;
                self.dropped.single_mismatched += 1;
                return Ok(None);
            }
            Some((_, ValueKind::Merge)) => {
                self.dropped.single_mismatched += 1;
                if hidden {
                    self.dropped.obsolete += 1;
                    return Ok(None);
                }
                ValueKind::Deletion
            }
            Some((_, kind)) => {
                self.count_blobs(kind)?;
                self.dropped.hidden += 1;
                self.dropped.obsolete += 1;
                self.advance();
                // Older entries are handled as if the pair had not existed: a single deletion among
                // them must still meet its own value.
                return Ok(None);
            }
            None if !self.is_same_key() && self.is_droppable(stripe) => {
                self.count_obsolete();
                self.dropped.single_alone += 1;
                return Ok(None);
            }
            None => ValueKind::SingleDeletion,
        };
        self.decided = Some(stripe);
        let made = self.make(seq, kind, b"");
        Ok(Some(Out::Made(made)))
    }

    /// Builds an entry of the current key.
    fn make(&mut self, seq: SequenceNumber, kind: ValueKind, value: &[u8]) -> Made {
        debug_assert!(self.has_user, "an entry was read");
        let start = self.made.len();
        match self.rules.history.strips() {
            true => push_stripped(&mut self.made, &self.user, self.timestamps.size, seq, kind),
            false => key::append_internal(&mut self.made, &self.user, seq, kind),
        }
        self.with_value(start, value)
    }

    /// Builds an entry of the current key with sequence number 0 and the smallest timestamp.
    fn make_zeroed(&mut self, kind: ValueKind, value: &[u8]) -> Made {
        let start = self.made.len();
        let seq = SequenceNumber::ZERO;
        push_stripped(&mut self.made, &self.user, self.timestamps.size, seq, kind);
        self.with_value(start, value)
    }

    /// Completes an entry whose key was appended at `start`.
    fn with_value(&mut self, start: usize, value: &[u8]) -> Made {
        let middle = self.made.len();
        self.made.extend_from_slice(value);
        Made {
            key: start..middle,
            value: middle..self.made.len(),
        }
    }
}

impl<R> Drop for CompactionIterator<R> {
    fn drop(&mut self) {
        let merging = self.merging.get();
        if merging > 0 {
            self.rules
                .meter
                .add(Ticker::MergeOperationTotalTime, merging);
        }
    }
}

/// Appends the internal key of `user` with the smallest timestamp, of `size` bytes.
fn push_stripped(
    out: &mut Vec<u8>,
    user: &[u8],
    size: usize,
    seq: SequenceNumber,
    kind: ValueKind,
) {
    history::push_with_minimum(out, user, size);
    out.extend_from_slice(&key::pack(seq, kind).to_le_bytes());
}

/// Counts the blob references of an input entry.
#[inline]
fn count_blobs(
    garbage: &mut BlobGarbageMeter,
    user_key: &[u8],
    kind: Option<ValueKind>,
    value: &[u8],
) -> Result<()> {
    match kind {
        Some(ValueKind::BlobIndex) => garbage.enters(user_key, value),
        Some(ValueKind::WideColumnEntity) => garbage.entity_enters(user_key, value),
        _ => Ok(()),
    }
}
