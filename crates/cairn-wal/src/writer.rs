//! The WAL writer.
//!
//! A record costs one copy into the writer's buffer and one checksum. The buffer is reused, so that nothing
//! is allocated per record, and a write group is one `append` to the file.

use cairn_compress::{Compression, WalCompressor};
use cairn_format::log::{Framing, LogWriter, Predecessor};
use cairn_platform::WritableFile;
use cairn_platform::sync::Arc;
use cairn_types::{Error, FileNumber, Result};

/// The buffer size at which the writer flushes automatically.
const BUFFER_LIMIT: usize = 1 << 20;

/// Options of a WAL. The defaults are RocksDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalOptions {
    /// True to frame records so that a reader can distinguish them from the old content of a
    /// recycled file.
    pub recyclable: bool,
    /// `None` or `Zstd`.
    pub compression: Compression,
    /// True if the file is created memory-mapped.
    pub mapped: bool,
}

/// The writer of one WAL.
pub struct WalWriter {
    file: Arc<dyn WritableFile>,
    number: FileNumber,
    frames: LogWriter,
    /// Framed records that have not been flushed.
    buffer: Vec<u8>,
    compressor: Option<WalCompressor>,
    /// Scratch space for a compressed record.
    compressed: Vec<u8>,
    /// Column families whose timestamp sizes have been recorded in this log.
    recorded_families: Vec<u32>,
    records: u64,
    failed: Option<Error>,
}

impl WalWriter {
    /// Creates a writer that appends to `file`, the WAL `number`.
    ///
    /// # Errors
    ///
    /// `NotSupported` for a codec that WALs do not support; `InvalidArgument` for compression of a log that
    /// is not empty.
    pub fn new(
        file: Arc<dyn WritableFile>,
        number: FileNumber,
        options: &WalOptions,
    ) -> Result<WalWriter> {
        let framing = match options.recyclable {
            true => Framing::recyclable(number.0),
            false => Framing::Legacy,
        };
        let mut frames = LogWriter::at(framing, file.len());
        if file.is_mapped() {
            frames = frames.with_veils();
        }
        let mut buffer = Vec::new();
        let compressor = match options.compression {
            Compression::None => None,
            kind => Some(WalCompressor::new(kind)?),
        };
        if compressor.is_some() {
            if file.len() != 0 {
                return Err(Error::invalid_argument(format!(
                    "a non-empty log cannot be switched to compression: {}",
                    file.path().display()
                )));
            }
            frames.add_compression(options.compression as u32, &mut buffer);
        }
        debug_assert_eq!(
            frames.offset(),
            file.len() + buffer.len() as u64,
            "the writer appends"
        );
        Ok(WalWriter {
            file,
            number,
            frames,
            buffer,
            compressor,
            compressed: Vec::new(),
            recorded_families: Vec::new(),
            records: 0,
            failed: None,
        })
    }

