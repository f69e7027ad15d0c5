//! Writing a table outside of any database, for ingestion.
//!
//! Entries are added in key order, each key once, all with sequence number zero: the database that ingests
//! the file assigns one number to all of them. Properties of the file mark it as external
//! (`rocksdb.external_sst_file.version` and `global_seqno`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::dated;
use cairn_format::id::SessionId;
use cairn_format::key::{self, InternalKey};
use cairn_format::wide::{self, Column, ColumnValue};
use cairn_jobs::ttl::merge_operator_name;
use cairn_options::{Compression, CompressionOptions, DbOptions, FamilyOptions};
use cairn_platform::fs::FileMode;
use cairn_platform::{Process, World, WritableFile};
use cairn_table::{BuildParams, TableBuilder, TableIdentity, TableTimes};
use cairn_types::{Error, FileNumber, KeyOrder, Result, SequenceNumber, Subcode, ValueKind};
use cairn_version::file_meta::NO_CHECKSUM_FUNCTION;

use crate::db::handle::Family;
use crate::files::host::{Components, Host};
use crate::files::inherited_files;
use crate::files::prepared_info::PreparedFileInfo;

/// The database id in the properties of external tables.
const WRITER_ID: &str = "SST Writer";

/// The description of a finished external table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExternalSstFileInfo {
    /// The path.
    pub file_path: PathBuf,
    /// The first key; empty if there are only range deletions.
    pub smallest_key: Vec<u8>,
    /// The last key.
    pub largest_key: Vec<u8>,
    /// The first key of all range deletions; empty if there are none.
    pub smallest_range_del_key: Vec<u8>,
    /// The exclusive end of the last range deletion.
    pub largest_range_del_key: Vec<u8>,
    /// Checksum of the whole file; empty if none was requested.
    pub file_checksum: Vec<u8>,
    /// The checksum function, or `Unknown`.
    pub file_checksum_func_name: String,
    /// The sequence number of all entries; always zero.
    pub sequence_number: SequenceNumber,
    /// Length in bytes.
    pub file_size: u64,
    /// Keys.
    pub num_entries: u64,
    /// Range deletions.
    pub num_range_del_entries: u64,
    /// The version of external tables; 2.
    pub version: i32,
    /// The description for an ingestion that does not open the file; `None` before the table is finished.
    pub prepared_file_info: Option<PreparedFileInfo>,
}

/// Writes external tables, one after another.
pub struct SstFileWriter {
    world: World,
    db: DbOptions,
    family: FamilyOptions,
    /// The family that the files are intended for; `None` for any.
    target: Option<(u32, String)>,
    session: SessionId,
    /// The number of the next file, counted by this writer.
    next: u64,
    open: Option<Open>,
    /// Bytes of the last finished table.
    finished_size: u64,
}

/// The table that is being written.
struct Open {
    file: Arc<dyn WritableFile>,
    builder: TableBuilder,
    info: ExternalSstFileInfo,
    /// The internal key of the first entry; empty if there is none.
    first: Vec<u8>,
    /// The internal key of the last entry; empty if there is none.
    last: Vec<u8>,
    /// The internal key of the entry being added.
    key: Vec<u8>,
    /// The process that began it.
    process: Process,
    /// The error after which the table is incomplete.
    failed: Option<Error>,
}

impl Open {
    /// Returns the error after which the table is incomplete.
    #[inline]
    fn check(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Passes an entry to the builder with `add`.
    #[inline]
    fn build(&mut self, add: impl FnOnce(&mut TableBuilder, &[u8]) -> Result<()>) -> Result<()> {
        add(&mut self.builder, &self.key).inspect_err(|error| self.failed = Some(error.clone()))
    }
}

impl SstFileWriter {
    /// Creates a writer of tables like those of the last level of a family with these options. With
    /// `value_ttl` it appends the write time to each value, as a database with a time to live requires.
    #[must_use]
    pub fn new(world: &World, db: &DbOptions, family: &FamilyOptions) -> SstFileWriter {
        let random = &world.random;
        SstFileWriter {
            session: SessionId::from_random(random.next_u64(), random.next_u64()),
            world: inherited_files::world_of(db, world.clone()),
            db: db.clone(),
            family: family.clone(),
            target: None,
            next: 1,
            open: None,
            finished_size: 0,
        }
    }

    /// Creates a writer of tables for `family`: other families reject them.
    #[must_use]
    pub fn for_family(family: &Family) -> SstFileWriter {
        let Components {
            context, settings, ..
        } = family.db.shared.components();
        let mut writer = SstFileWriter::new(&context.world, &settings.get(), &family.options());
        writer.target = Some((family.id(), family.name().to_owned()));
        writer
    }

