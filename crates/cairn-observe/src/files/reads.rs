//! Files whose reads are counted and timed.

use std::sync::Arc;

use cairn_platform::io::{FileReads, ReadQueue};
use cairn_platform::{RandomAccessFile, wrapper};
use cairn_types::Result;

use crate::activity::Activity;
use crate::statistics::{Began, Histogram, Meter, Ticker};

/// The kind of a file that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOf {
    /// A table.
    Table {
        /// True if it is in the last level.
        last_level: bool,
        /// RocksDB's number of its temperature; 0 if unknown.
        temperature: u8,
    },
    /// A blob file.
    Blob,
}

impl ReadOf {
    /// The tickers of reads and their bytes of files with this temperature, if it is known.
    fn temperature_tickers(self) -> Option<(Ticker, Ticker)> {
        let ReadOf::Table { temperature, .. } = self else {
            return None;
        };
        match temperature {
            4 => Some((Ticker::HotFileReadCount, Ticker::HotFileReadBytes)),
            8 => Some((Ticker::WarmFileReadCount, Ticker::WarmFileReadBytes)),
            10 => Some((Ticker::CoolFileReadCount, Ticker::CoolFileReadBytes)),
            12 => Some((Ticker::ColdFileReadCount, Ticker::ColdFileReadBytes)),
            16 => Some((Ticker::IceFileReadCount, Ticker::IceFileReadBytes)),
            _ => None,
        }
    }
}

/// Wraps `file` so that its reads are recorded in the statistics of `meter`, if there are any.
#[must_use]
pub fn counted_reads(
    file: Arc<dyn RandomAccessFile>,
    meter: &Meter,
    of: ReadOf,
) -> Arc<dyn RandomAccessFile> {
    if meter.statistics().is_none() {
        return file;
    }
    Arc::new(Counted {
        file,
        meter: meter.clone(),
        of,
    })
}

/// A file whose reads are counted.
struct Counted {
    file: Arc<dyn RandomAccessFile>,
    meter: Meter,
    of: ReadOf,
}

impl Counted {
    /// Runs `read`, and counts it if it succeeds.
    fn count(&self, read: impl FnOnce() -> Result<usize>) -> Result<usize> {
        let began = self.meter.began();
        let result = read();
        let nanos = self.meter.nanos_since(began);
        let (reads, bytes) = result.as_ref().map_or((0, 0), |&got| (1, got as u64));
        self.add(nanos, reads, bytes);
        result
    }

    /// Adds `reads` of `bytes`, which took `nanos` together.
    fn add(&self, nanos: Option<u64>, reads: u64, bytes: u64) {
        let (read_count, read_bytes, histogram) = match self.of {
            ReadOf::Table {
                last_level: true, ..
            } => (
                Ticker::LastLevelReadCount,
                Ticker::LastLevelReadBytes,
                Histogram::SstReadMicros,
            ),
            ReadOf::Table { .. } => (
                Ticker::NonLastLevelReadCount,
                Ticker::NonLastLevelReadBytes,
                Histogram::SstReadMicros,
            ),
            ReadOf::Blob => (
                Ticker::NonLastLevelReadCount,
                Ticker::NonLastLevelReadBytes,
                Histogram::BlobDbBlobFileReadMicros,
            ),
        };
        self.meter.update(|update| {
            update.add(read_count, reads);
            update.add(read_bytes, bytes);
            if let Some((count, sum)) = self.of.temperature_tickers() {
                update.add(count, reads);
                update.add(sum, bytes);
            }
            if let Some(nanos) = nanos {
                update.time(histogram, nanos / 1_000);
                let activity = Activity::current();
                if let Some(activity) = activity {
                    update.time(activity.reads(), nanos / 1_000);
                }
                if activity == Some(Activity::Compaction) && self.of != ReadOf::Blob {
                    update.time(Histogram::ReadBlockCompactionMicros, nanos / 1_000);
                }
            }
        });
    }
}

impl wrapper::RandomAccessFileWrapper for Counted {
    fn target(&self) -> &dyn RandomAccessFile {
        &*self.file
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.count(|| self.file.read_at(offset, buf))
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.count(|| self.file.read_up_to_end(offset, buf))
    }

    fn start_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        reads.note(self.meter.began().to_note());
        self.file.start_reads(reads, queue);
    }

    fn finish_reads(&self, reads: &mut FileReads, queue: &mut ReadQueue) {
        self.file.finish_reads(reads, queue);
        let began = Began::from_note(reads.take_note());
        let nanos = self.meter.nanos_since(began);
        let (done, bytes) = reads.done();
        self.add(nanos, done, bytes);
    }
}
