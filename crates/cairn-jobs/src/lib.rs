//! Flush and compaction: functions from immutable input to a version edit.
