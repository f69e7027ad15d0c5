//! Secondary instances and followers: databases that follow one that another process writes.
//!
//! ```text
//! primary:    CURRENT MANIFEST-* *.log *.sst *.blob     written by Cairn or RocksDB, never by this crate
//!                │
//!                ├── secondary: reads these files in place; a directory of its own has the LOG
//!                └── follower:  reads MANIFEST and logs in place; a directory of its own has links to or copies of
//!                               the tables and blob files, and the LOG
//! ```
//!
//! [`open_as_secondary`] opens an instance that is brought up to date by `Db::try_catch_up_with_primary`. A follower,
//! opened by [`open_as_follower`], also catches up periodically. Both read the MANIFEST, then the logs, each from where
//! the previous catch-up ended, and publish the result as a whole ([`cairn_db::Intake`]). The crate owns these positions;
//! the state that reads see is in `cairn-db`.
//!
//! # Invariants
//!
//! W1. After a catch-up the state is a prefix of the primary's writes, the same for all families, and has everything
//!     that was in the files of the primary when the catch-up began. It never goes back, unless the primary itself lost
//!     writes in a crash.
//! W2. The MANIFEST is read before the logs: tables have no entry that the logs, read afterwards, do not have. After
//!     the logs, the MANIFEST is read again. Only if the first log that is needed is still the same, the state is
//!     published; otherwise a log may have been deleted or recycled before or while it was read, and the catch-up
//!     starts over.
//! W3. The first record of a log is applied after the logs before it have been read to their end once more: the primary
//!     completes a log before it writes to the next one.
//! W4. At anything that is not a whole record, reading of a log ends, and continues there next time. Only when a later
//!     log has begun, it is judged by `wal_recovery_mode`.
//! W5. A new MANIFEST may mean that the primary was opened again: the logs are read from their beginning.
//! W6. No file of the primary is changed, locked or deleted. A follower deletes only tables, blob files and temporary
//!     files in its own directory, which has no database and whose LOCK it holds.
//! W7. After an error the published state is the one before. The next catch-up starts where this one did, or from the
//!     beginning of MANIFEST and logs.
//!
//! # Cost
//!
//! A catch-up without news lists the directory of logs, and reads CURRENT, the ends of the MANIFEST and of the last
//! log. Otherwise the cost is that of the new edits and records, of new memtables, and of opening new tables. With
//! `max_open_files` -1 all tables stay open, which keeps them readable after the primary deletes them. Memory is that of
//! the entries in logs that the primary still needs. A copy of a file is written once, when it is first opened.
//!
//! # Concurrency
//!
//! Catch-ups of one database are serialized; reads run meanwhile, and iterators keep the state that they were created
//! with. Closing waits for a running catch-up. A callback within a catch-up that starts another one gets `Busy`.

mod copies;
mod follower;
mod gate;
mod instance;
mod logs;

pub use follower::open_as_follower;
pub use instance::open_as_secondary;
