//! The simulated file system, which numbers every operation.

use std::backtrace::Backtrace;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error as IoError, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_platform::fs::{
    FileLock, FileMode, FileSystem, PathKind, RandomAccessFile, Status, WritableFile,
    status_of_each,
};
use cairn_platform::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard};
use cairn_types::{Error, Result};

use crate::disk::{DiskImage, Inode, absolute};
use crate::fault::{Fault, FaultPlan, verb};
use crate::trace::{Call, Change, Operation, Trace, shared};

mod files;
mod state;

use self::files::{Handle, SimLock, SimReader, SimWriter};
use self::state::State;

/// A simulated disk. Clones are handles to the same disk.
#[derive(Clone)]
pub struct SimFs {
    state: Arc<Mutex<State>>,
}

impl SimFs {
    /// An empty disk.
    #[must_use]
    pub fn new() -> SimFs {
        SimFs::from_image(DiskImage::empty())
    }

    /// A disk with the content of `image`, all of it durable.
    #[must_use]
    pub fn from_image(image: DiskImage) -> SimFs {
        let last = image.tree.nodes.keys().next_back().copied().unwrap_or(0);
        SimFs {
            state: Arc::new(Mutex::new(State {
                live: image.tree.clone(),
                initial: image,
                operations: Vec::new(),
                plan: FaultPlan::default(),
                next_inode: last + 1,
                handles: BTreeMap::new(),
                next_handle: 0,
                locked: BTreeSet::new(),
                reserved: BTreeMap::new(),
                capacity: u64::MAX,
                record_sites: false,
                injected_at: None,
                wrong_reads: 0,
                wrong_writes: 0,
            })),
        }
    }

    /// Sets the fault plan for all later operations.
    pub fn set_plan(&self, plan: FaultPlan) {
        self.state.lock().plan = plan;
    }

    /// The number of faults injected by the current plan.
    #[must_use]
    pub fn injected(&self) -> usize {
        self.state.lock().plan.injected()
    }

    /// The first operation that the current plan made fail.
    #[must_use]
    pub fn first_injected(&self) -> Option<usize> {
        self.state.lock().plan.first_injected()
    }

    /// The number of reads that returned wrong data.
    #[must_use]
    pub fn wrong_reads(&self) -> usize {
        self.state.lock().wrong_reads
    }

    /// The number of writes that were damaged silently.
    #[must_use]
    pub fn wrong_writes(&self) -> usize {
        self.state.lock().wrong_writes
    }

    /// The call site of the first operation that the plan made fail.
    #[must_use]
    pub fn injected_site(&self) -> Option<Arc<str>> {
        let stack = self.state.lock().injected_at.clone()?;
        site_of(&stack)
    }

    /// Sets the capacity of the disk in bytes.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity = bytes;
    }

    /// Enables or disables the recording of call sites, which costs a stack walk per operation.
    pub fn record_sites(&self, record: bool) {
        self.state.lock().record_sites = record;
    }

    /// The number of operations so far.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.state.lock().operations.len()
    }

    /// The trace of all operations so far.
    #[must_use]
    pub fn trace(&self) -> Trace {
        let state = self.state.lock();
        Trace {
            initial: state.initial.clone(),
            operations: state.operations.clone(),
        }
    }

    /// The current content of the disk, as reads see it.
    #[must_use]
    pub fn image(&self) -> DiskImage {
        DiskImage {
            tree: self.state.lock().live.reachable(),
        }
    }

    /// Flips one bit of the file at `path`, without an operation.
    ///
    /// # Errors
    ///
    /// `IoError` if the file has no such byte.
    pub fn flip_bit(&self, path: &Path, offset: usize, bit: u8) -> Result<()> {
        let mut state = self.state.lock();
        let inode = state.file(Call::Open, path)?;
        let Some(byte) = state
            .live
            .file(inode)
            .and_then(|bytes| bytes.get(offset).copied())
        else {
            return failed(Call::Read, path, ErrorKind::UnexpectedEof);
        };
        state.live.write(inode, offset, &[byte ^ (1 << (bit % 8))]);
        Ok(())
    }

    /// Open handles, held locks and reserved space; empty after a clean close.
    #[must_use]
    pub fn leaks(&self) -> Vec<String> {
        let state = self.state.lock();
        let handles = state
            .handles
            .values()
            .map(|(_, path)| format!("open file {}", path.display()));
        let locks = state
            .locked
            .iter()
            .map(|inode| format!("held lock, inode {inode}"));
        handles.chain(locks).collect()
    }

    /// Starts an operation: numbers it and consults the fault plan.
    fn enter(&self, call: Call, path: &Path) -> Result<Entered<'_>> {
        let mut state = self.state.lock();
        let site = match state.record_sites {
            true => site_of(&Backtrace::force_capture()),
            false => None,
        };
        let number = state.operations.len();
        let fault = state.plan.decide(number, call, path, site.as_deref());
        if state.plan.first_injected() == Some(number) {
            // Symbols are resolved on demand, because that is slow.
            state.injected_at = Some(Arc::new(Backtrace::force_capture()));
        }
        state.operations.push(Operation {
            call,
            path: shared(path),
            site,
            change: None,
        });
        let entered = Entered {
            state,
            number,
            fault,
        };
        match fault {
            // The caller performs part of the operation.
            Some(Fault::ShortRead | Fault::ShortWrite | Fault::FlippedBit) | None => Ok(entered),
            Some(fault) if call == Call::Sync || fault.is_silent() => Ok(entered),
            Some(fault) => Err(fault.error(call, path)),
        }
    }

    fn writer(&self, state: &mut State, inode: Inode, path: &Path) -> Arc<dyn WritableFile> {
        Arc::new(SimWriter {
            handle: self.handle(state, inode, path),
            closed: AtomicBool::new(false),
            over: None,
            mapped: None,
            synced: AtomicBool::new(false),
        })
    }

    fn handle(&self, state: &mut State, inode: Inode, path: &Path) -> Handle {
        let number = state.next_handle;
        state.next_handle += 1;
        state.handles.insert(number, (inode, path.to_owned()));
        Handle {
            fs: self.clone(),
            number,
            inode,
            path: path.to_owned(),
        }
    }
}

