//! Stall conditions of the families: recomputed after each change of a tree or its memtables, and reported to
//! the info log and to listeners.

use std::sync::Arc;

use cairn_jobs::pick::run_count;
use cairn_observe::listener::{BackgroundJobPressure, WriteStallInfo};
use cairn_observe::{Level, StallCondition};
use cairn_options::CompactionStyle;

use super::delay::waits_for_flush;
use super::stall::{self, Condition, Load};
use crate::catalog::family::FamilyState;
use crate::jobs::counts::JobKind;
use crate::locks::Rank;
use crate::shared::{FamilyTree, Shared, Tree};

impl Shared {
    /// The load of `family` that its stall condition depends on.
    pub(crate) fn load_of(&self, family: &FamilyState, state: &FamilyTree) -> Load {
        let view = family.view();
        Load {
            immutables: state.immutables.len(),
            level_zero_files: match family.options().compaction_style {
                CompactionStyle::Universal => run_count(&view.version),
                _ => view.version.level(0).len(),
            },
            pending_bytes: self.pending_bytes(family, &view),
        }
    }

    /// Recomputes the stall conditions of all families. The caller, or the purge that follows, calls `write_lines` after
    /// it has released the lock of the tree.
    pub(crate) fn update_conditions(&self, tree: &mut Tree) {
        debug_assert!(
            self.context.locks.is_held(Rank::Tree),
            "conditions change under the lock of the tree"
        );
        let before = tree.condition;
        let mut worst = Condition::Normal;
        let mut behind = false;
        let mut paced = false;
        let mut changes = Vec::new();
        let rate = self.options().delayed_write_rate;
        for family in self.catalog.families().iter() {
            let Some(state) = tree.families.get(&family.id()) else {
                continue;
            };
            let load = self.load_of(family, state);
            let options = family.options();
            let condition = stall::condition(load, &options);
            family.writes.throttle.set_max_rate(rate);
            match condition {
                Condition::Normal => family.writes.throttle.reset(),
                Condition::Delayed(_) => family
                    .writes
                    .throttle
                    .press(stall::pressure(load, &options)),
                Condition::Stopped(_) => {}
            }
            if !waits_for_flush(state, family) {
                self.end_pace(family);
            }
            paced |= family.writes.pace.is_on();
            worst = worst.worse(condition);
            behind |= stall::is_behind(load, &options);
            changes.push((family.clone(), condition));
        }
        for (family, condition) in changes {
            self.set_condition(tree, &family, condition);
        }
        tree.condition = worst;
        let behind = behind || worst != Condition::Normal;
        self.signals.set_compactions_behind(behind);
        // Release: the conditions of the families are stored first.
        self.signals.set_stalls(paced || worst != Condition::Normal);
        if worst != before {
            let text = format_args!("writes: {before:?} -> {worst:?}");
            self.telemetry.log_later(Level::Info, text);
        }
        // Some family may have room while another does not.
        self.changed.notify_all();
    }

    /// Sets the stall condition of `family`, and reports a change.
    fn set_condition(&self, tree: &mut Tree, family: &FamilyState, condition: Condition) {
        let Some(state) = tree.families.get_mut(&family.id()) else {
            return;
        };
        let before = std::mem::replace(&mut state.condition, condition);
        let level_zero_is_busy = state.busy.takes_level_zero();
        family.writes.set_stalled(condition != Condition::Normal);
        if before == condition {
            return;
        }
        let (kind, text) = match condition {
            Condition::Normal => (None, String::new()),
            Condition::Delayed(cause) => {
                (Some((false, cause)), format!("Stalling writes: {cause:?}"))
            }
            Condition::Stopped(cause) => {
                (Some((true, cause)), format!("Stopping writes: {cause:?}"))
            }
        };
        match kind {
            Some((stopped, cause)) => {
                family
                    .stats
                    .stalled(stopped, cause as usize, level_zero_is_busy);
                let text = format_args!("[{}] {text}", family.name());
                self.telemetry.log_later(Level::Warn, text);
            }
            None => {
                let text = format_args!("[{}] writes are no longer stalled", family.name());
                self.telemetry.log_later(Level::Info, text);
            }
        }
        let info = WriteStallInfo {
            family_name: family.name().to_owned(),
            current: stall_condition(condition),
            previous: stall_condition(before),
        };
        if info.current != info.previous {
            self.telemetry
                .notify_later(move |listener| listener.on_stall_conditions_changed(&info));
        }
    }

    /// The load of background jobs, and the distance from a write stall.
    pub(crate) fn pressure(&self, tree: &Tree) -> BackgroundJobPressure {
        let proximity = |family: &Arc<FamilyState>| {
            let load = self.load_of(family, tree.families.get(&family.id())?);
            let limits = family.options().write_limits();
            let files = match limits.slowdown_files > 0 {
                true => limits.slowdown_files,
                false => limits.stop_files,
            };
            let of_files = percent(
                load.level_zero_files as u64,
                u64::try_from(files).unwrap_or(0),
            );
            Some(of_files.max(percent(load.pending_bytes, limits.soft_bytes)))
        };
        let families = self.catalog.families();
        BackgroundJobPressure {
            compaction_scheduled: tree.jobs.compactions() as u64,
            compaction_running: tree.jobs.running(JobKind::Compaction) as u64,
            flush_scheduled: tree.jobs.flushes() as u64,
            flush_running: tree.jobs.running(JobKind::Flush) as u64,
            write_stall_proximity_pct: families.iter().filter_map(proximity).max().unwrap_or(0),
            compaction_speedup_active: self.signals.are_compactions_behind(),
        }
    }
}

fn stall_condition(condition: Condition) -> StallCondition {
    match condition {
        Condition::Normal => StallCondition::Normal,
        Condition::Delayed(_) => StallCondition::Delayed,
        Condition::Stopped(_) => StallCondition::Stopped,
    }
}

/// Returns `part` of `whole` in percent; 0 if `whole` is 0.
fn percent(part: u64, whole: u64) -> u64 {
    match whole {
        0 => 0,
        whole => u64::try_from(u128::from(part) * 100 / u128::from(whole)).unwrap_or(u64::MAX),
    }
}
