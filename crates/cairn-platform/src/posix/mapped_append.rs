//! Files that are appended to by stores into mapped windows.
//!
//! The file is longer than what was appended: it includes the rest of the current window and the following
//! ones, which are zero until written. `close` truncates it. Windows are contiguous. When the writer enters a
//! window, a background thread prepares the next [`AHEAD`] ones; a writer that is faster prepares its window
//! itself. Another thread starts writeback of full windows, if requested or once the file was synced, so that
//! the sync of a long log has little left to write. If a window cannot be prepared (the device is full, or
//! the file system refuses), the file is written by system calls from then on, which report the error.
//!
//! A store into a page that was written back causes a page fault, which would kill the process if the file
//! system has failed meanwhile. So the first append after a sync or a pause is a system call, which reports
//! errors (the kernel itself writes back only old pages, or when there are too many), and further pages are
//! touched by a call before they are stored into. A log that is synced after every record is thus written by
//! system calls, into allocated blocks: a sync then writes one block and no metadata.
//!
//! Reserving space may take long: the file system waits for the device to read its free-space maps, up to a
//! second on a busy device, and the file cannot be extended meanwhile. If a file that is expected to become
//! long fills fast, a background thread therefore creates a *spare*: an unnamed file with space for the
//! successor, which becomes the next file ([`WritableFile::successor`]) or is dropped with this one.
//!
//! Other processes never see the extra length: while the file is mapped this process holds a lease on it
//! ([`super::lease`]). If another open of the file waits, or a truncation, the windows are unmapped, the file
//! is truncated to its length, and appends become system calls. The kernel waits for that as long as
//! `/proc/sys/fs/lease-break-time` allows. After a pause, which may have been longer, the writer checks the
//! length of the file.
//!
//! An append costs one uncontended lock, one reading of the coarse clock, and one copy. Preparing a page is
//! cheaper than a system call that writes half of it.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use cairn_types::{Error, Result, Veil};
use rustix::fs::{AtFlags, CWD, FallocateFlags, FsWord, OFlags, fstatfs, linkat, openat};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::aligned_buffer::{ALIGNMENT, round_down};
use super::background_worker::{SPARES, WINDOWS, WRITEBACK};
use super::eintr::retry_on_eintr;
use super::lease::{self, Leased};
use super::window::{HEAD, Window};
use super::write::{PosixWriter, reserve};
use super::{common_flags, permissions};
use crate::fs::{FileMode, MAPPED_UNIT, WritableFile};
use crate::sync::{Arc, AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, Weak};

/// The length of the first window in bytes, unless the file is expected to be long. Small, because the first
/// sync writes all of its zeros.
const MIN_WINDOW: u64 = 2 * MAPPED_UNIT;
/// The length of the windows of a long file.
const MAX_WINDOW: u64 = 512 << 10;
/// The least number of windows of a file of the expected length, unless they would be shorter than [`MIN_WINDOW`].
const WINDOWS_OF_FILE: u64 = 32;
/// The number of windows prepared ahead of the current one.
const AHEAD: usize = 2;

/// The step in which space of a long file is reserved. The file system may wait for the device, up to 150 ms
/// if background jobs keep it busy, so space is not reserved for each window separately.
const MAX_RESERVED: u64 = 8 << 20;

/// A file that has reached an eighth of its expected length within this time fills fast.
const FAST_MILLIS: i64 = 2_000;

/// The time for which pages are assumed not to have been written back by the kernel itself.
const TRUSTED_MILLIS: i64 = 200;

/// The same for pages that were touched when their window was prepared, before it was needed: the period of the kernel's
/// writeback, which by default takes pages that are dirty for six times as long.
const PREPARED_MILLIS: i64 = 5_000;

/// File systems on which stores into allocated blocks need no further allocation: they overwrite in place,
/// and report a full device at allocation.
const WRITE_IN_PLACE: [FsWord; 3] = [
    0xef53,      // ext4
    0x5846_5342, // XFS
    0x0102_1994, // tmpfs
];

