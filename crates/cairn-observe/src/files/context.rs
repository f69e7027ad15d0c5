//! A file system that counts I/O for the calling thread and for its tracked operation, and records it in the I/O trace
//! of its database.

use std::path::Path;
use std::sync::Arc;

use cairn_platform::Clock;
use cairn_platform::fs::{FileMode, Status};
use cairn_platform::io::{FileReads, ReadQueue};
use cairn_platform::{FileSystem, RandomAccessFile, WritableFile, wrapper};
use cairn_types::{Result, Veil};

use crate::perf::iostats::{self, IoMetric};
use crate::threads;
use crate::traces::IoTracer;
use crate::traces::io::{IoNumbers, is_in_use as is_traced};

/// Wraps `fs` so that calls are counted for the calling thread ([`crate::perf::iostats`],
/// [`crate::threads`]), and recorded by `tracer` under the names of RocksDB's methods. If no such counters and no I/O
/// trace are in use, a call costs three loads. The info log must have a tracer of its own, because it records the
/// failures of traces.
#[must_use]
pub fn counted(
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    tracer: Arc<IoTracer>,
) -> Arc<dyn FileSystem> {
    Arc::new(Counted {
        fs,
        context: FileContext { clock, tracer },
    })
}

/// The clock of the counters, and the trace.
#[derive(Clone)]
struct FileContext {
    clock: Arc<dyn Clock>,
    tracer: Arc<IoTracer>,
}

impl FileContext {
    /// Runs `call`, an operation on the file at `path`, and records it if there is a trace.
    #[inline]
    fn traced<T>(
        &self,
        operation: &str,
        path: &Path,
        numbers: impl FnOnce(&Result<T>) -> IoNumbers,
        call: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        match is_traced() {
            false => call(),
            true => self.tracer.traced(operation, path, numbers, call),
        }
    }

    fn reader(&self, file: Result<Arc<dyn RandomAccessFile>>) -> Result<Arc<dyn RandomAccessFile>> {
        let context = self.clone();
        file.map(|file| Arc::new(Reader { file, context }) as _)
    }

    fn writer(&self, file: Result<Arc<dyn WritableFile>>) -> Result<Arc<dyn WritableFile>> {
        let context = self.clone();
        file.map(|file| Arc::new(Writer { file, context }) as _)
    }

    fn opening<T>(
        &self,
        operation: &str,
        path: &Path,
        open: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let open = || iostats::timed(&*self.clock, IoMetric::OpenNanos, open);
        self.traced(operation, path, no_numbers, open)
    }
}

fn no_numbers<T>(_: &Result<T>) -> IoNumbers {
    IoNumbers::default()
}

struct Counted {
    fs: Arc<dyn FileSystem>,
    context: FileContext,
}

impl Counted {
    /// Runs `call`, an operation on the file or directory at `path`.
    fn traced<T>(
        &self,
        operation: &str,
        path: &Path,
        call: impl FnOnce(&dyn FileSystem) -> Result<T>,
    ) -> Result<T> {
        let call = || call(&*self.fs);
        self.context.traced(operation, path, no_numbers, call)
    }
}

fn length(status: &Result<Status>) -> IoNumbers {
    IoNumbers::of_file(status.as_ref().map_or(0, |status| status.len))
}

impl wrapper::FileSystemWrapper for Counted {
    fn target(&self) -> &dyn FileSystem {
        &*self.fs
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        let open = || self.fs.open(path, mode);
        let context = &self.context;
        context.reader(context.opening("NewRandomAccessFile", path, open))
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let create = || self.fs.create(path, mode);
        let context = &self.context;
        context.writer(context.opening("NewWritableFile", path, create))
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let open = || self.fs.open_append(path, mode);
        let context = &self.context;
        context.writer(context.opening("ReopenWritableFile", path, open))
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let open = || self.fs.open_overwrite(path, mode);
        let context = &self.context;
        context.writer(context.opening("ReuseWritableFile", path, open))
    }

