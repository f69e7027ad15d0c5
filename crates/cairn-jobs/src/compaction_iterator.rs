//! The entries of the merged inputs that a flush or compaction writes.
//!
//! Entries of one user key come newest first. Snapshots cut the sequence numbers into *stripes*:
//! two entries are in one stripe if no snapshot sees the older without the newer. Of one stripe
//! only the newest word counts, so
//!
//! 1. an entry is left out if a newer entry of its key in its stripe says everything (a value or a
//!    deletion), or a range tombstone of its stripe covers it; a single deletion stays below a
//!    newer value, for its own value may be elsewhere;
//! 2. merge operands of one stripe become one value as soon as what is below them is known, and
//!    one operand where it is not and the operator can;
//! 3. a single deletion and the value below it in its stripe go together;
//! 4. a deletion in the oldest stripe is left out where nothing below the output can hold its key;
//! 5. a value in the oldest stripe gets sequence number 0 if nothing below the whole output can
//!    hold its keys: range tombstones that it would then be older than are left out there too.
//!
//! Keys with timestamps: each key with its timestamp is a key of its own, and history is kept, so
//! only rules 1 and 2 apply to them, the former without range tombstones.

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::Range;

use cairn_format::range_del::Fragments;
use cairn_format::{dated, key};
use cairn_observe::statistics::{Meter, Ticker};
use cairn_platform::sync::Arc;
use cairn_types::{
    Code, Error, KeyOrder, MergeInput, MergeOperator, Result, SequenceNumber, Subcode, ValueKind,
};

use crate::blob_garbage::BlobGarbageMeter;
use crate::blobs::BlobReader;
use crate::context::Cancel;
use crate::entity_merge;
use crate::filter::{Filter, Ruling};
use crate::lower_levels::LowerLevels;
use crate::sorted_runs::Run;
use crate::stats::{BlobsRead, Dropped};

/// After how many entries a cancellation is looked for.
const CANCEL_EVERY: u32 = 256;

/// Entries that are passed one by one when a filter skips keys, before the runs are sought anew.
const STEPS_BEFORE_SEEK: u32 = 64;

/// The rules by which entries are written.
pub struct Rules {
    /// The order of the keys.
    pub order: KeyOrder,
    /// Sequence numbers of snapshots, ascending.
    pub snapshots: Vec<SequenceNumber>,
    /// Combines operands; without one they are written as they are.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// True if values and operands are dated, and that operator knows it. Entities are not.
    pub dated: bool,
    /// Range tombstones of all inputs.
    pub tombstones: Arc<Fragments>,
    /// Nothing below the output can hold any of its keys.
    pub bottommost: bool,
    /// Which keys may have older entries below the output.
    pub below: LowerLevels,
    /// The user's filter.
    pub filter: Option<Filter>,
    /// True if a single deletion above another deletion is an error.
    pub strict_single_deletions: bool,
    /// The flags that end the job.
    pub cancel: Cancel,
    /// The meter of the merge operator.
    pub meter: Meter,
}

/// An entry to be written.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its internal key.
    pub key: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
}

/// Where the entry handed out last lies.
enum Out {
    /// Key and value are those the input stands on.
    Input,
    /// The key is in `CompactionIterator::key`, the value is the one the input stands on.
    Rekeyed,
    /// Both are in `CompactionIterator::made`, and the input has moved on.
    Made(Made),
}

/// An entry that the input does not hold as it is: ranges of `CompactionIterator::made`.
struct Made {
    key: Range<usize>,
    value: Range<usize>,
}

/// The entries of `input` that are written.
pub struct CompactionIterator<R> {
    input: R,
    rules: Rules,
    timestamps: bool,
    /// The user key that the current entries are of.
    user: Vec<u8>,
    has_user: bool,
    /// The stripe whose older entries of `user` are hidden, by its upper end.
    decided: Option<SequenceNumber>,
    /// The region of the range tombstones that the key lies in which was looked at last.
    region: usize,
    key: Vec<u8>,
    made: Vec<u8>,
    queue: VecDeque<Made>,
    /// True if the input stands on an entry that was handed out.
    used: bool,
    /// True if the next entry is the newest of its key, which the filter is asked about.
    newest: bool,
    /// True if entries were passed without being seen.
    jumped: bool,
    until_cancel: u32,
    /// The entries that were passed and not returned, by cause.
    pub dropped: Dropped,
    /// Nanoseconds in the merge operator, if times are wanted.
    merging: Cell<u64>,
    /// Blobs that entries of the input referred to.
    pub garbage: BlobGarbageMeter,
    /// Reads blobs that operands apply to; without it the operands stay above them.
    pub(crate) blobs: Option<BlobReader>,
}

