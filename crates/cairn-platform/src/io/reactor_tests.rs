//! Reads as futures: by each driver, dropped at any time, and under injected faults of a ring.

#![expect(clippy::disallowed_methods, reason = "transfers read descriptors")]

use std::future::Future;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use proptest::prelude::*;
use rustix::io::Errno;

use super::*;
use crate::fs::{FileMode, FileSystem, RandomAccessFile};
use crate::io::faulty_ring::{Fault, FaultyRing, fault};
use crate::io::{Io, ReadDriver, ReadRequest, Reads};
use crate::posix::fork::{alone, holds_in_child};
use crate::{MemFileSystem, PosixFileSystem, RemoteFileSystem, RemoteSettings};

const LEN: usize = 50_000;

fn content() -> Vec<u8> {
    (0..LEN).map(|at| (at * 31 + at / 251) as u8).collect()
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for `future` on the calling thread.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::park_timeout(Duration::from_secs(20)),
        }
    }
}

fn poll_once(future: &mut Reads) -> Poll<Vec<cairn_types::Result<crate::Buffer>>> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn posix_file(dir: &tempfile::TempDir) -> Arc<dyn RandomAccessFile> {
    let path = dir.path().join("f");
    std::fs::write(&path, content()).unwrap();
    PosixFileSystem.open(&path, FileMode::default()).unwrap()
}

fn request(file: &Arc<dyn RandomAccessFile>, offset: usize, len: usize) -> ReadRequest {
    ReadRequest::new(file.clone(), offset as u64, len)
}

fn drivers() -> Vec<Io> {
    let io = |driver| Io::with_driver(Some(driver)).with_threads(3);
    let [uring, threads, blocking] =
        [ReadDriver::Uring, ReadDriver::Threads, ReadDriver::Blocking].map(io);
    let cold = [uring.clone(), threads.clone()].map(Io::ignoring_page_cache);
    [uring, threads, blocking].into_iter().chain(cold).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn futures_return_what_blocking_reads_return(
        ranges in prop::collection::vec((0..LEN + 50, 0_usize..5000), 0..700),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let file = posix_file(&dir);
        let requests: Vec<_> = ranges.iter().map(|&(at, len)| request(&file, at, len)).collect();
        let outcome = |result: cairn_types::Result<crate::Buffer>| match result {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) => Err(error.to_string()),
        };
        let expected: Vec<_> = requests.iter().map(|one| outcome(one.read_now())).collect();
        for io in drivers() {
            let got: Vec<_> = block_on(io.read_all(requests.clone())).into_iter().map(outcome).collect();
            prop_assert_eq!(&got, &expected);
        }
    }
}

#[test]
fn thousands_of_reads_wait_without_a_thread_each() {
    let dir = tempfile::tempdir().unwrap();
    let file = posix_file(&dir);
    let expected = content();
    for io in drivers() {
        let mut reads: Vec<_> = (0..5000_usize)
            .map(|n| io.read(request(&file, n * 7, 100)))
            .collect();
        for read in &mut reads {
            // All are in flight, or done, before the first is waited for.
            if let Poll::Ready(result) =
                Pin::new(&mut *read).poll(&mut Context::from_waker(Waker::noop()))
            {
                *read = io.read(ReadRequest::new(file.clone(), 0, 0));
                assert_eq!(result.unwrap().len(), 100);
            }
        }
        for (n, read) in reads.into_iter().enumerate() {
            let got = block_on(read).unwrap();
            assert!(got.is_empty() || got[..] == expected[n * 7..n * 7 + 100]);
        }
    }
}

#[test]
fn reads_in_memory_and_in_the_page_cache_complete_at_the_first_poll() {
    let fs = MemFileSystem::new();
    let path = std::path::Path::new("/f");
    let file = fs.create(path, FileMode::default()).unwrap();
    file.append(&content()).unwrap();
    file.close().unwrap();
    let file = fs.open(path, FileMode::default()).unwrap();
    let io = Io::with_driver(None);
    let mut reads = io.read_all(vec![request(&file, 10, 20)]);
    assert!(poll_once(&mut reads).is_ready());
    let dir = tempfile::tempdir().unwrap();
    let mut reads = io.read_all(vec![request(&posix_file(&dir), 10, 20)]);
    // The file was just written.
    assert!(poll_once(&mut reads).is_ready());
}

#[test]
fn an_error_is_that_of_its_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = posix_file(&dir);
    for io in drivers() {
        let requests = vec![
            request(&file, 0, 10),
            request(&file, LEN - 5, 10),
            ReadRequest::new(file.clone(), u64::MAX, 10),
            request(&file, 5, 10),
        ];
        let results = block_on(io.read_all(requests));
        let is_ok: Vec<_> = results.iter().map(Result::is_ok).collect();
        assert_eq!(is_ok, [true, false, false, true]);
        let early = results[1].as_ref().unwrap_err().to_string();
        assert!(early.contains("file ends early"), "{early}");
    }
}

