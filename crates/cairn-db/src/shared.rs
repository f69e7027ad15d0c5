//! The state of an open database, and the locks that guard it.
//!
//! Locks, in the order in which they may be taken together:
//!
//! 1. the lead of the write queue (not a lock, but held like one);
//! 2. `writer`: the current log and the last sequence number that was given out;
//! 3. `manifest`: changes of versions, one at a time;
//! 4. `tree`: what changes when jobs start and end; never held across a file operation;
//! 5. the list of snapshots.
//!
//! A change of options holds `options_change` before all of them; the writing of an OPTIONS file
//! holds `options_file` behind all of them.
//!
//! Whoever waits for a job holds none of them but the lead, and helps the executor first.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use cairn_memory::BlockCache;
use cairn_memory::WriteBufferManager;
use cairn_memtable::Memtable;
use cairn_observe::FlushReason;
use cairn_options::DbOptions;
use cairn_platform::fs::FileLock;
use cairn_platform::sync::{AtomicBool, AtomicU64, Condvar, Mutex, OnceLock, Ordering};
use cairn_read::ViewEnd;
use cairn_types::{Error, FileNumber, Result, SequenceNumber};
use cairn_version::OpenTables;
use cairn_version::manifest::Manifest;

use crate::context::DbContext;
use crate::errors::retry::{Damaged, Retry};
use crate::errors::state::Errors;
use crate::family::{Families, FamilyState};
use crate::files::capture::Capture;
use crate::jobs::Jobs;
use crate::obsolete_files::ObsoleteFiles;
use crate::open::dropped::Dropped;
use crate::snapshot::Snapshots;
use crate::space::Space;
use crate::telemetry::Telemetry;
use crate::timers::Timers;
use crate::write::log::CurrentLog;
use crate::write::log_set::LogSet;
use crate::write::order::Order;
use crate::write::queue::Queue;
use crate::write::stall::{Condition, Throttle};
use crate::write::wal_locks::WalLocks;

/// The state of an open database.
pub(crate) struct Shared {
    pub(crate) context: Arc<DbContext>,
    pub(crate) telemetry: Arc<Telemetry>,
    /// Options with their effective values. Replaced as a whole when they change.
    pub(crate) options: ArcSwap<DbOptions>,
    /// What comes again.
    pub(crate) timers: Timers,
    /// The cache of families that bring none of their own.
    /// None once the database is released.
    pub(crate) default_cache: ArcSwapOption<BlockCache>,

    pub(crate) queue: Queue,
    pub(crate) writer: Mutex<Writer>,
    /// What reads see of the writes.
    pub(crate) order: Order,
    /// Some family may have `max_successive_merges`.
    pub(crate) may_merge_early: AtomicBool,
    /// The keys of some family have timestamps.
    pub(crate) has_timestamps: AtomicBool,
    /// Some family may have code of the program that insertions into memtables call.
    pub(crate) insertion_calls_out: AtomicBool,
    /// Something wants the next leader to look before it writes.
    pub(crate) attention: AtomicBool,
    /// What writes of low priority pass at while compactions are behind.
    pub(crate) low_pri_throttle: Throttle,
    /// The budget that memtables keep, if there is one.
    pub(crate) buffers: Option<Arc<WriteBufferManager>>,
    /// The files in the `SstFileManager`.
    pub(crate) space: Space,
    /// Writes of some family have to be delayed or stopped.
    pub(crate) some_are_held_back: AtomicBool,
    /// Compactions are behind, or nearly.
    pub(crate) compactions_behind: AtomicBool,
    /// Bytes of logs at which memtables are switched to let old logs go; 0 for no limit.
    pub(crate) wal_limit: AtomicU64,
    /// Something was written without a log since the last flush of everything.
    pub(crate) unlogged: AtomicBool,

    pub(crate) families: ArcSwap<Families>,
    /// The family with number 0, which every database has and none drops: to be had without asking
    /// for all families. Set when they are first known.
    pub(crate) default_family: OnceLock<Arc<FamilyState>>,
    /// The open tables of all families.
    pub(crate) open_tables: Arc<OpenTables>,
    pub(crate) snapshots: Arc<Snapshots>,
    /// Snapshots older than this keep nothing at the bottom that a compaction would drop.
    pub(crate) bottom_threshold: AtomicU64,

    pub(crate) manifest: Mutex<Option<Manifest>>,
    pub(crate) tree: Mutex<Tree>,
    /// Told, under `tree`, whenever a job ends or the state of writes changes.
    pub(crate) changed: Condvar,
    /// The next number for a file.
    pub(crate) next_file: Arc<AtomicU64>,
    /// Background errors.
    pub(crate) errors: Errors,
    pub(crate) closing: AtomicBool,
    /// Tells running jobs to end.
    pub(crate) cancel: Arc<AtomicBool>,
    /// Whether closing is complete. Its lock makes a second closer wait for the first.
    pub(crate) closed: Mutex<bool>,
    /// The lock on the directory.
    pub(crate) lock: Mutex<Option<Box<dyn FileLock>>>,
    /// What recovery left out.
    pub(crate) dropped: Mutex<Vec<Dropped>>,
    /// For an opening after a repair: entries of families up to these numbers are in tables,
    /// though the MANIFEST does not say so.
    pub(crate) replay_above: Mutex<BTreeMap<u32, SequenceNumber>>,
    /// When the archive of logs was last looked through, in seconds since 1970.
    pub(crate) archive_purged: AtomicU64,
    /// Whether there are files that wait for their last reader.
    pub(crate) has_obsolete: AtomicBool,
    /// True if a view has ended since such files were last looked for.
    pub(crate) view_end: ViewEnd,
    /// The newest options could not be written to an OPTIONS file yet.
    pub(crate) options_unsaved: AtomicBool,
    /// Held while options change, before any other lock.
    pub(crate) options_change: Mutex<()>,
    /// Held while an OPTIONS file is written, so that the newest file has the newest options.
    pub(crate) options_file: Mutex<()>,
    /// What the opening read, if the database is only read.
    pub(crate) opened: OnceLock<Capture>,
}

