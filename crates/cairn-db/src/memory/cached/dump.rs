//! Dumping the cached blocks of a database to a file, and loading them after a restart.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::cache_dump::{
    DumpEntry, DumpHeader, DumpRecord, HEADER_LEN, NO_LEVEL, RECORD_LEN,
};
use cairn_memory::{BlockCache, CacheEntry, CacheKey, CachePriority, CacheRole};
use cairn_platform::fs::{FileMode, remove_if_there};
use cairn_platform::{Allocation, Buffer, FileSystem, RandomAccessFile, WritableFile};
use cairn_types::{Error, Malformed, Result};

use super::groups::{CacheGroup, Groups};
use crate::db::Db;
use crate::shared::Shared;

/// Size of the reads and writes of a dump, in bytes.
const WINDOW: usize = 1 << 20;

/// Maximum cache overhead per block, in bytes.
const OVERHEAD: usize = 256;

/// The dumped roles, by their numbers in a dump.
const ROLES: [CacheRole; 5] = [
    CacheRole::Data,
    CacheRole::Index,
    CacheRole::Filter,
    CacheRole::FilterMeta,
    CacheRole::Dictionary,
];

/// The priorities, by their numbers in a dump.
const PRIORITIES: [CachePriority; 3] = [
    CachePriority::Bottom,
    CachePriority::Low,
    CachePriority::High,
];

/// The content of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheDump {
    /// The number of blocks.
    pub blocks: u64,
    /// The number of bytes in them.
    pub bytes: u64,
}

/// The result of loading a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheLoad {
    /// Blocks that were inserted.
    pub loaded: CacheDump,
    /// Blocks of files that are not, or no longer, part of the database.
    pub unknown: u64,
    /// Blocks that were already cached, and those that did not fit in the cache.
    pub left_out: u64,
}

/// The entries of a dump, by role, family and level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDumpContent {
    /// The time of the dump, in seconds since 1970.
    pub seconds: u64,
    /// The blocks. Their ages are those at the time of the dump.
    pub all: CacheDump,
    /// The blocks in groups, ordered by role, family and level.
    pub groups: Vec<CacheGroup>,
}

impl CacheDumpContent {
    /// Reads and verifies the dump `path`.
    ///
    /// # Errors
    ///
    /// `IoError`; `Corruption` if the file is damaged; `NotSupported` for a dump of another version.
    pub fn read(fs: &dyn FileSystem, path: &Path) -> Result<CacheDumpContent> {
        let file = fs.open(path, FileMode::default())?;
        let mut groups = Groups::default();
        let (header, all) = read(&*file, |entry, block| {
            let (role, _) = class_of(entry)?;
            let level = (entry.level != NO_LEVEL).then_some(usize::from(entry.level));
            groups.add(
                (role.name(), Some(entry.family), level),
                block.len() as u64,
                entry.hits,
                entry.age_seconds,
            );
            Ok(())
        })?;
        Ok(CacheDumpContent {
            seconds: header.seconds,
            all,
            groups: groups.finish(),
        })
    }
}

/// The role and the priority of an entry.
fn class_of(entry: &DumpEntry) -> std::result::Result<(CacheRole, CachePriority), Malformed> {
    let role = ROLES.get(usize::from(entry.role));
    let priority = PRIORITIES.get(usize::from(entry.priority));
    role.copied()
        .zip(priority.copied())
        .ok_or_else(|| Malformed::at(4, "role or priority of a cache dump"))
}

impl Db {
    /// Writes the cached blocks of the database to the file `path`, replacing any existing file, for
    /// [`Db::load_cache`]. The most valuable blocks come first: metadata before data, then by hits. Each
    /// block written counts as a hit. Reads and writes proceed meanwhile.
    ///
    /// # Errors
    ///
    /// `IoError`; an existing file is then unchanged.
    pub fn dump_cache(&self, path: &Path) -> Result<CacheDump> {
        let shared = self.shared();
        shared.context.check_reader()?;
        let fs = &*shared.context.world.fs;
        let mut temporary = OsString::from(path);
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        remove_if_there(fs, &temporary)?;
        let file = fs.create(&temporary, FileMode::default())?;
        let dumped = write(shared, file)
            .and_then(|dumped| {
                fs.rename(&temporary, path)?;
                Ok(dumped)
            })
            .inspect_err(|_| {
                remove_if_there(fs, &temporary).ok();
            })?;
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        fs.sync_dir(dir.unwrap_or(Path::new(".")))?;
        Ok(dumped)
    }

