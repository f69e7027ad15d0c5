//! Write batches: several writes that take effect together or not at all.

use cairn_format::batch::{Mark, Record, WriteBatch as Encoded, check_entry};
use cairn_types::{Code, Error, Result, Subcode};

use crate::handle::Family;
use crate::write::entry::entry;

/// A list of writes, to one or several column families, that becomes visible and durable as a
/// whole. Writes in it take effect in the order in which they were added.
///
/// The bytes are RocksDB's serialized form ([`WriteBatch::data`], [`WriteBatch::from_data`]).
#[derive(Clone, Default)]
pub struct WriteBatch {
    encoded: Encoded,
    /// Save points, each with a flag that is true if no write had been refused before it.
    save_points: Vec<(Mark, bool)>,
    /// The families that records name, but for the default family; each once.
    families: Vec<u32>,
    /// True if a record may be of the default family.
    in_default: bool,
    /// Bytes that [`WriteBatch::data`] may have; 0 for any number.
    max_bytes: usize,
    /// The first write that was not added: a key or value of 4 GiB, or more bytes than may be.
    /// Reported when the batch is written.
    refused: Option<Error>,
}

impl WriteBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> WriteBatch {
        WriteBatch::default()
    }

    /// An empty batch whose serialized form may have `max_bytes` bytes; 0 for any number. See
    /// [`WriteBatch::set_max_bytes`].
    #[must_use]
    pub fn with_max_bytes(max_bytes: usize) -> WriteBatch {
        WriteBatch {
            max_bytes,
            ..WriteBatch::default()
        }
    }

    /// Lets the serialized form grow to `max_bytes` bytes; 0 for any number, as at first. A write
    /// that would make it longer is not added, and the batch is [refused](WriteBatch::refused) with
    /// `Aborted` and the subcode `MemoryLimit`. What is there already stays.
    pub fn set_max_bytes(&mut self, max_bytes: usize) {
        self.max_bytes = max_bytes;
    }

    /// Bytes that the serialized form may have; 0 for any number.
    #[must_use]
    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// The reason why the first write that was refused was not added. The batch cannot be written before it is
    /// cleared, or [`WriteBatch::forget_refused`] is called.
    #[must_use]
    pub fn refused(&self) -> Option<&Error> {
        self.refused.as_ref()
    }

    /// Refuses the batch because of a write that cannot be added, unless it is refused already.
    pub fn refuse(&mut self, error: Error) {
        self.refused.get_or_insert(error);
    }

    /// Allows the batch to be written without the writes that were not added.
    pub fn forget_refused(&mut self) {
        self.refused = None;
    }

    /// The batch that RocksDB's serialized form describes.
    ///
    /// # Errors
    ///
    /// `Corruption` if the bytes are no batch, `NotSupported` for records that Cairn does not
    /// know.
    pub fn from_data(data: &[u8]) -> Result<WriteBatch> {
        let encoded = Encoded::from_bytes(data.to_vec())
            .map_err(|malformed| malformed.in_file("the write batch", 0))?;
        let mut families = Vec::new();
        let mut in_default = false;
        for record in encoded.view().records() {
            let record = record.map_err(|malformed| malformed.in_file("the write batch", 0))?;
            // What could not be inserted must not be logged.
            if let Some((_, entry)) = entry(&record)? {
                check_entry(entry.key.len(), entry.value.len())?;
            }
            match record.family() {
                Some(0) => in_default = true,
                Some(id) => note(&mut families, id),
                None => {}
            }
        }
        Ok(WriteBatch {
            encoded,
            save_points: Vec::new(),
            families,
            in_default,
            max_bytes: 0,
            refused: None,
        })
    }

    /// RocksDB's serialized form of this batch.
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
    /// `Corruption`, which no batch that was built or checked by this type shows.
    pub fn records(&self) -> impl Iterator<Item = Result<Record<'_>>> {
        let records = self.encoded.view().records();
        records.map(|record| record.map_err(|malformed| malformed.in_file("the write batch", 0)))
    }

    /// The number of writes in the batch.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.encoded.count()
    }

    /// True if the batch holds nothing, not even log data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// Removes everything, save points too. The memory is kept, and the limit of bytes.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.refused = None;
        self.save_points.clear();
        self.families.clear();
        self.in_default = false;
    }

    /// The memory of the serialized form, in bytes.
    #[inline]
    pub(crate) fn memory(&self) -> usize {
        self.encoded.capacity()
    }

    /// Empties the batch and gives its memory back if that is more than `bytes`.
    #[inline]
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        if self.memory() > bytes {
            *self = WriteBatch::with_max_bytes(self.max_bytes);
        }
    }

    /// Sets `key` to `value` in the default family.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.add(0, |encoded| encoded.put(0, key, value));
    }

    /// Sets `key` to `value` in `family`.
    pub fn put_in(&mut self, family: &Family, key: &[u8], value: &[u8]) {
        self.add(family.id(), |encoded| encoded.put(family.id(), key, value));
    }

    /// [`WriteBatch::put`] of a key and a value in pieces, which are copied once.
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
        self.add(family.id(), |encoded| {
            encoded.put_parts(family.id(), key, value)
        });
    }

    /// [`WriteBatch::merge`] of a key and an operand in pieces, which are copied once.
    pub fn merge_parts(&mut self, key: &[&[u8]], operand: &[&[u8]]) {
        self.add(0, |encoded| encoded.merge_parts(0, key, operand));
    }

    /// [`WriteBatch::merge_parts`] in `family`.
    pub fn merge_parts_in(&mut self, family: &Family, key: &[&[u8]], operand: &[&[u8]]) {
        self.add(family.id(), |encoded| {
            encoded.merge_parts(family.id(), key, operand)
        });
    }

    /// Deletes `key` from the default family. Deleting what does not exist is no error.
    pub fn delete(&mut self, key: &[u8]) {
        self.add(0, |encoded| encoded.delete(0, key));
    }

    /// Deletes `key` from `family`.
    pub fn delete_in(&mut self, family: &Family, key: &[u8]) {
        self.add(family.id(), |encoded| encoded.delete(family.id(), key));
    }

    /// Deletes `key`, which was put exactly once since it was last deleted. Cheaper than
    /// [`WriteBatch::delete`]; on a key that was put twice or merged the result is undefined.
    pub fn single_delete(&mut self, key: &[u8]) {
        self.add(0, |encoded| encoded.single_delete(0, key));
    }

    /// [`WriteBatch::single_delete`] in `family`.
    pub fn single_delete_in(&mut self, family: &Family, key: &[u8]) {
        self.add(family.id(), |encoded| {
            encoded.single_delete(family.id(), key)
        });
    }

    /// Deletes every key from `begin` up to, not including, `end`.
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) {
        self.add(0, |encoded| encoded.delete_range(0, begin, end));
    }

    /// [`WriteBatch::delete_range`] in `family`.
    pub fn delete_range_in(&mut self, family: &Family, begin: &[u8], end: &[u8]) {
        self.add(family.id(), |encoded| {
            encoded.delete_range(family.id(), begin, end)
        });
    }

    /// Adds an operand for the merge operator of the default family.
    pub fn merge(&mut self, key: &[u8], operand: &[u8]) {
        self.add(0, |encoded| encoded.merge(0, key, operand));
    }

    /// Adds an operand for the merge operator of `family`.
    pub fn merge_in(&mut self, family: &Family, key: &[u8], operand: &[u8]) {
        self.add(family.id(), |encoded| {
            encoded.merge(family.id(), key, operand)
        });
    }

    /// Adds bytes that only the log carries.
    pub fn put_log_data(&mut self, data: &[u8]) {
        self.add(0, |encoded| encoded.put_log_data(data));
    }

    /// Remembers the present state for [`WriteBatch::rollback_to_save_point`].
    pub fn set_save_point(&mut self) {
        self.save_points
            .push((self.encoded.mark(), self.refused.is_none()));
    }

    /// Removes what was added since the last save point, and that save point. A batch that was refused
    /// since then is so no more.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        let (point, was_whole) = self.take_save_point()?;
        self.encoded.go_back(point);
        if was_whole {
            self.refused = None;
        }
        Ok(())
    }

    /// Forgets the last save point and keeps what was added since.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.take_save_point().map(|_| ())
    }

    fn take_save_point(&mut self) -> Result<(Mark, bool)> {
        self.save_points
            .pop()
            .ok_or_else(|| Error::not_found("the batch has no save point"))
    }

    pub(crate) fn add(&mut self, family: u32, write: impl FnOnce(&mut Encoded) -> Result<()>) {
        let limited = (self.max_bytes > 0).then(|| self.encoded.mark());
        if let Err(error) = write(&mut self.encoded) {
            self.refuse(error);
        }
        if let Some(before) = limited {
            self.keep_within(before);
        }
        match family {
            0 => self.in_default = true,
            family => note(&mut self.families, family),
        }
    }

    /// Takes back what was added since `before` if that was too much.
    #[cold]
    fn keep_within(&mut self, before: Mark) {
        let (len, max) = (self.encoded.byte_len(), self.max_bytes);
        if len > max {
            self.encoded.go_back(before);
            let text = format!(
                "a write makes the batch {len} bytes long, of which it may have {max}: it was not added"
            );
            self.refuse(Error::new(Code::Aborted, Subcode::MemoryLimit, text));
        }
    }

    /// Checks that every write was added.
    pub(crate) fn check(&self) -> Result<()> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// True if a record may be of the family with this id.
    pub(crate) fn writes_to(&self, family: u32) -> bool {
        match family {
            0 => self.in_default,
            family => self.families.contains(&family),
        }
    }

    /// The families beside the default one that the records may name.
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
