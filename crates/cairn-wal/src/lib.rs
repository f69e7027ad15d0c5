//! The write-ahead log: its writer, its reader, its replay.