impl<R: Run> CompactionIterator<R> {
    /// The entries to write of `input`, which stands on its first entry.
    #[must_use]
    pub fn new(input: R, rules: Rules) -> CompactionIterator<R> {
        debug_assert!(rules.snapshots.is_sorted(), "snapshots ascend");
        CompactionIterator {
            timestamps: rules.order.timestamp_size() > 0,
            input,
            rules,
            user: Vec::new(),
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

    /// The input, for its counts.
    #[must_use]
    pub fn input(&self) -> &R {
        &self.input
    }

    /// True if a filter made the runs jump over entries, so that their number is unknown.
    #[must_use]
    pub fn jumped(&self) -> bool {
        self.jumped
    }

    /// The blobs that were read, for the filter and for the merge operator.
    #[must_use]
    pub fn blobs_read(&self) -> BlobsRead {
        let merged = self.blobs.as_ref().map(|blobs| blobs.read);
        let filtered = self.rules.filter.as_ref().map(Filter::blobs_read);
        merged
            .unwrap_or_default()
            .and(&filtered.unwrap_or_default())
    }

    /// True if a filter may make the runs jump over entries.
    #[must_use]
    pub fn may_jump(&self) -> bool {
        self.rules.filter.is_some()
    }

    /// The user key of the entry handed out last. Nothing of larger keys was looked at, but for the
    /// first of them.
    #[must_use]
    pub fn user_key(&self) -> &[u8] {
        &self.user
    }

    /// The next entry to write, or `None` at the end. `end`, a user key, is the first that is no
    /// longer wanted.
    ///
    /// # Errors
    ///
    /// Those of the input; `Corruption` of an entry or by the merge operator; `Aborted` when the
    /// job is cancelled.
    pub fn next(&mut self, end: Option<&[u8]>) -> Result<Option<Entry<'_>>> {
        if std::mem::take(&mut self.used) {
            self.advance();
        }
        let out = match self.queue.pop_front() {
            Some(made) => Some(Out::Made(made)),
            None => {
                self.made.clear();
                self.find(end)?
            }
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

    /// MarkedTarget on until something is to be written.
    fn find(&mut self, end: Option<&[u8]>) -> Result<Option<Out>> {
        while self.input.valid() {
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
            let parsed = key::parse(self.input.key())
                .map_err(|malformed| malformed.in_file("an input of a compaction", 0))?;
            let (seq, kind) = (parsed.seq, parsed.kind);
            if !self.has_user || parsed.user_key != self.user {
                if end.is_some_and(|end| !self.is_before(parsed.user_key, end)) {
                    return Ok(None);
                }
                let user = parsed.user_key;
                // Keys of other bytes may still be equal for a user's comparator.
                if !self.has_user || self.rules.order.compare(user, &self.user).is_ne() {
                    self.decided = None;
                    self.newest = true;
                }
                self.user.clear();
                self.user.extend_from_slice(user);
                self.has_user = true;
            }
            let newest = std::mem::take(&mut self.newest);
            self.count_blobs(kind)?;
            let stripe = self.stripe(seq);
            let hidden = self.decided == Some(stripe);
            // A hidden single deletion still has its value to meet, maybe in another job: the
            // newer value may go together with a single deletion of its own.
            let is_owed = hidden && kind == ValueKind::SingleDeletion && !self.timestamps;
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

    /// The filter's decision about the current entry.
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

    /// `ruling`, unless it skips to where the input is already.
    fn without_empty_skip(&self, ruling: Ruling) -> Ruling {
        match ruling {
            Ruling::SkipUntil(key) if self.rules.order.compare(&key, &self.user).is_le() => {
                Ruling::Keep
            }
            other => other,
        }
    }

    /// Does to the current entry what the filter decided.
    fn take_ruled(
        &mut self,
        ruling: Ruling,
        seq: SequenceNumber,
        stripe: SequenceNumber,
    ) -> Result<Option<Out>> {
        let (kind, value) = match ruling {
            Ruling::Keep => unreachable!("an entry that is kept goes its usual way"),
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
                match self.timestamps {
                    true => (ValueKind::DeletionWithTimestamp, Vec::new()),
                    false => (ValueKind::Deletion, Vec::new()),
                }
            }
            Ruling::Change(kind, value) => (kind, value),
        };
        self.decided = Some(stripe);
        let zero = !kind.is_deletion() && self.may_zero_seq(stripe);
        let seq = if zero { SequenceNumber::ZERO } else { seq };
        let made = self.make(seq, kind, &value);
        self.advance();
        Ok(Some(Out::Made(made)))
    }

    /// Passes all entries of keys before `key`. What refers to a blob has to be seen, or nobody
    /// would know that the blob is garbage; without blobs a long way is jumped over.
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
            if steps == STEPS_BEFORE_SEEK && self.garbage.is_empty() {
                let target = key::InternalKey::new(key, SequenceNumber::MAX, ValueKind::FOR_SEEK);
                self.input.start(Some(target.as_bytes()));
                self.jumped = true;
                break;
            }
            // The entry that the filter was asked about has been counted.
            if steps > 0 {
                let kind = ValueKind::from_u8(key::packed(internal) as u8);
                count_blobs(&mut self.garbage, user, kind, self.input.value())?;
            }
            steps += 1;
            self.input.next();
        }
        Ok(())
    }

    /// Counts the blobs that the current entry, of `kind`, refers to.
    #[inline]
    fn count_blobs(&mut self, kind: ValueKind) -> Result<()> {
        count_blobs(
            &mut self.garbage,
            &self.user,
            Some(kind),
            self.input.value(),
        )
    }

    fn is_before(&self, user: &[u8], end: &[u8]) -> bool {
        self.rules.order.compare_without_timestamp(user, end) == Ordering::Less
    }

    /// MarkedTarget past the current entry, which was looked at.
    #[inline]
    fn advance(&mut self) {
        self.input.next();
    }

    /// Decides on the current entry, which nothing hides. `None` if it is not written; the input
    /// then stands on the next entry to look at.
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
                if self.may_zero_seq(stripe) && seq != SequenceNumber::ZERO {
                    self.rekey(SequenceNumber::ZERO, kind);
                    return Ok(Some(Out::Rekeyed));
                }
            }
            ValueKind::ValuePreferredSeqno | ValueKind::DeletionWithTimestamp => {
                self.decided = Some(stripe);
            }
            ValueKind::Deletion => {
                self.decided = Some(stripe);
                if self.is_droppable(stripe) {
                    self.count_obsolete();
                    self.advance();
                    return Ok(None);
                }
            }
            ValueKind::SingleDeletion if !self.timestamps => return self.take_single(seq, stripe),
            ValueKind::SingleDeletion => self.decided = Some(stripe),
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
        Ok(Some(Out::Input))
    }

