//! The reader of a blob file.

use std::fmt;
use std::ops::{Deref, Range};

use cairn_compress::{Compression, Framing, declared_len, decompress, decompress_exact};
use cairn_format::blob::{
    BlobIndex, FOOTER_LEN, Footer, HEADER_LEN, Header, RECORD_HEADER_LEN, RecordHeader,
};
use cairn_format::names;
use cairn_platform::RandomAccessFile;
use cairn_platform::sync::Arc;
use cairn_platform::{Allocation, Buffer, ReadRequest};
use cairn_types::{Error, FileNumber, Malformed, Result};

/// The maximum length of a value in bytes. RocksDB stores value lengths in 32 bits.
const MAX_VALUE_LEN: usize = u32::MAX as usize;

/// An open blob file.
pub struct BlobFile {
    file: Arc<dyn RandomAccessFile>,
    number: FileNumber,
    /// The size in bytes; `None` for a file without a footer.
    sealed_len: Option<u64>,
    header: Header,
    compression: Compression,
    blob_count: u64,
}

/// A value, as a range of a shared buffer.
#[derive(Clone)]
pub struct BlobValue {
    buffer: Buffer,
    range: Range<usize>,
}

impl BlobValue {
    /// The buffer and the range of the value in it.
    #[must_use]
    pub fn into_parts(self) -> (Buffer, Range<usize>) {
        (self.buffer, self.range)
    }
}

impl Deref for BlobValue {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buffer[self.range.clone()]
    }
}

impl fmt::Debug for BlobValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobValue({} bytes)", self.range.len())
    }
}

impl BlobFile {
    /// Opens `file`, the blob file `number`, and reads its header and footer.
    ///
    /// # Errors
    ///
    /// Those of the file; `Corruption` if the header or the footer is damaged or missing, as in an
    /// unfinished file; `NotSupported` for files of stacked BlobDB and for unknown codecs.
    pub fn open(file: Arc<dyn RandomAccessFile>, number: FileNumber) -> Result<BlobFile> {
        let len = file.len()?;
        if len < (HEADER_LEN + FOOTER_LEN) as u64 {
            return Err(Error::corruption(format!(
                "{} is too small: expected at least {} bytes, found {len}",
                names::blob(number),
                HEADER_LEN + FOOTER_LEN
            )));
        }
        let read = |offset: u64, len: usize| ReadRequest::new(file.clone(), offset, len).read_now();
        let in_file =
            |offset: u64| move |error: Malformed| error.in_file(names::blob(number), offset);
        let header = Header::decode(&read(0, HEADER_LEN)?).map_err(in_file(0))?;
        let footer_at = len - FOOTER_LEN as u64;
        let footer = Footer::decode(&read(footer_at, FOOTER_LEN)?).map_err(in_file(footer_at))?;
        BlobFile::with_header(file, number, header, Some((len, footer.blob_count)))
    }

    /// Opens `file`, the blob file `number` that has no footer (yet): records may be appended to it while it is read.
    ///
    /// # Errors
    ///
    /// Those of the file; `Corruption` if the header is damaged or missing; `NotSupported` as in
    /// [`BlobFile::open`].
    pub fn open_unsealed(file: Arc<dyn RandomAccessFile>, number: FileNumber) -> Result<BlobFile> {
        let len = file.len()?;
        if len < HEADER_LEN as u64 {
            return Err(Error::corruption(format!(
                "{} is too small: expected at least {HEADER_LEN} bytes, found {len}",
                names::blob(number)
            )));
        }
        let header = ReadRequest::new(file.clone(), 0, HEADER_LEN).read_now()?;
        let header = Header::decode(&header).map_err(|e| e.in_file(names::blob(number), 0))?;
        BlobFile::with_header(file, number, header, None)
    }

    fn with_header(
        file: Arc<dyn RandomAccessFile>,
        number: FileNumber,
        header: Header,
        sealed: Option<(u64, u64)>,
    ) -> Result<BlobFile> {
        let compression = Compression::from_u8(header.compression).ok_or_else(|| {
            Error::not_supported(format!(
                "compression {} of {}",
                header.compression,
                names::blob(number)
            ))
        })?;
        Ok(BlobFile {
            file,
            number,
            sealed_len: sealed.map(|(len, _)| len),
            header,
            compression,
            blob_count: sealed.map_or(0, |(_, count)| count),
        })
    }

