//! A file that grows at its end by stores into mapped windows.
//!
//! The file is longer than what was appended: by the rest of the window that is written, and by the
//! next ones, all of it zeros until they are written; `close` cuts it to its length. Windows lie one
//! behind the other. When the writer enters one, a thread of the process prepares what is missing of the [`AHEAD`]
//! next; a writer that comes to the start of one too early prepares it itself. Another thread asks for writeback of
//! those that are written to their ends, where that is asked for or once the file was synced: a sync of a long log then
//! finds little to do. Where that fails (the device is full, the file
//! system refuses) the file is written by calls from then on, which report what goes wrong.
//!
//! A store into a page that was written back meets a page fault, and where the file system has failed
//! meanwhile that fault would end the process. So the first append behind a sync or a pause is a call, which
//! reports an error (the kernel writes back by itself only what is old, or too much), and further pages are
//! touched by a call before they are stored into. A log of which every record is synced is so written by
//! calls, into blocks that are there: a sync then writes one block, and no metadata.
//!
//! Reserving space may take long: the file system waits for the device to learn which blocks are free, for as much as a
//! second where others keep that busy, and the file cannot be prepared meanwhile. So while a file fills fast
//! that was expected to be long, a thread makes a *spare*: a file without a name, with room for what is
//! expected of the next one, which becomes that ([`WritableFile::successor`]) or goes when this one does.
//!
//! Others never see that the file is longer: while it is mapped this process holds a lease on it ([`super::lease`]).
//! Where another open of the file waits, or a call that cuts it off, the windows are left, the file is cut to its length,
//! and appends are calls. The kernel waits for that as long as `/proc/sys/fs/lease-break-time` says; after a pause,
//! which may have been longer, the writer looks whether the file still has its length.
//!
//! Cost of an append: one lock that nobody else takes, one look at the coarse clock, one copy. The
//! preparation of a page costs less than a call that writes half of it.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use cairn_types::{Error, Result, Veil};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FsWord, OFlags, fallocate, fstatfs, linkat, openat,
};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::aligned_buffer::{ALIGNMENT, round_down};
use super::background_worker::{SPARES, WINDOWS, WRITEBACK};
use super::eintr::retry_on_eintr;
use super::lease::{self, Leased};
use super::window::{HEAD, Window};
use super::write::PosixWriter;
use super::{common_flags, permissions};
use crate::fs::{FileMode, MAPPED_UNIT, WritableFile};
use crate::sync::{Arc, AtomicBool, Mutex, MutexGuard, Ordering, Weak};

/// Length of the first window in bytes, unless the file will be long. Small, because the first sync writes all of
/// its zeros.
const MIN_WINDOW: u64 = 2 * MAPPED_UNIT;
/// Length of the windows of a long file.
const MAX_WINDOW: u64 = 512 << 10;
/// How many windows wait behind the one that is written.
const AHEAD: usize = 2;

/// How much of a long file is reserved at a time. The file system may wait for the device while it does that (to read
/// which blocks are free, to tell which are): 150 ms where jobs keep it busy, so it is not asked for each window.
const MAX_RESERVED: u64 = 8 << 20;

/// A file that has an eighth of its expected length within so many milliseconds fills fast.
const FAST_MILLIS: i64 = 2_000;

/// For how long pages are trusted not to be written back by the kernel on its own.
const TRUSTED_MILLIS: i64 = 200;

/// The file systems on which blocks that are allocated take stores without needing others: they write
/// in place, and tell of a full device when blocks are allocated.
const WRITE_IN_PLACE: [FsWord; 3] = [
    0xef53,      // ext4
    0x5846_5342, // XFS
    0x0102_1994, // tmpfs
];

/// A file of the machine that is appended to through mapped windows.
pub(super) struct MappedWriter(Arc<Windows>);

