//! The in-memory file system: for transient databases and for tests.
//!
//! The implementation follows the contract of the trait. Files live as long as the file system, so that a database can be
//! closed and reopened, but not beyond the process. There is no size limit; a growing file takes up to twice
//! its length. Crashes and faults are simulated by `cairn-sim`.

use std::collections::BTreeMap;
use std::io::{Error as IoError, ErrorKind};
use std::path::{Component, Path, PathBuf};

use cairn_types::{Error, Result, Veil};

use crate::clock::Clock;
use crate::fs::{
    FileLock, FileMode, FileSystem, PathKind, RandomAccessFile, Status, WritableFile,
    status_of_each,
};
use crate::posix::SystemClock;
use crate::sync::{Arc, AtomicU64, Mutex, Ordering, RwLock};

/// An in-memory file system. Clones share their files.
#[derive(Clone)]
pub struct MemFileSystem {
    tree: Arc<Mutex<Tree>>,
}

impl std::fmt::Debug for MemFileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemFileSystem").finish_non_exhaustive()
    }
}

/// All names and held locks.
struct Tree {
    nodes: BTreeMap<PathBuf, Node>,
    locked: Vec<PathBuf>,
}

/// The target of a name.
#[derive(Clone)]
enum Node {
    Directory,
    File(Contents),
}

/// A file, shared by its names and open handles.
type Contents = Arc<MemFile>;

/// The content and modification time of a file.
#[derive(Default)]
struct MemFile {
    bytes: RwLock<Vec<u8>>,
    /// Microseconds since 1970.
    modified: AtomicU64,
}

impl MemFile {
    fn new() -> Contents {
        let file = Contents::default();
        file.touch();
        file
    }

    /// Sets the modification time.
    fn touch(&self) {
        // Relaxed: the number orders no other access.
        self.modified
            .store(SystemClock.wall_micros(), Ordering::Relaxed);
    }
}

/// The free space reported for an empty file system.
const CAPACITY: u64 = 1 << 40;

impl MemFileSystem {
    /// Creates a file system with an empty root directory.
    #[must_use]
    pub fn new() -> MemFileSystem {
        MemFileSystem {
            tree: Arc::new(Mutex::new(Tree {
                nodes: BTreeMap::from([(PathBuf::from("/"), Node::Directory)]),
                locked: Vec::new(),
            })),
        }
    }
}

impl Default for MemFileSystem {
    fn default() -> MemFileSystem {
        MemFileSystem::new()
    }
}

