//! The process that opened something.
//!
//! `fork` copies the memory of a process, so that the child finds open files, mappings and locks that are the
//! parent's business, and none of the threads that serve them. [`Process`] remembers where a thing was made, and
//! everything that changes files asks it first.
//!
//! The answer costs two loads. A page of the process holds a *mark*; the kernel gives a child that page filled
//! with zeros (`MADV_WIPEONFORK`), whichever call made the child, and a child that needs a mark of its own takes the
//! next number. So the mark of a process is greater than those of all processes above it. `vfork` shares the
//! page, and rightly so. Where the kernel knows no such page (before Linux 4.14) the process number is the
//! mark, at the price of a call.

#![expect(unsafe_code, reason = "the page that a child finds empty is a mapping")]

use cairn_types::{Error, Result};

use crate::sync::{AtomicU64, OnceLock, Ordering};

/// The process that made the value.
#[derive(Clone, Copy, Debug)]
pub struct Process(u64);

impl Process {
    /// The calling process.
    #[must_use]
    pub fn this() -> Process {
        Process(mark())
    }

    /// True if the calling process is the one of the value, and no child of it.
    #[inline]
    #[must_use]
    pub fn is_this(self) -> bool {
        mark() == self.0
    }

    /// Refuses a child of the process the use of `what`.
    ///
    /// # Errors
    ///
    /// `NotSupported`, which names the rule.
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

#[cold]
fn forked(what: &str) -> Error {
    Error::not_supported(format!(
        "{what} was opened by the process that this one was forked from, and only that one may use it"
    ))
}

/// The page with the mark; none where the kernel cannot empty one for a child.
static PAGE: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();

/// The last mark that this process or one above it took.
static LAST: AtomicU64 = AtomicU64::new(0);

/// The mark of the calling process; never 0.
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

/// Takes a mark for a process that has none.
#[cold]
fn first_mark(page: &AtomicU64) -> u64 {
    let next = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    match page.compare_exchange(0, next, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => next,
        // Another thread of the process took it.
        Err(mark) => mark,
    }
}

/// The number of the process.
#[cold]
fn number() -> u64 {
    u64::from(
        rustix::process::getpid()
            .as_raw_nonzero()
            .get()
            .unsigned_abs(),
    )
}

/// A page that lasts as long as the process, and is empty in its children.
#[cfg(not(miri))]
fn wiped_page() -> Option<&'static AtomicU64> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    const LEN: usize = 4096;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the address, so that no other memory is replaced.
    let start = unsafe { mmap_anonymous(std::ptr::null_mut(), LEN, access, MapFlags::PRIVATE) };
    let start = start.ok()?;
    // SAFETY: the range is the mapping just made, and nothing is in it yet.
    if unsafe { madvise(start, LEN, Advice::LinuxWipeOnFork) }.is_err() {
        // SAFETY: nothing points into the mapping.
        let _ = unsafe { munmap(start, LEN) };
        return None;
    }
    // SAFETY: the mapping is aligned, holds zeros, is never unmapped, and is used as this atomic only.
    Some(unsafe { &*start.cast::<AtomicU64>() })
}

/// Miri forks no process.
#[cfg(miri)]
fn wiped_page() -> Option<&'static AtomicU64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(code: i32) -> !;
    }

    /// Runs `act` in a child; the code it ends with. `act` takes no locks and no memory.
    fn in_child(act: impl FnOnce() -> i32) -> i32 {
        // SAFETY: the child calls `act` and ends; it touches nothing that a thread of the parent may hold.
        match unsafe { fork() } {
            // SAFETY: ends the child at once.
            0 => unsafe { _exit(act()) },
            child => {
                let mut status = 0;
                // SAFETY: the status is a place for a number.
                let waited = unsafe { waitpid(child, &raw mut status, 0) };
                assert_eq!(
                    (waited, status & 0x7f),
                    (child, 0),
                    "the child ended by itself"
                );
                status >> 8
            }
        }
    }

    #[test]
    fn a_child_and_its_child_are_other_processes() {
        let here = Process::this();
        assert!(here.is_this() && here.check(String::new).is_ok());
        let code = in_child(|| {
            let child = Process::this();
            let below = in_child(|| {
                let grandchild = Process::this();
                i32::from(here.is_this())
                    + 2 * i32::from(child.is_this())
                    + 4 * i32::from(!grandchild.is_this())
            });
            i32::from(here.is_this()) + 2 * i32::from(!child.is_this()) + 4 * below
        });
        assert_eq!(code, 0);
        assert!(here.is_this(), "the parent stays what it is");
        let error = forked("the file F").to_string();
        assert!(
            error.contains("the file F was opened by the process"),
            "{error}"
        );
    }
}
