//! Every codec in both framings, with and without a dictionary, and compressed WAL records.
//!
//! The first byte selects codec, framing and dictionary; the rest is the compressed data.

use cairn_compress::{
    CodecOptions, Compression, Compressor, Dictionary, Framing, WalDecompressor, decompress,
};

use crate::memory_limit::{self, Bound};

/// Maximum decompressed size.
const LIMIT: usize = 512 << 10;

/// Memory of zlib and bzip2, and of partial output before an error.
pub const BOUND: Bound = Bound {
    base: 6 << 20,
    factor: 8,
};

/// Decompresses the input, and compresses and decompresses the result.
pub fn run(data: &[u8]) {
    let Some((&choice, payload)) = data.split_first() else {
        return;
    };
    if choice & 0x80 != 0 {
        if let Ok(mut wal) = WalDecompressor::new(Compression::Zstd, LIMIT)
            && let Ok(record) = wal.decompress(payload)
        {
            assert!(record.len() <= LIMIT);
        }
        return;
    }
    let kind = Compression::all()
        .nth(usize::from(choice & 7))
        .unwrap_or(Compression::None);
    let framing = if choice & 0x10 == 0 {
        Framing::Sized
    } else {
        Framing::Legacy
    };
    let words = b"the key the value the key the value ".repeat(4);
    let dictionary = (choice & 0x20 != 0).then(|| Dictionary::new(words));
    let mut raw = None;
    let peak = memory_limit::peak_of(|| {
        raw = decompress(kind, payload, framing, dictionary.as_ref(), LIMIT).ok();
    });
    let Some(raw) = raw else { return };
    assert!(raw.len() <= LIMIT);
    // Growth by doubling: old buffer, new buffer and slack exist at the same time.
    let limit = Bound::DECODER.of(payload.len()) + 4 * raw.len();
    let state = if kind == Compression::Bzip2 {
        5 << 20
    } else {
        128 << 10
    };
    assert!(
        peak <= limit + state,
        "{kind}: {peak} bytes for {} from {}",
        raw.len(),
        data.len()
    );
    again(kind, &raw);
}

fn again(kind: Compression, raw: &[u8]) {
    // A bzip2 compressor's tables would exceed the memory bound.
    if raw.len() > 64 << 10 || kind == Compression::Bzip2 {
        return;
    }
    let Ok(mut compressor) = Compressor::new(kind, CodecOptions::default(), None) else {
        return;
    };
    let mut stored = Vec::new();
    if compressor
        .compress(raw, &mut stored)
        .is_ok_and(|shorter| shorter)
    {
        let back = decompress(kind, &stored, Framing::Sized, None, LIMIT);
        assert!(
            back.is_ok_and(|back| back == raw),
            "{kind} does not give back what it took"
        );
    }
}
