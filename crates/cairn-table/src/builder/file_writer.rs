//! Buffered writer of the table file, which adds block trailers and padding.

use std::sync::Arc;

use cairn_compress::Compression;
use cairn_format::checksum::{ChecksumKind, block_checksum, context_modifier};
use cairn_format::table::Handle;
use cairn_observe::statistics::{Histogram, Meter};
use cairn_options::file_checksum::{FileChecksum, NamedChecksum, RunningChecksum};
use cairn_platform::WritableFile;
use cairn_types::Result;

/// Write buffer size: fits into the cache of a core.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;

/// Writeback interval if `bytes_per_sync` is 0. Without it, writeback would start with the final
/// sync: the job would be blocked and hold on to its memtable, and other syncs would wait for a
/// whole table.
const WRITEBACK_BYTES: u64 = 4 << 20;

/// Options of the writer.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileWriterOptions {
    pub checksum: ChecksumKind,
    /// Part of every block checksum; 0 below format version 6.
    pub base_context: u32,
    /// Writeback interval in bytes; 0 for [`WRITEBACK_BYTES`].
    pub bytes_per_sync: u64,
    /// The checksum of the whole file.
    pub file_checksum: Option<FileChecksum>,
    /// Measures compression.
    pub meter: Meter,
}

/// Writer of the table file.
pub(crate) struct FileWriter {
    file: Arc<dyn WritableFile>,
    options: FileWriterOptions,
    buffer: Vec<u8>,
    /// Bytes passed to the file.
    flushed: u64,
    /// Bytes for which writeback has been started.
    written_back: u64,
    checksum: RunningChecksum,
}

impl FileWriter {
    pub(crate) fn new(file: Arc<dyn WritableFile>, options: FileWriterOptions) -> FileWriter {
        let checksum = match &options.file_checksum {
            Some(checksum) => checksum.start(file.path()),
            None => RunningChecksum::Off,
        };
        FileWriter {
            file,
            options,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            flushed: 0,
            written_back: 0,
            checksum,
        }
    }

    /// Returns the offset of the next byte.
    pub(crate) fn offset(&self) -> u64 {
        self.flushed + self.buffer.len() as u64
    }

    /// Returns the checksum kind of the blocks.
    pub(crate) fn checksum_kind(&self) -> ChecksumKind {
        self.options.checksum
    }

    /// Returns the checksum of all flushed bytes, if enabled.
    pub(crate) fn take_checksum(&mut self) -> Option<NamedChecksum> {
        std::mem::take(&mut self.checksum).finish()
    }

    /// Appends bytes outside of a block.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= BUFFER_BYTES {
            return self.hand_over(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Appends `count` zeros.
    pub(crate) fn pad(&mut self, count: u64) -> Result<()> {
        const ZEROS: [u8; 512] = [0; 512];
        let mut left = count;
        while left > 0 {
            let piece = left.min(ZEROS.len() as u64);
            self.append(&ZEROS[..piece as usize])?;
            left -= piece;
        }
        Ok(())
    }

    /// Appends a block in its stored form with its trailer.
    pub(crate) fn append_block(&mut self, stored: &[u8], kind: Compression) -> Result<Handle> {
        let began = self.options.meter.began();
        let handle = Handle {
            offset: self.offset(),
            size: stored.len() as u64,
        };
        let checksum = block_checksum(self.options.checksum, stored, kind as u8)
            .wrapping_add(context_modifier(self.options.base_context, handle.offset));
        self.append(stored)?;
        let [a, b, c, d] = checksum.to_le_bytes();
        self.append(&[kind as u8, a, b, c, d])?;
        self.options
            .meter
            .time_since(began, Histogram::WriteRawBlockMicros);
        Ok(handle)
    }

    /// Writes the buffer to the file.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let buffer = std::mem::take(&mut self.buffer);
        let result = self.hand_over(&buffer);
        self.buffer = buffer;
        self.buffer.clear();
        result
    }

    fn hand_over(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.file.append(bytes)?;
        self.flushed += bytes.len() as u64;
        self.checksum.update(bytes);
        let waiting = self.flushed - self.written_back;
        let every = match self.options.bytes_per_sync {
            0 => WRITEBACK_BYTES,
            bytes => bytes,
        };
        if waiting >= every {
            self.file.start_writeback(self.written_back, waiting)?;
            self.written_back = self.flushed;
        }
        Ok(())
    }
}
