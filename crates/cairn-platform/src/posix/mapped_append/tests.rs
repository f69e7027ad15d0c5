//! The content and length of mapped files under appends and failures.

use super::*;
use crate::fs::{FileMode, FileSystem};
use crate::posix::PosixFileSystem;
use crate::posix::fork::{alone, holds_in_child, in_child};

const MAPPED: FileMode = FileMode {
    direct: false,
    no_follow: false,
    owner_only: false,
    mapped: true,
    written_back: true,
    expected_len: 0,
    inherited: false,
    temperature: 0,
};

/// Creates a mapped file; `None` if the temporary directory is on a file system without support.
fn create(path: &Path) -> Option<Arc<dyn WritableFile>> {
    create_for(path, 0)
}

/// Creates a mapped file with an expected length.
fn create_for(path: &Path, expected_len: u64) -> Option<Arc<dyn WritableFile>> {
    let mode = FileMode {
        expected_len,
        ..MAPPED
    };
    let file = PosixFileSystem.create(path, mode).unwrap();
    file.is_mapped().then_some(file)
}

/// The content of the file at `path`. A file open for writing is read through its own descriptor, as another
/// open would end its mapping.
#[expect(
    clippy::disallowed_methods,
    reason = "the test bypasses the file system under test"
)]
fn content(path: &Path) -> Vec<u8> {
    match descriptor_of(path) {
        Some(descriptor) => content_of(descriptor),
        None => std::fs::read(path).unwrap(),
    }
}

/// The descriptor by which this process has the file at `path` open.
#[expect(
    clippy::disallowed_methods,
    reason = "the test bypasses the file system under test"
)]
fn descriptor_of(path: &Path) -> Option<i32> {
    let wanted = rustix::fs::stat(path).unwrap();
    std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .find_map(|entry| {
            // An entry there links to the file, even if it had no name when it was opened.
            let name = entry.unwrap().path();
            let found = rustix::fs::stat(&name).map(|found| (found.st_dev, found.st_ino));
            let number = || name.file_name().unwrap().to_str().unwrap().parse().unwrap();
            (found == Ok((wanted.st_dev, wanted.st_ino))).then(number)
        })
}

/// Truncates the file at `path` to zero without opening it.
#[expect(unsafe_code, reason = "the descriptor belongs to the file under test")]
fn cut_open_file(path: &Path) {
    let descriptor = descriptor_of(path).unwrap();
    // SAFETY: the test keeps the file open.
    let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    rustix::fs::ftruncate(descriptor, 0).unwrap();
}

/// The content read through a descriptor, which stays open.
#[expect(unsafe_code, reason = "the descriptor belongs to the file under test")]
fn content_of(descriptor: i32) -> Vec<u8> {
    // SAFETY: the test keeps the file open.
    let descriptor = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    let mut all = Vec::new();
    let mut buf = vec![0; 1 << 20];
    loop {
        match rustix::io::pread(descriptor, &mut buf, all.len() as u64).unwrap() {
            0 => return all,
            got => all.extend_from_slice(&buf[..got]),
        }
    }
}

fn bytes(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (seed + at * 7) as u8 | 1).collect()
}

#[test]
fn appends_of_every_size_are_visible_and_followed_by_zeros() {
    for expected_len in [0, 1, 100_000, 3 << 20, 1 << 40, u64::MAX >> 1] {
        appends_of_every_size(expected_len);
    }
}

fn appends_of_every_size(expected_len: u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let Some(file) = create_for(&path, expected_len) else {
        return;
    };
    let mut expected = Vec::new();
    let sizes = [
        1,
        7,
        8,
        9,
        100,
        4096,
        32 << 10,
        70_000,
        1 << 20,
        3 << 20,
        13,
    ];
    for (round, size) in sizes.into_iter().cycle().take(33).enumerate() {
        let data = bytes(round, size);
        file.append(&data).unwrap();
        expected.extend_from_slice(&data);
        assert_eq!(file.len(), expected.len() as u64);
        if round % 5 == 0 {
            file.sync(false).unwrap();
        }
    }
    assert!(file.is_mapped());
    let found = content(&path);
    assert!(found.len() > expected.len(), "the next window is allocated");
    assert!(found[..expected.len()] == expected[..]);
    assert!(found[expected.len()..].iter().all(|&byte| byte == 0));
    file.close().unwrap();
    assert!(content(&path) == expected);
    assert!(file.append(b"more").is_err(), "the file is closed");
}

