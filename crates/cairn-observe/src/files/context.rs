//! A file system that counts I/O for the calling thread and for its tracked operation.

use std::path::Path;
use std::sync::Arc;

use cairn_platform::Clock;
use cairn_platform::fs::{FileMode, Status};
use cairn_platform::io::{FileReads, ReadQueue};
use cairn_platform::{FileSystem, RandomAccessFile, WritableFile, wrapper};
use cairn_types::{Result, Veil};

use crate::perf::iostats::{self, IoMetric};
use crate::threads;

/// Wraps `fs` so that calls are counted for the calling thread ([`crate::perf::iostats`],
/// [`crate::threads`]). If no such counters are in use, a call costs two loads.
#[must_use]
pub fn counted(fs: Arc<dyn FileSystem>, clock: Arc<dyn Clock>) -> Arc<dyn FileSystem> {
    Arc::new(Counted { fs, clock })
}

struct Counted {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
}

impl Counted {
    fn reader(&self, file: Result<Arc<dyn RandomAccessFile>>) -> Result<Arc<dyn RandomAccessFile>> {
        let clock = self.clock.clone();
        file.map(|file| Arc::new(Reader { file, clock }) as _)
    }

    fn writer(&self, file: Result<Arc<dyn WritableFile>>) -> Result<Arc<dyn WritableFile>> {
        let clock = self.clock.clone();
        file.map(|file| Arc::new(Writer { file, clock }) as _)
    }

    fn opening<T>(&self, open: impl FnOnce() -> T) -> T {
        iostats::timed(&*self.clock, IoMetric::OpenNanos, open)
    }
}

impl wrapper::FileSystemWrapper for Counted {
    fn target(&self) -> &dyn FileSystem {
        &*self.fs
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        self.reader(self.opening(|| self.fs.open(path, mode)))
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.writer(self.opening(|| self.fs.create(path, mode)))
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.writer(self.opening(|| self.fs.open_append(path, mode)))
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.writer(self.opening(|| self.fs.open_overwrite(path, mode)))
    }

    fn status(&self, path: &Path) -> Result<Status> {
        self.fs.status(path)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.fs.status_each(dir, names)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        iostats::timed(&*self.clock, IoMetric::FsyncNanos, || self.fs.sync_dir(dir))
    }
}

struct Reader {
    file: Arc<dyn RandomAccessFile>,
    clock: Arc<dyn Clock>,
}

impl Reader {
    fn read(&self, read: impl FnOnce() -> Result<usize>) -> Result<usize> {
        let got = iostats::timed_io(
            &*self.clock,
            (IoMetric::ReadNanos, IoMetric::CpuReadNanos),
            read,
        );
        if let Ok(bytes) = &got {
            iostats::add(IoMetric::BytesRead, *bytes as u64);
            threads::count_read(*bytes as u64);
        }
        got
    }
}

impl wrapper::RandomAccessFileWrapper for Reader {
    fn target(&self) -> &dyn RandomAccessFile {
        &*self.file
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read(|| self.file.read_at(offset, buf))
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read(|| self.file.read_up_to_end(offset, buf))
    }

    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        let (nanos, cpu) = match queue.is_in_background() {
            // Times of other calls, and perhaps of other threads.
            true => (0, 0),
            false => iostats::begin_io(&*self.clock),
        };
        reads.note(nanos);
        reads.note(cpu);
        self.file.start_reads(reads, queue);
    }

    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.file.finish_reads(reads, queue);
        let cpu = reads.take_note();
        let nanos = reads.take_note();
        let metrics = (IoMetric::ReadNanos, IoMetric::CpuReadNanos);
        iostats::end_io(&*self.clock, metrics, (nanos, cpu), |nanos| {
            queue.share(nanos)
        });
        let (_, bytes) = reads.done();
        iostats::add(IoMetric::BytesRead, bytes);
        threads::count_read(bytes);
    }
}

struct Writer {
    file: Arc<dyn WritableFile>,
    clock: Arc<dyn Clock>,
}

impl Writer {
    fn timed<T>(&self, metric: IoMetric, call: impl FnOnce() -> T) -> T {
        iostats::timed(&*self.clock, metric, call)
    }
}

impl wrapper::WritableFileWrapper for Writer {
    fn target(&self) -> &dyn WritableFile {
        &*self.file
    }

    #[inline]
    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        if !crate::perf::is_in_use() && !threads::is_in_use() {
            return self.file.append_veiled(data, veils);
        }
        let metrics = (IoMetric::WriteNanos, IoMetric::CpuWriteNanos);
        iostats::timed_io(&*self.clock, metrics, || {
            self.file.append_veiled(data, veils)
        })?;
        iostats::add(IoMetric::BytesWritten, data.len() as u64);
        threads::count_written(data.len() as u64);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        self.timed(IoMetric::WriteNanos, || self.file.flush())
    }

    fn sync(&self, full: bool) -> Result<()> {
        self.timed(IoMetric::FsyncNanos, || self.file.sync(full))
    }

    fn start_writeback(&self, offset: u64, len: u64) -> Result<()> {
        self.timed(IoMetric::RangeSyncNanos, || {
            self.file.start_writeback(offset, len)
        })
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.timed(IoMetric::PrepareWriteNanos, || {
            self.timed(IoMetric::AllocateNanos, || self.file.allocate(len))
        })
    }

    fn successor(&self, path: &Path, mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        let clock = self.clock.clone();
        let made = self.timed(IoMetric::OpenNanos, || self.file.successor(path, mode))?;
        Ok(made.map(|file| Arc::new(Writer { file, clock }) as _))
    }
}
