//! What an ingestion has to know about a table: whoever has it ingests the table without opening it, also on another
//! host.

use std::path::Path;
use std::sync::Arc;

use cairn_format::key::{self, InternalKey};
use cairn_format::prepared_file::PreparedFile;
use cairn_format::table::Properties;
use cairn_types::{Error, KeyOrder, Result, SequenceNumber, ValueKind};

use crate::db::Db;
use crate::files::external::values_in_blob_files;

/// The description of a table that is to be ingested, for [`Ingestion::file_infos`](super::Ingestion::file_infos).
///
/// [`SstFileWriter::finish`](super::SstFileWriter::finish) and [`Db::prepared_file_info`] return it. The bytes of
/// [`PreparedFileInfo::encode`] are those of RocksDB's `SerializePreparedFileInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedFileInfo(Arc<PreparedFile>);

impl PreparedFileInfo {
    /// Returns the description as bytes with a checksum.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        self.0.encode()
    }

    /// Decodes the bytes that [`PreparedFileInfo::encode`] or RocksDB returned.
    ///
    /// # Errors
    ///
    /// `Corruption` if a part is missing or invalid, or if the checksum differs.
    pub fn decode(bytes: &[u8]) -> Result<PreparedFileInfo> {
        let decoded = PreparedFile::decode(bytes)
            .map_err(|error| error.in_file("the description of a table", 0))?;
        Ok(PreparedFileInfo(Arc::new(decoded)))
    }

    /// The length of the table in bytes.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.0.file_size
    }

    /// The properties of the table.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.0.properties
    }

    /// The smallest and largest sequence number, if known.
    pub(super) fn seqs(&self) -> Option<(SequenceNumber, SequenceNumber)> {
        self.0.seqs
    }

    /// Creates the description of a table with these bounds, whose timestamps are removed unless it has them.
    pub(super) fn new(
        order: &KeyOrder,
        file_size: u64,
        bounds: (&InternalKey, &InternalKey),
        seqs: (SequenceNumber, SequenceNumber),
        properties: &Properties,
    ) -> PreparedFileInfo {
        let size = order.timestamp_size();
        let stored = |bound: &InternalKey| match properties.timestamps_stripped {
            true => with_user_key(bound, key::strip_timestamp(bound.user_key(), size)),
            false => bound.clone(),
        };
        let mut properties = properties.clone();
        (properties.key_smallest_seqno, properties.key_largest_seqno) = (seqs.0.0, seqs.1.0);
        PreparedFileInfo(Arc::new(PreparedFile {
            file_size,
            smallest: stored(bounds.0),
            largest: stored(bounds.1),
            seqs: Some(seqs),
            properties,
        }))
    }

    /// Returns the bounds, with timestamps if the keys of `order` have them.
    ///
    /// # Errors
    ///
    /// `Corruption` if they are shorter than a timestamp, or reversed.
    pub(super) fn bounds(&self, order: &KeyOrder) -> Result<(InternalKey, InternalKey)> {
        let size = order.timestamp_size();
        let complete = |bound: &InternalKey| {
            let user = bound.user_key();
            if self.0.properties.timestamps_stripped {
                let byte = match bound.kind() {
                    ValueKind::RangeDeletion => u8::MAX,
                    _ => 0,
                };
                return Ok(with_user_key(bound, &[user, &vec![byte; size]].concat()));
            }
            match user.len() < size {
                true => Err(Error::corruption(format!(
                    "a bound in the description of a table: expected a timestamp of {size} bytes, found {} bytes",
                    user.len()
                ))),
                false => Ok(bound.clone()),
            }
        };
        let (smallest, largest) = (complete(&self.0.smallest)?, complete(&self.0.largest)?);
        match key::compare(order, smallest.as_bytes(), largest.as_bytes()).is_gt() {
            true => Err(Error::corruption(
                "the smallest key in the description of a table is larger than the largest",
            )),
            false => Ok((smallest, largest)),
        }
    }
}

fn with_user_key(bound: &InternalKey, user: &[u8]) -> InternalKey {
    InternalKey::new(user, bound.seq(), bound.kind())
}

impl Db {
    /// Returns the description of the live table at `path`, to ingest it elsewhere with `allow_db_generated_files`
    /// (RocksDB's `GetPreparedFileInfoForExternalSstIngestion`). Pause file deletions
    /// ([`Db::disable_file_deletions`]) or link the table, so that it exists until then.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if no live table has this path; `NotSupported` if it has values in blob files; those of opening the table.
    pub fn prepared_file_info(&self, path: &Path) -> Result<PreparedFileInfo> {
        let shared = self.shared();
        for family in shared.catalog.families().iter() {
            let view = family.view();
            let found = view
                .version
                .files()
                .find(|(_, file)| family.tables().path(file) == path);
            let Some((level, file)) = found else { continue };
            if file.oldest_blob.is_some() {
                return Err(values_in_blob_files());
            }
            let table = family.tables().open(file, level, &shared.context.io)?;
            return Ok(PreparedFileInfo::new(
                family.order(),
                file.size,
                (&file.smallest, &file.largest),
                (file.seqs.smallest, file.seqs.largest),
                table.properties(),
            ));
        }
        Err(Error::invalid_argument(format!(
            "{} is no live table of the database",
            path.display()
        )))
    }
}
