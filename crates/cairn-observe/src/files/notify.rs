//! A file system that tells listeners of its calls.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_platform::Clock;
use cairn_platform::fs::{FileMode, ReadAt, Status};
use cairn_platform::{FileSystem, RandomAccessFile, WritableFile, wrapper};
use cairn_types::{Result, Veil};

use crate::callback::{Within, within};
use crate::listener::{EventListener, FileOperation, FileOperationInfo, IoErrorInfo, Listeners};
use crate::logger::Logger;

/// `fs`, whose files tell those of `listeners` of their calls that want to hear of them; `fs` itself if
/// none does. `info` hears of listeners that panic.
#[must_use]
pub fn notifying(
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    listeners: &Listeners,
    info: &Arc<Logger>,
) -> Arc<dyn FileSystem> {
    let listeners = listeners.of_files();
    if listeners.is_empty() {
        return fs;
    }
    let told = Told {
        clock,
        listeners,
        info: info.clone(),
    };
    Arc::new(ToldFs {
        fs,
        told: Arc::new(told),
    })
}

/// Who is told.
struct Told {
    clock: Arc<dyn Clock>,
    listeners: Listeners,
    info: Arc<Logger>,
}

/// One of the calls of a listener.
type Call = fn(&dyn EventListener, &FileOperationInfo<'_>);

/// A call of a file, and when it began.
struct Began<'a> {
    told: &'a Told,
    path: &'a Path,
    micros: u64,
    nanos: u64,
}

impl Told {
    fn begin<'a>(&'a self, path: &'a Path) -> Began<'a> {
        Began {
            told: self,
            path,
            micros: self.clock.wall_micros(),
            nanos: self.clock.monotonic_nanos(),
        }
    }

    fn each(&self, call: impl FnMut(&dyn EventListener)) {
        within(&self.info, Within::Locked, || {
            self.listeners.each(&self.info, call)
        });
    }
}

impl Began<'_> {
    /// Tells that `operation` has ended with `result`.
    fn ended(
        &self,
        call: Call,
        operation: FileOperation,
        (offset, length): (u64, u64),
        result: Result<()>,
    ) -> Result<()> {
        let nanos = self.told.clock.monotonic_nanos().saturating_sub(self.nanos);
        let info = FileOperationInfo {
            operation,
            path: self.path,
            offset,
            length,
            start_micros: self.micros,
            duration: Duration::from_nanos(nanos),
            error: result.as_ref().err(),
        };
        self.told.each(|listener| call(listener, &info));
        if let Err(error) = &result {
            let info = IoErrorInfo {
                error,
                // RocksDB calls the same call two names.
                operation: match operation {
                    FileOperation::Write => FileOperation::Append,
                    other => other,
                },
                path: self.path,
                offset,
                length,
            };
            self.told.each(|listener| listener.on_io_error(&info));
        }
        result
    }

    /// Tells of a read of `wanted` bytes.
    fn read(&self, offset: u64, wanted: usize, got: Result<usize>) -> Result<usize> {
        let length = *got.as_ref().unwrap_or(&wanted) as u64;
        let call: Call = |listener, info| listener.on_file_read_finish(info);
        let (bytes, result) = match got {
            Ok(bytes) => (bytes, Ok(())),
            Err(error) => (0, Err(error)),
        };
        self.ended(call, FileOperation::Read, (offset, length), result)
            .map(|()| bytes)
    }
}

/// True if the file at `path` is a matter of the engine: not the info log, which tells of listeners.
fn is_reported(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    !name.is_some_and(|name| name.contains("LOG"))
}

struct ToldFs {
    fs: Arc<dyn FileSystem>,
    told: Arc<Told>,
}

impl ToldFs {
    fn writer(
        &self,
        path: &Path,
        file: Result<Arc<dyn WritableFile>>,
    ) -> Result<Arc<dyn WritableFile>> {
        let told = self.told.clone();
        match is_reported(path) {
            true => file.map(|file| Arc::new(Writer { file, told }) as _),
            false => file,
        }
    }
}

impl wrapper::FileSystemWrapper for ToldFs {
    fn target(&self) -> &dyn FileSystem {
        &*self.fs
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        let told = self.told.clone();
        let file = self.fs.open(path, mode)?;
        Ok(match is_reported(path) {
            true => Arc::new(Reader { file, told }),
            false => file,
        })
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.writer(path, self.fs.create(path, mode))
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.writer(path, self.fs.open_append(path, mode))
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.writer(path, self.fs.open_overwrite(path, mode))
    }

    fn status(&self, path: &Path) -> Result<Status> {
        self.fs.status(path)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.fs.status_each(dir, names)
    }
}

struct Reader {
    file: Arc<dyn RandomAccessFile>,
    told: Arc<Told>,
}

impl wrapper::RandomAccessFileWrapper for Reader {
    fn target(&self) -> &dyn RandomAccessFile {
        &*self.file
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let began = self.told.begin(self.file.path());
        let got = self.file.read_at(offset, buf);
        began.read(offset, buf.len(), got)
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let began = self.told.begin(self.file.path());
        let got = self.file.read_up_to_end(offset, buf);
        began.read(offset, buf.len(), got)
    }

    fn read_many(&self, reads: &mut [ReadAt<'_>]) {
        let began = self.told.begin(self.file.path());
        self.file.read_many(reads);
        for read in reads {
            let got = std::mem::replace(&mut read.got, Ok(0));
            read.got = began.read(read.offset, read.buf.len(), got);
        }
    }
}

struct Writer {
    file: Arc<dyn WritableFile>,
    told: Arc<Told>,
}

impl Writer {
    fn tell(
        &self,
        call: Call,
        operation: FileOperation,
        range: (u64, u64),
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let began = self.told.begin(self.file.path());
        let result = work();
        began.ended(call, operation, range, result)
    }
}

impl wrapper::WritableFileWrapper for Writer {
    fn target(&self) -> &dyn WritableFile {
        &*self.file
    }

    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        self.tell(
            |listener, info| listener.on_file_write_finish(info),
            FileOperation::Write,
            (self.file.len(), data.len() as u64),
            || self.file.append_veiled(data, veils),
        )
    }

    fn flush(&self) -> Result<()> {
        self.tell(
            |listener, info| listener.on_file_flush_finish(info),
            FileOperation::Flush,
            (0, 0),
            || self.file.flush(),
        )
    }

    fn sync(&self, full: bool) -> Result<()> {
        let operation = match full {
            true => FileOperation::Fsync,
            false => FileOperation::Sync,
        };
        self.tell(
            |listener, info| listener.on_file_sync_finish(info),
            operation,
            (0, 0),
            || self.file.sync(full),
        )
    }

    fn start_writeback(&self, offset: u64, len: u64) -> Result<()> {
        self.tell(
            |listener, info| listener.on_file_range_sync_finish(info),
            FileOperation::RangeSync,
            (offset, len),
            || self.file.start_writeback(offset, len),
        )
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.tell(
            |listener, info| listener.on_file_truncate_finish(info),
            FileOperation::Truncate,
            (len, 0),
            || self.file.truncate(len),
        )
    }

    fn successor(&self, path: &Path, mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        let told = self.told.clone();
        let made = self.file.successor(path, mode)?;
        Ok(made.map(|file| Arc::new(Writer { file, told }) as _))
    }

    fn close(&self) -> Result<()> {
        self.tell(
            |listener, info| listener.on_file_close_finish(info),
            FileOperation::Close,
            (0, 0),
            || self.file.close(),
        )
    }
}
