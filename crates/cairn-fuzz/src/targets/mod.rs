//! The bodies of the targets, one file each, each with `pub fn run(data: &[u8])`.
