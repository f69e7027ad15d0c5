//! Conformance of file systems, and features of the POSIX one: links, locks, direct I/O.

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use cairn_types::{Code, Subcode};

use super::*;

/// The path that the child process of a lock test locks.
const CHILD_LOCKS: &str = "CAIRN_TEST_CHILD_LOCKS";

fn read_all(fs: &dyn FileSystem, path: &Path, mode: FileMode) -> Vec<u8> {
    let file = fs.open(path, mode).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap() + 10];
    let got = file.read_at(0, &mut bytes).unwrap();
    bytes.truncate(got);
    bytes
}

/// The contract of a file system, checked in a new directory `dir`.
pub(crate) fn conformance(fs: &dyn FileSystem, dir: &Path) {
    conformance_of(fs, dir, FileMode::default(), true);
}

/// [`conformance`] of a file system that truncates files opened for overwriting.
pub(crate) fn conformance_of_emptied(fs: &dyn FileSystem, dir: &Path) {
    conformance_of(fs, dir, FileMode::default(), false);
}

/// [`conformance`] with files opened for reading in the mode `reading`. `keeps` tells whether files opened
/// for overwriting keep their content.
fn conformance_of(fs: &dyn FileSystem, dir: &Path, reading: FileMode, keeps: bool) {
    let mode = FileMode::default();
    let (a, b, c) = (dir.join("a"), dir.join("b"), dir.join("c"));
    fs.create_dir_all(dir).unwrap();
    fs.create_dir_all(dir).unwrap();

    let missing = fs.open(&a, mode).err().unwrap();
    assert_eq!(missing.code(), Code::IoError);
    assert_eq!(missing.subcode(), Subcode::PathNotFound);
    assert!(fs.open_append(&a, mode).is_err());
    assert!(!fs.exists(&a).unwrap());

    let file = fs.create(&a, mode).unwrap();
    assert!(fs.create(&a, mode).is_err(), "creation is exclusive");
    file.allocate(10_000).unwrap();
    file.append(b"hello ").unwrap();
    file.append(b"").unwrap();
    file.append(b"world").unwrap();
    file.start_writeback(0, 11).unwrap();
    file.sync(false).unwrap();
    file.sync(true).unwrap();
    assert_eq!(file.len(), 11);
    assert_eq!(read_all(fs, &a, reading), b"hello world");
    file.close().unwrap();
    file.close().unwrap();
    assert!(file.append(b"more").is_err(), "the file is closed");
    assert!(file.sync(false).is_err());
    assert_eq!(fs.status(&a).unwrap().len, 11);
    assert_eq!(fs.status(&a).unwrap().kind, PathKind::File);
    assert_eq!(fs.status(dir).unwrap().kind, PathKind::Directory);
    let each = fs.status_each(dir, &["a".to_owned(), "nothing".to_owned()]);
    assert_eq!(each[0].as_ref().unwrap(), &fs.status(&a).unwrap());
    let nothing = each[1].as_ref().unwrap_err();
    assert_eq!(nothing.subcode(), Subcode::PathNotFound);
    assert_eq!(each.len(), 2);

    let again = fs.open_append(&a, mode).unwrap();
    again.append(b"!").unwrap();
    assert_eq!(again.len(), 12);
    again.truncate(5).unwrap();
    again.append(b"?").unwrap();
    again.close().unwrap();
    assert_eq!(read_all(fs, &a, reading), b"hello?");

    let over = fs.open_overwrite(&a, mode).unwrap();
    assert_eq!(over.len(), 0);
    over.append(b"HE").unwrap();
    assert_eq!(over.len(), 2);
    let kept = if keeps { "llo?" } else { "" };
    assert_eq!(read_all(fs, &a, reading), ["HE", kept].concat().as_bytes());
    over.append(b"llo? yes").unwrap();
    over.truncate(6).unwrap();
    over.close().unwrap();
    assert_eq!(read_all(fs, &a, reading), b"HEllo?");
    let over = fs.open_overwrite(&a, mode).unwrap();
    over.append(b"he").unwrap();
    if !keeps {
        over.append(b"llo?").unwrap();
    }
    over.close().unwrap();
    assert!(fs.open_overwrite(&b, mode).is_err());

    let reader = fs.open(&a, reading).unwrap();
    let mut middle = [0; 3];
    assert_eq!(reader.read_at(1, &mut middle).unwrap(), 3);
    assert_eq!(&middle, b"ell");
    assert_eq!(reader.read_at(4, &mut middle).unwrap(), 2);
    assert_eq!(reader.read_at(6, &mut middle).unwrap(), 0);
    assert_eq!(reader.read_at(1 << 40, &mut middle).unwrap(), 0);
    assert!(!reader.prefetch(0, 0), "an empty range is not prefetched");
    reader.prefetch(0, 100);
    reader.advise(crate::fs::Access::Random);
    reader.drop_cached();

    fs.link(&a, &b).unwrap();
    assert!(fs.link(&a, &b).is_err(), "a name is not replaced by a link");
    fs.create(&c, mode).unwrap().append(b"old").unwrap();
    fs.rename(&a, &c).unwrap();
    assert_eq!(read_all(fs, &c, reading), b"hello?");
    let mut names = fs.list(dir).unwrap();
    names.sort();
    assert_eq!(names, ["b", "c"]);
    fs.remove(&c).unwrap();
    fs.remove(&b).unwrap();
    assert!(fs.remove(&b).is_err());
    assert_eq!(
        reader.read_at(0, &mut middle).unwrap(),
        3,
        "an open file remains readable"
    );

    fs.sync_dir(dir).unwrap();
    assert!(fs.open(dir, mode).is_err(), "a directory is no file");
    assert!(fs.free_space(dir).unwrap() > 0);
    let sub = dir.join("x/y");
    fs.create_dir_all(&sub).unwrap();
    assert!(fs.remove_dir(&dir.join("x")).is_err(), "it is not empty");
    assert_eq!(
        fs.canonical(&sub.join("../y")).unwrap(),
        fs.canonical(&sub).unwrap()
    );
    fs.remove_dir(&sub).unwrap();
    assert!(fs.list(&sub).is_err());
}