    /// Begins a table at `path`, replacing an existing file.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a table is already being written or the options are invalid; `IoError`.
    pub fn open(&mut self, path: &Path) -> Result<()> {
        if self.open.is_some() {
            return Err(Error::invalid_argument(
                "a table is being written: finish it before the next one is opened",
            ));
        }
        self.family.validate()?;
        let fs = &*self.world.fs;
        match fs.remove(path) {
            Err(error) if error.subcode() != Subcode::PathNotFound => return Err(error),
            _ => {}
        }
        let params = self.params();
        let file = fs.create(path, FileMode::default())?;
        let builder = TableBuilder::create(file.clone(), params).inspect_err(|_| {
            // The error of the options is reported.
            let _ = fs.remove(path);
        })?;
        self.next += 1;
        self.open = Some(Open {
            process: Process::this(),
            failed: None,
            file,
            builder,
            first: Vec::new(),
            last: Vec::new(),
            key: Vec::new(),
            info: ExternalSstFileInfo {
                file_path: path.to_owned(),
                file_checksum_func_name: NO_CHECKSUM_FUNCTION.to_owned(),
                version: 2,
                ..ExternalSstFileInfo::default()
            },
        });
        Ok(())
    }

    fn params(&self) -> BuildParams {
        let family = &self.family;
        let now = self.world.clock.wall_seconds();
        let (compression, compression_options) = self.compression();
        let mut params = BuildParams {
            format: family.table_format(),
            options: Arc::new(family.table.clone()),
            order: family.comparator.clone(),
            compression,
            compression_options,
            prefix_extractor: family.prefix_extractor.clone(),
            merge_operator: merge_operator_name(family),
            identity: TableIdentity {
                number: FileNumber(self.next),
                db_id: WRITER_ID.to_owned(),
                session_id: self.session.to_string(),
                ..TableIdentity::default()
            },
            // Any number except zero is suitable; a bit that is always set excludes zero.
            base_context: self.world.random.next_u64() as u32 | 1,
            times: TableTimes {
                creation: now,
                file_creation: now,
                ..TableTimes::default()
            },
            target_file_size: family.target_file_size_base,
            external: true,
            strip_timestamps: family.strips_timestamps(),
            bytes_per_sync: self.db.bytes_per_sync,
            file_checksum: self.db.file_checksum_gen_factory.clone(),
            ..BuildParams::default()
        };
        if let Some((id, name)) = &self.target {
            params.identity.family_id = *id;
            params.identity.family_name = name.clone();
        }
        params
    }

    /// Returns the compression of the last level, where the files will probably be placed.
    fn compression(&self) -> (Compression, CompressionOptions) {
        let family = &self.family;
        match (
            family.bottommost_compression,
            family.compression_per_level.last(),
        ) {
            (Some(kind), _) if family.bottommost_compression_opts.enabled => {
                (kind, family.bottommost_compression_opts.clone())
            }
            (Some(kind), _) => (kind, family.compression_opts.clone()),
            (None, Some(kind)) => (*kind, family.compression_opts.clone()),
            (None, None) => (family.compression, family.compression_opts.clone()),
        }
    }

    /// Sets `key` to `value`. Entries must be added in the family's order, each key once; this applies to all
    /// kinds except range deletions.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if no table is open or `key` is not after the last one; `IoError`.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.add(ValueKind::Value, key, None, value)
    }

    /// Like [`SstFileWriter::put`], with a timestamp, for comparators with timestamps. Without
    /// `persist_user_defined_timestamps` the table does not store it, so only the oldest one, of zeros, is accepted, as in
    /// RocksDB.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileWriter::put`]; `InvalidArgument` for a timestamp of the wrong length, or one that would be lost.
    pub fn put_with_timestamp(&mut self, key: &[u8], timestamp: &[u8], value: &[u8]) -> Result<()> {
        self.check_kept(timestamp)?;
        self.add(ValueKind::Value, key, Some(timestamp), value)
    }

    /// Sets `key` to an entity of `columns`, which are pairs of name and value in any order.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileWriter::put`]; `InvalidArgument` for duplicate names.
    pub fn put_entity(&mut self, key: &[u8], columns: &[(&[u8], &[u8])]) -> Result<()> {
        let mut sorted = columns.to_vec();
        sorted.sort_by_key(|(name, _)| *name);
        let columns: Vec<Column<'_>> = sorted
            .iter()
            .map(|(name, value)| Column {
                name,
                value: ColumnValue::Inline(value),
            })
            .collect();
        let mut entity = Vec::new();
        wide::encode(&columns, &mut entity)?;
        self.add(ValueKind::WideColumnEntity, key, None, &entity)
    }