impl Default for SimFs {
    fn default() -> SimFs {
        SimFs::new()
    }
}

/// An operation in progress.
struct Entered<'f> {
    state: MutexGuard<'f, State>,
    number: usize,
    fault: Option<Fault>,
}

impl Entered<'_> {
    /// The part of a file that would survive a power failure now.
    fn durable(&self, inode: Inode) -> Arc<[u8]> {
        let trace = Trace {
            initial: self.state.initial.clone(),
            operations: self.state.operations.clone(),
        };
        let mut replay = trace.replay();
        while replay.step() {}
        replay.durable(inode)
    }

    /// Applies `change` and records it in the trace of this operation.
    fn change(&mut self, change: Change) {
        self.state.live.apply(&change);
        self.state.operations[self.number].change = Some(change);
    }
}

fn failed<T>(call: Call, path: &Path, kind: ErrorKind) -> Result<T> {
    Err(Error::io(verb(call), path, IoError::from(kind)))
}

/// Substrings of function names that are omitted from call sites: functions of this crate, and of
/// wrappers that count operations.
const PASSED_OVER: [&str; 5] = [
    "cairn_sim::",
    "cairn_model::",
    "cairn_observe::files::",
    "cairn_platform::wrapper::",
    "cairn_observe::perf::iostats::",
];

/// The engine's stack frames, innermost first.
fn site_of(stack: &Backtrace) -> Option<Arc<str>> {
    let stack = stack.to_string();
    let frames: Vec<&str> = stack
        .lines()
        .filter_map(|line| line.split_once(": ").map(|(_, frame)| frame.trim()))
        .filter(|frame| frame.contains("cairn_") && !frame.starts_with("<cairn_sim"))
        .filter(|frame| !PASSED_OVER.iter().any(|name| frame.contains(name)))
        .take(12)
        .collect();
    (!frames.is_empty()).then(|| Arc::from(frames.join(" < ")))
}

