//! File trees: the content of a disk at one point in time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cairn_platform::FileSystem;
use cairn_types::Result;

use crate::trace::Change;

/// The number of a file or directory. Numbers are never reused.
pub type Inode = u64;

/// The root directory.
pub const ROOT: Inode = 0;

/// A file or directory.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// The content of a file.
    File(Arc<Vec<u8>>),
    /// The entries of a directory.
    Directory(Arc<BTreeMap<String, Inode>>),
}

/// Files and directories by number. Some may have no name: open but unlinked files, and files whose
/// directory entries would not survive a crash.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) nodes: BTreeMap<Inode, Node>,
}

impl Tree {
    pub(crate) fn empty() -> Tree {
        Tree {
            nodes: BTreeMap::from([(ROOT, Node::Directory(Arc::default()))]),
        }
    }

    pub(crate) fn file(&self, inode: Inode) -> Option<&Arc<Vec<u8>>> {
        match self.nodes.get(&inode) {
            Some(Node::File(bytes)) => Some(bytes),
            _ => None,
        }
    }

    pub(crate) fn directory(&self, inode: Inode) -> Option<&BTreeMap<String, Inode>> {
        match self.nodes.get(&inode) {
            Some(Node::Directory(names)) => Some(names),
            _ => None,
        }
    }

    fn names_mut(&mut self, directory: Inode) -> Option<&mut BTreeMap<String, Inode>> {
        match self.nodes.get_mut(&directory) {
            Some(Node::Directory(names)) => Some(Arc::make_mut(names)),
            _ => None,
        }
    }

    /// Resolves `path`. The working directory is the root.
    pub(crate) fn lookup(&self, path: &Path) -> Option<Inode> {
        let mut at = ROOT;
        for name in parts(path) {
            at = *self.directory(at)?.get(&name)?;
        }
        Some(at)
    }

    /// The parent directory of `path`, and its last component.
    pub(crate) fn parent(&self, path: &Path) -> Option<(Inode, String)> {
        let mut names = parts(path);
        let last = names.pop()?;
        let mut at = ROOT;
        for name in names {
            at = *self.directory(at)?.get(&name)?;
        }
        self.directory(at)?;
        Some((at, last))
    }

    /// Creates a node for the file or directory that `change` creates, if there is none.
    pub(crate) fn make_node(&mut self, change: &Change) {
        match change {
            Change::Create { inode, .. } => {
                self.nodes
                    .entry(*inode)
                    .or_insert_with(|| Node::File(Arc::default()));
            }
            Change::CreateDirectory { inode, .. } => {
                self.nodes
                    .entry(*inode)
                    .or_insert_with(|| Node::Directory(Arc::default()));
            }
            _ => {}
        }
    }

    /// Applies `change`.
    pub(crate) fn apply(&mut self, change: &Change) {
        self.make_node(change);
        match change {
            Change::Create { name, inode }
            | Change::CreateDirectory { name, inode }
            | Change::Link { name, inode } => {
                if let Some(names) = self.names_mut(name.directory) {
                    names.insert(name.text.clone(), *inode);
                }
            }
            Change::Unlink { name, inode } => self.remove_name(name, *inode),
            Change::Rename { from, to, inode } => {
                self.remove_name(from, *inode);
                if let Some(names) = self.names_mut(to.directory) {
                    names.insert(to.text.clone(), *inode);
                }
            }
            Change::Write {
                inode,
                offset,
                data,
            } => self.write(*inode, *offset, data),
            Change::Truncate { inode, len } => self.set_len(*inode, *len),
            Change::SyncReverted { inode, durable } => {
                self.set_len(*inode, durable.len());
                self.write(*inode, 0, durable);
            }
            Change::Sync { .. } | Change::SyncFailed { .. } | Change::SyncDirectory { .. } => {}
        }
    }

    fn remove_name(&mut self, name: &Name, inode: Inode) {
        if let Some(names) = self.names_mut(name.directory)
            && names.get(&name.text) == Some(&inode)
        {
            names.remove(&name.text);
        }
    }

