//! The encoder of version edits.

use super::{FamilyChange, VersionEdit, WalAddition, tag};
use crate::coding::{put_lps, put_varint32, put_varint64};

/// Appends `edit` to `out`, with its fields in RocksDB's order.
pub(super) fn encode(edit: &VersionEdit, out: &mut Vec<u8>) {
    encode_state(edit, out);
    encode_files(edit, out);
    encode_wals(edit, out);
    encode_family(edit, out);
    encode_late_additions(edit, out);
}

fn encode_state(edit: &VersionEdit, out: &mut Vec<u8>) {
    if let Some(id) = &edit.db_id {
        put_bytes(out, tag::DB_ID, id.as_bytes());
    }
    if let Some(name) = &edit.comparator {
        put_bytes(out, tag::COMPARATOR, name.as_bytes());
    }
    if let Some(number) = edit.log_number {
        put_number(out, tag::LOG_NUMBER, number.0);
    }
    if let Some(number) = edit.prev_log_number {
        put_number(out, tag::PREV_LOG_NUMBER, number);
    }
    if let Some(number) = edit.next_file_number {
        put_number(out, tag::NEXT_FILE_NUMBER, number.0);
    }
    if let Some(id) = edit.max_family {
        put_number(out, tag::MAX_COLUMN_FAMILY, u64::from(id));
    }
    if let Some(number) = edit.min_log_number_to_keep {
        put_number(out, tag::MIN_LOG_NUMBER_TO_KEEP, number.0);
    }
    if let Some(sequence) = edit.last_sequence {
        put_number(out, tag::LAST_SEQUENCE, sequence.0);
    }
}

fn encode_files(edit: &VersionEdit, out: &mut Vec<u8>) {
    for (level, key) in &edit.tree.compact_cursors {
        put_number(out, tag::COMPACT_CURSOR, u64::from(*level));
        put_lps(out, key.as_bytes());
    }
    for (level, number) in &edit.tree.deleted_files {
        put_number(out, tag::DELETED_FILE, u64::from(*level));
        put_varint64(out, number.0);
    }
    for file in &edit.tree.new_files {
        file.encode(out);
    }
    for addition in &edit.tree.blob_additions {
        put_varint32(out, tag::BLOB_FILE_ADDITION);
        addition.encode(out);
    }
    for garbage in &edit.tree.blob_garbage {
        put_varint32(out, tag::BLOB_FILE_GARBAGE);
        garbage.encode(out);
    }
}

fn encode_wals(edit: &VersionEdit, out: &mut Vec<u8>) {
    for wal in &edit.wals.additions {
        put_bytes(out, tag::WAL_ADDITION, &wal_addition(wal));
    }
    if let Some(number) = edit.wals.deleted_before {
        put_sized_number(out, tag::WAL_DELETION, number.0);
    }
}

fn encode_family(edit: &VersionEdit, out: &mut Vec<u8>) {
    if edit.family != 0 {
        put_number(out, tag::COLUMN_FAMILY, u64::from(edit.family));
    }
    match &edit.family_change {
        Some(FamilyChange::Add { name }) => {
            put_bytes(out, tag::COLUMN_FAMILY_ADD, name.as_bytes());
        }
        Some(FamilyChange::Drop) => put_varint32(out, tag::COLUMN_FAMILY_DROP),
        None => {}
    }
    if let Some(remaining) = edit.atomic_group_remaining {
        put_number(out, tag::IN_ATOMIC_GROUP, u64::from(remaining));
    }
}

/// The fields that RocksDB added later and writes last.
fn encode_late_additions(edit: &VersionEdit, out: &mut Vec<u8>) {
    if let Some(timestamp) = &edit.full_history_ts_low {
        put_bytes(out, tag::FULL_HISTORY_TS_LOW, timestamp);
    }
    if let Some(persist) = edit.persist_timestamps {
        put_bytes(out, tag::PERSIST_TIMESTAMPS, &[u8::from(persist)]);
    }
    if let Some(progress) = &edit.compaction_progress {
        put_bytes(out, tag::COMPACTION_PROGRESS, progress);
    }
    if let Some(bytes) = edit.compacted_manifest_bytes {
        put_sized_number(out, tag::COMPACTED_MANIFEST_BYTES, bytes);
    }
    if let Some(remaining) = edit.family_group_remaining {
        put_sized_number(out, tag::IN_FAMILY_GROUP, u64::from(remaining));
    }
    if let Some(reach) = edit.log_reach {
        let mut body = Vec::with_capacity(20);
        put_varint64(&mut body, reach.number.0);
        put_varint64(&mut body, reach.bytes);
        put_bytes(out, tag::LOG_REACH, &body);
    }
}

fn wal_addition(wal: &WalAddition) -> Vec<u8> {
    let mut body = Vec::with_capacity(24);
    put_varint64(&mut body, wal.number.0);
    if let Some(bytes) = wal.synced_bytes {
        put_number(&mut body, tag::WAL_SYNCED_BYTES, bytes);
    }
    put_varint32(&mut body, tag::WAL_END);
    body
}

fn put_bytes(out: &mut Vec<u8>, tag: u32, bytes: &[u8]) {
    put_varint32(out, tag);
    put_lps(out, bytes);
}

/// A varint64, or a varint32 with the same encoding.
fn put_number(out: &mut Vec<u8>, tag: u32, number: u64) {
    put_varint32(out, tag);
    put_varint64(out, number);
}

fn put_sized_number(out: &mut Vec<u8>, tag: u32, number: u64) {
    let mut body = Vec::with_capacity(10);
    put_varint64(&mut body, number);
    put_bytes(out, tag, &body);
}
