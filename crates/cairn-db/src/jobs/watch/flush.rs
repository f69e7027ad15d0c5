//! Reports of flushes.

use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_memtable::Memtable;
use cairn_observe::listener::{BlobFileAddition, FlushJobInfo};
use cairn_observe::{FlushReason, thread_number};
use cairn_types::{FileNumber, SequenceNumber};

use super::{Watch, lsm_state, note_blob_files};
use crate::catalog::family::FamilyState;
use crate::catalog::install::Change;
use crate::report::family_stats::CompactionStats;

impl Watch {
    /// Reports the start of a flush of `memtables`. Returns the report, for [`Watch::flush_ended`].
    pub(crate) fn flush_begins(
        &self,
        family: &FamilyState,
        memtables: &[Arc<Memtable>],
        reason: FlushReason,
    ) -> FlushJobInfo {
        // A memtable is reported before its flush.
        self.telemetry.deliver();
        let sum = |count: fn(&Memtable) -> usize| -> usize {
            memtables.iter().map(|memtable| count(memtable)).sum()
        };
        self.telemetry.record_flush_begins(memtables, reason);
        self.telemetry.context().info.info(format_args!(
            "[{}] [JOB {}] Flushing {} memtables, reason: {}",
            self.family,
            self.job,
            memtables.len(),
            reason.text()
        ));
        let mut event = self.telemetry.event(self.job, "flush_started");
        event
            .number("num_memtables", memtables.len())
            .number("total_num_input_entries", sum(Memtable::entries))
            .number("num_deletes", sum(Memtable::deletions))
            .number("total_data_size", sum(Memtable::data_bytes))
            .number("memory_usage", sum(Memtable::memory_usage))
            .number("num_range_deletes", sum(Memtable::range_deletions))
            .text("flush_reason", reason.text());
        self.telemetry.log_event(&event);
        let nothing_yet = FileName::Table(FileNumber(0)).to_string();
        let mut info = FlushJobInfo {
            db_name: self.telemetry.context().dir.to_string_lossy().into_owned(),
            session_id: self.telemetry.context().session_id.clone(),
            family_id: self.family_id,
            family_name: self.family.clone(),
            file_path: family.tables().paths[0]
                .join(nothing_yet)
                .to_string_lossy()
                .into_owned(),
            thread_id: thread_number(),
            job_id: self.job,
            smallest_seqno: SequenceNumber::MAX,
            flush_reason: reason,
            ..FlushJobInfo::default()
        };
        note_triggers(&mut info, family);
        self.telemetry
            .notify(|listener| listener.on_flush_begin(&info));
        info
    }

    /// Reports an installed flush.
    pub(crate) fn flush_ended(
        &self,
        mut info: FlushJobInfo,
        family: &FamilyState,
        change: &Change,
        immutables: usize,
        micros: u64,
    ) {
        let entries = change.flushed.iter().map(|memtable| memtable.entries());
        let mut done = CompactionStats {
            micros,
            jobs: 1,
            entries_in: entries.sum::<usize>() as u64,
            ..CompactionStats::default()
        };
        for (_, file) in &change.edit.added {
            info.file_number = file.number.0;
            info.oldest_blob_file_number = file.oldest_blob.map_or(0, |number| number.0);
            info.smallest_seqno = file.seqs.smallest;
            info.largest_seqno = file.seqs.largest;
            done.written += file.size;
        }
        if let Some(created) = &self.created
            && let Some(table) = created.lock().tables.first()
        {
            info.file_path.clone_from(&table.path);
            info.table_properties = Some(table.properties.clone());
        }
        note_triggers(&mut info, family);
        info.blob_files.clone_from(&self.blobs.lock());
        let bytes = |blob: &BlobFileAddition| blob.total_blob_bytes;
        let blobs = info.blob_files.iter().map(bytes);
        done.written_blobs = blobs.fold(0, u64::saturating_add);
        info.blob_compression = Some(family.options().blob_compression_type);
        family.stats.flushed(&done);
        self.telemetry
            .record_flush(done.written, done.written_blobs, micros);
        self.telemetry.context().info.info(format_args!(
            "[{}] [JOB {}] Level-0 flush table #{}: {} bytes OK",
            self.family, self.job, info.file_number, done.written
        ));
        let version = family.view().version.clone();
        let mut event = self.telemetry.event(self.job, "flush_finished");
        event
            .text(
                "output_compression",
                family.options().compression.property_name(),
            )
            .numbers("lsm_state", &lsm_state(&version));
        note_blob_files(&mut event, &version);
        event.number("immutable_memtables", immutables);
        self.telemetry.log_event(&event);
        self.telemetry
            .notify(|listener| listener.on_flush_completed(&info));
    }
}

/// Sets the level-0 trigger flags according to the current number of files in level 0.
fn note_triggers(info: &mut FlushJobInfo, family: &FamilyState) {
    let files = i32::try_from(family.view().version.level(0).len()).unwrap_or(i32::MAX);
    let limits = family.options().write_limits();
    info.triggered_writes_slowdown = files >= limits.slowdown_files;
    info.triggered_writes_stop = files >= limits.stop_files;
}