    /// Adds an operand for the merge operator.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileWriter::put`].
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.add(ValueKind::Merge, key, None, operand)
    }

    /// Deletes `key`.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileWriter::put`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        self.add(ValueKind::Deletion, key, None, &[])
    }

    /// Like [`SstFileWriter::delete`], with a timestamp, for comparators with timestamps.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileWriter::put_with_timestamp`].
    pub fn delete_with_timestamp(&mut self, key: &[u8], timestamp: &[u8]) -> Result<()> {
        self.check_kept(timestamp)?;
        self.add(ValueKind::DeletionWithTimestamp, key, Some(timestamp), &[])
    }

    /// Deletes every key of the database, not of this file, from `begin` (inclusive) to `end` (exclusive).
    /// Range deletions may be added in any order.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if no table is open or `end` comes before `begin`; `IoError`.
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()> {
        self.add_range(begin, end, None)
    }

    /// Like [`SstFileWriter::delete_range`], with a timestamp, for comparators with timestamps.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileWriter::delete_range`], and `InvalidArgument` for a timestamp of the wrong
    /// length, or one that would be lost.
    pub fn delete_range_with_timestamp(
        &mut self,
        begin: &[u8],
        end: &[u8],
        timestamp: &[u8],
    ) -> Result<()> {
        self.check_kept(timestamp)?;
        self.add_range(begin, end, Some(timestamp))
    }

    #[inline]
    fn check_timestamp(&self, timestamp: Option<&[u8]>) -> Result<()> {
        let expected = self.family.comparator.timestamp_size();
        let found = timestamp.map_or(0, <[u8]>::len);
        match expected == found {
            true => Ok(()),
            false => Err(self.wrong_timestamp(expected, found)),
        }
    }

    /// Checks that the table stores `timestamp`, or that it is the one that entries without a timestamp have.
    fn check_kept(&self, timestamp: &[u8]) -> Result<()> {
        let is_oldest = timestamp.iter().all(|&byte| byte == 0);
        match is_oldest || self.family.persist_user_defined_timestamps {
            true => Ok(()),
            false => Err(Error::invalid_argument(
                "only the oldest timestamp, of zeros, is accepted: tables of families with \
                 persist_user_defined_timestamps=false have no timestamps",
            )),
        }
    }

    #[cold]
    fn wrong_timestamp(&self, expected: usize, found: usize) -> Error {
        Error::invalid_argument(format!(
            "timestamp of a key for comparator {}: expected {expected} bytes, found {found}",
            self.family.comparator.name()
        ))
    }

    fn add(
        &mut self,
        kind: ValueKind,
        key: &[u8],
        timestamp: Option<&[u8]>,
        value: &[u8],
    ) -> Result<()> {
        self.check_timestamp(timestamp)?;
        let order = &self.family.comparator;
        let open = self.open.as_mut().ok_or_else(not_open)?;
        open.check()?;
        open.key.clear();
        open.key.extend_from_slice(key);
        if let Some(timestamp) = timestamp {
            open.key.extend_from_slice(timestamp);
        }
        let is_first = open.info.num_entries == 0;
        if !is_first && !key::compare_user(order, key::user_key(&open.last), &open.key).is_lt() {
            return Err(out_of_order());
        }
        let suffix = key::pack(SequenceNumber::ZERO, kind);
        open.key.extend_from_slice(&suffix.to_le_bytes());
        match (kind, self.family.value_ttl) {
            (ValueKind::Value | ValueKind::Merge, Some(_)) => {
                let date = dated::encode(self.world.clock.wall_seconds());
                let dated = [value, &date].concat();
                open.build(|builder, key| builder.add(key, &dated))?;
            }
            _ => open.build(|builder, key| builder.add(key, value))?,
        }
        if is_first {
            let first = key::user_key(&open.key);
            open.info.smallest_key.extend_from_slice(first);
            open.first.clone_from(&open.key);
        }
        open.info.num_entries += 1;
        std::mem::swap(&mut open.last, &mut open.key);
        Ok(())
    }

    fn add_range(&mut self, begin: &[u8], end: &[u8], timestamp: Option<&[u8]>) -> Result<()> {
        self.check_timestamp(timestamp)?;
        let order = &self.family.comparator;
        let open = self.open.as_mut().ok_or_else(not_open)?;
        open.check()?;
        let stamp = timestamp.unwrap_or_default();
        let (begin, end) = ([begin, stamp].concat(), [end, stamp].concat());
        match order.compare_without_timestamp(&begin, &end) {
            std::cmp::Ordering::Greater => {
                return Err(Error::invalid_argument(
                    "the end of a range deletion comes before its beginning",
                ));
            }
            // It deletes nothing.
            std::cmp::Ordering::Equal => return Ok(()),
            std::cmp::Ordering::Less => {}
        }
        let mut internal = Vec::with_capacity(begin.len() + key::SUFFIX_LEN);
        let kind = ValueKind::RangeDeletion;
        key::append_internal(&mut internal, &begin, SequenceNumber::ZERO, kind);
        open.builder.add_range_tombstone(&internal, &end)?;
        let info = &mut open.info;
        let first = info.num_range_del_entries == 0;
        if first || order.compare(&begin, &info.smallest_range_del_key).is_lt() {
            info.smallest_range_del_key = begin;
        }
        if first || order.compare(&end, &info.largest_range_del_key).is_gt() {
            info.largest_range_del_key = end;
        }
        info.num_range_del_entries += 1;
        Ok(())
    }

    /// Finishes the table: it is complete and synced. Its name is not synced; an ingestion syncs its own
    /// link.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if no table is open or nothing was added; the error of an earlier entry; `IoError`. After an
    /// error, the file is removed.
    pub fn finish(&mut self) -> Result<ExternalSstFileInfo> {
        let open = self.open.take().ok_or_else(not_open)?;
        let Open {
            file,
            builder,
            mut info,
            first,
            last,
            key: _,
            process: _,
            failed,
        } = open;
        info.largest_key = key::user_key(&last).to_vec();
        assert!(
            !builder.is_empty() || info.num_entries + info.num_range_del_entries == 0,
            "a table has the entries that were added"
        );
        let finished = match (failed, builder.is_empty()) {
            (Some(error), _) => Err(error),
            (None, true) => Err(Error::invalid_argument(
                "an external table must have entries",
            )),
            (None, false) => builder.finish().and_then(|table| {
                file.sync(self.db.use_fsync)?;
                file.close()?;
                Ok(table)
            }),
        };
        let table = finished.inspect_err(|_| {
            // The error of the table is reported.
            let _ = self.world.fs.remove(&info.file_path);
        })?;
        info.file_size = table.file_size;
        let order = &self.family.comparator;
        info.prepared_file_info = bounds(order, &info, &first, &last).map(|(smallest, largest)| {
            PreparedFileInfo::new(
                order,
                table.file_size,
                (&smallest, &largest),
                (SequenceNumber::ZERO, SequenceNumber::ZERO),
                &table.properties,
            )
        });
        self.finished_size = table.file_size;
        if let Some(checksum) = table.file_checksum {
            (info.file_checksum, info.file_checksum_func_name) = checksum;
        }
        Ok(info)
    }

    /// Returns the size in bytes of the current table so far, or of the last finished one.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.open
            .as_ref()
            .map_or(self.finished_size, |open| open.builder.file_size())
    }
}

