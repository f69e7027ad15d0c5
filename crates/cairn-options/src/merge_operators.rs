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
//! | `bytesxor` | `BytesXOR` | exclusive or, the shorter padded with zeros |

use std::sync::Arc;

use cairn_types::{MergeInput, MergeOperator};

use crate::object_registry;
use crate::text::{Refusal, Text, object};

/// The operator that an option text names: a short name, a recorded name, or
/// `{id=NAME;delimiter=...}`.
///
/// # Errors
///
/// There is no operator of that name, or it has no such property.
pub fn from_text(text: &str) -> Result<Arc<dyn MergeOperator>, Refusal> {
    let (name, properties) = object(text)?;
    let mut delimiter = ",".to_owned();
    for (property, value) in properties {
        match property {
            "delimiter" | "delim" => delimiter = String::parse(value)?,
            _ => return Err(format!("{property} is no property of a merge operator")),
        }
    }
    from_name(name, &delimiter)
}

fn from_name(name: &str, delimiter: &str) -> Result<Arc<dyn MergeOperator>, Refusal> {
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

/// The operator that files record under `name`, if it is one of RocksDB's own.
#[must_use]
pub fn from_recorded_name(name: &str) -> Option<Arc<dyn MergeOperator>> {
    from_name(name, ",")
        .ok()
        .filter(|found| found.name() == name)
}

/// All values that `input` stacks up, the oldest first.
fn stacked<'a>(input: &MergeInput<'a>) -> impl Iterator<Item = &'a [u8]> + Clone {
    input
        .existing
        .into_iter()
        .chain(input.operands.iter().copied())
}

/// Adds little-endian 64-bit numbers, wrapping. Anything that is not 8 bytes long counts as 0.
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

/// Keeps the newest operand, as a put does.
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

/// Keeps the greatest, in byte order.
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

/// Joins with a delimiter.
pub struct StringAppend {
    delimiter: String,
}

impl StringAppend {
    /// Joins with `delimiter`.
    #[must_use]
    pub fn new(delimiter: &str) -> StringAppend {
        StringAppend {
            delimiter: delimiter.to_owned(),
        }
    }

    /// The values one after the other, in memory that is taken at once: they may be long, and memory that grows is
    /// copied, or taken from the system page by page, again and again.
    fn join<'a>(&self, values: impl Iterator<Item = &'a [u8]> + Clone) -> Vec<u8> {
        let len = |value: &[u8]| value.len() + self.delimiter.len();
        let mut joined = Vec::with_capacity(values.clone().map(len).sum());
        for (at, value) in values.enumerate() {
            if at > 0 {
                joined.extend_from_slice(self.delimiter.as_bytes());
            }
            joined.extend_from_slice(value);
        }
        joined
    }

    fn text_of(&self, name: &str) -> String {
        format!("{{id={name};delimiter={};}}", self.delimiter.print())
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

/// Joins with a delimiter, but leaves operands apart until the value below them is known.
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

/// Merges sorted lists of 32-bit numbers, written `1,5,9`. The value below the operands is left
/// out, as RocksDB's operator of this name does.
pub struct SortList;

impl SortList {
    fn numbers(list: &[u8]) -> Option<Vec<i32>> {
        let texts = std::str::from_utf8(list).ok()?.split(',');
        texts.map(|text| text.trim_start().parse().ok()).collect()
    }

    /// One list from two. Lists that are not sorted are merged as if they were, which shows in
    /// the result, as it does in RocksDB's.
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

/// Exclusive or, byte by byte; the shorter one is padded with zeros.
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
    fn numbers_add_up_and_what_is_no_number_counts_as_zero() {
        let one = 1u64.to_le_bytes();
        assert_eq!(
            merged("uint64add", Some(&one), &[&one, b"xx"]),
            Some(2u64.to_le_bytes().to_vec())
        );
    }

    #[test]
    fn an_empty_value_still_gets_a_delimiter_behind_it() {
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

    #[test]
    fn joined_values_take_their_memory_at_once() {
        let operands: Vec<Vec<u8>> = (0..300).map(|n| vec![b'x'; n]).collect();
        let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        for existing in [None, Some(&b"below"[..])] {
            let joined = merged("stringappend", existing, &operands).unwrap();
            // Room for one more delimiter; memory that grew would have more.
            assert!(joined.capacity() <= joined.len() + 1);
        }
    }

    #[test]
    fn the_others_do_what_their_names_say() {
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
    fn texts_lead_back_to_their_operator() {
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
