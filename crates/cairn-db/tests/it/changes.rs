//! Old logs: recycled, archived, and read as a stream of changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_db::{Db, WalFileType, WalIterator, WriteBatch};
use cairn_options::{DbOptions, FamilyOptions, Options, WriteOptions};
use cairn_platform::fs::{FileMode, Status};
use cairn_platform::sync::Mutex;
use cairn_platform::{FileSystem, MemFileSystem, RandomAccessFile, World, WritableFile, wrapper};
use cairn_types::{Code, Result, SequenceNumber};

use crate::basic::db_options;
use crate::wal::open_with;

fn options(text: &str) -> DbOptions {
    let mut options = db_options();
    options.update_from(text).expect("the options are good");
    options
}

fn logs(world: &World, dir: &str) -> Vec<String> {
    let mut names = world.fs.list(Path::new(dir)).expect("it is there");
    names.retain(|name| name.ends_with(".log"));
    names.sort();
    names
}

/// Returns the numbers of the remaining batches of the stream.
fn rest(iter: &mut WalIterator) -> Vec<u64> {
    let mut numbers = Vec::new();
    while iter.valid() {
        numbers.push(iter.batch().expect("the batch is whole").0.0);
        iter.next();
    }
    numbers
}

fn numbers_since(db: &Db, seq: u64) -> Vec<u64> {
    let mut iter = db.updates_since(SequenceNumber(seq)).expect("logs");
    let numbers = rest(&mut iter);
    iter.status().expect("the stream ends without an error");
    numbers
}