/// A file that is appended to through mapped windows.
pub(super) struct MappedWriter(Arc<Windows>);

struct Windows {
    /// Length, syncs and closing; and appends once there is no window.
    plain: PosixWriter,
    /// The current window; `None` once the file is written by system calls.
    current: Mutex<Option<Current>>,
    /// The number of syncs and writebacks: with each, pages may have been written back since they were touched.
    cleanings: AtomicU64,
    /// True if full windows are written back.
    written_back: AtomicBool,
    /// The mode in which the file was created.
    mode: FileMode,
    /// The time of creation, in milliseconds.
    created_at: i64,
    /// The file that may become the successor.
    spare: Mutex<Spare>,
    /// The end of the last slow append, and its duration.
    slow: Mutex<Option<(u64, u64)>>,
    /// Locked while a window is prepared, which may take long.
    preparing: Mutex<Preparing>,
    /// Prepared windows, contiguous from the end of the current one. Locked only briefly, and after
    /// `preparing` if both are.
    ready: Mutex<VecDeque<Prepared>>,
}

/// An unnamed file for the successor.
enum Spare {
    /// Not requested.
    Unasked,
    /// Being created, or failed.
    Asked,
    /// No longer needed.
    Unwanted,
    /// Available, with space for this number of bytes.
    Ready(File, u64),
}

/// The current window.
struct Current {
    window: Window,
    /// The previous window, which may still receive the head of a piece.
    left: Option<Window>,
    /// The offset up to which pages were touched since they were last written back.
    touched: u64,
    /// The time of that, in milliseconds, and the number of cleanings of the file before it.
    touched_at: i64,
    cleanings: u64,
}

/// A piece of an append, within one unit.
struct Piece<'a> {
    /// Its offset in the file.
    at: u64,
    data: &'a [u8],
    /// The bytes stored in place of its head until the preceding piece is visible.
    veil: Option<[u8; HEAD]>,
    /// True if a piece with a veil follows, before which this one must not become visible.
    goes_on: bool,
}

impl Piece<'_> {
    #[inline]
    fn is_hidden(&self) -> bool {
        self.veil.is_some() || self.goes_on
    }
}

/// A piece that was stored.
#[derive(Clone, Copy)]
struct Stored {
    at: u64,
    /// True if its pages can be stored into without a fault.
    touched: bool,
}

/// The minimum delay of an append, in nanoseconds, to be reported as slow.
const SLOW: u64 = 20_000_000;

/// Nanoseconds since an arbitrary point in time.
fn nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

/// A window whose pages were touched when it was prepared.
struct Prepared {
    window: Window,
    /// The time, and the number of cleanings of the file, before it was prepared.
    at: i64,
    cleanings: u64,
}

impl Prepared {
    fn begins_at(&self, offset: u64) -> bool {
        self.window.begins_at(offset)
    }

    fn end(&self) -> u64 {
        self.window.end()
    }

    fn len(&self) -> usize {
        self.window.len()
    }
}

impl Current {
    fn new(prepared: Prepared) -> Current {
        let Prepared {
            window,
            at,
            cleanings,
        } = prepared;
        let now = coarse_millis();
        Current {
            touched: window.end(),
            touched_at: match now - at <= PREPARED_MILLIS {
                true => now,
                false => at,
            },
            cleanings,
            window,
            left: None,
        }
    }

    /// Touches the pages of `len` bytes at `offset` if needed. Returns true if they can be stored into
    /// without a fault, which is not the case after a sync or a pause.
    #[inline]
    fn touch(&mut self, offset: u64, len: usize, file: &Windows) -> Result<bool, Errno> {
        let now = coarse_millis();
        // Relaxed: a thread that appends after a sync is synchronised with its end.
        let cleanings = file.cleanings.load(Ordering::Relaxed);
        if now - self.touched_at > TRUSTED_MILLIS || cleanings != self.cleanings {
            self.cleanings = cleanings;
            self.touched = offset;
            self.touched_at = now;
            return Ok(false);
        }
        let end = offset + len as u64;
        if end > self.touched {
            self.touched = file.timed(|| self.window.touch(self.touched, end))?;
        }
        Ok(true)
    }
}

