//! Files whose reads and writes are counted and measured for statistics.

mod reads;
mod writes;

pub use reads::{ReadOf, counted_reads};
pub use writes::measured_writes;
