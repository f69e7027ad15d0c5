//! `librocksdb.so` and `librocksdb.a`: what `cairn-capi` defines, as libraries for C programs.

pub use cairn_capi::*;
