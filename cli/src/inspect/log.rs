//! Prints WALs: every record of every batch.

use cairn_format::batch::{BatchRef, Record};
use cairn_types::Result;
use cairn_wal::{WalEvent, WalReader};

use super::Page;

pub(super) fn show(page: &mut Page<'_>) -> Result<()> {
    let mut reader = WalReader::new(page.open()?, page.number);
    loop {
        reader.advance()?;
        let recycled = reader.is_recycled();
        match reader.event() {
            WalEvent::Record { offset, payload } => show_batch(page, offset, payload)?,
            WalEvent::TimestampSizes(sizes) => {
                for (family, size) in sizes.iter() {
                    page.line(format_args!("family {family}: {size} bytes of timestamp"))?;
                }
            }
            WalEvent::Predecessor(before) => page.line(format_args!(
                "preceding log: {:06}.log, {} bytes, last sequence {}",
                before.log_number, before.bytes, before.last_sequence
            ))?,
            WalEvent::Dropped(dropped) if recycled => page.line(format_args!(
                "{} at offset {}: {} bytes left over from an earlier use of the file",
                dropped.reason, dropped.offset, dropped.bytes
            ))?,
            WalEvent::Dropped(dropped) => page.damage(format_args!(
                "{} at offset {}: {} bytes skipped",
                dropped.reason, dropped.offset, dropped.bytes
            ))?,
            WalEvent::End(end) => {
                return page.line(format_args!(
                    "end at offset {}, {} zeros before it",
                    end.offset, end.zeros
                ));
            }
        }
    }
}

/// Prints a batch: a line for its header, and one per record.
fn show_batch(page: &mut Page<'_>, offset: u64, payload: &[u8]) -> Result<()> {
    let batch = match BatchRef::parse(payload) {
        Ok(batch) => batch,
        Err(error) => return page.damage(format_args!("batch at offset {offset}: {error}")),
    };
    page.line(format_args!(
        "batch at offset {offset}: sequence {}, {} entries, {} bytes",
        batch.sequence(),
        batch.count(),
        payload.len()
    ))?;
    for record in batch.records() {
        match record {
            Ok(record) => page.line(record_text(page, &record))?,
            Err(error) => page.damage(format_args!("batch at offset {offset}: {error}"))?,
        }
    }
    Ok(())
}

fn record_text(page: &Page<'_>, record: &Record<'_>) -> String {
    let show = |bytes: &[u8]| page.bytes(bytes);
    let family = record
        .family()
        .map_or(String::new(), |id| format!("family {id}: "));
    let text = match *record {
        Record::Put { key, value, .. } => format!("put {} = {}", show(key), show(value)),
        Record::Delete { key, .. } => format!("delete {}", show(key)),
        Record::SingleDelete { key, .. } => format!("single delete {}", show(key)),
        Record::Merge { key, operand, .. } => format!("merge {} with {}", show(key), show(operand)),
        Record::DeleteRange { begin, end, .. } => {
            format!("delete from {} up to {}", show(begin), show(end))
        }
        Record::PutEntity { key, entity, .. } => {
            format!("put {} = columns {}", show(key), show(entity))
        }
        Record::PutBlobIndex { key, index, .. } => {
            format!("put {} = blob {}", show(key), crate::show::hex(index))
        }
        Record::TimedPut {
            key,
            value,
            unix_seconds,
            ..
        } => {
            format!("put {} = {} as of {unix_seconds}", show(key), show(value))
        }
        Record::LogData(data) => format!("log data {}", show(data)),
        Record::Noop => "nothing".to_owned(),
        Record::BeginPrepare(policy) => format!("begin prepare ({policy:?})"),
        Record::EndPrepare { name } => format!("end prepare {}", show(name)),
        Record::Commit { name } => format!("commit {}", show(name)),
        Record::CommitWithTimestamp { timestamp, name } => {
            format!("commit {} at {}", show(name), crate::show::hex(timestamp))
        }
        Record::Rollback { name } => format!("roll back {}", show(name)),
    };
    format!("  {family}{text}")
}
