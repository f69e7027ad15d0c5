//! Reading a table: opening, point lookups, iteration, verification.

mod block_fetcher;
mod filter;
mod get;
mod index;
mod iter;
mod key_anchors;
mod open;
mod prefetch;
mod table;
mod table_stats;
mod verify;

pub use get::{GetOptions, TableGet, ValueRef};
pub use iter::{IterOptions, TableIter};
pub use open::OpenParams;
pub use table::Table;
