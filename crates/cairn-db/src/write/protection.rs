//! Checksums of the writes of a batch (`WriteOptions::protection_bytes_per_key`), from the caller to the memtables.
//!
//! The checksums are computed when the batch is handed over or, for a batch that is protected itself, when a write is
//! added to it. They are verified before the batch is logged, before it is inserted, and against the entries in the
//! memtables, so that damage to memory on the way is neither logged nor read, but reported.

use cairn_format::batch::{BatchRef, HEADER_LEN, Record, WriteBatch as Encoded};
use cairn_format::protection::EntryChecksum;
use cairn_types::{Error, Result};

use super::entry::entry;

/// The checksums of the parts of a batch, in the order of their writes.
#[derive(Clone, Debug)]
pub(crate) struct Protection {
    logged: Vec<EntryChecksum>,
    /// `None` if the part for the memtables is the same.
    inserted: Option<Vec<EntryChecksum>>,
}

impl Protection {
    /// The protection of a batch that is logged and inserted as it is.
    pub(crate) fn whole(checksums: Vec<EntryChecksum>) -> Protection {
        Protection {
            logged: checksums,
            inserted: None,
        }
    }

    /// Computes the checksums of the parts of a batch.
    pub(crate) fn of(logged: &[u8], inserted: &[u8]) -> Result<Protection> {
        let is_whole = std::ptr::eq(logged, inserted);
        Ok(Protection {
            logged: checksums(logged)?,
            inserted: match is_whole {
                true => None,
                false => Some(checksums(inserted)?),
            },
        })
    }

    /// Verifies the part for the log.
    pub(crate) fn verify_logged(&self, bytes: &[u8]) -> Result<()> {
        verify(bytes, &self.logged)
    }

    /// The checksums of the part for the memtables.
    pub(crate) fn inserted(&self) -> &[EntryChecksum] {
        self.inserted.as_ref().unwrap_or(&self.logged)
    }
}

/// Returns the checksum of a write; `None` for a record that is only logged.
pub(crate) fn checksum(record: &Record<'_>) -> Result<Option<EntryChecksum>> {
    if record.family().is_none() {
        return Ok(None);
    }
    let found = entry(record)?;
    Ok(found.map(|(family, entry)| {
        EntryChecksum::new(entry.key, entry.value)
            .with_kind(entry.kind)
            .with_family(family)
    }))
}

/// Parses a batch.
pub(crate) fn parsed(bytes: &[u8]) -> Result<BatchRef<'_>> {
    BatchRef::parse(bytes).map_err(|malformed| malformed.in_file("the write batch", 0))
}

/// Returns the checksums of the writes of the batch `bytes`.
pub(crate) fn checksums(bytes: &[u8]) -> Result<Vec<EntryChecksum>> {
    let batch = parsed(bytes)?;
    let mut found = Vec::with_capacity(bytes.len().saturating_sub(HEADER_LEN) / 32);
    for record in batch.records() {
        let record = record.map_err(|malformed| malformed.in_file("the write batch", 0))?;
        found.extend(checksum(&record)?);
    }
    Ok(found)
}

/// Verifies that the writes of the batch `bytes` have the checksums `expected`.
pub(crate) fn verify(bytes: &[u8], expected: &[EntryChecksum]) -> Result<()> {
    let found = checksums(bytes)?;
    if found == expected {
        return Ok(());
    }
    let equal = found.iter().zip(expected).take_while(|(a, b)| a == b);
    Err(damaged(equal.count()))
}

/// The error for the write with this number in its batch.
#[cold]
pub(crate) fn damaged(nth: usize) -> Error {
    Error::corruption(format!(
        "write {nth} of a batch does not match its checksum: memory is damaged"
    ))
}

/// The checksums of a batch that is being built.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchChecksums(Option<Vec<EntryChecksum>>);

impl BatchChecksums {
    /// Starts or stops the protection of `batch`.
    pub(crate) fn enable(&mut self, on: bool, batch: &Encoded) -> Result<()> {
        self.0 = match on {
            true => Some(checksums(batch.as_bytes())?),
            false => None,
        };
        Ok(())
    }

    /// True if the batch is protected.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The checksums; `None` if the batch is not protected.
    #[inline]
    pub(crate) fn get(&self) -> Option<&Vec<EntryChecksum>> {
        self.0.as_ref()
    }

