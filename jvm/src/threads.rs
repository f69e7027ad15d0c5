//! `ThreadStatus` and `Env.getThreadList`.
//!
//! Java gets the properties of an operation as an array, in which RocksDB packs levels and flags into one number each.

use cairn_observe::threads::{self, Operation, Stage, ThreadStatus, ThreadType};
use cairn_platform::{Priority, World};
use jni_sys::{jint, jlong, jvalue};

use crate::env::{Env, JString, LongArray, Object, ObjectArray, Outcome, illegal};
use crate::handle::Ref;

const COMPACTION: i8 = 1;
const FLUSH: i8 = 2;
const DB_OPEN: i8 = 3;

/// Names of the stages by their numbers in Java.
const STAGES: [&str; 11] = [
    "",
    "FlushJob::Run",
    "FlushJob::WriteLevel0Table",
    "CompactionJob::Prepare",
    "CompactionJob::Run",
    "CompactionJob::ProcessKeyValueCompaction",
    "CompactionJob::Install",
    "CompactionJob::FinishCompactionOutputFile",
    "MemTableList::PickMemtablesToFlush",
    "MemTableList::RollbackMemtableFlush",
    "MemTableList::TryInstallMemtableFlushResults",
];

/// Names of the properties of a compaction by their places.
const COMPACTION_PROPERTIES: [&str; 6] = [
    "JobID",
    "InputOutputLevel",
    "Manual/Deletion/Trivial",
    "TotalInputBytes",
    "BytesRead",
    "BytesWritten",
];
/// Names of the properties of a flush by their places.
const FLUSH_PROPERTIES: [&str; 3] = ["JobID", "BytesMemtables", "BytesWritten"];

/// The properties of an operation by their places.
fn properties(status: &ThreadStatus) -> Vec<jlong> {
    let numbers = match &status.operation {
        Operation::Compaction(known) => vec![
            known.job_id,
            (known.base_input_level as u64) << 32 | known.output_level as u64,
            u64::from(known.is_manual) << 1
                | u64::from(known.is_deletion) << 2
                | u64::from(known.is_trivial_move) << 3,
            known.total_input_bytes,
            status.bytes_read,
            status.bytes_written,
        ],
        Operation::Flush(known) => vec![known.job_id, known.bytes_memtables, status.bytes_written],
        _ => Vec::new(),
    };
    numbers.into_iter().map(|number| number as jlong).collect()
}

fn stage_number(stage: Option<Stage>) -> i8 {
    let name = stage.map_or("", Stage::name);
    let place = STAGES.iter().position(|stage| *stage == name);
    place.unwrap_or(0) as i8
}

/// The operations of all databases that track their threads.
pub fn list(env: Env, _world: Ref<World>) -> Outcome<ObjectArray> {
    let statuses = threads::list();
    let array = env.object_array("org/rocksdb/ThreadStatus", statuses.len())?;
    for (at, status) in statuses.iter().enumerate() {
        env.frame(|| {
            let kind = match status.thread_type {
                ThreadType::HighPriority => 0,
                ThreadType::LowPriority => 1,
                ThreadType::BottomPriority => 3,
                _ => 2,
            };
            let operation = match status.operation {
                Operation::Compaction(_) => COMPACTION,
                Operation::Flush(_) => FLUSH,
                Operation::DbOpen => DB_OPEN,
                // Java has no number for verifications.
                _ => 0,
            };
            let created = env.create(
                "org/rocksdb/ThreadStatus",
                "(JBLjava/lang/String;Ljava/lang/String;BJB[JB)V",
                &[
                    jvalue {
                        j: status.thread_id as jlong,
                    },
                    jvalue { b: kind },
                    jvalue {
                        l: env.string(&status.db_name)?.0,
                    },
                    jvalue {
                        l: env.string(&status.cf_name)?.0,
                    },
                    jvalue { b: operation },
                    jvalue {
                        j: status.op_elapsed_micros as jlong,
                    },
                    jvalue {
                        b: stage_number(status.stage),
                    },
                    jvalue {
                        l: env.long_array(&properties(status))?.0,
                    },
                    jvalue { b: 0 },
                ],
            )?;
            env.set_element(array, at, created)
        })?;
    }
    Ok(array)
}

pub fn queue_len(_env: Env, world: Ref<World>, priority: i8) -> Outcome<jint> {
    let priority = match priority {
        0 => Priority::Bottom,
        1 => Priority::Low,
        2 => Priority::High,
        3 => Priority::User,
        _ => return Err(illegal("unknown priority")),
    };
    Ok(jint::try_from(world.executor.queued(priority)).unwrap_or(jint::MAX))
}

/// A string; null for an empty text, as in RocksJava.
fn text_or_null(env: Env, text: &str) -> Outcome<JString> {
    match text.is_empty() {
        true => Ok(JString::default()),
        false => env.string(text),
    }
}

fn name(env: Env, names: &[&str], number: usize) -> Outcome<JString> {
    text_or_null(env, names.get(number).copied().unwrap_or_default())
}

pub fn type_name(env: Env, number: i8) -> Outcome<JString> {
    match ["High Pri", "Low Pri", "User", "Bottom Pri"].get(number as usize) {
        Some(name) => env.string(name),
        None => env.string("Unknown"),
    }
}

pub fn operation_name(env: Env, number: i8) -> Outcome<JString> {
    name(env, &["", "Compaction", "Flush", "DBOpen"], number as usize)
}

pub fn stage_name(env: Env, number: i8) -> Outcome<JString> {
    name(env, &STAGES, number as usize)
}

pub fn state_name(env: Env, number: i8) -> Outcome<JString> {
    name(env, &["", "Mutex Wait"], number as usize)
}

pub fn property_name(env: Env, operation: i8, at: jint) -> Outcome<JString> {
    let names: &[&str] = match operation {
        COMPACTION => &COMPACTION_PROPERTIES,
        FLUSH => &FLUSH_PROPERTIES,
        _ => &[],
    };
    name(env, names, usize::try_from(at).unwrap_or(usize::MAX))
}

pub fn micros_text(env: Env, micros: jlong) -> Outcome<JString> {
    text_or_null(env, &threads::micros_text(micros as u64))
}

/// The properties of an operation by name.
pub fn interpret(env: Env, operation: i8, properties: LongArray) -> Outcome<Object> {
    let mut named = Vec::new();
    for (at, value) in env.longs(properties)?.into_iter().enumerate() {
        match (operation, at) {
            (COMPACTION, 1) => {
                named.push(("BaseInputLevel", value >> 32));
                named.push(("OutputLevel", value & 0xffff_ffff));
            }
            (COMPACTION, 2) => {
                named.push(("IsManual", value >> 1 & 1));
                named.push(("IsDeletion", value >> 2 & 1));
                named.push(("IsTrivialMove", value >> 3 & 1));
            }
            (COMPACTION, at) => named.extend(COMPACTION_PROPERTIES.get(at).map(|n| (*n, value))),
            (FLUSH, at) => named.extend(FLUSH_PROPERTIES.get(at).map(|n| (*n, value))),
            _ => {}
        }
    }
    env.map(
        named
            .into_iter()
            .map(|(name, value)| Ok((Object(env.string(name)?.0), env.boxed_long(value)?))),
    )
}
