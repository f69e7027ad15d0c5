//! The implementation of [`Host`]: the write path and the jobs for operations on files outside of the tree.

use std::sync::Arc;

use cairn_jobs::pick::InProgress;
use cairn_observe::FlushReason;
use cairn_types::Result;
use cairn_version::manifest::WriteFailed;

use crate::catalog::create::NewFamily;
use crate::catalog::family::FamilyState;
use crate::files::capture::Capture;
use crate::files::host::{Components, Host, JobHost, LogEnd, WriteHost};
use crate::shared::Shared;
use crate::write::commit::Lead;

impl WriteHost for Shared {
    fn check_writable(&self) -> Result<()> {
        Shared::check_writable(self)
    }

    fn lead_alone(&self) -> Result<Lead<'_>> {
        Shared::lead_alone(self)
    }

    fn wait_for_log(&self) -> Result<()> {
        self.wait_while_locked(false).map(|_| ())
    }

    fn flush_wal(&self, sync: bool) -> Result<()> {
        Shared::flush_wal(self, sync)
    }

    fn log_end(&self) -> LogEnd {
        LogEnd {
            last: self.last_write(),
            needed: self.needed_logs(),
            reach: self.log_reach(),
        }
    }

    fn create_families_led(
        self: &Arc<Self>,
        new: Vec<NewFamily>,
    ) -> Result<Vec<Arc<FamilyState>>, WriteFailed> {
        Shared::create_families_led(self, new)
    }

    fn record_families(&self, created: &[Arc<FamilyState>]) -> Result<()> {
        Shared::record_families(self, created)
    }
}

impl JobHost for Shared {
    fn flush(self: &Arc<Self>, families: &[Arc<FamilyState>]) -> Result<()> {
        Shared::flush(self, families)
    }

    fn flush_led(
        self: &Arc<Self>,
        families: &[Arc<FamilyState>],
        reason: FlushReason,
    ) -> Result<()> {
        Shared::flush_led(self, families, reason)
    }

    fn flush_for_copy(self: &Arc<Self>, wal_bytes: u64, atomic: bool) -> Result<()> {
        Shared::flush_for_copy(self, wal_bytes, atomic)
    }

    fn with_inputs<T>(
        &self,
        family: &FamilyState,
        change: impl FnOnce(&mut InProgress) -> T,
    ) -> Option<T> {
        let mut tree = self.tree.lock();
        let state = tree.families.get_mut(&family.id());
        state.map(|state| change(&mut state.busy))
    }

    fn schedule_due(self: &Arc<Self>) {
        // The next write-group leader checks memtables and stalls, too.
        self.signals.request_attention();
        let mut tree = self.tree.lock();
        self.update_conditions(&mut tree);
        self.schedule(&mut tree);
        self.changed.notify_all();
        drop(tree);
        self.telemetry.write_lines();
    }

    fn purge(&self) {
        Shared::purge(self);
    }
}

impl Host for Shared {
    fn components(&self) -> Components<'_> {
        Components {
            context: &self.context,
            telemetry: &self.telemetry,
            settings: &self.settings,
            catalog: &self.catalog,
        }
    }

    fn while_open<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        self.as_counted_purge(work)
    }

    fn opened_files(&self) -> Result<Capture> {
        self.captured_at_opening()
    }
}
