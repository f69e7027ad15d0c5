//! A table outside of any database: opening it by its path, and its bounds.

use std::path::Path;
use std::sync::Arc;

use cairn_format::blob::BlobIndex;
use cairn_format::key::{self, InternalKey};
use cairn_format::trace::block_cache::CacheCaller;
use cairn_format::wide::{self, ColumnValue};
use cairn_memory::ChargePolicy;
use cairn_memory::secondary::CacheTier;
use cairn_observe::statistics::Meter;
use cairn_options::TableOptions;
use cairn_platform::fs::FileMode;
use cairn_platform::{FileSystem, Io};
use cairn_table::{IterOptions, OpenParams, Table, TableIter};
use cairn_types::{
    Decoded, Error, FileNumber, KeyOrder, PrefixExtractor, Result, SequenceNumber, ValueKind,
};
use cairn_version::bounds;

/// A table opened by its path.
pub(crate) struct External {
    pub(crate) table: Arc<Table>,
    /// Its length in bytes.
    pub(crate) size: u64,
}

/// The options for reading keys of an external table.
pub(crate) struct Reader<'a> {
    pub(crate) fs: &'a dyn FileSystem,
    pub(crate) io: &'a Io,
    pub(crate) order: &'a KeyOrder,
    pub(crate) prefix_extractor: Option<PrefixExtractor>,
    pub(crate) options: Arc<TableOptions>,
}

impl Reader<'_> {
    /// Opens the table at `path` without a cache. `seq` is the sequence number that its entries must have if
    /// the file is an external one, or `None` to use those in the file.
    pub(crate) fn open(&self, path: &Path, seq: Option<SequenceNumber>) -> Result<External> {
        let file = self.fs.open(path, FileMode::default())?;
        let size = file.len()?;
        let params = OpenParams {
            number: FileNumber(0),
            level: None,
            order: self.order.clone(),
            prefix_extractor: self.prefix_extractor.clone(),
            options: self.options.clone(),
            cache: None,
            lowest_tier: CacheTier::default(),
            charge: ChargePolicy::default(),
            expected_unique_id: None,
            largest_seq: seq,
            tail_size: None,
            flat_filter_bits: 0,
            block_checksum_len: 0,
            meter: Meter::default(),
            cache_tracer: None,
        };
        Ok(External {
            table: Table::open(file, size, params, self.io)?,
            size,
        })
    }

    /// Returns the bounds of all entries and range tombstones of `table`; `None` if it has none.
    ///
    /// # Errors
    ///
    /// Those of reading; `Corruption` if a key cannot be decoded or the bounds are reversed.
    pub(crate) fn bounds(&self, table: &Arc<Table>) -> Result<Option<(InternalKey, InternalKey)>> {
        let path = "an external table";
        let decode = |bytes: &[u8]| InternalKey::decode(bytes).map_err(|e| e.in_file(path, 0));
        let options = IterOptions {
            fill_cache: false,
            caller: CacheCaller::Ingestion,
            ..IterOptions::default()
        };
        let mut iter = TableIter::new(table.clone(), options);
        let progress = iter.seek_to_first();
        iter.complete(progress, self.io);
        iter.status()?;
        let mut found: Option<(Vec<u8>, Vec<u8>)> = None;
        if iter.valid() {
            let first = iter.key().to_vec();
            let progress = iter.seek_to_last();
            iter.complete(progress, self.io);
            iter.status()?;
            if !iter.valid() {
                return Err(Error::corruption(
                    "an external table has a first key and no last one",
                ));
            }
            found = Some((first, iter.key().to_vec()));
        }
        for tombstone in table
            .range_tombstones()
            .iter()
            .flat_map(|fragments| fragments.iter())
            .flat_map(|fragment| fragment.tombstones().collect::<Vec<_>>())
        {
            let ((start, _), end) = (tombstone.encode(), tombstone.upper_bound());
            found = Some(match found {
                None => (start.into_bytes(), end.into_bytes()),
                Some((first, last)) => (
                    bounds::min(self.order, &first, start.as_bytes()).to_vec(),
                    bounds::max(self.order, &last, end.as_bytes()).to_vec(),
                ),
            });
        }
        let Some((first, last)) = found else {
            return Ok(None);
        };
        if cairn_format::key::compare(self.order, &first, &last).is_gt() {
            return Err(Error::corruption(
                "the first key of an external table is larger than its last",
            ));
        }
        Ok(Some((decode(&first)?, decode(&last)?)))
    }
}

/// Returns the smallest and largest sequence number of the entries and range tombstones of `table`; 0 if it has none.
/// `visit` gets the key and the value of each entry. Reads are counted as those of `caller`.
///
/// # Errors
///
/// Those of reading and of `visit`.
pub(crate) fn sequence_numbers(
    table: &Arc<Table>,
    io: &Io,
    caller: CacheCaller,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<(SequenceNumber, SequenceNumber)> {
    let mut found: Option<(SequenceNumber, SequenceNumber)> = None;
    let mut note = |seq: SequenceNumber| {
        let (least, most) = found.unwrap_or((seq, seq));
        found = Some((least.min(seq), most.max(seq)));
    };
    if let Some(tombstones) = table.range_tombstones() {
        tombstones.seqs().for_each(&mut note);
    }
    let options = IterOptions {
        fill_cache: false,
        caller,
        ..IterOptions::default()
    };
    let mut iter = TableIter::new(table.clone(), options);
    let mut progress = iter.seek_to_first();
    loop {
        iter.complete(progress, io);
        iter.status()?;
        if !iter.valid() {
            return Ok(found.unwrap_or_default());
        }
        note(key::sequence(iter.key()));
        visit(iter.key(), iter.value())?;
        progress = iter.next();
    }
}

/// The oldest blob file referenced by an entry, by its value or a column of it.
pub(super) fn oldest_blob(internal: &[u8], value: &[u8]) -> Decoded<Option<FileNumber>> {
    let index_of = |bytes| BlobIndex::decode(bytes).map(|index| Some(index.file));
    // Truncation is intended: the lowest byte is the kind.
    let kind = key::packed(internal) as u8;
    if kind == ValueKind::BlobIndex as u8 {
        return index_of(value);
    }
    if kind != ValueKind::WideColumnEntity as u8 {
        return Ok(None);
    }
    let mut oldest = None;
    for column in wide::decode(value)?.columns() {
        if let ColumnValue::Blob(bytes) = column.value {
            oldest = oldest.into_iter().chain(index_of(bytes)?).min();
        }
    }
    Ok(oldest)
}

#[cold]
pub(super) fn values_in_blob_files() -> Error {
    Error::not_supported("the table has values in blob files, which would not be ingested with it")
}

/// Checks that tables from outside leave sequence numbers for later writes: a database continues after the largest.
pub(super) fn check_numbers_left(largest: SequenceNumber) -> Result<()> {
    match largest.0 <= SequenceNumber::MAX.0 / 2 {
        true => Ok(()),
        false => Err(Error::corruption(format!(
            "sequence number {largest} leaves too few for later writes"
        ))),
    }
}
