//! Values in blob files that a scan with `async_io` reads before it reaches them.
//!
//! After a few values of a scan have been read from blob files one by one, those of the following entries in
//! the block of the scan are read together, and further ones whenever half of them have been used. Some may
//! turn out to be hidden by newer versions, and are read in vain.

use std::collections::HashMap;

use cairn_platform::{Io, ReadRequest};

use crate::blob::PendingBlob;

/// The number of values that are read one by one before others are read ahead.
const SINGLE_READS: u64 = 2;
/// The number of values that are read together, at first and at most.
const WINDOW: std::ops::RangeInclusive<usize> = 8..=128;
/// The maximum size in bytes of the values that are being read.
const MOST_BYTES: usize = 4 << 20;

/// The values that are being read.
pub(crate) struct BlobsAhead {
    io: Io,
    /// The number of values that the scan has read and that were not read ahead.
    single_reads: u64,
    /// The maximum number of values that are being read.
    window: usize,
    /// The size in bytes of the values that are being read.
    bytes: usize,
    /// By encoded blob index.
    pending: HashMap<Vec<u8>, (PendingBlob, ReadRequest)>,
}

impl BlobsAhead {
    pub(crate) fn new(io: Io) -> BlobsAhead {
        BlobsAhead {
            io,
            single_reads: 0,
            window: 0,
            bytes: 0,
            pending: HashMap::new(),
        }
    }

    /// Drops the reads in progress, after the scan has moved elsewhere.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        self.bytes = 0;
        self.single_reads = 0;
        self.window = 0;
    }

    pub(crate) fn has(&self, index: &[u8]) -> bool {
        self.pending.contains_key(index)
    }

    /// Returns the read of the value at `index`, if it has been started.
    pub(crate) fn take(&mut self, index: &[u8]) -> Option<(PendingBlob, ReadRequest)> {
        let taken = self.pending.remove(index)?;
        self.bytes -= taken.1.len;
        Some(taken)
    }

    /// Notes a read of a value, which had been started if `was_ahead`. Returns true if further ones are to be
    /// started.
    pub(crate) fn reads_on(&mut self, was_ahead: bool) -> bool {
        if !was_ahead {
            self.single_reads += 1;
            // Of entries that the scan did not reach.
            self.pending.clear();
            self.bytes = 0;
        }
        let reads_on = self.single_reads > SINGLE_READS && self.pending.len() <= self.window / 2;
        if reads_on {
            self.window = (self.window * 2).clamp(*WINDOW.start(), *WINDOW.end());
        }
        reads_on
    }

    /// Starts the read of the value at `index`. Returns true if there is room for another.
    pub(crate) fn start(&mut self, index: &[u8], place: PendingBlob, request: ReadRequest) -> bool {
        if self.bytes.saturating_add(request.len) > MOST_BYTES {
            return false;
        }
        self.bytes += request.len;
        let started = self.io.start(&request).request();
        self.pending.insert(index.to_vec(), (place, started));
        self.pending.len() < self.window
    }
}
