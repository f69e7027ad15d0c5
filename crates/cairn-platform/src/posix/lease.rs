//! Leases on files that this process writes through mappings, which make the kernel delay other opens of
//! them.
//!
//! A mapped file is longer than what was appended. A reader that follows a growing log (a secondary instance
//! of RocksDB) skips the zeros after its records once and never returns there. While such a file is mapped,
//! this process therefore holds a write lease on it: another open, by any process, waits until the file has
//! been truncated to its length and is written by system calls. A lease ends with its descriptor, also if the
//! process is killed.
//!
//! A forked child inherits the descriptor, and would keep the lease when its parent has ended, without a thread that
//! gives it back: an open would wait until the kernel revokes it. A child therefore replaces the descriptors of files with
//! leases, which it cannot use anyway, by an event. Children that are created without the handlers of `fork`
//! (`vfork`) are not affected if they start another program. One case remains: the next log is opened in advance. If
//! its lease is taken after a fork, the child keeps it through the inherited descriptor.
//!
//! The kernel signals that an open is waiting. The signal is directed to the one thread of this module, in
//! which all signals are blocked, so that neither handlers nor other threads of the application notice. It is
//! a signal that is ignored by default.

#![expect(
    unsafe_code,
    reason = "leases and waiting for signals have no safe binding"
)]

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::sync::{AtomicU32, Condvar, Mutex, OnceLock, Ordering, Weak};

unsafe extern "C" {
    fn fcntl(descriptor: i32, command: i32, ...) -> i32;
    fn dup3(descriptor: i32, replaced: i32, flags: i32) -> i32;
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
    fn sigfillset(set: *mut SignalSet) -> i32;
    fn sigemptyset(set: *mut SignalSet) -> i32;
    fn sigaddset(set: *mut SignalSet, signal: i32) -> i32;
    fn pthread_sigmask(how: i32, set: *const SignalSet, old: *mut SignalSet) -> i32;
    fn sigtimedwait(set: *const SignalSet, info: *mut c_void, timeout: *const Timeout) -> i32;
}

// Constants of `fcntl(2)`.
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
const F_SETLEASE: i32 = 1024;
const F_GETLEASE: i32 = 1025;
const F_WRLCK: i32 = 1;
const F_UNLCK: i32 = 2;
const F_OWNER_TID: i32 = 0;
const O_CLOEXEC: i32 = 0o2_000_000;

const SIG_BLOCK: i32 = 0;
const SIGURG: i32 = 23;

/// A signal set of the C library, or larger.
#[repr(C, align(16))]
struct SignalSet([u64; 16]);

#[repr(C)]
struct Timeout {
    seconds: i64,
    nanos: i64,
}

/// The receiver of signals for a descriptor.
#[repr(C)]
struct Owner {
    kind: i32,
    thread: i32,
}

/// The interval in seconds at which the thread checks whether files are left.
const IDLE_SECONDS: i64 = 2;

/// The maximum time in milliseconds that an open waits. By default the kernel revokes a lease after 45
/// seconds.
const LONGEST_MILLIS: u32 = 60_000;

/// The maximum number of files with leases.
const MOST_LEASES: usize = 4096;

/// The descriptors of files with leases, each increased by one, and zeros in free places. A place is taken before the
/// lease, and freed before the descriptor is closed.
static PLACES: [AtomicU32; MOST_LEASES] = [const { AtomicU32::new(0) }; MOST_LEASES];

/// The content of the place of `descriptor`.
fn place_of(descriptor: i32) -> u32 {
    descriptor.cast_unsigned() + 1
}

/// Replaces a place that contains `from` by `to`. Returns false if there is none.
fn replace_place(from: u32, to: u32) -> bool {
    // Relaxed: the handler of the child sees the memory as of the fork; the kernel orders the changes of descriptors.
    PLACES.iter().any(|place| {
        place.load(Ordering::Relaxed) == from
            && place
                .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    })
}

/// Installs [`after_fork`]. Returns false if that is impossible.
fn handles_forks() -> bool {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    // SAFETY: the handler makes system calls only, as is required in the child of a process with threads.
    *INSTALLED.get_or_init(|| unsafe { pthread_atfork(None, None, Some(after_fork)) == 0 })
}

/// Replaces the descriptors with leases in a forked child. Their numbers stay taken: the child may still close them.
extern "C" fn after_fork() {
    let mut other = None;
    for place in &PLACES {
        let Some(descriptor) = place.load(Ordering::Relaxed).checked_sub(1) else {
            continue;
        };
        place.store(0, Ordering::Relaxed);
        let descriptor = descriptor.cast_signed();
        // SAFETY: the command has no argument. The kernel copies the descriptors before the memory: the number may be
        // that of another file, which was closed in between, and has no lease.
        if unsafe { fcntl(descriptor, F_GETLEASE) } != F_WRLCK {
            continue;
        }
        if other.is_none() {
            other = eventfd(0, EventfdFlags::CLOEXEC).ok();
        }
        if let Some(other) = &other {
            // SAFETY: it has a lease, so it is one of this module's files, which a child does not use.
            unsafe { dup3(other.as_raw_fd(), descriptor, O_CLOEXEC) };
        }
    }
}

