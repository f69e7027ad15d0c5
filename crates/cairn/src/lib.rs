//! Cairn: a persistent key-value engine that reads and writes RocksDB's files.
