//! The record of a run: every file operation in order, and the replay that knows what was durable.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{DiskImage, Inode, Name, Tree};
use crate::images::CrashModel;

/// What a file operation is, as messages and fault plans call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each is named like the call")]
pub enum Call {
    Open,
    Create,
    OpenAppend,
    OpenOverwrite,
    Status,
    List,
    CreateDirectory,
    RemoveDirectory,
    Remove,
    Rename,
    Link,
    SyncDirectory,
    Lock,
    Read,
    Append,
    /// A store into the mapping of a file. It cannot fail, and ends in its middle where the process does.
    Store,
    Sync,
    Truncate,
    Allocate,
    Close,
}

impl Call {
    /// True if it changes what is on the disk, or makes a change durable.
    pub(crate) fn changes(self) -> bool {
        matches!(
            self,
            Call::Create
                | Call::CreateDirectory
                | Call::RemoveDirectory
                | Call::Remove
                | Call::Rename
                | Call::Link
                | Call::SyncDirectory
                | Call::Append
                | Call::Sync
                | Call::Truncate
                | Call::Allocate
        )
    }

    /// True if it takes a descriptor.
    pub(crate) fn opens(self) -> bool {
        matches!(
            self,
            Call::Open
                | Call::Create
                | Call::OpenAppend
                | Call::OpenOverwrite
                | Call::List
                | Call::SyncDirectory
                | Call::Lock
        )
    }
}

/// One file operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What was called.
    pub call: Call,
    /// The path, as the caller wrote it; of a rename the old one.
    pub path: Arc<Path>,
    /// Where in the source the call was made, if the file system was told to find out.
    pub site: Option<Arc<str>>,
    /// What it did; `None` if it changed nothing (or failed).
    pub change: Option<Change>,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.call, self.path.display())?;
        match &self.change {
            Some(Change::Write { offset, data, .. }) => {
                write!(f, " off {offset} len {}", data.len())?;
            }
            Some(Change::Truncate { len, .. }) => write!(f, " to {len}")?,
            Some(Change::SyncFailed { .. }) => write!(f, " failed")?,
            Some(Change::SyncReverted { .. }) => write!(f, " failed and took back")?,
            Some(Change::Rename { to, .. }) => write!(f, " to {}", to.text)?,
            _ => {}
        }
        match &self.site {
            Some(site) => write!(f, ", {site}"),
            None => Ok(()),
        }
    }
}

/// What an operation does to a disk.
#[derive(Clone, Debug)]
#[expect(
    missing_docs,
    reason = "names, numbers and bytes that say what they are"
)]
pub enum Change {
    /// A new, empty file.
    Create { name: Name, inode: Inode },
    /// A new, empty directory.
    CreateDirectory { name: Name, inode: Inode },
    /// One more name for a file.
    Link { name: Name, inode: Inode },
    /// A name goes away, of a file or an empty directory.
    Unlink { name: Name, inode: Inode },
    /// A file or directory changes its name; what had the new one loses it.
    Rename { from: Name, to: Name, inode: Inode },
    /// Bytes of a file.
    Write {
        inode: Inode,
        offset: usize,
        data: Arc<[u8]>,
    },
    /// The length of a file.
    Truncate { inode: Inode, len: usize },
    /// A file's bytes and length become durable.
    Sync { inode: Inode },
    /// A sync reported an error. The kernel marked the pages clean: a later sync succeeds without
    /// writing them.
    SyncFailed { inode: Inode },
    /// A sync reported an error, and what it could not write is gone at once: the file reads as
    /// it was when it was last durable.
    SyncReverted { inode: Inode, durable: Arc<[u8]> },
    /// The names in a directory become durable.
    SyncDirectory { directory: Inode },
}

impl Change {
    /// The names that this change gives or takes.
    pub(crate) fn names(&self) -> Vec<&Name> {
        match self {
            Change::Create { name, .. }
            | Change::CreateDirectory { name, .. }
            | Change::Link { name, .. }
            | Change::Unlink { name, .. } => vec![name],
            Change::Rename { from, to, .. } => vec![from, to],
            _ => Vec::new(),
        }
    }

    /// The file whose bytes or length this change is about.
    fn data_of(&self) -> Option<Inode> {
        match self {
            Change::Write { inode, .. } | Change::Truncate { inode, .. } => Some(*inode),
            _ => None,
        }
    }
}

/// Everything that happened to a disk since it was first used.
#[derive(Clone, Debug)]
pub struct Trace {
    pub(crate) initial: DiskImage,
    pub(crate) operations: Vec<Operation>,
}

impl Trace {
    /// How many operations there were.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// True if nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The operations, in order.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The disks that a crash after the first `at` operations may leave. For many moments of one
    /// trace [`Trace::replay`] is cheaper.
    pub fn images(
        &self,
        at: usize,
        model: CrashModel,
        seed: u64,
    ) -> impl Iterator<Item = DiskImage> + use<> {
        let mut replay = self.replay();
        while replay.at() < at && replay.step() {}
        replay.images(model, seed)
    }

