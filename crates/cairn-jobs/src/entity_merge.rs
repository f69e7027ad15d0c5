//! Merge operands above a wide-column entity, which apply to its default column.

use cairn_format::wide::{self, Column, ColumnValue, DEFAULT_COLUMN};
use cairn_types::Result;

use crate::blobs::BlobReader;

/// Returns `entity`, the value of `user_key`, with its default column replaced by the result of
/// `merge`; a missing default column counts as empty. Columns in blob files are read and stored inline:
/// the new entity refers to no blob.
pub(crate) fn merge(
    entity: &[u8],
    user_key: &[u8],
    blobs: &mut BlobReader,
    merge: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let decoded = wide::decode(entity).map_err(|e| e.in_file("an entity in a table", 0))?;
    let mut values = Vec::with_capacity(decoded.len().min(entity.len()));
    for column in decoded.columns() {
        values.push(match column.value {
            ColumnValue::Inline(value) => value.to_vec(),
            ColumnValue::Blob(index) => blobs.read_encoded(index, user_key)?.to_vec(),
        });
    }
    let columns = decoded.columns().zip(&values);
    let mut columns: Vec<(&[u8], &[u8])> = columns
        .map(|(column, value)| (column.name, value.as_slice()))
        .collect();
    let existing = columns
        .first()
        .filter(|(name, _)| *name == DEFAULT_COLUMN)
        .map(|&(_, value)| value);
    let merged = merge(Some(existing.unwrap_or_default()))?;
    match existing {
        Some(_) => columns[0].1 = &merged,
        None => columns.insert(0, (DEFAULT_COLUMN, &merged)),
    }
    let columns: Vec<Column<'_>> = columns
        .into_iter()
        .map(|(name, value)| Column {
            name,
            value: ColumnValue::Inline(value),
        })
        .collect();
    let mut out = Vec::new();
    wide::encode(&columns, &mut out)?;
    Ok(out)
}
