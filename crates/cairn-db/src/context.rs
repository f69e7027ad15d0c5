//! Constants of an open database: its paths, the world that it runs in, its names, and the process that
//! opened it. Every component has access to them; they depend on no component.
//!
//! # Forked children
//!
//! A forked child of the process that opened a database has a copy of everything except the threads: locks
//! may be held by threads that do not exist, jobs never end, and the files belong to the parent. In the
//! child, therefore:
//!
//! - operations that write, wait for jobs or change files fail with an error that states this restriction;
//! - closing the database, and dropping handles, iterators, snapshots and writers of tables, has no effect:
//!   their resources are leaked, which costs no memory beyond the parent's;
//! - gets and seeks of a database that is open for writing are rejected, because a thread of the parent may
//!   have held a lock that they need. A read-only database has no background threads and can be read, as in
//!   RocksDB.
//!
//! The file system enforces the same restriction for each file that is open for writing
//! (`crates/cairn-platform/src/posix/process.rs`). A child that opens a database of its own gets its own
//! threads for jobs, and executes its reads without threads if its parent has some for reads. As in every
//! multi-threaded program, that is only safe after `exec`, or if no thread of the parent was active at the
//! fork: the locks of the language's libraries are copied in whatever state they are.

use std::path::PathBuf;
use std::sync::Arc;

use cairn_observe::Logger;
use cairn_observe::traces::{BlockCacheTracer, IoTracer};
use cairn_platform::sync::{AtomicU64, Ordering};
use cairn_platform::{Clock, Io, Process, World};
use cairn_types::{Error, Result, SequenceNumber};

use crate::locks::Locks;
use crate::write::direct_blobs::Unsynced;

/// The relation of a database to the one that it follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// It reads the files of the other database and changes none of them.
    InPlace,
    /// Its file system returns copies of the tables and blob files, which it deletes when they are obsolete.
    Copies,
}

/// Returns the number of a new opening; see [`DbContext`].
pub(crate) fn next_opening() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the number orders no other access.
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

/// Constants of an open database.
pub(crate) struct DbContext {
    /// The database directory.
    pub(crate) dir: PathBuf,
    /// The directory of the WALs.
    pub(crate) wal_dir: PathBuf,
    pub(crate) world: World,
    pub(crate) io: Io,
    pub(crate) info: Arc<Logger>,
    /// The text in IDENTITY.
    pub(crate) db_id: String,
    /// The session id of this opening; tables record it.
    pub(crate) session_id: String,
    /// The number of this opening, from 1; no other one in the process has it.
    pub(crate) number: u64,
    /// The host name; tables record it.
    pub(crate) host_id: String,
    /// The time of the opening, in nanoseconds of the monotonic clock.
    pub(crate) opened_at: u64,
    pub(crate) read_only: bool,
    /// Set if the database follows one that another process writes. It is read-only, too.
    pub(crate) follows: Option<Follows>,
    /// True if values are stored with their write time.
    pub(crate) dated: bool,
    /// The process that opened the database.
    pub(crate) process: Process,
    /// The source of the database's locks.
    pub(crate) locks: Locks,
    /// The recorders of block lookups and file operations.
    pub(crate) traces: Tracers,
    /// Blob files that writers append to.
    pub(crate) unsynced_blobs: Arc<Unsynced>,
}

/// The recorders of block lookups and file operations. Components below the database call them.
#[derive(Clone)]
pub(crate) struct Tracers {
    pub(crate) block_cache: Arc<BlockCacheTracer>,
    pub(crate) io: Arc<IoTracer>,
}

impl Tracers {
    /// Recorders without active traces.
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Tracers {
        Tracers {
            block_cache: Arc::new(BlockCacheTracer::new(clock.clone())),
            io: Arc::new(IoTracer::new(clock.clone())),
        }
    }
}

impl DbContext {
    /// True in a child of the process that opened the database.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_this()
    }

    /// Returns an error in a forked child, for operations that only the process that opened the database may
    /// perform. Called before acquiring any lock.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        self.process
            .check(|| format!("the database {}", self.dir.display()))
    }

    /// Returns an error in a forked child, for reads that could wait for a nonexistent thread.
    #[inline]
    pub(crate) fn check_reader(&self) -> Result<()> {
        match self.is_forked() && !self.read_only {
            false => Ok(()),
            true => self.check_process(),
        }
    }

    /// Returns an error for a read at a snapshot of a database that follows another one: compactions of the other
    /// database drop the versions that only the snapshot needs.
    pub(crate) fn check_snapshot(&self, snapshot: Option<SequenceNumber>) -> Result<()> {
        match self.follows.is_some() && snapshot.is_some() {
            false => Ok(()),
            true => Err(Error::not_supported(
                "snapshot not supported in secondary mode",
            )),
        }
    }

    /// Seconds since the opening.
    pub(crate) fn uptime(&self) -> f64 {
        let now = self.world.clock.monotonic_nanos();
        now.saturating_sub(self.opened_at) as f64 / 1e9
    }
}