/// Milliseconds since an arbitrary point in time, with a resolution of a few milliseconds.
fn coarse_millis() -> i64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// The preparation of the following windows.
#[derive(Default)]
struct Preparing {
    /// The offset of the next window to prepare; `None` if no more are needed.
    at: Option<u64>,
}

impl MappedWriter {
    /// Creates a writer of `file`, which is empty and has reserved space for `room` bytes: through windows if
    /// the file system supports them, by system calls otherwise.
    pub(super) fn create(
        file: File,
        path: PathBuf,
        mode: FileMode,
        room: u64,
    ) -> Result<Arc<dyn WritableFile>> {
        let can = fstatfs(&file).is_ok_and(|found| WRITE_IN_PLACE.contains(&found.f_type));
        let plain = PosixWriter::new(file, path, 0, false)?;
        plain.note_allocated(room);
        if !can {
            return Ok(Arc::new(plain));
        }
        let windows = Windows {
            plain,
            current: Mutex::new(None),
            cleanings: AtomicU64::new(0),
            written_back: AtomicBool::new(mode.written_back),
            mode,
            created_at: coarse_millis(),
            spare: Mutex::new(Spare::Unasked),
            slow: Mutex::default(),
            preparing: Mutex::default(),
            ready: Mutex::default(),
        };
        let windows = Arc::new(windows);
        // Without a lease, others might read the file while it is longer than what was appended.
        let first = windows.take_lease().then(|| windows.prepare(0)).flatten();
        match first {
            None => {
                windows.give_way();
                Ok(Arc::new(MappedWriter(windows)))
            }
            Some(first) => {
                if windows.mode.expected_len > first.end() {
                    windows.preparing.lock().at = Some(first.end());
                    let file = Arc::downgrade(&windows);
                    let _asked = WINDOWS.submit(move || Windows::prepare_all(&file));
                }
                *windows.current.lock() = Some(Current::new(first));
                // An open that preceded the mapping is either waiting now or was handled.
                if windows.is_wanted() {
                    windows.give_way();
                }
                Ok(Arc::new(MappedWriter(windows)))
            }
        }
    }

    /// Appends `data` piece by piece.
    fn append_pieces(
        &self,
        current: &mut Option<Current>,
        data: &[u8],
        veils: &[Veil],
    ) -> Result<()> {
        let plain = &self.0.plain;
        let mut veils = veils.iter().peekable();
        let begin = plain.len();
        // The visible part, and the piece after it that is stored without its head.
        let mut done = 0;
        let mut hidden: Option<Stored> = None;
        let mut from = 0;
        while from < data.len() {
            let at = begin + from as u64;
            if current.as_ref().is_some_and(|now| now.window.end() <= at) {
                self.0.timed(|| self.enter(current, at));
            }
            let veil = veils.next_if(|veil| veil.at == from);
            let room = MAPPED_UNIT - at % MAPPED_UNIT;
            let room = usize::try_from(room).map_or(data.len(), |room| room.min(data.len() - from));
            let to = veil.map_or(from + room, |veil| veil.end);
            let piece = Piece {
                at,
                data: &data[from..to],
                veil: veil.map(|veil| veil.head),
                goes_on: veils.peek().is_some_and(|veil| veil.at == to),
            };
            let Some(stored) = self.0.put(current.as_mut(), &piece)? else {
                return self
                    .0
                    .go_on_by_calls(current, begin + done as u64, &data[done..]);
            };
            if let (Some(hidden), Some(now)) = (hidden.take(), current.as_mut()) {
                self.0.publish(now, hidden, &data[done..from])?;
                done = from;
                plain.note_len(at);
            }
            if piece.goes_on {
                hidden = Some(stored);
            } else {
                if let (Some(_), Some(now)) = (piece.veil, current.as_mut()) {
                    self.0.publish(now, stored, piece.data)?;
                }
                done = to;
                plain.note_len(begin + to as u64);
            }
            from = to;
        }
        Ok(())
    }