    /// Inserts the blocks of the dump `path` into the block caches, until they are full. Only blocks of
    /// tables in the database are loaded, so that the dump may be of an older state or another database.
    /// Reads and writes proceed meanwhile.
    ///
    /// # Errors
    ///
    /// `IoError`; `Corruption` if the file is damaged (the blocks before the damage have been inserted);
    /// `NotSupported` for a dump of another version.
    pub fn load_cache(&self, path: &Path) -> Result<CacheLoad> {
        let shared = self.shared();
        shared.context.check_reader()?;
        let file = shared.context.world.fs.open(path, FileMode::default())?;
        let owners = shared.owners();
        let families = shared.catalog.families().clone();
        let mut load = CacheLoad::default();
        read(&*file, |entry, block| {
            let key = CacheKey {
                high: entry.key[0],
                low: entry.key[1],
            };
            let owner = owners.find(&key);
            let family = owner.and_then(|owner| families.get(owner.family));
            let tables = family.map(|family| family.tables());
            let cached =
                tables.and_then(|tables| Some((tables.cache.clone()?, tables.lowest_tier)));
            let Some((cache, lowest)) = cached else {
                load.unknown += 1;
                return Ok(());
            };
            let (role, priority) = class_of(entry)?;
            let has_room = cache.usage() + block.len() + OVERHEAD <= cache.capacity();
            let insert = || {
                let block = Buffer::copy_of(block, Allocation::of_kind(cache.options().memory));
                cache.insert_down_to(key, block, role, priority, lowest)
            };
            let is_loaded = has_room && !cache.contains(&key) && insert().is_kept();
            if !is_loaded {
                load.left_out += 1;
                return Ok(());
            }
            load.loaded.blocks += 1;
            load.loaded.bytes += block.len() as u64;
            Ok(())
        })?;
        Ok(load)
    }
}

/// Writes a dump to `file`.
fn write(shared: &Shared, file: Arc<dyn WritableFile>) -> Result<CacheDump> {
    let header = DumpHeader::new(shared.context.world.clock.wall_seconds());
    let owners = shared.owners();
    let mut dumped = CacheDump::default();
    let mut bytes = header.encode();
    for cache in shared.block_caches() {
        for entry in most_valuable_first(&cache) {
            let Some(owner) = owners.find(&entry.key) else {
                continue;
            };
            let role = ROLES.iter().position(|role| *role == entry.role);
            let (Some(role), Some(block)) = (role, cache.lookup(&entry.key, entry.role)) else {
                continue;
            };
            let Ok(len) = u32::try_from(block.len()) else {
                continue;
            };
            let record = DumpRecord::Entry(DumpEntry {
                role: role as u8,
                priority: entry.priority as u8,
                level: u8::try_from(owner.level).unwrap_or(NO_LEVEL),
                family: owner.family,
                age_seconds: entry.age_seconds,
                hits: entry.hits,
                key: [entry.key.high, entry.key.low],
                len,
            });
            bytes.extend_from_slice(&record.encode(&header, &block));
            bytes.extend_from_slice(&block);
            dumped.blocks += 1;
            dumped.bytes += block.len() as u64;
            if bytes.len() >= WINDOW {
                file.append(&bytes)?;
                bytes.clear();
            }
        }
    }
    let end = DumpRecord::End {
        entries: dumped.blocks,
        bytes: dumped.bytes,
    };
    bytes.extend_from_slice(&end.encode(&header, &[]));
    file.append(&bytes)?;
    file.sync(false)?;
    file.close()?;
    Ok(dumped)
}

