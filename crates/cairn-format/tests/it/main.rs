//! The formats on files that RocksDB wrote (`testdata/`, named by what they show and the version
//! that wrote them).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod logs;
mod wide;