/// A pipe, from which reads wait for a write.
fn pipe() -> (Arc<File>, File) {
    let (read, write) = rustix::pipe::pipe().unwrap();
    let file = |end: OwnedFd| File::from(end);
    (Arc::new(file(read)), file(write))
}

/// A flight of one read of `len` bytes of a pipe.
fn flight_of(file: &Arc<File>, len: usize) -> (Arc<Flight<Part>>, Call) {
    let flight = Arc::new(Flight::new(1));
    let call = Call {
        flight: flight.clone(),
        ticket: 0,
        transfer: Transfer::new(
            file.clone(),
            0,
            Memory::new(len, MemoryKind::default()),
            0,
            len,
            false,
        ),
    };
    (flight, call)
}

async fn landed(flight: &Flight<Part>) -> Vec<Part> {
    std::future::poll_fn(|context| flight.poll(context)).await
}

#[test]
fn a_dropped_future_leaves_its_memory_to_the_kernel_until_the_read_ends() {
    let (read, mut write) = pipe();
    let (flight, call) = flight_of(&read, 4);
    submit(vec![call]);
    // Time to submit it; the test holds either way.
    std::thread::sleep(Duration::from_millis(20));
    flight.abandon();
    let held = Arc::downgrade(&read);
    drop(read);
    std::thread::sleep(Duration::from_millis(20));
    assert!(held.strong_count() > 0, "the read owns the descriptor");
    std::io::Write::write_all(&mut write, b"late").unwrap();
    let began = Instant::now();
    while held.strong_count() > 0 {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::yield_now();
    }
    // The next read on the ring is correct.
    let (read, mut write) = pipe();
    let (flight, call) = flight_of(&read, 4);
    submit(vec![call]);
    std::io::Write::write_all(&mut write, b"next").unwrap();
    let mut parts = block_on(landed(&flight));
    assert_eq!(parts[0].1.bytes(), b"next");
}

#[test]
fn futures_dropped_after_their_first_poll_do_not_disturb_others() {
    let dir = tempfile::tempdir().unwrap();
    let file = posix_file(&dir);
    let expected = content();
    for io in drivers().into_iter().map(Io::ignoring_page_cache) {
        let holders = Arc::strong_count(&file);
        for round in 0..200_usize {
            let mut dropped = io.read_all(vec![request(&file, round, 4000); 3]);
            let mut kept = io.read_all(vec![request(&file, round * 3, 4000)]);
            let _ = poll_once(&mut dropped);
            let first = poll_once(&mut kept);
            drop(dropped);
            let got = match first {
                Poll::Ready(results) => results,
                Poll::Pending => block_on(kept),
            };
            let got = got.into_iter().next().unwrap().unwrap();
            assert_eq!(got[..], expected[round * 3..round * 3 + 4000]);
        }
        assert_eq!(Arc::strong_count(&file), holders);
    }
}

/// Ends the thread even if the test fails.
struct Closing<'a>(&'a RingThread);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn faults_of_the_ring_concern_their_read_only(
        ranges in prop::collection::vec((1..LEN + 50, 1_usize..40, any::<bool>()), 1..100),
        mut script in prop::collection::vec(fault(), 1..20),
        capacity in 2_usize..20,
    ) {
        // Otherwise a script of refusals or delays alone has no end.
        script.push(Fault::Nothing);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, content()).unwrap();
        let file = Arc::new(File::open(&path).unwrap());
        let expected = content();
        let mut ring = FaultyRing::new(capacity, script, true);
        let thread = RingThread::default();
        let mut errors = 0;
        std::thread::scope(|scope| {
            let server = scope.spawn(|| thread.serve(&mut ring));
            let closing = Closing(&thread);
            let mut waiting = Vec::new();
            for &(offset, len, dropped) in &ranges {
                let flight = Arc::new(Flight::new(1));
                let memory = Memory::new(len, MemoryKind::default());
                let transfer = Transfer::new(file.clone(), offset as u64, memory, 0, len, false);
                let call = Call { flight: flight.clone(), ticket: 3, transfer };
                assert!(thread.submit(vec![call], || true).is_ok());
                match dropped {
                    true => flight.abandon(),
                    false => waiting.push((flight, offset, len)),
                }
            }
            for (flight, offset, len) in waiting {
                let (ticket, mut transfer) = block_on(landed(&flight)).pop().unwrap();
                assert_eq!(ticket, 3);
                match transfer.outcome() {
                    Ok(got) => {
                        let from = offset.min(LEN);
                        let bytes = &expected[from..(from + len).min(LEN)];
                        assert_eq!(got, bytes.len());
                        assert_eq!(&transfer.bytes()[..got], bytes);
                    }
                    Err(errno) => {
                        assert_eq!(errno, Errno::IO);
                        errors += 1;
                    }
                }
            }
            drop(closing);
            assert!(server.join().unwrap().is_empty());
        });
        prop_assert!(errors <= ring.failed.len());
        prop_assert_eq!(Arc::strong_count(&file), 1, "everything was freed");
    }
}

