//! The compression of blocks, and the decision whether to keep its result.

use cairn_compress::{Compression, Compressor, Dictionary, Framing, decompress};
use cairn_observe::statistics::{Histogram, Meter, Ticker};
use cairn_types::{Error, Result};

use crate::builder::auto_skip_compressor::AutoSkipCompressor;
use crate::builder::params::BuildParams;

/// Compresses blocks that shrink enough.
pub(super) struct BlockCompressor {
    compressor: Compressor,
    dictionary: Option<Dictionary>,
    /// A block is stored compressed if its size is at most this many 1024ths of the original.
    max_per_kb: u64,
    verify: bool,
    meter: Meter,
}

impl BlockCompressor {
    pub(super) fn new(
        params: &BuildParams,
        dictionary: Option<Dictionary>,
    ) -> Result<BlockCompressor> {
        let raw = dictionary.as_ref().map(Dictionary::raw);
        Ok(BlockCompressor {
            compressor: Compressor::new(params.compression, params.codec_options(), raw)?,
            dictionary,
            max_per_kb: u64::try_from(params.compression_options.max_compressed_bytes_per_kb)
                .unwrap_or(0),
            verify: params.options.verify_compression,
            meter: params.meter.clone(),
        })
    }

    /// Replaces the content of `out` by `raw` in compressed form. Returns false if that does not save enough; the content
    /// of `out` is then of no use.
    pub(super) fn compress(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        let began = self.meter.began_detail();
        let most = raw.len() as u64 * self.max_per_kb / 1024;
        out.clear();
        let shrunk = self.compressor.compress_within(raw, most as usize, out)?;
        if let Some(nanos) = self.meter.nanos_since(began) {
            self.meter
                .update(|update| update.time(Histogram::CompressionTimesNanos, nanos));
        }
        if shrunk && self.verify {
            let kind = self.compressor.kind();
            let dictionary = self.dictionary.as_ref();
            let back = decompress(kind, out, Framing::Sized, dictionary, raw.len());
            if back.as_deref() != Ok(raw) {
                return Err(Error::corruption(format!(
                    "{kind} does not reproduce a block of {} bytes (verify_compression)",
                    raw.len()
                )));
            }
        }
        Ok(shrunk)
    }
}

/// Compresses blocks and counts the results.
pub(crate) struct Packer {
    block: BlockCompressor,
    auto_skip: Option<AutoSkipCompressor>,
    scratch: Vec<u8>,
    /// True if any block was stored compressed.
    pub used: bool,
    /// Number of blocks that did not shrink enough.
    pub rejected: u64,
    counts: Packed,
}

/// Number and bytes of blocks by outcome.
#[derive(Default)]
struct Packed {
    compressed: (u64, u64),
    compressed_to: u64,
    rejected: (u64, u64),
    bypassed: (u64, u64),
}

/// Adds a block of `len` bytes.
fn count(sum: &mut (u64, u64), len: usize) {
    sum.0 += 1;
    sum.1 += len as u64;
}

impl Drop for Packer {
    fn drop(&mut self) {
        let counts = &self.counts;
        self.block.meter.update(|update| {
            update.add(Ticker::NumberBlockCompressed, counts.compressed.0);
            update.add(Ticker::BytesCompressedFrom, counts.compressed.1);
            update.add(Ticker::BytesCompressedTo, counts.compressed_to);
            update.add(Ticker::NumberBlockCompressionRejected, counts.rejected.0);
            update.add(Ticker::BytesCompressionRejected, counts.rejected.1);
            update.add(Ticker::NumberBlockCompressionBypassed, counts.bypassed.0);
            update.add(Ticker::BytesCompressionBypassed, counts.bypassed.1);
        });
    }
}

impl Packer {
    pub(crate) fn new(params: &BuildParams, dictionary: Option<Vec<u8>>) -> Result<Packer> {
        Ok(Packer {
            block: BlockCompressor::new(params, dictionary.map(Dictionary::new))?,
            auto_skip: AutoSkipCompressor::new(&params.compression_options),
            scratch: Vec::new(),
            used: false,
            rejected: 0,
            counts: Packed::default(),
        })
    }

    /// Returns the number of blocks stored without an attempt to compress them.
    pub(crate) fn bypassed(&self) -> u64 {
        self.counts.bypassed.0
    }

    pub(crate) fn dictionary(&self) -> Option<&Dictionary> {
        self.block.dictionary.as_ref()
    }

    /// The codec.
    pub(super) fn kind(&self) -> Compression {
        self.block.compressor.kind()
    }

    /// Returns the memory of the compressor's output, in bytes.
    pub(super) fn memory_usage(&self) -> usize {
        self.scratch.capacity()
    }

    /// Decides whether to try to compress the next block, of `len` bytes. One that is not tried is counted.
    pub(super) fn tries(&mut self, len: usize) -> bool {
        let skip = &mut self.auto_skip;
        let skips = skip.as_mut().is_some_and(AutoSkipCompressor::skips_next);
        let tries = self.kind() != Compression::None && !skips;
        if !tries {
            count(&mut self.counts.bypassed, len);
        }
        tries
    }

    /// Counts the outcome of an attempt to compress a block of `len` bytes: the size of a result that is kept. Returns the
    /// codec with which the block is stored.
    pub(super) fn note(&mut self, len: usize, kept: Option<usize>) -> Compression {
        if let Some(skip) = &mut self.auto_skip {
            skip.note(len, kept.unwrap_or(len));
        }
        let Some(size) = kept else {
            self.rejected += 1;
            count(&mut self.counts.rejected, len);
            return Compression::None;
        };
        self.used = true;
        count(&mut self.counts.compressed, len);
        self.counts.compressed_to += size as u64;
        self.kind()
    }

    /// Returns the stored form of `raw`, compressed if that saves enough.
    pub(crate) fn pack<'a>(&'a mut self, raw: &'a [u8]) -> Result<(&'a [u8], Compression)> {
        if !self.tries(raw.len()) {
            return Ok((raw, Compression::None));
        }
        let shrunk = self.block.compress(raw, &mut self.scratch)?;
        let kind = self.note(raw.len(), shrunk.then_some(self.scratch.len()));
        Ok(match shrunk {
            true => (&self.scratch, kind),
            false => (raw, kind),
        })
    }
}