#[test]
fn names_and_bytes_behave_as_the_trait_says() {
    let dir = tempfile::tempdir().unwrap();
    conformance(&PosixFileSystem, &dir.path().join("db"));
}

const FROM_A_MAPPING: FileMode = FileMode {
    direct: false,
    no_follow: false,
    mapped: true,
    written_back: false,
    expected_len: 0,
    owner_only: false,
    inherited: false,
    temperature: 0,
};

#[test]
fn batched_status_equals_single_status() {
    let dir = tempfile::tempdir().unwrap();
    let fs = PosixFileSystem;
    let names: Vec<String> = (0..700).map(|n| format!("{n:03}.sst")).collect();
    for (len, name) in names.iter().enumerate() {
        // Some are missing, and one is not a regular file.
        if len % 97 == 5 {
            continue;
        } else if len == 600 {
            fs.create_dir_all(&dir.path().join(name)).unwrap();
            continue;
        }
        let file = fs.create(&dir.path().join(name), FileMode::default());
        file.unwrap().append(&vec![1; len]).unwrap();
    }
    for names in [&names[..], &names[..3], &[]] {
        let each = fs.status_each(dir.path(), names);
        assert_eq!(each.len(), names.len());
        for (name, found) in names.iter().zip(each) {
            let alone = fs.status(&dir.path().join(name));
            assert_eq!(format!("{found:?}"), format!("{alone:?}"));
        }
    }
    let nowhere = dir.path().join("nowhere");
    for found in fs.status_each(&nowhere, &names) {
        assert_eq!(found.unwrap_err().subcode(), Subcode::PathNotFound);
    }
}

#[test]
fn mapped_reads_equal_file_reads() {
    let dir = tempfile::tempdir().unwrap();
    conformance_of(
        &PosixFileSystem,
        &dir.path().join("db"),
        FROM_A_MAPPING,
        true,
    );

    let path = dir.path().join("f");
    let bytes: Vec<u8> = (0..300_001_u32)
        .map(|at| (at * 7 + at / 256) as u8)
        .collect();
    std::fs::write(&path, &bytes).unwrap();
    let file = PosixFileSystem.open(&path, FROM_A_MAPPING).unwrap();
    for (at, len) in [
        (0, 1),
        (4095, 2),
        (4096, 4096),
        (100_000, 150_000),
        (299_990, 11),
        (299_990, 12),
        (300_001, 5),
        (7, 0),
        (0, 300_001),
    ] {
        let mut buf = vec![0; len];
        let got = file.read_at(at as u64, &mut buf).unwrap();
        assert_eq!(buf[..got], bytes[at..bytes.len().min(at + len)]);
    }
    let empty = dir.path().join("empty");
    std::fs::write(&empty, b"").unwrap();
    assert_eq!(read_all(&PosixFileSystem, &empty, FROM_A_MAPPING), b"");
}

#[test]
fn mapped_pages_are_faulted_in_by_one_call() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    let file = PosixFileSystem.open(&path, FROM_A_MAPPING).unwrap();
    let read = |at: u64| {
        eintr::injected::during(|| {
            let mut buf = [0; 100];
            assert_eq!(file.read_at(at, &mut buf).unwrap(), 100);
            assert_eq!(buf, [7; 100]);
        })
    };
    // Each call is interrupted twice.
    assert_eq!(read(70_000), 2);
    assert_eq!(read(70_000), 0);
    assert_eq!(read(70_100), 0);
    assert_eq!(read(700_000), 2);
}

