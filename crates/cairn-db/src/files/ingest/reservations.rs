//! Reservations, which keep compactions out of ranges to which files are about to be added, and away from files that are
//! about to be deleted.

use std::sync::Arc;

use cairn_format::key::InternalKey;
use cairn_jobs::pick::{InProgress, JobId};
use cairn_types::{FileNumber, Result};

use crate::catalog::family::FamilyState;
use crate::files::host::Host;

/// A key range of a level that compactions must not write to while it is reserved.
pub(crate) struct Range {
    pub(crate) level: usize,
    pub(crate) smallest: InternalKey,
    pub(crate) largest: InternalKey,
}

/// Reserved ranges and files. Dropping the value releases them, and schedules compactions that waited.
pub(crate) struct Reservations<'a, H: Host> {
    host: &'a Arc<H>,
    taken: Vec<(Arc<FamilyState>, JobId)>,
}

impl<'a, H: Host> Reservations<'a, H> {
    /// Creates an empty set of reservations.
    pub(crate) fn new(host: &'a Arc<H>) -> Reservations<'a, H> {
        Reservations {
            host,
            taken: Vec::new(),
        }
    }

    /// Keeps the files that `choose` returns out of compactions, given those used by compactions of `family`. It is called
    /// under the lock under which compactions choose their inputs.
    ///
    /// # Errors
    ///
    /// Those of `choose`; `ColumnFamilyDropped`.
    pub(crate) fn hold(
        &mut self,
        family: &Arc<FamilyState>,
        choose: impl FnOnce(&InProgress) -> Result<Vec<FileNumber>>,
    ) -> Result<()> {
        let taken = &mut self.taken;
        let held = self.host.with_inputs(family, |busy| {
            let files = choose(busy)?;
            taken.push((family.clone(), busy.hold(&files)));
            Ok(())
        });
        held.unwrap_or_else(|| Err(family.dropped_error()))
    }

    /// Reserves the ranges that `choose` returns along with its result, given the ranges used by compactions
    /// of `family`. It is called under the lock under which compactions choose their inputs.
    ///
    /// # Errors
    ///
    /// Those of `choose`; `ColumnFamilyDropped`.
    pub(crate) fn reserve<T>(
        &mut self,
        family: &Arc<FamilyState>,
        choose: impl FnOnce(&InProgress) -> Result<(T, Vec<Range>)>,
    ) -> Result<T> {
        let taken = &mut self.taken;
        let chosen = self.host.with_inputs(family, |busy| {
            let (chosen, ranges) = choose(busy)?;
            for range in &ranges {
                let id = busy.reserve(range.level, &range.smallest, &range.largest);
                taken.push((family.clone(), id));
            }
            Ok(chosen)
        });
        chosen.unwrap_or_else(|| Err(family.dropped_error()))
    }
}

impl<H: Host> Drop for Reservations<'_, H> {
    fn drop(&mut self) {
        for (family, id) in &self.taken {
            self.host.with_inputs(family, |busy| busy.remove(*id));
        }
        self.host.schedule_due();
    }
}
