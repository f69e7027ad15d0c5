//! Wide-column entities.

use cairn_format::wide::{self, ColumnValue};

/// Decodes the columns and checks that they are in order and within the input.
pub fn run(data: &[u8]) {
    let Ok(entity) = wide::decode(data) else {
        return;
    };
    let columns: Vec<_> = entity.columns().take(1 << 12).collect();
    if entity.len() <= 1 << 12 {
        assert_eq!(
            columns.len(),
            entity.len(),
            "as many columns as were declared"
        );
    }
    assert!(columns.is_sorted_by(|a, b| a.name < b.name), "names ascend");
    let inside = |bytes: &[u8]| bytes.len() <= data.len();
    for column in &columns {
        match column.value {
            ColumnValue::Inline(bytes) | ColumnValue::Blob(bytes) => assert!(inside(bytes)),
        }
    }
    let _ = (
        entity.default_value(),
        entity.has_blobs(),
        entity.is_empty(),
    );
}
