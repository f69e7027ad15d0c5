//! Appending to a WAL.
//!
//! A record costs one copy into the writer's buffer and one checksum of its bytes; the buffer is
//! reused, so that nothing is allocated for a record, and a group of records is one `append` of the
//! file.

use cairn_compress::{Compression, WalCompressor};
use cairn_format::log::{Framing, LogWriter, Predecessor};
use cairn_platform::WritableFile;
use cairn_platform::sync::Arc;
use cairn_types::{Error, FileNumber, Result};

/// Bytes in memory beyond which a writer hands over by itself.
const BUFFER_LIMIT: usize = 1 << 20;

/// How WALs are written. The defaults are RocksDB's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WalOptions {
    /// Frame records so that a reader can tell them from what the file held before.
    pub recyclable: bool,
    /// `None` or `Zstd`.
    pub compression: Compression,
    /// The file is created with a mapping.
    pub mapped: bool,
}

/// Writes one WAL.
pub struct WalWriter {
    file: Arc<dyn WritableFile>,
    number: FileNumber,
    frames: LogWriter,
    /// Framed and not handed over.
    buffer: Vec<u8>,
    compressor: Option<WalCompressor>,
    /// Where a record is compressed before it is framed.
    compressed: Vec<u8>,
    /// The families whose timestamp sizes this log has stated.
    stated_families: Vec<u32>,
    records: u64,
    failed: Option<Error>,
}

impl WalWriter {
    /// A writer that appends to `file`, the WAL `number`, behind what it holds.
    ///
    /// # Errors
    ///
    /// `NotSupported` for a compression that WALs do not have; `InvalidArgument` if a log that is
    /// not empty should become compressed.
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
                    "a log is compressed from its first record on: {}",
                    file.path().display()
                )));
            }
            frames.add_compression(options.compression as u32, &mut buffer);
        }
        Ok(WalWriter {
            file,
            number,
            frames,
            buffer,
            compressor,
            compressed: Vec::new(),
            stated_families: Vec::new(),
            records: 0,
            failed: None,
        })
    }

    /// The log's number.
    #[must_use]
    pub fn number(&self) -> FileNumber {
        self.number
    }

    /// The size of the log in bytes, with what is not handed over yet.
    #[inline]
    #[must_use]
    pub fn len(&self) -> u64 {
        self.frames.offset()
    }

    /// True if the log has no byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes framed and not handed over.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// How many batches this writer has added.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The file; its `sync` may run beside this writer.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn WritableFile> {
        &self.file
    }

    /// States what the log before this one looks like. RocksDB before 10 takes such a log for
    /// damaged.
    ///
    /// # Errors
    ///
    /// Those of [`WalWriter::hand_over`].
    ///
    /// # Panics
    ///
    /// If a batch was added before.
    pub fn add_predecessor(&mut self, predecessor: &Predecessor) -> Result<()> {
        assert!(self.records == 0, "the log before comes before all batches");
        self.check()?;
        self.frames.add_predecessor(predecessor, &mut self.buffer);
        self.hand_over_if_large()
    }

    /// States the sizes of user-defined timestamps of families, in bytes, before the first batch
    /// that touches them. Families without timestamps, and those stated before, are left out.
    ///
    /// # Errors
    ///
    /// Those of [`WalWriter::hand_over`].
    pub fn add_timestamp_sizes(&mut self, sizes: &[(u32, u16)]) -> Result<()> {
        self.check()?;
        let is_new =
            |&&(family, size): &&(u32, u16)| size != 0 && !self.stated_families.contains(&family);
        let new: Vec<(u32, u16)> = sizes.iter().filter(is_new).copied().collect();
        for sizes in new.chunks(1024) {
            self.frames.add_timestamp_sizes(sizes, &mut self.buffer);
        }
        self.stated_families
            .extend(new.iter().map(|&(family, _)| family));
        self.hand_over_if_large()
    }

    /// Adds one record without handing it over.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a record longer than [`crate::MAX_RECORD_LEN`], of which nothing is added then; those
    /// of [`WalWriter::hand_over`], if much has gathered; those of compression.
    #[inline]
    pub fn add(&mut self, record: &[u8]) -> Result<()> {
        self.add_parts(&[record])
    }

    /// Adds one record, the concatenation of `parts`, without handing it over.
    ///
    /// # Errors
    ///
    /// As [`WalWriter::add`].
    pub fn add_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.add_uncounted(parts)?;
        self.records += 1;
        self.hand_over_if_large()
    }

    /// Adds a batch without writes, which [`WalWriter::records`] does not count.
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

    /// Adds one record and hands it over, with everything before it.
    ///
    /// # Errors
    ///
    /// Those of [`WalWriter::hand_over`] and [`WalWriter::add`].
    pub fn append(&mut self, record: &[u8]) -> Result<()> {
        self.append_parts(&[record])
    }

    /// Adds one record, the concatenation of `parts`, and hands it over with everything before it.
    ///
    /// # Errors
    ///
    /// As [`WalWriter::append`].
    pub fn append_parts(&mut self, parts: &[&[u8]]) -> Result<()> {
        self.add_parts(parts)?;
        self.hand_over()
    }

    /// Gives everything added so far to the kernel, in one call: it survives the end of this
    /// process then.
    ///
    /// # Errors
    ///
    /// Those of the file. The writer then repeats the error at every later call: what it had
    /// added is in doubt, and the log must be left for another.
    pub fn hand_over(&mut self) -> Result<()> {
        self.check()?;
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
        Ok(())
    }

    /// Hands over and makes everything added so far survive a power cut; `full` as for
    /// [`WritableFile::sync`]. The file's name is the directory's affair.
    ///
    /// # Errors
    ///
    /// Those of the file; they end the writer as for [`WalWriter::hand_over`].
    pub fn sync(&mut self, full: bool) -> Result<()> {
        self.hand_over()?;
        self.file.sync(full).inspect_err(|error| {
            self.failed = Some(error.clone());
        })
    }

    /// Hands over what is left and closes the file, without a sync.
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
