//! Options of `CompactFiles` and `WaitForCompact`, and the cancellation flag.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_types::Result;

use crate::enums::{Compression, Temperature};
use crate::row::refuse_all;
use crate::rows::{Options, options};
use crate::text::{NULL, Refusal, Text};

options! {
    /// Options of `CompactFiles`.
    CompactionOptions, "CompactionOptions" {
        /// Compression of the outputs; `None` for that of the column family.
        compression: Option<Compression> = None;
        /// Target size of the outputs, in bytes.
        output_file_size_limit: u64 = u64::MAX;
        /// Maximum number of subcompactions; 0 for the database's `max_subcompactions`.
        max_subcompactions: u32 = 0;
        /// Cancellation flag.
        canceled: Canceled = Canceled::default(), unwritten;
        /// Temperature of the outputs; unknown for that of their level.
        output_temperature_override: Temperature = Temperature::Unknown;
        /// True if files without overlap are moved instead of rewritten.
        allow_trivial_move: bool = false;
    }
}

options! {
    /// Options of waiting for flushes and compactions.
    WaitForCompactOptions, "WaitForCompactOptions" {
        /// True to return `Aborted` if background work is paused.
        abort_on_pause: bool = false;
        /// True to flush all column families first.
        flush: bool = false;
        /// True to wait for the deletion of obsolete files as well.
        wait_for_purge: bool = false;
        /// True to close the database afterwards.
        close_db: bool = false;
        /// Timeout in microseconds, after which the call returns `TimedOut`; 0 for none.
        timeout: u64 = 0;
    }
}

impl CompactionOptions {
    /// Rejects unsupported options.
    ///
    /// # Errors
    ///
    /// `NotSupported`, with their names.
    pub fn check_supported(&self) -> Result<()> {
        refuse_all(&self.unsupported())
    }
}

/// A shared flag that cancels compactions. A canceled call soon returns `Incomplete` and keeps only
/// the results it has already installed.
#[derive(Clone, Debug, Default)]
pub struct Canceled(Option<Arc<AtomicBool>>);

impl Canceled {
    /// Creates a flag that is not set.
    #[must_use]
    pub fn new() -> Canceled {
        Canceled(Some(Arc::default()))
    }

    /// Cancels every compaction with this flag.
    pub fn cancel(&self) {
        if let Some(flag) = &self.0 {
            flag.store(true, Ordering::Release);
        }
    }

    /// True if the flag is set.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|flag| flag.load(Ordering::Acquire))
    }

    /// Returns the flag, if there is one.
    #[must_use]
    pub fn flag(&self) -> Option<&Arc<AtomicBool>> {
        self.0.as_ref()
    }
}

impl From<Arc<AtomicBool>> for Canceled {
    fn from(flag: Arc<AtomicBool>) -> Canceled {
        Canceled(Some(flag))
    }
}

impl Text for Canceled {
    fn parse(text: &str) -> Result<Canceled, Refusal> {
        match text {
            NULL | "" => Ok(Canceled::default()),
            _ => Err("a cancellation flag can only be set in code".to_owned()),
        }
    }

    fn print(&self) -> String {
        NULL.to_owned()
    }
}
