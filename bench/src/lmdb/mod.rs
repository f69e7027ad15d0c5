//! LMDB as a benchmark engine, for comparisons of reads with a B+-tree in mapped memory.
//!
//! A get renews the read transaction of its session, so that it sees the newest data as a get of the other engines
//! does. A cursor has a read transaction of its own. A put or batch is a write transaction, which is not synced unless
//! `--sync` is set: after a power failure the environment may be corrupt, unlike a database with an unsynced WAL. LMDB
//! has no WAL, cache, compression, runs or options of the others, so flags about them have no effect on it, and `compact` does
//! nothing. Calls that it lacks, such as merges, fail.

mod api;
mod env;
mod session;

pub use env::{Env, Library};

/// The data file of an environment.
pub const DATA_FILE: &str = "data.mdb";

/// The files of an environment.
pub const FILES: [&str; 2] = [DATA_FILE, "lock.mdb"];
