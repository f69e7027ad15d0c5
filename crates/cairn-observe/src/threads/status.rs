//! The status of one thread, with RocksDB's names and format.

use std::fmt;

/// The type of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ThreadType {
    /// A thread of the high-priority pool, for flushes.
    HighPriority,
    /// A thread of the low-priority pool, for compactions.
    LowPriority,
    /// A thread of the application.
    User,
    /// A thread of the bottom-priority pool, for bottommost compactions.
    BottomPriority,
}

impl ThreadType {
    /// RocksDB's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ThreadType::HighPriority => "High Pri",
            ThreadType::LowPriority => "Low Pri",
            ThreadType::User => "User",
            ThreadType::BottomPriority => "Bottom Pri",
        }
    }
}

/// The properties of a flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushOperation {
    /// The job number, as in the info log.
    pub job_id: u64,
    /// The memory of the memtables to flush, in bytes.
    pub bytes_memtables: u64,
}

/// The properties of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionOperation {
    /// The job number, as in the info log.
    pub job_id: u64,
    /// The start level.
    pub base_input_level: usize,
    /// The output level.
    pub output_level: usize,
    /// True for a manual compaction.
    pub is_manual: bool,
    /// True if the compaction only deletes tables.
    pub is_deletion: bool,
    /// True if the compaction only moves tables to another level.
    pub is_trivial_move: bool,
    /// The total size of the input tables.
    pub total_input_bytes: u64,
}

/// The operation of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// A compaction.
    Compaction(CompactionOperation),
    /// A flush.
    Flush(FlushOperation),
    /// Opening a database.
    DbOpen,
    /// Verification of block checksums.
    VerifyDbChecksum,
    /// Verification of whole-file checksums.
    VerifyFileChecksums,
}

impl Operation {
    /// RocksDB's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Operation::Compaction(_) => "Compaction",
            Operation::Flush(_) => "Flush",
            Operation::DbOpen => "DBOpen",
            Operation::VerifyDbChecksum => "VerifyDBChecksum",
            Operation::VerifyFileChecksums => "VerifyFileChecksums",
        }
    }
}

/// The stage of a flush or compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Stage {
    /// A flush runs.
    FlushRun = 1,
    /// A flush writes its table.
    FlushWriteL0,
    /// A flush installs its table.
    InstallFlushResults,
    /// A compaction opens its inputs and is divided into subcompactions.
    CompactionPrepare,
    /// A compaction runs: it waits for subcompactions or syncs directories.
    CompactionRun,
    /// A compaction reads, merges and writes entries.
    CompactionProcessKv,
    /// A compaction finishes and syncs a table.
    CompactionSyncFile,
    /// A compaction installs its tables.
    CompactionInstall,
}

impl Stage {
    const ALL: [Stage; 8] = [
        Stage::FlushRun,
        Stage::FlushWriteL0,
        Stage::InstallFlushResults,
        Stage::CompactionPrepare,
        Stage::CompactionRun,
        Stage::CompactionProcessKv,
        Stage::CompactionSyncFile,
        Stage::CompactionInstall,
    ];

    /// The stage with this number; `None` for 0.
    pub(super) fn from_number(number: u8) -> Option<Stage> {
        Stage::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }

    /// RocksDB's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Stage::FlushRun => "FlushJob::Run",
            Stage::FlushWriteL0 => "FlushJob::WriteLevel0Table",
            Stage::InstallFlushResults => "MemTableList::TryInstallMemtableFlushResults",
            Stage::CompactionPrepare => "CompactionJob::Prepare",
            Stage::CompactionRun => "CompactionJob::Run",
            Stage::CompactionProcessKv => "CompactionJob::ProcessKeyValueCompaction",
            Stage::CompactionSyncFile => "CompactionJob::FinishCompactionOutputFile",
            Stage::CompactionInstall => "CompactionJob::Install",
        }
    }
}

/// The current status of a thread.
///
/// Displayed as a line of the table that `db_bench` prints, without the state column: RocksDB's
/// only state is waiting for a mutex that Cairn does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadStatus {
    /// The thread number, as in the info log.
    pub thread_id: u64,
    /// The type of the thread.
    pub thread_type: ThreadType,
    /// The directory of the database.
    pub db_name: String,
    /// The column family; empty if the operation concerns all of them.
    pub cf_name: String,
    /// The operation.
    pub operation: Operation,
    /// The elapsed time in microseconds.
    pub op_elapsed_micros: u64,
    /// The stage, if known.
    pub stage: Option<Stage>,
    /// Bytes read for the operation, by all threads.
    pub bytes_read: u64,
    /// Bytes written for the operation, by all threads.
    pub bytes_written: u64,
}

impl ThreadStatus {
    /// The properties of the operation, with RocksDB's names and in its order.
    #[must_use]
    pub fn properties(&self) -> Vec<(&'static str, u64)> {
        match &self.operation {
            Operation::Compaction(known) => vec![
                ("BaseInputLevel", known.base_input_level as u64),
                ("BytesRead", self.bytes_read),
                ("BytesWritten", self.bytes_written),
                ("IsDeletion", u64::from(known.is_deletion)),
                ("IsManual", u64::from(known.is_manual)),
                ("IsTrivialMove", u64::from(known.is_trivial_move)),
                ("JobID", known.job_id),
                ("OutputLevel", known.output_level as u64),
                ("TotalInputBytes", known.total_input_bytes),
            ],
            Operation::Flush(known) => vec![
                ("BytesMemtables", known.bytes_memtables),
                ("BytesWritten", self.bytes_written),
                ("JobID", known.job_id),
            ],
            _ => Vec::new(),
        }
    }