#[test]
fn recycled_logs_are_overwritten_and_read_with_their_new_content() {
    let world = World::in_memory();
    let recycling = options("recycle_log_file_num=2");
    let db = open_with(&world, &recycling, false);
    for round in 0..6_u8 {
        for n in 0..100 {
            db.put(&[n], &[round; 100]).unwrap();
        }
        db.flush().unwrap();
        db.wait_until_quiet().unwrap();
    }
    // The current log, and the one before it, which is waiting to be recycled.
    assert_eq!(logs(&world, "/db").len(), 2);
    db.put(b"last", b"1").unwrap();
    let reader = open_with(&world, &DbOptions::default(), true);
    assert_eq!(reader.get(b"last").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(reader.latest_sequence(), db.latest_sequence());
    assert_eq!(numbers_since(&db, 601), [601]);
    db.put(b"more", b"1").unwrap();
    assert_eq!(numbers_since(&db, 601), [601, 602]);
    drop(reader);
    db.close().unwrap();
    assert_eq!(logs(&world, "/db").len(), 1);
    let db = open_with(&world, &recycling, false);
    assert_eq!(db.get(&[7]).unwrap().as_deref(), Some(&[5; 100][..]));
}

#[test]
fn two_recovery_modes_and_the_archive_do_not_recycle() {
    for text in [
        "wal_recovery_mode=kTolerateCorruptedTailRecords",
        "wal_recovery_mode=kAbsoluteConsistency",
        "WAL_ttl_seconds=1",
        "WAL_size_limit_MB=1",
    ] {
        let world = World::in_memory();
        let db = open_with(
            &world,
            &options(&format!("recycle_log_file_num=2;{text}")),
            false,
        );
        assert_eq!(db.options().recycle_log_file_num, 0, "{text}");
    }
}

#[test]
fn archived_logs_remain_readable() {
    let world = World::in_memory();
    let archiving = options("WAL_size_limit_MB=1");
    let db = open_with(&world, &archiving, false);
    for n in 0..4_u8 {
        db.put(&[n], b"x").unwrap();
        db.flush().unwrap();
        db.wait_until_quiet().unwrap();
    }
    let mut batch = WriteBatch::new();
    batch.put(b"a", b"1");
    batch.put(b"b", b"2");
    db.write(&batch).unwrap();
    db.put(b"c", b"3").unwrap();

    let files = db.sorted_wal_files().unwrap();
    let (alive, archived): (Vec<_>, Vec<_>) = files
        .iter()
        .partition(|file| file.file_type == WalFileType::Alive);
    assert_eq!((alive.len(), archived.len()), (1, 4));
    assert_eq!(
        alive[0].log_number,
        db.current_wal_file().unwrap().log_number
    );
    assert_eq!(alive[0].start_sequence, SequenceNumber(5));
    assert_eq!(
        alive[0].size_file_bytes,
        db.current_wal_file().unwrap().size_file_bytes
    );
    assert!(archived[0].path_name.starts_with("/archive/0"));

    assert_eq!(numbers_since(&db, 0), [1, 2, 3, 4, 5, 7]);
    assert_eq!(numbers_since(&db, 3), [3, 4, 5, 7]);
    // The batch that contains the number, although it starts before.
    assert_eq!(numbers_since(&db, 6), [5, 7]);
    let newer = db.updates_since(SequenceNumber(8)).err().unwrap();
    assert_eq!(newer.code(), Code::NotFound);

    // A stream that has caught up continues.
    let mut iter = db.updates_since(SequenceNumber(7)).unwrap();
    assert_eq!(rest(&mut iter), [7]);
    iter.status().unwrap();
    db.put(b"d", b"4").unwrap();
    iter.next();
    assert_eq!(rest(&mut iter), [8]);
    // Later logs are not part of it.
    db.flush().unwrap();
    db.put(b"e", b"5").unwrap();
    iter.next();
    assert_eq!(iter.status().unwrap_err().code(), Code::TryAgain);

    // The archive exists after an opening.
    db.close().unwrap();
    let db = open_with(&world, &archiving, false);
    assert_eq!(numbers_since(&db, 1), [1, 2, 3, 4, 5, 7, 8, 9]);
    assert!(logs(&world, "/db/archive").len() >= 6);
}

#[test]
fn a_write_without_a_log_is_a_gap() {
    let world = World::in_memory();
    let db = open_with(&world, &db_options(), false);
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    db.put(b"a", b"1").unwrap();
    db.put_with(b"b", b"1", &unlogged).unwrap();
    db.put(b"c", b"1").unwrap();
    let mut iter = db.updates_since(SequenceNumber(1)).unwrap();
    assert_eq!(rest(&mut iter), [1]);
    assert_eq!(iter.status().unwrap_err().code(), Code::NotFound);
    // From a position after the gap it continues.
    assert_eq!(numbers_since(&db, 3), [3]);
}

#[test]
fn a_stream_reads_compressed_logs_and_logs_flushed_by_hand() {
    let world = World::in_memory();
    let text = "wal_compression=kZSTD;manual_wal_flush=true";
    let db = open_with(&world, &options(text), false);
    db.put(b"a", b"1").unwrap();
    // The file is still empty: there is no log to read.
    assert!(db.sorted_wal_files().unwrap().is_empty());
    db.flush_wal(false).unwrap();
    let mut iter = db.updates_since(SequenceNumber(1)).unwrap();
    assert_eq!(rest(&mut iter), [1]);
    db.put(b"b", b"1").unwrap();
    db.flush_wal(false).unwrap();
    iter.next();
    assert_eq!(rest(&mut iter), [2]);
}

#[test]
fn the_archive_is_limited() {
    let world = World::in_memory();
    let archiving = options("WAL_size_limit_MB=1");
    let db = open_with(&world, &archiving, false);
    for n in 0..6_u8 {
        db.put(&[n], &vec![n; 400 << 10]).unwrap();
        db.flush().unwrap();
        db.wait_until_quiet().unwrap();
    }
    db.close().unwrap();
    // The archive is checked at the latest when the database is opened.
    drop(open_with(&world, &archiving, false));
    assert_eq!(logs(&world, "/db/archive").len(), 2);
}

#[test]
fn a_batch_with_log_data_only_is_part_of_the_stream() {
    let world = World::in_memory();
    let db = open_with(&world, &db_options(), false);
    db.put(b"a", b"1").unwrap();
    let mut note = WriteBatch::new();
    note.put_log_data(b"for the log");
    db.write(&note).unwrap();
    db.put(b"b", b"1").unwrap();
    let mut iter = db.updates_since(SequenceNumber(1)).unwrap();
    let mut seen = Vec::new();
    while iter.valid() {
        let (first, batch) = iter.batch().unwrap();
        seen.push((first.0, batch.count()));
        iter.next();
    }
    assert_eq!(seen, [(1, 1), (2, 0), (2, 1)]);
}

/// Regression: the stream after writes without a log returned `TryAgain`, and so did every new stream.
#[test]
fn a_stream_from_an_unlogged_write_has_caught_up() {
    let world = World::in_memory();
    let db = open_with(&world, &db_options(), false);
    db.put(b"logged", b"1").unwrap();
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    let mut batch = WriteBatch::new();
    batch.put(b"unlogged", b"1");
    db.write_with(&batch, &unlogged).unwrap();
    let mut iter = db.updates_since(SequenceNumber(2)).unwrap();
    assert!(!iter.valid());
    iter.status().unwrap();
    iter.next();
    assert_eq!(iter.status().unwrap_err().code(), Code::TryAgain);
    db.put(b"logged", b"2").unwrap();
    assert_eq!(numbers_since(&db, 2), [3]);
}

/// Files in memory, whose openings for reading are counted; a log is deleted as soon as its length is queried.
#[derive(Default)]
struct Deleting {
    fs: MemFileSystem,
    doomed: Mutex<Option<PathBuf>>,
    opened: Mutex<usize>,
}

impl wrapper::FileSystemWrapper for Deleting {
    fn target(&self) -> &dyn FileSystem {
        &self.fs
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        *self.opened.lock() += 1;
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
        let status = self.fs.status(path);
        let mut doomed = self.doomed.lock();
        if doomed.take_if(|doomed| doomed == path).is_some() {
            self.fs.remove(path)?;
        }
        status
    }
}

#[test]
fn a_log_that_is_deleted_while_logs_are_listed_is_not_part_of_the_stream() {
    let files = Arc::new(Deleting::default());
    let world = World {
        fs: files.clone(),
        ..World::in_memory()
    };
    let db = open_with(&world, &db_options(), false);
    let other = db
        .create_family("other", &FamilyOptions::default())
        .unwrap();
    db.put(b"a", b"1").unwrap();
    other.put(b"b", b"1").unwrap();
    other.flush().unwrap();
    db.put(b"c", b"1").unwrap();
    assert_eq!(numbers_since(&db, 1), [1, 2, 3]);
    let [first, _] = &db.sorted_wal_files().unwrap()[..] else {
        panic!("the default family still needs the first log");
    };
    let path = Path::new("/db").join(&first.path_name[1..]);
    *files.doomed.lock() = Some(path);
    assert_eq!(numbers_since(&db, 1), [3]);
    assert_eq!(*files.doomed.lock(), None);
}

/// A reader of the logs of a database with concurrent writers: from each position on it sees every batch
/// once, in order.
struct Follower<'a> {
    db: &'a Db,
    /// True if logs may be deleted before they are read.
    may_miss: bool,
    next: u64,
}

