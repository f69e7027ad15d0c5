//! A file system that notifies listeners of file operations.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_platform::Clock;
use cairn_platform::fs::{FileMode, Status};
use cairn_platform::io::{FileReads, ReadQueue};
use cairn_platform::{FileSystem, RandomAccessFile, WritableFile, wrapper};
use cairn_types::{Result, Veil};

use crate::callback::{Within, within};
use crate::listener::{EventListener, FileOperation, FileOperationInfo, IoErrorInfo, Listeners};
use crate::logger::Logger;

/// Wraps `fs` so that the `listeners` of file operations are notified of its calls. Returns `fs`
/// itself if there are none. Panics of listeners are written to `info`.
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
    let notifier = Notifier {
        clock,
        listeners,
        info: info.clone(),
    };
    Arc::new(NotifyingFs {
        fs,
        notifier: Arc::new(notifier),
    })
}

/// The listeners to notify, and the log for their panics.
struct Notifier {
    clock: Arc<dyn Clock>,
    listeners: Listeners,
    info: Arc<Logger>,
}

/// A notification method of a listener.
type Call = fn(&dyn EventListener, &FileOperationInfo<'_>);

/// A file operation in progress.
struct Began<'a> {
    notifier: &'a Notifier,
    path: &'a Path,
    micros: u64,
    nanos: u64,
}

impl Notifier {
    fn begin<'a>(&'a self, path: &'a Path) -> Began<'a> {
        Began {
            notifier: self,
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
    /// Notifies of the end of `operation` with `result`.
    fn ended(
        &self,
        call: Call,
        operation: FileOperation,
        (offset, length): (u64, u64),
        result: Result<()>,
    ) -> Result<()> {
        let nanos = self
            .notifier
            .clock
            .monotonic_nanos()
            .saturating_sub(self.nanos);
        let info = FileOperationInfo {
            operation,
            path: self.path,
            offset,
            length,
            start_micros: self.micros,
            duration: Duration::from_nanos(nanos),
            error: result.as_ref().err(),
        };
        self.notifier.each(|listener| call(listener, &info));
        if let Err(error) = &result {
            let info = IoErrorInfo {
                error,
                // RocksDB has two names for the same call.
                operation: match operation {
                    FileOperation::Write => FileOperation::Append,
                    other => other,
                },
                path: self.path,
                offset,
                length,
            };
            self.notifier.each(|listener| listener.on_io_error(&info));
        }
        result
    }

    /// Notifies of the end of a read of `wanted` bytes.
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

/// True if operations on the file at `path` are reported. The info log is excluded because it
/// records the panics of listeners.
fn is_reported(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    !name.is_some_and(|name| name.contains("LOG"))
}

struct NotifyingFs {
    fs: Arc<dyn FileSystem>,
    notifier: Arc<Notifier>,
}

impl NotifyingFs {
    fn writer(
        &self,
        path: &Path,
        file: Result<Arc<dyn WritableFile>>,
    ) -> Result<Arc<dyn WritableFile>> {
        let notifier = self.notifier.clone();
        match is_reported(path) {
            true => file.map(|file| Arc::new(Writer { file, notifier }) as _),
            false => file,
        }
    }
}

impl wrapper::FileSystemWrapper for NotifyingFs {
    fn target(&self) -> &dyn FileSystem {
        &*self.fs
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        let notifier = self.notifier.clone();
        let file = self.fs.open(path, mode)?;
        Ok(match is_reported(path) {
            true => Arc::new(Reader { file, notifier }),
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
    notifier: Arc<Notifier>,
}

impl wrapper::RandomAccessFileWrapper for Reader {
    fn target(&self) -> &dyn RandomAccessFile {
        &*self.file
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let began = self.notifier.begin(self.file.path());
        let got = self.file.read_at(offset, buf);
        began.read(offset, buf.len(), got)
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let began = self.notifier.begin(self.file.path());
        let got = self.file.read_up_to_end(offset, buf);
        began.read(offset, buf.len(), got)
    }

    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        let began = self.notifier.begin(self.file.path());
        reads.note(began.micros);
        reads.note(began.nanos);
        self.file.start_reads(reads, queue);
    }

    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.file.finish_reads(reads, queue);
        let nanos = reads.take_note();
        let micros = reads.take_note();
        let began = Began {
            notifier: &self.notifier,
            path: self.file.path(),
            micros,
            nanos,
        };
        for read in &mut reads.reads {
            let got = std::mem::replace(&mut read.got, Ok(0));
            read.got = began.read(read.offset, read.wanted(), got);
        }
    }
}

struct Writer {
    file: Arc<dyn WritableFile>,
    notifier: Arc<Notifier>,
}

impl Writer {
    fn notify(
        &self,
        call: Call,
        operation: FileOperation,
        range: (u64, u64),
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let began = self.notifier.begin(self.file.path());
        let result = work();
        began.ended(call, operation, range, result)
    }
}

impl wrapper::WritableFileWrapper for Writer {
    fn target(&self) -> &dyn WritableFile {
        &*self.file
    }

    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        self.notify(
            |listener, info| listener.on_file_write_finish(info),
            FileOperation::Write,
            (self.file.len(), data.len() as u64),
            || self.file.append_veiled(data, veils),
        )
    }

    fn flush(&self) -> Result<()> {
        self.notify(
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
        self.notify(
            |listener, info| listener.on_file_sync_finish(info),
            operation,
            (0, 0),
            || self.file.sync(full),
        )
    }

    fn start_writeback(&self, offset: u64, len: u64) -> Result<()> {
        self.notify(
            |listener, info| listener.on_file_range_sync_finish(info),
            FileOperation::RangeSync,
            (offset, len),
            || self.file.start_writeback(offset, len),
        )
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.notify(
            |listener, info| listener.on_file_truncate_finish(info),
            FileOperation::Truncate,
            (len, 0),
            || self.file.truncate(len),
        )
    }

    fn successor(&self, path: &Path, mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        let notifier = self.notifier.clone();
        let made = self.file.successor(path, mode)?;
        Ok(made.map(|file| Arc::new(Writer { file, notifier }) as _))
    }

    fn close(&self) -> Result<()> {
        self.notify(
            |listener, info| listener.on_file_close_finish(info),
            FileOperation::Close,
            (0, 0),
            || self.file.close(),
        )
    }
}