    /// True if the file has a footer, and does not grow any more.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.sealed_len.is_some()
    }

    /// The file number.
    #[must_use]
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// The size in bytes; the maximum for a file without a footer.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.sealed_len.unwrap_or(u64::MAX)
    }

    /// The size in bytes now, which grows if the file is not sealed.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn current_len(&self) -> Result<u64> {
        self.sealed_len.map_or_else(|| self.file.len(), Ok)
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The number of values according to the footer; 0 without one.
    #[must_use]
    pub fn blob_count(&self) -> u64 {
        self.blob_count
    }

    /// The codec of the values.
    #[must_use]
    pub fn compression(&self) -> Compression {
        self.compression
    }

    pub(crate) fn file(&self) -> &Arc<dyn RandomAccessFile> {
        &self.file
    }

    /// The end of the records, where the footer starts; the maximum without a footer.
    pub(crate) fn records_end(&self) -> u64 {
        self.sealed_len
            .map_or(u64::MAX, |len| len - FOOTER_LEN as u64)
    }

    /// The byte range of the record at `index`, which belongs to `user_key`.
    ///
    /// # Errors
    ///
    /// `Corruption` if the index refers to another file, to bytes beyond the end of this one, or to
    /// another codec.
    pub fn request(&self, index: &BlobIndex, user_key: &[u8]) -> Result<ReadRequest> {
        if index.file != self.number {
            return Err(self.bad_index(format_args!("file {}", index.file)));
        }
        if index.compression != self.header.compression {
            let wrong = format_args!("compression {}", index.compression);
            return Err(self.bad_index(wrong));
        }
        let before = (RECORD_HEADER_LEN + user_key.len()) as u64;
        let start = index.offset.checked_sub(before);
        let end = index.offset.checked_add(index.size);
        match (start, end) {
            (Some(start), Some(end)) if start >= HEADER_LEN as u64 && end <= self.records_end() => {
                let len = usize::try_from(end - start)
                    .map_err(|_| self.bad_index(format_args!("a value of {} bytes", index.size)))?;
                Ok(ReadRequest::new(self.file.clone(), start, len))
            }
            _ => Err(self.bad_index(format_args!(
                "{} bytes at offset {}",
                index.size, index.offset
            ))),
        }
    }

    /// Extracts the value of `user_key` at `index` from `record`, the bytes of the range returned by
    /// [`BlobFile::request`] for the same arguments. The memory of the value is of the same kind as that of `record`.
    ///
    /// # Errors
    ///
    /// `Corruption` if a checksum does not match, if the record has another key or length, or if its value
    /// cannot be decompressed.
    pub fn complete(
        &self,
        index: &BlobIndex,
        user_key: &[u8],
        record: Buffer,
    ) -> Result<BlobValue> {
        let start = index
            .offset
            .saturating_sub((RECORD_HEADER_LEN + user_key.len()) as u64);
        let in_file = |error: Malformed| error.in_file(names::blob(self.number), start);
        let value = check_record(&record, user_key, index.size).map_err(in_file)?;
        if self.compression == Compression::None {
            return Ok(BlobValue {
                buffer: record,
                range: value,
            });
        }
        let allocation = Allocation::of_kind(record.memory_kind());
        let buffer = self
            .decompress_into(&record[value.clone()], allocation)
            .map_err(|error| in_file(error.shifted(value.start)))?;
        let range = 0..buffer.len();
        Ok(BlobValue { buffer, range })
    }

    /// Reads the value of `user_key` at `index`, blocking.
    ///
    /// # Errors
    ///
    /// Those of the file, of [`BlobFile::request`] and of [`BlobFile::complete`].
    pub fn read(&self, index: &BlobIndex, user_key: &[u8]) -> Result<BlobValue> {
        let record = self.request(index, user_key)?.read_now()?;
        self.complete(index, user_key, record)
    }

    /// Decompresses the stored form `value`.
    pub(crate) fn decompress(&self, value: &[u8]) -> Result<Vec<u8>, Malformed> {
        decompress(self.compression, value, Framing::Sized, None, MAX_VALUE_LEN)
    }

    /// [`BlobFile::decompress`] into memory of `allocation`.
    fn decompress_into(&self, value: &[u8], allocation: Allocation) -> Result<Buffer, Malformed> {
        let (kind, framing) = (self.compression, Framing::Sized);
        let declared = declared_len(kind, value, framing, MAX_VALUE_LEN)?;
        match declared.modest_len(value.len()) {
            Some(len) => Buffer::filled(len, allocation, |out| {
                decompress_exact(kind, value, framing, None, out)
            }),
            None => Ok(Buffer::copy_of(&self.decompress(value)?, allocation)),
        }
    }

    #[cold]
    fn bad_index(&self, found: fmt::Arguments<'_>) -> Error {
        Error::corruption(format!(
            "blob index does not fit {}: {found}",
            names::blob(self.number)
        ))
    }
}

/// The range of the value in `record`, after verification of the record.
fn check_record(record: &[u8], user_key: &[u8], size: u64) -> Result<Range<usize>, Malformed> {
    let header = RecordHeader::decode(record)?;
    if header.key_len != user_key.len() as u64 {
        let found = header.key_len;
        return Err(Malformed::mismatch(
            0,
            "length of the key",
            user_key.len(),
            found,
        ));
    }
    if header.value_len != size {
        return Err(Malformed::mismatch(
            8,
            "length of the value",
            size,
            header.value_len,
        ));
    }
    let value = RECORD_HEADER_LEN + user_key.len()..record.len();
    if value.len() as u64 != size {
        return Err(Malformed::mismatch(
            0,
            "bytes of the value",
            size,
            value.len(),
        ));
    }
    let key = &record[RECORD_HEADER_LEN..value.start];
    if key != user_key {
        return Err(Malformed::at(
            RECORD_HEADER_LEN,
            "blob belongs to another key",
        ));
    }
    header.check_body(key, &record[value.clone()])?;
    Ok(value)
}
