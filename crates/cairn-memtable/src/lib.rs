//! The memtable: recent writes, sorted, in memory.
//!
//! A [`Memtable`] takes writes from many threads at once and serves reads at the same time, without
//! a lock on either side. It is a skiplist in an arena (`list`) for point entries and a
//! list of range tombstones beside it, of which readers share fragments that are built as they come, and if asked for a Bloom filter (`filter`) that saves
//! lookups the walk. A lone writer may have his entries linked in some at a time, before anybody reads
//! ([`Memtable::add_deferred`]). For bulk loads it can be sorted late, when it is first read. When it is full, the database stops writing to it, flushes
//! it to a table and drops it as a whole.
//!
//! ```
//! use std::ops::ControlFlow;
//! use std::sync::Arc;
//! use cairn_format::key::LookupKey;
//! use cairn_memtable::{Memtable, MemtableOptions};
//! use cairn_types::{KeyOrder, SequenceNumber, ValueKind};
//!
//! let table = Arc::new(Memtable::new(KeyOrder::Bytewise, MemtableOptions::default()));
//! table.add(SequenceNumber(1), ValueKind::Value, b"stone", b"old");
//! table.add(SequenceNumber(2), ValueKind::Value, b"stone", b"new");
//!
//! let mut seen = Vec::new();
//! table.get(&LookupKey::new(b"stone", SequenceNumber::MAX), |_, _, value| {
//!     seen.push(value.to_vec());
//!     ControlFlow::Continue(())
//! });
//! assert_eq!(seen, [b"new", b"old"]);
//! ```

mod filter;
mod iter;
mod memtable;
mod pin;
mod skiplist;

pub use filter::FilterOptions;
pub use iter::{MemtableIter, MemtableWalk};
pub use memtable::{Memtable, MemtableOptions, Point, RangeTombstones};
pub use pin::PinnedEntry;
pub use skiplist::comparator_guard::{COMPARATOR_RULE, in_comparator};
pub use skiplist::{Entry, INSERT_BATCH, InsertHint};
