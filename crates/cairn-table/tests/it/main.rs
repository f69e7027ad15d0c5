//! Tables as a whole: built and read back, read from RocksDB's files, damaged.

mod damage;
mod golden;
mod round_trip;
mod world;
