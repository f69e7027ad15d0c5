//! The memtable: recent writes, sorted, in memory.
//!
//! A [`Memtable`] accepts writes from many threads and serves concurrent reads, without a lock on
//! either side. Point entries are in a skiplist in an arena (`skiplist`), range tombstones in a
//! separate list whose fragments are built on demand and shared by readers. Scans may add further ones over
//! runs of deletions ([`Memtable::add_derived_range`]). With an optional Bloom
//! filter (`filter`), lookups of absent keys skip the search in the skiplist. A single writer may
//! defer linking its entries, which are then linked in batches, and no later than the next read
//! ([`Memtable::add_deferred`]). For bulk loads, a memtable can be sorted lazily, when it is first
//! read. Once a memtable is full, the database stops writing to it, flushes it to a table and drops
//! it as a whole.
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
pub use memtable::{DerivedRange, Memtable, MemtableOptions, Point, RangeTombstones, SORTED_BATCH};
pub use pin::{PinnedEntry, PinnedValues};
pub use skiplist::comparator_guard::{COMPARATOR_RULE, in_comparator};
pub use skiplist::{Checks, Entry, INSERT_BATCH, InsertHint};