/// Another open of a mapped file waits until it is as long as what was appended, which then remains so.
#[expect(
    clippy::disallowed_methods,
    reason = "the test reads the file independently"
)]
#[test]
fn another_open_of_a_mapped_file_sees_no_zeros() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let path = dir.path().join(format!("log{round}"));
        let Some(file) = create_for(&path, if round % 2 == 0 { 0 } else { 3 << 20 }) else {
            return;
        };
        let expected = bytes(round, 1 + round * 30_011);
        file.append(&expected).unwrap();
        // Concurrently with a thread that appends.
        std::thread::scope(|scope| {
            let more = scope.spawn(|| {
                for _ in 0..200 {
                    file.append(&[7; 1000]).unwrap();
                }
            });
            // Other programs wait within the call, and this one between non-blocking calls.
            let found = match round % 3 {
                0 => {
                    let reader = PosixFileSystem.open(&path, FileMode::default()).unwrap();
                    let mut found = vec![0; usize::try_from(reader.len().unwrap()).unwrap()];
                    let got = reader.read_up_to_end(0, &mut found).unwrap();
                    found.truncate(got);
                    found
                }
                _ => std::fs::read(&path).unwrap(),
            };
            assert!(found[..expected.len()] == expected[..]);
            assert!(found[expected.len()..].iter().all(|&byte| byte == 7));
            more.join().unwrap();
        });
        assert!(!file.is_mapped());
        let all = std::fs::read(&path).unwrap();
        assert_eq!(all.len() as u64, file.len());
        assert_eq!(all.len(), expected.len() + 200_000);
        file.close().unwrap();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test reads the file independently"
)]
#[test]
fn files_open_elsewhere_are_not_mapped_and_closed_ones_have_no_lease() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let Some(file) = create(&path) else { return };
    file.append(b"x").unwrap();
    file.truncate(1).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"x");
    drop(file);
    let _reader = std::fs::File::open(&path).unwrap();
    let mode = FileMode::default();
    let (file, _) = PosixFileSystem
        .open_existing(&path, mode, rustix::fs::OFlags::RDWR)
        .unwrap();
    let file = MappedWriter::create(file, path.clone(), MAPPED, 0).unwrap();
    assert!(!file.is_mapped());
    file.append(b"yz").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"yz");
}

/// Veils are temporary, both with stores and with system calls after a sync.
#[test]
fn veiled_appends_leave_the_data_and_no_veils() {
    for expected_len in [0, 3 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let Some(file) = create_for(&path, expected_len) else {
            return;
        };
        let unit = MAPPED_UNIT as usize;
        let mut expected = Vec::new();
        for round in 0..120 {
            let size = [20, 7, 33_000, 90, 70_000, 200_000, 1, 800_000][round % 8];
            let data = bytes(round, size);
            let begin = expected.len();
            // Pieces at the start of units: full ones, and short ones at the end of a record.
            let first = begin.next_multiple_of(unit) - begin;
            let starts = (first..size)
                .step_by(unit)
                .filter(|at| *at > 0 && size - at >= 8);
            let veils: Vec<Veil> = starts
                .filter(|at| (at / unit + round) % 5 != 4)
                .map(|at| Veil {
                    at,
                    end: match (at + round) % 3 {
                        0 => (at + 100).min(size),
                        _ => (at + unit).min(size),
                    },
                    head: [0xee; 8],
                })
                .collect();
            file.append_veiled(&data, &veils).unwrap();
            expected.extend_from_slice(&data);
            assert_eq!(file.len(), expected.len() as u64);
            if round % 7 == 0 {
                file.sync(false).unwrap();
            }
        }
        let found = content(&path);
        assert!(found[..expected.len()] == expected[..]);
        assert!(found[expected.len()..].iter().all(|&byte| byte == 0));
        assert!(file.is_mapped());
    }
}

