//! Files whose reads and writes are counted and measured: for statistics, and for the thread that makes
//! them.

mod context;
mod reads;
mod writes;

pub use context::counted;
pub use reads::{ReadOf, counted_reads};
pub use writes::measured_writes;
