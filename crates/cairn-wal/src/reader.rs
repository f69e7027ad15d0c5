//! The WAL reader.

use std::path::Path;

use cairn_compress::{Compression, WalDecompressor};
use cairn_format::log::{
    Dropped, End, Event, LogReader, Predecessor, Reason, Source, TimestampSizes,
};
use cairn_platform::fs::{Access, FileMode};
use cairn_platform::sync::Arc;
use cairn_platform::{FileSystem, RandomAccessFile};
use cairn_types::{Error, FileNumber, Result};

use crate::MAX_RECORD_LEN;

/// An item of a WAL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalEvent<'a> {
    /// A write batch.
    Record {
        /// Its offset in the file.
        offset: u64,
        /// Its content, decompressed.
        payload: &'a [u8],
    },
    /// The user-defined timestamp sizes of the batches that follow.
    TimestampSizes(TimestampSizes<'a>),
    /// The recorded summary of the preceding log; see [`crate::check_predecessor`].
    Predecessor(Predecessor),
    /// A range of bytes that was dropped. Reading may continue.
    Dropped(Dropped),
    /// The end of the file.
    End(End),
}

/// The reader of one WAL.
pub struct WalReader {
    log: LogReader<File>,
    decompressor: Option<WalDecompressor>,
    /// The last decompressed record.
    plain: Vec<u8>,
    /// The length of the current record, if it cannot be decompressed.
    bad_frame: Option<u64>,
    file: Arc<dyn RandomAccessFile>,
}

struct File {
    file: Arc<dyn RandomAccessFile>,
    /// The offset at which reading stops, unless the file ends first.
    limit: u64,
}

impl Source for File {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let left = usize::try_from(self.limit.saturating_sub(offset)).unwrap_or(usize::MAX);
        let len = buf.len().min(left);
        self.file.read_up_to_end(offset, &mut buf[..len])
    }
}

impl WalReader {
    /// Opens the WAL `number` at `path`.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn open(
        fs: &dyn FileSystem,
        path: &Path,
        number: FileNumber,
        mode: FileMode,
    ) -> Result<WalReader> {
        let file = fs.open(path, mode)?;
        file.advise(Access::Sequential);
        Ok(WalReader::new(file, number))
    }

    /// Creates a reader of `file`, the WAL `number`.
    #[must_use]
    pub fn new(file: Arc<dyn RandomAccessFile>, number: FileNumber) -> WalReader {
        WalReader::up_to(u64::MAX, file, number)
    }

    /// Creates a reader of `file`, the WAL `number`, that stops at the offset `limit`. In a log
    /// that is being written, bytes past the size that the writer has flushed are arbitrary.
    #[must_use]
    pub fn up_to(limit: u64, file: Arc<dyn RandomAccessFile>, number: FileNumber) -> WalReader {
        let source = File {
            file: file.clone(),
            limit,
        };
        WalReader {
            log: LogReader::new(source, number.0),
            decompressor: None,
            plain: Vec::new(),
            bad_frame: None,
            file,
        }
    }

    /// The file of the log.
    #[must_use]
    pub fn file(&self) -> &dyn RandomAccessFile {
        &*self.file
    }

    /// The path of the log, for messages.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// True if the file has recyclable records; false before the first record.
    #[must_use]
    pub fn is_recycled(&self) -> bool {
        self.log.is_recycled()
    }

    /// The offset after the last record read.
    #[must_use]
    pub fn whole_up_to(&self) -> u64 {
        self.log.whole_up_to()
    }

    /// Continues past the end of file, up to `limit`.
    pub fn go_on(&mut self, limit: u64) {
        self.log.go_on().limit = limit;
    }

    /// Returns to the end of the last record read, to read anew what another process has written since; see
    /// [`LogReader::reread`].
    pub fn reread(&mut self) {
        self.log.reread();
    }

    /// Continues in `file`, which has the same bytes up to the end of the last record read; see [`WalReader::reread`].
    pub fn continue_in(&mut self, file: Arc<dyn RandomAccessFile>) {
        self.log.reread();
        self.log.go_on().file = file.clone();
        self.file = file;
    }

    /// Advances to the next event and returns it.
    ///
    /// # Errors
    ///
    /// As [`WalReader::advance`].
    #[expect(
        clippy::should_implement_trait,
        reason = "an event borrows from the reader, which `Iterator` cannot express"
    )]
    pub fn next(&mut self) -> Result<WalEvent<'_>> {
        self.advance()?;
        Ok(self.event())
    }

    /// Advances to the next event.
    ///
    /// # Errors
    ///
    /// Those of the file, and `NotSupported` for an unknown codec. Damage is not an error but a
    /// [`WalEvent::Dropped`].
    pub fn advance(&mut self) -> Result<()> {
        loop {
            self.log.advance()?;
            match self.log.event() {
                Event::Compression(kind) => {
                    self.decompressor = decompressor(kind, self.file.path())?;
                }
                Event::Record { offset, payload } => {
                    self.bad_frame = None;
                    debug_assert!(offset < self.log.whole_up_to(), "a record has bytes");
                    if let Some(decompressor) = &mut self.decompressor {
                        match decompressor.decompress(payload) {
                            Ok(plain) => self.plain = plain,
                            Err(_) => self.bad_frame = Some(self.log.whole_up_to() - offset),
                        }
                    }
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
    }

    /// The current event.
    ///
    /// # Panics
    ///
    /// Before the first [`WalReader::advance`].
    #[must_use]
    pub fn event(&self) -> WalEvent<'_> {
        match self.log.event() {
            Event::Record { offset, payload } => match (&self.decompressor, self.bad_frame) {
                (None, _) => WalEvent::Record { offset, payload },
                (Some(_), None) => WalEvent::Record {
                    offset,
                    payload: &self.plain,
                },
                (Some(_), Some(bytes)) => WalEvent::Dropped(Dropped {
                    offset,
                    bytes,
                    reason: Reason::BadCompression,
                }),
            },
            Event::TimestampSizes(sizes) => WalEvent::TimestampSizes(sizes),
            Event::Predecessor(predecessor) => WalEvent::Predecessor(predecessor),
            Event::Dropped(dropped) => WalEvent::Dropped(dropped),
            Event::End(end) => WalEvent::End(end),
            Event::Compression(_) => unreachable!("advance() skips it"),
        }
    }
}

fn decompressor(kind: u32, path: &Path) -> Result<Option<WalDecompressor>> {
    let known = u8::try_from(kind).ok().and_then(Compression::from_u8);
    match known {
        Some(Compression::None) => Ok(None),
        Some(kind) => {
            WalDecompressor::new(kind, usize::try_from(MAX_RECORD_LEN).unwrap_or(usize::MAX))
                .map(Some)
                .map_err(|error| error.context(path.display()))
        }
        None => Err(Error::not_supported(format!(
            "compression {kind} of {}",
            path.display()
        ))),
    }
}
