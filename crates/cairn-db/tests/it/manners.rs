//! Modes of reading files: mapped (`allow_mmap_reads`), and bypassing the page cache.

#![cfg(target_os = "linux")]

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, FamilyDescriptor, OpenRequest, WriteBatch, open};
use cairn_options::{CompactRangeOptions, Compression, DbOptions, FamilyOptions};
use cairn_platform::fs::{FileMode, Status};
use cairn_platform::sync::Mutex;
use cairn_platform::{FileSystem, MemFileSystem, PosixFileSystem, World};
use cairn_platform::{RandomAccessFile, WritableFile, wrapper};
use cairn_types::{Code, Result};

const KEYS: u32 = 2000;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

/// Every tenth value is large, and stored in a blob file.
fn value(n: u32, round: u32) -> Vec<u8> {
    let len = if n.is_multiple_of(10) { 1500 } else { 20 };
    format!("{round}-{n}-").into_bytes().repeat(len / 8)
}

fn open_at(path: &Path, allow_mmap_reads: bool) -> Db {
    let options = DbOptions {
        create_if_missing: true,
        allow_mmap_reads,
        ..DbOptions::default()
    };
    open_with(path, &options, World::posix()).expect("it opens")
}

fn open_with(path: &Path, options: &DbOptions, world: World) -> Result<Db> {
    let family = FamilyOptions {
        enable_blob_files: true,
        min_blob_size: 1000,
        compression: Compression::None,
        disable_auto_compactions: true,
        ..FamilyOptions::default()
    };
    open(&OpenRequest {
        path,
        options,
        families: &[FamilyDescriptor {
            name: "default".to_owned(),
            options: family,
        }],
        others: None,
        read_only: false,
        world,
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the list of mappings is in a file without a length"
)]
/// The names of the files below `dir` that this process has mapped.
fn mapped(dir: &Path) -> Vec<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux lists them");
    let prefix = format!("{}/", dir.display());
    let mut names: Vec<String> = maps
        .lines()
        .filter_map(|line| line.split_once(&prefix))
        .map(|(_, name)| name.to_owned())
        .filter(|name| !name.contains(".log"))
        .collect();
    names.sort();
    names.dedup();
    names
}

fn fill(db: &Db, round: u32) {
    for n in (0..KEYS).filter(|n| n % 3 == round % 3 || round == 0) {
        let mut batch = WriteBatch::new();
        batch.put(&key(n), &value(n, round));
        db.write(&batch).expect("written");
    }
    db.default_family().flush().expect("flushed");
}

fn check(db: &Db) {
    let mut iter = db.iter();
    iter.seek_to_first();
    for n in 0..KEYS {
        let round = [3, 1, 2][(n % 3) as usize];
        let expected = value(n, round);
        let got = db.get(&key(n)).expect("read");
        assert_eq!(got.as_deref(), Some(&expected[..]), "{n}");
        assert!(iter.valid());
        assert_eq!((iter.key(), iter.value()), (&key(n)[..], &expected[..]));
        iter.next();
    }
    assert!(!iter.valid());
    iter.status().expect("no error");
}

#[test]
fn reads_through_mappings_return_the_same_as_reads_by_calls() {
    let dir = tempfile::tempdir().unwrap();
    let db = open_at(dir.path(), true);
    (0..4).for_each(|round| fill(&db, round));
    check(&db);
    let tables = |names: &[String]| names.iter().filter(|name| name.ends_with(".sst")).count();
    let names = mapped(dir.path());
    assert_eq!(tables(&names), 4, "{names:?}");
    assert!(names.iter().any(|name| name.ends_with(".blob")));

    // A compaction reads through mappings as well, and mappings of obsolete files are released.
    db.default_family()
        .compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    check(&db);
    db.close().unwrap();
    drop(db);
    assert_eq!(mapped(dir.path()), [""; 0]);

    for mmap in [false, true] {
        let db = open_at(dir.path(), mmap);
        check(&db);
        assert_eq!(tables(&mapped(dir.path())), usize::from(mmap));
        db.close().unwrap();
    }
}

#[test]
fn a_truncated_table_is_an_error_of_the_read() {
    let dir = tempfile::tempdir().unwrap();
    let db = open_at(dir.path(), true);
    fill(&db, 0);
    db.close().unwrap();
    drop(db);
    let names = PosixFileSystem.list(dir.path()).unwrap();
    let table = names.iter().find(|name| name.ends_with(".sst")).unwrap();
    let db = open_at(dir.path(), true);
    // The table is open, since its tail was read; its first block was not.
    assert_eq!(
        db.get(&key(KEYS - 1)).unwrap().as_deref(),
        Some(&value(KEYS - 1, 0)[..])
    );
    let file = PosixFileSystem
        .open_append(&dir.path().join(table), Default::default())
        .unwrap();
    file.truncate(0).unwrap();
    let error = db.get(&key(1)).unwrap_err();
    assert_eq!(error.code(), Code::Corruption, "{error}");
}

