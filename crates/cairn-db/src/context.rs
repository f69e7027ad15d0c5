//! Facts of an open database that do not change while it is open: where its files lie, the world it runs in, its
//! names, and the process that opened it. Every component has them; they know no component.
//!
//! # Forked children
//!
//! A child of the process that opened a database has a copy of everything but the threads: locks may be held by threads
//! that do not exist, jobs never end, and the files are the parent's. So in the child
//!
//! - whatever writes, waits for jobs or changes files fails and names the rule;
//! - closing, and dropping handles, iterators, snapshots and writers of tables, touches nothing: what they hold is
//!   left as it is, which costs no memory that the parent does not have;
//! - gets and seeks of a database that is open for writing are refused, because a thread of the parent may have
//!   held a lock that they take. One that was opened read-only has no threads at work, and is read as in RocksDB.
//!
//! The file system keeps the same rule once more for each file that is open for writing
//! (`crates/cairn-platform/src/posix/process.rs`). A child that opens a database of its own gets threads of its own
//! for it; as in every program with threads that is only safe behind `exec`, or if no thread of the parent was at work
//! when it forked: the locks of the language's libraries are copied as they are.

use std::path::PathBuf;
use std::sync::Arc;

use cairn_observe::Logger;
use cairn_platform::{Io, Process, World};
use cairn_types::Result;

use crate::locks::Locks;

/// Facts of an open database.
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
    /// The identity of this opening; tables record it.
    pub(crate) session_id: String,
    /// The name of this machine; tables record it.
    pub(crate) host_id: String,
    /// The time of the opening, in nanoseconds of the monotonic clock.
    pub(crate) opened_at: u64,
    pub(crate) read_only: bool,
    /// True if values are stored with the time of their writing.
    pub(crate) dated: bool,
    /// The process that opened the database.
    pub(crate) process: Process,
    /// The source of the database's locks.
    pub(crate) locks: Locks,
}

impl DbContext {
    /// True in a child of the process that opened the database.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_this()
    }

    /// Refuses a child what only the process that opened the database may do. Called before any lock.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        self.process
            .check(|| format!("the database {}", self.dir.display()))
    }

    /// Refuses a child reads that could wait for a thread that it does not have.
    #[inline]
    pub(crate) fn check_reader(&self) -> Result<()> {
        match self.is_forked() && !self.read_only {
            false => Ok(()),
            true => self.check_process(),
        }
    }

    /// Seconds since the opening.
    pub(crate) fn uptime(&self) -> f64 {
        let now = self.world.clock.monotonic_nanos();
        now.saturating_sub(self.opened_at) as f64 / 1e9
    }
}