    /// Switches to the window at `offset`, where the current one ends, or to none if it cannot be prepared.
    #[cold]
    fn enter(&self, current: &mut Option<Current>, offset: u64) {
        let ready = self.0.ready.lock().pop_front();
        let entered = match ready.filter(|window| window.begins_at(offset)) {
            Some(window) => Some(window),
            None => self.0.prepare_now(offset),
        };
        let before = std::mem::replace(current, entered.map(Current::new));
        let goes_on = current.is_some();
        let done = before.as_ref().map(|before| before.window.range());
        let mut left = None;
        if let Some(before) = before {
            left = before.left;
            match current {
                Some(current) => current.left = Some(before.window),
                None => drop(before.window),
            }
        }
        let file = Arc::downgrade(&self.0);
        if goes_on && self.0.begins_spare(offset) {
            let file = file.clone();
            let _asked = SPARES.submit(move || Windows::make_spare(&file));
        }
        // Without the background threads, writers prepare their windows themselves, and the kernel decides
        // about writeback.
        let _asked = WINDOWS.submit(move || {
            // Unmapping is left to the background thread as well.
            drop(left);
            if !goes_on {
                return;
            }
            if let (Some(done), Some(file)) = (done, file.upgrade()) {
                file.write_back(done);
            }
            Windows::prepare_all(&file);
        });
    }
}

impl Leased for Windows {
    fn is_wanted(&self) -> bool {
        // In a forked child, locks may be held by threads that exist only in the parent.
        if self.plain.check_process().is_err() {
            return false;
        }
        let wanted = |file: &File| Ok(lease::is_wanted(file));
        // A closed file has no lease.
        self.current.lock().is_some() && self.plain.with_file("look at", wanted).unwrap_or(false)
    }

    fn give_way(&self) {
        if self.plain.check_process().is_err() {
            return;
        }
        let _alone = self.unmap();
        let len = self.plain.len();
        if self.plain.allocated() > len {
            // If this fails, readers see zeros, and appends, which are system calls from now on, return
            // errors.
            let _ = self.plain.truncate(len);
        }
        self.give_lease_back();
    }
}

impl Windows {
    /// Takes a lease on the file, so that other opens wait until it is as long as what was appended.
    fn take_lease(self: &Arc<Self>) -> bool {
        let holder: Weak<dyn Leased> = Arc::<Windows>::downgrade(self);
        let take = |file: &File| Ok(lease::take(file, holder));
        self.plain.with_file("lease", take).unwrap_or(false)
    }

    /// Lets others open the file, which is no longer than what was appended.
    fn give_lease_back(&self) {
        let give_back = |file: &File| {
            lease::give_back(file);
            Ok(())
        };
        // A closed file has no lease.
        let _ = self.plain.with_file("give back the lease on", give_back);
    }

    /// Notes that pages may have been written back: a store into them can fail.
    fn note_cleaning(&self) {
        self.cleanings.fetch_add(1, Ordering::Relaxed);
    }

    /// Prepares the window at `offset`.
    fn prepare(&self, offset: u64) -> Option<Prepared> {
        // At most the expected length: a short file is not extended by a long window.
        let likely = offset.max(self.mode.expected_len.next_multiple_of(MAPPED_UNIT));
        let len = likely.clamp(MIN_WINDOW, MAX_WINDOW);
        // Several windows are mapped at a time: small ones for a file that is expected to be short.
        let share = self.mode.expected_len / WINDOWS_OF_FILE;
        let len = match share {
            0 => len,
            _ => len.min(share.next_multiple_of(MAPPED_UNIT).max(MIN_WINDOW)),
        };
        if offset + len > self.plain.allocated() {
            // If this fails, preparing the window fails, or there is less space ahead.
            drop(
                self.plain
                    .allocate(offset + likely.clamp(len, MAX_RESERVED)),
            );
        }
        // Recorded first, so that the remains of a failure are truncated on close, too.
        self.plain.note_allocated(offset + len);
        let len = usize::try_from(len).expect("a window fits the memory");
        let (at, cleanings) = (coarse_millis(), self.cleanings.load(Ordering::Relaxed));
        let prepare = |file: &File| Window::prepare(file, offset, len);
        let window = self.plain.with_file("map", prepare).ok()?;
        Some(Prepared {
            window,
            at,
            cleanings,
        })
    }

