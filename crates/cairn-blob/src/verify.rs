//! Verification of a whole blob file.

use cairn_compress::Compression;
use cairn_format::blob::{HEADER_LEN, RECORD_HEADER_LEN, RecordHeader};
use cairn_format::names;
use cairn_platform::{Buffer, Io, ReadRequest};
use cairn_types::{Error, Malformed, Result};

use crate::reader::BlobFile;

/// The result of a verification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// The number of values.
    pub blobs: u64,
    /// The total size of their records.
    pub bytes: u64,
}

impl BlobFile {
    /// Reads every record, verifies its checksums and decompresses its value, and compares the
    /// number of records to the footer's.
    ///
    /// # Errors
    ///
    /// Those of the file; `Corruption` with the first damage found.
    pub fn verify(&self, io: &Io) -> Result<Verified> {
        self.file().advise(cairn_platform::fs::Access::Sequential);
        let mut verified = Verified::default();
        let mut at = HEADER_LEN as u64;
        while at < self.records_end() {
            let len = self.verify_record(at, io)?;
            verified.blobs += 1;
            verified.bytes += len;
            at += len;
        }
        if verified.blobs != self.blob_count() {
            return Err(Error::corruption(format!(
                "values in {}: expected {}, found {}",
                names::blob(self.number()),
                self.blob_count(),
                verified.blobs
            )));
        }
        Ok(verified)
    }

    /// Verifies the record at `at` and returns its length, which is not zero.
    fn verify_record(&self, at: u64, io: &Io) -> Result<u64> {
        let in_file = |error: Malformed| error.in_file(names::blob(self.number()), at);
        let room = self.records_end() - at;
        if room < RECORD_HEADER_LEN as u64 {
            return Err(in_file(Malformed::at(0, "record is truncated")));
        }
        let header = self.read_at(at, RECORD_HEADER_LEN, io)?;
        let header = RecordHeader::decode(&header).map_err(in_file)?;
        let len = header.record_len().filter(|&len| len <= room);
        let too_long = || in_file(Malformed::at(0, "record is longer than its file"));
        let len = len.ok_or_else(too_long)?;
        // The file is at least that long, so the allocation is bounded.
        let body_len = usize::try_from(len).map_err(|_| too_long())? - RECORD_HEADER_LEN;
        let body = self.read_at(at + RECORD_HEADER_LEN as u64, body_len, io)?;
        let key_len = usize::try_from(header.key_len).map_err(|_| too_long())?;
        let (key, value) = body.split_at(key_len);
        header.check_body(key, value).map_err(in_file)?;
        if self.compression() != Compression::None {
            self.decompress(value)
                .map_err(|error| in_file(error.shifted(RECORD_HEADER_LEN + key_len)))?;
        }
        Ok(len)
    }

    fn read_at(&self, offset: u64, len: usize, io: &Io) -> Result<Buffer> {
        io.read_now(&ReadRequest::new(self.file().clone(), offset, len))
    }
}