    /// Writes `data` at `offset`, extending the file with zeros if it is shorter.
    pub(crate) fn write(&mut self, inode: Inode, offset: usize, data: &[u8]) {
        if let Some(Node::File(bytes)) = self.nodes.get_mut(&inode) {
            let bytes = Arc::make_mut(bytes);
            let end = offset + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[offset..end].copy_from_slice(data);
        }
    }

    pub(crate) fn set_len(&mut self, inode: Inode, len: usize) {
        if let Some(Node::File(bytes)) = self.nodes.get_mut(&inode) {
            Arc::make_mut(bytes).resize(len, 0);
        }
    }

    /// The total size of all files.
    pub(crate) fn used(&self) -> u64 {
        let len = |node: &Node| match node {
            Node::File(bytes) => bytes.len() as u64,
            Node::Directory(_) => 0,
        };
        self.nodes.values().map(len).sum()
    }

    /// True if a directory has an entry for `inode`.
    pub(crate) fn is_named(&self, inode: Inode) -> bool {
        inode == ROOT
            || self.nodes.values().any(|node| match node {
                Node::Directory(names) => names.values().any(|named| *named == inode),
                Node::File(_) => false,
            })
    }

    /// The tree without unreachable nodes.
    pub(crate) fn reachable(&self) -> Tree {
        let mut seen = BTreeSet::from([ROOT]);
        let mut queue = vec![ROOT];
        while let Some(at) = queue.pop() {
            for inode in self.directory(at).into_iter().flat_map(BTreeMap::values) {
                if seen.insert(*inode) {
                    queue.push(*inode);
                }
            }
        }
        let kept = self.nodes.iter().filter(|(inode, _)| seen.contains(inode));
        Tree {
            nodes: kept.map(|(inode, node)| (*inode, node.clone())).collect(),
        }
    }
}

/// A directory entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The directory.
    pub directory: Inode,
    /// The name in the directory.
    pub text: String,
}

/// The components of `path`, with `..` and `.` resolved.
fn parts(path: &Path) -> Vec<String> {
    let mut out = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name.to_string_lossy().into_owned()),
            Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
    }
    out
}

/// The absolute form of `path`.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    Path::new("/").join(parts(path).iter().collect::<PathBuf>())
}

/// The content of a disk, from which a simulation can be started. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DiskImage {
    pub(crate) tree: Tree,
}

impl DiskImage {
    /// An empty disk.
    #[must_use]
    pub fn empty() -> DiskImage {
        DiskImage {
            tree: Tree::empty(),
        }
    }

    /// All files with their absolute paths, in path order.
    pub fn files(&self) -> impl Iterator<Item = (PathBuf, &[u8])> {
        let mut found = Vec::new();
        let mut queue = vec![(ROOT, PathBuf::from("/"))];
        while let Some((at, path)) = queue.pop() {
            for (name, inode) in self.tree.directory(at).into_iter().flatten() {
                match self.tree.file(*inode) {
                    Some(bytes) => found.push((path.join(name), bytes.as_slice())),
                    None => queue.push((*inode, path.join(name))),
                }
            }
        }
        found.sort();
        found.into_iter()
    }

    /// The content of the file at `path`, or `None` if there is none.
    #[must_use]
    pub fn file(&self, path: &Path) -> Option<&[u8]> {
        let inode = self.tree.lookup(path)?;
        self.tree.file(inode).map(|bytes| bytes.as_slice())
    }

    /// A hash of the content.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        for (path, bytes) in self.files() {
            path.hash(&mut hasher);
            bytes.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Writes all files to `dir` of another file system, for inspection with other tools.
    ///
    /// # Errors
    ///
    /// Those of `fs`.
    pub fn export(&self, fs: &dyn FileSystem, dir: &Path) -> Result<()> {
        fs.create_dir_all(dir)?;
        for (path, bytes) in self.files() {
            let target = dir.join(path.strip_prefix("/").unwrap_or(&path));
            if let Some(parent) = target.parent() {
                fs.create_dir_all(parent)?;
            }
            let file = fs.create(&target, Default::default())?;
            file.append(bytes)?;
            file.close()?;
        }
        Ok(())
    }
}
