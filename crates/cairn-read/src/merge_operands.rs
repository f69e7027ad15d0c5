//! Applying merge operands, and what may lie below them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cairn_format::key;
use cairn_observe::statistics::{Began, Ticker};
use cairn_types::{Code, Error, MergeInput, Result, Subcode};

use crate::columns::merge_default;
use crate::view::Reading;

/// The base that operands are merged into.
#[derive(Clone, Copy, Debug)]
pub enum Below<'a> {
    /// Nothing, or something deleted.
    Nothing,
    /// A plain value.
    Value(&'a [u8]),
    /// An encoded entity; operands apply to its default column.
    Entity(&'a [u8]),
}

/// The result of a merge: a plain value, or an encoded entity if one lay below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// A plain value.
    Value(Vec<u8>),
    /// An encoded entity.
    Entity(Vec<u8>),
}

/// Merges `operands` (oldest first) of `user_key` (timestamp included) into what lies below them.
///
/// # Errors
///
/// `MergeInProgress` if the family has no merge operator, `Corruption` (merge operator failed) if
/// the operator refuses its input, `Aborted` if it panics, `Corruption` if the entity below cannot be decoded.
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
                "column family {:?} holds merge operands and no merge operator was given",
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
        // A panic of the operator is an error of what needed the value.
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
                    "merge operator {} refused {} operands in column family {:?}",
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

/// A merge operator was called.
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