#[test]
fn small_appends_cross_every_boundary() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let Some(file) = create(&path) else { return };
    let mut expected = Vec::new();
    let mut round = 0;
    while expected.len() < 600 << 10 {
        let data = bytes(round, 1 + round * 31 % 173);
        file.append(&data).unwrap();
        expected.extend_from_slice(&data);
        round += 1;
    }
    drop(file);
    assert!(content(&path) == expected);
}

#[test]
fn truncation_ends_the_mapping() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let Some(file) = create(&path) else { return };
    file.append(&[7; 1000]).unwrap();
    file.truncate(10).unwrap();
    assert!(!file.is_mapped());
    file.append(b"!").unwrap();
    file.close().unwrap();
    assert_eq!(content(&path), b"\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07!");
}

/// A store beyond the allocated range would kill the process: if a window cannot be prepared, appends are
/// system calls, which report the error.
#[test]
fn without_a_window_appends_are_calls() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let mode = FileMode::default();
    PosixFileSystem
        .create(&path, mode)
        .unwrap()
        .close()
        .unwrap();
    let (file, _) = PosixFileSystem
        .open_existing(&path, mode, rustix::fs::OFlags::RDONLY)
        .unwrap();
    // A read-only descriptor fails like a full device.
    let file = MappedWriter::create(file, path.clone(), MAPPED, 0).unwrap();
    assert!(!file.is_mapped());
    assert!(file.append(b"x").is_err());
    assert_eq!(file.len(), 0);
}

/// Regression: no space is reserved beyond the limit on the length of files, for which the kernel would end the process.
#[test]
fn a_limit_on_file_sizes_ends_no_process_that_writes_less() {
    use rustix::process::{Resource, Rlimit, setrlimit};

    let name =
        "posix::mapped_append::tests::a_limit_on_file_sizes_ends_no_process_that_writes_less";
    alone(name, || {
        let dir = tempfile::tempdir().unwrap();
        let limit = Rlimit {
            current: Some(500_000),
            maximum: Some(500_000),
        };
        setrlimit(Resource::Fsize, limit).unwrap();
        let plain = dir.path().join("plain");
        let plain = PosixFileSystem.create(&plain, FileMode::default()).unwrap();
        plain.allocate(1 << 20).unwrap();
        plain.append(&bytes(1, 1000)).unwrap();
        for expected_len in [0, 1 << 20, 1 << 40] {
            let path = dir.path().join(expected_len.to_string());
            let mode = FileMode {
                expected_len,
                ..MAPPED
            };
            let file = PosixFileSystem.create(&path, mode).unwrap();
            let all = bytes(2, 300_000);
            all.chunks(3000).for_each(|part| file.append(part).unwrap());
            file.close().unwrap();
            assert!(content(&path) == all, "expected length {expected_len}");
        }
    });
}

/// Regression: the lease of a process ends with it, although a forked child goes on.
#[test]
fn a_child_does_not_keep_the_lease_of_its_parent() {
    use rustix::fs::{Mode, OFlags};
    use std::io::{Read, Write};

    let name = "posix::mapped_append::tests::a_child_does_not_keep_the_lease_of_its_parent";
    alone(name, || {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let (mut read, write) = std::io::pipe().unwrap();
        let write = std::cell::Cell::new(Some(write));
        // The child of the writer goes on until this process closes its end of the pipe.
        let (mut runs, mut started) = std::io::pipe().unwrap();
        let goes_on = || {
            started.write_all(b"1").unwrap();
            drop(write.take());
            i32::from(read.read(&mut [0]).is_err())
        };
        let writes_and_ends = || {
            let file = create(&path);
            let code = i32::from(file.is_none());
            file.iter().for_each(|file| file.append(b"record").unwrap());
            in_child(goes_on, || {
                runs.read_exact(&mut [0]).unwrap();
                std::process::exit(code)
            })
        };
        if in_child(writes_and_ends, || ()) == 0 {
            // This fails while there is a lease.
            rustix::fs::open(&path, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()).unwrap();
        }
        drop(write.take());
    });
}

