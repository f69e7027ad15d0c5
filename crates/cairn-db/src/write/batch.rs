//! Write batches: several writes that are applied atomically.

use cairn_format::batch::{Mark, Record, WriteBatch as Encoded, check_entry};
use cairn_format::wide;
use cairn_types::{Code, Error, Result, Subcode};

use crate::db::handle::Family;
use crate::db::timestamps::Stamped;
use crate::write::entry::entry;
use crate::write::protection::{BatchChecksums, Protection};

/// The databases whose families a batch was given, by number; 0 for none. `other` is set if there are several.
#[derive(Clone, Copy, Default)]
pub(crate) struct Origin {
    pub(crate) first: u64,
    pub(crate) other: u64,
}

/// The state of a batch to which it can be rolled back.
#[derive(Clone)]
struct SavePoint {
    mark: Mark,
    /// True if no write had been rejected.
    was_whole: bool,
    origin: Origin,
    /// The numbers of families without and with timestamps.
    families: usize,
    stamped: usize,
    in_default: bool,
    has_ranges: bool,
    has_merges: bool,
    has_placeholders: bool,
}

/// A list of writes, to one or several column families, that becomes visible and durable as a
/// whole. Writes in it take effect in the order in which they were added.
///
/// The bytes are RocksDB's serialized form ([`WriteBatch::data`], [`WriteBatch::from_data`]).
#[derive(Clone, Default)]
pub struct WriteBatch {
    encoded: Encoded,
    save_points: Vec<SavePoint>,
    origin: Origin,
    /// The families of the records without timestamps, except the default family, without duplicates.
    families: Vec<u32>,
    /// True if a record may belong to the default family.
    in_default: bool,
    /// True if there may be a range deletion.
    pub(crate) has_ranges: bool,
    /// True if there may be a merge operand.
    pub(crate) has_merges: bool,
    /// The families whose keys were added with timestamps, and the size of these; they are not in `families`.
    stamped: Vec<(u32, usize)>,
    /// True if keys end with placeholders for timestamps, which [`WriteBatch::update_timestamps`] replaces.
    pub(crate) has_placeholders: bool,
    /// True if the batch was read from its serialized form: keys may end with timestamps.
    is_raw: bool,
    /// True if a record refers to a blob file, which belongs to the database that wrote the batch: it cannot be written.
    is_foreign: bool,
    /// The maximum size of [`WriteBatch::data`] in bytes; 0 for no limit.
    max_bytes: usize,
    /// The error of the first write that was not added: a key or value of 4 GiB, or a batch above its maximum
    /// size. Reported when the batch is written.
    refused: Option<Error>,
    /// The checksums of the writes, if the batch is protected.
    checksums: BatchChecksums,
}

impl WriteBatch {
    /// Creates an empty batch.
    #[must_use]
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// Creates an empty batch whose serialized form is limited to `max_bytes` bytes; 0 for no limit. See
    /// [`WriteBatch::set_max_bytes`].
    #[must_use]
    pub fn with_max_bytes(max_bytes: usize) -> WriteBatch {
        WriteBatch {
            max_bytes,
            ..WriteBatch::default()
        }
    }

    /// Limits the serialized form to `max_bytes` bytes; 0, the default, for no limit. A write that would
    /// exceed the limit is not added, and the batch is [refused](WriteBatch::refused) with `Aborted` and the
    /// subcode `MemoryLimit`. Earlier writes stay.
    pub fn set_max_bytes(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
    }

    /// Returns the maximum size of the serialized form in bytes; 0 for no limit.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Returns the reason why the first rejected write was not added. The batch cannot be written until it is
    /// cleared or [`WriteBatch::forget_refused`] is called.
    #[must_use]
    pub fn refused(&self) -> Option<&Error> {
        self.refused.as_ref()
    }

    /// Refuses the batch because a write cannot be added, unless it is already refused.
    pub fn refuse(&mut self, error: Error) {
        self.refused.get_or_insert(error);
    }

    /// Protects the writes of the batch with checksums of 8 bytes each, or stops protecting them. Each write that is added
    /// gets its checksum at once, which is verified until the write is in a memtable, as with
    /// `WriteOptions::protection_bytes_per_key`.
    ///
    /// # Errors
    ///
    /// `Corruption`, which cannot occur for a batch that was built or validated by this type.
    pub fn set_protected(&mut self, on: bool) -> Result<()> {
        self.checksums.enable(on, &self.encoded)
    }

