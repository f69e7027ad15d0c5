//! Reservations of key ranges, which keep compactions away from ranges where files are about to be added.

use std::sync::Arc;

use cairn_format::key::InternalKey;
use cairn_jobs::pick::{InProgress, JobId};
use cairn_types::{Error, Result};

use crate::catalog::family::FamilyState;
use crate::shared::Shared;

/// A key range of a level that compactions must not write to while it is reserved.
pub(crate) struct Range {
    pub(crate) level: usize,
    pub(crate) smallest: InternalKey,
    pub(crate) largest: InternalKey,
}

/// Reserved ranges. Dropping the value releases them, and schedules compactions that waited.
pub(crate) struct Reservations<'a> {
    shared: &'a Arc<Shared>,
    taken: Vec<(u32, JobId)>,
}

impl Reservations<'_> {
    /// Reserves the ranges that `choose` returns along with its result, given the ranges used by compactions
    /// of `family`. It is called under the lock of the tree.
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
    /// Creates an empty set of reservations.
    pub(crate) fn reservations(self: &Arc<Self>) -> Reservations<'_> {
        Reservations {
            shared: self,
            taken: Vec::new(),
        }
    }

    /// Returns the files and ranges used by compactions of `family`.
    pub(crate) fn in_progress(&self, family: &FamilyState) -> InProgress {
        let tree = self.tree.lock();
        let state = tree.families.get(&family.id());
        state.map(|state| state.busy.clone()).unwrap_or_default()
    }
}
