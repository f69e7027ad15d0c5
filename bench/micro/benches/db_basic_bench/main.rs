//! The cases of RocksDB's `db_basic_bench`.
//!
//! ```text
//! cargo bench -p cairn-microbench --bench db_basic_bench -- DBOpen
//! cargo bench -p cairn-microbench --bench db_basic_bench -- 'DBGet/comp_style:0/max_data:1048576/.*/threads:1$'
//! ```
//!
//! Databases are created in the directory `TEST_TMPDIR`, or in that for temporary files, and destroyed after the case.
//! Names and parameters are RocksDB's. The number of operations is criterion's, except where each operation changes
//! the database.
//!
//! Differences: `ManualCompaction` and `ManualFlush` take ten samples instead of one, each in a new database. The
//! former compacts four files, as RocksDB's comment says, not the single file that its code writes. Of the counters of
//! a perf context, only those that Cairn keeps are reported.

#[path = "../support/mod.rs"]
mod support;

mod block;
mod database;
mod file_reader;
mod iterate;
mod keys;
mod open;
mod operands;
mod read;
mod write;

fn main() {
    open::run();
    write::run();
    read::run();
    operands::run();
    block::run();
    iterate::run();
    file_reader::run();
}
