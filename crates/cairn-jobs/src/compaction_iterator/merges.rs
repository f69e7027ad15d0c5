//! Merge operands: those of a stripe are merged with the entry below them, or with each other.

use cairn_format::{dated, key};
use cairn_observe::statistics::Ticker;
use cairn_types::{
    Code, Error, MergeInput, MergeOperator, Result, SequenceNumber, Subcode, ValueKind,
};

use super::{CompactionIterator, Made, Out, push_stripped};
use crate::entity_merge;
use crate::filter::Ruling;
use crate::sorted_runs::Run;

/// The base of merge operands.
enum Base {
    /// The current value of the input.
    Value,
    /// The blob of the current entry of the input.
    Blob,
    /// The default column of the current entity of the input.
    Entity,
    /// None: the key is deleted or has no older entry.
    Nothing,
    /// Unknown: in another stripe, or below the output.
    Unknown,
    /// An entry that is written unchanged.
    Kept,
}

impl<R: Run> CompactionIterator<R> {
    /// Handles the merge operands of one stripe, from the current entry (the newest) down to their
    /// base.
    pub(super) fn take_merge(
        &mut self,
        operator: &dyn MergeOperator,
        stripe: SequenceNumber,
    ) -> Result<Option<Out>> {
        debug_assert!(
            self.decided != Some(stripe),
            "operands of a decided stripe are shadowed"
        );
        debug_assert!(self.queue.is_empty(), "earlier operands are returned first");
        let mut operands: Vec<Made> = Vec::new();
        let mut newest = None;
        let base = loop {
            let Some((seq, kind)) = self.same(stripe)? else {
                break match self.is_same_key() || self.is_below() || !self.is_collapsible() {
                    true => Base::Unknown,
                    false => Base::Nothing,
                };
            };
            if self.is_covered(seq, stripe) {
                break Base::Nothing;
            }
            if !operands.is_empty() && self.is_covered_for_some(seq, stripe) {
                break Base::Kept;
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
                    operands.push(self.copy_operand(seq, changed.as_deref()));
                    self.advance();
                }
                ValueKind::Value => break Base::Value,
                ValueKind::BlobIndex if self.blobs.is_some() => break Base::Blob,
                ValueKind::WideColumnEntity if self.blobs.is_some() => break Base::Entity,
                ValueKind::Deletion
                | ValueKind::SingleDeletion
                | ValueKind::DeletionWithTimestamp => break Base::Nothing,
                // The operands stay above the entry, and the read path determines the result.
                _ => break Base::Kept,
            }
        };
        let Some(seq) = newest else {
            // The filter dropped all operands: the entry below them becomes the newest of its key.
            self.newest = self.is_same_key();
            return Ok(None);
        };
        debug_assert!(!operands.is_empty());
        let merged = match base {
            Base::Value | Base::Nothing | Base::Blob | Base::Entity => {
                let (kind, value) = self.merge_into(&base, operator, &operands)?;
                self.decided = Some(stripe);
                if self.may_zero_seq(stripe, seq) {
                    let made = self.make_zeroed(kind, &value);
                    return Ok(Some(Out::Made(made)));
                }
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

    /// Copies the current operand, with the value that a filter has `changed`.
    fn copy_operand(&mut self, seq: SequenceNumber, changed: Option<&[u8]>) -> Made {
        let value = changed.unwrap_or_else(|| self.input.value());
        let start = self.made.len();
        // The key of the entry: an older version has another timestamp than the current key.
        let user = key::user_key(self.input.key());
        let (size, kind) = (self.timestamps.size, ValueKind::Merge);
        match self.rules.history.strips() {
            true => push_stripped(&mut self.made, user, size, seq, kind),
            false => key::append_internal(&mut self.made, user, seq, kind),
        }
        let middle = self.made.len();
        self.made.extend_from_slice(value);
        Made {
            key: start..middle,
            value: middle..self.made.len(),
        }
    }

    /// Returns the filter's decision about the current operand. Operands visible to snapshots are kept.
    fn rule_operand(&self, seq: SequenceNumber) -> Result<Ruling> {
        match &self.rules.filter {
            Some(filter) if self.rules.snapshots.last().is_none_or(|&last| seq > last) => {
                let ruling = filter.rule_operand(&self.user, self.input.value())?;
                Ok(self.without_empty_skip(ruling))
            }
            _ => Ok(Ruling::Keep),
        }
    }

    /// Merges `operands` with `base`, the current entry.
    fn merge_into(
        &mut self,
        base: &Base,
        operator: &dyn MergeOperator,
        operands: &[Made],
    ) -> Result<(ValueKind, Vec<u8>)> {
        let mut blobs = self.blobs.take();
        let existing = match base {
            // The input may be at its end.
            Base::Nothing => &[],
            _ => self.input.value(),
        };
        // A blob has the key of its entry: that of an older version has another timestamp than the current key.
        let owner = match base {
            Base::Blob | Base::Entity => key::user_key(self.input.key()),
            _ => &self.user,
        };
        let merge = |existing: Option<&[u8]>| self.full_merge(operator, existing, operands);
        let merged = match (base, &mut blobs) {
            (Base::Blob, Some(blobs)) => blobs
                .read_encoded(existing, owner)
                .and_then(|value| merge(Some(&value)))
                .map(|value| (ValueKind::Value, value)),
            (Base::Entity, Some(blobs)) => {
                let merge = |column: Option<&[u8]>| match self.rules.dated {
                    true => undated_merge(column, merge),
                    false => merge(column),
                };
                entity_merge::merge(existing, owner, blobs, merge)
                    .map(|entity| (ValueKind::WideColumnEntity, entity))
            }
            (Base::Value, _) => merge(Some(existing)).map(|value| (ValueKind::Value, value)),
            _ => merge(None).map(|value| (ValueKind::Value, value)),
        };
        self.blobs = blobs;
        merged
    }

    /// Returns `operands`, oldest first.
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
            let text = format!("merge operator {} failed", operator.name());
            Error::new(Code::Corruption, Subcode::MergeOperatorFailed, text)
        })
    }

    fn partial_merge(&self, operator: &dyn MergeOperator, operands: &[Made]) -> Option<Vec<u8>> {
        let key = key::strip_timestamp(&self.user, self.rules.order.timestamp_size());
        let operands = self.oldest_first(operands);
        self.timed_merge(|| operator.partial_merge(key, &operands))
    }

    /// Runs the merge operator and measures its time.
    fn timed_merge<T>(&self, merge: impl FnOnce() -> T) -> T {
        let began = self.rules.meter.began();
        let merged = merge();
        if let Some(nanos) = self.rules.meter.nanos_since(began) {
            self.merging.set(self.merging.get() + nanos);
        }
        merged
    }
}

/// Runs `merge`, which expects and returns a timestamped value, on a column without a timestamp.
fn undated_merge(
    column: Option<&[u8]>,
    merge: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let dated = column.map(|column| [column, &dated::encode(0)].concat());
    let mut merged = merge(dated.as_deref())?;
    merged.truncate(merged.len().saturating_sub(dated::DATE_LEN));
    Ok(merged)
}
