//! Stubs for a build without Zstandard:
//! [`Compression::is_supported`](crate::Compression::is_supported) is false, so no context is ever
//! created and nothing is decompressed.

use cairn_types::{Decoded, Malformed, Result};

use crate::compressor::CodecOptions;
use crate::kind::Compression;

/// Stands for the working memory of a compressor.
pub(crate) enum Context {}

impl Context {
    pub(crate) fn new(_: CodecOptions, _: Option<&[u8]>) -> Result<Context> {
        Err(Compression::Zstd.not_supported())
    }

    pub(crate) fn for_records() -> Result<Context> {
        Err(Compression::Zstd.not_supported())
    }

    pub(crate) fn compress(&mut self, _: &[u8], _: &mut [u8]) -> Result<Option<usize>> {
        match *self {}
    }
}

pub(crate) fn bound(len: usize) -> usize {
    len
}

/// Stands for a digested dictionary.
pub(crate) enum Digested {}

impl Digested {
    pub(crate) fn new(_: &[u8]) -> Option<Digested> {
        None
    }

    pub(crate) fn memory_usage(&self) -> usize {
        match *self {}
    }
}

pub(crate) fn decompress(_: &[u8], _: Option<&Digested>, _: &mut [u8]) -> Decoded<Option<usize>> {
    Err(Malformed::unsupported(0, Compression::Zstd.absence()))
}

pub(crate) fn train(_: &[u8], _: &[usize], _: usize) -> Result<Vec<u8>> {
    Err(Compression::Zstd.not_supported())
}
