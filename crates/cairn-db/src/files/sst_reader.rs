//! Reading a single table without a database, for tools such as `sst_dump`.
//!
//! The table is read like a database with no other content: newest versions, merged operands, range deletions
//! applied.

use std::path::Path;
use std::sync::Arc;

use cairn_format::key::LookupKey;
use cairn_format::table::Properties;
use cairn_format::trace::block_cache::CacheCaller;
use cairn_memtable::{Memtable, MemtableOptions};
use cairn_options::{FamilyOptions, ReadOptions};
use cairn_platform::fs::FileMode;
use cairn_platform::{Io, World};
use cairn_read::{BlobSource, Columns, DbIter, Found, Reading, Value, View, ViewEnd, get};
use cairn_table::{IterOptions, Table, TableIter};
use cairn_types::{Error, FileNumber, Result, SequenceNumber};
use cairn_version::{FileMeta, TableSource, TreeEdit, Version};

use crate::files::external::Reader;

/// One table, open for reading.
pub struct SstFileReader {
    view: Arc<View>,
    table: Arc<Table>,
    io: Io,
}

impl SstFileReader {
    /// Opens the table at `path` with the comparator, merge operator and table options of `family`.
    ///
    /// # Errors
    ///
    /// `IoError`; `Corruption` with file and offset; `InvalidArgument` if the table has another comparator.
    pub fn open(world: &World, path: &Path, family: &FamilyOptions) -> Result<SstFileReader> {
        let io = Io::blocking();
        let options = Arc::new(family.table.clone());
        let reader = Reader {
            fs: &*world.fs,
            io: &io,
            order: &family.comparator,
            prefix_extractor: family.prefix_extractor.clone(),
            options: options.clone(),
        };
        let external = reader.open(path, None)?;
        let mut version = Version::empty(family.comparator.clone(), 1);
        if let Some((smallest, largest)) = reader.bounds(&external.table)? {
            let mut file = FileMeta::new(FileNumber(0), external.size, smallest, largest);
            file.seqs.largest = SequenceNumber::MAX;
            file.epoch = 1;
            file.table.keep(external.table.clone());
            version = version.with_edit(&TreeEdit {
                added: vec![(0, Arc::new(file))],
                ..TreeEdit::default()
            })?;
        }
        let dir = path.parent().unwrap_or(Path::new(".")).to_owned();
        let order = family.comparator.clone();
        let tables = Arc::new(TableSource {
            prefix_extractor: family.prefix_extractor.clone(),
            options,
            ..TableSource::new(world.fs.clone(), vec![dir.clone()], order)
        });
        let blobs = BlobSource::new(world.fs.clone(), dir, FileMode::default(), None);
        let reading = Reading {
            merge_operator: family.merge_operator.clone(),
            dated: family.value_ttl.is_some(),
            prefix_extractor: family.prefix_extractor.clone(),
            max_sequential_skip: family.max_sequential_skip_in_iterations,
            ..Reading::new(
                path.display().to_string(),
                tables,
                Arc::new(blobs),
                io.clone(),
                world.clock.clone(),
            )
        };
        let memtable = MemtableOptions {
            arena_block_size: 4 << 10,
            ..MemtableOptions::default()
        };
        Ok(SstFileReader {
            view: Arc::new(View {
                memtable: Arc::new(Memtable::new(family.comparator.clone(), memtable)),
                immutables: Vec::new(),
                version: Arc::new(version),
                family: Arc::new(reading),
                number: 1,
                end: ViewEnd::default(),
            }),
            table: external.table,
            io,
        })
    }

    /// Returns the properties recorded by the writer of the table.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        self.table.properties()
    }

    /// Returns the value of `key`, or `None` if the table has none.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of the file.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.get_with(key, &ReadOptions::default())
    }

    /// Like [`SstFileReader::get`], with options.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileReader::get`].
    pub fn get_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Value>> {
        self.find(key, options)?.into_value()
    }

    /// Returns the columns of `key`, or `None` if the table has no value for it.
    ///
    /// # Errors
    ///
    /// Those of [`SstFileReader::get`].
    pub fn get_entity(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Columns>> {
        self.find(key, options)?.into_columns()
    }

    fn find(&self, key: &[u8], options: &ReadOptions) -> Result<Found> {
        let seq = options.snapshot.unwrap_or(SequenceNumber::MAX);
        let size = self.view.family.order.timestamp_size();
        let stamp = match &options.timestamp {
            Some(timestamp) => timestamp.clone(),
            None => vec![0xff; size],
        };
        if stamp.len() != size {
            return Err(Error::invalid_argument(format!(
                "timestamp: expected {size} bytes, found {}",
                stamp.len()
            )));
        }
        get(
            &self.view,
            &LookupKey::with_timestamp(key, &stamp, seq),
            options,
        )
    }

    /// Creates an unpositioned iterator over the visible entries of the table.
    #[must_use]
    pub fn iter(&self, options: &ReadOptions) -> SstIter {
        let seq = options.snapshot.unwrap_or(SequenceNumber::MAX);
        SstIter(DbIter::new(self.view.clone(), seq, options))
    }

    /// Passes every entry to `take` as stored in the file, in order: the internal key (user key, then
    /// sequence number and kind in eight bytes) and the value. Range tombstones are not included.
    ///
    /// # Errors
    ///
    /// Those of the file, and of `take`.
    pub fn for_each_entry(&self, mut take: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let options = IterOptions {
            fill_cache: false,
            caller: CacheCaller::SstFileReader,
            ..IterOptions::default()
        };
        let mut iter = TableIter::new(self.table.clone(), options);
        let mut progress = iter.seek_to_first();
        loop {
            iter.complete(progress, &self.io);
            iter.status()?;
            if !iter.valid() {
                return Ok(());
            }
            take(iter.key(), iter.value())?;
            progress = iter.next();
        }
    }

    /// Reads the whole file and verifies every block.
    ///
    /// # Errors
    ///
    /// `Corruption` for the first damaged block, with its offset.
    pub fn verify_checksum(&self) -> Result<()> {
        self.table.verify_checksums(&self.io)
    }

    /// Counts the entries and compares the count with the properties.
    ///
    /// # Errors
    ///
    /// `Corruption` if they differ; those of the file.
    pub fn verify_num_entries(&self) -> Result<()> {
        let mut found = 0;
        self.for_each_entry(|_, _| {
            found += 1;
            Ok(())
        })?;
        let properties = self.properties();
        let expected = properties
            .num_entries
            .saturating_sub(properties.num_range_deletions);
        match found == expected {
            true => Ok(()),
            false => Err(Error::corruption(format!(
                "entries of {}: expected {expected} according to its properties, found {found}",
                self.view.family.family
            ))),
        }
    }
}

/// An iterator over one table. It keeps the file open.
pub struct SstIter(Box<DbIter>);

impl std::ops::Deref for SstIter {
    type Target = DbIter;
    fn deref(&self) -> &DbIter {
        &self.0
    }
}

impl std::ops::DerefMut for SstIter {
    fn deref_mut(&mut self) -> &mut DbIter {
        &mut self.0
    }
}
