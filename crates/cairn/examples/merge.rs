//! Merge operators: updates without a read.
//!
//! `cargo run -p cairn --example merge`

use std::sync::Arc;

use cairn::{
    Code, Db, GetMergeOperandsOptions, MergeInput, MergeOperator, Options, ReadOptions, Subcode,
};

/// Adds little-endian numbers.
struct Sum;

/// The number in `bytes`, if they encode one.
fn number(bytes: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.as_array()?))
}

impl MergeOperator for Sum {
    fn name(&self) -> &str {
        "example.Sum"
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        let mut sum = input.existing.map_or(Some(0), number)?;
        for operand in input.operands {
            sum = sum.wrapping_add(number(operand)?);
        }
        Some(sum.to_le_bytes().to_vec())
    }

    /// Operands can be added before the value is known.
    fn partial_merge(&self, _key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let numbers = operands.iter().map(|operand| number(operand));
        let sum = numbers.sum::<Option<u64>>()?;
        Some(sum.to_le_bytes().to_vec())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let mut options = Options::default().create_if_missing(true);
    options.family.merge_operator = Some(Arc::new(Sum));
    let db = Db::open(dir.path(), &options)?;

    for _ in 0..10 {
        db.merge(b"visits", &7_u64.to_le_bytes())?;
    }
    db.flush()?;
    let visits = db.get(b"visits")?.ok_or("the key has operands")?;
    assert_eq!(number(&visits), Some(70));

    // The operands themselves, without the operator and without a copy: the newest three here.
    for n in 1..=5_u64 {
        db.merge(b"ages", &n.to_le_bytes())?;
    }
    let mut left = 3;
    let mut goes_on = |_: &[u8]| {
        left -= 1;
        left > 0
    };
    let mut request = GetMergeOperandsOptions {
        continue_cb: Some(&mut goes_on),
        ..GetMergeOperandsOptions::default()
    };
    let newest = db.get_merge_operands_with(b"ages", &mut request, &ReadOptions::default())?;
    let newest: Vec<_> = newest.iter().filter_map(number).collect();
    assert_eq!(newest, [3, 4, 5]);

    // A read reports an operand that is not a number.
    db.merge(b"broken", b"seven")?;
    let error = db.get(b"broken").err().ok_or("Sum rejects the operand")?;
    assert_eq!(error.code(), Code::Corruption);
    assert_eq!(error.subcode(), Subcode::MergeOperatorFailed);
    Ok(db.close()?)
}
