//! Open files and held locks of a simulated disk.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cairn_platform::fs::{FileLock, MAPPED_UNIT, RandomAccessFile, WritableFile};
use cairn_platform::sync::{AtomicBool, AtomicUsize, Ordering};
use cairn_types::{Error, Result, Veil};

use super::{Entered, SimFs, failed};
use crate::disk::{Inode, Node};
use crate::fault::Fault;
use crate::trace::{Call, Change};

/// A held lock.
pub(super) struct SimLock {
    pub(super) fs: SimFs,
    pub(super) inode: Inode,
}

impl FileLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.fs.state.lock().locked.remove(&self.inode);
    }
}

/// An open file.
pub(super) struct Handle {
    pub(super) fs: SimFs,
    pub(super) number: u64,
    pub(super) inode: Inode,
    pub(super) path: PathBuf,
}

impl Handle {
    fn release(&self) {
        let mut state = self.fs.state.lock();
        if state.handles.remove(&self.number).is_some() {
            state.release(self.inode);
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.release();
    }
}

/// A file open for reading.
pub(super) struct SimReader(pub(super) Handle);

impl RandomAccessFile for SimReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let mut op = self.0.fs.enter(Call::Read, &self.0.path)?;
        let Some(Node::File(bytes)) = op.state.live.nodes.get(&self.0.inode) else {
            return failed(Call::Read, &self.0.path, ErrorKind::NotFound);
        };
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = bytes.get(start..).unwrap_or(&[]);
        let mut len = rest.len().min(buf.len());
        if op.fault == Some(Fault::ShortRead) {
            len /= 2;
        }
        buf[..len].copy_from_slice(&rest[..len]);
        if op.fault == Some(Fault::FlippedBit)
            && let Some(byte) = buf[..len].get_mut(len / 2)
        {
            *byte ^= 1 << (op.number % 8);
            op.state.wrong_reads += 1;
        }
        Ok(len)
    }

    cairn_platform::derived_reads!();
    cairn_platform::no_hints!();

    fn len(&self) -> Result<u64> {
        let op = self.0.fs.enter(Call::Status, &self.0.path)?;
        Ok(op
            .state
            .live
            .file(self.0.inode)
            .map_or(0, |bytes| bytes.len() as u64))
    }

    fn path(&self) -> &Path {
        &self.0.path
    }
}

/// A file open for writing.
pub(super) struct SimWriter {
    pub(super) handle: Handle,
    pub(super) closed: AtomicBool,
    /// The write position, for a file that is overwritten or is longer than the appended data.
    pub(super) over: Option<AtomicUsize>,
    /// For a file created with a mapping, true while appends are stores.
    pub(super) mapped: Option<AtomicBool>,
    /// True if the file has been synced since the last append. The next append is then a write
    /// call.
    pub(super) synced: AtomicBool,
}

/// The number of bytes at the start of a piece that are stored last.
const HEAD: usize = 8;

/// The size of a mapped window. Small, so that a few kilobytes span several.
const WINDOW: usize = 2048;

impl SimWriter {
    fn enter(&self, call: Call) -> Result<Entered<'_>> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::io_text(format!(
                "{call} {}: the file is closed",
                self.handle.path.display()
            )));
        }
        self.handle.fs.enter(call, &self.handle.path)
    }

    /// Stores as much of `data` as windows can be mapped for, piece by piece as the real implementation does.
    /// Returns the rest.
    fn store<'d>(&self, data: &'d [u8], veils: &[Veil]) -> Result<&'d [u8]> {
        let (Some(mapped), Some(over)) = (&self.mapped, &self.over) else {
            return Ok(data);
        };
        if self.synced.swap(false, Ordering::Relaxed) {
            return Ok(data);
        }
        let begin = over.load(Ordering::Relaxed);
        let mut veils = veils.iter().peekable();
        let (mut done, mut from) = (0, 0);
        while mapped.load(Ordering::Relaxed) && from < data.len() {
            let at = begin + from;
            let unit = MAPPED_UNIT as usize;
            let veil = veils.next_if(|veil| veil.at == from);
            let room = (unit - at % unit).min(data.len() - from);
            let to = veil.map_or(from + room, |veil| veil.end);
            if self.prepare(begin + to).is_err() {
                mapped.store(false, Ordering::Relaxed);
                let mut op = self.enter(Call::Truncate)?;
                let inode = self.handle.inode;
                let len = begin + done;
                op.change(Change::Truncate { inode, len });
                break;
            }
            let goes_on = veils.peek().is_some_and(|veil| veil.at == to);
            let head = HEAD.min(to - from);
            let mut piece = data[from..to].to_vec();
            match veil {
                Some(veil) => piece[..head].copy_from_slice(&veil.head),
                None if goes_on => piece[..head].fill(0),
                None => {}
            }
            self.store_piece(at, piece)?;
            // The masked heads: that of the preceding piece, then that of this piece.
            let before = veil.map(|_| done..from);
            let own = (veil.is_some() && !goes_on).then_some(from..to);
            for piece in [before, own].into_iter().flatten() {
                let head = piece.start..piece.end.min(piece.start + HEAD);
                self.store_piece(begin + head.start, data[head].to_vec())?;
                done = piece.end;
            }
            if veil.is_none() && !goes_on {
                done = to;
            }
            over.store(begin + done, Ordering::Relaxed);
            from = to;
        }
        Ok(&data[done..])
    }

    /// Stores `data`, which is within one unit, at `offset`.
    fn store_piece(&self, offset: usize, data: Vec<u8>) -> Result<()> {
        let mut op = self.enter(Call::Store)?;
        op.change(Change::Write {
            inode: self.handle.inode,
            offset,
            data: data.into(),
        });
        Ok(())
    }

    /// Extends the file to the end of the window that contains `end`.
    fn prepare(&self, end: usize) -> Result<()> {
        let inode = self.handle.inode;
        loop {
            let len = {
                let state = self.handle.fs.state.lock();
                state.live.file(inode).map_or(0, |bytes| bytes.len())
            };
            if len >= end {
                return Ok(());
            }
            let mut op = self.enter(Call::Allocate)?;
            if op.state.room(inode, WINDOW) < WINDOW {
                return Err(Fault::NoSpace.error(Call::Allocate, &self.handle.path));
            }
            let len = len + WINDOW;
            op.change(Change::Truncate { inode, len });
        }
    }
}

