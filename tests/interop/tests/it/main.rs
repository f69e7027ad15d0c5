//! Cairn against RocksDB: one binary with a module per subject.
//!
//! A test that needs RocksDB's library or tools fails without them, unless `cargo xtask test --without`
//! leaves it out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod driver;
mod encrypted;
mod events;
mod files;
mod flat;
mod golden;
mod groups;
mod info_log;
mod kills;
mod logs;
mod options;
mod outgoing;
mod perf;
mod persisted_stats;
mod policies;
mod preserved;
mod read_amp;
mod secondary;
mod sizes;
mod timestamps;
mod traces;
mod ttl;
mod turns;

use cairn_bench::rocksdb::Library;
use cairn_interop::reference;

/// RocksDB's library; `None` only if it is left out by request.
fn library() -> Option<Library> {
    if Library::left_out("rocksdb") {
        return None;
    }
    Some(reference::library().unwrap())
}
