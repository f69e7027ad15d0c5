//! Value separation: the last transformation of an entry before it is written.
//!
//! 1. A large value is written to a blob file and replaced with a blob index. With
//!    `enable_blob_columns`, the same applies to large columns of entities that have no column in a
//!    blob file yet.
//! 2. A blob in a file to be relocated is read and then handled by rule 1; if value separation is
//!    off, it moves back into the table.
//! 3. Every other entry is unchanged. Its blob references are counted, so that unreferenced blobs
//!    can be identified as garbage.

use std::ops::Range;

use cairn_format::blob::BlobIndex;
use cairn_format::key;
use cairn_format::wide::{self, Column, ColumnValue};
use cairn_platform::sync::Arc;
use cairn_types::{Error, FileNumber, Result, ValueKind};
use cairn_version::BlobFileMeta;

use crate::blob_garbage::{self, BlobGarbageMeter};
use crate::blobs::{BlobReader, BlobWriter};
use crate::compaction_iterator::Entry;
use crate::output_params::OutputParams;
use crate::stats::BlobsRead;

/// Separates and relocates the values of one subcompaction.
pub(crate) struct ValueSeparator<'a> {
    params: &'a OutputParams,
    writer: BlobWriter<'a>,
    reader: BlobReader,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Blob references of written entries.
    pub(crate) garbage: BlobGarbageMeter,
    /// Number and stored bytes of relocated blobs.
    pub(crate) relocated: (u64, u64),
}

/// An entry ready to be written, with the oldest blob file that it refers to.
pub(crate) struct PlacedEntry<'a> {
    pub(crate) entry: Entry<'a>,
    pub(crate) oldest_blob: Option<FileNumber>,
}

/// A column being rewritten.
struct RewrittenColumn {
    name: Range<usize>,
    value: ColumnLocation,
}

/// The location of a column value.
enum ColumnLocation {
    /// In the original entity.
    Inline(Range<usize>),
    /// A blob reference in the original entity, kept unchanged.
    Kept(Range<usize>, Option<FileNumber>),
    /// Read from a blob file.
    Read(Vec<u8>),
    /// Written to a blob file: the blob index and its file.
    Written(Vec<u8>, FileNumber),
}

impl<'a> ValueSeparator<'a> {
    pub(crate) fn new(params: &'a OutputParams) -> ValueSeparator<'a> {
        ValueSeparator {
            params,
            writer: BlobWriter::new(params),
            reader: BlobReader::of(params),
            key: Vec::new(),
            value: Vec::new(),
            garbage: BlobGarbageMeter::default(),
            relocated: (0, 0),
        }
    }

    /// Returns the blobs read.
    pub(crate) fn blobs_read(&self) -> BlobsRead {
        self.reader.read
    }

    /// Returns the entry in the form to be written.
    ///
    /// # Errors
    ///
    /// Blob I/O errors; `Corruption` of the value.
    #[inline]
    pub(crate) fn place<'e>(&'e mut self, entry: Entry<'e>) -> Result<PlacedEntry<'e>> {
        // The truncation is intended: the lowest byte is the kind.
        let kind = key::packed(entry.key) as u8;
        if kind == ValueKind::BlobIndex as u8 {
            return self.place_blob(entry);
        }
        if kind == ValueKind::WideColumnEntity as u8 {
            return self.place_entity(entry);
        }
        if kind == ValueKind::Value as u8
            && let Some(index) = self.writer.add(key::user_key(entry.key), entry.value)?
        {
            return Ok(self.refer(entry.key, &index));
        }
        Ok(PlacedEntry {
            entry,
            oldest_blob: None,
        })
    }

    /// Closes the last blob file and returns all files with their total size.
    pub(crate) fn finish(self) -> Result<(Vec<Arc<BlobFileMeta>>, BlobGarbageMeter, u64)> {
        let (files, written) = self.writer.finish()?;
        Ok((files, self.garbage, written))
    }

    /// Returns the entry `internal` as a blob index entry.
    fn refer(&mut self, internal: &[u8], index: &BlobIndex) -> PlacedEntry<'_> {
        self.value.clear();
        index.encode(&mut self.value);
        self.rekey(internal, ValueKind::BlobIndex);
        PlacedEntry {
            entry: Entry {
                key: &self.key,
                value: &self.value,
            },
            oldest_blob: Some(index.file),
        }
    }

    /// Stores the key `internal` with another kind in `self.key`.
    fn rekey(&mut self, internal: &[u8], kind: ValueKind) {
        self.key.clear();
        let seq = cairn_types::SequenceNumber(key::packed(internal) >> 8);
        key::append_internal(&mut self.key, key::user_key(internal), seq, kind);
    }