struct Windows {
    /// Length, syncs, closing; and appending once there is no window.
    plain: PosixWriter,
    /// The window that is written; none once the file is written by calls.
    current: Mutex<Option<Current>>,
    /// True if pages may have been written back since they were touched.
    cleaned: AtomicBool,
    /// True if windows are written back that are full.
    written_back: AtomicBool,
    /// What the file was created with.
    mode: FileMode,
    /// When it was, in milliseconds.
    created_at: i64,
    /// The file that may become the next one.
    spare: Mutex<Spare>,
    /// When the last slow append ended, and how long it took.
    slow: Mutex<Option<(u64, u64)>>,
    /// Locked while a window is prepared, which may take long.
    preparing: Mutex<Preparing>,
    /// Prepared windows, one behind the other, from where the current one ends. Never locked for long; behind
    /// `preparing` if both are.
    ready: Mutex<VecDeque<Window>>,
}

/// A file without a name.
enum Spare {
    /// Nobody has asked for one.
    Unasked,
    /// It is being made, or could not be.
    Asked,
    /// Nobody wants one any more.
    Unwanted,
    /// It is there, with room for so many bytes.
    Ready(File, u64),
}

/// The window that is written.
struct Current {
    window: Window,
    /// The one before it, into which a head may still go.
    left: Option<Window>,
    /// Offset up to which its pages were touched since they were last written back.
    touched: u64,
    /// When they were, in milliseconds.
    touched_at: i64,
}

/// A piece of an append, within one unit.
struct Piece<'a> {
    /// Where in the file it goes.
    at: u64,
    data: &'a [u8],
    /// What stands for its head until the piece before it is visible.
    veil: Option<[u8; HEAD]>,
    /// True if a piece with a veil follows, before which this one is not visible.
    goes_on: bool,
}

impl Piece<'_> {
    #[inline]
    fn is_hidden(&self) -> bool {
        self.veil.is_some() || self.goes_on
    }
}

/// A piece that is in the file.
#[derive(Clone, Copy)]
struct Stored {
    at: u64,
    /// True if its pages take stores without a fault.
    touched: bool,
}

/// An append that does more than store has so many nanoseconds before it is told of.
const SLOW: u64 = 20_000_000;

/// Nanoseconds since some moment.
fn nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

impl Current {
    fn new(window: Window) -> Current {
        Current {
            touched: window.end(),
            touched_at: coarse_millis(),
            window,
            left: None,
        }
    }

    /// Whether the pages of `len` bytes at `offset` take stores without a fault, now that they are touched if
    /// need be. They do not behind a sync or a pause.
    #[inline]
    fn touch(&mut self, offset: u64, len: usize, file: &Windows) -> Result<bool, Errno> {
        let now = coarse_millis();
        // Relaxed: the thread that appends behind a sync has learnt of its end.
        if now - self.touched_at > TRUSTED_MILLIS || file.cleaned.load(Ordering::Relaxed) {
            file.cleaned.store(false, Ordering::Relaxed);
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

/// Milliseconds since some moment; moves on every few of them.
fn coarse_millis() -> i64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec * 1000 + now.tv_nsec / 1_000_000
}

/// The windows behind the current one.
#[derive(Default)]
struct Preparing {
    /// Where the next one that is prepared begins; none if no more are wanted.
    at: Option<u64>,
}

impl MappedWriter {
    /// A writer of `file`, which is empty and has room for `room` bytes: through windows if the file system can,
    /// by calls otherwise.
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
            cleaned: AtomicBool::new(false),
            written_back: AtomicBool::new(mode.written_back),
            mode,
            created_at: coarse_millis(),
            spare: Mutex::new(Spare::Unasked),
            slow: Mutex::default(),
            preparing: Mutex::default(),
            ready: Mutex::default(),
        };
        let windows = Arc::new(windows);
        // Without a lease others might read the file while it is longer than what was appended.
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
                    let _asked = WINDOWS.ask(move || Windows::prepare_all(&file));
                }
                *windows.current.lock() = Some(Current::new(first));
                // An open that came before the window waits now, or was answered.
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
        // What is visible, and the piece behind it that is stored without its head.
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

