//! Filter blocks of every kind: asking any bytes, and building filters of the input's words.

use cairn_format::filter::{FilterKey, FilterKind, FilterPolicy, may_match};

/// Asks the filter that the input is, and builds filters whose keys are pieces of the input.
pub fn run(data: &[u8]) {
    let kind = FilterKind::parse(data);
    for key in [&b""[..], b"key0000001", &data[..data.len().min(40)]] {
        let answer = kind.may_match(data, &FilterKey::new(key));
        assert_eq!(answer, may_match(data, key));
    }
    for text in [
        "bloomfilter:10:false",
        "ribbonfilter:10",
        "bloomfilter:3:true",
    ] {
        let policy = FilterPolicy::from_text(text).expect("it is RocksDB's text");
        for version in [4, 5] {
            built(&policy, version, data);
        }
    }
    if let Ok(text) = std::str::from_utf8(&data[..data.len().min(200)]) {
        let _ = FilterPolicy::from_text(text);
    }
}

/// A filter never denies a key it was given.
fn built(policy: &FilterPolicy, version: u32, data: &[u8]) {
    let Some(mut builder) = policy.builder(version, Some(1)) else {
        return;
    };
    let words = || data.chunks(7).take(64);
    for word in words() {
        builder.add_key(word);
    }
    let filter = builder.finish();
    for word in words() {
        assert!(may_match(&filter, word), "a filter denies one of its keys");
    }
}