/// A forked child cannot append, and leaves the file of its parent as it is.
#[test]
fn a_child_does_not_have_the_mapped_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let Some(file) = create(&path) else { return };
    file.append(&bytes(1, 1000)).unwrap();
    let own = || {
        let refused = file.append(b"child").is_err() && file.close().is_err();
        refused && descriptor_of(&path).is_none()
    };
    assert!(holds_in_child(own, || ()));
    file.append(&bytes(1001, 1000)).unwrap();
    assert!(file.is_mapped() && content(&path).starts_with(&bytes(1, 1000)));
    file.close().unwrap();
    assert_eq!(content(&path), [bytes(1, 1000), bytes(1001, 1000)].concat());
}

#[test]
fn windows_grow_with_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let Some(file) = create(&path) else { return };
    assert_eq!(content(&path).len() as u64, MIN_WINDOW);
    for _ in 0..40 {
        file.append(&[1; 100_000]).unwrap();
    }
    // The current window, and perhaps the following ones.
    let windows = 1 + AHEAD as u64;
    assert!(content(&path).len() as u64 <= 4_000_000 + windows * MAX_WINDOW);
    file.close().unwrap();
}

#[test]
fn space_for_later_windows_is_freed_on_close() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let Some(file) = create(&path) else { return };
    for _ in 0..50 {
        file.append(&[1; 100_000]).unwrap();
    }
    let reserved = || {
        let found = rustix::fs::stat(&path).unwrap();
        u64::try_from(found.st_blocks).unwrap() * 512
    };
    // A file system without reservations has its windows only.
    assert!(reserved() <= 5_000_000 + MAX_RESERVED);
    file.close().unwrap();
    assert!(reserved() < 5_000_000 + MIN_WINDOW);
}

/// Regardless of the background threads, the writer finds each window at its offset, and no zeros follow its
/// stores.
#[test]
fn overtaking_the_background_threads_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let Some(file) = create(&path) else { return };
    let mut expected = Vec::new();
    for round in 0..60 {
        // Several windows at once, and then a part of one.
        let data = bytes(round, (round % 5) * 700_000 + 999);
        file.append(&data).unwrap();
        expected.extend_from_slice(&data);
    }
    assert!(file.is_mapped());
    file.sync(false).unwrap();
    assert!(content(&path)[..expected.len()] == expected[..]);
    file.close().unwrap();
    assert!(content(&path) == expected);
}

/// The space on the device taken by the file at `path`.
fn space_of(path: &Path) -> u64 {
    let found = rustix::fs::stat(path).unwrap();
    u64::try_from(found.st_blocks).unwrap() * 512
}

/// A long, fast-filling file, and the mode for it and its successor.
fn filled_fast(path: &Path) -> Option<(Arc<dyn WritableFile>, FileMode)> {
    let file = create_for(path, 4 << 20)?;
    for _ in 0..20 {
        file.append(&[1; 100_000]).unwrap();
    }
    let mode = FileMode {
        expected_len: file.len(),
        ..MAPPED
    };
    Some((file, mode))
}

