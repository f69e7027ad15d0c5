//! Checksums of log records and of table blocks.
