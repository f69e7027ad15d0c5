//! File wrappers that count and time I/O: for statistics, for the calling thread, and for listeners.

mod context;
mod notify;
mod reads;
#[cfg(test)]
mod tests;
mod writes;

pub use context::counted;
pub use notify::notifying;
pub use reads::{ReadOf, counted_reads};
pub use writes::measured_writes;
