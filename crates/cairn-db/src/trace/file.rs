//! Destinations and sources of traces, and those that are files.

use std::path::Path;
use std::sync::Arc;

use cairn_format::trace::{METADATA_LEN, Metadata};
use cairn_observe::traces::{TraceWriter, untraced};
use cairn_platform::World;
use cairn_platform::fs::{FileMode, RandomAccessFile, WritableFile};
use cairn_types::{Error, Result, Subcode};

/// The number of bytes that are buffered before they are written to the file.
const BUFFER_BYTES: usize = 64 << 10;

/// A source of a trace.
pub trait TraceReader: Send {
    /// Returns the next record with its metadata; `None` at the end of the source.
    ///
    /// # Errors
    ///
    /// `IoError`; `Corruption` if the record is truncated.
    fn read(&mut self) -> Result<Option<Vec<u8>>>;
    /// Returns to the first record.
    ///
    /// # Errors
    ///
    /// `IoError` if that is impossible.
    fn reset(&mut self) -> Result<()>;
}

/// A trace that is written to a file. Records are buffered, and not synced.
pub struct FileTraceWriter {
    file: Arc<dyn WritableFile>,
    buffer: Vec<u8>,
}

impl FileTraceWriter {
    /// Creates the file at `path`. An existing file is truncated, and keeps its permissions; a symbolic link is followed.
    ///
    /// # Errors
    ///
    /// `IoError`, also if it exists and is not a regular file.
    pub fn create(world: &World, path: &Path) -> Result<FileTraceWriter> {
        untraced(|| {
            let mode = FileMode::default();
            let file = match world.fs.open_overwrite(path, mode) {
                Ok(file) => file.truncate(0).map(|()| file)?,
                Err(error) if error.subcode() == Subcode::PathNotFound => {
                    world.fs.create(path, mode)?
                }
                Err(error) => return Err(error),
            };
            Ok(FileTraceWriter {
                file,
                buffer: Vec::new(),
            })
        })
    }

    fn flush(&mut self) -> Result<()> {
        let flushed = self.file.append(&self.buffer);
        self.buffer.clear();
        flushed
    }
}

impl TraceWriter for FileTraceWriter {
    fn write(&mut self, record: &[u8]) -> Result<()> {
        if self.buffer.len() + record.len() > BUFFER_BYTES {
            self.flush()?;
        }
        match record.len() > BUFFER_BYTES {
            true => self.file.append(record),
            false => {
                self.buffer.extend_from_slice(record);
                Ok(())
            }
        }
    }

    fn file_size(&self) -> u64 {
        self.file.len() + self.buffer.len() as u64
    }

    fn close(&mut self) -> Result<()> {
        let flushed = self.flush();
        flushed.and(self.file.close())
    }
}

impl std::fmt::Debug for FileTraceWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileTraceWriter")
            .field("path", &self.file.path())
            .finish_non_exhaustive()
    }
}

/// A trace that is read from a file.
pub struct FileTraceReader {
    /// `None` once it is closed.
    file: Option<Arc<dyn RandomAccessFile>>,
    at: u64,
}

impl FileTraceReader {
    /// Opens the trace at `path`.
    ///
    /// # Errors
    ///
    /// `IoError`.
    pub fn open(world: &World, path: &Path) -> Result<FileTraceReader> {
        Ok(FileTraceReader {
            file: Some(world.fs.open(path, FileMode::default())?),
            at: 0,
        })
    }

    /// Closes the file. Later calls fail.
    pub fn close(&mut self) {
        self.file = None;
    }

    fn file(&self) -> Result<&Arc<dyn RandomAccessFile>> {
        let closed = || Error::io_text("TraceReader is closed.");
        self.file.as_ref().ok_or_else(closed)
    }
}

impl TraceReader for FileTraceReader {
    fn read(&mut self) -> Result<Option<Vec<u8>>> {
        let (file, at) = (self.file()?, self.at);
        let in_file = |found: usize, expected: u64| {
            Error::corruption(format!(
                "trace record is truncated: expected {expected} bytes, found {found} at offset {at} of {}",
                file.path().display()
            ))
        };
        let mut record = vec![0; METADATA_LEN];
        match file.read_up_to_end(at, &mut record)? {
            0 => return Ok(None),
            METADATA_LEN => {}
            found => return Err(in_file(found, METADATA_LEN as u64)),
        }
        let metadata = Metadata::decode(&record).expect("all of it was read");
        let len = METADATA_LEN as u64 + u64::from(metadata.payload_len);
        let remaining = file.len()?.saturating_sub(at);
        if remaining < len {
            return Err(in_file(
                usize::try_from(remaining).unwrap_or(usize::MAX),
                len,
            ));
        }
        record.resize(METADATA_LEN + metadata.payload_len as usize, 0);
        let payload = &mut record[METADATA_LEN..];
        let found = file.read_up_to_end(at + METADATA_LEN as u64, payload)?;
        if found < payload.len() {
            return Err(in_file(METADATA_LEN + found, len));
        }
        self.at = at + len;
        Ok(Some(record))
    }

    fn reset(&mut self) -> Result<()> {
        self.file()?;
        self.at = 0;
        Ok(())
    }
}

impl std::fmt::Debug for FileTraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileTraceReader")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}