/// Its successor at `path`, once the space is reserved.
fn successor(file: &dyn WritableFile, path: &Path, mode: FileMode) -> Arc<dyn WritableFile> {
    for _ in 0..1_000 {
        if let Some(next) = file.successor(path, mode).unwrap() {
            return next;
        }
        assert!(!path.exists(), "an unready successor has no name");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("no space was reserved");
}

#[test]
fn a_fast_filling_file_prepares_a_successor() {
    let dir = tempfile::tempdir().unwrap();
    let paths = ["1", "2", "3"].map(|name| dir.path().join(name));
    let Some((first, mode)) = filled_fast(&paths[0]) else {
        return;
    };
    let second = successor(&*first, &paths[1], mode);
    assert_eq!((second.path(), second.len()), (&*paths[1], 0));
    assert!(second.is_mapped() && space_of(&paths[1]) >= 4 << 20);
    assert!(
        first.successor(&paths[2], mode).unwrap().is_none(),
        "there is one"
    );
    first.close().unwrap();
    // It is an ordinary file, and its excess space is freed on close.
    let written = bytes(3, 3_000_000);
    written
        .chunks(70_000)
        .for_each(|part| second.append(part).unwrap());
    second.sync(false).unwrap();
    assert_eq!(&content(&paths[1])[..written.len()], written);
    successor(&*second, &paths[2], mode)
        .append(b"third")
        .unwrap();
    assert!(content(&paths[2]).starts_with(b"third"));
    second.close().unwrap();
    assert_eq!(content(&paths[1]), written);
    assert!(space_of(&paths[1]) < 4 << 20);
}

#[test]
fn a_successor_needs_a_free_name_and_equal_permissions() {
    let dir = tempfile::tempdir().unwrap();
    let (path, taken) = (dir.path().join("1"), dir.path().join("2"));
    let Some((file, mode)) = filled_fast(&path) else {
        return;
    };
    drop(successor(&*file, &taken, mode));
    let Some((file, mode)) = filled_fast(&dir.path().join("3")) else {
        return;
    };
    let other = FileMode {
        owner_only: true,
        ..mode
    };
    let plain = FileMode::default();
    let free = dir.path().join("4");
    for _ in 0..50 {
        for mode in [other, plain] {
            assert!(file.successor(&free, mode).unwrap().is_none());
        }
        assert!(file.successor(&taken, mode).unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(!free.exists());
    assert_eq!(content(&taken).len(), 0, "it is unchanged");
}

#[test]
fn short_and_closed_files_have_no_successor() {
    let dir = tempfile::tempdir().unwrap();
    let (path, next) = (dir.path().join("1"), dir.path().join("2"));
    let Some(file) = create(&path) else { return };
    file.append(&[1; 1_000_000]).unwrap();
    let Some((ended, mode)) = filled_fast(&dir.path().join("3")) else {
        return;
    };
    ended.close().unwrap();
    for _ in 0..20 {
        for file in [&file, &ended] {
            assert!(file.successor(&next, mode).unwrap().is_none());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(!next.exists());
}

/// Another program truncates the file while it is written: it waits until the windows are unmapped, and no
/// store hits a missing page.
#[expect(unsafe_code, reason = "the call that takes a path, and no descriptor")]
#[test]
fn truncation_by_others_ends_the_mapping() {
    unsafe extern "C" {
        fn truncate(path: *const std::ffi::c_char, len: i64) -> i32;
    }
    let dir = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let path = dir.path().join(format!("log{round}"));
        let Some(file) = create_for(&path, if round % 2 == 0 { 0 } else { 3 << 20 }) else {
            return;
        };
        let cut = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (started, begun) = std::sync::mpsc::channel();
            let (file, cut) = (&file, &cut);
            scope.spawn(move || {
                let mut behind = 0;
                for number in 0.. {
                    file.append(&[7; 1000]).unwrap();
                    if number == round * 50 {
                        started.send(()).unwrap();
                    }
                    behind += usize::from(cut.load(Ordering::Relaxed));
                    if behind == 1_000 {
                        return;
                    }
                }
            });
            begun.recv().unwrap();
            let name = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
            // SAFETY: the name is null-terminated.
            assert_eq!(unsafe { truncate(name.as_ptr(), 10) }, 0);
            cut.store(true, Ordering::Relaxed);
        });
        assert!(!file.is_mapped());
        assert_eq!(content(&path).len() as u64, file.len());
    }
}

/// A case without protection by a lease: the process was stopped for longer than the kernel waits, and its
/// file was truncated meanwhile. Data appended after the pause is kept: by system calls, unless a window
/// prepared meanwhile restored the length of the file.
#[test]
fn appends_after_truncation_during_a_pause_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let Some(file) = create_for(&path, 3 << 20) else {
        return;
    };
    file.append(&[7; 50_000]).unwrap();
    cut_open_file(&path);
    std::thread::sleep(std::time::Duration::from_millis(
        2 * TRUSTED_MILLIS.unsigned_abs(),
    ));
    for _ in 0..3_000 {
        file.append(&[7; 1000]).unwrap();
    }
    assert_eq!(file.len(), 3_050_000);
    let found = content(&path);
    assert!(found[..50_000].iter().all(|&byte| byte == 0));
    assert!(found[50_000..3_050_000].iter().all(|&byte| byte == 7));
}