/// Files in memory, and the mode in which each table was opened for reading.
#[derive(Default)]
struct Watched {
    fs: MemFileSystem,
    opened: Mutex<Vec<FileMode>>,
}

impl wrapper::FileSystemWrapper for Watched {
    fn target(&self) -> &dyn FileSystem {
        &self.fs
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        if path.extension().is_some_and(|extension| extension == "sst") {
            self.opened.lock().push(mode);
        }
        self.fs.open(path, mode)
    }
    fn create(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.fs.create(path, mode)
    }
    fn open_append(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.fs.open_append(path, mode)
    }
    fn open_overwrite(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn WritableFile>> {
        self.fs.open_overwrite(path, mode)
    }
    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        cairn_platform::fs::status_of_each(self, dir, names)
    }
    fn status(&self, path: &Path) -> Result<Status> {
        self.fs.status(path)
    }
}

#[test]
fn only_compactions_bypass_the_page_cache_if_configured() {
    for told in [false, true] {
        let watched = Arc::new(Watched::default());
        let world = World {
            fs: watched.clone(),
            ..World::posix()
        };
        let options = DbOptions {
            create_if_missing: true,
            use_direct_io_for_compaction_reads: told,
            ..DbOptions::default()
        };
        let db = open_with(Path::new("/db"), &options, world).unwrap();
        (1..4).for_each(|round| fill(&db, round));
        check(&db);
        let opened = |direct: bool| {
            let opened = watched.opened.lock();
            opened.iter().filter(|mode| mode.direct == direct).count()
        };
        assert_eq!((opened(false), opened(true)), (3, 0));
        db.default_family()
            .compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
        check(&db);
        // The table written by it is opened by the reads.
        assert_eq!((opened(false), opened(true)), (4, if told { 3 } else { 0 }));
    }
}

#[test]
fn mappings_and_reads_past_the_page_cache_exclude_each_other() {
    let mapped = DbOptions {
        create_if_missing: true,
        allow_mmap_reads: true,
        ..DbOptions::default()
    };
    let all = DbOptions {
        use_direct_reads: true,
        ..mapped.clone()
    };
    let compactions = DbOptions {
        use_direct_io_for_compaction_reads: true,
        ..mapped
    };
    for options in [all, compactions] {
        let error = open_with(Path::new("/db"), &options, World::in_memory()).err();
        assert_eq!(error.unwrap().code(), Code::NotSupported);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the list of descriptors is a directory of the kernel"
)]
/// The kinds of the files below `dir` that this process has open, without numbers, and whether programs that it executes
/// have them open as well.
fn open_files(dir: &Path) -> std::collections::BTreeSet<(String, bool)> {
    let mut found = std::collections::BTreeSet::new();
    for entry in std::fs::read_dir("/proc/self/fd").expect("Linux lists them") {
        let descriptor = entry.expect("an entry").path();
        let Ok(path) = std::fs::read_link(&descriptor) else {
            continue;
        };
        let Ok(name) = path.strip_prefix(dir) else {
            continue;
        };
        let number = descriptor.file_name().expect("a name");
        let info = Path::new("/proc/self/fdinfo").join(number);
        let Ok(info) = std::fs::read_to_string(info) else {
            // A background job has closed it in the meantime.
            continue;
        };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        // O_CLOEXEC.
        let is_closed = flags.expect("a number") & 0o2_000_000 != 0;
        let name = name.to_string_lossy();
        let kind = name.trim_matches(|c: char| c.is_ascii_digit() || c == '-' || c == '/');
        // A log in space that was reserved for it was created without a name.
        let kind = if kind.starts_with('#') { ".log" } else { kind };
        found.insert((kind.to_owned(), !is_closed));
    }
    found
}

#[test]
fn executed_programs_have_files_open_only_if_the_option_says_so() {
    for is_fd_close_on_exec in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap();
        let options = DbOptions {
            create_if_missing: true,
            is_fd_close_on_exec,
            ..DbOptions::default()
        };
        let db = open_with(&path, &options, World::posix()).unwrap();
        fill(&db, 0);
        // The next log may be a prepared file.
        fill(&db, 1);
        assert!(db.get(&key(1)).unwrap().is_some());
        let written = path.join("written.sst");
        let mut writer =
            cairn_db::SstFileWriter::new(&World::posix(), &options, &FamilyOptions::default());
        writer.open(&written).unwrap();
        let found = open_files(&path);
        for kind in [".log", ".sst", "MANIFEST", "written.sst"] {
            let inherited = !is_fd_close_on_exec;
            assert!(found.contains(&(kind.to_owned(), inherited)), "{found:?}");
            assert!(!found.contains(&(kind.to_owned(), !inherited)), "{found:?}");
        }
        for kind in ["LOG", "LOCK"] {
            assert!(found.contains(&(kind.to_owned(), false)), "{found:?}");
        }
        db.close().unwrap();
    }
}
