//! Flush and compaction: functions from immutable input to a version edit.
//!
//! Nothing here knows the current version, takes a lock that others wait for, or decides when it
//! runs. [`pick`] chooses what to compact, as a pure function.

pub mod pick;
