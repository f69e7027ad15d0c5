//! Write batches: several writes that take effect together or not at all.

use cairn_format::batch::{Mark, WriteBatch as Encoded};
use cairn_types::{Error, Result};

use crate::family::Family;

/// A list of writes, to one or several column families, that becomes visible and durable as a
/// whole. Writes in it take effect in the order in which they were added.
///
/// The bytes are RocksDB's serialized form ([`WriteBatch::data`], [`WriteBatch::from_data`]).
#[derive(Clone, Default)]
pub struct WriteBatch {
    encoded: Encoded,
    save_points: Vec<Mark>,
    /// The families that records name, but for the default family; each once.
    families: Vec<u32>,
    /// Whether a record may be of the default family.
    in_default: bool,
    /// The first write that could not be encoded (a key or value of 4 GiB); reported when the
    /// batch is written.
    refused: Option<Error>,
}

impl WriteBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> WriteBatch {
        WriteBatch::default()
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
            refused: None,
        })
    }

    /// RocksDB's serialized form of this batch.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.encoded.as_bytes()
    }

    /// How many writes the batch holds.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.encoded.count()
    }

    /// Whether the batch holds nothing, not even log data.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// Removes everything, save points too. The memory is kept.
    pub fn clear(&mut self) {
        self.encoded.clear();
        self.refused = None;
        self.save_points.clear();
        self.families.clear();
        self.in_default = false;
    }

    /// Sets `key` to `value` in the default family.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.add(0, |encoded| encoded.put(0, key, value));
    }

    /// Sets `key` to `value` in `family`.
    pub fn put_in(&mut self, family: &Family, key: &[u8], value: &[u8]) {
        self.add(family.id(), |encoded| encoded.put(family.id(), key, value));
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
        self.save_points.push(self.encoded.mark());
    }

    /// Removes what was added since the last save point, and that save point.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no save point.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        let point = self.take_save_point()?;
        self.encoded.go_back(point);
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

    fn take_save_point(&mut self) -> Result<Mark> {
        self.save_points
            .pop()
            .ok_or_else(|| Error::not_found("the batch has no save point"))
    }

    pub(crate) fn add(&mut self, family: u32, write: impl FnOnce(&mut Encoded) -> Result<()>) {
        if let Err(error) = write(&mut self.encoded) {
            self.refused.get_or_insert(error);
        }
        match family {
            0 => self.in_default = true,
            family => note(&mut self.families, family),
        }
    }

    /// Whether every write could be encoded.
    pub(crate) fn check(&self) -> Result<()> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// Whether a record may be of the family with this id.
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
