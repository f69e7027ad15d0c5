//! The lock of a database directory, which excludes other writers in this and other processes, of Cairn and
//! RocksDB.
//!
//! Other processes are excluded by a POSIX record lock (`fcntl`), as in RocksDB. Such a lock belongs to the
//! process rather than to a descriptor, which has two consequences. A second request in the same process
//! succeeds; and closing *any* descriptor of the file, even one that never requested the lock, releases it.
//! The process therefore keeps a table of its lock files by device and inode, which is independent of path
//! aliases, and consults it *before* opening a file. The table also has the directory and name of each, in
//! case a file is removed while locked and replaced by another.

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

/// Device and inode, which identify a file under any path.
type Identity = (u64, u64);

/// A name in a directory.
type Place = (Identity, OsString);

/// The path and process of a held lock.
struct Held {
    place: Place,
    process: Process,
}

/// The lock files held by this process, with their paths at the time. Locked while a lock is acquired or
/// released, so that no other thread can interleave between the check and the open.
static HELD: Mutex<BTreeMap<Identity, Held>> = Mutex::new(BTreeMap::new());

/// The maximum number of attempts if the lock file is concurrently replaced.
const ATTEMPTS: usize = 16;

/// A lock held by this process.
struct PosixLock {
    /// Taken out by `drop`, to control when it is closed.
    file: Option<File>,
    identity: Identity,
    process: Process,
}

impl FileLock for PosixLock {}

impl Drop for PosixLock {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // The lock is the parent's. Closing the child's descriptor would release a lock that the child
            // has acquired meanwhile through another one.
            let _stays_open = self.file.take().map(IntoRawFd::into_raw_fd);
            return;
        }
        let mut held = HELD.lock();
        // Closing releases the lock. Only afterwards may another thread of this process open the file.
        drop(self.file.take());
        held.remove(&self.identity);
    }
}

/// Acquires the lock at `path`, creating the file if needed.
pub(super) fn lock(path: &Path) -> Result<Box<dyn FileLock>> {
    let process = Process::this();
    let mut held = HELD.lock();
    // A child does not inherit its parent's locks; the kernel tracks those.
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
        let found = retry_on_eintr(|| fstat(&file)).map_err(|errno| failed(path, errno))?;
        let identity = identity(&found);
        if held.contains_key(&identity) {
            // The file at `path` was replaced between the check and the open. Closing this descriptor would
            // release the other holder's lock, so it stays open.
            let _stays_open = file.into_raw_fd();
            return Err(held_here(path));
        }
        retry_on_eintr(|| fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive))
            .map_err(|errno| refused(path, errno))?;
        // The file may have been removed or replaced before it was locked. The lock would then exclude no
        // one.
        match retry_on_eintr(|| stat(path)) {
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
        "lock {}: the file is repeatedly replaced",
        path.display()
    )))
}

/// Rejects a file that is a lock held by this process: closing it after reading would release the lock.
pub(super) fn refuse_held(found: &Stat, path: &Path) -> Result<()> {
    let held = HELD.lock();
    let held = held.get(&identity(found));
    match held.is_some_and(|held| held.process.is_this()) {
        true => Err(Error::io_text(format!(
            "open {}: the file is a lock held by this process",
            path.display()
        ))),
        false => Ok(()),
    }
}

/// Opens or creates the lock file. Returns `None` if it was concurrently created or removed.
fn open(path: &Path, held: &BTreeMap<Identity, Held>) -> Result<Option<File>> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mode = Mode::from_raw_mode(0o644);
    let opened = match retry_on_eintr(|| stat(path)) {
        Ok(found) => {
            if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
                return Err(Error::io_text(format!(
                    "lock {}: not a regular file",
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
            Error::io_text(format!("lock {}: dangling symbolic link", path.display())),
        ),
        Err(Errno::EXIST) => Ok(None),
        Err(Errno::NOENT) if rustix::fs::stat(path.parent().unwrap_or(path)).is_ok() => Ok(None),
        Err(errno) => Err(failed(path, errno)),
    }
}

/// The directory of `path`, as an identity, and the name in it.
fn place(path: &Path) -> Result<Place> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = retry_on_eintr(|| stat(parent)).map_err(|errno| failed(path, errno))?;
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

/// Returns the error of the call that locks the open file at `path`, in which a missing permission means a held lock.
fn refused(path: &Path, errno: Errno) -> Error {
    match errno {
        Errno::AGAIN | Errno::ACCESS => Error::io(
            "lock",
            path,
            std::io::Error::new(std::io::ErrorKind::WouldBlock, "another process holds it"),
        ),
        errno => failed(path, errno),
    }
}

fn failed(path: &Path, errno: Errno) -> Error {
    Error::io("lock", path, errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a lock file that may not be opened was reported as held by another process.
    #[test]
    fn a_missing_permission_is_not_a_held_lock() {
        let text = |error: Error| error.to_string();
        let path = Path::new("/db/LOCK");
        assert!(text(refused(path, Errno::ACCESS)).contains("another process holds it"));
        assert!(text(failed(path, Errno::ACCESS)).contains("Permission denied"));
    }
}
