//! The state of an open database.
//!
//! It composes the components, each of which owns its part of the state, and the locks shared by several of
//! them: [`Rank`] lists all locks in the order of acquisition. A thread that waits for a job holds none of
//! them except the lead, and first helps the executor.
//!
//! `catalog_env` and `files_host` implement the traits through which components call the database, and `invariants` checks
//! what holds across components (TREE1 to TREE7).

mod catalog_env;
mod files_host;
mod invariants;
pub(crate) mod kept_files;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use cairn_format::batch::PreparePolicy;
use cairn_memory::WriteBufferManager;
use cairn_memtable::Memtable;
use cairn_observe::FlushReason;
use cairn_options::DbOptions;
use cairn_platform::sync::{AtomicBool, Condvar, Mutex, OnceLock};
use cairn_types::{Error, FileNumber, Result, SequenceNumber};

use crate::catalog::Catalog;
use crate::close::lifecycle::Lifecycle;
use crate::context::DbContext;
use crate::errors::retry::{Damaged, Retry};
use crate::errors::state::Errors;
use crate::follow::catch_up::CatchUp;
use crate::jobs::counts::Jobs;
use crate::jobs::forced_flush::ForcedFlush;
use crate::jobs::timers::Timers;
use crate::locks::{Locks, Rank, Ranked};
use crate::memory::budget::Budget;
use crate::open::recovery_info::RecoveryInfo;
use crate::options::settings::Settings;
use crate::read::open_iterators::OpenIterators;
use crate::telemetry::Telemetry;
use crate::trace::QueryTrace;
use crate::write::awaited_writes::AwaitedWrites;
use crate::write::commit::CommitPipeline;
use crate::write::log::CurrentLog;
use crate::write::log_set::LogSet;
use crate::write::sections::Sections;
use crate::write::signals::Signals;
use crate::write::stall::{Condition, Throttle, low_pri_rate};
use crate::write::wal_locks::WalLocks;

/// The state of an open database.
pub(crate) struct Shared {
    pub(crate) context: Arc<DbContext>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) opening: RecoveryInfo,
    pub(crate) lifecycle: Lifecycle,

    pub(crate) catalog: Catalog,
    pub(crate) iterators: Arc<OpenIterators>,
    /// The memory budget, if there is one.
    pub(crate) budget: Option<Arc<Budget>>,
    pub(crate) writes: WritePath,
    pub(crate) signals: Signals,
    /// The trace of reads and writes.
    pub(crate) trace: QueryTrace,
    /// Writes that futures wait for.
    pub(crate) awaited: Arc<AwaitedWrites>,

    pub(crate) tree: Ranked<Tree>,
    /// Notified, after a change under `tree`, whenever a job ends or the state of writes changes.
    pub(crate) changed: Condvar,
    pub(crate) timers: Timers,
    pub(crate) errors: Errors,
    /// The source of a database that follows another one.
    pub(crate) leader: OnceLock<Arc<dyn CatchUp>>,
}

/// The state of the write path.
pub(crate) struct WritePath {
    pub(crate) commits: CommitPipeline,
    pub(crate) writer: Ranked<Writer>,
    /// Prepared transactions that are not decided.
    pub(crate) sections: Sections,
    /// The first sequence numbers of archived logs, as far as they are known.
    pub(crate) archived_starts: Mutex<HashMap<FileNumber, SequenceNumber>>,
    /// The rate limit of low-priority writes while compactions are behind.
    pub(crate) low_pri_throttle: Throttle,
    /// The memtable budget, if there is one.
    pub(crate) buffers: Option<Arc<WriteBufferManager>>,
    /// True if another database that shares the budget has requested a flush.
    pub(crate) flush_requested: AtomicBool,
}

impl WritePath {
    /// Creates the state before the first write, without a log. Transactions are logged with the write policy `policy`.
    pub(crate) fn new(options: &DbOptions, locks: Locks, policy: PreparePolicy) -> WritePath {
        WritePath {
            commits: CommitPipeline::new(Some(locks)),
            writer: locks.mutex(
                Rank::Writer,
                Writer {
                    log: None,
                    ended: None,
                    unflushed_log_bytes: 0,
                    check_log_at: 0,
                },
            ),
            sections: Sections::new(policy),
            archived_starts: Mutex::default(),
            low_pri_throttle: Throttle::new(low_pri_rate(options)),
            buffers: budget_of(options),
            flush_requested: AtomicBool::new(false),
        }
    }
}

/// Returns the memtable budget of a database with `options`: one shared with other databases, one of its own,
/// or that of its memory budget.
fn budget_of(options: &DbOptions) -> Option<Arc<WriteBufferManager>> {
    let memory = options.memory_budget.as_ref();
    if let (Some(memory), Some(buffers)) = (memory, &options.write_buffer_manager) {
        memory.include_buffers(buffers);
    }
    options.write_buffer_manager.clone().or_else(|| {
        let size = usize::try_from(options.db_write_buffer_size).unwrap_or(usize::MAX);
        if size == 0 {
            return memory.map(|memory| memory.write_buffer_manager().clone());
        }
        let cache = memory.map(|memory| memory.cache().clone());
        Some(Arc::new(WriteBufferManager::new(size, cache, false)))
    })
}

