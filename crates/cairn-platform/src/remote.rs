//! A file system with the delays of remote storage: for benchmarks and tests of reads in parallel.
//!
//! Reads are delayed, and nothing else. A read takes one of a limited number of places in the queue of the
//! device, waits for the latency, and then transfers its bytes over a link that all reads share. The times
//! are computed when the read starts, from those of the reads before it, so that a batch waits for its last
//! read without a thread for each. With a simulated clock, equal reads take equal times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_types::Result;

use crate::clock::Clock;
use crate::fs::{FileMode, FileSystem, RandomAccessFile, Status, WritableFile, read_up_to_end};
use crate::read_queue::{FileReads, ReadQueue, sleep_until};
use crate::sync::Mutex;
use crate::wrapper;

/// The delays of a [`RemoteFileSystem`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteSettings {
    /// The time from the start of a read until its first byte arrives.
    pub latency: Duration,
    /// The rate at which all reads together transfer bytes, per second; 0 for no limit.
    pub bandwidth: u64,
    /// The number of reads in flight at a time; further ones wait. At least 1.
    pub queue_depth: usize,
}

impl Default for RemoteSettings {
    fn default() -> RemoteSettings {
        RemoteSettings {
            latency: Duration::from_millis(1),
            bandwidth: 0,
            queue_depth: 128,
        }
    }
}

/// A file system whose reads take as long as those of remote storage.
#[derive(Clone)]
pub struct RemoteFileSystem {
    fs: Arc<dyn FileSystem>,
    device: Arc<Device>,
}

impl std::fmt::Debug for RemoteFileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteFileSystem")
            .field("settings", &self.device.settings)
            .finish_non_exhaustive()
    }
}

impl RemoteFileSystem {
    /// Creates a file system that delays the reads of `fs`, in the time of `clock`.
    #[must_use]
    pub fn new(
        fs: Arc<dyn FileSystem>,
        clock: Arc<dyn Clock>,
        settings: RemoteSettings,
    ) -> RemoteFileSystem {
        let places = (0..settings.queue_depth.max(1)).map(|_| Reverse(0));
        let schedule = Schedule {
            places: places.collect(),
            link: 0,
        };
        RemoteFileSystem {
            fs,
            device: Arc::new(Device {
                clock,
                settings,
                schedule: Mutex::new(schedule),
            }),
        }
    }
}

struct Device {
    clock: Arc<dyn Clock>,
    settings: RemoteSettings,
    schedule: Mutex<Schedule>,
}

/// The times, by [`Clock::monotonic_nanos`], at which parts of the device become free.
struct Schedule {
    places: BinaryHeap<Reverse<u64>>,
    link: u64,
}

impl Device {
    /// Starts a read of `bytes`. Returns the time of its end.
    fn start(&self, bytes: usize) -> u64 {
        let latency = u64::try_from(self.settings.latency.as_nanos()).unwrap_or(u64::MAX);
        let mut schedule = self.schedule.lock();
        let now = self.clock.monotonic_nanos();
        let Reverse(free) = schedule.places.pop().unwrap_or(Reverse(0));
        let arrives = now.max(free).saturating_add(latency);
        let end = match self.settings.bandwidth {
            0 => arrives,
            rate => {
                let transfer = bytes as u128 * 1_000_000_000 / u128::from(rate);
                let transfer = u64::try_from(transfer).unwrap_or(u64::MAX);
                schedule.link = arrives.max(schedule.link).saturating_add(transfer);
                schedule.link
            }
        };
        schedule.places.push(Reverse(end));
        end
    }
}

impl wrapper::FileSystemWrapper for RemoteFileSystem {
    fn target(&self) -> &dyn FileSystem {
        &*self.fs
    }

    fn open(&self, path: &Path, mode: FileMode) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self.fs.open(path, mode)?;
        let device = self.device.clone();
        Ok(Arc::new(RemoteReader { file, device }))
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

    fn status(&self, path: &Path) -> Result<Status> {
        self.fs.status(path)
    }

    fn status_each(&self, dir: &Path, names: &[String]) -> Vec<Result<Status>> {
        self.fs.status_each(dir, names)
    }
}

