//! The database: column families, writes, recovery, scheduling.