impl Drop for SstFileWriter {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            if !open.process.is_this() {
                // The parent continues with it.
                std::mem::forget(open);
                return;
            }
            // A table without a footer cannot be read.
            let path = open.info.file_path.clone();
            drop(open);
            let _ = self.world.fs.remove(&path);
        }
    }
}

/// Returns the bounds of a table whose first and last entry are `first` and `last`. `None` if it is empty.
fn bounds(
    order: &KeyOrder,
    info: &ExternalSstFileInfo,
    first: &[u8],
    last: &[u8],
) -> Option<(InternalKey, InternalKey)> {
    let points = InternalKey::decode(first).ok();
    let points = points.zip(InternalKey::decode(last).ok());
    if info.num_range_del_entries == 0 {
        return points;
    }
    // The bounds of range tombstones sort before every version of their keys.
    let size = order.timestamp_size();
    let bound = |user: &[u8], seq| {
        let mut key = key::strip_timestamp(user, size).to_vec();
        key.resize(user.len(), u8::MAX);
        InternalKey::new(&key, seq, ValueKind::RangeDeletion)
    };
    let start = bound(&info.smallest_range_del_key, SequenceNumber::ZERO);
    let end = bound(&info.largest_range_del_key, SequenceNumber::MAX);
    let Some((first, last)) = points else {
        return Some((start, end));
    };
    let is_less =
        |a: &InternalKey, b: &InternalKey| key::compare(order, a.as_bytes(), b.as_bytes()).is_lt();
    Some((
        if is_less(&start, &first) {
            start
        } else {
            first
        },
        if is_less(&last, &end) { end } else { last },
    ))
}

#[cold]
fn out_of_order() -> Error {
    Error::invalid_argument("keys of an external table must be added in strictly ascending order")
}

#[cold]
fn not_open() -> Error {
    Error::invalid_argument("no table is open: open one before entries are added")
}
