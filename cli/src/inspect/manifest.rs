//! Prints MANIFESTs: every version edit as a block of lines.

use cairn_format::key::InternalKey;
use cairn_format::log::{Event, LogReader};
use cairn_format::manifest::{FamilyChange, NewFile, VersionEdit};
use cairn_types::Result;

use super::Page;
use crate::show::{escaped, hex};

pub(super) fn show(page: &mut Page<'_>) -> Result<()> {
    let file = page.open()?;
    let mut reader = LogReader::new(|at: u64, buf: &mut [u8]| file.read_at(at, buf), 0);
    loop {
        match reader.next()? {
            Event::Record { offset, payload } => match VersionEdit::decode(payload) {
                Ok(edit) => {
                    page.line(format_args!(
                        "edit at offset {offset}, {} bytes",
                        payload.len()
                    ))?;
                    for line in edit_lines(page, &edit) {
                        page.line(format_args!("  {line}"))?;
                    }
                }
                Err(error) => page.damage(format_args!("edit at offset {offset}: {error}"))?,
            },
            Event::Dropped(dropped) => page.damage(format_args!(
                "{} at offset {}: {} bytes skipped",
                dropped.reason, dropped.offset, dropped.bytes
            ))?,
            Event::End(end) => return page.line(format_args!("end at offset {}", end.offset)),
            other => page.damage(format_args!(
                "record type that is valid in WALs only: {other:?}"
            ))?,
        }
    }
}

/// Returns the changes of an edit, one per line.
fn edit_lines(page: &Page<'_>, edit: &VersionEdit) -> Vec<String> {
    let mut lines = vec![format!("family {}", edit.family)];
    let mut add = |line: String| lines.push(line);
    match &edit.family_change {
        Some(FamilyChange::Add { name }) => add(format!("add family {}", escaped(name.as_bytes()))),
        Some(FamilyChange::Drop) => add("drop the family".to_owned()),
        None => {}
    }
    let numbers = [
        ("log number", edit.log_number.map(|number| number.0)),
        ("previous log number", edit.prev_log_number),
        (
            "next file number",
            edit.next_file_number.map(|number| number.0),
        ),
        ("largest family id", edit.max_family.map(u64::from)),
        (
            "oldest log to keep",
            edit.min_log_number_to_keep.map(|number| number.0),
        ),
        ("last sequence", edit.last_sequence.map(|seq| seq.0)),
        (
            "edits of the atomic group that follow",
            edit.atomic_group_remaining.map(u64::from),
        ),
        (
            "edits of the family group that follow",
            edit.family_group_remaining.map(u64::from),
        ),
        (
            "logs deleted before",
            edit.wals.deleted_before.map(|number| number.0),
        ),
        (
            "initial bytes of the MANIFEST",
            edit.compacted_manifest_bytes,
        ),
    ];
    for (name, number) in numbers {
        number
            .into_iter()
            .for_each(|number| add(format!("{name} {number}")));
    }
    edit.log_reach.iter().for_each(|reach| {
        add(format!(
            "tables newer than log {} up to offset {}",
            reach.number, reach.bytes
        ));
    });
    edit.db_id
        .iter()
        .for_each(|id| add(format!("database id {id}")));
    edit.comparator
        .iter()
        .for_each(|name| add(format!("comparator {name}")));
    edit.persist_timestamps
        .iter()
        .for_each(|stored| add(format!("timestamps stored: {stored}")));
    edit.full_history_ts_low
        .iter()
        .for_each(|low| add(format!("history from {}", hex(low))));
    for (level, key) in &edit.tree.compact_cursors {
        add(format!(
            "next compaction of level {level} from {}",
            key_text(page, key)
        ));
    }
    for (level, number) in &edit.tree.deleted_files {
        add(format!("level {level}: remove {number}.sst"));
    }
    for file in &edit.tree.new_files {
        add(file_text(page, file));
    }
    for blob in &edit.tree.blob_additions {
        add(format!(
            "add {}.blob: {} values, {} bytes{}",
            blob.number,
            blob.blob_count,
            blob.blob_bytes,
            checksum_text(&blob.checksum_method, &blob.checksum)
        ));
    }
    for blob in &edit.tree.blob_garbage {
        add(format!(
            "garbage in {}.blob: {} values, {} bytes",
            blob.number, blob.blob_count, blob.blob_bytes
        ));
    }
    for wal in &edit.wals.additions {
        let size = wal
            .synced_bytes
            .map_or(String::new(), |bytes| format!(", {bytes} bytes synced"));
        add(format!("log {}.log exists{size}", wal.number));
    }
    lines
}

fn file_text(page: &Page<'_>, file: &NewFile) -> String {
    let mut text = format!(
        "level {}: add {}.sst, {} bytes, {} .. {}, sequences {} to {}",
        file.level,
        file.number,
        file.size,
        key_text(page, &file.smallest),
        key_text(page, &file.largest),
        file.seqs.smallest,
        file.seqs.largest
    );
    let numbers = [
        ("path", u64::from(file.path_id)),
        ("epoch", file.epoch_number),
        (
            "oldest blob file",
            file.oldest_blob_file.map_or(0, |number| number.0),
        ),
        ("oldest data", file.times.oldest_ancester),
        ("created", file.times.file),
        ("temperature", u64::from(file.temperature)),
        ("hidden bytes below", file.compensated_range_deletion_size),
        ("tail bytes", file.tail_size),
        (
            "marked for compaction",
            u64::from(file.marked_for_compaction),
        ),
    ];
    for (name, number) in numbers.iter().filter(|(_, number)| *number > 0) {
        text.push_str(&format!(", {name} {number}"));
    }
    if file.unique_id != [0, 0] {
        text.push_str(&format!(
            ", unique id {:016x}-{:016x}",
            file.unique_id[0], file.unique_id[1]
        ));
    }
    if !file.timestamps.min.is_empty() {
        let (min, max) = (hex(&file.timestamps.min), hex(&file.timestamps.max));
        text.push_str(&format!(", timestamps {min} to {max}"));
    }
    text + &checksum_text(&file.checksum.function, &file.checksum.value)
}

fn checksum_text(function: &str, checksum: &[u8]) -> String {
    match checksum {
        [] => String::new(),
        bytes => format!(", checksum {} ({function})", hex(bytes)),
    }
}

fn key_text(page: &Page<'_>, key: &InternalKey) -> String {
    format!(
        "{} @{} {:?}",
        page.bytes(key.user_key()),
        key.seq(),
        key.kind()
    )
}
