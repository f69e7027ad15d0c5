//! The bodies of the targets, one file each, each with `pub fn run(data: &[u8])`.

pub mod block;
pub mod decompress;
pub mod footer_meta_props;
pub mod manifest;
pub mod names;
pub mod options_text;
pub mod varint_key;
pub mod wal;
pub mod write_batch;
