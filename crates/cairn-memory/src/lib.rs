//! Memory management: the memtable arena, the block cache and the write buffer manager.
//!
//! [`arena`] hands out memory that is freed as a whole, for memtables. [`cache`] keeps blocks and blobs that
//! were read from files, up to a capacity, and does not interpret them. [`secondary`] has the tiers to which it
//! evicts. [`write_buffer`] bounds the memtables of several databases. [`budget`] divides one number between all
//! of them.

pub mod arena;
pub mod budget;
pub mod cache;
mod extents;
pub mod secondary;
pub mod write_buffer;

pub use arena::Arena;
pub use budget::MemoryBudget;
pub use cache::{
    BlockCache, CacheCharge, CacheEntry, CacheKey, CacheKind, CacheOptions, CachePriority,
    CacheRole, ChargePolicy, InsertOutcome, MemoryUse, MemoryUses, RoleCounts,
};
pub use write_buffer::WriteBufferManager;
