//! Tests that every wrapper forwards every call: a recorder beneath it receives all calls with
//! their arguments, and its results are returned to the caller.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::trace::block_cache::WriterVersion;
use cairn_platform::fs::{Access, FileLock, FileMode, PathKind, Status};
use cairn_platform::io::{BatchRead, FileReads, ReadQueue};
use cairn_platform::sync::Mutex;
use cairn_platform::{
    Allocation, FileSystem, IoKind, IoPriority, LimitedFile, Limits, RandomAccessFile, RateLimited,
    RateLimiter, World, WritableFile,
};
use cairn_types::{Result, Veil};

use super::{ReadOf, counted, counted_reads, measured_writes, notifying};
use crate::listener::{EventListener, Listeners};
use crate::logger::Logger;
use crate::statistics::{Histogram, Meter, Statistics, StatsLevel};
use crate::traces::{IoTracer, SampledTraceOptions, TraceWriter};

/// Records its calls. None of its results is a default value.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn note(&self, call: impl Into<String>) {
        self.0.lock().push(call.into());
    }

    /// Asserts that each of `calls` has arrived since the last check.
    fn assert_saw(&self, wrapper: &str, calls: &[&str]) {
        let seen = std::mem::take(&mut *self.0.lock());
        for call in calls {
            assert!(
                seen.iter().any(|seen| seen == call),
                "{wrapper} does not forward {call}: {seen:?}"
            );
        }
    }
}

struct Lock;

impl FileLock for Lock {}

const STATUS: Status = Status {
    len: 77,
    kind: PathKind::File,
    modified_micros: 5,
};

impl FileSystem for Recorder {
    fn open(&self, path: &Path, _: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        self.note(format!("open {}", path.display()));
        Ok(Arc::new(self.clone()))
    }
    fn create(&self, path: &Path, _: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.note(format!("create {}", path.display()));
        Ok(Arc::new(self.clone()))
    }
    fn open_append(&self, path: &Path, _: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.note(format!("open_append {}", path.display()));
        Ok(Arc::new(self.clone()))
    }
    fn open_overwrite(&self, path: &Path, _: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.note(format!("open_overwrite {}", path.display()));
        Ok(Arc::new(self.clone()))
    }
    fn status(&self, path: &Path) -> Result<Status> {
        self.note(format!("status {}", path.display()));
        Ok(STATUS)
    }
    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.note(format!("status_each {} {names:?}", dir.display()));
        vec![Ok(STATUS)]
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.note(format!("list {}", dir.display()));
        Ok(vec!["listed".to_owned()])
    }
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.note(format!("create_dir_all {}", dir.display()));
        Ok(())
    }
    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.note(format!("remove_dir {}", dir.display()));
        Ok(())
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.note(format!("remove {}", path.display()));
        Ok(())
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.note(format!("rename {} {}", from.display(), to.display()));
        Ok(())
    }
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.note(format!("link {} {}", from.display(), to.display()));
        Ok(())
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.note(format!("sync_dir {}", dir.display()));
        Ok(())
    }
    fn canonical(&self, path: &Path) -> Result<PathBuf> {
        self.note(format!("canonical {}", path.display()));
        Ok("/canonical".into())
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.note(format!("lock {}", path.display()));
        Ok(Box::new(Lock))
    }
    fn free_space(&self, path: &Path) -> Result<u64> {
        self.note(format!("free_space {}", path.display()));
        Ok(99)
    }
}

impl RandomAccessFile for Recorder {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.note(format!("read_at {offset} {}", buf.len()));
        Ok(1)
    }
    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.note(format!("read_up_to_end {offset} {}", buf.len()));
        Ok(2)
    }
    fn start_reads(&self, reads: &mut FileReads, _queue: &mut ReadQueue) {
        self.note(format!("start_reads {}", reads.reads[0].offset));
    }
    fn finish_reads(&self, reads: &mut FileReads, _queue: &mut ReadQueue) {
        self.note(format!("finish_reads {}", reads.reads[0].offset));
        reads.reads[0].got = Ok(3);
    }
    fn is_blank(&self, offset: u64, len: usize) -> Result<bool> {
        self.note(format!("is_blank {offset} {len}"));
        Ok(true)
    }
    fn len(&self) -> Result<u64> {
        self.note("len");
        Ok(11)
    }
    fn path(&self) -> &Path {
        self.note("path");
        Path::new("/db/000007.sst")
    }
    fn prefetch(&self, offset: u64, len: usize) -> bool {
        self.note(format!("prefetch {offset} {len}"));
        true
    }
    fn advise(&self, access: Access) {
        self.note(format!("advise {access:?}"));
    }
    fn drop_cached(&self) {
        self.note("drop_cached");
    }
}