    /// Prepares the window at `offset`, the writer's position, which was not ready.
    fn prepare_now(&self, offset: u64) -> Option<Prepared> {
        let mut preparing = self.preparing.lock();
        // The background thread may have prepared it in the meantime.
        let ready = std::mem::take(&mut *self.ready.lock());
        let mut ready = ready.into_iter();
        let window = ready.next().filter(|window| window.begins_at(offset));
        if window.is_some() {
            self.ready.lock().extend(ready);
            return window;
        }
        let window = self.prepare(offset);
        preparing.at = window.as_ref().map(Prepared::end);
        window
    }

    /// Prepares the next windows, if the file still exists.
    fn prepare_all(file: &Weak<Windows>) {
        while file.upgrade().is_some_and(|file| file.prepare_next()) {}
    }

    /// Prepares the next window, if one is needed. Returns true if it did.
    fn prepare_next(&self) -> bool {
        let mut preparing = self.preparing.lock();
        let Some(at) = preparing.at else {
            return false;
        };
        if self.ready.lock().len() >= AHEAD {
            return false;
        }
        let window = self.prepare(at);
        // The writer will encounter the failure again and report it.
        preparing.at = window.as_ref().map(Prepared::end);
        let prepared = window.is_some();
        self.ready.lock().extend(window);
        prepared
    }

    /// True, once, if a spare is to be created now that the file has `len` bytes.
    fn begins_spare(&self, len: u64) -> bool {
        let expected = self.mode.expected_len;
        let mut spare = self.spare.lock();
        if expected == 0 || len < expected / 8 || !matches!(*spare, Spare::Unasked) {
            return false;
        }
        *spare = Spare::Asked;
        coarse_millis() - self.created_at < FAST_MILLIS
    }

    /// Creates a spare, if the file still exists. Otherwise the next file is created when needed.
    fn make_spare(file: &Weak<Windows>) {
        let Some((dir, mode)) = file.upgrade().and_then(|file| {
            let dir = file.plain.path().parent()?.to_owned();
            Some((dir, file.mode))
        }) else {
            return;
        };
        let flags = OFlags::RDWR | OFlags::TMPFILE | common_flags(mode);
        let Ok(spare) = retry_on_eintr(|| openat(CWD, &dir, flags, permissions(mode))) else {
            return;
        };
        // A little more than this file: the next may become longer, and the excess is truncated.
        let expected = mode.expected_len;
        let wanted = (expected + expected / 16).next_multiple_of(MAX_WINDOW);
        let mut room = 0;
        while room < wanted && file.strong_count() > 0 {
            let len = MAX_RESERVED.min(wanted - room);
            if reserve(&spare, FallocateFlags::KEEP_SIZE, room, len).is_err() {
                return;
            }
            room += len;
        }
        if let Some(file) = file.upgrade() {
            let mut place = file.spare.lock();
            if matches!(*place, Spare::Asked) {
                *place = Spare::Ready(File::from(spare), room);
            }
        }
    }

