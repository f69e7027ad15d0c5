//! Writes entries to tables, and determines the boundaries, bounds and range tombstones of each
//! table.
//!
//! The outputs of a subcompaction cover its range of user keys without gaps: each covers the keys
//! from its own first key up to, but excluding, the first key of the next output. Range tombstones
//! are truncated at those boundaries. No user key is in two outputs, so output files never share a
//! boundary key.
//!
//! Values are separated or relocated by [`crate::value_separation`] before their entry is written.

use std::borrow::Cow;

use cairn_format::id::UniqueId;
use cairn_format::key::{self, InternalKey};
use cairn_format::range_del::{Fragment, Fragments};
use cairn_memory::MemoryUse;
use cairn_observe::files::measured_writes;
use cairn_observe::statistics::Histogram;
use cairn_observe::threads::{self, Stage};
use cairn_platform::WritableFile;
use cairn_platform::sync::Arc;
use cairn_table::{TableBuilder, TableStats};
use cairn_types::{FileNumber, Result, SstPartitioner, ValueKind};
use cairn_version::file_meta::EntryCounts;
use cairn_version::{BlobFileMeta, FileMeta, bounds};

use crate::property_collectors::PropertyCollectors;

use crate::blob_garbage::BlobGarbageMeter;
use crate::compaction_iterator::Entry;
use crate::history::push_with_minimum;
use crate::output_params::OutputParams;
use crate::output_splitter::OutputSplitter;
use crate::output_verification::OutputValidator;
use crate::stats::JobStats;
use crate::value_separation::{PlacedEntry, ValueSeparator};

/// Approximate size of the properties, metaindex and footer, in bytes.
const TAIL_BYTES: u64 = 2 << 10;

/// The table under construction.
struct Open {
    number: FileNumber,
    file: Arc<dyn WritableFile>,
    builder: TableBuilder,
    /// The first key, empty before the first entry.
    smallest: Vec<u8>,
    oldest_blob: Option<FileNumber>,
    points: u64,
    collectors: PropertyCollectors,
    /// The validator of the finished table; `None` if output verification is off.
    validator: Option<OutputValidator>,
}

/// The output tables of one subcompaction.
pub(crate) struct Outputs<'a> {
    params: &'a OutputParams,
    /// The range tombstones to write.
    tombstones: Arc<Fragments>,
    splitter: OutputSplitter,
    /// The user's partitioner.
    partitioner: Option<Box<dyn SstPartitioner>>,
    /// True if no table may exceed its target size.
    strict_size: bool,
    /// The first user key covered by the current table; `None` if it is unbounded below.
    lower: Option<Vec<u8>>,
    open: Option<Open>,
    files: Vec<Arc<FileMeta>>,
    /// `None` only while writing an entry that may borrow from it.
    values: Option<Box<ValueSeparator<'a>>>,
    pub(crate) stats: JobStats,
}

/// The files written by one subcompaction.
pub(crate) struct Written {
    pub(crate) files: Vec<Arc<FileMeta>>,
    pub(crate) blobs: Vec<Arc<BlobFileMeta>>,
    /// Blob references of written entries.
    pub(crate) garbage: BlobGarbageMeter,
    pub(crate) stats: JobStats,
}