    fn status(&self, path: &Path) -> Result<Status> {
        let call = || self.fs.status(path);
        self.context.traced("GetFileSize", path, length, call)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        let tracer = &self.context.tracer;
        let began = if is_traced() { tracer.begin() } else { None };
        let each = self.fs.status_each(dir, names);
        if let Some(began) = began {
            for (name, status) in names.iter().zip(&each) {
                let (path, error) = (Path::new(name), status.as_ref().err());
                tracer.record(began, "GetFileSize", path, length(status), error);
            }
        }
        each
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.traced("GetChildren", dir, |fs| fs.list(dir))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.traced("CreateDirIfMissing", dir, |fs| fs.create_dir_all(dir))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.traced("DeleteDir", dir, |fs| fs.remove_dir(dir))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.traced("DeleteFile", path, |fs| fs.remove(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.traced("RenameFile", from, |fs| fs.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.traced("LinkFile", from, |fs| fs.link(from, to))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let clock = &*self.context.clock;
        self.traced("Fsync", dir, |fs| {
            iostats::timed(clock, IoMetric::FsyncNanos, || fs.sync_dir(dir))
        })
    }
}

struct Reader {
    file: Arc<dyn RandomAccessFile>,
    context: FileContext,
}

impl Reader {
    fn read(
        &self,
        (offset, len): (u64, usize),
        read: impl FnOnce() -> Result<usize>,
    ) -> Result<usize> {
        let read = || {
            iostats::timed_io(
                &*self.context.clock,
                (IoMetric::ReadNanos, IoMetric::CpuReadNanos),
                read,
            )
        };
        let got = match is_traced() {
            false => read(),
            true => {
                let numbers = |_: &Result<usize>| IoNumbers::of_range(offset, len as u64);
                let path = self.file.path();
                self.context.traced("Read", path, numbers, read)
            }
        };
        if let Ok(bytes) = &got {
            iostats::add(IoMetric::BytesRead, *bytes as u64);
            threads::count_read(*bytes as u64);
        }
        got
    }

    /// Records the reads of a batch that began at `began`.
    #[cold]
    fn record_batch(&self, began: u64, reads: &FileReads, queue: &ReadQueue) {
        let operation = match queue.is_in_background() {
            true => "ReadAsync",
            false => "MultiRead",
        };
        let path = self.file.path();
        for read in &reads.reads {
            let numbers = IoNumbers::of_range(read.offset, read.wanted() as u64);
            let error = read.got.as_ref().err();
            let tracer = &self.context.tracer;
            tracer.record(began, operation, path, numbers, error);
        }
    }
}

impl wrapper::RandomAccessFileWrapper for Reader {
    fn target(&self) -> &dyn RandomAccessFile {
        &*self.file
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read((offset, buf.len()), || self.file.read_at(offset, buf))
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read((offset, buf.len()), || {
            self.file.read_up_to_end(offset, buf)
        })
    }

    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        let context = &self.context;
        let (nanos, cpu) = match queue.is_in_background() {
            // Times of other calls, and perhaps of other threads.
            true => (0, 0),
            false => iostats::begin_io(&*context.clock),
        };
        let traced = match is_traced() {
            true => context.tracer.begin().unwrap_or(0),
            false => 0,
        };
        reads.note(traced);
        reads.note(nanos);
        reads.note(cpu);
        self.file.start_reads(reads, queue);
    }

    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.file.finish_reads(reads, queue);
        let cpu = reads.take_note();
        let nanos = reads.take_note();
        let traced = reads.take_note();
        let metrics = (IoMetric::ReadNanos, IoMetric::CpuReadNanos);
        iostats::end_io(&*self.context.clock, metrics, (nanos, cpu), |nanos| {
            queue.share(nanos)
        });
        let (_, bytes) = reads.done();
        iostats::add(IoMetric::BytesRead, bytes);
        threads::count_read(bytes);
        if traced != 0 {
            self.record_batch(traced, reads, queue);
        }
    }

    fn prefetch(&self, offset: u64, len: usize) -> bool {
        if !is_traced() {
            return self.file.prefetch(offset, len);
        }
        let numbers = |_: &Result<bool>| IoNumbers::of_range(offset, len as u64);
        let call = || Ok(self.file.prefetch(offset, len));
        let path = self.file.path();
        let prefetched = self.context.traced("Prefetch", path, numbers, call);
        prefetched.is_ok_and(|supported| supported)
    }
}

struct Writer {
    file: Arc<dyn WritableFile>,
    context: FileContext,
}

impl Writer {
    fn timed<T>(&self, metric: IoMetric, call: impl FnOnce() -> T) -> T {
        iostats::timed(&*self.context.clock, metric, call)
    }