impl Follower<'_> {
    /// Reads the available batches. Returns their number.
    fn read(&mut self) -> usize {
        let mut seen = 0;
        let written = self.db.latest_sequence().0;
        let mut iter = match self.db.updates_since(SequenceNumber(self.next)) {
            Ok(iter) => iter,
            Err(error) => {
                // Deleted while the stream was created, or not written yet.
                let expected = match self.next > written {
                    true => [Code::TryAgain, Code::NotFound],
                    false => [Code::TryAgain; 2],
                };
                assert!(expected.contains(&error.code()), "{error}");
                return 0;
            }
        };
        let mut is_first = true;
        // A stream that has caught up continues with new batches.
        for _ in 0..3 {
            while iter.valid() {
                let (first, batch) = iter.batch().expect("the batch is whole");
                let expected = self.next;
                let fits = match is_first {
                    true => first.0 <= expected || self.may_miss,
                    false => first.0 == expected,
                };
                assert!(fits, "batch {first} where {expected} should be");
                self.next = first.0 + u64::from(batch.count());
                is_first = false;
                seen += 1;
                iter.next();
            }
            match iter.status() {
                Ok(()) => iter.next(),
                Err(error) => {
                    assert_eq!(error.code(), Code::TryAgain, "at {}: {error}", self.next);
                    break;
                }
            }
        }
        seen
    }
}

