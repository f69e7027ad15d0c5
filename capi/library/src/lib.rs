//! `librocksdb.so` and `librocksdb.a`: the functions of `cairn-capi` as libraries for C programs.

pub use cairn_capi::*;
