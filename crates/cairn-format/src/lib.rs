//! Bytes to values and back, pure: every encoding of RocksDB's files.
//!
//! No file, no lock, no option. Every decoder takes hostile bytes and answers with a value or a
//! [`cairn_types::Malformed`]; none panics, loops for ever, or allocates on the word of its input.
//! The bytes are described in the documentation of each module.

pub mod batch;
pub mod blob;
pub mod block;
pub mod checksum;
pub mod coding;
pub mod dated;
pub mod filter;
pub mod hash;
pub mod id;
pub mod key;
pub mod log;
pub mod manifest;
pub mod names;
pub mod options_text;
pub mod range_del;
mod sorted_u64;
pub mod table;
pub mod wide;
