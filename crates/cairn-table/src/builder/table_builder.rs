//! The builder of a table in any format.

use std::sync::Arc;

use cairn_format::batch::check_entry;
use cairn_format::key;
use cairn_format::table::Properties;
use cairn_platform::WritableFile;
use cairn_types::{Error, Result, SequenceNumber, ValueKind};

use super::flat::FlatBuilder;
use super::{BlockBasedBuilder, BuildParams, TableStats};

/// Builder of one table, in the format that its parameters select.
///
/// Entries are added in internal-key order, range tombstones in any order. The caller creates, syncs
/// and closes the file; a builder dropped before `finish` leaves an invalid file.
pub struct TableBuilder(Format);

#[expect(
    clippy::large_enum_variant,
    reason = "a builder is not moved, and most are block-based"
)]
enum Format {
    BlockBased(BlockBasedBuilder),
    Flat(Box<FlatBuilder>),
}

/// The sequence numbers of a table.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) seqs: Option<(u64, u64)>,
}

impl Counts {
    /// Counts an entry.
    #[inline]
    pub(super) fn count(&mut self, properties: &mut Properties, key: &[u8], value: &[u8]) {
        let packed = key::packed(key);
        properties.num_entries += 1;
        properties.raw_key_size += key.len() as u64;
        properties.raw_value_size += value.len() as u64;
        // Truncation is intended: the kind is the lowest byte.
        let kind = packed as u8;
        if kind != ValueKind::Value as u8 {
            match ValueKind::from_u8(kind) {
                Some(kind) if kind.is_deletion() => properties.num_deletions += 1,
                Some(ValueKind::Merge) => properties.num_merge_operands += 1,
                _ => {}
            }
        }
        self.count_seq(packed >> 8);
    }

    #[inline]
    pub(super) fn count_seq(&mut self, seq: u64) {
        self.seqs = Some(match self.seqs {
            None => (seq, seq),
            Some((least, most)) => (least.min(seq), most.max(seq)),
        });
    }
}

impl TableBuilder {
    /// Creates a builder that writes to `file`, which must be empty.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` or `NotSupported` with the invalid option.
    pub fn create(file: Arc<dyn WritableFile>, params: BuildParams) -> Result<TableBuilder> {
        Ok(TableBuilder(match FlatBuilder::create(&file, &params)? {
            Some(builder) => Format::Flat(Box::new(builder)),
            None => Format::BlockBased(BlockBasedBuilder::create(file, params)?),
        }))
    }

    /// Adds an entry after all earlier ones.
    ///
    /// # Errors
    ///
    /// File and codec errors; `InvalidArgument` if the entry is too large for a block; `NotSupported` if the format
    /// cannot store it.
    #[inline]
    pub fn add(&mut self, internal_key: &[u8], value: &[u8]) -> Result<()> {
        match &mut self.0 {
            Format::BlockBased(builder) => builder.add(internal_key, value),
            Format::Flat(builder) => {
                check_entry(key::user_key(internal_key).len(), value.len())?;
                builder.add(internal_key, value)
            }
        }
    }

    /// Adds a range tombstone from the internal key `start` to the user key `end`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `start` is not an internal key; `NotSupported` in formats without range tombstones.
    pub fn add_range_tombstone(&mut self, start: &[u8], end: &[u8]) -> Result<()> {
        match &mut self.0 {
            Format::BlockBased(builder) => builder.add_range_tombstone(start, end),
            Format::Flat(_) => Err(Error::not_supported("Range deletion unsupported")),
        }
    }

    /// Returns the last key, without its timestamp if those are stripped; empty before the first.
    #[inline]
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        match &self.0 {
            Format::BlockBased(builder) => builder.last_key(),
            Format::Flat(builder) => builder.last_key(),
        }
    }

    #[inline]
    fn properties(&self) -> &Properties {
        match &self.0 {
            Format::BlockBased(builder) => &builder.properties,
            Format::Flat(builder) => &builder.properties,
        }
    }

    /// Returns the number of entries and range tombstones.
    #[must_use]
    pub fn num_entries(&self) -> u64 {
        self.properties().num_entries
    }

    /// True if nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.num_entries() == 0
    }

    /// Returns the file size up to the last finished data block, or to the last entry of a table without blocks;
    /// buffered blocks count uncompressed.
    #[inline]
    #[must_use]
    pub fn file_size(&self) -> u64 {
        match &self.0 {
            Format::BlockBased(builder) => builder.file_size(),
            Format::Flat(builder) => builder.file_size(),
        }
    }

    /// Returns the estimated final file size, including the current data block and the parts after it.
    #[must_use]
    pub fn estimated_file_size(&self) -> u64 {
        match &self.0 {
            Format::BlockBased(builder) => builder.estimated_file_size(),
            Format::Flat(builder) => builder.file_size(),
        }
    }

    /// Returns the smallest and largest sequence number added.
    #[must_use]
    pub fn seq_range(&self) -> Option<(SequenceNumber, SequenceNumber)> {
        let counts = match &self.0 {
            Format::BlockBased(builder) => &builder.counts,
            Format::Flat(builder) => &builder.counts,
        };
        let (least, most) = counts.seqs?;
        Some((SequenceNumber(least), SequenceNumber(most)))
    }

    /// Returns the properties collected so far. Before [`TableBuilder::finish`], the caller adds
    /// the times and, in `others`, the user-collected properties.
    pub fn properties_mut(&mut self) -> &mut Properties {
        match &mut self.0 {
            Format::BlockBased(builder) => &mut builder.properties,
            Format::Flat(builder) => &mut builder.properties,
        }
    }

    /// Writes everything after the entries and flushes the buffer. The caller syncs and closes the file.
    ///
    /// # Errors
    ///
    /// File and codec errors; `NotSupported` if the format cannot store the entries.
    pub fn finish(self) -> Result<TableStats> {
        match self.0 {
            Format::BlockBased(builder) => builder.finish(),
            Format::Flat(builder) => builder.finish(),
        }
    }

    /// Discards the table. The caller removes the file.
    pub fn abandon(self) {}
}
