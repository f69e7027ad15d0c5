//! Wide-column entities as returned by reads.

use std::collections::BTreeMap;
use std::ops::Range;

use cairn_format::wide::{self, Column, ColumnValue, DEFAULT_COLUMN};
use cairn_platform::ReadRequest;
use cairn_types::{Error, Result};

use crate::blob::{Located, PendingBlob};
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

/// Returns `entity` with the column values that are stored in blob files inlined, which `read` returns for the
/// position and the encoded blob index of a column. `None` if there are none.
fn inlined(
    entity: &[u8],
    mut read: impl FnMut(usize, &[u8]) -> Result<Value>,
) -> Result<Option<Value>> {
    let columns = decoded(entity)?;
    if !columns.has_blobs() {
        return Ok(None);
    }
    let mut values = Vec::with_capacity(columns.len().min(entity.len()));
    for (at, column) in columns.columns().enumerate() {
        values.push(match column.value {
            ColumnValue::Inline(_) => None,
            ColumnValue::Blob(index) => Some(read(at, index)?),
        });
    }
    let columns: Vec<Column<'_>> = columns
        .columns()
        .zip(&values)
        .map(|(column, value)| Column {
            name: column.name,
            value: match value {
                Some(value) => ColumnValue::Inline(value),
                None => column.value,
            },
        })
        .collect();
    encoded(&columns).map(|whole| Some(whole.into()))
}

/// An entity whose column values in blob files are being read.
pub(crate) struct PendingEntity {
    entity: Value,
    /// The values that were read, by the position of the column.
    values: BTreeMap<usize, Value>,
}

/// The read of a column value: the position of the column, the pending blob, and the request.
pub(crate) type PendingColumn = (usize, PendingBlob, ReadRequest);

impl PendingEntity {
    /// Returns the reads of the column values of `entity` that are stored in blob files and not cached, given a function
    /// that locates the value of an encoded blob index. `None` if it has none in blob files.
    ///
    /// # Errors
    ///
    /// `Corruption` if it cannot be decoded; those of `locate`.
    pub(crate) fn locate(
        entity: &Value,
        mut locate: impl FnMut(&[u8]) -> Result<Located>,
    ) -> Result<Option<(PendingEntity, Vec<PendingColumn>)>> {
        let columns = decoded(entity)?;
        if !columns.has_blobs() {
            return Ok(None);
        }
        let (mut values, mut reads) = (BTreeMap::new(), Vec::new());
        for (at, column) in columns.columns().enumerate() {
            if let ColumnValue::Blob(index) = column.value {
                match locate(index)? {
                    Located::Cached(value) => drop(values.insert(at, value)),
                    Located::InFile(place, request) => reads.push((at, place, request)),
                }
            }
        }
        let entity = entity.clone();
        Ok(Some((PendingEntity { entity, values }, reads)))
    }

    /// Executes `reads`, all together, and returns the entity, the value of `user_key`, with all values inlined.
    ///
    /// # Errors
    ///
    /// Those of the reads, and of [`PendingEntity::finish`].
    pub(crate) fn read(
        mut self,
        reading: &Reading,
        user_key: &[u8],
        mut reads: Vec<PendingColumn>,
    ) -> Result<Value> {
        let Reading { blobs, io, .. } = reading;
        while !reads.is_empty() {
            let requests: Vec<ReadRequest> = reads.iter().map(|read| read.2.clone()).collect();
            let results = io.read_batch(&requests);
            let mut again = Vec::new();
            for ((at, place, request), result) in reads.into_iter().zip(results) {
                let result = blobs.read_again(result, &request, io);
                match blobs.complete(place, user_key, result)? {
                    Located::Cached(value) => self.supply(at, value),
                    // A tier of the cache has lost it.
                    Located::InFile(place, request) => again.push((at, place, request)),
                }
            }
            reads = again;
        }
        self.finish()
    }

    /// Supplies the value of the column at position `at`.
    pub(crate) fn supply(&mut self, at: usize, value: Value) {
        self.values.insert(at, value);
    }

    /// Returns the entity with all values inlined.
    ///
    /// # Errors
    ///
    /// `Aborted` if one was not supplied; those of the encoding.
    pub(crate) fn finish(mut self) -> Result<Value> {
        let values = &mut self.values;
        let whole = inlined(&self.entity, |at, _| {
            let unread = || Error::aborted("the value of a column was not read");
            values.remove(&at).ok_or_else(unread)
        });
        whole.map(|whole| whole.unwrap_or(self.entity))
    }
}

/// The encoded blob indexes of the columns of an entity; none if it cannot be decoded.
pub(crate) fn blob_indexes(entity: &[u8]) -> Vec<&[u8]> {
    let Ok(columns) = decoded(entity) else {
        return Vec::new();
    };
    let mut indexes = Vec::new();
    for column in columns.columns() {
        if let ColumnValue::Blob(index) = column.value {
            indexes.push(index);
        }
    }
    indexes
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