    /// True if the writes of the batch have checksums.
    #[must_use]
    pub fn is_protected(&self) -> bool {
        self.checksums.is_on()
    }

    /// Verifies the checksums of the writes, if the batch is protected.
    ///
    /// # Errors
    ///
    /// `Corruption` if memory was damaged since a write was added.
    pub fn verify_checksums(&self) -> Result<()> {
        self.checksums.verify(&self.encoded)
    }

    /// The checksums of the writes, for the commit of the batch.
    #[inline]
    pub(crate) fn protection(&self) -> Option<Protection> {
        let checksums = self.checksums.get()?;
        Some(Protection::whole(checksums.clone()))
    }

    /// Allows the batch to be written without the rejected writes. A batch of [`WriteBatch::from_data`] that refers to
    /// blob files still cannot be written.
    pub fn forget_refused(&mut self) {
        self.refused = None;
    }

    /// Creates a batch from RocksDB's serialized form. It cannot be written if it refers to values in blob files, as do the
    /// updates of a database with `enable_blob_direct_write`.
    ///
    /// # Errors
    ///
    /// `Corruption` if the bytes are not a batch; `NotSupported` for unknown records.
    pub fn from_data(data: &[u8]) -> Result<WriteBatch> {
        let encoded = Encoded::from_bytes(data.to_vec())
            .map_err(|malformed| malformed.in_file("the write batch", 0))?;
        let mut families = Vec::new();
        let (mut in_default, mut is_foreign) = (false, false);
        let (mut has_ranges, mut has_merges) = (false, false);
        for record in encoded.view().records() {
            let record = record.map_err(|malformed| malformed.in_file("the write batch", 0))?;
            if let Record::BeginPrepare(_) | Record::EndPrepare { .. } = record {
                return Err(Error::not_supported(
                    "markers of a two-phase transaction in a write batch",
                ));
            }
            // A record that cannot be inserted must not be logged.
            if let Some((_, entry)) = entry(&record)? {
                check_entry(entry.key.len(), entry.value.len())?;
            }
            if let Record::PutEntity { entity, .. } = &record {
                wide::decode(entity)
                    .map_err(|malformed| malformed.in_file("an entity in the write batch", 0))?;
            }
            has_ranges |= matches!(record, Record::DeleteRange { .. });
            has_merges |= matches!(record, Record::Merge { .. });
            is_foreign |= matches!(record, Record::PutBlobIndex { .. });
            match record.family() {
                Some(0) => in_default = true,
                Some(id) => note(&mut families, id),
                None => {}
            }
        }
        Ok(WriteBatch {
            encoded,
            save_points: Vec::new(),
            origin: Origin::default(),
            families,
            in_default,
            has_ranges,
            has_merges,
            stamped: Vec::new(),
            has_placeholders: false,
            is_raw: true,
            is_foreign,
            max_bytes: 0,
            refused: None,
            checksums: BatchChecksums::default(),
        })
    }

    /// Makes a batch of a prepared section, with its markers.
    pub(crate) fn of_section(encoded: &Encoded) -> Result<WriteBatch> {
        let mut section = WriteBatch {
            is_raw: true,
            ..WriteBatch::default()
        };
        for record in encoded.view().records() {
            let record = record.map_err(|malformed| malformed.in_file("a prepared section", 0))?;
            match record.family() {
                Some(0) => section.in_default = true,
                Some(id) => note(&mut section.families, id),
                None => {}
            }
        }
        section.encoded = encoded.clone();
        Ok(section)
    }

    /// The encoded records.
    pub(crate) fn encoded(&self) -> &Encoded {
        &self.encoded
    }

