//! Batches of reads, by each driver, and under injected faults of a ring.

#![expect(clippy::disallowed_methods, reason = "transfers read descriptors")]

use std::fs::File;
use std::path::Path;

use proptest::prelude::*;

use super::faulty_ring::{Fault, FaultyRing, fault};
use super::*;
use crate::buffer::Memory;
use crate::encrypted::{BlockCipher, CtrProvider, EncryptedFileSystem};
use crate::fs::{FileMode, FileSystem};
use crate::posix::memory_kind::MemoryKind;
use crate::read_queue::Transfer;
use crate::{MemFileSystem, PosixFileSystem};

const DRIVERS: [ReadDriver; 3] = [ReadDriver::Uring, ReadDriver::Threads, ReadDriver::Blocking];

/// The length of the files of the tests, not a multiple of a sector.
const LEN: u64 = 70_001;

fn content(seed: u8) -> Vec<u8> {
    let byte = |at: u64| (at * 31 + at / 251) as u8 ^ seed;
    (0..LEN).map(byte).collect()
}

struct Xor;

impl BlockCipher for Xor {
    fn block_size(&self) -> usize {
        16
    }
    fn encrypt_blocks(&self, blocks: &mut [u8]) {
        blocks.iter_mut().for_each(|byte| *byte ^= 0x5a);
    }
}

fn opened(fs: &dyn FileSystem, path: &Path, seed: u8, mode: FileMode) -> Arc<dyn RandomAccessFile> {
    let file = fs.create(path, FileMode::default()).unwrap();
    file.append(&content(seed)).unwrap();
    file.close().unwrap();
    fs.open(path, mode).unwrap()
}

/// A file of each kind. Direct I/O only where the file system has it.
fn files(dir: &Path) -> Vec<Arc<dyn RandomAccessFile>> {
    let plain = FileMode::default();
    let mapped = FileMode {
        mapped: true,
        ..plain
    };
    let direct = FileMode {
        direct: true,
        ..plain
    };
    let posix = PosixFileSystem;
    let provider = CtrProvider::new(Arc::new(Xor)).unwrap();
    let encrypted = EncryptedFileSystem::new(Arc::new(posix), Arc::new(provider));
    let mut files = vec![
        opened(&posix, &dir.join("plain"), 1, plain),
        opened(&posix, &dir.join("mapped"), 2, mapped),
        opened(&encrypted, &dir.join("encrypted"), 3, plain),
        opened(&MemFileSystem::new(), Path::new("/mem"), 4, plain),
    ];
    opened(&posix, &dir.join("direct"), 5, plain);
    files.extend(posix.open(&dir.join("direct"), direct));
    files
}

/// A read of one of the files: its index, offset and length.
fn request() -> impl Strategy<Value = (usize, u64, usize)> {
    let offset = prop_oneof![
        6 => 0..LEN,
        2 => (0..LEN / 4096).prop_map(|page| page * 4096),
        1 => LEN - 5..LEN + 10_000,
        1 => Just(u64::MAX),
        1 => Just(i64::MAX as u64 - 100),
    ];
    let len = prop_oneof![
        4 => 1_usize..5000,
        2 => (1_usize..5).prop_map(|pages| pages * 4096),
        1 => Just(0),
    ];
    (0_usize..6, offset, len)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn all_drivers_return_the_same(asked in prop::collection::vec(request(), 0..300)) {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let asked = asked.into_iter().filter(|(file, ..)| *file < files.len());
        let requests: Vec<ReadRequest> = asked
            .map(|(file, offset, len)| ReadRequest::new(files[file].clone(), offset, len))
            .collect();
        let outcome = |result: Result<Buffer>| match result {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(error.to_string()),
        };
        let single: Vec<_> = requests.iter().map(|one| outcome(one.read_now())).collect();
        for driver in DRIVERS {
            let io = Io::with_driver(Some(driver));
            for io in [io.clone(), io.ignoring_page_cache()] {
                let batch: Vec<_> = io.read_batch(&requests).into_iter().map(outcome).collect();
                prop_assert_eq!(&batch, &single, "{}", driver);
                // Every second read is started before.
                let mut started = requests.clone();
                for request in started.iter_mut().step_by(2) {
                    *request = io.start(request).request();
                }
                let batch: Vec<_> = io.read_batch(&started).into_iter().map(outcome).collect();
                prop_assert_eq!(&batch, &single, "{}", driver);
            }
        }
    }
}