    /// A deletion is not written, because nothing is left that it could hide.
    #[cold]
    fn count_obsolete(&mut self) {
        self.dropped.obsolete += 1;
        if !self.rules.bottommost {
            self.dropped.obsolete_early += 1;
        }
    }

    /// Makes `self.key` the key of the current entry with another number and kind.
    fn rekey(&mut self, seq: SequenceNumber, kind: ValueKind) {
        self.key.clear();
        key::append_internal(&mut self.key, &self.user, seq, kind);
    }

    /// The end of the stripe of `seq`: the oldest snapshot that sees it.
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
    fn is_oldest(&self, stripe: SequenceNumber) -> bool {
        self.rules
            .snapshots
            .first()
            .is_none_or(|&oldest| stripe == oldest)
    }

    /// True if a range tombstone of the same stripe covers an entry of the current key.
    #[inline]
    fn is_covered(&mut self, seq: SequenceNumber, stripe: SequenceNumber) -> bool {
        if self.rules.tombstones.is_empty() || self.timestamps {
            return false;
        }
        let (tombstones, order) = (&self.rules.tombstones, &self.rules.order);
        self.region = tombstones.region_near(order, self.region, &self.user);
        tombstones.newest(self.region, stripe) > seq
    }

    /// True if a value of `stripe` may get sequence number 0.
    #[inline]
    fn may_zero_seq(&self, stripe: SequenceNumber) -> bool {
        self.rules.bottommost && !self.timestamps && self.is_oldest(stripe)
    }

    /// True if a deletion of the current key in `stripe` hides nothing that is left.
    fn is_droppable(&mut self, stripe: SequenceNumber) -> bool {
        !self.timestamps && self.is_oldest(stripe) && !self.is_below()
    }

