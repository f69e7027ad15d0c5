//! Memory management: the memtable arena, the block cache and the write buffer manager.
//!
//! [`arena`] allocates the memory of memtables, which is freed as a whole. [`cache`] holds blocks and blobs
//! read from files, up to a capacity, and does not interpret them. [`secondary`] implements the tiers that
//! evicted entries move to. [`write_buffer`] bounds the memtables of several databases. [`budget`] divides a
//! single memory budget among all of them.

pub mod arena;
pub mod budget;
pub mod cache;
mod extents;
pub mod secondary;
pub mod spare;
pub mod write_buffer;

pub use arena::Arena;
pub use budget::MemoryBudget;
pub use cache::{
    BlockCache, CacheCharge, CacheEntry, CacheKey, CacheKind, CacheOptions, CachePriority,
    CacheRole, ChargePolicy, InsertOutcome, MemoryUse, MemoryUses, RoleCounts, Simulation,
};
pub use cairn_platform::MemoryKind;
pub use write_buffer::WriteBufferManager;
