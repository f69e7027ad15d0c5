//! The lock of a database directory: one writer, of this process or another, of Cairn or RocksDB.
//!
//! Other processes are kept out by a POSIX record lock (`fcntl`), the kind that RocksDB takes.
//! Such a lock belongs to the process, not to a descriptor, with two consequences. A second
//! request of the same process succeeds; and closing *any* descriptor of the file, also one that
//! never asked for the lock, gives it back. So this process keeps a table of the lock files that
//! it holds, by device and inode, which no alias of the path can deceive, and looks there *before*
//! it opens a file. The table also has the directory and name of each, for the case that the file
//! is removed while its lock is held and another one takes its place.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::IntoRawFd;
use std::path::Path;

use cairn_types::{Error, Result};
use rustix::fs::{
    CWD, FileType, FlockOperation, Mode, OFlags, Stat, fcntl_lock, fstat, openat, stat,
};
use rustix::io::Errno;

use super::eintr::retry_on_eintr;
use super::process::Process;
use crate::fs::FileLock;
use crate::sync::Mutex;

/// Device and inode: which file it is, by whatever path.
type Identity = (u64, u64);

/// A name in a directory.
type Place = (Identity, OsString);

/// Where a lock file was when it was locked, and which process did that.
struct Held {
    place: Place,
    process: Process,
}

/// The lock files that this process holds, and where each was when it was locked. Locked while a lock is taken or given back, so that
/// no two threads are between looking and opening.
static HELD: Mutex<BTreeMap<Identity, Held>> = Mutex::new(BTreeMap::new());

/// How often a lock file that comes and goes is looked at again.
const ATTEMPTS: usize = 16;

/// A lock that this process holds.
struct PosixLock {
    /// Taken out when dropped, so that it is closed at the right moment.
    file: Option<File>,
    identity: Identity,
    process: Process,
}

impl FileLock for PosixLock {}

impl Drop for PosixLock {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // The lock is the parent's. Closing the child's descriptor would give back a lock that the child has
            // taken meanwhile by another one.
            let _stays_open = self.file.take().map(IntoRawFd::into_raw_fd);
            return;
        }
        let mut held = HELD.lock();
        // Closing gives the lock back; only then may another thread of this process open the file.
        drop(self.file.take());
        held.remove(&self.identity);
    }
}

/// Takes the lock at `path`, creating the file if needed.
pub(super) fn lock(path: &Path) -> Result<Box<dyn FileLock>> {
    let process = Process::this();
    let mut held = HELD.lock();
    // A child has no lock of its parent's; the kernel knows of these.
    held.retain(|_, taken| taken.process.is_this());
    let place = place(path)?;
    if held.values().any(|taken| taken.place == place) {
        return Err(held_here(path));
    }
    for _ in 0..ATTEMPTS {
        let file = match open(path, &held)? {
            Some(file) => file,
            None => continue,
        };
        let found = fstat(&file).map_err(|errno| failed(path, errno))?;
        let identity = identity(&found);
        if held.contains_key(&identity) {
            // The file at `path` was exchanged between looking and opening. Closing this
            // descriptor would give the other holder's lock back, so it stays open.
            let _stays_open = file.into_raw_fd();
            return Err(held_here(path));
        }
        retry_on_eintr(|| fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive))
            .map_err(|errno| failed(path, errno))?;
        // Somebody may have removed or replaced the file before it was locked; then this lock
        // keeps nobody out.
        match stat(path) {
            Ok(now) if self::identity(&now) == identity => {}
            _ => continue,
        }
        held.insert(identity, Held { place, process });
        return Ok(Box::new(PosixLock {
            file: Some(file),
            identity,
            process,
        }));
    }
    Err(Error::io_text(format!(
        "lock {}: the file keeps being replaced",
        path.display()
    )))
}

/// Refuses a file that is a lock held by this process: reading it would mean closing it.
pub(super) fn refuse_held(found: &Stat, path: &Path) -> Result<()> {
    let held = HELD.lock();
    let held = held.get(&identity(found));
    match held.is_some_and(|held| held.process.is_this()) {
        true => Err(Error::io_text(format!(
            "open {}: it is a lock that this process holds",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// Opens the lock file, or creates it; `None` if it appeared or vanished meanwhile.
fn open(path: &Path, held: &BTreeMap<Identity, Held>) -> Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mode = Mode::from_raw_mode(0o644);
    let opened = match stat(path) {
        Ok(found) => {
            if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
                return Err(Error::io_text(format!(
                    "lock {}: it is no regular file",
                    path.display()
                )));
            }
            if held.contains_key(&identity(&found)) {
                return Err(held_here(path));
            }
            retry_on_eintr(|| openat(CWD, path, flags, mode))
        }
        Err(Errno::NOENT) => {
            let create = flags | OFlags::CREATE | OFlags::EXCL;
            retry_on_eintr(|| openat(CWD, path, create, mode))
        }
        Err(errno) => Err(errno),
    };
    match opened {
        Ok(descriptor) => Ok(Some(File::from(descriptor))),
        Err(Errno::EXIST) if rustix::fs::lstat(path).is_ok() && stat(path).is_err() => Err(
            Error::io_text(format!("lock {}: the link leads nowhere", path.display())),
        ),
        Err(Errno::EXIST) => Ok(None),
        Err(Errno::NOENT) if rustix::fs::stat(path.parent().unwrap_or(path)).is_ok() => Ok(None),
        Err(errno) => Err(failed(path, errno)),
    }
}

/// The directory of `path`, whatever it is called, and the name in it.
fn place(path: &Path) -> Result<Place> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = stat(parent).map_err(|errno| failed(path, errno))?;
    let name = path.file_name().unwrap_or_default().to_owned();
    Ok((identity(&directory), name))
}

fn identity(found: &Stat) -> Identity {
    #[expect(
        clippy::unnecessary_cast,
        reason = "the fields are narrower on some machines"
    )]
    (found.st_dev as u64, found.st_ino as u64)
}

fn held_here(path: &Path) -> Error {
    Error::io_text(format!(
        "lock {}: this process already holds it",
        path.display()
    ))
}

fn failed(path: &Path, errno: Errno) -> Error {
    match errno {
        Errno::AGAIN | Errno::ACCESS => Error::io(
            "lock",
            path,
            std::io::Error::new(std::io::ErrorKind::WouldBlock, "another process holds it"),
        ),
        errno => Error::io("lock", path, errno.into()),
    }
}