fn plain_file(dir: &Path) -> Arc<File> {
    let path = dir.join("f");
    std::fs::write(&path, content(9)).unwrap();
    Arc::new(File::open(&path).unwrap())
}

fn transfers(file: &Arc<File>, ranges: &[(u64, usize)]) -> Vec<Option<Transfer>> {
    let transfer = |&(offset, len): &(u64, usize)| {
        let memory = Memory::new(len, MemoryKind::default());
        Some(Transfer::new(file.clone(), offset, memory, 0, len, false))
    };
    ranges.iter().map(transfer).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn a_fault_of_a_ring_affects_only_its_read(
        ranges in prop::collection::vec((0..LEN + 50, 1_usize..40), 1..60),
        mut script in prop::collection::vec(fault(), 1..20),
        capacity in 1_usize..20,
    ) {
        // Otherwise a script of refusals or delays alone has no end.
        script.push(Fault::Nothing);
        let dir = tempfile::tempdir().unwrap();
        let file = plain_file(dir.path());
        let expected = content(9);
        let mut transfers = transfers(&file, &ranges);
        let mut ring = FaultyRing::new(capacity, script, false);
        prop_assert!(batch::execute(&mut ring, &mut transfers));
        prop_assert!(ring.is_empty());
        for (ticket, (transfer, (offset, len))) in transfers.into_iter().zip(ranges).enumerate() {
            let mut transfer = transfer.expect("the ring returned it");
            if ring.failed.contains(&ticket) {
                prop_assert_eq!(transfer.outcome(), Err(Errno::IO));
                continue;
            }
            let from = (offset as usize).min(expected.len());
            let bytes = &expected[from..(from + len).min(expected.len())];
            prop_assert_eq!(transfer.outcome(), Ok(bytes.len()));
            prop_assert_eq!(&transfer.bytes()[..bytes.len()], bytes);
        }
    }
}

#[test]
fn a_batch_takes_one_submission_and_more_only_if_the_ring_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let file = plain_file(dir.path());
    for (capacity, expected) in [(128, 1), (40, 1), (39, 2), (10, 4)] {
        let mut transfers = transfers(&file, &[(7, 100); 40]);
        let mut ring = FaultyRing::new(capacity, vec![Fault::Nothing], false);
        assert!(batch::execute(&mut ring, &mut transfers));
        assert_eq!(ring.submissions, expected, "{capacity} places");
    }
}

#[test]
fn a_read_that_the_kernel_lacks_resources_for_is_executed_blocking() {
    let dir = tempfile::tempdir().unwrap();
    let file = plain_file(dir.path());
    let mut transfers = transfers(&file, &[(7, 100); 3]);
    let mut ring = FaultyRing::new(8, vec![Fault::Fails(Errno::AGAIN)], false);
    assert!(batch::execute(&mut ring, &mut transfers));
    assert!(ring.submissions < 20);
    for transfer in transfers.iter_mut().flatten() {
        assert_eq!(transfer.outcome(), Ok(100));
        assert_eq!(transfer.bytes(), &content(9)[7..107]);
    }
}

