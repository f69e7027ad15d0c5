//! Reads of an open database: point reads, batches, iterators, and streams of the log.
//!
//! A read takes the view of its family, which is one load of an atomic pointer, then its sequence number, and is executed by
//! `cairn-read`, which knows neither the database nor its locks. This folder owns what a read needs of an open database.
//!
//! | module | owns |
//! |---|---|
//! | `get`, `multi_get` | point reads of one key and of many; views of several families at one sequence number |
//! | `iter`, `coalescing` | iterators of one family and over several, and the renewal of their views |
//! | `open_iterators` | the list of open iterators, by age and thread |
//! | `wal_iterator` | lists of logs, and the stream of their batches |
//! | `conflict` | the last write to a key, for the conflict checks of transactions |
//! | `sizes`, `verify`, `bounds` | estimates for key ranges, verification of all blocks, ranges of user keys |
//!
//! Invariants: a read without a snapshot loads the view before the sequence number ([`get`]), and a point read takes none of
//! the ranked locks ([`crate::locks`]).

pub(crate) mod bounds;
pub(crate) mod coalescing;
pub(crate) mod conflict;
pub(crate) mod get;
pub(crate) mod iter;
pub(crate) mod multi_get;
pub(crate) mod open_iterators;
pub(crate) mod sizes;
mod verify;
pub(crate) mod wal_iterator;