    /// True if something below the output may hold the current key.
    fn is_below(&mut self) -> bool {
        !self.rules.bottommost && self.rules.below.may_hold(&self.rules.order, &self.user)
    }

    /// The number and kind of the current entry, if it is of the current key and of `stripe`.
    fn same(&self, stripe: SequenceNumber) -> Result<Option<(SequenceNumber, ValueKind)>> {
        if !self.is_same_key() {
            return Ok(None);
        }
        let parsed = key::parse(self.input.key())
            .map_err(|malformed| malformed.in_file("an input of a compaction", 0))?;
        Ok((self.stripe(parsed.seq) == stripe).then_some((parsed.seq, parsed.kind)))
    }

    fn is_same_key(&self) -> bool {
        self.input.valid()
            && self
                .rules
                .order
                .compare(key::user_key(self.input.key()), &self.user)
                .is_eq()
    }

    /// A single deletion. It goes together with the value below it; above anything else, which it
    /// should not be, it does what a deletion does.
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
            // The next one, or the deletion below it, hides as much.
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
                // What is older goes on as if neither had been: a single deletion behind them
                // still has its own value to meet.
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

    /// Puts an entry of the current key together.
    fn make(&mut self, seq: SequenceNumber, kind: ValueKind, value: &[u8]) -> Made {
        let start = self.made.len();
        key::append_internal(&mut self.made, &self.user, seq, kind);
        let middle = self.made.len();
        self.made.extend_from_slice(value);
        Made {
            key: start..middle,
            value: middle..self.made.len(),
        }
    }

    /// Merge operands of one stripe, from the newest, which is the current entry, down to what
    /// they apply to.
    fn take_merge(
        &mut self,
        operator: &dyn MergeOperator,
        stripe: SequenceNumber,
    ) -> Result<Option<Out>> {
        let mut operands: Vec<Made> = Vec::new();
        let mut newest = None;
        let base = loop {
            let Some((seq, kind)) = self.same(stripe)? else {
                break match self.is_same_key() || self.is_below() || self.timestamps {
                    true => Base::Unknown,
                    false => Base::Nothing,
                };
            };
            if self.is_covered(seq, stripe) {
                break Base::Nothing;
            }
            match kind {
                ValueKind::Merge => {
                    let changed = match self.rule_operand(seq)? {
                        Ruling::SkipUntil(key) => {
                            self.skip_until(&key)?;
                            return Ok(None);
                        }
                        Ruling::Remove => {
                            self.advance();
                            continue;
                        }
                        Ruling::Change(_, value) => Some(value),
                        Ruling::Keep => None,
                    };
                    newest = newest.or(Some(seq));
                    let value = changed.as_deref().unwrap_or_else(|| self.input.value());
                    let start = self.made.len();
                    key::append_internal(&mut self.made, &self.user, seq, kind);
                    let middle = self.made.len();
                    self.made.extend_from_slice(value);
                    operands.push(Made {
                        key: start..middle,
                        value: middle..self.made.len(),
                    });
                    self.advance();
                }
                ValueKind::Value => break Base::Value,
                ValueKind::BlobIndex if self.blobs.is_some() => break Base::Blob,
                ValueKind::WideColumnEntity if self.blobs.is_some() => break Base::Entity,
                ValueKind::Deletion
                | ValueKind::SingleDeletion
                | ValueKind::DeletionWithTimestamp => break Base::Nothing,
                // What these amount to is for the read path to say; the operands stay above them.
                _ => break Base::Kept,
            }
        };
        let Some(seq) = newest else {
            // The filter has dropped all operands: what is below them comes as if it were first.
            self.newest = self.is_same_key();
            return Ok(None);
        };
        let merged = match base {
            Base::Value | Base::Nothing | Base::Blob | Base::Entity => {
                let (kind, value) = self.merge_into(&base, operator, &operands)?;
                self.decided = Some(stripe);
                let seq = if self.may_zero_seq(stripe) {
                    SequenceNumber::ZERO
                } else {
                    seq
                };
                Some((seq, kind, value))
            }
            Base::Unknown if operands.len() > 1 => self
                .partial_merge(operator, &operands)
                .map(|operand| (seq, ValueKind::Merge, operand)),
            Base::Unknown | Base::Kept => None,
        };
        match merged {
            Some((seq, kind, value)) => {
                let made = self.make(seq, kind, &value);
                Ok(Some(Out::Made(made)))
            }
            None => {
                self.queue.extend(operands);
                Ok(self.queue.pop_front().map(Out::Made))
            }
        }
    }