#[test]
fn a_ring_that_fails_leaves_what_it_did_not_take() {
    let dir = tempfile::tempdir().unwrap();
    let file = plain_file(dir.path());
    let mut transfers = transfers(&file, &[(7, 100); 5]);
    let mut ring = FaultyRing::new(3, vec![Fault::Refused(Errno::BADF)], false);
    assert!(!batch::execute(&mut ring, &mut transfers));
    let left = transfers.iter().flatten().count();
    assert_eq!((left, ring.in_flight.len()), (2, 3));
    threads::execute(&mut transfers);
    let read = transfers.iter().flatten().map(Transfer::outcome);
    assert!(read.eq([Ok(100), Ok(100)]));
}

#[test]
fn a_driver_that_is_refused_is_replaced_by_threads() {
    let refused = Io {
        driver: ReadDriver::Threads,
        refusal: Some(Errno::PERM),
        ..Io::default()
    };
    assert!(refused.refusal().unwrap().contains("not permitted"));
    for driver in [ReadDriver::Threads, ReadDriver::Blocking] {
        let io = Io::with_driver(Some(driver));
        assert_eq!((io.driver(), io.refusal()), (driver, None));
    }
}

#[test]
fn batches_of_several_threads_share_the_threads() {
    let dir = tempfile::tempdir().unwrap();
    let file = opened(
        &PosixFileSystem,
        &dir.path().join("f"),
        1,
        FileMode::default(),
    );
    let expected = content(1);
    for driver in DRIVERS {
        let io = Io::with_driver(Some(driver)).ignoring_page_cache();
        std::thread::scope(|scope| {
            for thread in 0..8_u64 {
                let (io, file, expected) = (&io, &file, &expected);
                scope.spawn(move || {
                    for round in 0..20_u64 {
                        let at = |n: u64| (thread * 997 + round * 131 + n * 17) % (LEN - 64);
                        let requests: Vec<_> = (0..40)
                            .map(|n| ReadRequest::new(file.clone(), at(n), 64))
                            .collect();
                        for (n, got) in io.read_batch(&requests).into_iter().enumerate() {
                            let from = at(n as u64) as usize;
                            assert_eq!(got.unwrap()[..], expected[from..from + 64]);
                        }
                    }
                });
            }
        });
    }
}

/// A read of `len` bytes of `file`, started by a thread that has ended.
fn started(file: &Arc<dyn RandomAccessFile>, len: usize) -> ReadRequest {
    let request = ReadRequest::new(file.clone(), 0, len);
    let io = Io::with_driver(Some(ReadDriver::Uring)).ignoring_page_cache();
    let start = || io.start(&request);
    std::thread::scope(|scope| scope.spawn(start).join().unwrap()).request()
}

#[test]
fn a_started_read_outlives_its_thread_and_is_collected_once() {
    let dir = tempfile::tempdir().unwrap();
    for file in files(dir.path()) {
        let request = started(&file, 5000);
        let ended = || request.started().is_some_and(|read| read.has_ended());
        while !ended() {
            std::thread::yield_now();
        }
        let expected = request.read_now().unwrap();
        let io = Io::blocking();
        assert_eq!(io.read_now(&request).unwrap()[..], expected[..]);
        assert!(!ended(), "it was collected");
        // The next execution reads again.
        assert_eq!(io.read_now(&request).unwrap()[..], expected[..]);
    }
}

#[test]
fn a_started_read_reports_a_file_that_ends_early() {
    let dir = tempfile::tempdir().unwrap();
    for file in files(dir.path()) {
        let request = started(&file, LEN as usize + 1);
        let error = Io::blocking().read_now(&request).unwrap_err();
        assert!(error.to_string().contains("file ends early"), "{error}");
    }
}

#[test]
fn a_driver_that_blocks_reads_when_a_started_read_is_collected() {
    let dir = tempfile::tempdir().unwrap();
    let io = Io::blocking();
    for file in files(dir.path()) {
        let started = io.start(&ReadRequest::new(file, 10, 100));
        assert!(!started.has_ended());
        assert_eq!(io.read_now(&started.request()).unwrap().len(), 100);
    }
}