#[test]
fn truncation_of_a_mapped_file_is_a_short_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    let file = PosixFileSystem.open(&path, FROM_A_MAPPING).unwrap();
    let mut buf = [0; 100];
    assert_eq!(file.read_at(10, &mut buf).unwrap(), 100);
    let writer = PosixFileSystem
        .open_append(&path, FileMode::default())
        .unwrap();
    writer.truncate(100).unwrap();
    assert_eq!(file.read_at(900_000, &mut buf).unwrap(), 0);
}

#[test]
fn interrupted_calls_are_retried() {
    let dir = tempfile::tempdir().unwrap();
    let came = eintr::injected::during(|| {
        conformance(&PosixFileSystem, &dir.path().join("db"));
    });
    assert!(came > 40, "{came}");
}

#[test]
fn special_files_and_dangling_links_are_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let mode = FileMode::default();
    let fs = PosixFileSystem;
    assert!(fs.open(&pipe, mode).is_err());
    assert!(fs.open_append(&pipe, mode).is_err());
    assert!(fs.lock(&pipe).is_err());
    assert!(fs.open(Path::new("/dev/null"), mode).is_err());
    let link = dir.path().join("link");
    symlink("nowhere", &link).unwrap();
    assert!(fs.open(&link, mode).is_err());
    assert!(fs.create(&link, mode).is_err());
    assert!(fs.lock(&link).is_err());
    assert!(!dir.path().join("nowhere").exists());
}

#[test]
fn links_are_followed_unless_disabled() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "x").unwrap();
    let link = dir.path().join("link");
    symlink("file", &link).unwrap();
    let fs = PosixFileSystem;
    assert_eq!(read_all(&fs, &link, FileMode::default()), b"x");
    let strict = FileMode {
        no_follow: true,
        ..FileMode::default()
    };
    assert!(fs.open(&link, strict).is_err());
    assert!(fs.open_append(&link, strict).is_err());
}

#[test]
fn new_files_have_the_requested_mode() {
    let dir = tempfile::tempdir().unwrap();
    let bits = |owner_only: bool| {
        let path = dir.path().join(owner_only.to_string());
        let mode = FileMode {
            owner_only,
            ..FileMode::default()
        };
        drop(PosixFileSystem.create(&path, mode).unwrap());
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    };
    assert_eq!(bits(true), 0o600);
    assert_eq!(
        bits(false) & !0o044,
        0o600,
        "0644 less what the umask takes"
    );
}

#[test]
fn reserved_space_is_freed_on_close() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let file = PosixFileSystem.create(&path, FileMode::default()).unwrap();
    file.append(b"abc").unwrap();
    file.allocate(4 << 20).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 3);
    file.close().unwrap();
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!(after.len(), 3);
    assert!(after.blocks() * 512 < 1 << 20, "{} blocks", after.blocks());
}

/// Regression: a log whose space could not be freed made the database read-only.
#[test]
fn space_that_cannot_be_freed_does_not_fail_the_close() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let file = memfd_create("sealed", MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC);
    let file = File::from(file.unwrap());
    let seen = file.try_clone().unwrap();
    let writer = PosixWriter::new(file, "sealed".into(), 0, false).unwrap();
    writer.append(b"abc").unwrap();
    seen.set_len(4096).unwrap();
    writer.note_allocated(4096);
    fcntl_add_seals(&seen, SealFlags::SHRINK).unwrap();
    assert!(seen.set_len(3).is_err());
    writer.close().unwrap();
    assert_eq!(seen.metadata().unwrap().len(), 4096);
}

/// Regression: the time of a file far in the future overflowed.
#[test]
fn a_time_far_in_the_future_saturates() {
    let mut found = stat("/").unwrap();
    found.st_mtime = i64::MAX;
    assert_eq!(status_of(&found).modified_micros, u64::MAX);
}

