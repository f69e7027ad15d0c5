//! Gets in a block-cache trace.

use cairn_format::key::LookupKey;
use cairn_format::trace::block_cache::CacheCaller;
use cairn_observe::traces::block_cache::TracedGetId;
use cairn_options::{ReadOptions, ReadTier};
use cairn_table::{TableGet, TracedRead};

use super::PointGet;
use crate::operands::OnOperand;
use crate::view::View;

/// The number of the next get of the database in its block-cache trace; `None` if there is none.
#[cold]
pub(crate) fn next_traced_get(view: &View) -> Option<TracedGetId> {
    view.family.tables.cache_tracer.as_ref()?.next_get()
}

/// Returns `state`, whose block lookups are recorded as those of the next get in the trace, if there is one. By value, so
/// that the lookup is built in place.
#[cold]
#[inline(never)]
pub(super) fn next_traced(
    state: TableGet,
    view: &View,
    lookup: &LookupKey,
    options: &ReadOptions,
) -> TableGet {
    let id = next_traced_get(view);
    traced(state, lookup, options, CacheCaller::Get, id)
}

/// Returns `state`, whose block lookups are recorded as those of the get, or the batch, with the number `id`, if it has
/// one.
fn traced(
    mut state: TableGet,
    lookup: &LookupKey,
    options: &ReadOptions,
    caller: CacheCaller,
    id: Option<TracedGetId>,
) -> TableGet {
    let read = id.map(|id| TracedRead {
        id,
        caller,
        at_snapshot: options.snapshot.is_some(),
        fills: options.fill_cache && options.read_tier != ReadTier::BlockCache,
    });
    state.trace_as(read, lookup.internal());
    state
}

impl<H: OnOperand> PointGet<'_, H> {
    /// Records the block lookups as those of the batch with the number `id`, if it has one.
    pub(crate) fn trace_in_batch(&mut self, options: &ReadOptions, id: Option<TracedGetId>) {
        let state = std::mem::take(&mut self.state);
        self.state = traced(state, self.lookup, options, CacheCaller::MultiGet, id);
    }
}
