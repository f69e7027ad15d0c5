//! The bodies of the targets, one file each, each with `pub fn run(data: &[u8])`.

pub mod decompress;
pub mod names;
pub mod varint_key;
