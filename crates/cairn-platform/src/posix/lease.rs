//! Leases on files that this process writes through mappings: the kernel holds back whoever opens one of them.
//!
//! A mapped file is longer than what was appended. A reader that follows a growing log (a secondary instance of RocksDB)
//! goes past zeros behind its records once and never looks there again. So while such a file is mapped
//! this process holds a write lease on it: another open of the file, by any process, waits until the holder has
//! cut the file to its length and gone on by calls. A lease ends with its descriptor, also where the process is killed.
//!
//! The kernel says by a signal that an open waits. It goes to the one thread of this module, in which all signals are
//! blocked: neither the handlers of the program nor its threads meet it. The signal is one that is ignored by default.

#![expect(
    unsafe_code,
    reason = "leases and waiting for a signal have no safe face"
)]

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::time::Duration;

use rustix::io::Errno;

use crate::sync::{Condvar, Mutex, Weak};

unsafe extern "C" {
    fn fcntl(descriptor: i32, command: i32, ...) -> i32;
    fn sigfillset(set: *mut SignalSet) -> i32;
    fn sigemptyset(set: *mut SignalSet) -> i32;
    fn sigaddset(set: *mut SignalSet, signal: i32) -> i32;
    fn pthread_sigmask(how: i32, set: *const SignalSet, old: *mut SignalSet) -> i32;
    fn sigtimedwait(set: *const SignalSet, info: *mut c_void, timeout: *const Timeout) -> i32;
}

// Commands and values of `fcntl(2)`.
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
const F_SETLEASE: i32 = 1024;
const F_GETLEASE: i32 = 1025;
const F_WRLCK: i32 = 1;
const F_UNLCK: i32 = 2;
const F_OWNER_TID: i32 = 0;

const SIG_BLOCK: i32 = 0;
const SIGURG: i32 = 23;

/// A set of signals of the C library; none is larger.
#[repr(C, align(16))]
struct SignalSet([u64; 16]);

#[repr(C)]
struct Timeout {
    seconds: i64,
    nanos: i64,
}

/// Who receives signals for a descriptor.
#[repr(C)]
struct Owner {
    kind: i32,
    thread: i32,
}

/// For how many seconds the thread waits before it looks whether any file is left.
const PATIENCE: i64 = 2;

/// For how many milliseconds an open waits at most; the kernel takes a lease away after 45 seconds unless it is told otherwise.
const LONGEST_MILLIS: u32 = 60_000;

/// A file that may have a lease.
pub(super) trait Leased: Send + Sync {
    /// True if another open of the file waits.
    fn is_wanted(&self) -> bool;
    /// Makes the file fit to be read by others, and gives the lease back.
    fn give_way(&self);
}

/// The files with leases, and the thread that gives them back.
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
    /// Of the process with this number; it is not known which it is yet.
    Starting(i32),
    /// Of this process, and its own number.
    Started(i32, i32),
}

/// The number of this process: in a forked child there is no thread of the parent.
fn process() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Takes a lease on `file`, which `holder` writes. `false` if there is none to be had: the file is open elsewhere, or the
/// kernel or the file system has no leases.
pub(super) fn take(file: &File, holder: Weak<dyn Leased>) -> bool {
    let Some(thread) = HOLDERS.thread(holder.clone()) else {
        return false;
    };
    let owner = Owner {
        kind: F_OWNER_TID,
        thread,
    };
    let descriptor = file.as_raw_fd();
    // SAFETY: the descriptor is open; the commands take a number each, and one a structure that they read.
    let taken = unsafe {
        fcntl(descriptor, F_SETOWN_EX, &raw const owner) == 0
            && fcntl(descriptor, F_SETSIG, SIGURG) == 0
            && fcntl(descriptor, F_SETLEASE, F_WRLCK) == 0
    };
    if !taken {
        HOLDERS.forget(&holder);
    }
    taken
}

/// Carries out `open`, which does not wait, until nobody has a lease on the file: the first attempt asks for it back.
/// No longer than the kernel lets anybody keep one that is asked for.
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

/// True if an open of `file`, on which a lease was taken, waits.
pub(super) fn is_wanted(file: &File) -> bool {
    // SAFETY: the descriptor is open; the command takes nothing.
    unsafe { fcntl(file.as_raw_fd(), F_GETLEASE) != F_WRLCK }
}

/// Gives the lease on `file` back.
pub(super) fn give_back(file: &File) {
    // SAFETY: the descriptor is open; the command takes a number.
    unsafe {
        fcntl(file.as_raw_fd(), F_SETLEASE, F_UNLCK);
    }
}

impl Holders {
    /// Registers `holder`, and returns the thread that serves it.
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

    /// The life of the thread.
    fn serve(&self) {
        let mut all = SignalSet([0; 16]);
        let mut urgent = SignalSet([0; 16]);
        // SAFETY: the sets are memory of ours, as large as the C library's.
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
                seconds: PATIENCE,
                nanos: 0,
            };
            // SAFETY: the set and the time are read; nothing is written, for no information is asked for.
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
