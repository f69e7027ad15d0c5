//! Remote compactions between Cairn and RocksDB: the worker of one serves a database of the other.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use cairn::compaction::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus as Status,
    CompactionServiceOptionsOverride, CompactionServiceScheduleResponse, OpenAndCompactOptions,
    open_and_compact,
};
use cairn::{CompactRangeOptions, Options};
use cairn_bench::rocksdb::Library;
