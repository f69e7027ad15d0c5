//! The database: column families, writes, recovery, scheduling.
//!
//! [`open()`] opens a [`Db`] in a directory. Writes go through one queue (`write`) to the log and the
//! memtables; reads use a view of a family without locks. Full memtables, and levels above their targets,
//! become jobs (`jobs`), whose edits are logged in the MANIFEST and then published to readers (`catalog`).
//! Locks and their order are listed in `locks`.
//!
//! | folder | owns |
//! |---|---|
//! | `db` | the handles of a program |
//! | `open`, `close` | an opening with its recovery; a closing |
//! | `write` | batches, the write queue, logs, room in memtables, stalls |
//! | `read` | point reads, iterators, streams of the log |
//! | `jobs` | flushes, compactions, purges, periodic tasks |
//! | `catalog`, `families` | families and their views, the MANIFEST, file numbers, obsolete files; creation of families |
//! | `files` | operations on files outside of the tree: ingestion, export, checkpoint, repair |
//! | `options` | current options and their changes |
//! | `errors` | background errors and recovery from them |
//! | `memory`, `report`, `telemetry`, `trace` | the budget; properties and statistics; listeners and counters; traces |
//! | `follow` | databases that follow another one |
//! | `shared`, `context`, `locks` | the state of an open database; its constants; its locks |
//!
//! Three paths through the crate, as starting points:
//!
//! - A put: `Family::put` (`db`) fills a batch; `Shared::write` (`write`) checks it and passes it to the pipeline
//!   (`write::commit`), which calls `prepare` (`write::room`), `log` (`write::log`) and `insert` (`write::insert`).
//! - A flush: `reserve_flush` (`jobs::flush`) decides when, `flush_family` (`jobs::flush_job`) writes the table, and
//!   `Catalog::install` (`catalog::install`) makes it durable and publishes the next view.
//! - An open: `open_with` (`open`) recovers the MANIFEST and composes the state; `finish_opening` (`open::wals`) replays
//!   the logs and makes the recovered state current.

mod catalog;
mod close;
mod context;
mod db;
mod errors;
mod families;
mod files;
mod follow;
mod jobs;
mod locks;
mod memory;
mod open;
mod options;
mod read;
mod report;
mod shared;
mod telemetry;
mod trace;
mod write;

pub use cairn_format::batch::{PreparePolicy, Record};
pub use cairn_format::trace::{Query, Seek};
pub use cairn_jobs::pick::UserRange;
pub use cairn_observe::traces::SampledTraceOptions;
pub use cairn_read::merge_operands::{Below, Merged};
pub use cairn_read::{
    Columns, ContinueCallback, DbIter, Found, GetMergeOperandsOptions, GetScratch, MultiScanArgs,
    Operand, Operands, OperandsIter, Value,
};
pub use cairn_table::ScanRange;
pub use catalog::family::FamilyDescriptor;
pub use catalog::snapshot::Snapshot;
pub use context::Follows;
pub use db::Db;
pub use db::entities::Column;
pub use db::handle::Family;
pub use db::timestamps::{TimestampedValue, open_and_trim_history};
pub use errors::BackgroundError;
pub use errors::retry::Damaged;
pub use files::*;
pub use follow::catch_up::CatchUp;
pub use follow::{FollowRequest, Intake, open_following};
pub use jobs::remote::{CompactionServiceOptionsOverride, OpenAndCompactOptions, open_and_compact};
pub use memory::cached::{CacheDump, CacheDumpContent, CacheGroup, CacheLoad};
pub use memory::usage::{MemoryUsage, approximate_memory_usage, caches_of};
pub use open::replay::RecordedSizes;
pub use open::{Dropped, OpenRequest, convert_policy, list_families, open, open_of_policy};
pub use options::options_files::{
    check_options_compatibility, latest_options_file, load_latest_options, load_options,
};
pub use options::set_options::Changes;
pub use read::bounds::Range;
pub use read::coalescing::CoalescingIter;
pub use read::conflict::KeyState;
pub use read::iter::{AsyncIter, Iter, Motion, MultiScan};
pub use read::multi_get::multi_get_with_timestamps;
pub use read::sizes::{MayExist, SizeApproximationOptions};
pub use read::wal_iterator::{WalFile, WalFileType, WalIterator};
pub use report::stats_family::STATS_FAMILY;
pub use report::table_properties::{TablePropertiesCollection, table_properties_text};
pub use shared::kept_files::KeptFiles;
pub use trace::{
    FileTraceReader, FileTraceWriter, ReplayOptions, Replayed, Replayer, TraceFilter, TraceOptions,
    TraceReader, TraceRecord, TraceRecordResult, TraceWriter,
};
pub use write::batch::WriteBatch;
pub use write::stall::{Cause, Condition};
pub use write::two_phase::{CommitParts, PreparedTransaction};
pub use write::write_callback::WriteCallback;