impl<'a> Outputs<'a> {
    /// Creates the outputs for user keys at or after `lower`, with the part of `tombstones` in
    /// their ranges.
    pub(crate) fn new(
        params: &'a OutputParams,
        tombstones: Arc<Fragments>,
        splitter: OutputSplitter,
        lower: Option<&[u8]>,
    ) -> Outputs<'a> {
        Outputs {
            params,
            tombstones,
            splitter,
            partitioner: None,
            strict_size: params.level > 0
                && params
                    .context
                    .family
                    .options
                    .target_file_size_is_upper_bound,
            lower: lower.map(<[u8]>::to_vec),
            open: None,
            files: Vec::new(),
            values: Some(Box::new(ValueSeparator::new(params))),
            stats: JobStats::default(),
        }
    }

    /// Adds the boundaries of `partitioner`. Level 0 is not partitioned.
    #[must_use]
    pub(crate) fn partitioned(mut self, partitioner: Option<Box<dyn SstPartitioner>>) -> Self {
        self.partitioner = partitioner.filter(|_| self.params.level > 0);
        self
    }

    /// True if the partitioner requires a boundary between the last entry and `internal`.
    #[inline]
    fn is_border(&mut self, internal: &[u8]) -> bool {
        self.partitioner.is_some() && self.is_partition_border(internal)
    }

    fn is_partition_border(&mut self, internal: &[u8]) -> bool {
        let (Some(partitioner), Some(open)) = (&mut self.partitioner, &self.open) else {
            return false;
        };
        let last = last_key(self.params, open);
        let (last, next) = (key::user_key(&last), key::user_key(internal));
        partitioner.should_partition(last, next, open.builder.file_size())
    }

    /// Returns the size of the current table for the splitter, given that `entry` comes next.
    #[inline]
    fn size_before(&self, entry: &Entry<'_>) -> u64 {
        match &self.open {
            None => 0,
            Some(open) if self.strict_size => {
                let entry = (entry.key.len() + entry.value.len()) as u64;
                open.builder.estimated_file_size() + entry + TAIL_BYTES
            }
            Some(open) => open.builder.file_size(),
        }
    }

    /// Appends an entry.
    #[inline]
    pub(crate) fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        // Truncation is intended: the lowest byte is the kind.
        let is_value = key::packed(entry.key) as u8 == ValueKind::Value as u8;
        if is_value && self.params.blobs.min_bytes.is_none() {
            return self.add_placed(&PlacedEntry {
                entry,
                oldest_blob: None,
            });
        }
        let mut values = self
            .values
            .take()
            .expect("it is put back after every entry");
        let added = values
            .place(entry)
            .and_then(|placed| self.add_placed(&placed));
        self.values = Some(values);
        added
    }

    #[inline]
    fn add_placed(&mut self, placed: &PlacedEntry<'_>) -> Result<()> {
        let entry = placed.entry;
        let size = self.size_before(&entry);
        let full = self.splitter.ends_before(entry.key, size);
        if (full || self.is_border(entry.key)) && self.open.is_some() {
            self.cut_before(entry.key)?;
        }
        if self.open.is_none() {
            self.open = Some(self.create()?);
        }
        let Some(open) = &mut self.open else {
            unreachable!("the table was just created");
        };
        open.builder.add(entry.key, entry.value)?;
        let size = open.builder.file_size();
        open.collectors.add(entry.key, entry.value, size)?;
        open.points += 1;
        if let Some(validator) = &mut open.validator {
            validator.written(entry.key, entry.value);
        }
        if open.smallest.is_empty() {
            open.smallest.extend_from_slice(entry.key);
        }
        if let Some(number) = placed.oldest_blob {
            open.oldest_blob = Some(open.oldest_blob.map_or(number, |oldest| oldest.min(number)));
        }
        Ok(())
    }

    /// Ends the last table, which covers the keys before `upper`, and the last blob file, and returns
    /// all files.
    pub(crate) fn finish(mut self, upper: Option<&[u8]>) -> Result<Written> {
        self.end(upper)?;
        let values = self.values.expect("it is put back after every entry");
        self.stats.blobs_read = values.blobs_read();
        (self.stats.relocated_blobs, self.stats.relocated_blob_bytes) = values.relocated;
        let (blobs, garbage, blob_bytes) = values.finish()?;
        self.stats.output_blob_files = blobs.len() as u64;
        self.stats.output_blob_bytes = blob_bytes;
        Ok(Written {
            files: self.files,
            blobs,
            garbage,
            stats: self.stats,
        })
    }

    /// Ends the current table before `internal`, unless the table already contains its user key.
    fn cut_before(&mut self, internal: &[u8]) -> Result<()> {
        let order = &self.params.context.family.order;
        let user = key::user_key(internal);
        let goes_on = self.open.as_ref().is_some_and(|open| {
            order
                .compare_without_timestamp(key::user_key(&last_key(self.params, open)), user)
                .is_eq()
        });
        if !goes_on {
            let user = key::strip_timestamp(user, order.timestamp_size()).to_vec();
            debug_assert!(
                self.lower
                    .as_ref()
                    .is_none_or(|lower| key::compare_plain(order, lower, &user).is_le()),
                "output boundaries ascend"
            );
            self.end(Some(&user))?;
            self.splitter.cut();
            self.lower = Some(user);
        }
        Ok(())
    }

    fn create(&self) -> Result<Open> {
        let context = &self.params.context;
        let number = (context.new_number)();
        let path = self.params.path_of(number);
        if let Some(events) = &context.events {
            events.table_started(number, &path);
        }
        let file = context.create(&path, self.params.temperature)?;
        let file = measured_writes(file, &context.meter, Histogram::SstWriteMicros);
        self.params.created.lock().push(path);
        let mut builder = TableBuilder::create(file.clone(), self.params.params(number))?;
        let (options, level) = (&context.family.options, self.params.level);
        Ok(Open {
            number,
            collectors: PropertyCollectors::new(options, context.family.id, level, &mut builder),
            builder,
            file,
            smallest: Vec::new(),
            oldest_blob: None,
            points: 0,
            validator: OutputValidator::new(options, self.params.flushes(), &context.family.order),
        })
    }

    /// Ends the current table, which covers the keys before `upper`. A range with tombstones but no
    /// entry gets a table for the tombstones.
    fn end(&mut self, upper: Option<&[u8]>) -> Result<()> {
        let order = &self.params.context.family.order;
        let mine = || self.tombstones.clipped(order, self.lower.as_deref(), upper);
        let mut open = match self.open.take() {
            Some(open) => open,
            None if mine().next().is_none() => return Ok(()),
            None => self.create()?,
        };
        let mut largest = last_key(self.params, &open).into_owned();
        for tombstone in mine().flat_map(|fragment| fragment.tombstones().collect::<Vec<_>>()) {
            let (start, end) = tombstone.encode();
            open.builder.add_range_tombstone(start.as_bytes(), &end)?;
            open.collectors
                .add(start.as_bytes(), &end, open.builder.file_size())?;
            let end = tombstone.upper_bound();
            if open.smallest.is_empty() {
                open.smallest.extend_from_slice(start.as_bytes());
            }
            if largest.is_empty() {
                largest.extend_from_slice(end.as_bytes());
            }
            open.smallest = bounds::min(order, &open.smallest, start.as_bytes()).to_vec();
            largest = bounds::max(order, &largest, end.as_bytes()).to_vec();
        }
        let hides = self.covered_bytes(mine());
        let file = self.close(open, &largest, hides)?;
        let order = &self.params.context.family.order;
        debug_assert!(
            self.files
                .last()
                .is_none_or(|last| bounds::are_apart(order, last, &file)),
            "outputs are disjoint and ascend"
        );
        // A job may have thousands of outputs before its version is installed.
        let charge = &self.params.context.family.charge;
        if let Some(charge) = charge.charge(MemoryUse::FileMetadata, file.memory_usage()) {
            // The file is new and has no charge.
            let _ = file.charge.set(Arc::new(charge));
        }
        self.files.push(file);
        Ok(())
    }

    /// Finishes and syncs a table whose last key is `largest` and whose tombstones cover `hides`
    /// bytes below it, and verifies it if enabled.
    fn close(&mut self, mut open: Open, largest: &[u8], hides: u64) -> Result<Arc<FileMeta>> {
        let context = &self.params.context;
        let _stage = (!self.params.flushes()).then(|| threads::stage(Stage::CompactionSyncFile));
        let seqs = open.builder.seq_range().unwrap_or_default();
        let marked = open.collectors.finish(&mut open.builder)?;
        open.builder.properties_mut().seqno_time_map = self.params.times.property(seqs);
        let table = open.builder.finish()?;
        let began = context.meter.began();
        open.file.sync(context.database.options.use_fsync)?;
        let syncing = match self.params.flushes() {
            true => Histogram::TableSyncMicros,
            false => Histogram::CompactionOutfileSyncMicros,
        };
        context.meter.time_since(began, syncing);
        open.file.close()?;
        let properties = &table.properties;
        assert!(
            properties.num_entries > 0,
            "an output has an entry or a range tombstone"
        );
        assert_eq!(
            properties.num_entries,
            open.points + properties.num_range_deletions,
            "the table holds every entry that was added"
        );
        let mut file = metadata(self.params, open.number, &table, [&open.smallest, largest])?;
        assert!(seqs.0 <= seqs.1, "the sequence number range is ordered");
        (file.seqs.smallest, file.seqs.largest) = seqs;
        file.hints.marked = marked;
        file.oldest_blob = open.oldest_blob;
        file.compensated_range_deletion_size = hides;
        self.stats.output_files += 1;
        self.stats.output_bytes += table.file_size;
        self.stats.output_entries += open.points;
        self.stats.output_raw_bytes += properties.raw_key_size + properties.raw_value_size;
        let file = Arc::new(file);
        if let Some(validator) = &open.validator {
            validator.check(context, &file, self.params.level)?;
        }
        if let Some(events) = &context.events {
            let path = self.params.path_of(open.number);
            events.table_created(&path, &file, &Arc::new(table.properties));
        }
        Ok(file)
    }

    /// Returns the total size of files below the output whose key range is covered by one range
    /// tombstone.
    fn covered_bytes<'f>(&self, tombstones: impl Iterator<Item = Fragment<'f>>) -> u64 {
        let Some(version) = &self.params.version else {
            return 0;
        };
        let order = version.order();
        let size = order.timestamp_size();
        let mut bytes = 0_u64;
        for fragment in tombstones {
            for level in version.levels().iter().skip(self.params.level + 1) {
                let files = level.files();
                let from = files.partition_point(|file| {
                    let smallest = key::strip_timestamp(file.smallest.user_key(), size);
                    key::compare_plain(order, smallest, fragment.start).is_lt()
                });
                let covered = files[from..].iter().take_while(|file| {
                    let largest = key::strip_timestamp(file.largest.user_key(), size);
                    key::compare_plain(order, largest, fragment.end).is_lt()
                });
                bytes = covered.fold(bytes, |bytes, file| bytes.saturating_add(file.size));
            }
        }
        bytes
    }
}

