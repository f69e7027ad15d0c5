//! Merge operators: updates without a read.
//!
//! `cargo run -p cairn --example merge`

use std::sync::Arc;

use cairn::{Code, Db, MergeInput, MergeOperator, Options, Subcode};

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

    // A read reports an operand that is not a number.
    db.merge(b"broken", b"seven")?;
    let error = db.get(b"broken").err().ok_or("Sum rejects the operand")?;
    assert_eq!(error.code(), Code::Corruption);
    assert_eq!(error.subcode(), Subcode::MergeOperatorFailed);
    Ok(db.close()?)
}