    /// Links the spare to `path`.
    fn take_spare(&self, path: &Path, mode: FileMode) -> Option<(File, u64)> {
        let mut spare = self.spare.lock();
        if mode.owner_only != self.mode.owner_only || !matches!(*spare, Spare::Ready(..)) {
            return None;
        }
        let Spare::Ready(file, room) = std::mem::replace(&mut *spare, Spare::Unwanted) else {
            return None;
        };
        drop(spare);
        // The path by which a process may link an unnamed file without privileges.
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, &unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW).ok()?;
        Some((file, room))
    }

    /// Stores `piece` into the window of `current`, or writes it by a system call after a sync or a pause. A
    /// piece with a veil, or that is continued, is stored without its head. Returns `None` if there is no
    /// window because the file system does not support them or has failed.
    #[inline]
    fn put(&self, current: Option<&mut Current>, piece: &Piece<'_>) -> Result<Option<Stored>> {
        let Some(now) = current else {
            return Ok(None);
        };
        let (at, data) = (piece.at, piece.data);
        let stored = match now.touch(at, data.len(), self) {
            Ok(true) => {
                match piece.is_hidden() {
                    true => now.window.store_body(at, data),
                    false => now.window.store(at, data),
                }
                if let Some(veil) = piece.veil {
                    now.window.publish(at, &veil);
                }
                Stored { at, touched: true }
            }
            Ok(false) if !self.reaches(now.window.end()) => return Ok(None),
            Ok(false) => {
                self.timed(|| self.write(now, piece))?;
                Stored { at, touched: false }
            }
            Err(_) => return Ok(None),
        };
        Ok(Some(stored))
    }

    /// True if the file still has the length of its windows.
    #[cold]
    fn reaches(&self, end: u64) -> bool {
        let len = self
            .plain
            .with_file("look at", |file| rustix::fs::fstat(file));
        len.is_ok_and(|found| u64::try_from(found.st_size).is_ok_and(|len| len >= end))
    }

    /// Writes `piece` by system calls, with the effect of [`Windows::put`].
    #[cold]
    fn write(&self, now: &mut Current, piece: &Piece<'_>) -> Result<()> {
        let (at, data) = (piece.at, piece.data);
        // Bytes within one page are written atomically with respect to the end of the process.
        let pages = round_down(at)..at + data.len() as u64;
        if !piece.is_hidden() && pages.end - pages.start <= ALIGNMENT as u64 {
            return self.plain.write_at(at, data);
        }
        let head = data.len().min(HEAD);
        self.plain.write_at(at + head as u64, &data[head..])?;
        match piece.veil {
            Some(veil) => self.plain.write_at(at, &veil),
            None if piece.goes_on => Ok(()),
            None => self.publish(now, Stored { at, touched: false }, data),
        }
    }

    /// Stores the first bytes of the piece `stored`, which are those of `data`.
    fn publish(&self, now: &mut Current, stored: Stored, data: &[u8]) -> Result<()> {
        let Stored { at, touched } = stored;
        let is_here = now.window.holds(at);
        let window = match &mut now.left {
            Some(left) if !is_here => left,
            _ => &mut now.window,
        };
        if !(touched && is_here) {
            let end = at + data.len().min(HEAD) as u64;
            let touched = self.timed(|| window.touch(at, end));
            touched.map_err(|errno| Error::io("write", self.plain.path(), errno.into()))?;
        }
        window.publish(at, data);
        Ok(())
    }

    /// Switches to system calls and writes `data` at `at`, the visible end. No zeros may follow what is
    /// written from now on: if the process ended within a call, they would hide the end of the file.
    #[cold]
    fn go_on_by_calls(&self, current: &mut Option<Current>, at: u64, data: &[u8]) -> Result<()> {
        *current = None;
        if self.plain.allocated() > at {
            self.forget_next();
            self.plain.truncate(at)?;
            self.give_lease_back();
        }
        self.timed(|| self.plain.append(data))
    }

    /// Starts writeback of `range`, which is complete, in the background.
    fn write_back(self: &Arc<Self>, range: Range<u64>) {
        // Relaxed: one window more or less does not matter.
        if !self.written_back.load(Ordering::Relaxed) {
            return;
        }
        let file = Arc::downgrade(self);
        let _asked = WRITEBACK.submit(move || {
            if let Some(file) = file.upgrade() {
                // The next sync reports a failure.
                drop(
                    file.plain
                        .start_writeback(range.start, range.end - range.start),
                );
            }
        });
    }

    /// Runs a step of an append that may block.
    fn timed<T>(&self, step: impl FnOnce() -> T) -> T {
        let began = nanos();
        let result = step();
        let ended = nanos();
        if ended - began >= SLOW {
            *self.slow.lock() = Some((ended, ended - began));
        }
        result
    }

    /// Stops the preparation of windows, and drops the prepared ones.
    fn forget_next(&self) {
        self.preparing.lock().at = None;
        self.ready.lock().clear();
    }

    /// Unmaps all windows and drops the spare. Appends are system calls from now on.
    fn unmap(&self) -> MutexGuard<'_, Option<Current>> {
        let mut current = self.current.lock();
        *current = None;
        *self.spare.lock() = Spare::Unwanted;
        self.forget_next();
        current
    }
}