    /// The filter's decision about the operand that is the current entry. Snapshots keep theirs.
    fn rule_operand(&self, seq: SequenceNumber) -> Result<Ruling> {
        match &self.rules.filter {
            Some(filter) if self.rules.snapshots.last().is_none_or(|&last| seq > last) => {
                let ruling = filter.rule_operand(&self.user, self.input.value())?;
                Ok(self.without_empty_skip(ruling))
            }
            _ => Ok(Ruling::Keep),
        }
    }

    /// The value of `operands` over `base`, the current entry.
    fn merge_into(
        &mut self,
        base: &Base,
        operator: &dyn MergeOperator,
        operands: &[Made],
    ) -> Result<(ValueKind, Vec<u8>)> {
        let mut blobs = self.blobs.take();
        let existing = match base {
            // The input may have ended.
            Base::Nothing => &[],
            _ => self.input.value(),
        };
        let merge = |existing: Option<&[u8]>| self.full_merge(operator, existing, operands);
        let merged = match (base, &mut blobs) {
            (Base::Blob, Some(blobs)) => blobs
                .read_encoded(existing, &self.user)
                .and_then(|value| merge(Some(&value)))
                .map(|value| (ValueKind::Value, value)),
            (Base::Entity, Some(blobs)) => {
                let merge = |column: Option<&[u8]>| match self.rules.dated {
                    true => undated_merge(column, merge),
                    false => merge(column),
                };
                entity_merge::merge(existing, &self.user, blobs, merge)
                    .map(|entity| (ValueKind::WideColumnEntity, entity))
            }
            (Base::Value, _) => merge(Some(existing)).map(|value| (ValueKind::Value, value)),
            _ => merge(None).map(|value| (ValueKind::Value, value)),
        };
        self.blobs = blobs;
        merged
    }

    /// `operands`, oldest first.
    fn oldest_first<'a>(&'a self, operands: &[Made]) -> Vec<&'a [u8]> {
        let operands = operands.iter().rev();
        operands
            .map(|operand| &self.made[operand.value.clone()])
            .collect()
    }

    fn full_merge(
        &self,
        operator: &dyn MergeOperator,
        existing: Option<&[u8]>,
        operands: &[Made],
    ) -> Result<Vec<u8>> {
        let key = key::strip_timestamp(&self.user, self.rules.order.timestamp_size());
        let operands = self.oldest_first(operands);
        let input = MergeInput {
            key,
            existing,
            operands: &operands,
        };
        let merged = self.timed_merge(|| operator.full_merge(&input));
        merged.ok_or_else(|| {
            self.rules.meter.add(Ticker::NumberMergeFailures, 1);
            let text = format!("merge operator {} refuses its operands", operator.name());
            Error::new(Code::Corruption, Subcode::MergeOperatorFailed, text)
        })
    }

    fn partial_merge(&self, operator: &dyn MergeOperator, operands: &[Made]) -> Option<Vec<u8>> {
        let key = key::strip_timestamp(&self.user, self.rules.order.timestamp_size());
        let operands = self.oldest_first(operands);
        self.timed_merge(|| operator.partial_merge(key, &operands))
    }

    /// The result of the merge operator, whose time is measured.
    fn timed_merge<T>(&self, merge: impl FnOnce() -> T) -> T {
        let began = self.rules.meter.began();
        let merged = merge();
        if let Some(nanos) = self.rules.meter.nanos_since(began) {
            self.merging.set(self.merging.get() + nanos);
        }
        merged
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

/// Counts the blobs that an entry of an input refers to.
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

/// The result of `merge`, which expects a date and makes one, for a column, which has none.
fn undated_merge(
    column: Option<&[u8]>,
    merge: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let dated = column.map(|column| [column, &dated::encode(0)].concat());
    let mut merged = merge(dated.as_deref())?;
    merged.truncate(merged.len().saturating_sub(dated::DATE_LEN));
    Ok(merged)
}

/// The base that merge operands apply to.
enum Base {
    /// The value that the input stands on.
    Value,
    /// The blob that the entry refers to which the input stands on.
    Blob,
    /// The default column of the entity that the input stands on.
    Entity,
    /// Nothing: it is deleted, or there is no older entry anywhere.
    Nothing,
    /// Something in another stripe, or below the output.
    Unknown,
    /// Something that is written as it is.
    Kept,
}