#[test]
fn direct_io_supports_any_length_and_offset() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    let direct = FileMode {
        direct: true,
        ..FileMode::default()
    };
    let file = match PosixFileSystem.create(&path, direct) {
        Ok(file) => file,
        Err(error) => {
            assert_eq!(error.code(), Code::NotSupported, "{error}");
            return;
        }
    };
    let pattern: Vec<u8> = (0..700_000u32).map(|i| (i % 251) as u8).collect();
    let mut at = 0;
    for (step, len) in [1, 4095, 1, 10_000, 300_000, 4096, 7, 250_000]
        .into_iter()
        .enumerate()
    {
        file.append(&pattern[at..at + len]).unwrap();
        at += len;
        if step % 2 == 0 {
            file.flush().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), &pattern[..at], "step {step}");
        }
    }
    file.sync(false).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), &pattern[..at]);
    file.append(b"the end").unwrap();
    file.close().unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), at as u64 + 7);

    let again = PosixFileSystem.open_append(&path, direct).unwrap();
    again.truncate(at as u64).unwrap();
    again.append(&pattern[at..at + 5000]).unwrap();
    again.close().unwrap();
    at += 5000;

    let reader = PosixFileSystem.open(&path, direct).unwrap();
    for (offset, len) in [
        (0, 10),
        (4090, 20),
        (5, 600_000),
        (at - 3, 100),
        (at, 5),
        (8192, 4096),
    ] {
        let mut buf = vec![0; len];
        let got = reader.read_at(offset as u64, &mut buf).unwrap();
        assert_eq!(&buf[..got], &pattern[offset..(offset + len).min(at)]);
    }
}

#[test]
fn a_second_lock_of_this_process_fails_by_every_path() {
    let dir = tempfile::tempdir().unwrap();
    let db = dir.path().join("db");
    std::fs::create_dir(&db).unwrap();
    let link = dir.path().join("link");
    symlink(&db, &link).unwrap();
    let path = db.join("LOCK");
    std::fs::hard_link(
        {
            std::fs::write(&path, "").unwrap();
            &path
        },
        dir.path().join("hard"),
    )
    .unwrap();
    let held = PosixFileSystem.lock(&path).unwrap();
    let up = std::env::current_dir().unwrap();
    let mut relative = std::path::PathBuf::new();
    for _ in up.components().skip(1) {
        relative.push("..");
    }
    relative.push(path.strip_prefix("/").unwrap());
    for alias in [
        path.clone(),
        link.join("LOCK"),
        db.join("../db/./LOCK"),
        dir.path().join("hard"),
        relative,
    ] {
        let refused = PosixFileSystem.lock(&alias).err().unwrap();
        assert_eq!(refused.code(), Code::IoError);
        assert!(PosixFileSystem.open(&alias, FileMode::default()).is_err());
        assert!(
            PosixFileSystem
                .open_append(&alias, FileMode::default())
                .is_err()
        );
        // None of these failures may have released the first lock.
        assert!(!another_process_can_lock(&path), "after {alias:?}");
    }
    drop(held);
    assert!(another_process_can_lock(&path));
    drop(PosixFileSystem.lock(&link.join("LOCK")).unwrap());
}

#[test]
fn a_lock_on_a_removed_file_is_still_held() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let held = PosixFileSystem.lock(&path).unwrap();
    PosixFileSystem.remove(&path).unwrap();
    assert!(PosixFileSystem.lock(&path).is_err());
    assert!(PosixFileSystem.lock(&dir.path().join("./LOCK")).is_err());
    assert!(!path.exists(), "a failed lock leaves no file");
    drop(held);
    PosixFileSystem.lock(&path).unwrap();
}

#[test]
fn a_lock_of_another_process_is_exclusive_until_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("LOCK");
    let mut child = child_that_locks(&path);
    let mut said = String::new();
    let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
    while !said.contains("LOCKED") {
        said.clear();
        assert!(std::io::BufRead::read_line(&mut output, &mut said).unwrap() > 0);
    }
    let refused = PosixFileSystem.lock(&path).err().unwrap();
    assert_eq!(refused.code(), Code::IoError);
    assert_eq!(refused.io_kind(), Some(std::io::ErrorKind::WouldBlock));
    child.kill().unwrap();
    child.wait().unwrap();
    PosixFileSystem.lock(&path).unwrap();
}

/// Runs [`other_process`] in a child process, which locks `path`, reports the result, and holds the lock
/// until its input is closed.
fn child_that_locks(path: &Path) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "posix::tests::other_process", "--nocapture"])
        .env(CHILD_LOCKS, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn another_process_can_lock(path: &Path) -> bool {
    let child = child_that_locks(path);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("LOCKED") || text.contains("REFUSED"),
        "{text}"
    );
    text.contains("LOCKED")
}

/// The code of the child process, not a test of its own.
#[test]
fn other_process() {
    let Some(path) = std::env::var_os(CHILD_LOCKS) else {
        return;
    };
    let held = PosixFileSystem.lock(Path::new(&path));
    let word = if held.is_ok() { "LOCKED" } else { "REFUSED" };
    println!("\n{word}");
    std::io::stdout().flush().unwrap();
    let _ends = std::io::read_to_string(std::io::stdin());
}
