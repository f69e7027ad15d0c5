//! The database: column families, writes, recovery, scheduling.
//!
//! [`open`] makes a [`Db`] of a directory. Writes go through one queue (`write`) into the log and
//! the memtables; reads take a view of a family and run on their own. Full memtables and trees out
//! of shape become jobs (`background`), whose edits are logged in the MANIFEST and then shown to
//! readers (`install`). The locks, and the order in which they are taken, are listed in
//! `shared`.

mod background;
mod batch;
mod blob_stats;
mod bounds;
mod budget;
mod cached;
mod clip;
mod coalescing;
mod compaction;
mod context;
mod control;
mod db;
mod entities;
mod errors;
mod family;
mod file_numbers;
mod files;
mod flush;
mod handle;
pub(crate) mod header;
mod idle_workers;
mod install;
mod invariants;
mod iter;
mod jobs;
mod lifecycle;
mod locks;
mod manual;
mod memory;
mod multi_get;
mod obsolete_files;
mod open;
mod options_files;
mod periodic;
mod properties;
mod purge;
mod reads;
mod release;
mod scheduler;
mod set_options;
mod settings;
mod shared;
mod sizes;
mod snapshot;
mod sst_file_manager;
mod stats;
mod stats_text;
mod table_properties;
mod telemetry;
mod timers;
mod ttl;
mod verify;
mod wal_iterator;
pub(crate) mod watch;
pub(crate) mod work;
mod write;

pub use batch::WriteBatch;
pub use bounds::Range;
pub use cached::{CacheDump, CacheLoad};
pub use cairn_format::batch::Record;
pub use cairn_jobs::pick::UserRange;
pub use cairn_read::merge_operands::{Below, Merged};
pub use cairn_read::{Columns, DbIter, Found, GetScratch, Value};
pub use coalescing::CoalescingIter;
pub use db::Db;
pub use entities::Column;
pub use errors::BackgroundError;
pub use errors::retry::Damaged;
pub use family::FamilyDescriptor;
pub use files::*;
pub use handle::Family;
pub use iter::Iter;
pub use memory::{MemoryUsage, approximate_memory_usage};
pub use open::{Dropped, OpenRequest, list_families, open};
pub use options_files::{
    check_options_compatibility, latest_options_file, load_latest_options, load_options,
};
pub use set_options::Changes;
pub use sizes::{MayExist, SizeApproximationOptions};
pub use snapshot::Snapshot;
pub use table_properties::{TablePropertiesCollection, table_properties_text};
pub use wal_iterator::{WalFile, WalFileType, WalIterator};
pub use write::stall::{Cause, Condition};
