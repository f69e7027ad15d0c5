//! Codecs that are not compiled in are rejected; the error names the codec and the feature that enables it.

use cairn_types::Code;

use crate::*;

/// The codecs missing from this build, each with its feature.
fn absent() -> impl Iterator<Item = (Compression, &'static str)> {
    let all = [
        (Compression::Lz4, "`lz4`"),
        (Compression::Lz4hc, "`lz4`"),
        (Compression::Zstd, "`zstd`"),
    ];
    all.into_iter().filter(|(kind, _)| !kind.is_supported())
}

#[test]
fn compressing_and_decompressing_name_the_codec_and_the_feature() {
    for (kind, feature) in absent() {
        let error = Compressor::new(kind, CodecOptions::default(), None).err();
        let error = error.expect("the codec is absent");
        assert_eq!(error.code(), Code::NotSupported);
        assert!(error.text().contains(feature), "{error}");

        let malformed = decompress(kind, &[5, 0, 0], Framing::Sized, None, 1 << 20).unwrap_err();
        let error = malformed.in_file("000007.sst", 0);
        assert_eq!(error.code(), Code::NotSupported);
        let named = error.text().contains(kind.option_name()) && error.text().contains(feature);
        assert!(named, "{error}");
    }
}

#[test]
fn a_compressed_log_is_rejected() {
    if Compression::Zstd.is_supported() {
        return;
    }
    assert!(WalCompressor::new(Compression::Zstd).is_err());
    let error = WalDecompressor::new(Compression::Zstd, 1 << 20).err();
    assert!(error.expect("zstd is absent").text().contains("`zstd`"));
}

#[test]
fn the_default_and_the_rust_codecs_are_always_supported() {
    let raw = [7; 4096];
    for kind in [
        Compression::FAST,
        Compression::Snappy,
        Compression::Zlib,
        Compression::Bzip2,
    ] {
        let mut stored = Vec::new();
        let mut compressor = Compressor::new(kind, CodecOptions::default(), None).unwrap();
        assert!(compressor.compress(&raw, &mut stored).unwrap());
        let back = decompress(kind, &stored, Framing::Sized, None, 1 << 20).unwrap();
        assert_eq!(back, raw);
    }
}
