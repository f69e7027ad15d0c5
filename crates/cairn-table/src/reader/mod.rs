//! Reading a table: opening it, getting keys, walking it, checking it.

mod key_anchors;
mod block_fetcher;
mod table_stats;
mod filter;
mod get;
mod index;
mod iter;
mod open;
mod prefetch;
mod table;
mod verify;

pub use get::{GetOptions, TableGet, ValueRef};
pub use iter::{IterOptions, TableIter};
pub use open::OpenParams;
pub use table::Table;
