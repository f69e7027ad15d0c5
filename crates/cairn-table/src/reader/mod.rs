//! Reading a table: opening, point lookups, iteration, verification.

mod ahead;
pub(crate) mod block_fetcher;
mod entry_check;
mod filter;
mod get;
mod guard;
mod image;
mod index;
mod iter;
mod key_anchors;
mod lookup_trace;
mod open;
mod planned_reads;
mod prefetch;
mod read_amp;
mod scan_plan;
mod table;
mod table_stats;
pub(crate) mod tier_stats;
mod uncache;
mod verify;

pub use ahead::{Background, ReadAhead};
pub use get::{GetOptions, SuspendedGet, TableGet, ValueRef};
pub use iter::{IterOptions, TableIter};
pub use lookup_trace::TracedRead;
pub use open::{OpenParams, UnopenedTable};
pub use planned_reads::PlannedReads;
pub use prefetch::ReadaheadSize;
pub use scan_plan::{PlanOptions, ScanPlan, ScanRange};
pub use table::Table;
pub use tier_stats::count_lookup_below;
