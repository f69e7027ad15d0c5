//! Memory that grows with use: the arena and the block cache.
//!
//! [`arena`] hands out memory that is given back all at once, for memtables. [`cache`] keeps blocks
//! and blobs that were read, up to a number of bytes, and knows nothing about what they hold.

pub mod arena;
pub mod cache;
mod extents;
pub mod write_buffer;

pub use arena::Arena;
pub use cache::{BlockCache, CacheKey, CacheOptions, CachePriority, CacheRole, RoleCounts};
pub use write_buffer::WriteBufferManager;