    /// Adds the checksums of the records of `batch` from the offset `from` on.
    #[cold]
    pub(crate) fn added(&mut self, batch: &Encoded, from: usize) -> Result<()> {
        let Some(sums) = &mut self.0 else {
            return Ok(());
        };
        let mut at = from;
        while at < batch.byte_len() {
            let (record, next) = batch
                .view()
                .record_from(at)
                .map_err(|malformed| malformed.in_file("the write batch", 0))?;
            sums.extend(checksum(&record)?);
            at = next;
        }
        Ok(())
    }

    /// Removes the checksums of writes that are no longer in the batch, which has `count` writes.
    pub(crate) fn shorten(&mut self, count: u32) {
        if let Some(sums) = &mut self.0 {
            sums.truncate(count as usize);
        }
    }

    /// Verifies the writes of `batch`.
    #[inline]
    pub(crate) fn verify(&self, batch: &Encoded) -> Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(sums) => verify(batch.as_bytes(), sums),
        }
    }
}

#[cfg(test)]
mod tests {
    use cairn_options::WriteOptions;
    use cairn_types::Code;

    use super::*;
    use crate::WriteBatch;
    use crate::db::open_in_memory;
    use crate::write::commit::Company;
    use crate::write::queue::Batch;

    fn protected() -> WriteOptions {
        WriteOptions {
            protection_bytes_per_key: 8,
            ..WriteOptions::default()
        }
    }

    fn batch() -> WriteBatch {
        let mut batch = WriteBatch::new();
        batch.put(b"granite", b"igneous");
        batch.put_log_data(b"from the north");
        batch.delete(b"marble");
        batch.delete_range(b"a", b"c");
        batch.single_delete(b"chalk");
        batch
    }

    #[test]
    fn a_changed_write_is_found() {
        let batch = batch();
        let whole = Protection::of(batch.data(), batch.data()).unwrap();
        whole.verify_logged(batch.data()).unwrap();
        for at in HEADER_LEN..batch.data().len() {
            let mut bytes = batch.data().to_vec();
            bytes[at] ^= 1;
            let changed = whole.verify_logged(&bytes);
            // Log data is not protected.
            let text = b"from the north";
            let log_data = bytes.windows(text.len()).any(|window| window == text);
            assert_eq!(changed.is_err(), log_data, "offset {at}");
        }
    }

    #[test]
    fn a_damaged_batch_is_neither_logged_nor_read() {
        let db = open_in_memory();
        db.put(b"before", b"1").unwrap();
        let damaged = batch();
        let wrong = Protection::whole(checksums(WriteBatch::new().data()).unwrap());
        let parts = Batch {
            protection: Some(&wrong),
            ..Batch::whole(damaged.data())
        };
        let shared = db.shared();
        let error = shared.write_parts(parts, &protected(), None).unwrap_err();
        assert_eq!(error.code(), Code::Corruption);
        assert!(db.get(b"granite").unwrap().is_none());
        // Nothing was logged: the database goes on.
        db.put(b"after", b"2").unwrap();
        let inserted = shared.insert_protected(
            damaged.data(),
            &wrong,
            db.latest_sequence().plus(1),
            Company::OtherGroups,
        );
        assert_eq!(inserted.unwrap_err().code(), Code::Corruption);
        assert!(db.get(b"granite").unwrap().is_none());
    }

    #[test]
    fn protected_writes_read_as_others() {
        let db = open_in_memory();
        let mut own = batch();
        own.set_protected(true).unwrap();
        own.set_save_point();
        own.put(b"slate", b"metamorphic");
        own.rollback_to_save_point().unwrap();
        own.put(b"basalt", b"igneous");
        own.verify_checksums().unwrap();
        db.write_with(&own, &WriteOptions::default()).unwrap();
        db.write_with(&batch(), &protected()).unwrap();
        assert_eq!(
            db.get(b"granite").unwrap().as_deref(),
            Some(&b"igneous"[..])
        );
        assert!(db.get(b"slate").unwrap().is_none());
        assert!(
            db.get(b"basalt").unwrap().is_none(),
            "deleted by the second batch's range"
        );
    }

    #[test]
    fn only_zero_and_eight_bytes_are_allowed() {
        let db = open_in_memory();
        for bytes in [1, 2, 4, 16] {
            let options = WriteOptions {
                protection_bytes_per_key: bytes,
                ..WriteOptions::default()
            };
            let error = db.write_with(&batch(), &options).unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument);
        }
    }
}