    /// Returns RocksDB's serialized form of this batch.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.encoded.as_bytes()
    }

    /// The records in the order in which they were added, log data included.
    ///
    /// ```
    /// use cairn_db::{Record, WriteBatch};
    ///
    /// let mut batch = WriteBatch::new();
    /// batch.put(b"slate", b"metamorphic");
    /// batch.put_log_data(b"from the north");
    /// let records: Vec<_> = batch.records().collect::<Result<_, _>>()?;
    /// assert!(matches!(records[0], Record::Put { family: 0, key: b"slate", .. }));
    /// assert!(matches!(records[1], Record::LogData(b"from the north")));
    /// # Ok::<(), cairn_types::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `Corruption`, which cannot occur for a batch that was built or validated by this type.
    pub fn records(&self) -> impl Iterator<Item = Result<Record<'_>>> {
        let records = self.encoded.view().records();
        records.map(|record| record.map_err(|malformed| malformed.in_file("the write batch", 0)))
    }

    /// Returns the number of writes in the batch.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.encoded.count()
    }

    /// True if the batch is empty, without even log data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// Removes all writes and save points. The memory and the size limit are kept.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.refused = None;
        self.save_points.clear();
        self.origin = Origin::default();
        self.families.clear();
        self.in_default = false;
        self.has_ranges = false;
        self.has_merges = false;
        self.stamped.clear();
        self.has_placeholders = false;
        self.is_raw = false;
        self.is_foreign = false;
        self.checksums.shorten(0);
    }

    /// Returns the memory of the serialized form, in bytes.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.encoded.capacity()
    }

    /// Clears the batch and frees its memory if that exceeds `bytes`.
    #[inline]
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if self.memory() > bytes {
            let protected = self.is_protected();
            *self = WriteBatch::with_max_bytes(self.max_bytes);
            if protected {
                let enabled = self.set_protected(true);
                debug_assert!(enabled.is_ok(), "an empty batch is whole");
            }
        }
    }

    /// Sets `key` to `value` in the default family.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.add(0, |encoded| encoded.put(0, key, value));
    }

    /// Sets `key` to `value` in `family`.
    pub fn put_in(&mut self, family: &Family, key: &[u8], value: &[u8]) {
        if family.timestamp_size() > 0 {
            return self.add_stamped(family, key, None, &Stamped::Put(value));
        }
        let id = self.id_of(family);
        self.add(id, |encoded| encoded.put(id, key, value));
    }

    /// Like [`WriteBatch::put`], with key and value in pieces, which are copied once.
    ///
    /// ```
    /// let mut batch = cairn_db::WriteBatch::new();
    /// batch.put_parts(&[b"user:", b"4711"], &[b"name=", b"Ada"]);
    ///
    /// let mut whole = cairn_db::WriteBatch::new();
    /// whole.put(b"user:4711", b"name=Ada");
    /// assert_eq!(batch.data(), whole.data());
    /// ```
    pub fn put_parts(&mut self, key: &[&[u8]], value: &[&[u8]]) {
        self.add(0, |encoded| encoded.put_parts(0, key, value));
    }

    /// [`WriteBatch::put_parts`] in `family`.
    pub fn put_parts_in(&mut self, family: &Family, key: &[&[u8]], value: &[&[u8]]) {
        if family.timestamp_size() > 0 {
            return self.put_in(family, &key.concat(), &value.concat());
        }
        let id = self.id_of(family);
        self.add(id, |encoded| encoded.put_parts(id, key, value));
    }

    /// Like [`WriteBatch::merge`], with key and operand in pieces, which are copied once.
    pub fn merge_parts(&mut self, key: &[&[u8]], operand: &[&[u8]]) {
        self.has_merges = true;
        self.add(0, |encoded| encoded.merge_parts(0, key, operand));
    }

    /// [`WriteBatch::merge_parts`] in `family`.
    pub fn merge_parts_in(&mut self, family: &Family, key: &[&[u8]], operand: &[&[u8]]) {
        if family.timestamp_size() > 0 {
            return self.merge_in(family, &key.concat(), &operand.concat());
        }
        let id = self.id_of(family);
        self.has_merges = true;
        self.add(id, |encoded| encoded.merge_parts(id, key, operand));
    }

    /// Deletes `key` from the default family. Deleting a missing key is not an error.
    pub fn delete(&mut self, key: &[u8]) {
        self.add(0, |encoded| encoded.delete(0, key));
    }

    /// Deletes `key` from `family`.
    pub fn delete_in(&mut self, family: &Family, key: &[u8]) {
        if family.timestamp_size() > 0 {
            return self.add_stamped(family, key, None, &Stamped::Delete);
        }
        let id = self.id_of(family);
        self.add(id, |encoded| encoded.delete(id, key));
    }

    /// Deletes `key`, which was put exactly once since it was last deleted. Cheaper than
    /// [`WriteBatch::delete`]; on a key that was put twice or merged the result is undefined.
    pub fn single_delete(&mut self, key: &[u8]) {
        self.add(0, |encoded| encoded.single_delete(0, key));
    }

    /// [`WriteBatch::single_delete`] in `family`.
    pub fn single_delete_in(&mut self, family: &Family, key: &[u8]) {
        if family.timestamp_size() > 0 {
            return self.add_stamped(family, key, None, &Stamped::SingleDelete);
        }
        let id = self.id_of(family);
        self.add(id, |encoded| encoded.single_delete(id, key));
    }

    /// Deletes every key from `begin` up to, not including, `end`. The write of the batch fails with `InvalidArgument` if
    /// `end` comes before `begin`.
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) {
        self.has_ranges = true;
        self.add(0, |encoded| encoded.delete_range(0, begin, end));
    }

    /// [`WriteBatch::delete_range`] in `family`.
    pub fn delete_range_in(&mut self, family: &Family, begin: &[u8], end: &[u8]) {
        self.has_ranges = true;
        if family.timestamp_size() > 0 {
            return self.add_stamped(family, begin, None, &Stamped::DeleteRange(end));
        }
        let id = self.id_of(family);
        self.add(id, |encoded| encoded.delete_range(id, begin, end));
    }

    /// Adds an operand for the merge operator of the default family.
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) {
        self.has_merges = true;
        self.add(0, |encoded| encoded.merge(0, key, operand));
    }

    /// Adds an operand for the merge operator of `family`.
    pub fn merge_in(&mut self, family: &Family, key: &[u8], operand: &[u8]) {
        if family.timestamp_size() > 0 {
            return self.add_stamped(family, key, None, &Stamped::Merge(operand));
        }
        let id = self.id_of(family);
        self.has_merges = true;
        self.add(id, |encoded| encoded.merge(id, key, operand));
    }

    /// Adds bytes that are written to the log only.
    pub fn put_log_data(&mut self, data: &[u8]) {
        self.add_record(|encoded| encoded.put_log_data(data));
    }

    /// Records the current state for [`WriteBatch::rollback_to_save_point`].
    pub fn set_save_point(&mut self) {
        self.save_points.push(SavePoint {
            mark: self.encoded.mark(),
            was_whole: self.refused.is_none(),
            origin: self.origin,
            families: self.families.len(),
            stamped: self.stamped.len(),
            in_default: self.in_default,
            has_ranges: self.has_ranges,
            has_merges: self.has_merges,
            has_placeholders: self.has_placeholders,
        });
    }

    /// Removes the writes added since the last save point, and the save point itself. If the batch was
    /// refused since then, it no longer is.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        let point = self.take_save_point()?;
        self.encoded.go_back(point.mark);
        self.checksums.shorten(self.encoded.count());
        self.origin = point.origin;
        self.families.truncate(point.families);
        self.stamped.truncate(point.stamped);
        self.in_default = point.in_default;
        self.has_ranges = point.has_ranges;
        self.has_merges = point.has_merges;
        // The placeholders from before the save point may have been replaced since.
        self.has_placeholders &= point.has_placeholders;
        if point.was_whole {
            self.refused = None;
        }
        Ok(())
    }

    /// Removes the last save point and keeps the writes added since.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.take_save_point().map(|_| ())
    }

    fn take_save_point(&mut self) -> Result<SavePoint> {
        self.save_points
            .pop()
            .ok_or_else(|| Error::not_found("the batch has no save point"))
    }

    /// Returns the id of `family`, whose database is noted.
    #[inline]
    pub(crate) fn id_of(&mut self, family: &Family) -> u32 {
        let number = family.db.number;
        if self.origin.first != number {
            self.note_origin(number);
        }
        family.id()
    }

    #[cold]
    fn note_origin(&mut self, number: u64) {
        match self.origin.first {
            0 => self.origin.first = number,
            _ => self.origin.other = number,
        }
    }

    /// Notes that the writes were added to families of the database of `other`; see [`crate::Db::check_batch`].
    pub fn set_origin_of(&mut self, other: &WriteBatch) {
        self.origin = other.origin;
    }

    /// The databases of the families that were named.
    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }

    pub(crate) fn add(&mut self, family: u32, write: impl FnOnce(&mut Encoded) -> Result<()>) {
        self.add_record(write);
        match family {
            0 => self.in_default = true,
            family => note(&mut self.families, family),
        }
    }

    /// Adds a record of a family that is noted elsewhere.
    #[inline]
    fn add_record(&mut self, write: impl FnOnce(&mut Encoded) -> Result<()>) {
        let limited = (self.max_bytes > 0).then(|| self.encoded.mark());
        let from = self.encoded.byte_len();
        if let Err(error) = write(&mut self.encoded) {
            self.refuse(error);
        }
        if self.checksums.is_on()
            && let Err(error) = self.checksums.added(&self.encoded, from)
        {
            self.refuse(error);
        }
        if let Some(before) = limited {
            self.keep_within(before);
        }
    }

    /// Adds a record of a family whose keys have timestamps of `size` bytes.
    pub(crate) fn add_of_stamped(
        &mut self,
        family: u32,
        size: usize,
        write: impl FnOnce(&mut Encoded) -> Result<()>,
    ) {
        self.add_record(write);
        if !self.stamped.contains(&(family, size)) {
            self.stamped.push((family, size));
        }
    }

    /// Copies the facts about timestamps from `other`, a batch with the same keys.
    pub(crate) fn stamp_like(&mut self, other: &WriteBatch) {
        self.stamped.clone_from(&other.stamped);
        self.families.clone_from(&other.families);
        self.in_default = other.in_default;
        self.has_ranges = other.has_ranges;
        self.has_merges = other.has_merges;
        self.has_placeholders = other.has_placeholders;
        self.is_raw = other.is_raw;
        self.is_foreign = other.is_foreign;
    }

    /// Sets the last bytes of the keys of the families for which `size_of` returns the length of `timestamp`.
    pub(crate) fn set_timestamps(
        &mut self,
        timestamp: &[u8],
        size_of: impl FnMut(u32) -> Option<usize>,
    ) -> Result<()> {
        self.verify_checksums()?;
        self.encoded.set_timestamps(timestamp, size_of)?;
        if self.is_protected() {
            self.set_protected(true)?;
        }
        self.has_placeholders = false;
        Ok(())
    }

    /// Removes the writes added since `before` if the batch exceeds its maximum size.
    #[cold]
    fn keep_within(&mut self, before: Mark) {
        let (len, max) = (self.encoded.byte_len(), self.max_bytes);
        if len > max {
            self.encoded.go_back(before);
            self.checksums.shorten(self.encoded.count());
            let text = format!(
                "a write makes the batch {len} bytes long, of which it may have {max}: it was not added"
            );
            self.refuse(Error::new(Code::Aborted, Subcode::MemoryLimit, text));
        }
    }

    /// Returns an error if a write was rejected.
    pub(crate) fn check(&self) -> Result<()> {
        self.verify_checksums()?;
        if self.is_foreign {
            return Err(Error::not_supported(
                "a batch with a reference to a blob file, which belongs to the database that wrote it",
            ));
        }
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// The families whose keys were added with timestamps, and the size of these.
    #[inline]
    pub(crate) fn stamped(&self) -> &[(u32, usize)] {
        &self.stamped
    }

    /// True if there may be a range deletion.
    #[inline]
    pub(crate) fn has_ranges(&self) -> bool {
        self.has_ranges
    }

    /// True if there may be a merge operand.
    #[inline]
    pub(crate) fn has_merges(&self) -> bool {
        self.has_merges
    }

    /// True if the batch was read from its serialized form.
    pub(crate) fn is_raw(&self) -> bool {
        self.is_raw
    }

    /// True if a record may belong to the family with this id.
    pub(crate) fn writes_to(&self, family: u32) -> bool {
        self.writes_plain_to(family) || self.stamped.iter().any(|&(id, _)| id == family)
    }

    /// True if a record without a timestamp may belong to the family with this id.
    pub(crate) fn writes_plain_to(&self, family: u32) -> bool {
        match family {
            0 => self.in_default,
            family => self.families.contains(&family),
        }
    }

    /// The families other than the default one that the records without timestamps may belong to.
    pub(crate) fn families(&self) -> &[u32] {
        &self.families
    }
}

fn note(families: &mut Vec<u32>, id: u32) {
    if !families.contains(&id) {
        families.push(id);
    }
}

impl std::fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "WriteBatch({} writes, {} bytes)",
            self.count(),
            self.data().len()
        )
    }
}
