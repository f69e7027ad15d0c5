//! The builder of a blob file.
//!
//! ```text
//! header, one record per value in the order of `add`, footer
//! ```
//!
//! Records are buffered and appended to the file in large pieces; values larger than the buffer are
//! appended directly. The builder does not sync: the caller syncs the file after
//! [`BlobBuilder::finish`], and its directory, before anything refers to the file.

use std::sync::Arc;

use cairn_compress::{CodecOptions, Compression, Compressor};
use cairn_format::blob::{BlobIndex, Footer, Header, RECORD_HEADER_LEN, encode_record};
use cairn_observe::statistics::{Histogram, Meter};
use cairn_options::file_checksum::{FileChecksum, NamedChecksum, RunningChecksum};
use cairn_platform::{Buffer, WritableFile};
use cairn_types::{Error, FileNumber, Result};

/// The size of the buffer in bytes.
const BUFFER_BYTES: usize = 256 << 10;

/// Options of a blob file.
#[derive(Clone, Debug)]
pub struct BlobParams {
    /// The file number.
    pub number: FileNumber,
    /// The column family of the values.
    pub family: u32,
    /// The codec of the values.
    pub compression: Compression,
    /// Options of the codec.
    pub codec: CodecOptions,
    /// The number of bytes after which writeback is requested; 0 for never.
    pub bytes_per_sync: u64,
    /// The checksum of the whole file.
    pub file_checksum: Option<FileChecksum>,
    /// Records the statistics of compression.
    pub meter: Meter,
}

/// The summary of a finished blob file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinishedBlobs {
    /// The file number.
    pub number: FileNumber,
    /// The number of values.
    pub count: u64,
    /// The total size of the records: headers, keys and stored values.
    pub bytes: u64,
    /// The size of the file.
    pub file_size: u64,
    /// The checksum of the whole file, if requested.
    pub file_checksum: Option<NamedChecksum>,
}

/// True if a value of `value_len` bytes, of a user key of `key_len` bytes, can be stored in a blob file with this codec
/// whatever its content: its record, which is read as a whole, must fit into a buffer.
#[must_use]
pub fn fits(compression: Compression, key_len: usize, value_len: usize) -> bool {
    let stored = Compressor::bound(compression, value_len);
    let record = RECORD_HEADER_LEN
        .saturating_add(key_len)
        .saturating_add(stored);
    value_len <= Compressor::max_len(compression) && record <= Buffer::MAX_LEN
}

/// The builder of a blob file.
pub struct BlobBuilder {
    file: Arc<dyn WritableFile>,
    params: BlobParams,
    compressor: Option<Compressor>,
    /// The stored form of the current value.
    stored: Vec<u8>,
    buffer: Vec<u8>,
    /// Bytes appended to the file.
    flushed: u64,
    /// Bytes for which writeback has been requested.
    written_back: u64,
    checksum: RunningChecksum,
    count: u64,
    bytes: u64,
}

impl BlobBuilder {
    /// Starts a blob file in `file`, which must be empty.
    ///
    /// # Errors
    ///
    /// `NotSupported` or `InvalidArgument` for an unusable codec or codec option.
    pub fn create(file: Arc<dyn WritableFile>, params: BlobParams) -> Result<BlobBuilder> {
        let compressor = match params.compression {
            Compression::None => None,
            kind => Some(Compressor::new(kind, params.codec, None)?),
        };
        let checksum = match &params.file_checksum {
            Some(checksum) => checksum.start(file.path()),
            None => RunningChecksum::Off,
        };
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        let header = Header {
            family: params.family,
            compression: params.compression as u8,
        };
        header.encode(&mut buffer);
        Ok(BlobBuilder {
            file,
            params,
            compressor,
            stored: Vec::new(),
            buffer,
            flushed: 0,
            written_back: 0,
            checksum,
            count: 0,
            bytes: 0,
        })
    }

    /// Adds `value` of `user_key`, which includes its timestamp, and returns the index of the value.
    ///
    /// # Errors
    ///
    /// `IoError`; `InvalidArgument` if the value does not [fit](fits).
    pub fn add(&mut self, user_key: &[u8], value: &[u8]) -> Result<BlobIndex> {
        if !fits(self.params.compression, user_key.len(), value.len()) {
            return Err(Error::invalid_argument(format!(
                "value is too large for a blob file: the record of a key of {} bytes and a value of {} bytes may reach \
                 4 GiB",
                user_key.len(),
                value.len()
            )));
        }
        let mut stored = std::mem::take(&mut self.stored);
        stored.clear();
        let value = match &mut self.compressor {
            None => value,
            Some(compressor) => {
                let began = self.params.meter.began();
                compressor.compress_always(value, &mut stored)?;
                let histogram = Histogram::BlobDbCompressionMicros;
                self.params.meter.time_since(began, histogram);
                stored.as_slice()
            }
        };
        let before = self.buffer.len();
        encode_record(user_key, value, &mut self.buffer);
        self.bytes += (self.buffer.len() - before) as u64;
        self.count += 1;
        let size = value.len() as u64;
        let index = BlobIndex {
            file: self.params.number,
            offset: self.file_size() - size,
            size,
            compression: self.params.compression as u8,
        };
        self.stored = stored;
        if self.buffer.len() >= BUFFER_BYTES {
            self.hand_over()?;
        }
        Ok(index)
    }

    /// The size of the file so far, without the footer.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// The number of values so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Appends the buffered records to the file, so that they can be read from it.
    ///
    /// # Errors
    ///
    /// `IoError`, after which the content of the file is unknown: the builder must not be used any more.
    pub fn flush(&mut self) -> Result<()> {
        match self.buffer.is_empty() {
            true => Ok(()),
            false => self.hand_over(),
        }
    }

    /// Writes the footer and appends everything to the file, which is not synced.
    ///
    /// # Errors
    ///
    /// `IoError`.
    pub fn finish(mut self) -> Result<FinishedBlobs> {
        let footer = Footer {
            blob_count: self.count,
        };
        footer.encode(&mut self.buffer);
        self.hand_over()?;
        Ok(FinishedBlobs {
            number: self.params.number,
            count: self.count,
            bytes: self.bytes,
            file_size: self.flushed,
            file_checksum: self.checksum.finish(),
        })
    }

    fn hand_over(&mut self) -> Result<()> {
        self.file.append(&self.buffer)?;
        self.checksum.update(&self.buffer);
        self.flushed += self.buffer.len() as u64;
        self.buffer.clear();
        // Releases the memory of a large value.
        self.buffer.shrink_to(2 * BUFFER_BYTES);
        let waiting = self.flushed - self.written_back;
        if self.params.bytes_per_sync > 0 && waiting >= self.params.bytes_per_sync {
            self.file.start_writeback(self.written_back, waiting)?;
            self.written_back = self.flushed;
        }
        Ok(())
    }
}