/// State of the log, changed only by the write-group leader.
pub(crate) struct Writer {
    /// The current log; `None` when closed or read-only.
    pub(crate) log: Option<CurrentLog>,
    /// The log before it, and its length.
    pub(crate) ended: Option<(FileNumber, u64)>,
    /// Length of the current log.
    pub(crate) unflushed_log_bytes: u64,
    /// The length of the current log from which `max_total_wal_size` may be exceeded.
    pub(crate) check_log_at: u64,
}

/// The state that changes when jobs start and end.
pub(crate) struct Tree {
    pub(crate) families: BTreeMap<u32, FamilyTree>,
    pub(crate) logs: LogSet,
    /// Counts of and holds on background jobs.
    pub(crate) jobs: Jobs,
    /// The stall condition: the worst of all families.
    pub(crate) condition: Condition,
    /// The holders of `lock_wal`.
    pub(crate) wal_locks: WalLocks,
    /// The flush of all families together that a program has requested.
    pub(crate) forced: ForcedFlush,
}

/// The part of [`Tree`] that belongs to one family.
pub(crate) struct FamilyTree {
    /// Memtables waiting for a flush, oldest first.
    pub(crate) immutables: Vec<Immutable>,
    /// Logs before this one have no unflushed data of the family.
    pub(crate) log_number: FileNumber,
    pub(crate) flushing: bool,
    /// The memtables of the last flush, until listeners have been notified of its outcome.
    pub(crate) reporting: Vec<Arc<Memtable>>,
    /// True if a flush was requested: it does not wait for more memtables to merge.
    pub(crate) flush_requested: bool,
    /// The reason for the next flush, if it is not a full memtable.
    pub(crate) flush_reason: Option<FlushReason>,
    /// The stall condition of this family alone.
    pub(crate) condition: Condition,
    /// The time at which flushes may start again after a failure.
    pub(crate) retry_flush: Option<Retry>,
    /// The same for compactions.
    pub(crate) retry_compaction: Option<Retry>,
    /// True while a due compaction has no token of the family's limiter.
    pub(crate) limited: bool,
    /// Tables that compactions could not read.
    pub(crate) damaged: Vec<Damaged>,
    /// Inputs of running compactions.
    pub(crate) busy: cairn_jobs::pick::InProgress,
}

/// An immutable memtable.
#[derive(Clone)]
pub(crate) struct Immutable {
    pub(crate) memtable: Arc<Memtable>,
    /// The log that was current when this memtable was switched: once this memtable is flushed, the family
    /// needs only that log and later ones.
    pub(crate) next_log: FileNumber,
    /// The first log with a prepared section that this memtable has entries of.
    pub(crate) held_log: Option<FileNumber>,
    /// True if a log has entries of this memtable and of the next one: both are flushed together, since a recovery would
    /// otherwise add those of this one again.
    pub(crate) shares_log: bool,
}

impl Tree {
    /// Creates a tree without families. Recovery needs no log before `min_log`.
    pub(crate) fn new(min_log: FileNumber) -> Tree {
        Tree {
            families: BTreeMap::new(),
            logs: LogSet::new(min_log),
            jobs: Jobs::default(),
            condition: Condition::Normal,
            wal_locks: WalLocks::default(),
            forced: ForcedFlush::default(),
        }
    }
}

impl FamilyTree {
    pub(crate) fn new(log_number: FileNumber) -> FamilyTree {
        FamilyTree {
            immutables: Vec::new(),
            log_number,
            flushing: false,
            reporting: Vec::new(),
            flush_requested: false,
            flush_reason: None,
            condition: Condition::Normal,
            retry_flush: None,
            retry_compaction: None,
            limited: false,
            damaged: Vec::new(),
            busy: cairn_jobs::pick::InProgress::default(),
        }
    }
}

impl Shared {
    /// Returns the last sequence number visible to reads.
    pub(crate) fn published(&self) -> SequenceNumber {
        self.writes.commits.visible()
    }

    /// Returns the current options. Call it once and keep the result if several options must be consistent.
    pub(crate) fn options(&self) -> Guard<Arc<DbOptions>> {
        self.settings.get()
    }

    /// Returns the error that made the database read-only, as later writes return it.
    pub(crate) fn check_failure(&self) -> Result<()> {
        self.context.check_process()?;
        match &*self.errors.failure() {
            None => Ok(()),
            Some(error) => {
                Err(error.context("the database is read-only because of an earlier error"))
            }
        }
    }

    /// # Errors
    ///
    /// The reason why the database is not writable.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.context.check_process()?;
        if self.context.follows.is_some() {
            return Err(Error::not_supported(
                "Not supported operation in secondary mode.",
            ));
        }
        if self.context.read_only {
            return Err(Error::not_supported("the database was opened read-only"));
        }
        self.lifecycle.check_open()?;
        self.check_failure()
    }

    /// Waits until `done`, which is called under the lock of the tree. The caller holds no lock. Returns at
    /// once in a forked child, which has no jobs.
    ///
    /// # Errors
    ///
    /// `Busy` in a callback that must not wait.
    pub(crate) fn wait_until(&self, done: impl FnMut(&Tree) -> bool) -> Result<()> {
        self.wait_until_polled(Duration::MAX, done)
    }

    /// [`Shared::wait_until`] with a call of `done` in each `period`, for changes of which no thread may notify this one.
    pub(crate) fn wait_until_polled(
        &self,
        period: Duration,
        mut done: impl FnMut(&Tree) -> bool,
    ) -> Result<()> {
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
            match period {
                Duration::MAX => tree.wait(&self.changed),
                period => tree.wait_for(&self.changed, period),
            }
        }
    }
}
