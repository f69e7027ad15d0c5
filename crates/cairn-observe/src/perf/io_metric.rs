//! RocksDB's I/O counters, in the order of its report.

use crate::statistics::numbered_enum::numbered_enum;

numbered_enum! {
    /// A counter of the I/O of one thread. Times are in nanoseconds.
    IoMetric {
        BytesRead = "bytes_read",
        BytesWritten = "bytes_written",
        OpenNanos = "open_nanos",
        AllocateNanos = "allocate_nanos",
        WriteNanos = "write_nanos",
        ReadNanos = "read_nanos",
        RangeSyncNanos = "range_sync_nanos",
        FsyncNanos = "fsync_nanos",
        PrepareWriteNanos = "prepare_write_nanos",
        LoggerNanos = "logger_nanos",
        CpuWriteNanos = "cpu_write_nanos",
        CpuReadNanos = "cpu_read_nanos",
    }
}
