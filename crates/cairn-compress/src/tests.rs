//! Round trips of every codec, and hostile input.

#![cfg(all(feature = "lz4", feature = "zstd"))]

use crate::decompress::put_varint32;
use crate::*;

const KINDS: [Compression; 7] = [
    Compression::None,
    Compression::Snappy,
    Compression::Zlib,
    Compression::Bzip2,
    Compression::Lz4,
    Compression::Lz4hc,
    Compression::Zstd,
];

/// Random numbers, without a crate for properties: it would take longer to compile for builds without C than all else.
fn random(state: &mut u64, below: usize) -> usize {
    *state = state
        .wrapping_mul(6364136223846793005)
        .wrapping_add(1442695040888963407);
    (*state >> 33) as usize % below
}

fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        out.extend_from_slice(format!("word{:03} ", random(&mut state, 200)).as_bytes());
    }
    out.truncate(len);
    out
}

fn stored(kind: Compression, raw: &[u8], dictionary: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut compressor = Compressor::new(kind, CodecOptions::default(), dictionary).unwrap();
    compressor.compress_always(raw, &mut out).unwrap();
    out
}

#[test]
fn every_codec_round_trips() {
    for kind in KINDS {
        for len in [0, 1, 100, 4096, 70_000, 1_000_000] {
            let raw = text(1, len);
            let block = stored(kind, &raw, None);
            assert_eq!(
                decompress(kind, &block, Framing::Sized, None, 1 << 22).unwrap(),
                raw,
                "{kind} {len}"
            );
        }
    }
}

#[test]
fn highly_compressible_blocks_are_decompressed_incrementally() {
    for kind in KINDS {
        let raw = vec![b'a'; 3 << 20];
        let block = stored(kind, &raw, None);
        assert_eq!(
            decompress(kind, &block, Framing::Sized, None, 4 << 20).unwrap(),
            raw
        );
        assert!(decompress(kind, &block, Framing::Sized, None, 2 << 20).is_err());
    }
}

#[test]
fn dictionaries_improve_compression_and_are_required() {
    for kind in KINDS.into_iter().filter(|kind| kind.takes_dictionary()) {
        for dictionary_len in [1000, 20_000, 100_000] {
            let raw = text(7, 3000);
            let mut dictionary = text(3, dictionary_len - raw.len().min(dictionary_len));
            dictionary.extend_from_slice(&raw[..raw.len().min(dictionary_len)]);
            let with = stored(kind, &raw, Some(&dictionary));
            assert!(with.len() < stored(kind, &raw, None).len(), "{kind}");
            let digested = Dictionary::new(dictionary);
            let back = decompress(kind, &with, Framing::Sized, Some(&digested), 1 << 20).unwrap();
            assert_eq!(back, raw, "{kind}");
            assert_ne!(
                decompress(kind, &with, Framing::Sized, None, 1 << 20).ok(),
                Some(raw)
            );
        }
    }
}

#[test]
fn trained_dictionaries_work_with_zstd() {
    let samples: Vec<Vec<u8>> = (0..200).map(|seed| text(seed, 500)).collect();
    let sizes: Vec<usize> = samples.iter().map(Vec::len).collect();
    let dictionary = train_zstd(&samples.concat(), &sizes, 4096).unwrap();
    assert!(dictionary.len() <= 4096);
    let block = stored(Compression::Zstd, &samples[9], Some(&dictionary));
    let digested = Dictionary::new(dictionary);
    let back = decompress(
        Compression::Zstd,
        &block,
        Framing::Sized,
        Some(&digested),
        1 << 20,
    );
    assert_eq!(back.unwrap(), samples[9]);
}

#[test]
fn legacy_framing_is_supported() {
    let raw = text(5, 200_000);
    for kind in [Compression::Zlib, Compression::Bzip2] {
        let block = stored(kind, &raw, None);
        let mut prefix = Vec::new();
        put_varint32(&mut prefix, raw.len() as u32);
        let bare = &block[prefix.len()..];
        assert_eq!(
            decompress(kind, bare, Framing::Legacy, None, 1 << 20).unwrap(),
            raw
        );
        assert!(decompress(kind, bare, Framing::Legacy, None, 1 << 16).is_err());
    }
    let block = stored(Compression::Lz4, &raw, None);
    let mut old = (raw.len() as u64).to_le_bytes().to_vec();
    old.extend_from_slice(&block[3..]);
    assert_eq!(
        decompress(Compression::Lz4, &old, Framing::Legacy, None, 1 << 20).unwrap(),
        raw
    );
}