#[test]
fn reads_survive_a_ring_that_fails() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, content()).unwrap();
    let file = Arc::new(File::open(&path).unwrap());
    let mut ring = FaultyRing::new(3, vec![Fault::Refused(Errno::BADF)], true);
    let thread = RingThread::default();
    let mut flights = Vec::new();
    for _ in 0..6 {
        let (flight, mut call) = flight_of(&file, 20);
        call.transfer = Transfer::new(
            file.clone(),
            1,
            Memory::new(20, MemoryKind::default()),
            0,
            20,
            false,
        );
        assert!(thread.submit(vec![call], || true).is_ok());
        flights.push(flight);
    }
    let left = thread.serve(&mut ring);
    // Two were in flight, besides the bell.
    assert_eq!(left.len(), 4);
    let (_, call) = flight_of(&file, 20);
    assert!(
        thread.submit(vec![call], || true).is_err(),
        "the ring is gone"
    );
    execute(left, 1);
    let read = flights.iter().map(|flight| block_on(landed(flight)).len());
    assert_eq!(read.sum::<usize>(), 4);
}

#[test]
fn a_lost_read_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut reads = Io::with_driver(Some(ReadDriver::Threads))
        .ignoring_page_cache()
        .read_all(vec![request(&posix_file(&dir), 3, 30)]);
    reads.lose_all();
    let results = block_on(reads);
    assert!(
        results[0]
            .as_ref()
            .unwrap_err()
            .to_string()
            .starts_with("IO error")
    );
}

#[test]
fn delays_of_remote_storage_do_not_block_the_thread() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("f");
    std::fs::write(&path, content()).unwrap();
    // Longer than 500 calls take on a busy machine, and much shorter than 500 delays.
    let latency = Duration::from_millis(400);
    let settings = RemoteSettings {
        latency,
        bandwidth: 0,
        queue_depth: 1000,
    };
    let fs = RemoteFileSystem::new(Arc::new(PosixFileSystem), Arc::new(SystemClock), settings);
    let file = fs.open(&path, FileMode::default()).unwrap();
    for io in drivers() {
        if io.driver() == ReadDriver::Blocking {
            continue;
        }
        let began = Instant::now();
        let mut reads: Vec<_> = (0..500)
            .map(|n| io.read_all(vec![request(&file, n, 50)]))
            .collect();
        assert!(reads.iter_mut().all(|read| poll_once(read).is_pending()));
        assert!(began.elapsed() < latency, "nothing has waited");
        for read in reads.drain(..400) {
            assert!(block_on(read)[0].is_ok());
        }
        let took = began.elapsed();
        assert!((latency..latency * 50).contains(&took), "{took:?}");
    }
}

#[test]
fn a_forked_child_reads_on_its_own_thread() {
    let dir = tempfile::tempdir().unwrap();
    let file = posix_file(&dir);
    let expected = content();
    for io in drivers().into_iter().map(Io::ignoring_page_cache) {
        if io.driver() == ReadDriver::Blocking {
            continue;
        }
        let reads = || {
            let got = block_on(io.read_all(vec![request(&file, 9, 400); 20]));
            got.iter()
                .all(|one| one.as_ref().is_ok_and(|one| one[..] == expected[9..409]))
        };
        assert!(reads(), "the parent has a reactor");
        let mut inherited = io.read_all(vec![request(&file, 1, 10)]);
        let pending = poll_once(&mut inherited).is_pending();
        let in_child = || {
            let refused = !pending || block_on(inherited)[0].is_err();
            refused && reads()
        };
        assert!(holds_in_child(in_child, || ()));
        assert!(reads(), "the reactor of the parent is intact");
    }
}

#[test]
fn a_process_ends_with_reads_in_flight() {
    let name = "io::reactor::tests::a_process_ends_with_reads_in_flight";
    alone(name, || {
        let dir = tempfile::tempdir().unwrap();
        let file = posix_file(&dir);
        let (read, write) = pipe();
        let (_flight, call) = flight_of(&read, 4);
        submit(vec![call]);
        let io = Io::with_driver(None).ignoring_page_cache();
        let mut reads = io.read_all(vec![request(&file, 1, 10); 600]);
        let _ = poll_once(&mut reads);
        std::mem::forget((read, write, reads));
    });
}

#[test]
fn without_a_ring_threads_execute_the_reads() {
    use rustix::process::{Resource, Rlimit, setrlimit};

    let name = "io::reactor::tests::without_a_ring_threads_execute_the_reads";
    alone(name, || {
        let dir = tempfile::tempdir().unwrap();
        let file = posix_file(&dir);
        let io = Io::with_driver(Some(ReadDriver::Uring)).ignoring_page_cache();
        // The kernel has no descriptor for a ring, and memory must not be locked.
        for limit in [Resource::Nofile, Resource::Memlock] {
            let none = Rlimit {
                current: Some(0),
                maximum: Some(0),
            };
            setrlimit(limit, none).unwrap();
        }
        let results = block_on(io.read_all(vec![request(&file, 2, 100); 50]));
        assert!(results.iter().all(Result::is_ok));
    });
}
