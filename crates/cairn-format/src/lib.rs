//! Encoders and decoders of all RocksDB file formats, as pure functions.
//!
//! There is no I/O, no locking and no configuration. Decoders accept untrusted input and return a value or a
//! [`cairn_types::Malformed`]. They never panic, loop forever, or allocate by an unverified length. Each
//! module documents its format.

pub mod backup;
pub mod batch;
pub mod blob;
pub mod block;
pub mod cache_dump;
pub mod cache_segment;
pub mod checksum;
pub mod coding;
pub mod compaction_service;
pub mod dated;
pub mod filter;
pub mod flat;
pub mod hash;
pub mod id;
pub mod key;
pub mod log;
pub mod manifest;
pub mod names;
pub mod options_text;
pub mod prepared_file;
pub mod protection;
pub mod range_del;
mod record_text;
pub mod seqno_times;
mod sorted_u64;
pub mod table;
pub mod trace;
pub mod wide;