    fn traced(
        &self,
        operation: &str,
        numbers: IoNumbers,
        call: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        if !is_traced() {
            return call();
        }
        let path = self.file.path();
        self.context.traced(operation, path, |_| numbers, call)
    }

    #[cold]
    fn append_counted(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        let metrics = (IoMetric::WriteNanos, IoMetric::CpuWriteNanos);
        let append = || {
            iostats::timed_io(&*self.context.clock, metrics, || {
                self.file.append_veiled(data, veils)
            })
        };
        self.traced("Append", IoNumbers::of_len(data.len() as u64), append)?;
        iostats::add(IoMetric::BytesWritten, data.len() as u64);
        threads::count_written(data.len() as u64);
        Ok(())
    }
}

impl wrapper::WritableFileWrapper for Writer {
    fn target(&self) -> &dyn WritableFile {
        &*self.file
    }

    #[inline]
    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        if !crate::perf::is_in_use() && !threads::is_in_use() && !is_traced() {
            return self.file.append_veiled(data, veils);
        }
        self.append_counted(data, veils)
    }

    fn flush(&self) -> Result<()> {
        self.traced("Flush", IoNumbers::default(), || {
            self.timed(IoMetric::WriteNanos, || self.file.flush())
        })
    }

    fn sync(&self, full: bool) -> Result<()> {
        let operation = if full { "Fsync" } else { "Sync" };
        self.traced(operation, IoNumbers::default(), || {
            self.timed(IoMetric::FsyncNanos, || self.file.sync(full))
        })
    }

    fn start_writeback(&self, offset: u64, len: u64) -> Result<()> {
        self.traced("RangeSync", IoNumbers::of_range(offset, len), || {
            self.timed(IoMetric::RangeSyncNanos, || {
                self.file.start_writeback(offset, len)
            })
        })
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.traced("Allocate", IoNumbers::of_len(len), || {
            self.timed(IoMetric::PrepareWriteNanos, || {
                self.timed(IoMetric::AllocateNanos, || self.file.allocate(len))
            })
        })
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.traced("Truncate", IoNumbers::of_len(len), || {
            self.file.truncate(len)
        })
    }

    fn close(&self) -> Result<()> {
        self.traced("Close", IoNumbers::default(), || self.file.close())
    }

    fn successor(&self, path: &Path, mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        let create = || self.file.successor(path, mode);
        let context = &self.context;
        let began = if is_traced() {
            context.tracer.begin()
        } else {
            None
        };
        let made = self.timed(IoMetric::OpenNanos, create);
        // The caller creates a file by another call otherwise.
        if let Some(began) = began
            && !matches!(made, Ok(None))
        {
            let error = made.as_ref().err();
            let (operation, numbers) = ("NewWritableFile", IoNumbers::default());
            let tracer = &context.tracer;
            tracer.record(began, operation, path, numbers, error);
        }
        let context = context.clone();
        Ok(made?.map(|file| Arc::new(Writer { file, context }) as _))
    }
}
