//! Values in blob files that a scan with `async_io` reads before it reaches them.
//!
//! After a few values of a scan have been read from blob files one by one, those of the following entries in the blocks
//! that the scan merges are read together, and further ones whenever half of them have been used. Some may turn out to be
//! hidden by newer versions, and are read in vain.

use std::collections::{HashMap, HashSet};

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

    /// Returns the read of the value at `index`, if it has been started.
    pub(crate) fn take(&mut self, index: &[u8]) -> Option<(PendingBlob, ReadRequest)> {
        let taken = self.pending.remove(index)?;
        self.bytes -= taken.1.len;
        Some(taken)
    }

    /// Notes a read of a value, which had been started if `was_ahead`. Returns the maximum number of further ones to be
    /// started, or `None` if there are enough.
    pub(crate) fn reads_on(&mut self, was_ahead: bool) -> Option<usize> {
        self.single_reads += u64::from(!was_ahead);
        if self.single_reads <= SINGLE_READS {
            return None;
        }
        let is_used = self.pending.len() <= self.window / 2;
        if is_used {
            self.window = (self.window * 2).clamp(*WINDOW.start(), *WINDOW.end());
        }
        (is_used || !was_ahead).then_some(self.window)
    }

    /// Drops the reads of values that are not among `following`, the encoded blob indexes of the entries that follow:
    /// the scan has passed them.
    pub(crate) fn retain(&mut self, following: &HashSet<&[u8]>) {
        let bytes = &mut self.bytes;
        self.pending.retain(|index, (_, request)| {
            let follows = following.contains(&index[..]);
            *bytes -= if follows { 0 } else { request.len };
            follows
        });
    }

    /// Starts the read of the value at `index`, which `locate` returns unless the value is cached, if it has not been
    /// started. Returns false if there is no room for it.
    pub(crate) fn start(
        &mut self,
        index: &[u8],
        locate: impl FnOnce() -> Option<(PendingBlob, ReadRequest)>,
    ) -> bool {
        if self.pending.contains_key(index) {
            return true;
        }
        if self.pending.len() >= self.window {
            return false;
        }
        let Some((place, request)) = locate() else {
            return true;
        };
        if self.bytes.saturating_add(request.len) > MOST_BYTES {
            return false;
        }
        self.bytes += request.len;
        let started = self.io.start(&request).request();
        self.pending.insert(index.to_vec(), (place, started));
        true
    }
}