impl WritableFile for Recorder {
    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        self.note(format!("append {data:?} {}", veils.len()));
        Ok(())
    }
    fn flush(&self) -> Result<()> {
        self.note("flush");
        Ok(())
    }
    fn sync(&self, full: bool) -> Result<()> {
        self.note(format!("sync {full}"));
        Ok(())
    }
    fn start_writeback(&self, offset: u64, len: u64) -> Result<()> {
        self.note(format!("start_writeback {offset} {len}"));
        Ok(())
    }
    fn allocate(&self, len: u64) -> Result<()> {
        self.note(format!("allocate {len}"));
        Ok(())
    }
    fn truncate(&self, len: u64) -> Result<()> {
        self.note(format!("truncate {len}"));
        Ok(())
    }
    fn len(&self) -> u64 {
        self.note("len");
        22
    }
    fn path(&self) -> &Path {
        self.note("path");
        Path::new("/db/000008.sst")
    }
    fn is_mapped(&self) -> bool {
        self.note("is_mapped");
        true
    }
    fn mapped_bytes(&self) -> usize {
        self.note("mapped_bytes");
        55
    }
    fn slow_append(&self) -> Option<(u64, u64)> {
        self.note("slow_append");
        Some((33, 44))
    }
    fn successor(&self, path: &Path, _: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        self.note(format!("successor {}", path.display()));
        Ok(Some(Arc::new(self.clone())))
    }
    fn close(&self) -> Result<()> {
        self.note("close");
        Ok(())
    }
}

/// Calls every method of a writable file.
fn check_writer(name: &str, recorder: &Recorder, file: &dyn WritableFile) {
    let veil = Veil {
        at: 0,
        end: 8,
        head: [0; 8],
    };
    file.append(b"a").unwrap();
    file.append_veiled(b"b", &[veil]).unwrap();
    file.flush().unwrap();
    file.sync(true).unwrap();
    file.start_writeback(1, 2).unwrap();
    file.allocate(3).unwrap();
    file.truncate(4).unwrap();
    assert_eq!(file.len(), 22, "{name}");
    assert_eq!(file.path(), Path::new("/db/000008.sst"), "{name}");
    assert!(file.is_mapped(), "{name}");
    assert_eq!(file.mapped_bytes(), 55, "{name}");
    assert_eq!(file.slow_append(), Some((33, 44)), "{name}");
    file.close().unwrap();
    recorder.assert_saw(
        name,
        &[
            "append [97] 0",
            "append [98] 1",
            "flush",
            "sync true",
            "start_writeback 1 2",
            "allocate 3",
            "truncate 4",
            "len",
            "path",
            "is_mapped",
            "mapped_bytes",
            "slow_append",
            "close",
        ],
    );
}

/// Calls every method of a readable file.
fn check_reader(name: &str, recorder: &Recorder, file: &dyn RandomAccessFile) {
    let mut one = [0; 5];
    assert_eq!(file.read_at(1, &mut one).unwrap(), 1, "{name}");
    assert_eq!(file.read_up_to_end(2, &mut one).unwrap(), 2, "{name}");
    let mut reads = FileReads::new(vec![BatchRead::new(3, 6, Allocation::default())]);
    let mut queue = ReadQueue::default();
    file.start_reads(&mut reads, &mut queue);
    file.finish_reads(&mut reads, &mut queue);
    assert_eq!(*reads.reads[0].got.as_ref().unwrap(), 3, "{name}");
    assert!(file.is_blank(4, 5).unwrap(), "{name}");
    assert_eq!(file.len().unwrap(), 11, "{name}");
    assert_eq!(file.path(), Path::new("/db/000007.sst"), "{name}");
    assert!(file.prefetch(6, 7), "{name}");
    file.advise(Access::Sequential);
    file.drop_cached();
    recorder.assert_saw(
        name,
        &[
            "read_at 1 5",
            "read_up_to_end 2 5",
            "start_reads 3",
            "finish_reads 3",
            "is_blank 4 5",
            "len",
            "path",
            "prefetch 6 7",
            "advise Sequential",
            "drop_cached",
        ],
    );
}

