//! Native methods of RocksJava's own unit tests, which RocksDB's library exports too.

use std::cmp::{Ordering, Reverse};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_compress::Compression;
use cairn_db::{Record, WriteBatch};
use cairn_format::batch::WriteBatch as Encoded;
use cairn_format::table::properties::Properties;
use cairn_observe::listener::{
    BackgroundErrorRecoveryInfo, CompactionJobInfo, ExternalFileIngestionInfo,
    FileCreationBriefInfo, FileDeletionInfo, FileOperation, FileOperationInfo, FlushJobInfo,
    MemTableInfo, TableFileCreationInfo, WriteStallInfo,
};
use cairn_observe::{
    BackgroundErrorReason, CompactionReason, EventListener, FlushReason, StallCondition,
};
use cairn_types::{Code, Comparator, Error, KeyOrder, SequenceNumber, Subcode};
use jni_sys::{jlong, jvalue};

use crate::batch::Batch;
use crate::callbacks::ComparatorHandle;
use crate::env::{ByteArray, Env, Fail, Outcome};
use crate::handle::{Mut, New, Ref};
use crate::listener::{ListenerHandle, unbound};

/// The comparator of `NativeComparatorWrapperTest`.
struct Strings;

impl Comparator for Strings {
    fn name(&self) -> &str {
        "NativeComparatorWrapperTestStringComparator"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
}

pub fn string_comparator(_env: Env) -> New<ComparatorHandle> {
    New(ComparatorHandle {
        order: KeyOrder::Custom(Arc::new(Strings)),
        uses_direct_buffers: false,
    })
}

/// Throws an exception with a message and, except for `None`, a status.
fn raise_with_text(env: Env, error: Option<&Error>) -> Outcome<()> {
    let message = jvalue {
        l: env.string("test message")?.0,
    };
    let class = "org/rocksdb/RocksDBException";
    let exception = match error {
        None => env.create(class, "(Ljava/lang/String;)V", &[message])?,
        Some(error) => {
            let status = jvalue {
                l: env.status(Some(error))?.0,
            };
            let descriptor = "(Ljava/lang/String;Lorg/rocksdb/Status;)V";
            env.create(class, descriptor, &[message, status])?
        }
    };
    Err(env.raise(exception))
}

fn lock_timeout() -> Error {
    Error::new(Code::TimedOut, Subcode::LockTimeout, "")
}

pub fn raise(env: Env) -> Outcome<()> {
    raise_with_text(env, None)
}

pub fn raise_text_and_code(env: Env) -> Outcome<()> {
    raise_with_text(env, Some(&Error::not_supported("")))
}

pub fn raise_code(_env: Env) -> Outcome<()> {
    Err(Error::not_supported("").into())
}

pub fn raise_text_and_subcode(env: Env) -> Outcome<()> {
    raise_with_text(env, Some(&lock_timeout()))
}

pub fn raise_subcode(_env: Env) -> Outcome<()> {
    Err(lock_timeout().into())
}

pub fn raise_text_and_state(env: Env) -> Outcome<()> {
    raise_with_text(env, Some(&Error::not_supported("test state")))
}

/// Decodes the bytes of a batch.
fn encoded(batch: &Batch) -> Outcome<Encoded> {
    let decoded = batch.with(|batch| Encoded::from_bytes(batch.data().to_vec()));
    decoded.map_err(|malformed| Fail::from(malformed.in_file("the write batch", 0)))
}

fn replace(batch: &mut Batch, writes: &Encoded) -> Outcome<()> {
    let writes = WriteBatch::from_data(writes.as_bytes())?;
    Ok(batch.with_mut(|batch| *batch = writes)?)
}

pub fn sequence(_env: Env, batch: Ref<Batch>) -> Outcome<jlong> {
    Ok(encoded(&batch)?.sequence().0 as jlong)
}

pub fn set_sequence(_env: Env, batch: Mut<Batch>, sequence: jlong) -> Outcome<()> {
    let mut writes = encoded(&batch)?;
    writes.set_sequence(SequenceNumber(sequence as u64));
    replace(batch.0, &writes)
}

pub fn append(_env: Env, batch: Mut<Batch>, other: Ref<Batch>) -> Outcome<()> {
    let mut writes = encoded(&batch)?;
    writes.append(&encoded(&other)?.view())?;
    replace(batch.0, &writes)
}

/// The writes of a batch in the order of a memtable, as a text.
pub fn contents(env: Env, batch: Ref<Batch>) -> Outcome<ByteArray> {
    let writes = encoded(&batch)?;
    let mut entries = Vec::new();
    let mut sequence = writes.sequence().0;
    for record in writes.view().records() {
        let record = record.map_err(|malformed| malformed.in_file("the write batch", 0))?;
        let (key, name, value) = match record {
            Record::Put { key, value, .. } => (key, "Put", Some(value)),
            Record::Merge { key, operand, .. } => (key, "Merge", Some(operand)),
            Record::Delete { key, .. } => (key, "Delete", None),
            Record::SingleDelete { key, .. } => (key, "SingleDelete", None),
            Record::LogData(_) => continue,
            _ => return Err(Error::not_supported("a record of this kind").into()),
        };
        entries.push((key, Reverse(sequence), name, value));
        sequence += 1;
    }
    entries.sort();
    let mut text = Vec::new();
    for (key, Reverse(sequence), name, value) in entries {
        text.extend_from_slice(name.as_bytes());
        text.push(b'(');
        text.extend_from_slice(key);
        if let Some(value) = value {
            text.extend_from_slice(b", ");
            text.extend_from_slice(value);
        }
        text.extend_from_slice(format!(")@{sequence}").as_bytes());
    }
    env.byte_array(&text)
}

/// Table properties in which each number is the largest.
fn properties() -> Properties {
    const MAX: u64 = u64::MAX;
    Properties {
        data_size: MAX,
        index_size: MAX,
        index_partitions: MAX,
        top_level_index_size: MAX,
        index_key_is_user_key: MAX,
        index_value_is_delta_encoded: MAX,
        filter_size: MAX,
        raw_key_size: MAX,
        raw_value_size: MAX,
        num_data_blocks: MAX,
        num_entries: MAX,
        num_deletions: MAX,
        num_merge_operands: MAX,
        num_range_deletions: MAX,
        format_version: MAX,
        fixed_key_len: MAX,
        column_family_id: MAX,
        creation_time: MAX,
        oldest_key_time: MAX,
        slow_compression_estimate: MAX,
        fast_compression_estimate: MAX,
        global_seqno_at: MAX,
        column_family_name: "columnFamilyName".into(),
        filter_policy: "filterPolicyName".into(),
        comparator: "comparatorName".into(),
        merge_operator: "mergeOperatorName".into(),
        prefix_extractor: "prefixExtractorName".into(),
        property_collectors: "propertyCollectorsNames".into(),
        compression: "compressionName".into(),
        others: [(b"key".to_vec(), b"value".to_vec())].into(),
        ..Properties::default()
    }
}

/// The job number in all events.
const JOB: u64 = i32::MAX as u64;
const PATH: &str = "/file/path";

fn brief() -> FileCreationBriefInfo {
    FileCreationBriefInfo {
        db_name: "dbName".to_owned(),
        family_name: "columnFamilyName".to_owned(),
        file_path: PATH.to_owned(),
        job_id: JOB,
        reason: None,
    }
}

fn jobs(listener: &dyn EventListener, properties: &Arc<Properties>, error: &Error) {
    let flush = FlushJobInfo {
        family_id: i32::MAX as u32,
        family_name: "testColumnFamily".to_owned(),
        file_path: PATH.to_owned(),
        thread_id: u64::MAX,
        job_id: JOB,
        triggered_writes_slowdown: true,
        triggered_writes_stop: true,
        smallest_seqno: SequenceNumber(u64::MAX),
        largest_seqno: SequenceNumber(u64::MAX),
        table_properties: Some(properties.clone()),
        flush_reason: FlushReason::ManualFlush,
        ..FlushJobInfo::default()
    };
    listener.on_flush_completed(&flush);
    listener.on_flush_begin(&flush);
    let compaction = CompactionJobInfo {
        family_id: u32::MAX,
        family_name: "compactionColumnFamily".to_owned(),
        status: Some(error.clone()),
        thread_id: u64::MAX,
        job_id: JOB,
        base_input_level: i32::MAX as usize,
        output_level: i32::MAX as usize,
        input_files: vec!["inputFile.sst".to_owned()],
        output_files: vec!["outputFile.sst".to_owned()],
        table_properties: vec![("tableProperties".to_owned(), properties.clone())],
        compaction_reason: CompactionReason::Flush,
        compression: Compression::Snappy,
        ..CompactionJobInfo::default()
    };
    listener.on_compaction_begin(&compaction);
    listener.on_compaction_completed(&compaction);
}

fn files(listener: &dyn EventListener, properties: &Arc<Properties>, error: &Error) {
    listener.on_table_file_deleted(&FileDeletionInfo {
        db_name: "dbName".to_owned(),
        file_path: PATH.to_owned(),
        job_id: JOB,
        status: Some(error.clone()),
    });
    listener.on_table_file_created(&TableFileCreationInfo {
        brief: brief(),
        file_size: u64::MAX,
        table_properties: properties.clone(),
        status: Some(error.clone()),
        ..TableFileCreationInfo::default()
    });
    listener.on_table_file_creation_started(&brief());
    listener.on_external_file_ingested(&ExternalFileIngestionInfo {
        family_name: "columnFamilyName".to_owned(),
        external_file_path: "/external/file/path".to_owned(),
        internal_file_path: "/internal/file/path".to_owned(),
        global_seqno: SequenceNumber(u64::MAX),
        table_properties: properties.clone(),
        ..ExternalFileIngestionInfo::default()
    });
    let operation = FileOperationInfo {
        operation: FileOperation::Read,
        path: Path::new(PATH),
        offset: u64::MAX,
        length: 4096,
        start_micros: 1_600_699_420_000_000,
        duration: Duration::from_secs(5),
        error: Some(error),
    };
    listener.on_file_read_finish(&operation);
    listener.on_file_write_finish(&operation);
    listener.on_file_flush_finish(&operation);
    listener.on_file_sync_finish(&operation);
    listener.on_file_range_sync_finish(&operation);
    listener.on_file_truncate_finish(&operation);
    listener.on_file_close_finish(&operation);
    listener.should_be_notified_on_file_io();
}

/// Notifies a listener of each event, with the values that `EventListenerTest` expects.
pub fn invoke_all_callbacks(_env: Env, listener: Ref<ListenerHandle>) {
    let bound = unbound(&listener);
    let error = Error::new(Code::Incomplete, Subcode::NoSpace, "");
    let properties = Arc::new(properties());
    jobs(&bound, &properties, &error);
    files(&bound, &properties, &error);
    bound.on_memtable_sealed(&MemTableInfo {
        family_name: "columnFamilyName".to_owned(),
        first_seqno: SequenceNumber(u64::MAX),
        earliest_seqno: SequenceNumber(u64::MAX),
        num_entries: u64::MAX,
        num_deletes: u64::MAX,
        ..MemTableInfo::default()
    });
    crate::listener::handle_closing(&listener, 0);
    bound.on_stall_conditions_changed(&WriteStallInfo {
        family_name: "columnFamilyName".to_owned(),
        current: StallCondition::Delayed,
        previous: StallCondition::Stopped,
    });
    let flush = BackgroundErrorReason::Flush;
    bound.on_background_error(flush, &mut Some(error.clone()));
    bound.on_error_recovery_begin(flush, &error, &mut true);
    bound.on_error_recovery_end(&BackgroundErrorRecoveryInfo {
        old_error: Some(error),
        new_error: None,
    });
}
