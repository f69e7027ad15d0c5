//! The decoders on files that RocksDB wrote (in `testdata/`, named after their content and the
//! version that wrote them).

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod logs;
mod wide;