/// Returns the entries of `cache`, the most valuable first.
fn most_valuable_first(cache: &BlockCache) -> Vec<CacheEntry> {
    let mut entries = Vec::new();
    cache.for_each_entry(|entry| entries.push(entry));
    entries.sort_by_key(|entry| {
        let rank = std::cmp::Reverse((entry.priority, entry.hits));
        (rank, entry.age_seconds)
    });
    entries
}

/// Calls `take` with the entries of the dump `file` and their blocks. Returns the header and the totals.
fn read(
    file: &dyn RandomAccessFile,
    mut take: impl FnMut(&DumpEntry, &[u8]) -> std::result::Result<(), Malformed>,
) -> Result<(DumpHeader, CacheDump)> {
    let mut dump = Window::new(file)?;
    let header = dump.decoded(HEADER_LEN, DumpHeader::decode)?;
    let mut sum = CacheDump::default();
    loop {
        let at = dump.at();
        let bad = |error: Malformed| error.in_file(file.path().display(), at);
        let (bytes, record) = dump.decoded(RECORD_LEN, |bytes| {
            let bytes: [u8; RECORD_LEN] = bytes.try_into().expect("the length of a record");
            Ok((bytes, DumpRecord::decode(&bytes)?))
        })?;
        match record {
            DumpRecord::Entry(entry) => {
                let block = dump.take(entry.len as usize)?;
                DumpRecord::verify(&header, &bytes, block).map_err(bad)?;
                take(&entry, block).map_err(bad)?;
                sum.blocks += 1;
                sum.bytes += block.len() as u64;
            }
            DumpRecord::End {
                entries,
                bytes: all,
            } => {
                DumpRecord::verify(&header, &bytes, &[]).map_err(bad)?;
                let found = (sum.blocks, sum.bytes, dump.left());
                if found == (entries, all, 0) {
                    return Ok((header, sum));
                }
                return Err(bad(Malformed::mismatch(
                    24,
                    "blocks, bytes and rest of a cache dump",
                    format_args!("{:?}", (entries, all, 0)),
                    format_args!("{found:?}"),
                )));
            }
        }
    }
}

/// A file that is read sequentially, in pieces.
struct Window<'f> {
    file: &'f dyn RandomAccessFile,
    len: u64,
    /// Bytes that were read, and the position of the next one in them.
    read: Vec<u8>,
    next: usize,
    /// The file offset after the bytes that were read.
    end: u64,
}

impl<'f> Window<'f> {
    fn new(file: &'f dyn RandomAccessFile) -> Result<Window<'f>> {
        Ok(Window {
            file,
            len: file.len()?,
            read: Vec::new(),
            next: 0,
            end: 0,
        })
    }

    /// Returns the file offset of the next byte.
    fn at(&self) -> u64 {
        self.end - (self.read.len() - self.next) as u64
    }

    /// Returns the number of bytes from the next one to the end of the file.
    fn left(&self) -> u64 {
        self.len - self.at()
    }

    /// Decodes the next `count` bytes.
    fn decoded<T>(
        &mut self,
        count: usize,
        decode: impl FnOnce(&[u8]) -> std::result::Result<T, Malformed>,
    ) -> Result<T> {
        let (at, path) = (self.at(), self.file.path());
        decode(self.take(count)?).map_err(|error| error.in_file(path.display(), at))
    }

    /// Returns the next `count` bytes. Allocates no more than the file contains.
    fn take(&mut self, count: usize) -> Result<&[u8]> {
        if count as u64 > self.left() {
            return Err(Error::corruption(format!(
                "{} at {}: expected {count} bytes, found {}: the dump is incomplete",
                self.file.path().display(),
                self.at(),
                self.left()
            )));
        }
        let have = self.read.len() - self.next;
        if have < count {
            self.read.drain(..self.next);
            self.next = 0;
            let more = (self.len - self.end).min((count - have).max(WINDOW) as u64) as usize;
            self.read.resize(have + more, 0);
            let read = self.file.read_up_to_end(self.end, &mut self.read[have..])?;
            if read < more {
                return Err(Error::corruption(format!(
                    "{}: the dump became shorter while it was read",
                    self.file.path().display()
                )));
            }
            self.end += more as u64;
        }
        let from = self.next;
        self.next += count;
        Ok(&self.read[from..self.next])
    }
}