    /// The column titles of the table.
    #[must_use]
    pub fn header() -> String {
        let [id, kind, family, operation, elapsed, stage] = [
            "ThreadID",
            "ThreadType",
            "cfName",
            "Operation",
            "ElapsedTime",
            "Stage",
        ];
        format!(
            "{id:>18} {kind:>10} {family:>12} {operation:>20} {elapsed:>13} {stage:>45} OperationProperties"
        )
    }
}

impl fmt::Display for ThreadStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>18} {:>10} {:>12} {:>20} {:>13} {:>45}",
            self.thread_id,
            self.thread_type.name(),
            self.cf_name,
            self.operation.name(),
            micros_text(self.op_elapsed_micros),
            self.stage.map_or("", Stage::name),
        )?;
        for (name, value) in self.properties() {
            write!(f, " {name} {value} |")?;
        }
        Ok(())
    }
}

/// Formats microseconds in a readable unit, as RocksDB does; empty for 0.
#[must_use]
pub fn micros_text(micros: u64) -> String {
    const SECOND: u64 = 1_000_000;
    // Such times are well within the range in which a double is exact.
    let seconds = |micros: u64| micros as f64 / SECOND as f64;
    let of_minute = seconds(micros % (60 * SECOND));
    let minutes = micros / SECOND / 60;
    match micros {
        0 => String::new(),
        1..10_000 => format!("{micros} us"),
        10_000..10_000_000 => format!("{:.3} ms", micros as f64 / 1_000.0),
        10_000_000..60_000_000 => format!("{:.3} sec", seconds(micros)),
        60_000_000..3_600_000_000 => format!("{minutes:02}:{of_minute:.3} M:S"),
        _ => format!(
            "{:02}:{:02}:{of_minute:.3} H:M:S",
            minutes / 60,
            minutes % 60
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_as_in_rocksdb() {
        for (micros, text) in [
            (0, ""),
            (1, "1 us"),
            (9_999, "9999 us"),
            (10_000, "10.000 ms"),
            (9_999_999, "9999.999 ms"),
            (10_000_000, "10.000 sec"),
            (59_999_000, "59.999 sec"),
            (61_500_000, "01:1.500 M:S"),
            (3_599_000_000, "59:59.000 M:S"),
            (2 * 3_600_000_000 + 61_000_000, "02:01:1.000 H:M:S"),
        ] {
            assert_eq!(micros_text(micros), text);
        }
    }

    #[test]
    fn statuses_align_with_the_header() {
        let flush = ThreadStatus {
            thread_id: 7,
            thread_type: ThreadType::HighPriority,
            db_name: "/db".to_owned(),
            cf_name: "default".to_owned(),
            operation: Operation::Flush(FlushOperation {
                job_id: 3,
                bytes_memtables: 4096,
            }),
            op_elapsed_micros: 1_500,
            stage: Some(Stage::FlushWriteL0),
            bytes_read: 1,
            bytes_written: 2_048,
        };
        assert_eq!(
            flush.to_string(),
            "                 7   High Pri      default                Flush       1500 us                    \
             FlushJob::WriteLevel0Table BytesMemtables 4096 | BytesWritten 2048 | JobID 3 |"
        );
        let header = ThreadStatus::header();
        let ends = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(
            ends(&header, "ThreadType"),
            ends(&flush.to_string(), "High Pri")
        );
        assert_eq!(
            ends(&header, "Stage"),
            ends(&flush.to_string(), "WriteLevel0Table")
        );
        let compaction = ThreadStatus {
            operation: Operation::Compaction(CompactionOperation {
                job_id: 9,
                base_input_level: 1,
                output_level: 2,
                is_manual: true,
                total_input_bytes: 77,
                ..CompactionOperation::default()
            }),
            ..flush.clone()
        };
        assert!(compaction.to_string().ends_with(
            " BaseInputLevel 1 | BytesRead 1 | BytesWritten 2048 | IsDeletion 0 | IsManual 1 | \
             IsTrivialMove 0 | JobID 9 | OutputLevel 2 | TotalInputBytes 77 |"
        ));
        let opening = ThreadStatus {
            operation: Operation::DbOpen,
            stage: None,
            ..flush
        };
        assert_eq!(opening.properties(), []);
        assert_eq!(ends(&header, "Stage"), Some(opening.to_string().len()));
    }

    #[test]
    fn stages_have_their_numbers() {
        for (at, stage) in Stage::ALL.into_iter().enumerate() {
            assert_eq!(stage as usize, at + 1);
            assert_eq!(Stage::from_number(stage as u8), Some(stage));
        }
        assert_eq!(Stage::from_number(0), None);
        assert_eq!(Stage::from_number(99), None);
    }
}
