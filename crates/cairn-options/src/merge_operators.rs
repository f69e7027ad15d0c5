//! RocksDB's own merge operators, under the names that its files record.
//!
//! | option text | recorded name | full merge |
//! |---|---|---|
//! | `uint64add` | `UInt64AddOperator` | sum of little-endian 64-bit numbers, wrapping |
//! | `put`, `put_v1` | `PutOperator` | the newest operand |
//! | `max` | `MaxOperator` | the greatest in byte order |
//! | `stringappend` | `StringAppendOperator` | all, joined by a delimiter |
//! | `stringappendtest` | `StringAppendTESTOperator` | the same, never combined before the value is known |
//! | `sortlist` | `MergeSortOperator` | sorted lists of numbers, `1,5,9`, merged |
//! | `bytesxor` | `BytesXOR` | exclusive or, with the shorter value padded with zeros |

use std::sync::Arc;

use cairn_format::options_text::{from_bytes, to_bytes};
use cairn_types::{MergeInput, MergeOperator};

use crate::object_registry;
use crate::text::{Refusal, Text, object};

/// Returns the operator for an option text: a short name, a recorded name, or
/// `{id=NAME;delimiter=...}`.
///
/// # Errors
///
/// If the operator or property is unknown.
pub fn from_text(text: &str) -> Result<Arc<dyn MergeOperator>, Refusal> {
    let (name, properties) = object(text)?;
    let mut delimiter = b",".to_vec();
    for (property, value) in properties {
        match property {
            "delimiter" | "delim" => delimiter = to_bytes(&String::parse(value)?).into_owned(),
            _ => return Err(format!("{property} is not a property of a merge operator")),
        }
    }
    from_name(name, &delimiter)
}

fn from_name(name: &str, delimiter: &[u8]) -> Result<Arc<dyn MergeOperator>, Refusal> {
    Ok(match name {
        "uint64add" | "UInt64AddOperator" => Arc::new(UInt64Add),
        "put" | "put_v1" | "PutOperator" => Arc::new(Put),
        "max" | "MaxOperator" => Arc::new(Max),
        "stringappend" | "StringAppendOperator" => Arc::new(StringAppend::new(delimiter)),
        "stringappendtest" | "StringAppendTESTOperator" => {
            Arc::new(StringAppendTest(StringAppend::new(delimiter)))
        }
        "sortlist" | "MergeSortOperator" => Arc::new(SortList),
        "bytesxor" | "BytesXOR" => Arc::new(BytesXor),
        _ => {
            return object_registry::merge_operator(name).ok_or_else(|| {
                "no merge operator has this name; register it or set it in code".to_owned()
            });
        }
    })
}

/// Returns the built-in operator that files record as `name`.
#[must_use]
pub fn from_recorded_name(name: &str) -> Option<Arc<dyn MergeOperator>> {
    from_name(name, b",")
        .ok()
        .filter(|found| found.name() == name)
}

/// Returns the existing value and the operands, oldest first.
fn stacked<'a>(input: &MergeInput<'a>) -> impl Iterator<Item = &'a [u8]> + Clone {
    input
        .existing
        .into_iter()
        .chain(input.operands.iter().copied())
}

/// Adds little-endian 64-bit numbers, wrapping. Values of another length count as 0.
pub struct UInt64Add;

impl UInt64Add {
    fn sum<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let sum = values.fold(0u64, |sum, bytes| sum.wrapping_add(number(bytes)));
        sum.to_le_bytes().to_vec()
    }
}

impl MergeOperator for UInt64Add {
    fn name(&self) -> &str {
        "UInt64AddOperator"
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        Some(UInt64Add::sum(stacked(input)))
    }

    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(UInt64Add::sum(operands.iter().copied()))
    }
}

/// Keeps the newest operand.
pub struct Put;

impl MergeOperator for Put {
    fn name(&self) -> &str {
        "PutOperator"
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        input.operands.last().map(|newest| newest.to_vec())
    }

    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        operands.last().map(|newest| newest.to_vec())
    }
}

/// Keeps the bytewise greatest value.
pub struct Max;

impl MergeOperator for Max {
    fn name(&self) -> &str {
        "MaxOperator"
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        Some(stacked(input).max().unwrap_or_default().to_vec())
    }

    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        operands.iter().max().map(|greatest| greatest.to_vec())
    }
}

/// Joins values with a delimiter.
pub struct StringAppend {
    delimiter: Vec<u8>,
}

impl StringAppend {
    /// Creates an operator with this delimiter, which may be any bytes.
    #[must_use]
    pub fn new(delimiter: impl Into<Vec<u8>>) -> StringAppend {
        StringAppend {
            delimiter: delimiter.into(),
        }
    }

    /// Joins values into a buffer that is allocated once: with long values, a growing buffer would
    /// be copied or remapped repeatedly.
    fn join<'a>(&self, values: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
        let len = |value: &[u8]| value.len() + self.delimiter.len();
        let mut joined = Vec::with_capacity(values.clone().map(len).sum());
        for (at, value) in values.enumerate() {
            if at > 0 {
                joined.extend_from_slice(&self.delimiter);
            }
            joined.extend_from_slice(value);
        }
        joined
    }

    fn text_of(&self, name: &str) -> String {
        let delimiter = from_bytes(&self.delimiter).into_owned();
        format!("{{id={name};delimiter={};}}", delimiter.print())
    }
}

impl MergeOperator for StringAppend {
    fn name(&self) -> &str {
        "StringAppendOperator"
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        Some(self.join(stacked(input)))
    }

    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(self.join(operands.iter().copied()))
    }

    fn option_text(&self) -> String {
        self.text_of(self.name())
    }
}

