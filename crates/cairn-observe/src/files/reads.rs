//! Files whose reads are counted and timed.

use std::sync::Arc;

use cairn_platform::fs::ReadAt;
use cairn_platform::{RandomAccessFile, wrapper};
use cairn_types::Result;

use crate::activity::Activity;
use crate::statistics::{Histogram, Meter, Ticker};

/// The kind of a file that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOf {
    /// A table.
    Table {
        /// True if it is in the last level.
        last_level: bool,
    },
    /// A blob file.
    Blob,
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
    /// Runs `read`. `made` returns the number of reads and bytes of a result.
    fn count<T>(&self, read: impl FnOnce() -> T, made: impl FnOnce(&T) -> (u64, u64)) -> T {
        let began = self.meter.began();
        let result = read();
        let nanos = self.meter.nanos_since(began);
        let (reads, bytes) = made(&result);
        let (read_count, read_bytes, histogram) = match self.of {
            ReadOf::Table { last_level: true } => (
                Ticker::LastLevelReadCount,
                Ticker::LastLevelReadBytes,
                Histogram::SstReadMicros,
            ),
            ReadOf::Table { last_level: false } => (
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
        result
    }
}

impl wrapper::RandomAccessFileWrapper for Counted {
    fn target(&self) -> &dyn RandomAccessFile {
        &*self.file
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.count(
            || self.file.read_at(offset, buf),
            |got| got.as_ref().map_or((0, 0), |&got| (1, got as u64)),
        )
    }

    fn read_up_to_end(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.count(
            || self.file.read_up_to_end(offset, buf),
            |got| got.as_ref().map_or((0, 0), |&got| (1, got as u64)),
        )
    }

    fn read_many(&self, reads: &mut [ReadAt<'_>]) {
        let made = self.count(
            || {
                self.file.read_many(reads);
                let got = reads.iter().filter_map(|read| read.got.as_ref().ok());
                got.fold((0, 0), |(reads, bytes), &got| {
                    (reads + 1, bytes + got as u64)
                })
            },
            |&made| made,
        );
        debug_assert!(made.0 <= reads.len() as u64, "no more than were requested");
    }
}
