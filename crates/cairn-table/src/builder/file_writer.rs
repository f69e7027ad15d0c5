//! The file that a table is written to: one buffer, large writes, and what each block needs around
//! it (its trailer, padding).

use std::sync::Arc;

use cairn_compress::Compression;
use cairn_format::checksum::{ChecksumKind, block_checksum, context_modifier, crc32c_extend};
use cairn_format::table::Handle;
use cairn_observe::statistics::{Histogram, Meter};
use cairn_platform::WritableFile;
use cairn_types::Result;

/// Bytes gathered before they are handed to the kernel: as much as stays in the cache of a core.
const BUFFER_BYTES: usize = 256 << 10;

/// Bytes after which writeback is asked for if the options leave that to the kernel. It would begin with the sync
/// at the end, for which the job then waits, and a memtable with it; and whatever else is synced meanwhile
/// would wait behind a whole table.
const WRITEBACK_BYTES: u64 = 4 << 20;

/// The options of the output beyond writing.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputOptions {
    pub checksum: ChecksumKind,
    /// Part of every block's checksum; 0 below format version 6.
    pub base_context: u32,
    /// Ask for writeback after so many bytes; 0 for [`WRITEBACK_BYTES`].
    pub bytes_per_sync: u64,
    /// Compute the CRC32C of the whole file.
    pub file_checksum: bool,
    /// Measures how long blocks take.
    pub meter: Meter,
}

/// The output of a builder.
pub(crate) struct Output {
    file: Arc<dyn WritableFile>,
    options: OutputOptions,
    buffer: Vec<u8>,
    /// Bytes handed to the file.
    handed: u64,
    /// Bytes whose writeback was asked for.
    written_back: u64,
    crc: u32,
}

impl Output {
    pub(crate) fn new(file: Arc<dyn WritableFile>, options: OutputOptions) -> Output {
        Output {
            file,
            options,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            handed: 0,
            written_back: 0,
            crc: 0,
        }
    }

    /// Where the next byte goes.
    pub(crate) fn offset(&self) -> u64 {
        self.handed + self.buffer.len() as u64
    }

    /// The kind of the blocks' checksums.
    pub(crate) fn checksum_kind(&self) -> ChecksumKind {
        self.options.checksum
    }

    /// The CRC32C of everything appended and flushed, if it was asked for.
    pub(crate) fn file_checksum(&self) -> Option<u32> {
        self.options.file_checksum.then_some(self.crc)
    }

    /// Appends bytes that are no block.
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

    /// Appends a block in its stored form, with its trailer.
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

    /// Hands everything to the kernel.
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
        self.handed += bytes.len() as u64;
        if self.options.file_checksum {
            self.crc = crc32c_extend(self.crc, bytes);
        }
        let waiting = self.handed - self.written_back;
        let every = match self.options.bytes_per_sync {
            0 => WRITEBACK_BYTES,
            bytes => bytes,
        };
        if waiting >= every {
            self.file.start_writeback(self.written_back, waiting)?;
            self.written_back = self.handed;
        }
        Ok(())
    }
}
