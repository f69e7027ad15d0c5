//! The database: column families, writes, recovery, scheduling.
//!
//! [`open()`] opens a [`Db`] in a directory. Writes go through one queue (`write`) to the log and the
//! memtables; reads use a view of a family without locks. Full memtables, and levels above their targets,
//! become jobs (`background`), whose edits are logged in the MANIFEST and then published to readers
//! (`catalog`). Locks and their order are listed in `locks`.

mod awaited_writes;
mod background;
mod batch;
mod blob_stats;
mod bounds;
mod budget;
mod budget_report;
mod cached;
mod catalog;
mod catalog_env;
mod catch_up;
mod clip;
mod close;
mod coalescing;
mod compaction;
mod conflict;
mod context;
mod control;
mod db;
mod direct_blobs;
mod entities;
mod errors;
mod families;
mod family_stats;
mod files;
mod files_host;
mod flush;
mod flush_job;
mod follow;
mod forced_flush;
mod futures;
mod handle;
mod handoff;
pub(crate) mod header;
mod idle_workers;
mod inherited_files;
mod invariants;
mod iter;
mod job_context;
mod jobs;
mod json;
mod kept_files;
mod lifecycle;
mod locks;
mod manual;
mod memory;
mod memory_report;
mod multi_get;
mod open;
mod open_iterators;
mod options_files;
mod periodic;
mod persisted_stats;
mod properties;
mod purge;
mod reads;
mod release;
mod remote;
mod scheduler;
mod seqno_times;
mod set_options;
mod settings;
mod shared;
mod sizes;
mod stats;
mod stats_family;
mod stats_text;
mod table_properties;
mod telemetry;
mod timers;
mod timestamps;
mod trace;
mod ttl;
mod two_phase;
mod verify;
mod wal_iterator;
pub(crate) mod watch;
mod write;

pub use batch::WriteBatch;
pub use bounds::Range;
pub use cached::{CacheDump, CacheDumpContent, CacheGroup, CacheLoad};
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
pub use catch_up::CatchUp;
pub use coalescing::CoalescingIter;
pub use conflict::KeyState;
pub use context::Follows;
pub use db::Db;
pub use entities::Column;
pub use errors::BackgroundError;
pub use errors::retry::Damaged;
pub use files::*;
pub use follow::{FollowRequest, Intake, open_following};
pub use handle::Family;
pub use iter::{AsyncIter, Iter, Motion, MultiScan};
pub use kept_files::KeptFiles;
pub use memory::{MemoryUsage, approximate_memory_usage};
pub use open::replay::RecordedSizes;
pub use open::{Dropped, OpenRequest, convert_policy, list_families, open, open_of_policy};
pub use options_files::{
    check_options_compatibility, latest_options_file, load_latest_options, load_options,
};
pub use remote::{CompactionServiceOptionsOverride, OpenAndCompactOptions, open_and_compact};
pub use set_options::Changes;
pub use sizes::{MayExist, SizeApproximationOptions};
pub use stats_family::STATS_FAMILY;
pub use table_properties::{TablePropertiesCollection, table_properties_text};
pub use timestamps::{TimestampedValue, multi_get_with_timestamps, open_and_trim_history};
pub use trace::{
    FileTraceReader, FileTraceWriter, ReplayOptions, Replayed, Replayer, TraceFilter, TraceOptions,
    TraceReader, TraceRecord, TraceRecordResult, TraceWriter,
};
pub use two_phase::{CommitParts, PreparedTransaction};
pub use wal_iterator::{WalFile, WalFileType, WalIterator};
pub use write::stall::{Cause, Condition};
pub use write::write_callback::WriteCallback;
