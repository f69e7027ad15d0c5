//! Compression of entries, with compressors shared between threads.

use cairn_compress::{
    CodecOptions, Compression, Compressor, Framing, declared_len, decompress, decompress_exact,
};
use cairn_platform::sync::{Arc, Mutex};
use cairn_platform::{Allocation, Buffer};
use cairn_types::Result;

use super::Bytes;

/// A codec with idle compressors: as many as the maximum number of threads that ever compressed at the same
/// time.
pub(super) struct Codec {
    kind: Compression,
    options: CodecOptions,
    idle: Mutex<Vec<Worker>>,
}

/// A compressor and its output, both reused.
struct Worker {
    compressor: Compressor,
    out: Vec<u8>,
}

impl Codec {
    /// Creates the codec.
    ///
    /// # Errors
    ///
    /// Those of [`Compressor::new`].
    pub(super) fn new(kind: Compression, options: CodecOptions) -> Result<Codec> {
        let first = Worker {
            compressor: Compressor::new(kind, options, None)?,
            out: Vec::new(),
        };
        Ok(Codec {
            kind,
            options,
            idle: Mutex::new(vec![first]),
        })
    }

    pub(super) fn kind(&self) -> Compression {
        self.kind
    }

    /// Returns the compressed form of `raw`, or `None` if it is not shorter or there is no codec.
    pub(super) fn compress(&self, raw: &[u8]) -> Option<Bytes> {
        let len = u32::try_from(raw.len()).ok()?;
        if self.kind == Compression::None {
            return None;
        }
        let idle = self.idle.lock().pop();
        let mut worker = match idle {
            Some(worker) => worker,
            None => Worker {
                compressor: Compressor::new(self.kind, self.options, None).ok()?,
                out: Vec::new(),
            },
        };
        worker.out.clear();
        let shorter = worker.compressor.compress(raw, &mut worker.out);
        let compressed = matches!(shorter, Ok(true)).then(|| Bytes::Compressed {
            bytes: Arc::from(&worker.out[..]),
            codec: self.kind,
            len,
        });
        // An exceptionally large output buffer is not retained.
        worker.out.shrink_to(256 << 10);
        self.idle.lock().push(worker);
        compressed
    }
}

/// Decompresses `stored`, which has `len` bytes when decompressed. Returns `None` if it is damaged. The size
/// of allocations does not depend on unverified lengths in `stored`.
pub(super) fn expand(codec: Compression, stored: &[u8], len: usize) -> Option<Buffer> {
    let declared = declared_len(codec, stored, Framing::Sized, len).ok()?;
    if declared.modest_len(stored.len()) == Some(len) {
        let fill = |out: &mut [u8]| decompress_exact(codec, stored, Framing::Sized, None, out);
        return Buffer::filled(len, Allocation::default(), fill).ok();
    }
    let bytes = decompress(codec, stored, Framing::Sized, None, len).ok()?;
    (bytes.len() == len).then(|| Buffer::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_round_trip() {
        let raw: Vec<u8> = (0..9000u32).flat_map(|n| (n / 70).to_le_bytes()).collect();
        for kind in [Compression::Lz4, Compression::Zstd, Compression::Snappy] {
            let codec = Codec::new(kind, CodecOptions::default()).unwrap();
            for _ in 0..2 {
                let bytes = codec.compress(&raw).unwrap();
                let stored = bytes.stored();
                assert!(stored.len() < raw.len() / 2);
                assert_eq!(&*bytes.expand().unwrap(), &raw[..]);
                assert!(expand(kind, stored, raw.len() - 1).is_none());
                assert!(expand(kind, stored, raw.len() + 1).is_none());
                assert!(expand(kind, &stored[..stored.len() / 2], raw.len()).is_none());
            }
            assert_eq!(codec.idle.lock().len(), 1);
        }
    }

    #[test]
    fn a_high_ratio_round_trips() {
        let raw = vec![7; 4 << 20];
        let codec = Codec::new(Compression::Zstd, CodecOptions::default()).unwrap();
        let bytes = codec.compress(&raw).unwrap();
        assert!(bytes.stored().len() < 4096);
        assert_eq!(&*bytes.expand().unwrap(), &raw[..]);
    }

    #[test]
    fn incompressible_bytes_and_no_codec_give_none() {
        let noise: Vec<u8> = (1..4000u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .map(|n| ((n ^ (n >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8)
            .collect();
        let codec = Codec::new(Compression::Lz4, CodecOptions::default()).unwrap();
        assert!(codec.compress(&noise).is_none());
        let codec = Codec::new(Compression::None, CodecOptions::default()).unwrap();
        assert!(codec.compress(&[0; 1000]).is_none());
    }
}
