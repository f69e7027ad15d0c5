//! Wide-column entities as returned by reads.

use std::collections::BTreeMap;
use std::ops::Range;

use cairn_format::wide::{self, Column, ColumnValue, DEFAULT_COLUMN};
use cairn_types::{Error, Result};

use crate::blob::BlobReadOptions;
use crate::value::Value;
use crate::view::Reading;

/// The columns of a key, sorted by name. A plain value is a single column with an empty name.
#[derive(Clone, Debug)]
pub struct Columns {
    value: Value,
    /// The ranges of name and value of each column within `value`; the name of a plain value is
    /// empty.
    ranges: Vec<(Range<usize>, Range<usize>)>,
}

impl Columns {
    /// A plain `value` as the only column.
    #[must_use]
    pub fn of_value(value: Value) -> Columns {
        let all = 0..value.len();
        Columns {
            value,
            ranges: vec![(0..0, all)],
        }
    }

    /// The columns of an encoded entity.
    ///
    /// # Errors
    ///
    /// `Corruption` if it cannot be decoded or if the value of a column is in a blob file.
    pub fn of_entity(entity: Value) -> Result<Columns> {
        let mut ranges = Vec::new();
        for column in decoded(&entity)?.columns() {
            let value = inline(column.value)?;
            ranges.push((range_of(&entity, column.name), range_of(&entity, value)));
        }
        Ok(Columns {
            value: entity,
            ranges,
        })
    }

    /// Merges the columns of `parts`. If several parts have a column, the last one wins.
    #[must_use]
    pub fn coalesced(parts: &[Columns]) -> Columns {
        let all: BTreeMap<&[u8], &[u8]> = parts.iter().flat_map(Columns::iter).collect();
        let (mut bytes, mut ranges) = (Vec::new(), Vec::with_capacity(all.len()));
        for (name, value) in all {
            let from = bytes.len();
            bytes.extend_from_slice(name);
            let middle = bytes.len();
            bytes.extend_from_slice(value);
            ranges.push((from..middle, middle..bytes.len()));
        }
        Columns {
            value: bytes.into(),
            ranges,
        }
    }

    /// True if more operands than `merge_operand_count_threshold` were merged into the entity; see
    /// [`Value::has_too_many_operands`]. False for coalesced columns.
    #[must_use]
    pub fn has_too_many_operands(&self) -> bool {
        self.value.has_too_many_operands()
    }

    /// The names and values of the columns.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        let bytes = |range: &Range<usize>| &self.value[range.clone()];
        self.ranges
            .iter()
            .map(move |(name, value)| (bytes(name), bytes(value)))
    }

    /// The value of the column `name`.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.iter()
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value)
    }

    /// The number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// True if there are no columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

pub(crate) fn decoded(entity: &[u8]) -> Result<wide::Entity<'_>> {
    wide::decode(entity).map_err(|e| e.in_file("a wide-column entity", 0))
}

fn inline(value: ColumnValue<'_>) -> Result<&[u8]> {
    match value {
        ColumnValue::Inline(value) => Ok(value),
        ColumnValue::Blob(_) => Err(Error::corruption(
            "the value of a column is in a blob file that was not read",
        )),
    }
}

/// The range of `part` within `whole`. `part` must be a subslice of `whole`.
fn range_of(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// Returns the range of the default column within an encoded entity; empty if it has none.
///
/// # Errors
///
/// `Corruption` if the entity cannot be decoded.
pub fn default_column(entity: &[u8]) -> Result<Range<usize>> {
    match decoded(entity)?.default_value() {
        Some(value) => Ok(range_of(entity, inline(value)?)),
        None => Ok(0..0),
    }
}

/// True if values of an encoded entity are stored in blob files.
///
/// # Errors
///
/// `Corruption` if the entity cannot be decoded.
pub fn has_blobs(entity: &[u8]) -> Result<bool> {
    Ok(decoded(entity)?.has_blobs())
}

/// Returns `entity`, the value of `user_key`, with the column values that are stored in blob files
/// read and inlined.
///
/// # Errors
///
/// `Corruption` if it cannot be decoded; those of reading blobs.
pub fn with_blobs(
    reading: &Reading,
    user_key: &[u8],
    entity: Value,
    options: BlobReadOptions,
) -> Result<Value> {
    let columns = decoded(&entity)?;
    if !columns.has_blobs() {
        return Ok(entity);
    }
    let mut values = Vec::with_capacity(columns.len().min(entity.len()));
    for column in columns.columns() {
        values.push(match column.value {
            ColumnValue::Inline(value) => value.to_vec(),
            ColumnValue::Blob(index) => reading
                .blobs
                .read(index, user_key, &reading.io, options)?
                .to_vec(),
        });
    }
    let columns: Vec<Column<'_>> = columns
        .columns()
        .zip(&values)
        .map(|(column, value)| Column {
            name: column.name,
            value: ColumnValue::Inline(value),
        })
        .collect();
    encoded(&columns).map(Value::from)
}

fn encoded(columns: &[Column<'_>]) -> Result<Vec<u8>> {
    let mut entity = Vec::new();
    wide::encode(columns, &mut entity)?;
    Ok(entity)
}

/// Returns an encoded entity with its default column replaced by the result of `merge`. A missing
/// default column counts as empty, as in reads.
///
/// # Errors
///
/// `Corruption` if the entity cannot be decoded, and those of `merge`.
pub(crate) fn merge_default(
    entity: &[u8],
    merge: impl FnOnce(Option<&[u8]>) -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    let entity = decoded(entity)?;
    let existing = entity.default_value().map(inline).transpose()?;
    let merged = merge(Some(existing.unwrap_or_default()))?;
    let default = Column {
        name: DEFAULT_COLUMN,
        value: ColumnValue::Inline(&merged),
    };
    let others = entity
        .columns()
        .filter(|column| column.name != DEFAULT_COLUMN);
    let columns: Vec<Column<'_>> = std::iter::once(default).chain(others).collect();
    encoded(&columns)
}
