//! Reservations of key ranges, which keep compactions out of ranges to which files are about to be added.

use std::sync::Arc;

use cairn_format::key::InternalKey;
use cairn_jobs::pick::{InProgress, JobId};
use cairn_types::{Error, Result};

use crate::catalog::family::FamilyState;
use crate::files::host::Host;

/// A key range of a level that compactions must not write to while it is reserved.
pub(crate) struct Range {
    pub(crate) level: usize,
    pub(crate) smallest: InternalKey,
    pub(crate) largest: InternalKey,
}

/// Reserved ranges. Dropping the value releases them, and schedules compactions that waited.
pub(crate) struct Reservations<'a, H: Host> {
    host: &'a Arc<H>,
    taken: Vec<(&'a FamilyState, JobId)>,
}

impl<'a, H: Host> Reservations<'a, H> {
    /// Creates an empty set of reservations.
    pub(crate) fn new(host: &'a Arc<H>) -> Reservations<'a, H> {
        Reservations {
            host,
            taken: Vec::new(),
        }
    }

    /// Returns the files and ranges used by compactions of `family`.
    pub(crate) fn in_progress(&self, family: &FamilyState) -> InProgress {
        let busy = self.host.with_inputs(family, |busy| busy.clone());
        busy.unwrap_or_default()
    }

    /// Reserves the ranges that `choose` returns along with its result, given the ranges used by compactions
    /// of `family`. It is called under the lock under which compactions choose their inputs.
    ///
    /// # Errors
    ///
    /// Those of `choose`; `InvalidArgument` if the family was dropped.
    pub(crate) fn reserve<T>(
        &mut self,
        family: &'a FamilyState,
        choose: impl FnOnce(&InProgress) -> Result<(T, Vec<Range>)>,
    ) -> Result<T> {
        let taken = &mut self.taken;
        let chosen = self.host.with_inputs(family, |busy| {
            let (chosen, ranges) = choose(busy)?;
            for range in &ranges {
                let id = busy.reserve(range.level, &range.smallest, &range.largest);
                taken.push((family, id));
            }
            Ok(chosen)
        });
        chosen.unwrap_or_else(|| {
            Err(Error::invalid_argument(format!(
                "column family {:?} was dropped",
                family.name()
            )))
        })
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