struct RemoteReader {
    file: Arc<dyn RandomAccessFile>,
    device: Arc<Device>,
}

impl wrapper::RandomAccessFileWrapper for RemoteReader {
    fn target(&self) -> &dyn RandomAccessFile {
        &*self.file
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let end = self.device.start(buf.len());
        let got = self.file.read_at(offset, buf);
        sleep_until(&*self.device.clock, end);
        got
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        read_up_to_end(self, offset, buf)
    }

    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        for read in &reads.reads {
            queue.wait_until(&self.device.clock, self.device.start(read.wanted()));
        }
        self.file.start_reads(reads, queue);
    }

    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.file.finish_reads(reads, queue);
    }

    fn prefetch(&self, _offset: u64, _len: usize) -> bool {
        // A later read would be delayed all the same.
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{AtomicU64, Ordering};
    use crate::{Io, MemFileSystem, ReadDriver, ReadRequest, SystemClock};

    const MS: u64 = 1_000_000;

    /// A clock that advances by sleeping only.
    #[derive(Default)]
    struct Still(AtomicU64);

    impl Clock for Still {
        fn wall_micros(&self) -> u64 {
            self.monotonic_nanos() / 1_000
        }
        fn monotonic_nanos(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
        fn sleep(&self, duration: Duration) {
            let nanos = duration.as_nanos() as u64;
            self.0.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    fn file(clock: Arc<dyn Clock>, settings: RemoteSettings) -> Arc<dyn RandomAccessFile> {
        let fs = RemoteFileSystem::new(Arc::new(MemFileSystem::new()), clock, settings);
        let path = Path::new("/f");
        let file = fs.create(path, FileMode::default()).unwrap();
        file.append(&[1; 100_000]).unwrap();
        file.close().unwrap();
        fs.open(path, FileMode::default()).unwrap()
    }

    /// The time of a batch of `count` reads of 1000 bytes, in milliseconds.
    fn time_of(driver: ReadDriver, count: u64, settings: RemoteSettings) -> u64 {
        let clock = Arc::new(Still::default());
        let file = file(clock.clone(), settings);
        let request = |at| ReadRequest::new(file.clone(), at * 1000, 1000);
        let requests: Vec<_> = (0..count).map(request).collect();
        let results = Io::with_driver(Some(driver)).read_batch(&requests);
        assert!(
            results
                .iter()
                .all(|got| got.as_ref().unwrap()[..] == [1; 1000])
        );
        clock.monotonic_nanos() / MS
    }

    #[test]
    fn the_reads_of_a_batch_wait_together_up_to_the_depth_of_the_queue() {
        let settings = RemoteSettings {
            latency: Duration::from_millis(2),
            bandwidth: 0,
            queue_depth: 4,
        };
        let narrow = RemoteSettings {
            bandwidth: 1_000_000,
            ..settings
        };
        for driver in [ReadDriver::Uring, ReadDriver::Threads] {
            assert_eq!(time_of(driver, 1, settings), 2);
            assert_eq!(time_of(driver, 4, settings), 2);
            assert_eq!(time_of(driver, 10, settings), 6);
            // A millisecond for the bytes of each.
            assert_eq!(time_of(driver, 1, narrow), 3);
            assert_eq!(time_of(driver, 4, narrow), 6);
            assert_eq!(time_of(driver, 10, narrow), 12);
        }
        assert_eq!(time_of(ReadDriver::Blocking, 10, settings), 20);
        assert_eq!(time_of(ReadDriver::Blocking, 10, narrow), 30);
    }

    #[test]
    fn the_system_clock_is_waited_for() {
        let settings = RemoteSettings {
            latency: Duration::from_millis(20),
            ..RemoteSettings::default()
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let file = file(clock.clone(), settings);
        let requests: Vec<_> = (0..8)
            .map(|at| ReadRequest::new(file.clone(), at, 10))
            .collect();
        let began = clock.monotonic_nanos();
        let results = Io::with_driver(None).read_batch(&requests);
        let took = clock.monotonic_nanos() - began;
        assert!(results.iter().all(Result::is_ok));
        assert!((20 * MS..8 * 20 * MS).contains(&took), "{took}");
    }
}
