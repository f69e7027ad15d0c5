//! Cairn against RocksDB: one binary, a module a subject.
//!
//! A test that needs RocksDB's library or tools fails without them, except when
//! `CAIRN_CI_OFFLINE=1` says that they cannot be had; then it says that it was skipped.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod driver;
mod encrypted;
mod files;
mod getters;
mod golden;
mod groups;
mod kills;
mod logs;
mod options;
mod outgoing;
mod perf;
mod secondary;
mod ttl;
mod turns;

use cairn_bench::rocksdb::Library;
use cairn_interop::reference;

/// RocksDB's library; `None` only when it was said that it cannot be had.
fn library() -> Option<Library> {
    match reference::library() {
        Ok(library) => Some(library),
        Err(error) if std::env::var("CAIRN_CI_OFFLINE").as_deref() == Ok("1") => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