    /// The number of the log.
    #[must_use]
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// The size of the log in bytes, including unflushed records.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u64 {
        self.frames.offset()
    }

    /// True if the log is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of framed bytes that have not been flushed.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// The memory of the writer and of the mapped part of its file, in bytes.
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.buffer.capacity() + self.compressed.capacity() + self.file.mapped_bytes()
    }

    /// The number of batches added by this writer.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The file. Its `sync` may run concurrently with this writer.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn WritableFile> {
        &self.file
    }

    /// Records a summary of the preceding log. RocksDB before version 10 treats such a log as corrupt.
    ///
    /// # Errors
    ///
    /// Those of [`WalWriter::hand_over`].
    ///
    /// # Panics
    ///
    /// If a batch was added.
    pub fn add_predecessor(&mut self, predecessor: &Predecessor) -> Result<()> {
        assert!(
            self.records == 0,
            "the predecessor is recorded before the first batch"
        );
        self.check()?;
        self.frames.add_predecessor(predecessor, &mut self.buffer);
        self.hand_over_if_large()
    }

    /// Records the user-defined timestamp sizes of column families, in bytes, before the first
    /// batch that writes to them. Families without timestamps and families recorded before are
    /// skipped.
    ///
    /// # Errors
    ///
    /// Those of [`WalWriter::hand_over`].
    pub fn add_timestamp_sizes(&mut self, sizes: &[(u32, u16)]) -> Result<()> {
        self.check()?;
        let is_new =
            |&&(family, size): &&(u32, u16)| size != 0 && !self.recorded_families.contains(&family);
        let new: Vec<(u32, u16)> = sizes.iter().filter(is_new).copied().collect();
        for sizes in new.chunks(1024) {
            self.frames.add_timestamp_sizes(sizes, &mut self.buffer);
        }
        self.recorded_families
            .extend(new.iter().map(|&(family, _)| family));
        self.hand_over_if_large()
    }

    /// Adds a record without flushing.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a record longer than [`crate::MAX_RECORD_LEN`], which is not added at
    /// all; those of compression; and those of [`WalWriter::hand_over`] if the buffer is full.
    #[inline]
    pub fn add(&mut self, record: &[u8]) -> Result<()> {
        self.add_parts(&[record])
    }

    /// Adds a record, the concatenation of `parts`, without flushing.
    ///
    /// # Errors
    ///
    /// As [`WalWriter::add`].
    pub fn add_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.add_uncounted(parts)?;
        self.records += 1;
        self.hand_over_if_large()
    }

    /// Adds a batch without writes, which is not included in [`WalWriter::records`].
    ///
    /// # Errors
    ///
    /// As [`WalWriter::add`].
    pub fn add_note(&mut self, batch: &[u8]) -> Result<()> {
        self.add_uncounted(&[batch])?;
        self.hand_over_if_large()
    }

    #[inline]
    fn add_uncounted(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.check()?;
        crate::check_record(parts.iter().map(|part| part.len() as u64).sum())?;
        match &mut self.compressor {
            None => self.frames.add_parts(parts, &mut self.buffer),
            Some(compressor) => {
                self.compressed.clear();
                match parts {
                    [record] => compressor.compress(record, &mut self.compressed)?,
                    _ => compressor.compress(&parts.concat(), &mut self.compressed)?,
                }
                self.frames.add(&self.compressed, &mut self.buffer);
                self.compressed.clear();
                self.compressed.shrink_to(4 * BUFFER_LIMIT);
            }
        }
        Ok(())
    }

    /// Adds a record and flushes the buffer.
    ///
    /// # Errors
    ///
    /// Those of [`WalWriter::hand_over`] and [`WalWriter::add`].
    pub fn append(&mut self, record: &[u8]) -> Result<()> {
        self.append_parts(&[record])
    }

    /// Adds a record, the concatenation of `parts`, and flushes the buffer.
    ///
    /// # Errors
    ///
    /// As [`WalWriter::append`].
    pub fn append_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.add_parts(parts)?;
        self.hand_over()
    }

    /// Flushes the buffer to the kernel in one call. The records then survive the death of the
    /// process.
    ///
    /// # Errors
    ///
    /// Those of the file. Every later call returns the same error: the state of the records is unknown, and
    /// the log must be replaced.
    pub fn hand_over(&mut self) -> Result<()> {
        self.check()?;
        debug_assert!(
            self.buffer.len() as u64 <= self.len(),
            "unflushed records are part of the log"
        );
        if self.buffer.is_empty() {
            return Ok(());
        }
        let appended = self.file.append_veiled(&self.buffer, self.frames.veils());
        if let Err(error) = appended {
            self.failed = Some(error.clone());
            return Err(error);
        }
        self.frames.clear_veils();
        self.buffer.clear();
        self.buffer.shrink_to(4 * BUFFER_LIMIT);
        debug_assert_eq!(self.file.len(), self.len(), "everything is flushed");
        Ok(())
    }

    /// Flushes the buffer and syncs the file, so that all records survive a power failure; see
    /// [`WritableFile::sync`] for `full`. The caller syncs the directory.
    ///
    /// # Errors
    ///
    /// Those of the file, which disable the writer as described at [`WalWriter::hand_over`].
    pub fn sync(&mut self, full: bool) -> Result<()> {
        self.hand_over()?;
        self.file.sync(full).inspect_err(|error| {
            self.failed = Some(error.clone());
        })
    }

    /// The number of bytes at the start of the log that were flushed, without an error.
    #[must_use]
    pub fn handed_over(&self) -> u64 {
        self.len() - self.buffer.len() as u64
    }

    /// True if the file rejected an append or a sync: see [`WalWriter::hand_over`].
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Flushes the buffer and closes the file, without a sync.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn close(mut self) -> Result<()> {
        self.hand_over()?;
        self.file.close()
    }

    #[inline]
    fn check(&self) -> Result<()> {
        match &self.failed {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    #[inline]
    fn hand_over_if_large(&mut self) -> Result<()> {
        if self.buffer.len() < BUFFER_LIMIT {
            return Ok(());
        }
        self.hand_over()
    }
}