impl WritableFile for SimWriter {
    fn append_veiled(&self, data: &[u8], veils: &[Veil]) -> Result<()> {
        let all = data;
        let data = self.store(all, veils)?;
        if data.is_empty() && !all.is_empty() {
            return Ok(());
        }
        let mut op = self.enter(Call::Append)?;
        let inode = self.handle.inode;
        let len = op.state.live.file(inode).map_or(0, |bytes| bytes.len());
        let offset = self
            .over
            .as_ref()
            .map_or(len, |over| over.load(Ordering::Relaxed));
        // Overwriting takes no additional space.
        let old = len.saturating_sub(offset).min(data.len());
        let mut room = old + op.state.room(inode, data.len() - old);
        if op.fault == Some(Fault::ShortWrite) {
            room = room.min(data.len() / 2);
        }
        let (silent, told) = match op.fault {
            Some(fault) if fault.is_silent() => (Some(fault), None),
            told => (None, told),
        };
        if room > 0 {
            let (at, written) = match silent {
                Some(fault) => {
                    let old = op.state.live.file(inode).map_or(&[][..], |old| old);
                    let damaged = fault.damage(op.number, old, offset, &data[..room]);
                    op.state.wrong_writes += 1;
                    damaged
                }
                None => (offset, data[..room].into()),
            };
            op.change(Change::Write {
                inode,
                offset: at,
                data: written,
            });
            if let Some(over) = &self.over {
                over.store(offset + room, Ordering::Relaxed);
            }
        }
        match room == data.len() && told.is_none() {
            true => Ok(()),
            false => {
                let fault = told.unwrap_or(Fault::NoSpace);
                Err(fault.error(Call::Append, &self.handle.path))
            }
        }
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self, _full: bool) -> Result<()> {
        self.synced.store(true, Ordering::Relaxed);
        let mut op = self.enter(Call::Sync)?;
        let inode = self.handle.inode;
        match op.fault {
            None => {
                op.change(Change::Sync { inode });
                Ok(())
            }
            Some(fault) => {
                op.change(match fault {
                    Fault::SyncReverted => Change::SyncReverted {
                        inode,
                        durable: op.durable(inode),
                    },
                    _ => Change::SyncFailed { inode },
                });
                Err(fault.error(Call::Sync, &self.handle.path))
            }
        }
    }

    fn start_writeback(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let mut op = self.enter(Call::Allocate)?;
        let have = op
            .state
            .live
            .file(self.handle.inode)
            .map_or(0, |bytes| bytes.len() as u64);
        let reserved = op
            .state
            .reserved
            .get(&self.handle.inode)
            .copied()
            .unwrap_or(0);
        let more = len.saturating_sub(reserved.max(have));
        if more <= op.state.free() {
            op.state
                .reserved
                .insert(self.handle.inode, reserved.max(len));
        }
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<()> {
        let mut op = self.enter(Call::Truncate)?;
        let inode = self.handle.inode;
        let len = usize::try_from(len)
            .map_err(|_| Error::invalid_argument("a simulated file cannot be that long"))?;
        op.change(Change::Truncate { inode, len });
        op.state.reserved.remove(&inode);
        if let Some(over) = &self.over {
            over.store(len, Ordering::Relaxed);
        }
        if let Some(mapped) = &self.mapped {
            mapped.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    fn mapped_bytes(&self) -> usize {
        0
    }

    fn is_mapped(&self) -> bool {
        let mapped = self.mapped.as_ref();
        mapped.is_some_and(|mapped| mapped.load(Ordering::Relaxed))
    }

    fn len(&self) -> u64 {
        if let Some(over) = &self.over {
            return over.load(Ordering::Relaxed) as u64;
        }
        let state = self.handle.fs.state.lock();
        state
            .live
            .file(self.handle.inode)
            .map_or(0, |bytes| bytes.len() as u64)
    }

    fn path(&self) -> &Path {
        &self.handle.path
    }

    cairn_platform::no_successor!();

    fn close(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Ok(());
        }
        let entered = self.enter(Call::Close).map(|mut op| {
            let inode = self.handle.inode;
            op.state.reserved.remove(&inode);
            if self.mapped.is_some() {
                let len = self
                    .over
                    .as_ref()
                    .map_or(0, |over| over.load(Ordering::Relaxed));
                if op
                    .state
                    .live
                    .file(inode)
                    .is_some_and(|bytes| bytes.len() > len)
                {
                    op.change(Change::Truncate { inode, len });
                }
            }
        });
        // As in POSIX, the descriptor is closed even if closing reports an error.
        self.closed.store(true, Ordering::Release);
        self.handle.release();
        entered
    }
}
