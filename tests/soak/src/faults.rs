//! A file system that injects faults.
//!
//! Calls go to the operating system. While faults are enabled, each call of a kind selected by the mode
//! fails with the mode's probability and has no effect.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use cairn::world::{
    FileMode, FileReads, FileSystem, PosixFileSystem, RandomAccessFile, ReadQueue, Status, Veil,
    WritableFile, read_up_to_end, wrapper,
};
use cairn_types::{Error, Result};

/// A fault mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// The name in messages.
    pub name: &'static str,
    /// One call in this many fails.
    one_in: u64,
    /// `EIO` or `ENOSPC`.
    os_error: i32,
    /// True if writing calls fail: append, create, rename, link.
    writes: bool,
    /// True if syncs of files and directories fail.
    syncs: bool,
    /// True if reads and opens fail.
    reads: bool,
}

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

/// The modes, used by the cycles in turn. The first has no faults.
pub const MODES: [Mode; 5] = [
    Mode {
        name: "none",
        one_in: 0,
        os_error: 0,
        writes: false,
        syncs: false,
        reads: false,
    },
    Mode {
        name: "failing writes",
        one_in: 50,
        os_error: EIO,
        writes: true,
        syncs: true,
        reads: false,
    },
    Mode {
        name: "full device",
        one_in: 1,
        os_error: ENOSPC,
        writes: true,
        syncs: false,
        reads: false,
    },
    Mode {
        name: "failing reads",
        one_in: 200,
        os_error: EIO,
        writes: false,
        syncs: false,
        reads: true,
    },
    Mode {
        name: "failing calls of all kinds",
        one_in: 100,
        os_error: EIO,
        writes: true,
        syncs: true,
        reads: true,
    },
];

/// State shared by all files of a [`FaultyFileSystem`].
#[derive(Default)]
pub struct Faults {
    /// Index into [`MODES`].
    mode: AtomicUsize,
    /// Number of calls while faults are enabled, which is hashed to decide.
    calls: AtomicU64,
    /// Number of failed calls.
    failed: AtomicU64,
}

#[derive(Clone, Copy)]
enum Call {
    Write,
    Sync,
    Read,
}

impl Faults {
    /// Enables the faults of `MODES[mode]`; 0 disables faults.
    pub fn set(&self, mode: usize) {
        self.mode.store(mode, Ordering::SeqCst);
    }

    /// Returns the number of failed calls.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    fn check(&self, call: Call, doing: &str, path: &Path) -> Result<()> {
        let mode = MODES[self.mode.load(Ordering::SeqCst)];
        let concerned = match call {
            Call::Write => mode.writes,
            Call::Sync => mode.syncs,
            Call::Read => mode.reads,
        };
        if !concerned {
            return Ok(());
        }
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        if !mix(number).is_multiple_of(mode.one_in) {
            return Ok(());
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        let error = io::Error::from_raw_os_error(mode.os_error);
        Err(Error::io(doing, path, error))
    }
}

/// A pseudo-random permutation of 64 bits.
pub fn mix(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The operating system's file system with faults.
pub struct FaultyFileSystem {
    inner: PosixFileSystem,
    faults: Arc<Faults>,
}

impl FaultyFileSystem {
    /// Creates a file system whose calls fail as `faults` decides.
    pub fn new(faults: Arc<Faults>) -> FaultyFileSystem {
        FaultyFileSystem {
            inner: PosixFileSystem,
            faults,
        }
    }

    fn writable(&self, file: Arc<dyn WritableFile>) -> Arc<dyn WritableFile> {
        Arc::new(FaultyWritableFile {
            inner: file,
            faults: Arc::clone(&self.faults),
        })
    }
}

impl wrapper::FileSystemWrapper for FaultyFileSystem {
    fn target(&self) -> &dyn FileSystem {
        &self.inner
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        self.faults.check(Call::Read, "open", path)?;
        Ok(Arc::new(FaultyReadFile {
            inner: self.inner.open(path, mode)?,
            faults: Arc::clone(&self.faults),
        }))
    }
    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.faults.check(Call::Write, "create", path)?;
        Ok(self.writable(self.inner.create(path, mode)?))
    }
    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.faults.check(Call::Write, "open", path)?;
        Ok(self.writable(self.inner.open_append(path, mode)?))
    }
    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.faults.check(Call::Write, "open", path)?;
        Ok(self.writable(self.inner.open_overwrite(path, mode)?))
    }
    fn status(&self, path: &Path) -> Result<Status> {
        self.faults.check(Call::Read, "look at", path)?;
        self.inner.status(path)
    }
    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.inner.status_each(dir, names)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.faults.check(Call::Sync, "sync", dir)?;
        self.inner.sync_dir(dir)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.faults.check(Call::Read, "list", dir)?;
        self.inner.list(dir)
    }
    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.faults.check(Call::Write, "create", dir)?;
        self.inner.create_dir_all(dir)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.faults.check(Call::Write, "rename", from)?;
        self.inner.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        self.faults.check(Call::Write, "link", from)?;
        self.inner.link(from, to)
    }
}

struct FaultyReadFile {
    inner: Arc<dyn RandomAccessFile>,
    faults: Arc<Faults>,
}

impl wrapper::RandomAccessFileWrapper for FaultyReadFile {
    fn target(&self) -> &dyn RandomAccessFile {
        &*self.inner
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.faults.check(Call::Read, "read", self.inner.path())?;
        self.inner.read_at(offset, buf)
    }
    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_up_to_end(self, offset, buf)
    }
    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        let checked = self.faults.check(Call::Read, "read", self.inner.path());
        match &checked {
            Ok(()) => self.inner.start_reads(reads, queue),
            Err(error) => reads.fail_all(error),
        }
        reads.note(u64::from(checked.is_ok()));
    }
    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        if reads.take_note() == 1 {
            self.inner.finish_reads(reads, queue);
        }
    }
}

struct FaultyWritableFile {
    inner: Arc<dyn WritableFile>,
    faults: Arc<Faults>,
}

impl wrapper::WritableFileWrapper for FaultyWritableFile {
    fn target(&self) -> &dyn WritableFile {
        &*self.inner
    }

    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        self.faults
            .check(Call::Write, "append", self.inner.path())?;
        self.inner.append_veiled(data, veils)
    }
    fn sync(&self, full: bool) -> Result<()> {
        self.faults.check(Call::Sync, "sync", self.inner.path())?;
        self.inner.sync(full)
    }
    fn truncate(&self, len: u64) -> Result<()> {
        self.faults
            .check(Call::Write, "truncate", self.inner.path())?;
        self.inner.truncate(len)
    }
    fn successor(&self, path: &Path, mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        self.faults.check(Call::Write, "create", path)?;
        let successor = self.inner.successor(path, mode)?;
        Ok(successor.map(|inner| {
            let faults = Arc::clone(&self.faults);
            Arc::new(FaultyWritableFile { inner, faults }) as Arc<dyn WritableFile>
        }))
    }
}