    /// The state of the disk before the first operation, to be moved on.
    #[must_use]
    pub fn replay(&self) -> Replay<'_> {
        Replay {
            trace: self,
            at: 0,
            live: self.initial.tree.clone(),
            durable: self.initial.tree.clone(),
            data: BTreeMap::new(),
            names: Vec::new(),
            stale: Vec::new(),
        }
    }

    /// A number that equal runs share: for "same seed, same trace".
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        for operation in &self.operations {
            operation.call.hash(&mut hasher);
            operation.path.hash(&mut hasher);
            format!("{:?}", operation.change).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// The disk between two operations of a trace: what reads see, what would survive a power cut
/// for sure, and the changes between the two that may or may not.
#[derive(Clone)]
pub struct Replay<'t> {
    pub(crate) trace: &'t Trace,
    at: usize,
    pub(crate) live: Tree,
    pub(crate) durable: Tree,
    /// Unsynced changes of each file's bytes, in order.
    pub(crate) data: BTreeMap<Inode, Vec<Pending>>,
    /// Unsynced changes of names, in order, as indexes of operations.
    pub(crate) names: Vec<usize>,
    /// Bytes of files that were removed: what reused blocks may still hold.
    pub(crate) stale: Vec<Arc<Vec<u8>>>,
}

/// An unsynced change of a file's bytes or length.
#[derive(Clone, Copy)]
pub(crate) struct Pending {
    /// The index of the operation.
    pub(crate) operation: usize,
    /// True if a failed sync made the kernel forget it.
    pub(crate) lost: bool,
}

/// How many removed files' bytes are remembered.
const STALE_KEPT: usize = 4;

impl Replay<'_> {
    /// How many operations are behind.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// The change that operation `index` made.
    pub(crate) fn change(&self, index: usize) -> &Change {
        self.trace.operations[index]
            .change
            .as_ref()
            .expect("only operations with a change are pending")
    }

    /// Moves behind the next operation. `false` if there is none.
    pub fn step(&mut self) -> bool {
        let index = self.at;
        let Some(operation) = self.trace.operations.get(index) else {
            return false;
        };
        self.at += 1;
        let Some(change) = &operation.change else {
            return true;
        };
        self.remember_stale(change);
        self.live.apply(change);
        match change {
            Change::Sync { inode } => {
                for pending in self.data.remove(inode).unwrap_or_default() {
                    if !pending.lost {
                        let change = self.trace.operations[pending.operation].change.as_ref();
                        self.durable
                            .apply(change.expect("only changes are pending"));
                    }
                }
            }
            Change::SyncFailed { inode } | Change::SyncReverted { inode, .. } => {
                for pending in self.data.get_mut(inode).into_iter().flatten() {
                    pending.lost = true;
                }
            }
            Change::SyncDirectory { directory } => self.sync_names(*directory),
            change => match change.data_of() {
                Some(inode) => self.data.entry(inode).or_default().push(Pending {
                    operation: index,
                    lost: false,
                }),
                None => {
                    self.durable.make_node(change);
                    self.names.push(index);
                }
            },
        }
        true
    }

    /// The bytes of a file that would survive a power cut for sure.
    #[must_use]
    pub(crate) fn durable(&self, inode: Inode) -> Arc<[u8]> {
        let bytes = self.durable.file(inode);
        bytes.map_or_else(|| Arc::from([]), |bytes| Arc::from(bytes.as_slice()))
    }

    /// True if the operation before this moment changed what a crash may leave.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.at == 0 || self.trace.operations[self.at - 1].change.is_some()
    }

    /// Makes the names in `directory` durable, and with them the earlier changes of any name that
    /// a rename ties to it: a rename is atomic across directories.
    fn sync_names(&mut self, directory: Inode) {
        let mut needed: Vec<Name> = Vec::new();
        let mut applied = Vec::new();
        for index in self.names.iter().rev() {
            let names = self.change(*index).names();
            if names
                .iter()
                .any(|name| name.directory == directory || needed.contains(name))
            {
                let mut tied: Vec<Name> = names.into_iter().cloned().collect();
                needed.append(&mut tied);
                applied.push(*index);
            }
        }
        for index in applied.iter().rev() {
            let change = self.trace.operations[*index].change.as_ref();
            self.durable
                .apply(change.expect("only changes are pending"));
        }
        self.names.retain(|index| !applied.contains(index));
    }

    fn remember_stale(&mut self, change: &Change) {
        if let Change::Unlink { inode, .. } = change
            && let Some(bytes) = self.live.file(*inode)
            && !bytes.is_empty()
        {
            if self.stale.len() == STALE_KEPT {
                self.stale.remove(0);
            }
            self.stale.push(Arc::clone(bytes));
        }
    }
}

/// The last part of a path, for classes of files.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// A shared path.
pub(crate) fn shared(path: &Path) -> Arc<Path> {
    Arc::from(PathBuf::from(path))
}