/// Returns the bytes of timestamps that the table builder omits from keys.
fn stripped_size(params: &OutputParams) -> usize {
    let family = &params.context.family;
    match family.options.persist_user_defined_timestamps {
        true => 0,
        false => family.order.timestamp_size(),
    }
}

/// Returns the last key of the table. If the builder omits timestamps, it has the smallest one; empty if there is no key.
fn last_key<'o>(params: &OutputParams, open: &'o Open) -> Cow<'o, [u8]> {
    let last = open.builder.last_key();
    match stripped_size(params) {
        0 => Cow::Borrowed(last),
        _ if last.is_empty() => Cow::Borrowed(last),
        size => {
            let user = key::user_key(last);
            Cow::Owned([user, &vec![0; size], &last[user.len()..]].concat())
        }
    }
}

/// Returns what `params` and `table` determine of the metadata of the table `number` with these bounds.
fn metadata(
    params: &OutputParams,
    number: FileNumber,
    table: &TableStats,
    bounds: [&[u8]; 2],
) -> Result<FileMeta> {
    let bound = |bytes: &[u8]| {
        InternalKey::decode(&stored_bound(params, bytes))
            .map_err(|malformed| malformed.in_file("a new table", 0))
    };
    let [smallest, largest] = bounds;
    let size = table.file_size;
    let mut file = FileMeta::new(number, size, bound(smallest)?, bound(largest)?);
    file.path_id = params.path_id;
    file.temperature = params.temperature.number();
    file.epoch = params.epoch;
    file.times.oldest_ancester = params.oldest_time;
    file.times.file = params.now;
    file.table
        .note_times(params.oldest_time, params.newest_time, params.now);
    let database = &params.context.database;
    file.unique_id =
        UniqueId::of_table(&database.id, &database.session_id, number.0).map(|id| id.short());
    file.tail_size = table.tail_size;
    if let Some((checksum, function)) = &table.file_checksum {
        file.checksum.value.clone_from(checksum);
        file.checksum.function = function.clone().into();
    }
    let properties = &table.properties;
    let drops_more = !params.bottommost && properties.num_deletions > 0;
    file.hints.settled = params.unhindered && !drops_more;
    file.timestamps.persisted = !properties.timestamps_stripped;
    if let Some((least, most)) = &properties.timestamps {
        (file.timestamps.min, file.timestamps.max) = (least.clone(), most.clone());
    }
    file.counts
        .set(EntryCounts::of(properties))
        .expect("the metadata was just created");
    Ok(file)
}

/// Returns the bound `internal` of a table as it is when the table is recovered: with the smallest timestamp if keys are
/// stored without.
fn stored_bound<'b>(params: &OutputParams, internal: &'b [u8]) -> Cow<'b, [u8]> {
    let size = stripped_size(params);
    if size == 0 {
        return Cow::Borrowed(internal);
    }
    let user = key::user_key(internal);
    let mut bound = Vec::with_capacity(internal.len());
    push_with_minimum(&mut bound, user, size);
    bound.extend_from_slice(&internal[user.len()..]);
    Cow::Owned(bound)
}