/// Joins values with a delimiter, without partial merges.
pub struct StringAppendTest(StringAppend);

impl MergeOperator for StringAppendTest {
    fn name(&self) -> &str {
        "StringAppendTESTOperator"
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        self.0.full_merge(input)
    }

    fn option_text(&self) -> String {
        self.0.text_of(self.name())
    }
}

/// Merges sorted lists of 32-bit numbers, written `1,5,9`. The existing value is ignored, as in
/// RocksDB.
pub struct SortList;

impl SortList {
    fn numbers(list: &[u8]) -> Option<Vec<i32>> {
        let texts = std::str::from_utf8(list).ok()?.split(',');
        texts.map(|text| text.trim_start().parse().ok()).collect()
    }

    /// Merges two lists. Unsorted lists are merged as if they were sorted, as in RocksDB.
    fn merge_two(left: &[i32], right: &[i32]) -> Vec<i32> {
        let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
        let mut merged = Vec::with_capacity(left.len() + right.len());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            merged.extend(if a < b { left.next() } else { right.next() });
        }
        merged.extend(left.chain(right));
        merged
    }

    fn merge<'a>(mut lists: impl Iterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
        let merged = lists.try_fold(Vec::new(), |merged, list| {
            Some(SortList::merge_two(&merged, &SortList::numbers(list)?))
        })?;
        let texts: Vec<String> = merged.iter().map(i32::to_string).collect();
        Some(texts.join(",").into_bytes())
    }
}

impl MergeOperator for SortList {
    fn name(&self) -> &str {
        "MergeSortOperator"
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        SortList::merge(input.operands.iter().copied())
    }

    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        SortList::merge(operands.iter().copied())
    }
}

/// Exclusive or of bytes; the shorter value is padded with zeros.
pub struct BytesXor;

impl BytesXor {
    fn xor<'a>(values: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
        values.fold(Vec::new(), |mut folded, value| {
            if folded.len() < value.len() {
                folded.resize(value.len(), 0);
            }
            folded
                .iter_mut()
                .zip(value)
                .for_each(|(byte, other)| *byte ^= other);
            folded
        })
    }
}

impl MergeOperator for BytesXor {
    fn name(&self) -> &str {
        "BytesXOR"
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        Some(BytesXor::xor(stacked(input)))
    }

    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        Some(BytesXor::xor(operands.iter().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(name: &str, existing: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        let operator = from_text(name).unwrap();
        operator.full_merge(&MergeInput {
            key: b"k",
            existing,
            operands,
        })
    }

    #[test]
    fn numbers_are_added_and_malformed_values_count_as_zero() {
        let one = 1u64.to_le_bytes();
        assert_eq!(
            merged("uint64add", Some(&one), &[&one, b"xx"]),
            Some(2u64.to_le_bytes().to_vec())
        );
    }

    #[test]
    fn an_empty_value_is_followed_by_a_delimiter() {
        assert_eq!(
            merged("stringappend", Some(b""), &[b"a", b"b"]),
            Some(b",a,b".to_vec())
        );
        assert_eq!(
            merged("stringappend", None, &[b"a", b"b"]),
            Some(b"a,b".to_vec())
        );
        assert_eq!(
            merged(
                "{id=StringAppendOperator;delimiter=|;}",
                None,
                &[b"a", b"b"]
            ),
            Some(b"a|b".to_vec())
        );
    }

    /// Regression: a delimiter that is not UTF-8 separates values as its bytes.
    #[test]
    fn delimiters_may_be_any_bytes() {
        let text = from_bytes(b"{id=StringAppendOperator;delimiter=\xff\xc3;}").into_owned();
        assert_eq!(
            merged(&text, None, &[b"a", b"b"]),
            Some(b"a\xff\xc3b".to_vec())
        );
        assert_eq!(from_text(&text).unwrap().option_text(), text);
    }

    #[test]
    fn joined_values_are_allocated_once() {
        let operands: Vec<Vec<u8>> = (0..300).map(|n| vec![b'x'; n]).collect();
        let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        for existing in [None, Some(&b"below"[..])] {
            let joined = merged("stringappend", existing, &operands).unwrap();
            // At most one delimiter of excess capacity; a growing buffer would have more.
            assert!(joined.capacity() <= joined.len() + 1);
        }
    }

    #[test]
    fn other_operators_follow_their_names() {
        assert_eq!(
            merged("put", Some(b"x"), &[b"a", b"b"]),
            Some(b"b".to_vec())
        );
        assert_eq!(
            merged("max", Some(b"b"), &[b"a", b"c"]),
            Some(b"c".to_vec())
        );
        assert_eq!(
            merged("sortlist", None, &[b"1,5", b"3"]),
            Some(b"1,3,5".to_vec())
        );
        assert_eq!(
            merged("sortlist", None, &[b"5,1", b"3"]),
            Some(b"3,5,1".to_vec())
        );
        assert_eq!(merged("sortlist", None, &[b"1,x"]), None);
        assert_eq!(
            merged("bytesxor", Some(b"\x01"), &[b"\x03\x04"]),
            Some(b"\x02\x04".to_vec())
        );
    }

    #[test]
    fn operators_round_trip_through_text() {
        for name in [
            "uint64add",
            "put",
            "max",
            "stringappend",
            "stringappendtest",
            "sortlist",
            "bytesxor",
        ] {
            let operator = from_text(name).unwrap();
            assert_eq!(
                from_text(&operator.option_text()).unwrap().name(),
                operator.name()
            );
            assert!(from_recorded_name(operator.name()).is_some());
        }
        assert!(from_text("nosuch").is_err());
        assert!(from_text("{id=max;delimiter").is_err());
        assert!(from_recorded_name("max").is_none());
    }
}