impl FileSystem for SimFs {
    fn open(&self, path: &Path, _mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        let mut op = self.enter(Call::Open, path)?;
        let inode = op.state.file(Call::Open, path)?;
        if op.state.locked.contains(&inode) {
            // On a POSIX system, closing the file would release the lock.
            return failed(Call::Open, path, ErrorKind::WouldBlock);
        }
        let handle = self.handle(&mut op.state, inode, path);
        Ok(Arc::new(SimReader(handle)))
    }

    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let mut op = self.enter(Call::Create, path)?;
        let name = op.state.free_place(Call::Create, path)?;
        let inode = op.state.new_inode();
        op.change(Change::Create { name, inode });
        if mode.mapped {
            return Ok(Arc::new(SimWriter {
                handle: self.handle(&mut op.state, inode, path),
                closed: AtomicBool::new(false),
                over: Some(AtomicUsize::new(0)),
                mapped: Some(AtomicBool::new(true)),
                synced: AtomicBool::new(false),
            }));
        }
        Ok(self.writer(&mut op.state, inode, path))
    }

    fn open_append(&self, path: &Path, _mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let mut op = self.enter(Call::OpenAppend, path)?;
        let inode = op.state.file(Call::OpenAppend, path)?;
        if op.state.locked.contains(&inode) {
            return failed(Call::OpenAppend, path, ErrorKind::WouldBlock);
        }
        Ok(self.writer(&mut op.state, inode, path))
    }

    fn open_overwrite(&self, path: &Path, _mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let mut op = self.enter(Call::OpenOverwrite, path)?;
        let inode = op.state.file(Call::OpenOverwrite, path)?;
        if op.state.locked.contains(&inode) {
            return failed(Call::OpenOverwrite, path, ErrorKind::WouldBlock);
        }
        Ok(Arc::new(SimWriter {
            handle: self.handle(&mut op.state, inode, path),
            closed: AtomicBool::new(false),
            over: Some(AtomicUsize::new(0)),
            mapped: None,
            synced: AtomicBool::new(false),
        }))
    }

    fn status(&self, path: &Path) -> Result<Status> {
        let op = self.enter(Call::Status, path)?;
        let Some(inode) = op.state.live.lookup(path) else {
            return failed(Call::Status, path, ErrorKind::NotFound);
        };
        let file = op.state.live.file(inode);
        Ok(Status {
            len: file.map_or(0, |bytes| bytes.len() as u64),
            kind: match file {
                Some(_) => PathKind::File,
                None => PathKind::Directory,
            },
            modified_micros: 0,
        })
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        status_of_each(self, dir, names)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let op = self.enter(Call::List, dir)?;
        let inode = op.state.directory(Call::List, dir)?;
        let names = op.state.live.directory(inode).into_iter().flatten();
        let mut names: Vec<String> = names.map(|(name, _)| name.clone()).collect();
        // Listed in an arbitrary but reproducible order.
        names.sort_by_key(|name| {
            name.bytes().fold(17u32, |hash, byte| {
                hash.wrapping_mul(31) ^ u32::from(byte).rotate_left(9)
            })
        });
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let all = absolute(dir);
        let mut missing: Vec<&Path> = Vec::new();
        for ancestor in all.ancestors() {
            let state = self.state.lock();
            match state.live.lookup(ancestor) {
                Some(inode) if state.live.directory(inode).is_some() => break,
                Some(_) => return failed(Call::CreateDirectory, dir, ErrorKind::NotADirectory),
                None => missing.push(ancestor),
            }
        }
        for path in missing.into_iter().rev() {
            let mut op = self.enter(Call::CreateDirectory, path)?;
            let name = op.state.free_place(Call::CreateDirectory, path)?;
            let inode = op.state.new_inode();
            op.change(Change::CreateDirectory { name, inode });
        }
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        let call = Call::RemoveDirectory;
        let mut op = self.enter(call, dir)?;
        let inode = op.state.directory(call, dir)?;
        if op
            .state
            .live
            .directory(inode)
            .is_some_and(|names| !names.is_empty())
        {
            return failed(call, dir, ErrorKind::DirectoryNotEmpty);
        }
        let (name, _) = op.state.place(call, dir)?;
        op.change(Change::Unlink { name, inode });
        op.state.release(inode);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut op = self.enter(Call::Remove, path)?;
        let inode = op.state.file(Call::Remove, path)?;
        let (name, _) = op.state.place(Call::Remove, path)?;
        op.change(Change::Unlink { name, inode });
        op.state.release(inode);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut op = self.enter(Call::Rename, from)?;
        let (old, Some(inode)) = op.state.place(Call::Rename, from)? else {
            return failed(Call::Rename, from, ErrorKind::NotFound);
        };
        let (new, replaced) = op.state.place(Call::Rename, to)?;
        let is_directory = |state: &State, inode| state.live.directory(inode).is_some();
        if let Some(replaced) = replaced {
            let both = (
                is_directory(&op.state, inode),
                is_directory(&op.state, replaced),
            );
            let names = op.state.live.directory(replaced);
            match both {
                (false, false) => {}
                (true, true) if names.is_some_and(BTreeMap::is_empty) => {}
                (true, true) => return failed(Call::Rename, to, ErrorKind::DirectoryNotEmpty),
                (true, false) => return failed(Call::Rename, to, ErrorKind::NotADirectory),
                (false, true) => return failed(Call::Rename, to, ErrorKind::IsADirectory),
            }
        }
        if replaced == Some(inode) {
            return Ok(());
        }
        op.change(Change::Rename {
            from: old,
            to: new,
            inode,
        });
        if let Some(replaced) = replaced {
            op.state.release(replaced);
        }
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut op = self.enter(Call::Link, from)?;
        let inode = op.state.file(Call::Link, from)?;
        let name = op.state.free_place(Call::Link, to)?;
        op.change(Change::Link { name, inode });
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut op = self.enter(Call::SyncDirectory, dir)?;
        let directory = op.state.directory(Call::SyncDirectory, dir)?;
        op.change(Change::SyncDirectory { directory });
        Ok(())
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf> {
        self.status(path)?;
        Ok(absolute(path))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let mut op = self.enter(Call::Lock, path)?;
        let inode = match op.state.place(Call::Lock, path)? {
            (_, Some(inode)) if op.state.live.file(inode).is_none() => {
                return failed(Call::Lock, path, ErrorKind::IsADirectory);
            }
            (_, Some(inode)) => inode,
            (name, None) => {
                let inode = op.state.new_inode();
                op.change(Change::Create { name, inode });
                inode
            }
        };
        if !op.state.locked.insert(inode) {
            return failed(Call::Lock, path, ErrorKind::WouldBlock);
        }
        Ok(Box::new(SimLock {
            fs: self.clone(),
            inode,
        }))
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        let op = self.enter(Call::Status, path)?;
        Ok(op.state.free())
    }
}

#[cfg(test)]
mod tests;
