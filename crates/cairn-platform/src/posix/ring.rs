//! The kernel's queue of reads, io_uring.
//!
//! Each thread that reads batches has its own ring, created by its first batch and freed when the thread ends. Rings
//! take at most an eighth of the descriptors that the process may have; other threads get none.
//!
//! Invariants, cited below by number:
//!
//! R1. A slot owns a transfer, and thereby its memory and descriptor, from before its submission until after
//!     its completion. The memory of a slot does not move.
//! R2. A slot whose transfer may be in flight is never reused or freed: a ring that cannot wait for it leaks
//!     it.
//! R3. A ring is used only by the thread and process that created it. A forked child shares the queues with its
//!     parent, and frees only its own mapping of them.

#![expect(unsafe_code, reason = "the kernel writes to memory by address")]

use std::cell::Cell;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, Probe, opcode, types};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::process::Process;
use crate::read_queue::{Ring, Ticket, Transfer};
use crate::sync::{AtomicU64, Ordering};

/// The number of reads in one submission.
const ENTRIES: u32 = 128;

/// The maximum number of rings of threads, and their maximum share of the descriptors of the process.
const MOST_RINGS: u64 = 256;
const DESCRIPTORS_PER_RING: u64 = 8;

thread_local! {
    /// The ring of the thread, while no batch uses it.
    static RING: Cell<Option<Box<ThreadRing>>> = const { Cell::new(None) };
}

/// The ring of a thread. It is closed before its place is given up.
struct ThreadRing {
    ring: KernelRing,
    _place: Place,
}

/// A place among the rings of threads.
struct Place;

/// The number of places taken. A forked child inherits the descriptors of the rings together with their number.
static PLACES: AtomicU64 = AtomicU64::new(0);