/// A file that may have a lease.
pub(super) trait Leased: Send + Sync {
    /// True if another open of the file is waiting.
    fn is_wanted(&self) -> bool;
    /// Makes the file readable by others, and releases the lease.
    fn give_way(&self);
}

/// The files with leases, and the thread that releases them.
static HOLDERS: Holders = Holders {
    state: Mutex::new(State {
        thread: None,
        files: Vec::new(),
    }),
    started: Condvar::new(),
};

struct Holders {
    state: Mutex<State>,
    started: Condvar,
}

struct State {
    thread: Option<Thread>,
    files: Vec<Weak<dyn Leased>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Thread {
    /// Started by the process with this id, with a thread id not yet known.
    Starting(i32),
    /// Running in the process with the first id, with the second as its thread id.
    Started(i32, i32),
}

/// The id of this process. A forked child does not have its parent's thread.
fn process() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Takes a lease on `file`, which `holder` writes. Returns false if that is impossible: the file is open
/// elsewhere, the kernel or the file system does not support leases, or there are too many.
pub(super) fn take(file: &File, holder: Weak<dyn Leased>) -> bool {
    let place = place_of(file.as_raw_fd());
    if !handles_forks() || !replace_place(0, place) {
        return false;
    }
    let Some(thread) = HOLDERS.thread(holder.clone()) else {
        replace_place(place, 0);
        return false;
    };
    let owner = Owner {
        kind: F_OWNER_TID,
        thread,
    };
    let descriptor = file.as_raw_fd();
    // SAFETY: the descriptor is open; each command takes a number, except one that reads a struct.
    let taken = unsafe {
        fcntl(descriptor, F_SETOWN_EX, &raw const owner) == 0
            && fcntl(descriptor, F_SETSIG, SIGURG) == 0
            && fcntl(descriptor, F_SETLEASE, F_WRLCK) == 0
    };
    if !taken {
        HOLDERS.forget(&holder);
        replace_place(place, 0);
    }
    taken
}

/// Repeats `open`, a non-blocking call, until there is no lease on the file. The first attempt requests its
/// release. Gives up after the longest time that the kernel grants a holder.
pub(super) fn waited<T>(mut open: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut opened = open();
    for _ in 0..LONGEST_MILLIS {
        if !matches!(opened, Err(Errno::AGAIN)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
        opened = open();
    }
    opened
}

/// True if an open of `file`, which has a lease, is waiting.
pub(super) fn is_wanted(file: &File) -> bool {
    // SAFETY: the descriptor is open; the command has no argument.
    unsafe { fcntl(file.as_raw_fd(), F_GETLEASE) != F_WRLCK }
}

/// Releases the lease on `file`.
pub(super) fn give_back(file: &File) {
    // SAFETY: the descriptor is open; the command takes a number.
    unsafe {
        fcntl(file.as_raw_fd(), F_SETLEASE, F_UNLCK);
    }
    replace_place(place_of(file.as_raw_fd()), 0);
}

impl Holders {
    /// Registers `holder` and returns the id of the thread that serves it.
    fn thread(&'static self, holder: Weak<dyn Leased>) -> Option<i32> {
        let me = process();
        let mut state = self.state.lock();
        state.files.retain(|file| file.strong_count() > 0);
        state.files.push(holder);
        loop {
            match state.thread {
                Some(Thread::Started(process, thread)) if process == me => return Some(thread),
                Some(Thread::Starting(process)) if process == me => self.started.wait(&mut state),
                _ => {
                    let thread = std::thread::Builder::new().name("cairn-leases".to_owned());
                    if thread.spawn(|| self.serve()).is_err() {
                        state.files.pop();
                        return None;
                    }
                    state.thread = Some(Thread::Starting(me));
                }
            }
        }
    }

    fn forget(&self, holder: &Weak<dyn Leased>) {
        let mut state = self.state.lock();
        state.files.retain(|file| !file.ptr_eq(holder));
    }

    /// The main loop of the thread.
    fn serve(&self) {
        let mut all = SignalSet([0; 16]);
        let mut urgent = SignalSet([0; 16]);
        // SAFETY: the sets are owned and as large as the C library's.
        let blocked = unsafe {
            sigfillset(&raw mut all);
            sigemptyset(&raw mut urgent);
            sigaddset(&raw mut urgent, SIGURG);
            pthread_sigmask(SIG_BLOCK, &raw const all, null_mut()) == 0
        };
        let mut state = self.state.lock();
        state.thread = blocked.then(|| {
            let thread = rustix::thread::gettid().as_raw_nonzero().get();
            Thread::Started(process(), thread)
        });
        self.started.notify_all();
        while state.thread.is_some() {
            let files: Vec<_> = state.files.iter().filter_map(Weak::upgrade).collect();
            drop(state);
            for file in &files {
                if file.is_wanted() {
                    file.give_way();
                }
            }
            drop(files);
            let timeout = Timeout {
                seconds: IDLE_SECONDS,
                nanos: 0,
            };
            // SAFETY: the set and the timeout are only read; no signal information is requested.
            unsafe {
                sigtimedwait(&raw const urgent, null_mut(), &raw const timeout);
            }
            state = self.state.lock();
            state.files.retain(|file| file.strong_count() > 0);
            if state.files.is_empty() {
                state.thread = None;
            }
        }
    }
}