    fn place_blob<'e>(&'e mut self, entry: Entry<'e>) -> Result<PlacedEntry<'e>> {
        let Some((number, bytes)) = blob_garbage::blob_of(entry.value)? else {
            return Ok(PlacedEntry {
                entry,
                oldest_blob: None,
            });
        };
        let user_key = key::user_key(entry.key);
        if !self.params.relocates(number) {
            self.garbage.leaves(user_key, entry.value)?;
            return Ok(PlacedEntry {
                entry,
                oldest_blob: Some(number),
            });
        }
        self.relocated.0 += 1;
        self.relocated.1 += bytes;
        let value = self.reader.read_encoded(entry.value, user_key)?;
        if let Some(index) = self.writer.add(user_key, &value)? {
            return Ok(self.refer(entry.key, &index));
        }
        self.rekey(entry.key, ValueKind::Value);
        self.value.clear();
        self.value.extend_from_slice(&value);
        Ok(PlacedEntry {
            entry: Entry {
                key: &self.key,
                value: &self.value,
            },
            oldest_blob: None,
        })
    }

    fn place_entity<'e>(&'e mut self, entry: Entry<'e>) -> Result<PlacedEntry<'e>> {
        let plan = self.params.blobs;
        let user_key = key::user_key(entry.key);
        let separates = plan.columns && plan.min_bytes.is_some();
        // For most entities, the version byte is enough.
        if !separates && !blob_garbage::may_have_blobs(entry.value) {
            return Ok(PlacedEntry {
                entry,
                oldest_blob: None,
            });
        }
        let entity = wide::decode(entry.value).map_err(|e| e.in_file("an entity in a table", 0))?;
        let has_blobs = entity.has_blobs();
        let mut columns = Vec::new();
        let mut changed = false;
        for column in entity.columns() {
            let value = match column.value {
                ColumnValue::Inline(value) if separates && !has_blobs => {
                    match self.writer.add(user_key, value)? {
                        Some(index) => written(&index),
                        None => ColumnLocation::Inline(range(entry.value, value)),
                    }
                }
                ColumnValue::Inline(value) => ColumnLocation::Inline(range(entry.value, value)),
                ColumnValue::Blob(index) => self.move_column(entry.value, user_key, index)?,
            };
            changed |= matches!(value, ColumnLocation::Read(_) | ColumnLocation::Written(..));
            columns.push(RewrittenColumn {
                name: range(entry.value, column.name),
                value,
            });
        }
        let numbers = columns.iter().filter_map(|column| match &column.value {
            ColumnLocation::Kept(_, number) => *number,
            ColumnLocation::Written(_, number) => Some(*number),
            ColumnLocation::Inline(_) | ColumnLocation::Read(_) => None,
        });
        let oldest_blob = numbers.min();
        if !changed {
            return Ok(PlacedEntry { entry, oldest_blob });
        }
        encode(entry.value, &columns, &mut self.value)?;
        Ok(PlacedEntry {
            entry: Entry {
                key: entry.key,
                value: &self.value,
            },
            oldest_blob,
        })
    }

    /// Decides the new location of a column of `entity` that is a blob reference.
    fn move_column(
        &mut self,
        entity: &[u8],
        user_key: &[u8],
        index: &[u8],
    ) -> Result<ColumnLocation> {
        let blob = blob_garbage::blob_of(index)?;
        let moved = blob.filter(|(number, _)| self.params.relocates(*number));
        let Some((_, bytes)) = moved else {
            self.garbage.leaves(user_key, index)?;
            let number = blob.map(|(number, _)| number);
            return Ok(ColumnLocation::Kept(range(entity, index), number));
        };
        self.relocated.0 += 1;
        self.relocated.1 += bytes;
        let value = self.reader.read_encoded(index, user_key)?;
        let placed = self.writer.add(user_key, &value)?;
        Ok(placed.map_or_else(
            || ColumnLocation::Read(value.to_vec()),
            |index| written(&index),
        ))
    }
}

fn written(index: &BlobIndex) -> ColumnLocation {
    let mut encoded = Vec::new();
    index.encode(&mut encoded);
    ColumnLocation::Written(encoded, index.file)
}

/// Returns the range of `part` within `whole`.
fn range(whole: &[u8], part: &[u8]) -> Range<usize> {
    let start = part.as_ptr() as usize - whole.as_ptr() as usize;
    start..start + part.len()
}

/// Encodes the entity of `columns` into `out`; unmoved columns are read from `entity`.
fn encode(entity: &[u8], columns: &[RewrittenColumn], out: &mut Vec<u8>) -> Result<()> {
    let columns: Vec<Column<'_>> = columns
        .iter()
        .map(|column| Column {
            name: &entity[column.name.clone()],
            value: match &column.value {
                ColumnLocation::Inline(range) => ColumnValue::Inline(&entity[range.clone()]),
                ColumnLocation::Kept(range, _) => ColumnValue::Blob(&entity[range.clone()]),
                ColumnLocation::Read(value) => ColumnValue::Inline(value),
                ColumnLocation::Written(index, _) => ColumnValue::Blob(index),
            },
        })
        .collect();
    out.clear();
    wide::encode(&columns, out)
        .map_err(|error: Error| error.context("an entity of a compaction cannot be encoded"))
}