/// The absolute form of `path`. The root is the working directory, and there are no links.
fn absolute(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for part in path.components() {
        match part {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
    }
    out
}

fn failed<T>(doing: &str, path: &Path, kind: ErrorKind) -> Result<T> {
    Err(Error::io(doing, path, IoError::from(kind)))
}

impl Tree {
    fn file(&self, doing: &str, path: &Path) -> Result<Contents> {
        match self.nodes.get(&absolute(path)) {
            Some(Node::File(contents)) => Ok(Arc::clone(contents)),
            Some(Node::Directory) => failed(doing, path, ErrorKind::IsADirectory),
            None => failed(doing, path, ErrorKind::NotFound),
        }
    }

    /// Adds the name `path`, which must not exist, in a directory that must exist.
    fn add(&mut self, doing: &str, path: &Path, contents: Contents) -> Result<()> {
        let key = absolute(path);
        if self.nodes.contains_key(&key) {
            return failed(doing, path, ErrorKind::AlreadyExists);
        }
        match key.parent().and_then(|parent| self.nodes.get(parent)) {
            Some(Node::Directory) => {}
            Some(Node::File(_)) => return failed(doing, path, ErrorKind::NotADirectory),
            None => return failed(doing, path, ErrorKind::NotFound),
        }
        self.nodes.insert(key, Node::File(contents));
        Ok(())
    }

    fn directory(&self, doing: &str, path: &Path) -> Result<PathBuf> {
        let key = absolute(path);
        match self.nodes.get(&key) {
            Some(Node::Directory) => Ok(key),
            Some(Node::File(_)) => failed(doing, path, ErrorKind::NotADirectory),
            None => failed(doing, path, ErrorKind::NotFound),
        }
    }

    /// The names in `dir`, an absolute path.
    fn names(&self, dir: &Path) -> Vec<String> {
        // Everything beneath a directory sorts after it.
        self.nodes
            .range(dir.to_owned()..)
            .map(|(path, _)| path)
            .take_while(|path| path.starts_with(dir))
            .filter(|path| path.parent() == Some(dir))
            .filter_map(|path| path.file_name()?.to_str().map(str::to_owned))
            .collect()
    }
}

impl FileSystem for MemFileSystem {
    fn open(&self, path: &Path, _mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        let contents = self.tree.lock().file("open", path)?;
        Ok(Arc::new(MemReader {
            contents,
            path: path.to_owned(),
        }))
    }

    fn create(&self, path: &Path, _mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let contents = MemFile::new();
        let shared = Arc::clone(&contents);
        self.tree.lock().add("create", path, shared)?;
        Ok(Arc::new(MemWriter::new(contents, path)))
    }

    fn open_append(&self, path: &Path, _mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let contents = self.tree.lock().file("open", path)?;
        Ok(Arc::new(MemWriter::new(contents, path)))
    }

    fn open_overwrite(&self, path: &Path, _mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        let contents = self.tree.lock().file("open", path)?;
        let mut writer = MemWriter::new(contents, path);
        writer.over = Some(crate::sync::AtomicUsize::new(0));
        Ok(Arc::new(writer))
    }

    fn status(&self, path: &Path) -> Result<Status> {
        match self.tree.lock().nodes.get(&absolute(path)) {
            Some(Node::File(file)) => Ok(Status {
                len: file.bytes.read().len() as u64,
                kind: PathKind::File,
                modified_micros: file.modified.load(Ordering::Relaxed),
            }),
            Some(Node::Directory) => Ok(Status {
                len: 0,
                kind: PathKind::Directory,
                modified_micros: 0,
            }),
            None => failed("look at", path, ErrorKind::NotFound),
        }
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        status_of_each(self, dir, names)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let tree = self.tree.lock();
        let dir = tree.directory("list", dir)?;
        Ok(tree.names(&dir))
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let mut tree = self.tree.lock();
        let key = absolute(dir);
        for ancestor in key.ancestors() {
            if let Some(Node::File(_)) = tree.nodes.get(ancestor) {
                return failed("create directory", dir, ErrorKind::NotADirectory);
            }
        }
        for ancestor in key.ancestors() {
            tree.nodes.insert(ancestor.to_owned(), Node::Directory);
        }
        Ok(())
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        let mut tree = self.tree.lock();
        let key = tree.directory("remove directory", dir)?;
        if !tree.names(&key).is_empty() {
            return failed("remove directory", dir, ErrorKind::DirectoryNotEmpty);
        }
        tree.nodes.remove(&key);
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut tree = self.tree.lock();
        tree.file("remove", path)?;
        tree.nodes.remove(&absolute(path));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut tree = self.tree.lock();
        let (old, new) = (absolute(from), absolute(to));
        match tree.nodes.get(&old) {
            None => return failed("rename", from, ErrorKind::NotFound),
            Some(Node::Directory) => {
                if tree.nodes.contains_key(&new) {
                    return failed("rename to", to, ErrorKind::AlreadyExists);
                }
                let moved: Vec<PathBuf> = tree
                    .nodes
                    .keys()
                    .filter(|path| path.starts_with(&old))
                    .cloned()
                    .collect();
                for path in moved {
                    let node = tree.nodes.remove(&path);
                    let below = path
                        .strip_prefix(&old)
                        .expect("the path starts with the old name");
                    let target = if below.as_os_str().is_empty() {
                        new.clone()
                    } else {
                        new.join(below)
                    };
                    tree.nodes.extend(node.map(|node| (target, node)));
                }
                return Ok(());
            }
            Some(Node::File(_)) => {}
        }
        let contents = tree.file("rename", from)?;
        if old == new {
            return Ok(());
        }
        if let Some(Node::File(_)) = tree.nodes.get(&new) {
            tree.nodes.remove(&new);
        }
        tree.add("rename to", to, contents)?;
        tree.nodes.remove(&old);
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let mut tree = self.tree.lock();
        let contents = tree.file("link", from)?;
        tree.add("link to", to, contents)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.tree.lock().directory("sync directory", dir)?;
        Ok(())
    }

    fn canonical(&self, path: &Path) -> Result<PathBuf> {
        self.status(path)?;
        Ok(absolute(path))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let mut tree = self.tree.lock();
        let key = absolute(path);
        if tree.locked.contains(&key) {
            return failed("lock", path, ErrorKind::WouldBlock);
        }
        if !tree.nodes.contains_key(&key) {
            tree.add("lock", path, MemFile::new())?;
        }
        tree.locked.push(key.clone());
        Ok(Box::new(MemLock {
            tree: Arc::clone(&self.tree),
            path: key,
        }))
    }

    fn free_space(&self, _path: &Path) -> Result<u64> {
        let tree = self.tree.lock();
        let used: usize = tree
            .nodes
            .values()
            .map(|node| match node {
                Node::File(file) => file.bytes.read().len(),
                Node::Directory => 0,
            })
            .sum();
        Ok(CAPACITY.saturating_sub(used as u64))
    }
}

struct MemLock {
    tree: Arc<Mutex<Tree>>,
    path: PathBuf,
}

impl FileLock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.tree.lock().locked.retain(|path| *path != self.path);
    }
}

