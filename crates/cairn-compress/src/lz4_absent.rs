//! Stubs for a build without LZ4: [`Compression::is_supported`](crate::Compression::is_supported)
//! is false, so no stream is ever created and nothing is decompressed.

use cairn_types::Result;

use crate::kind::Compression;

/// The longest input of LZ4.
pub(crate) const MAX_INPUT: usize = 0x7e00_0000;

/// The algorithm and its effort; unused in this build.
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