#[test]
fn incompressible_blocks_are_rejected() {
    let mut state = 1u64;
    let raw: Vec<u8> = (0..4096)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 56) as u8
        })
        .collect();
    for kind in KINDS {
        let mut compressor = Compressor::new(kind, CodecOptions::default(), None).unwrap();
        let mut out = b"before".to_vec();
        assert!(!compressor.compress(&raw, &mut out).unwrap(), "{kind}");
        assert_eq!(out, b"before");
    }
}

#[test]
fn wal_records_round_trip() {
    let mut compressor = WalCompressor::new(Compression::Zstd).unwrap();
    let mut decompressor = WalDecompressor::new(Compression::Zstd, 1 << 24).unwrap();
    for len in [0, 1, 50_000, 3_000_000] {
        let record = text(11, len);
        let mut frame = Vec::new();
        compressor.compress(&record, &mut frame).unwrap();
        assert_eq!(decompressor.decompress(&frame).unwrap(), record);
    }
    assert!(WalCompressor::new(Compression::Lz4).is_err());
}

#[test]
fn impossible_declared_sizes_are_not_allocated() {
    for kind in KINDS.into_iter().filter(|kind| *kind != Compression::None) {
        let mut block = Vec::new();
        put_varint32(&mut block, u32::MAX);
        block.extend_from_slice(&[0; 100]);
        assert!(
            decompress(kind, &block, Framing::Sized, None, usize::MAX).is_err(),
            "{kind}"
        );
    }
}

#[test]
fn arbitrary_input_never_panics() {
    let mut state = 1;
    for case in 0..1000_u64 {
        let kind = Compression::from_u8((case % 8) as u8).unwrap();
        let framing = match case / 8 % 2 {
            0 => Framing::Legacy,
            _ => Framing::Sized,
        };
        let len = random(&mut state, 300);
        let bytes: Vec<u8> = (0..len).map(|_| random(&mut state, 256) as u8).collect();
        let dictionary = Dictionary::new(bytes.clone());
        for dictionary in [None, Some(&dictionary)] {
            if let Ok(out) = decompress(kind, &bytes, framing, dictionary, 1 << 20) {
                assert!(out.len() <= 1 << 20, "case {case}");
            }
        }
    }
}

#[test]
fn bit_flips_never_panic() {
    let mut state = 1;
    for kind in KINDS {
        for case in 0..32 {
            let len = 1 + random(&mut state, 100_000);
            let mut block = stored(kind, &text(2, len), None);
            let at = random(&mut state, block.len());
            block[at] ^= 1 << random(&mut state, 8);
            if let Ok(out) = decompress(kind, &block, Framing::Sized, None, 1 << 20) {
                assert!(out.len() <= 1 << 20, "{kind}, case {case}");
            }
        }
    }
}

/// Options that RocksDB accepts never make a compressor fail: a flush would otherwise fail, and stop writes.
#[test]
fn zlib_accepts_any_level_and_window() {
    const LEVELS: [i32; 8] = [i32::MIN, -5, -1, 0, 9, 77, LIBRARY_DEFAULT_LEVEL, i32::MAX];
    let raw = text(5, 50_000);
    for level in LEVELS {
        for window_bits in [i32::MIN, -99, -15, -14, -9, -8, 0, 4, 15, 31, i32::MAX] {
            let options = CodecOptions {
                level,
                window_bits,
                checksum: false,
            };
            let mut compressor = Compressor::new(Compression::Zlib, options, None).unwrap();
            let mut block = Vec::new();
            compressor.compress_always(&raw, &mut block).unwrap();
            let back = decompress(Compression::Zlib, &block, Framing::Sized, None, 1 << 20);
            assert_eq!(back.unwrap(), raw, "{level} {window_bits}");
        }
    }
}

/// Frames have the checksum that the options request, with a dictionary too.
#[test]
fn zstd_frames_have_checksums() {
    let raw = text(5, 3000);
    let dictionary = text(3, 4000);
    for (checksum, with) in [(false, false), (false, true), (true, false), (true, true)] {
        let options = CodecOptions {
            checksum,
            ..CodecOptions::default()
        };
        let used = with.then_some(&dictionary[..]);
        let mut compressor = Compressor::new(Compression::Zstd, options, used).unwrap();
        let digested = Dictionary::new(used.unwrap_or_default().to_vec());
        for _ in 0..2 {
            let mut block = Vec::new();
            compressor.compress_always(&raw, &mut block).unwrap();
            // The varint of the size, the magic number, and the descriptor of the frame with its flag.
            assert_eq!(block[2 + 4] & 4 != 0, checksum);
            let digested = with.then_some(&digested);
            let back = decompress(Compression::Zstd, &block, Framing::Sized, digested, 1 << 20);
            assert_eq!(back.unwrap(), raw);
        }
    }
}
