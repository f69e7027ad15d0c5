//! Application of merge operands to their base value.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cairn_format::key;
use cairn_observe::statistics::{Began, Ticker};
use cairn_types::{Code, Error, MergeInput, Result, Subcode};

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

/// Merges `operands`, oldest first, of `user_key` (including its timestamp) into the base value
/// `below`.
///
/// # Errors
///
/// `MergeInProgress` if the family has no merge operator, `Corruption` (`MergeOperatorFailed`) if
/// the operator fails, `Aborted` if it panics, `Corruption` if the entity cannot be decoded.
pub fn full_merge(
    reading: &Reading,
    user_key: &[u8],
    below: Below<'_>,
    operands: &[&[u8]],
) -> Result<Merged> {
    let Some(operator) = &reading.merge_operator else {
        return Err(Error::new(
            Code::MergeInProgress,
            Subcode::None,
            format!(
                "column family {:?} has merge operands, but no merge operator is set",
                reading.family
            ),
        ));
    };
    let key = key::strip_timestamp(user_key, reading.order.timestamp_size());
    let merge = |existing: Option<&[u8]>| {
        let input = MergeInput {
            key,
            existing,
            operands,
        };
        let began = reading.began();
        // A panic of the operator fails the operation that needed the value.
        let merged = catch_unwind(AssertUnwindSafe(|| operator.full_merge(&input)));
        let merged = merged.map_err(|_| {
            Error::aborted(format!(
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
                    operands.len(),
                    reading.family
                ),
            )
        })
    };
    match below {
        Below::Nothing => merge(None).map(Merged::Value),
        Below::Value(value) => merge(Some(value)).map(Merged::Value),
        Below::Entity(entity) => merge_default(entity, merge).map(Merged::Entity),
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
