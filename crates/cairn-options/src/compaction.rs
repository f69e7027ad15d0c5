//! Options of calls about compactions: of named files, waiting for them, calling them off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_types::Result;

use crate::enums::{Compression, Temperature};
use crate::row::refuse_all;
use crate::rows::{Options, options};
use crate::text::{NULL, Refusal, Text};

options! {
    /// How a compaction of files that a user names works.
    CompactionOptions, "CompactionOptions" {
        /// Compression of the outputs; none for what the family says of their level.
        compression: Option<Compression> = None;
        /// Size of the outputs, in bytes.
        output_file_size_limit: u64 = u64::MAX;
        /// Parts that run in parallel; 0 for the database's `max_subcompactions`.
        max_subcompactions: u32 = 0;
        /// Calls the compaction off.
        canceled: Canceled = Canceled::default(), unwritten;
        /// Temperature of the outputs.
        output_temperature_override: Temperature = Temperature::Unknown, missing;
        /// True if files that overlap nothing are moved without rewriting.
        allow_trivial_move: bool = false;
    }
}

options! {
    /// How long to wait for flushes and compactions.
    WaitForCompactOptions, "WaitForCompactOptions" {
        /// True if the wait ends with `Aborted` while background work is paused.
        abort_on_pause: bool = false;
        /// True if all families are flushed first.
        flush: bool = false;
        /// True to wait for the deletion of obsolete files too.
        wait_for_purge: bool = false;
        /// True if the database is closed afterwards.
        close_db: bool = false;
        /// Microseconds after which the wait ends with `TimedOut`; 0 for never.
        timeout: u64 = 0;
    }
}

impl CompactionOptions {
    /// Refuses options whose feature is not built.
    ///
    /// # Errors
    ///
    /// `NotSupported` names them.
    pub fn check_supported(&self) -> Result<()> {
        refuse_all(&self.unsupported())
    }
}

/// A flag by which whoever started a compaction calls it off; clones are the same flag. The call
/// then ends soon, with `Incomplete`, and has changed nothing that it had not finished.
#[derive(Clone, Debug, Default)]
pub struct Canceled(Option<Arc<AtomicBool>>);

impl Canceled {
    /// A flag that is not set.
    #[must_use]
    pub fn new() -> Canceled {
        Canceled(Some(Arc::default()))
    }

    /// Calls off every compaction that has this flag.
    pub fn cancel(&self) {
        if let Some(flag) = &self.0 {
            flag.store(true, Ordering::Release);
        }
    }

    /// True if the compaction is called off.
    #[must_use]
    pub fn is_canceled(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|flag| flag.load(Ordering::Acquire))
    }

    /// The flag itself, if there is one.
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
            _ => Err("a flag is given in code".to_owned()),
        }
    }

    fn print(&self) -> String {
        NULL.to_owned()
    }
}
