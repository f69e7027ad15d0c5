//! Reservations of key ranges: compactions keep away from where files are about to enter.

use std::sync::Arc;

use cairn_format::key::InternalKey;
use cairn_jobs::pick::{InProgress, JobId};
use cairn_types::{Error, Result};

use crate::catalog::family::FamilyState;
use crate::shared::Shared;

/// A key range of a level, which a compaction must not write while it is reserved.
pub(crate) struct Range {
    pub(crate) level: usize,
    pub(crate) smallest: InternalKey,
    pub(crate) largest: InternalKey,
}

/// Reserved ranges. They end when the value is dropped, and compactions that waited are scheduled.
pub(crate) struct Reservations<'a> {
    shared: &'a Arc<Shared>,
    taken: Vec<(u32, JobId)>,
}

impl Reservations<'_> {
    /// Reserves the ranges that `choose` returns with its answer, beside what compactions of `family` have in work. It is
    /// called under the lock of the tree.
    ///
    /// # Errors
    ///
    /// Those of `choose`; `InvalidArgument` if the family was dropped.
    pub(crate) fn reserve<T>(
        &mut self,
        family: &FamilyState,
        choose: impl FnOnce(&InProgress) -> Result<(T, Vec<Range>)>,
    ) -> Result<T> {
        let mut tree = self.shared.tree.lock();
        let state = tree.families.get_mut(&family.id()).ok_or_else(|| {
            Error::invalid_argument(format!("column family {:?} was dropped", family.name()))
        })?;
        let (chosen, ranges) = choose(&state.busy)?;
        for range in &ranges {
            let id = state
                .busy
                .reserve(range.level, &range.smallest, &range.largest);
            self.taken.push((family.id(), id));
        }
        Ok(chosen)
    }
}

impl Drop for Reservations<'_> {
    fn drop(&mut self) {
        let shared = self.shared;
        let mut tree = shared.tree.lock();
        for (family, id) in &self.taken {
            if let Some(state) = tree.families.get_mut(family) {
                state.busy.remove(*id);
            }
        }
        shared.update_conditions(&mut tree);
        shared.schedule(&mut tree);
        shared.changed.notify_all();
    }
}

impl Shared {
    /// No reservations yet.
    pub(crate) fn reservations(self: &Arc<Self>) -> Reservations<'_> {
        Reservations {
            shared: self,
            taken: Vec::new(),
        }
    }

    /// The files and ranges that compactions of `family` have in work now.
    pub(crate) fn in_progress(&self, family: &FamilyState) -> InProgress {
        let tree = self.tree.lock();
        let state = tree.families.get(&family.id());
        state.map(|state| state.busy.clone()).unwrap_or_default()
    }
}