/// Regression: a stream on a live log reported gaps if it had read a block before its last records were
/// written.
#[test]
fn streams_on_live_logs_report_no_false_gaps() {
    for (text, may_miss) in [
        ("WAL_ttl_seconds=3600", false),
        ("recycle_log_file_num=2", true),
        (
            "wal_compression=kZSTD;WAL_ttl_seconds=3600;wal_write_mode=kPlain",
            false,
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut options = options(text);
        options.create_if_missing = true;
        let family = FamilyOptions {
            write_buffer_size: 400_000,
            ..FamilyOptions::default()
        };
        let families = [cairn_db::FamilyDescriptor::new("default", family)];
        let db = cairn_db::open(&cairn_db::OpenRequest {
            path: dir.path(),
            options: &options,
            families: &families,
            others: None,
            read_only: false,
            world: World::posix(),
        })
        .unwrap();
        let done = std::sync::atomic::AtomicUsize::new(0);
        let writers = 3;
        std::thread::scope(|scope| {
            for writer in 0..writers {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    for n in 0..1500_usize {
                        let mut batch = WriteBatch::new();
                        for entry in 0..=n % 3 {
                            let len = if n % 50 == writer {
                                40_000
                            } else {
                                40 + n % 300
                            };
                            let key = [writer as u8, entry as u8, n as u8, (n >> 8) as u8];
                            batch.put(&key, &vec![7; len]);
                        }
                        db.write(&batch).unwrap();
                    }
                    done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                });
            }
            for position in [1, 700] {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    let mut follower = Follower {
                        db,
                        may_miss,
                        next: position,
                    };
                    while done.load(std::sync::atomic::Ordering::SeqCst) < writers {
                        follower.read();
                    }
                    while follower.read() > 0 {}
                    assert_eq!(follower.next, db.latest_sequence().0 + 1, "{text}");
                });
            }
            // From any position.
            let (db, done) = (&db, &done);
            scope.spawn(move || {
                let mut position = 1;
                while done.load(std::sync::atomic::Ordering::SeqCst) < writers {
                    position = (position * 48_271) % 2_147_483_647;
                    let next = 1 + position % (db.latest_sequence().0 + 1);
                    let mut follower = Follower { db, may_miss, next };
                    follower.read();
                }
            });
        });
        db.close().unwrap();
    }
}

/// Regression: each stream read the first record of every archived log, and with two-phase commit all logs.
#[test]
fn a_stream_reads_only_the_logs_that_it_needs() {
    for text in ["WAL_size_limit_MB=1", "WAL_size_limit_MB=1;allow_2pc=true"] {
        let files = Arc::new(Deleting::default());
        let world = World {
            fs: files.clone(),
            ..World::in_memory()
        };
        let db = open_with(&world, &options(text), false);
        let fill = |logs: u8| {
            for n in 0..logs {
                db.put(&[n], b"x").unwrap();
                db.flush().unwrap();
                db.wait_until_quiet().unwrap();
            }
        };
        fill(20);
        let newest = db.latest_sequence().0;
        assert_eq!(numbers_since(&db, newest), [newest]);
        let before = *files.opened.lock();
        assert_eq!(numbers_since(&db, newest), [newest]);
        let opened = *files.opened.lock() - before;
        assert!(opened <= 3, "{text}: {opened} logs were opened");
    }
}

/// The log of a section can be much older than that of its commit.
#[test]
fn a_stream_has_the_sections_that_its_logs_commit() {
    let world = World::in_memory();
    let db = open_with(
        &world,
        &options("WAL_size_limit_MB=1;allow_2pc=true"),
        false,
    );
    let fill = |from: u8| {
        for n in from..from + 6 {
            db.put(&[n], b"x").unwrap();
            db.flush().unwrap();
            db.wait_until_quiet().unwrap();
        }
    };
    fill(0);
    let mut section = WriteBatch::new();
    section.put(b"a", b"1");
    section.put(b"b", b"2");
    db.prepare(b"t", &section, &WriteOptions::default())
        .unwrap();
    fill(10);
    db.commit_prepared(b"t", &WriteOptions::default()).unwrap();
    let commit = db.latest_sequence().0 - 1;
    fill(20);
    let mut updates = db.updates_since(SequenceNumber(commit)).unwrap();
    let (first, batch) = updates.batch().unwrap();
    assert_eq!((first.0, batch.count()), (commit, 2));
    assert_eq!(rest(&mut updates).len(), 7);
    updates.status().unwrap();
}