struct MemReader {
    contents: Contents,
    path: PathBuf,
}

impl RandomAccessFile for MemReader {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let contents = self.contents.bytes.read();
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = contents.get(start..).unwrap_or(&[]);
        let len = rest.len().min(buf.len());
        buf[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    crate::derived_reads!();
    crate::no_hints!();

    fn len(&self) -> Result<u64> {
        Ok(self.contents.bytes.read().len() as u64)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

struct MemWriter {
    contents: Contents,
    path: PathBuf,
    closed: crate::sync::AtomicBool,
    /// The write position in a file that is overwritten.
    over: Option<crate::sync::AtomicUsize>,
}

impl MemWriter {
    fn new(contents: Contents, path: &Path) -> MemWriter {
        MemWriter {
            contents,
            path: path.to_owned(),
            closed: crate::sync::AtomicBool::new(false),
            over: None,
        }
    }

    fn open(&self, doing: &str) -> Result<()> {
        match self.closed.load(Ordering::Relaxed) {
            true => Err(Error::io_text(format!(
                "{doing} {}: the file is closed",
                self.path.display()
            ))),
            false => Ok(()),
        }
    }
}

impl WritableFile for MemWriter {
    fn append_veiled(&self, data: &[u8], _veils: &[Veil]) -> Result<()> {
        self.open("write")?;
        self.contents.touch();
        let mut contents = self.contents.bytes.write();
        if let Some(over) = &self.over {
            let at = over.fetch_add(data.len(), Ordering::Relaxed);
            let old = contents.len().saturating_sub(at).min(data.len());
            contents[at..at + old].copy_from_slice(&data[..old]);
            contents.extend_from_slice(&data[old..]);
            return Ok(());
        }
        contents.extend_from_slice(data);
        Ok(())
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self, _full: bool) -> Result<()> {
        self.open("sync")
    }

    fn start_writeback(&self, _offset: u64, _len: u64) -> Result<()> {
        Ok(())
    }

    fn allocate(&self, _len: u64) -> Result<()> {
        Ok(())
    }

    fn truncate(&self, len: u64) -> Result<()> {
        self.open("truncate")?;
        let len = usize::try_from(len)
            .map_err(|_| Error::invalid_argument("no file in memory is that long"))?;
        self.contents.touch();
        self.contents.bytes.write().resize(len, 0);
        if let Some(over) = &self.over {
            over.store(len, Ordering::Relaxed);
        }
        Ok(())
    }

    fn len(&self) -> u64 {
        match &self.over {
            Some(over) => over.load(Ordering::Relaxed) as u64,
            None => self.contents.bytes.read().len() as u64,
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    crate::not_mapped!();

    fn close(&self) -> Result<()> {
        if !self.closed.swap(true, Ordering::Relaxed) {
            // The file is complete: unused capacity is freed.
            self.contents.bytes.write().shrink_to_fit();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_system_follows_the_contract() {
        crate::posix::conformance(&MemFileSystem::new(), Path::new("/db"));
    }

    #[test]
    fn writes_set_the_modification_time() {
        let fs = MemFileSystem::new();
        let path = Path::new("/f");
        let before = SystemClock.wall_micros();
        let file = fs.create(path, FileMode::default()).unwrap();
        file.append(b"x").unwrap();
        let written = fs.status(path).unwrap().modified_micros;
        assert!(written >= before);
        SystemClock.sleep(std::time::Duration::from_millis(2));
        file.sync(true).unwrap();
        assert_eq!(fs.status(path).unwrap().modified_micros, written);
        file.truncate(0).unwrap();
        assert!(fs.status(path).unwrap().modified_micros > written);
    }

    #[test]
    fn listing_includes_direct_children_only() {
        let fs = MemFileSystem::new();
        for dir in ["/a", "/a/b/c", "/a-", "/ab"] {
            fs.create_dir_all(Path::new(dir)).unwrap();
        }
        for file in ["/a/x", "/a/b/y", "/a-/z", "/ab/z"] {
            fs.create(Path::new(file), FileMode::default()).unwrap();
        }
        assert_eq!(fs.list(Path::new("/a")).unwrap(), ["b", "x"]);
        assert_eq!(fs.list(Path::new("/a/b")).unwrap(), ["c", "y"]);
        assert_eq!(fs.list(Path::new("/")).unwrap(), ["a", "a-", "ab"]);
    }

    #[test]
    fn locks_are_exclusive_across_spellings_of_the_path() {
        let fs = MemFileSystem::new();
        fs.create_dir_all(Path::new("/db")).unwrap();
        let held = fs.lock(Path::new("/db/LOCK")).unwrap();
        assert!(fs.clone().lock(Path::new("/db/x/../LOCK")).is_err());
        drop(held);
        fs.lock(Path::new("db/LOCK")).unwrap();
    }
}
