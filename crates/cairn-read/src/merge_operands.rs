//! Application of merge operands to their base value.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cairn_format::key;
use cairn_observe::statistics::{Began, Ticker};
use cairn_types::{Code, Error, MergeInput, MergeOperator, MergeResult, Result, Subcode};

use crate::columns::merge_default;
use crate::view::Reading;

/// The base value of a merge.
#[derive(Clone, Copy, Debug)]
pub enum Below<'a> {
    /// No value, or a deletion.
    Nothing,
    /// A plain value.
    Value(&'a [u8]),
    /// An encoded wide-column entity; operands apply to its default column.
    Entity(&'a [u8]),
}

/// The result of a merge: a plain value, or an encoded entity if the base was one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// A plain value.
    Value(Vec<u8>),
    /// An encoded entity.
    Entity(Vec<u8>),
}

/// The result of a merge for a point read.
pub(crate) enum MergedForRead {
    Value(MergeResult),
    Entity(Vec<u8>),
}

/// Merges `operands`, oldest first, of `user_key` (including its timestamp) into the base value
/// `below`.
///
/// # Errors
///
/// `InvalidArgument` if the family has no merge operator, `Corruption` (`MergeOperatorFailed`) if
/// the operator fails, `Aborted` if it panics, `Corruption` if the entity cannot be decoded.
pub fn full_merge(
    reading: &Reading,
    user_key: &[u8],
    below: Below<'_>,
    operands: &[&[u8]],
) -> Result<Merged> {
    let merge = Merge::new(reading, user_key, operands)?;
    let run =
        |existing: Option<&[u8]>| merge.run(existing, |operator, input| operator.full_merge(input));
    match below {
        Below::Nothing => run(None).map(Merged::Value),
        Below::Value(value) => run(Some(value)).map(Merged::Value),
        Below::Entity(entity) => merge_default(entity, run).map(Merged::Entity),
    }
}

/// [`full_merge`] for a point read, whose result may remain in memory of the operator.
///
/// # Errors
///
/// Those of [`full_merge`].
pub(crate) fn full_merge_for_read(
    reading: &Reading,
    user_key: &[u8],
    below: Below<'_>,
    operands: &[&[u8]],
) -> Result<MergedForRead> {
    let existing = match below {
        Below::Nothing => None,
        Below::Value(value) => Some(value),
        Below::Entity(_) => {
            return full_merge(reading, user_key, below, operands).map(|merged| match merged {
                Merged::Value(value) => MergedForRead::Value(MergeResult::Owned(value)),
                Merged::Entity(entity) => MergedForRead::Entity(entity),
            });
        }
    };
    let merge = Merge::new(reading, user_key, operands)?;
    let run = merge.run(existing, |operator, input| {
        operator.full_merge_for_read(input)
    });
    run.map(MergedForRead::Value)
}

/// A merge of one key.
struct Merge<'a> {
    reading: &'a Reading,
    operator: &'a dyn MergeOperator,
    /// Without its timestamp.
    key: &'a [u8],
    operands: &'a [&'a [u8]],
}

impl<'a> Merge<'a> {
    fn new(
        reading: &'a Reading,
        user_key: &'a [u8],
        operands: &'a [&'a [u8]],
    ) -> Result<Merge<'a>> {
        let Some(operator) = &reading.merge_operator else {
            return Err(Error::invalid_argument(format!(
                "column family {:?} has merge operands, but no merge operator is set",
                reading.family
            )));
        };
        Ok(Merge {
            reading,
            operator: &**operator,
            key: key::strip_timestamp(user_key, reading.order.timestamp_size()),
            operands,
        })
    }

    /// Calls the operator by `call`.
    fn run<T>(
        &self,
        existing: Option<&[u8]>,
        call: impl FnOnce(&dyn MergeOperator, &MergeInput<'_>) -> Option<T>,
    ) -> Result<T> {
        let (reading, operator) = (self.reading, self.operator);
        let input = MergeInput {
            key: self.key,
            existing,
            operands: self.operands,
        };
        let began = reading.began();
        // A panic of the operator fails the operation that needed the value.
        let merged = catch_unwind(AssertUnwindSafe(|| call(operator, &input)));
        let merged = merged.map_err(|_| {
            Error::panicked(format!(
                "merge operator {} panicked in column family {:?}",
                operator.name(),
                reading.family
            ))
        });
        count_merge(reading, began, !matches!(merged, Ok(Some(_))));
        let merged = merged?;
        merged.ok_or_else(|| {
            Error::new(
                Code::Corruption,
                Subcode::MergeOperatorFailed,
                format!(
                    "merge operator {} failed on {} operands in column family {:?}",
                    operator.name(),
                    self.operands.len(),
                    reading.family
                ),
            )
        })
    }
}

/// Records a call of the merge operator in the statistics.
fn count_merge(reading: &Reading, began: Began, failed: bool) {
    let nanos = began.nanos(&*reading.clock);
    if let Some(statistics) = &reading.statistics
        && (failed || nanos.is_some())
    {
        statistics.update(|update| {
            update.add(Ticker::NumberMergeFailures, u64::from(failed));
            update.add(Ticker::MergeOperationTotalTime, nanos.unwrap_or(0));
        });
    }
}
