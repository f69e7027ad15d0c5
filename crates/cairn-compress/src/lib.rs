//! Block compression: RocksDB's codecs behind one type.
