//! The formats on files that RocksDB wrote (`testdata/`, named by what they show and the version
//! that wrote them).

mod logs;