/// What whoever leads the write queue changes.
pub(crate) struct Writer {
    /// The log that is written; `None` when closed or read-only.
    pub(crate) log: Option<CurrentLog>,
    /// The log before it, and its length.
    pub(crate) ended: Option<(FileNumber, u64)>,
    /// The last sequence number that was given out.
    pub(crate) allocated: SequenceNumber,
    /// Length of the current log.
    pub(crate) unflushed_log_bytes: u64,
}

/// What changes when jobs start and end.
pub(crate) struct Tree {
    pub(crate) families: BTreeMap<u32, FamilyTree>,
    pub(crate) logs: LogSet,
    /// Jobs of the background, and what holds them back.
    pub(crate) jobs: Jobs,
    /// Obsolete files that are still read, or whose deletion is disabled.
    pub(crate) obsolete: ObsoleteFiles,
    /// Families that were dropped, for as long as handles of them live.
    pub(crate) dropped_families: Vec<Weak<FamilyState>>,
    /// How gravely writes are slowed down.
    pub(crate) condition: Condition,
    /// Who holds writes back by `lock_wal`.
    pub(crate) wal_locks: WalLocks,
    /// The largest family id ever used.
    pub(crate) max_family: u32,
}

/// The part of [`Tree`] that belongs to one family.
pub(crate) struct FamilyTree {
    /// Memtables that wait to be flushed, oldest first.
    pub(crate) immutables: Vec<Immutable>,
    /// Logs before this one hold nothing unflushed of the family.
    pub(crate) log_number: FileNumber,
    pub(crate) flushing: bool,
    /// The memtables of the last flush, until listeners have been told how it ended and what follows.
    pub(crate) telling: Vec<Arc<Memtable>>,
    /// Somebody asked for a flush: do not wait for more memtables to merge.
    pub(crate) flush_requested: bool,
    /// Why the next flush runs, if not because a memtable is full.
    pub(crate) flush_reason: Option<FlushReason>,
    /// What the family alone asks of writers.
    pub(crate) condition: Condition,
    /// When flushes may start again after one failed.
    pub(crate) retry_flush: Option<Retry>,
    /// The same for compactions.
    pub(crate) retry_compaction: Option<Retry>,
    /// Tables that compactions could not read.
    pub(crate) damaged: Vec<Damaged>,
    /// Inputs of running compactions.
    pub(crate) busy: cairn_jobs::pick::Busy,
}

/// A memtable that takes no writes any more.
#[derive(Clone)]
pub(crate) struct Immutable {
    pub(crate) memtable: Arc<Memtable>,
    /// The log that was current when this memtable was switched: with this memtable flushed the
    /// family needs only that one and later ones.
    pub(crate) next_log: FileNumber,
}

impl FamilyTree {
    pub(crate) fn new(log_number: FileNumber) -> FamilyTree {
        FamilyTree {
            immutables: Vec::new(),
            log_number,
            flushing: false,
            telling: Vec::new(),
            flush_requested: false,
            flush_reason: None,
            condition: Condition::Normal,
            retry_flush: None,
            retry_compaction: None,
            damaged: Vec::new(),
            busy: cairn_jobs::pick::Busy::default(),
        }
    }
}

impl Shared {
    /// The last write that reads see.
    pub(crate) fn published(&self) -> SequenceNumber {
        self.order.visible()
    }

    /// The options in effect now. Ask once and keep the answer where two of them belong together.
    pub(crate) fn options(&self) -> Guard<Arc<DbOptions>> {
        self.options.load()
    }

    /// A number for a new file.
    pub(crate) fn new_file_number(&self) -> FileNumber {
        FileNumber(self.next_file.fetch_add(1, Ordering::Relaxed))
    }

    /// The number that the next file gets, unless somebody is quicker.
    pub(crate) fn next_file_number(&self) -> FileNumber {
        FileNumber(self.next_file.load(Ordering::Relaxed))
    }

    /// Makes sure that no new file gets `number`.
    pub(crate) fn note_used_number(&self, number: FileNumber) {
        self.next_file.fetch_max(number.0 + 1, Ordering::Relaxed);
    }

    /// The error that made the database read-only, as later writes report it.
    pub(crate) fn check_failure(&self) -> Result<()> {
        self.context.check_process()?;
        match &*self.errors.failure() {
            None => Ok(()),
            Some(error) => Err(error.context("the database is read-only since an earlier error")),
        }
    }

    /// Refuses what needs a writable, open database.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.context.check_process()?;
        if self.context.read_only {
            return Err(Error::not_supported("the database was opened read-only"));
        }
        if self.closing.load(Ordering::Acquire) {
            return Err(Error::shutdown("the database is being closed"));
        }
        self.check_failure()
    }

    /// Waits until `done`, which is asked under the lock of the tree. The caller holds no lock. A forked child has no
    /// jobs to wait for.
    ///
    /// # Errors
    ///
    /// `Busy` in a callback that may not wait.
    pub(crate) fn wait_until(&self, mut done: impl FnMut(&Tree) -> bool) -> Result<()> {
        loop {
            if self.context.is_forked() || done(&self.tree.lock()) {
                return Ok(());
            }
            self.may_wait()?;
            if self.context.world.executor.help() || self.context.world.executor.help_later() {
                continue;
            }
            let mut tree = self.tree.lock();
            if done(&tree) {
                return Ok(());
            }
            self.changed.wait(&mut tree);
        }
    }
}