impl Place {
    /// Fails with `MFILE` if another ring would take too many of the descriptors.
    fn take() -> Result<Place, Errno> {
        let limit = getrlimit(Resource::Nofile).current;
        let most = limit.map_or(MOST_RINGS, |limit| {
            MOST_RINGS.min(limit / DESCRIPTORS_PER_RING)
        });
        // Relaxed: a limit, which orders nothing.
        let place = PLACES.fetch_add(1, Ordering::Relaxed);
        let taken = Place;
        match place < most {
            true => Ok(taken),
            false => Err(Errno::MFILE),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        PLACES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A ring of the calling thread.
pub(crate) struct KernelRing {
    ring: IoUring,
    process: Process,
    /// The transfers in flight.
    slots: Box<[Option<(Ticket, Transfer)>]>,
    free: Vec<usize>,
    in_flight: usize,
}

/// Fails if the kernel refuses to create a ring for this process, or the ring does not support reads.
pub(crate) fn probe() -> Result<(), Errno> {
    match with_ring(|_| ((), true)) {
        // While all places are taken, a ring without one serves as well.
        Err(Errno::MFILE) => KernelRing::new().map(drop),
        result => result,
    }
}

/// Calls `work` with the ring of the calling thread. Fails if the ring cannot be created, or takes too many of the
/// descriptors of the process.
pub(crate) fn with_ring<T>(work: impl FnOnce(&mut KernelRing) -> (T, bool)) -> Result<T, Errno> {
    // A thread that is ending creates a ring for each batch.
    let mut ring = match RING.try_with(Cell::take).ok().flatten() {
        Some(ring) if ring.ring.process.is_this() => ring,
        inherited => {
            drop(inherited);
            let place = Place::take()?;
            Box::new(ThreadRing {
                ring: KernelRing::new()?,
                _place: place,
            })
        }
    };
    let (result, usable) = work(&mut ring.ring);
    if usable {
        let _ = RING.try_with(|place| place.set(Some(ring)));
    }
    Ok(result)
}

impl KernelRing {
    fn new() -> Result<KernelRing, Errno> {
        KernelRing::with_entries(ENTRIES)
    }

    /// A ring for `entries` reads at a time.
    pub(crate) fn with_entries(entries: u32) -> Result<KernelRing, Errno> {
        if cfg!(miri) {
            return Err(Errno::NOSYS);
        }
        // Completions are processed when this thread waits for them, instead of interrupting it. Kernels
        // before 6.1 refuse that.
        let mut builder = IoUring::builder();
        builder.setup_single_issuer().setup_defer_taskrun();
        let ring = builder
            .build(entries)
            .or_else(|_| IoUring::new(entries))
            .map_err(errno)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(errno)?;
        if !probe.is_supported(opcode::Read::CODE) || !ring.params().is_feature_nodrop() {
            return Err(Errno::NOSYS);
        }
        Ok(KernelRing {
            ring,
            process: Process::this(),
            slots: (0..entries).map(|_| None).collect(),
            free: (0..entries as usize).rev().collect(),
            in_flight: 0,
        })
    }
}

impl Ring for KernelRing {
    fn push(&mut self, ticket: Ticket, transfer: Transfer) -> Result<(), Transfer> {
        let Some(at) = self.free.pop() else {
            return Err(transfer);
        };
        let (_, transfer) = self.slots[at].insert((ticket, transfer));
        let (file, offset, bytes) = transfer.next();
        let descriptor = types::Fd(file.as_raw_fd());
        let len = u32::try_from(bytes.len()).expect("a call is shorter than 4 GiB");
        let entry = opcode::Read::new(descriptor, bytes.as_mut_ptr(), len)
            .offset(offset)
            .build()
            .user_data(at as u64);
        // SAFETY: the slot owns the descriptor and the memory of the read until its completion (R1, R2).
        let pushed = unsafe { self.ring.submission().push(&entry) };
        if pushed.is_err() {
            self.free.push(at);
            let (_, transfer) = self.slots[at].take().expect("it was just put there");
            return Err(transfer);
        }
        self.in_flight += 1;
        Ok(())
    }

    fn submit_and_wait(&mut self, wanted: usize) -> Result<(), Errno> {
        self.ring.submit_and_wait(wanted).map(|_| ()).map_err(errno)
    }

    fn completed(&mut self) -> Option<(Ticket, Transfer, Result<usize, Errno>)> {
        let entry = self.ring.completion().next()?;
        let at = usize::try_from(entry.user_data()).expect("an index of a slot");
        let (ticket, transfer) = self.slots[at].take().expect("a completion ends a transfer");
        self.free.push(at);
        self.in_flight -= 1;
        let result = entry.result();
        let result = match usize::try_from(result) {
            Ok(got) => Ok(got),
            Err(_) => Err(Errno::from_raw_os_error(-result)),
        };
        Some((ticket, transfer, result))
    }
}

impl Drop for KernelRing {
    fn drop(&mut self) {
        // A child has no transfer in flight, but a copy of the parent's slots (R3).
        let waits = self.process.is_this();
        let mut refusals = 0;
        while waits && self.in_flight > 0 && refusals < 1000 {
            if self.submit_and_wait(self.in_flight).is_err() {
                refusals += 1;
            }
            while self.completed().is_some() {}
        }
        if self.in_flight > 0 {
            // R2.
            std::mem::forget(std::mem::take(&mut self.slots));
        }
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::OwnedFd;
    use std::sync::{Arc, Barrier};
    use std::time::{Duration, Instant};

    use super::super::fork::{alone, holds_in_child};
    use super::*;
    use crate::buffer::Memory;
    use crate::fs::{FileMode, FileSystem};
    use crate::io::{Io, ReadDriver, ReadRequest};
    use crate::posix::PosixFileSystem;
    use crate::posix::memory_kind::MemoryKind;

    fn pipe_ends() -> (File, File) {
        let (read, write) = std::io::pipe().unwrap();
        (OwnedFd::from(read).into(), OwnedFd::from(write).into())
    }

    #[test]
    fn a_ring_that_is_dropped_waits_for_its_reads() {
        let Ok(mut ring) = KernelRing::new() else {
            return;
        };
        let (read, mut write) = pipe_ends();
        let memory = Memory::new(16, MemoryKind::default());
        let transfer = Transfer::new(Arc::new(read), 0, memory, 0, 16, false);
        assert!(ring.push(0, transfer).is_ok());
        ring.submit_and_wait(0).unwrap();
        assert!(ring.completed().is_none(), "nothing was written yet");
        let began = Instant::now();
        let delay = Duration::from_millis(50);
        let writer = std::thread::spawn(move || {
            std::thread::sleep(delay);
            write.write_all(b"late").unwrap();
        });
        drop(ring);
        assert!(began.elapsed() >= delay);
        writer.join().unwrap();
    }

    #[test]
    fn a_full_ring_takes_no_more() {
        let Ok(mut ring) = KernelRing::new() else {
            return;
        };
        let file = Arc::new(File::open("/dev/zero").unwrap());
        let transfer = || {
            let mut memory = Memory::new(8, MemoryKind::default());
            memory[..8].fill(1);
            Transfer::new(file.clone(), 0, memory, 0, 8, false)
        };
        for ticket in 0..ENTRIES as usize {
            assert!(ring.push(ticket, transfer()).is_ok());
        }
        assert!(ring.push(0, transfer()).is_err());
        ring.submit_and_wait(ENTRIES as usize).unwrap();
        let mut tickets = 0;
        while let Some((ticket, mut transfer, result)) = ring.completed() {
            assert_eq!((result, transfer.bytes().to_vec()), (Ok(8), vec![0; 8]));
            tickets += ticket;
        }
        assert_eq!(tickets, (ENTRIES * (ENTRIES - 1) / 2) as usize);
        assert!(ring.push(0, transfer()).is_ok());
    }

    fn requests(dir: &tempfile::TempDir) -> Vec<ReadRequest> {
        let path = dir.path().join("f");
        std::fs::write(&path, [7; 10_000]).unwrap();
        let file = PosixFileSystem.open(&path, FileMode::default()).unwrap();
        (0..200)
            .map(|at| ReadRequest::new(file.clone(), at * 40, 40))
            .collect()
    }

    fn reads_right(io: &Io, requests: &[ReadRequest]) -> bool {
        let results = io.read_batch(requests);
        results
            .iter()
            .all(|got| got.as_ref().is_ok_and(|got| got[..] == [7; 40]))
    }

    #[test]
    fn a_forked_child_creates_its_own_ring() {
        let dir = tempfile::tempdir().unwrap();
        let requests = requests(&dir);
        for driver in [ReadDriver::Uring, ReadDriver::Threads] {
            let io = Io::with_driver(Some(driver)).ignoring_page_cache();
            let is_right = || reads_right(&io, &requests);
            assert!(is_right(), "the parent has a ring");
            assert!(holds_in_child(is_right, || assert!(is_right())), "{driver}");
            assert!(is_right(), "the ring of the parent is intact");
        }
    }

    #[test]
    fn a_forked_child_reads_again_what_its_parent_started() {
        let dir = tempfile::tempdir().unwrap();
        let mut requests = requests(&dir);
        let io = Io::with_driver(None).ignoring_page_cache();
        for request in requests.iter_mut().step_by(2) {
            *request = io.start(request).request();
        }
        let in_child = || {
            let started = requests.iter().filter_map(ReadRequest::started);
            let ended = started.filter(|read| read.has_ended()).count();
            let is_right = reads_right(&io, &requests);
            requests.iter().for_each(|one| drop(one.clone()));
            ended == 0 && is_right
        };
        assert!(holds_in_child(in_child, || ()));
        assert!(
            reads_right(&io, &requests),
            "the reads of the parent are intact"
        );
    }

    /// Regression: the rings of many threads leave descriptors for files.
    #[test]
    fn rings_take_a_part_of_the_descriptors() {
        use rustix::process::{Resource, Rlimit, setrlimit};

        const THREADS: usize = 60;
        let name = "posix::ring::tests::rings_take_a_part_of_the_descriptors";
        alone(name, || {
            let dir = tempfile::tempdir().unwrap();
            let requests = requests(&dir);
            let limit = Rlimit {
                current: Some(90),
                maximum: Some(90),
            };
            setrlimit(Resource::Nofile, limit).unwrap();
            let io = Io::with_driver(None).ignoring_page_cache();
            let path = dir.path().join("f");
            let (all_read, all_open) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        let is_right = reads_right(&io, &requests);
                        all_read.wait();
                        all_open.wait();
                        assert!(is_right);
                    });
                }
                all_read.wait();
                let files: Vec<_> = (0..20).map(|_| File::open(&path)).collect();
                // Another thread, because the rings of the others take all places.
                let later = scope.spawn(|| Io::with_driver(Some(io.driver())).refusal().is_none());
                let later = later.join().unwrap();
                all_open.wait();
                assert!(files.iter().all(Result::is_ok));
                assert!(later, "a full number of rings is no refusal");
            });
            assert!(reads_right(&io, &requests));
        });
    }

    #[test]
    fn without_a_ring_threads_read() {
        use rustix::process::{Resource, Rlimit, setrlimit};

        alone("posix::ring::tests::without_a_ring_threads_read", || {
            let dir = tempfile::tempdir().unwrap();
            let requests = requests(&dir);
            // Another thread, because this one is to have no ring.
            let before = std::thread::spawn(|| Io::with_driver(None).ignoring_page_cache());
            let before = before.join().unwrap();
            // No descriptor is left for a ring.
            let none = Rlimit {
                current: Some(0),
                maximum: Some(0),
            };
            setrlimit(Resource::Nofile, none).unwrap();
            let after = Io::with_driver(None).ignoring_page_cache();
            assert_eq!(after.driver(), ReadDriver::Threads);
            assert!(after.refusal().is_some());
            assert!(reads_right(&after, &requests) && reads_right(&before, &requests));
        });
    }
}