impl WritableFile for MappedWriter {
    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        let plain = &self.0.plain;
        // A forked child inherits the parent's windows.
        plain.check_process()?;
        let mut current = self.0.current.lock();
        let begin = plain.len();
        // Most appends have one piece.
        let room = MAPPED_UNIT - begin % MAPPED_UNIT;
        if data.len() as u64 <= room
            && veils.is_empty()
            && let Some(now) = current.as_mut().filter(|now| now.window.end() > begin)
        {
            let piece = Piece {
                at: begin,
                data,
                veil: None,
                goes_on: false,
            };
            if self.0.put(Some(now), &piece)?.is_none() {
                return self.0.go_on_by_calls(&mut current, begin, data);
            }
            plain.note_len(begin + data.len() as u64);
            return Ok(());
        }
        self.append_pieces(&mut current, data, veils)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self, full: bool) -> Result<()> {
        self.0.note_cleaning();
        self.0.written_back.store(true, Ordering::Relaxed);
        let synced = self.0.plain.sync(full);
        // Again: an append concurrent with the sync may have touched pages before they were written.
        self.0.note_cleaning();
        synced
    }

    fn start_writeback(&self, offset: u64, len: u64) -> Result<()> {
        self.0.note_cleaning();
        self.0.plain.start_writeback(offset, len)
    }

    fn allocate(&self, _len: u64) -> Result<()> {
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.0.plain.check_process()?;
        let _alone = self.0.unmap();
        self.0.plain.truncate(len)?;
        self.0.give_lease_back();
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0.plain.len()
    }

    fn path(&self) -> &Path {
        self.0.plain.path()
    }

    fn is_mapped(&self) -> bool {
        self.0.current.lock().is_some()
    }

    fn mapped_bytes(&self) -> usize {
        let current = self.0.current.lock();
        let held = current.iter().map(|now| {
            let left = now.left.as_ref().map_or(0, Window::len);
            now.window.len() + left
        });
        held.sum::<usize>() + self.0.ready.lock().iter().map(Prepared::len).sum::<usize>()
    }

    fn slow_append(&self) -> Option<(u64, u64)> {
        *self.0.slow.lock()
    }

    fn successor(&self, path: &Path, mode: FileMode) -> Result<Option<Arc<dyn WritableFile>>> {
        if !mode.mapped || mode.direct {
            return Ok(None);
        }
        match self.0.take_spare(path, mode) {
            Some((file, room)) => MappedWriter::create(file, path.to_owned(), mode, room).map(Some),
            None => Ok(None),
        }
    }

    fn close(&self) -> Result<()> {
        self.0.plain.check_process()?;
        let _alone = self.0.unmap();
        let plain = &self.0.plain;
        let len = plain.len();
        if plain.allocated() > len {
            // Before the lease ends. If this fails, `close` tries again.
            let _ = plain.truncate(len);
        }
        // A descriptor inherited by a forked child would keep the lease.
        self.0.give_lease_back();
        plain.close()
    }
}

impl Drop for MappedWriter {
    fn drop(&mut self) {
        // Errors are ignored when an open file is dropped, as documented at the trait.
        let _ = self.close();
    }
}

#[cfg(test)]
mod tests;