    /// Goes on to the window at `offset`, where the current one ends; to none if it cannot be prepared.
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
            let _asked = SPARES.ask(move || Windows::make_spare(&file));
        }
        // Without threads writers prepare their windows themselves, and the kernel writes back when it likes.
        let _asked = WINDOWS.ask(move || {
            // Unmapping is not the writer's work either.
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
        let wanted = |file: &File| Ok(lease::is_wanted(file));
        // The lease of a closed file is gone.
        self.current.lock().is_some() && self.plain.with_file("look at", wanted).unwrap_or(false)
    }

    fn give_way(&self) {
        let _alone = self.unmap();
        let len = self.plain.len();
        if self.plain.allocated() > len {
            // Where that fails readers meet zeros, and appends, which are calls from now on, errors.
            let _ = self.plain.truncate(len);
        }
        self.give_lease_back();
    }
}

impl Windows {
    /// Takes a lease on the file: whoever opens it waits until it is as long as what was appended.
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
        // The lease of a closed file is gone.
        let _ = self.plain.with_file("give back the lease on", give_back);
    }

    /// Prepares the window that begins at `offset`.
    fn prepare(&self, offset: u64) -> Option<Window> {
        // As long as the file is: a short one is not made long by zeros.
        let likely = offset.max(self.mode.expected_len.next_multiple_of(MAPPED_UNIT));
        let len = likely.clamp(MIN_WINDOW, MAX_WINDOW);
        if offset + len > self.plain.allocated() {
            // Where it fails the window is refused, or has less behind it.
            drop(
                self.plain
                    .allocate(offset + likely.clamp(len, MAX_RESERVED)),
            );
        }
        // Noted first: also what a failure leaves behind is cut off when the file is closed.
        self.plain.note_allocated(offset + len);
        let len = usize::try_from(len).expect("a window fits the memory");
        let prepare = |file: &File| Window::prepare(file, offset, len);
        self.plain.with_file("map", prepare).ok()
    }

    /// The window that begins at `offset`, where the writer stands, and which was not ready.
    fn prepare_now(&self, offset: u64) -> Option<Window> {
        let mut preparing = self.preparing.lock();
        // It may have been the one that was prepared.
        let ready = std::mem::take(&mut *self.ready.lock());
        let mut ready = ready.into_iter();
        let window = ready.next().filter(|window| window.begins_at(offset));
        if window.is_some() {
            self.ready.lock().extend(ready);
            return window;
        }
        let window = self.prepare(offset);
        preparing.at = window.as_ref().map(Window::end);
        window
    }

    /// Prepares the next windows of a file that is still there.
    fn prepare_all(file: &Weak<Windows>) {
        while file.upgrade().is_some_and(|file| file.prepare_next()) {}
    }

    /// Prepares the next window, if one is wanted; whether it did.
    fn prepare_next(&self) -> bool {
        let mut preparing = self.preparing.lock();
        let Some(at) = preparing.at else {
            return false;
        };
        if self.ready.lock().len() >= AHEAD {
            return false;
        }
        let window = self.prepare(at);
        // A failure is met again, and told, by the writer.
        preparing.at = window.as_ref().map(Window::end);
        let prepared = window.is_some();
        self.ready.lock().extend(window);
        prepared
    }

    /// True if a spare is to be made, now that the file is `len` long. Says so once.
    fn begins_spare(&self, len: u64) -> bool {
        let expected = self.mode.expected_len;
        let mut spare = self.spare.lock();
        if expected == 0 || len < expected / 8 || !matches!(*spare, Spare::Unasked) {
            return false;
        }
        *spare = Spare::Asked;
        coarse_millis() - self.created_at < FAST_MILLIS
    }

    /// Makes a spare for a file that is still there. Without one the next file is created when it is needed.
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
        // A little more than this one has: the next may become longer, and what lies behind it is cut off.
        let expected = mode.expected_len;
        let wanted = (expected + expected / 16).next_multiple_of(MAX_WINDOW);
        let mut room = 0;
        while room < wanted && file.strong_count() > 0 {
            let len = MAX_RESERVED.min(wanted - room);
            if retry_on_eintr(|| fallocate(&spare, FallocateFlags::KEEP_SIZE, room, len)).is_err() {
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

    /// Gives the spare the name `path`.
    fn take_spare(&self, path: &Path, mode: FileMode) -> Option<(File, u64)> {
        let mut spare = self.spare.lock();
        if mode.owner_only != self.mode.owner_only || !matches!(*spare, Spare::Ready(..)) {
            return None;
        }
        let Spare::Ready(file, room) = std::mem::replace(&mut *spare, Spare::Unwanted) else {
            return None;
        };
        drop(spare);
        // The name by which any process may give its own file another one, without a privilege.
        let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, &unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW).ok()?;
        Some((file, room))
    }

    /// Stores `piece` into the window of `current`, or writes it by a call behind a sync or a pause. One that has a veil
    /// or goes on is left without its head. None if there is no window: the file system refuses them, or has failed.
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

    /// True if the file is as long as its windows need it.
    #[cold]
    fn reaches(&self, end: u64) -> bool {
        let len = self
            .plain
            .with_file("look at", |file| rustix::fs::fstat(file));
        len.is_ok_and(|found| u64::try_from(found.st_size).is_ok_and(|len| len >= end))
    }

    /// Writes `piece` by calls, as [`Windows::put`] stores it.
    #[cold]
    fn write(&self, now: &mut Current, piece: &Piece<'_>) -> Result<()> {
        let (at, data) = (piece.at, piece.data);
        // What lies in one page a call writes whole before the process can end.
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

    /// Writes `data` by calls at `at`, up to where everything is visible. No zeros may come behind what is written from
    /// now on: where the process ended within a call they would hide that the file ends there.
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

    /// Has another thread ask for writeback of the bytes of `range`, into which nothing is stored any more.
    fn write_back(self: &Arc<Self>, range: Range<u64>) {
        // Relaxed: a window more or less.
        if !self.written_back.load(Ordering::Relaxed) {
            return;
        }
        let file = Arc::downgrade(self);
        let _asked = WRITEBACK.ask(move || {
            if let Some(file) = file.upgrade() {
                // What fails here is an error of the next sync.
                drop(
                    file.plain
                        .start_writeback(range.start, range.end - range.start),
                );
            }
        });
    }

    /// Carries out a step of an append that may wait.
    fn timed<T>(&self, step: impl FnOnce() -> T) -> T {
        let began = nanos();
        let result = step();
        let ended = nanos();
        if ended - began >= SLOW {
            *self.slow.lock() = Some((ended, ended - began));
        }
        result
    }

    /// Has no more windows prepared, and leaves those that are ready.
    fn forget_next(&self) {
        self.preparing.lock().at = None;
        self.ready.lock().clear();
    }

    /// Leaves all windows, and wants no next file; appends are calls from now on.
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
        // A child has the parent's windows too.
        plain.check_process()?;
        let mut current = self.0.current.lock();
        let begin = plain.len();
        // Most appends are one piece.
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
        self.0.cleaned.store(true, Ordering::Relaxed);
        self.0.written_back.store(true, Ordering::Relaxed);
        let synced = self.0.plain.sync(full);
        // Once more: an append that ran beside the sync may have touched pages before they were written.
        self.0.cleaned.store(true, Ordering::Relaxed);
        synced
    }

    fn start_writeback(&self, offset: u64, len: u64) -> Result<()> {
        self.0.cleaned.store(true, Ordering::Relaxed);
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
        let cut = match plain.allocated() > len {
            true => plain.truncate(len),
            false => Ok(()),
        };
        // A descriptor that a forked child has would keep it.
        self.0.give_lease_back();
        plain.close().and(cut)
    }
}

impl Drop for MappedWriter {
    fn drop(&mut self) {
        // As the trait says: who drops an open file does not care for its errors.
        let _ = self.close();
    }
}

#[cfg(test)]
mod tests;
