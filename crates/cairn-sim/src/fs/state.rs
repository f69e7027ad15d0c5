//! The state of a simulated disk: its content, capacity and open files.

use std::backtrace::Backtrace;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_types::Result;

use super::failed;
use crate::disk::{DiskImage, Inode, Name, Tree};
use crate::fault::FaultPlan;
use crate::trace::{Call, Operation};

/// The state of a simulated disk.
pub(super) struct State {
    pub(super) initial: DiskImage,
    pub(super) live: Tree,
    pub(super) operations: Vec<Operation>,
    pub(super) plan: FaultPlan,
    pub(super) next_inode: Inode,
    /// Open files by handle.
    pub(super) handles: BTreeMap<u64, (Inode, PathBuf)>,
    pub(super) next_handle: u64,
    pub(super) locked: BTreeSet<Inode>,
    /// For each file with reserved space, the length up to which it is reserved.
    pub(super) reserved: BTreeMap<Inode, u64>,
    pub(super) capacity: u64,
    pub(super) record_sites: bool,
    /// The stack of the first operation that the last plan made fail.
    pub(super) injected_at: Option<Arc<Backtrace>>,
    /// The number of reads that returned wrong data.
    pub(super) wrong_reads: usize,
    /// The number of writes that were damaged silently.
    pub(super) wrong_writes: usize,
}

impl State {
    pub(super) fn file(&self, call: Call, path: &Path) -> Result<Inode> {
        let Some(inode) = self.live.lookup(path) else {
            return failed(call, path, ErrorKind::NotFound);
        };
        match self.live.file(inode) {
            Some(_) => Ok(inode),
            None => failed(call, path, ErrorKind::IsADirectory),
        }
    }

    pub(super) fn directory(&self, call: Call, path: &Path) -> Result<Inode> {
        let Some(inode) = self.live.lookup(path) else {
            return failed(call, path, ErrorKind::NotFound);
        };
        match self.live.directory(inode) {
            Some(_) => Ok(inode),
            None => failed(call, path, ErrorKind::NotADirectory),
        }
    }

    /// Resolves `path` to its directory entry and the file there, if any.
    pub(super) fn place(&self, call: Call, path: &Path) -> Result<(Name, Option<Inode>)> {
        let Some((directory, text)) = self.live.parent(path) else {
            return failed(call, path, ErrorKind::NotFound);
        };
        let names = self.live.directory(directory);
        let found = names.and_then(|names| names.get(&text).copied());
        Ok((Name { directory, text }, found))
    }

    /// Resolves `path` to a directory entry that must be free.
    pub(super) fn free_place(&self, call: Call, path: &Path) -> Result<Name> {
        match self.place(call, path)? {
            (name, None) => Ok(name),
            (_, Some(_)) => failed(call, path, ErrorKind::AlreadyExists),
        }
    }

    pub(super) fn new_inode(&mut self) -> Inode {
        self.next_inode += 1;
        self.next_inode - 1
    }

    /// Drops a file that has neither a name nor a handle.
    pub(super) fn release(&mut self, inode: Inode) {
        let open = self.handles.values().any(|(held, _)| *held == inode);
        if !open && !self.live.is_named(inode) {
            self.live.nodes.remove(&inode);
            self.reserved.remove(&inode);
        }
    }

    pub(super) fn free(&self) -> u64 {
        let reserved: u64 = self
            .reserved
            .iter()
            .map(|(inode, up_to)| {
                let len = self.live.file(*inode).map_or(0, |bytes| bytes.len() as u64);
                up_to.saturating_sub(len)
            })
            .sum();
        self.capacity
            .saturating_sub(self.live.used().saturating_add(reserved))
    }

    /// The number of bytes, up to `wanted`, by which `inode` can grow.
    pub(super) fn room(&self, inode: Inode, wanted: usize) -> usize {
        if self.capacity == u64::MAX {
            return wanted;
        }
        let len = self.live.file(inode).map_or(0, |bytes| bytes.len() as u64);
        let reserved = self
            .reserved
            .get(&inode)
            .map_or(0, |up_to| up_to.saturating_sub(len));
        let room = self.free().saturating_add(reserved);
        wanted.min(usize::try_from(room).unwrap_or(usize::MAX))
    }
}
