//! The memtables and logs behind [`CatalogEnv`].

use cairn_observe::BackgroundErrorReason;
use cairn_types::{Error, FileNumber, Result};

use crate::catalog::env::{CatalogEnv, HeldLog, Installed, InstalledKind, LogState};
use crate::catalog::family::FamilyState;
use crate::shared::{FamilyTree, Shared, Tree};

impl CatalogEnv for Shared {
    fn sync_logs_before(&self, log: FileNumber) -> Result<()> {
        self.sync_unsynced_logs(log)
    }

    fn log_state(&self) -> LogState {
        let last_sequence = self.published();
        let all = self.catalog.families();
        let tree = self.tree.lock();
        // First: a section is unregistered once memtables hold its log (P2).
        let undecided = self.writes.sections.first_log();
        let families = tree.families.iter();
        LogState {
            last_sequence,
            first_needed: tree.logs.first_needed(),
            families: families
                .map(|(id, state)| (*id, state.log_number))
                .collect(),
            undecided,
            held: all
                .iter()
                .flat_map(|family| held_logs(family, &tree))
                .collect(),
            lengths: tree
                .logs
                .needed()
                .filter(|(number, _)| !tree.logs.has_failed(*number))
                .collect(),
            reach: tree.logs.reach(),
        }
    }

    fn installed(&self, edit: &Installed<'_>, publish: impl FnOnce()) {
        let mut tree = self.tree.lock();
        if let Some(min_log) = edit.min_log {
            tree.logs.release_before(min_log);
        }
        tree.apply(&edit.kind);
        publish();
        self.check_tree(&tree);
        // A write that follows the flush or the change sees its consequences.
        if let InstalledKind::Changes(_) | InstalledKind::Dropped(_) = edit.kind {
            self.update_conditions(&mut tree);
            self.changed.notify_all();
        }
        drop(tree);
        if let Some(last) = edit.last_sequence {
            // A reader that sees the number sees the files that contain it.
            self.writes.commits.skip_to(last);
        }
    }

    fn manifest_failed(&self, reason: BackgroundErrorReason, error: &Error) {
        self.manifest_error(reason, error);
    }
}

/// Returns the logs that are kept for the memtables of `family`.
fn held_logs(family: &FamilyState, tree: &Tree) -> Vec<HeldLog> {
    let waiting = tree.families.get(&family.id());
    let waiting = waiting.map_or(&[][..], |state| &state.immutables);
    let logs = waiting.iter().map(|one| one.held_log);
    let logs = logs.chain([family.writes.held_log()]).enumerate();
    let held = logs.filter_map(|(memtable, log)| {
        Some(HeldLog {
            family: family.id(),
            memtable,
            log: log?,
        })
    });
    held.collect()
}

impl Tree {
    /// Applies an edit that is durable in the MANIFEST to the memtables and logs of families.
    fn apply(&mut self, edit: &InstalledKind<'_>) {
        match edit {
            InstalledKind::Changes(group) => {
                for (family, change) in *group {
                    if let Some(state) = self.families.get_mut(&family.id()) {
                        state.immutables.drain(..change.flushed.len());
                        if let Some(number) = change.log_number {
                            state.log_number = number;
                        }
                    }
                    if let Some(ingested) = &change.ingested {
                        self.logs.set_reach(ingested.log_reach);
                    }
                }
            }
            InstalledKind::Created(families, log) => {
                for family in *families {
                    let before = self.families.insert(family.id(), FamilyTree::new(*log));
                    assert!(before.is_none(), "a new family has no tree yet");
                }
            }
            InstalledKind::Dropped(family) => {
                let gone = self.families.remove(&family.id());
                assert!(
                    gone.is_some(),
                    "family {:?}, which is dropped, has a tree",
                    family.name()
                );
            }
            InstalledKind::Logs => {}
        }
    }
}
