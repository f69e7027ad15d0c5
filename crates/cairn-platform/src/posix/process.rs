//! Detection of forked children.
//!
//! `fork` copies the memory of a process: the child inherits open files, mappings and locks that belong to
//! the parent, but none of the threads that serve them. A [`Process`] value records the process in which a
//! resource was created, and is checked before every operation that changes files.
//!
//! The check costs two loads. The process has a page with a *mark*. The kernel clears that page in a child
//! (`MADV_WIPEONFORK`), however it was forked, and a child without a mark takes the next number. The mark of
//! a process is thus greater than those of all its ancestors. `vfork` shares the page, as it should. On
//! kernels without such pages (before Linux 4.14) the mark is the process id, at the cost of a system call.

#![expect(unsafe_code, reason = "the page that is wiped on fork is a mapping")]

use cairn_types::{Error, Result};

use crate::sync::{AtomicU64, OnceLock, Ordering};

/// The process that created this value.
#[derive(Clone, Copy, Debug)]
pub struct Process(u64);

impl Process {
    /// The calling process.
    #[must_use]
    pub fn this() -> Process {
        Process(mark())
    }

    /// True if the calling process created the value; false in a forked child.
    #[inline]
    #[must_use]
    pub fn is_this(self) -> bool {
        mark() == self.0
    }

    /// Fails if the calling process is a forked child. `what` is named in the error.
    ///
    /// # Errors
    ///
    /// `NotSupported`, with the rule.
    #[inline]
    pub fn check(self, what: impl FnOnce() -> String) -> Result<()> {
        match self.is_this() {
            true => Ok(()),
            false => Err(forked(&what())),
        }
    }
}

impl Default for Process {
    fn default() -> Process {
        Process::this()
    }
}

/// A value of which every process has its own: a forked child creates another, because the threads and locks of the
/// first belong to its parent.
pub(crate) struct PerProcess<T: 'static> {
    create: fn() -> T,
    first: OnceLock<Box<OfProcess<T>>>,
}

struct OfProcess<T> {
    process: Process,
    value: T,
    /// That of a child forked from this process.
    of_child: OnceLock<Box<OfProcess<T>>>,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new(create: fn() -> T) -> PerProcess<T> {
        PerProcess {
            create,
            first: OnceLock::new(),
        }
    }

    /// The value of the calling process, which is created by the first call.
    pub(crate) fn get(&'static self) -> &'static T {
        let create = || {
            Box::new(OfProcess {
                process: Process::this(),
                value: (self.create)(),
                of_child: OnceLock::new(),
            })
        };
        let mut own = self.first.get_or_init(create);
        // Nothing of an ancestor is used but this list.
        while !own.process.is_this() {
            own = own.of_child.get_or_init(create);
        }
        &own.value
    }
}

#[cold]
fn forked(what: &str) -> Error {
    Error::not_supported(format!(
        "{what} was opened by the parent of this forked process and can only be used by the parent"
    ))
}

/// The page with the mark; `None` if the kernel cannot wipe one in a child.
static PAGE: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();

/// The last mark taken by this process or an ancestor.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The mark of the calling process. Never 0.
#[inline]
fn mark() -> u64 {
    match PAGE.get() {
        Some(Some(page)) => match page.load(Ordering::Relaxed) {
            0 => first_mark(page),
            mark => mark,
        },
        Some(None) => number(),
        None => make_page(),
    }
}

#[cold]
fn make_page() -> u64 {
    match PAGE.get_or_init(wiped_page) {
        Some(page) => first_mark(page),
        None => number(),
    }
}

/// Takes a mark for the calling process, which has none.
#[cold]
fn first_mark(page: &AtomicU64) -> u64 {
    let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    match page.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => next,
        // Another thread of the process took it first.
        Err(mark) => mark,
    }
}

/// The process id.
#[cold]
fn number() -> u64 {
    u64::from(
        rustix::process::getpid()
            .as_raw_nonzero()
            .get()
            .unsigned_abs(),
    )
}

/// Maps a page that is never unmapped, and is wiped in children.
#[cfg(not(miri))]
fn wiped_page() -> Option<&'static AtomicU64> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    const LEN: usize = 4096;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the address, so no other mapping is replaced.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), LEN, access, MapFlags::PRIVATE) };
    let start = start.ok()?;
    // SAFETY: the range is the new mapping, which is empty.
    if unsafe { madvise(start, LEN, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: no pointer into the mapping exists.
        let _ = unsafe { munmap(start, LEN) };
        return None;
    }
    // SAFETY: the mapping is aligned, zeroed, never unmapped, and only used as this atomic.
    Some(unsafe { &*start.cast::<AtomicU64>() })
}

/// Miri does not support fork.
#[cfg(miri)]
fn wiped_page() -> Option<&'static AtomicU64> {
    None
}

#[cfg(test)]
mod tests {
    use super::super::fork::in_child;
    use super::*;

    #[test]
    fn forked_children_are_other_processes() {
        let here = Process::this();
        assert!(here.is_this() && here.check(String::new).is_ok());
        let act = || {
            let child = Process::this();
            let below = || {
                let grandchild = Process::this();
                i32::from(here.is_this())
                    + 2 * i32::from(child.is_this())
                    + 4 * i32::from(!grandchild.is_this())
            };
            let below = in_child(below, || ());
            i32::from(here.is_this()) + 2 * i32::from(!child.is_this()) + 4 * below
        };
        assert_eq!(in_child(act, || ()), 0);
        assert!(here.is_this(), "the parent keeps its identity");
        let error = forked("the file F").to_string();
        assert!(
            error.contains("the file F was opened by the parent"),
            "{error}"
        );
    }
}
