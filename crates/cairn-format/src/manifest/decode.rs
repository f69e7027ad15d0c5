//! The decoder of version edits.

use cairn_types::{Decoded, FileNumber, Malformed, SequenceNumber};

use super::new_file::internal_key;
use super::tag::{self, SKIPPABLE};
use super::{BlobAddition, BlobGarbage, FamilyChange, LogReach, NewFile, VersionEdit, WalAddition};
use crate::coding::Input;

pub(super) fn decode(bytes: &[u8]) -> Decoded<VersionEdit> {
    let mut edit = VersionEdit::default();
    let mut input = Input::new(bytes);
    while !input.is_empty() {
        decode_field(&mut edit, &mut input)?;
    }
    Ok(edit)
}

fn decode_field(edit: &mut VersionEdit, input: &mut Input<'_>) -> Decoded<()> {
    let at = input.at();
    let tag = input.varint32()?;
    match tag {
        tag::COMPARATOR => edit.comparator = Some(text(input, "name of the comparator")?),
        tag::LOG_NUMBER => edit.log_number = Some(FileNumber(input.varint64()?)),
        tag::NEXT_FILE_NUMBER => edit.next_file_number = Some(FileNumber(input.varint64()?)),
        tag::LAST_SEQUENCE => edit.last_sequence = Some(last_sequence(input)?),
        tag::COMPACT_CURSOR => {
            let level = input.varint32()?;
            edit.tree
                .compact_cursors
                .push((level, internal_key(input)?));
        }
        tag::DELETED_FILE => {
            let level = input.varint32()?;
            let number = FileNumber(input.varint64()?);
            edit.tree.deleted_files.push((level, number));
        }
        tag::NEW_FILE | tag::NEW_FILE2 | tag::NEW_FILE3 | tag::NEW_FILE4 => {
            let file = NewFile::decode(tag, input, &mut edit.min_log_number_to_keep)?;
            edit.tree.new_files.push(file);
        }
        tag::PREV_LOG_NUMBER => edit.prev_log_number = Some(input.varint64()?),
        tag::MIN_LOG_NUMBER_TO_KEEP => {
            edit.min_log_number_to_keep = Some(FileNumber(input.varint64()?));
        }
        tag::COLUMN_FAMILY => edit.family = input.varint32()?,
        tag::COLUMN_FAMILY_ADD => {
            let name = text(input, "name of the column family")?;
            change_family(edit, at, FamilyChange::Add { name })?;
        }
        tag::COLUMN_FAMILY_DROP => change_family(edit, at, FamilyChange::Drop)?,
        tag::MAX_COLUMN_FAMILY => edit.max_family = Some(input.varint32()?),
        tag::IN_ATOMIC_GROUP => edit.atomic_group_remaining = Some(input.varint32()?),
        tag::BLOB_FILE_ADDITION | tag::OLD_BLOB_FILE_ADDITION => {
            edit.tree.blob_additions.push(BlobAddition::decode(input)?);
        }
        tag::BLOB_FILE_GARBAGE | tag::OLD_BLOB_FILE_GARBAGE => {
            edit.tree.blob_garbage.push(BlobGarbage::decode(input)?);
        }
        tag::OLD_WAL_ADDITION => edit.wals.additions.push(wal_addition(input)?),
        tag::OLD_WAL_DELETION => edit.wals.deleted_before = Some(FileNumber(input.varint64()?)),
        tag if tag & SKIPPABLE != 0 => {
            let body = input.lps()?;
            let start = input.at() - body.len();
            decode_sized(edit, tag, body).map_err(|error| error.shifted(start))?;
        }
        tag => {
            return Err(Malformed::at(at, format!("unknown version edit tag {tag}")));
        }
    }
    Ok(())
}

/// Decodes a field whose body has a length prefix. An unknown field is skipped, and so are bytes
/// after the known part of a body.
fn decode_sized(edit: &mut VersionEdit, tag: u32, body: &[u8]) -> Decoded<()> {
    let mut input = Input::new(body);
    match tag {
        tag::DB_ID => edit.db_id = Some(utf8(0, body, "id of the database")?),
        tag::FULL_HISTORY_TS_LOW if body.is_empty() => {
            return Err(Malformed::at(0, "full_history_ts_low is empty"));
        }
        tag::FULL_HISTORY_TS_LOW => edit.full_history_ts_low = Some(body.to_vec()),
        tag::WAL_ADDITION => edit.wals.additions.push(wal_addition(&mut input)?),
        tag::WAL_DELETION => edit.wals.deleted_before = Some(FileNumber(input.varint64()?)),
        tag::PERSIST_TIMESTAMPS => match body {
            [byte] => edit.persist_timestamps = Some(*byte == 1),
            _ => {
                return Err(Malformed::mismatch(
                    0,
                    "length of persist_user_defined_timestamps",
                    1,
                    body.len(),
                ));
            }
        },
        tag::COMPACTION_PROGRESS => edit.compaction_progress = Some(body.to_vec()),
        tag::COMPACTED_MANIFEST_BYTES => edit.compacted_manifest_bytes = Some(input.varint64()?),
        tag::IN_FAMILY_GROUP => edit.family_group_remaining = Some(input.varint32()?),
        tag::LOG_REACH => {
            edit.log_reach = Some(LogReach {
                number: FileNumber(input.varint64()?),
                bytes: input.varint64()?,
            });
        }
        _ => {}
    }
    Ok(())
}

fn wal_addition(input: &mut Input<'_>) -> Decoded<WalAddition> {
    let mut wal = WalAddition {
        number: FileNumber(input.varint64()?),
        synced_bytes: None,
    };
    loop {
        let at = input.at();
        match input.varint32()? {
            tag::WAL_END => return Ok(wal),
            tag::WAL_SYNCED_BYTES => wal.synced_bytes = Some(input.varint64()?),
            tag => {
                return Err(Malformed::unsupported(
                    at,
                    format!("field {tag} of a WAL in a version edit"),
                ));
            }
        }
    }
}

fn change_family(edit: &mut VersionEdit, at: usize, change: FamilyChange) -> Decoded<()> {
    if edit.family_change.is_some() {
        return Err(Malformed::at(
            at,
            "a version edit adds or drops a column family twice",
        ));
    }
    edit.family_change = Some(change);
    Ok(())
}

fn last_sequence(input: &mut Input<'_>) -> Decoded<SequenceNumber> {
    let at = input.at();
    let number = input.varint64()?;
    if number > SequenceNumber::MAX.0 {
        return Err(Malformed::mismatch(
            at,
            "last sequence number",
            "at most 2^56 - 1",
            number,
        ));
    }
    Ok(SequenceNumber(number))
}

/// A length-prefixed name.
pub(super) fn text(input: &mut Input<'_>, what: &str) -> Decoded<String> {
    let bytes = input.lps()?;
    utf8(input.at() - bytes.len(), bytes, what)
}

/// A name at offset `at`.
pub(super) fn utf8(at: usize, bytes: &[u8], what: &str) -> Decoded<String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => Err(Malformed::unsupported(
            at + error.valid_up_to(),
            format!("{what} is not UTF-8"),
        )),
    }
}
