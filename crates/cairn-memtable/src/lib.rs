//! The memtable: recent writes, sorted, in memory.
