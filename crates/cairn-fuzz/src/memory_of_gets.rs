//! Memory of awaited gets that wait for storage, in bytes per get, as counted by the allocator.
//!
//! A server has thousands of them. The buffers of the blocks, which the allocator does not count, come on top.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use cairn_db::{Db, OpenRequest, Value, open};
use cairn_options::{DbOptions, FamilyOptions, Options, ReadOptions};
use cairn_platform::fs::{FileMode, RandomAccessFile, Status, WritableFile};
use cairn_platform::io::{FileReads, ReadQueue};
use cairn_platform::{Clock, FileSystem, World, wrapper};
use cairn_types::Result;

use crate::memory_limit::live;

/// The number of gets that wait.
const GETS: u32 = 1_000;

/// The number of entries, of 100 bytes each.
const ENTRIES: u32 = 20_000;

/// Bound on the memory of a waiting get, with its boxed future, in bytes.
const WAITING: usize = 1_500;

/// The time for which stalled reads wait.
const STALL_NANOS: u64 = 3_600_000_000_000;

/// A file system whose queued reads wait while it is stalled.
struct Stalling {
    fs: Arc<dyn FileSystem>,
    clock: Arc<dyn Clock>,
    stalled: Arc<AtomicBool>,
}

struct StallingFile {
    file: Arc<dyn RandomAccessFile>,
    clock: Arc<dyn Clock>,
    stalled: Arc<AtomicBool>,
}

impl wrapper::FileSystemWrapper for Stalling {
    fn target(&self) -> &dyn FileSystem {
        &*self.fs
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        Ok(Arc::new(StallingFile {
            file: self.fs.open(path, mode)?,
            clock: self.clock.clone(),
            stalled: self.stalled.clone(),
        }))
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.fs.create(path, mode)
    }

    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.fs.open_append(path, mode)
    }

    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.fs.open_overwrite(path, mode)
    }

    fn status(&self, path: &Path) -> Result<Status> {
        self.fs.status(path)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.fs.status_each(dir, names)
    }
}

impl wrapper::RandomAccessFileWrapper for StallingFile {
    fn target(&self) -> &dyn RandomAccessFile {
        &*self.file
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.file.read_at(offset, buf)
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.file.read_up_to_end(offset, buf)
    }

    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        if self.stalled.load(Ordering::Relaxed) {
            let until = self.clock.monotonic_nanos().saturating_add(STALL_NANOS);
            queue.wait_until(&self.clock, until);
        }
        self.file.start_reads(reads, queue);
    }

    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.file.finish_reads(reads, queue);
    }
}

fn opened(path: &Path, stalled: &Arc<AtomicBool>) -> Db {
    let options = DbOptions {
        create_if_missing: true,
        ..DbOptions::default()
    };
    let text = "compression=kNoCompression;block_based_table_factory={no_block_cache=true}";
    let family = FamilyOptions::from_text(text).expect("it is valid");
    let mut world = World::posix();
    world.fs = Arc::new(Stalling {
        fs: world.fs.clone(),
        clock: world.clock.clone(),
        stalled: stalled.clone(),
    });
    open(&OpenRequest {
        path,
        options: &options,
        families: &[],
        others: Some(&family),
        read_only: false,
        world,
    })
    .expect("it opens")
}

type Get<'a> = Pin<Box<dyn Future<Output = Result<Option<Value>>> + Send + 'a>>;

#[test]
fn the_memory_of_a_waiting_get_is_bounded() {
    let dir = tempfile::tempdir().expect("a directory");
    let stalled = Arc::new(AtomicBool::new(false));
    let db = opened(&dir.path().join("db"), &stalled);
    for n in 0..ENTRIES {
        db.put(&n.to_be_bytes(), &[n as u8; 100])
            .expect("it writes");
    }
    db.flush().expect("it flushes");
    let get = |n: u32| db.get((n * (ENTRIES / GETS)).to_be_bytes().as_slice());
    // Opens the table and builds the key words of its index.
    for n in 0..3 {
        assert!(get(n).expect("it reads").is_some());
    }
    stalled.store(true, Ordering::Relaxed);
    let keys: Vec<_> = (0..GETS)
        .map(|n| (n * (ENTRIES / GETS)).to_be_bytes())
        .collect();
    let options = ReadOptions::default();
    let mut gets: Vec<Get<'_>> = Vec::with_capacity(keys.len());
    let mut context = Context::from_waker(Waker::noop());
    let before = live();
    for key in &keys {
        let mut get: Get<'_> = Box::pin(db.default_family().get_async(key, &options));
        assert!(get.as_mut().poll(&mut context).is_pending());
        gets.push(get);
    }
    let each = usize::try_from(live() - before).expect("gets allocate") / keys.len();
    assert!(each <= WAITING, "{each} bytes for a waiting get");
    drop(gets);
    db.close().expect("it closes");
}
