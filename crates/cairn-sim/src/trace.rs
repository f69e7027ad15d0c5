//! Traces of file operations, and their replay, which tracks durability.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{DiskImage, Inode, Name, Tree};
use crate::images::CrashModel;

/// The kind of a file operation, for messages and fault plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "each variant is named after the call")]
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
    /// A store into a mapped file. It cannot fail, and is interrupted if the process dies.
    Store,
    Sync,
    Truncate,
    Allocate,
    Close,
}

impl Call {
    /// True if the operation changes the disk or makes changes durable.
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

    /// True if the operation opens a descriptor.
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

/// A file operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The kind of the operation.
    pub call: Call,
    /// The path as passed by the caller; of a rename, the old path.
    pub path: Arc<Path>,
    /// The call site, if recorded.
    pub site: Option<Arc<str>>,
    /// The effect of the operation; `None` if it changed nothing or failed.
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
            Some(Change::SyncReverted { .. }) => write!(f, " failed and reverted")?,
            Some(Change::Rename { to, .. }) => write!(f, " to {}", to.text)?,
            _ => {}
        }
        match &self.site {
            Some(site) => write!(f, ", {site}"),
            None => Ok(()),
        }
    }
}

/// A change of a disk.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names of the fields are self-explanatory")]
pub enum Change {
    /// A new, empty file.
    Create { name: Name, inode: Inode },
    /// A new, empty directory.
    CreateDirectory { name: Name, inode: Inode },
    /// A new name of a file.
    Link { name: Name, inode: Inode },
    /// Removal of a name of a file or an empty directory.
    Unlink { name: Name, inode: Inode },
    /// Renaming of a file or directory. A previous holder of the new name loses it.
    Rename { from: Name, to: Name, inode: Inode },
    /// A write to a file.
    Write {
        inode: Inode,
        offset: usize,
        data: Arc<[u8]>,
    },
    /// A change of a file's length.
    Truncate { inode: Inode, len: usize },
    /// Durability of a file's content and length.
    Sync { inode: Inode },
    /// A failed sync after which the kernel has marked the pages clean: a later sync succeeds without writing
    /// them.
    SyncFailed { inode: Inode },
    /// A failed sync that reverts the file to its last durable state.
    SyncReverted { inode: Inode, durable: Arc<[u8]> },
    /// Durability of the entries of a directory.
    SyncDirectory { directory: Inode },
}

impl Change {
    /// The names added or removed by this change.
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

    /// The file whose content or length this change affects.
    fn data_of(&self) -> Option<Inode> {
        match self {
            Change::Write { inode, .. } | Change::Truncate { inode, .. } => Some(*inode),
            _ => None,
        }
    }
}

/// All operations on a disk since its first use.
#[derive(Clone, Debug)]
pub struct Trace {
    pub(crate) initial: DiskImage,
    pub(crate) operations: Vec<Operation>,
}

impl Trace {
    /// The number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// True if there are no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The operations, in order.
    #[must_use]
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }

    /// The disk images that a crash after the first `at` operations may leave. For many points of one trace
    /// use [`Trace::replay`], which is cheaper.
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

    /// Starts a replay before the first operation.
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

    /// A hash of the trace, for checks of reproducibility.
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

/// The state between two operations of a trace: the current content, the durable content, and the pending
/// changes between the two.
#[derive(Clone)]
pub struct Replay<'t> {
    pub(crate) trace: &'t Trace,
    at: usize,
    pub(crate) live: Tree,
    pub(crate) durable: Tree,
    /// Pending changes of the content of each file, in order.
    pub(crate) data: BTreeMap<Inode, Vec<Pending>>,
    /// Pending changes of names, in order, as indexes of operations.
    pub(crate) names: Vec<usize>,
    /// The content of removed files, which reused blocks may still have.
    pub(crate) stale: Vec<Arc<Vec<u8>>>,
}

/// A pending change of a file's content or length.
#[derive(Clone, Copy)]
pub(crate) struct Pending {
    /// The index of the operation.
    pub(crate) operation: usize,
    /// True if the kernel dropped it because of a failed sync.
    pub(crate) lost: bool,
}

/// The number of removed files whose content is kept.
const STALE_KEPT: usize = 4;

impl Replay<'_> {
    /// The number of operations replayed.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// The change made by operation `index`.
    pub(crate) fn change(&self, index: usize) -> &Change {
        self.trace.operations[index]
            .change
            .as_ref()
            .expect("only operations with a change are pending")
    }

    /// Replays the next operation. Returns false if there is none.
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

    /// The content of a file that is certain to survive a power failure.
    #[must_use]
    pub(crate) fn durable(&self, inode: Inode) -> Arc<[u8]> {
        let bytes = self.durable.file(inode);
        bytes.map_or_else(|| Arc::from([]), |bytes| Arc::from(bytes.as_slice()))
    }

    /// True if the last replayed operation affected what a crash may leave.
    #[must_use]
    pub fn changed(&self) -> bool {
        self.at == 0 || self.trace.operations[self.at - 1].change.is_some()
    }

    /// Makes the entries of `directory` durable, along with earlier changes of names related to them by a
    /// rename: renames are atomic across directories.
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

/// The last component of a path.
pub(crate) fn file_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Makes a shared path.
pub(crate) fn shared(path: &Path) -> Arc<Path> {
    Arc::from(PathBuf::from(path))
}
