//! LZ4 in a build without it: [`Compression::is_supported`](crate::Compression::is_supported) is false, so
//! that no stream exists and nothing is decompressed.

use cairn_types::Result;

use crate::kind::Compression;

/// The largest input that LZ4 takes.
pub(crate) const MAX_INPUT: usize = 0x7e00_0000;

/// The effort of a search, which is of no use here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effort {
    Fast(#[expect(dead_code, reason = "as in the module with the library")] i32),
    High(#[expect(dead_code, reason = "as in the module with the library")] i32),
}

/// Stands for the working memory of a compressor.
pub(crate) enum Stream {}

impl Stream {
    pub(crate) fn new(_: Effort) -> Result<Stream> {
        Err(Compression::Lz4.not_supported())
    }

    pub(crate) fn compress(&mut self, _: &[u8], _: &[u8], _: &mut [u8]) -> Option<usize> {
        match *self {}
    }
}

pub(crate) fn decompress(_: &[u8], _: &[u8], _: &mut [u8]) -> Option<usize> {
    None
}

pub(crate) fn decompress_some(_: &[u8], _: &[u8], _: &mut [u8]) -> Option<usize> {
    None
}