/// Calls every method of a file system, and of the files it opens.
fn check_file_system(name: &str, recorder: &Recorder, fs: &dyn FileSystem) {
    let (one, two, mode) = (Path::new("/one"), Path::new("/two"), FileMode::default());
    assert_eq!(fs.status(one).unwrap(), STATUS, "{name}");
    let each = fs.status_each(one, &["a".to_owned(), "b".to_owned()]);
    assert_eq!(each.len(), 1, "{name}");
    assert_eq!(fs.list(one).unwrap(), ["listed"], "{name}");
    fs.create_dir_all(one).unwrap();
    fs.remove_dir(one).unwrap();
    fs.remove(one).unwrap();
    fs.rename(one, two).unwrap();
    fs.link(one, two).unwrap();
    fs.sync_dir(one).unwrap();
    assert_eq!(fs.canonical(one).unwrap(), Path::new("/canonical"));
    fs.lock(one).unwrap();
    assert_eq!(fs.free_space(one).unwrap(), 99, "{name}");
    assert!(fs.exists(two).unwrap(), "{name}");
    recorder.assert_saw(
        name,
        &[
            "status /one",
            "status_each /one [\"a\", \"b\"]",
            "list /one",
            "create_dir_all /one",
            "remove_dir /one",
            "remove /one",
            "rename /one /two",
            "link /one /two",
            "sync_dir /one",
            "canonical /one",
            "lock /one",
            "free_space /one",
            "status /two",
        ],
    );
    let created = fs.create(one, mode).unwrap();
    let appended = fs.open_append(one, mode).unwrap();
    let overwritten = fs.open_overwrite(one, mode).unwrap();
    let successor = created.successor(two, mode).unwrap().unwrap();
    let read = fs.open(one, mode).unwrap();
    let calls = [
        "create /one",
        "open_append /one",
        "open_overwrite /one",
        "successor /two",
        "open /one",
    ];
    recorder.assert_saw(name, &calls);
    for file in [created, appended, overwritten, successor] {
        check_writer(name, recorder, &*file);
    }
    check_reader(name, recorder, &*read);
}

/// A destination of a trace that keeps nothing.
struct Discard;

impl TraceWriter for Discard {
    fn write(&mut self, _record: &[u8]) -> Result<()> {
        Ok(())
    }
    fn file_size(&self) -> u64 {
        0
    }
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A listener of file operations.
struct Curious;

impl EventListener for Curious {
    fn should_be_notified_on_file_io(&self) -> bool {
        true
    }
}

#[test]
fn file_system_wrappers_forward_every_call() {
    let recorder = Recorder::default();
    check_file_system("the recorder", &recorder, &recorder);

    let clock = World::in_memory().clock;
    let tracer = Arc::new(IoTracer::new(clock.clone()));
    let fs = counted(Arc::new(recorder.clone()), clock.clone(), tracer.clone());
    check_file_system("counted", &recorder, &*fs);
    let (info, version) = (
        Arc::new(Logger::silent()),
        WriterVersion {
            major: 11,
            minor: 12,
        },
    );
    let options = SampledTraceOptions::default();
    let start = || tracer.start(&info, version, &options, || Ok(Box::new(Discard)));
    start().unwrap();
    check_file_system("traced", &recorder, &*fs);
    tracer.end().unwrap();

    let mut listeners = Listeners::default();
    listeners.push(Arc::new(Curious));
    let info = Arc::new(Logger::silent());
    let fs = notifying(Arc::new(recorder.clone()), clock, &listeners, &info);
    check_file_system("told", &recorder, &*fs);
}

#[test]
fn file_wrappers_forward_every_call() {
    let recorder = Recorder::default();
    let clock = World::in_memory().clock;
    let statistics = Arc::new(Statistics::new(StatsLevel::All));
    let meter = Meter::new(Some(statistics), clock.clone());

    let file = measured_writes(
        Arc::new(recorder.clone()),
        &meter,
        Histogram::SstWriteMicros,
    );
    check_writer("measured", &recorder, &*file);

    let file = counted_reads(Arc::new(recorder.clone()), &meter, ReadOf::Blob);
    check_reader("counted reads", &recorder, &*file);

    let limiter = RateLimiter::new(1 << 30, 100_000, 10, RateLimited::AllIo, false);
    assert!(limiter.limits(IoKind::Write));
    let limits = Limits {
        limiter: Arc::new(limiter),
        clock,
        priority: IoPriority::High,
        watch: None,
    };
    let file = LimitedFile::new(Arc::new(recorder.clone()), limits);
    check_writer("limited", &recorder, &file);
    let (path, mode) = (Path::new("/next"), FileMode::default());
    let successor = WritableFile::successor(&file, path, mode).unwrap().unwrap();
    recorder.assert_saw("limited", &["successor /next"]);
    check_writer("the successor of limited", &recorder, &*successor);
}
