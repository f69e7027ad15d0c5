//! Filter blocks of every kind: lookups in arbitrary bytes, and filters built from pieces of the input.

use cairn_format::filter::{FilterKey, FilterKind, FilterPolicy, may_match};

/// Looks up keys in the input as a filter, and builds filters of pieces of the input.
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

/// Checks that a filter matches every key it was built from.
fn built(policy: &FilterPolicy, version: u32, data: &[u8]) {
    let Some(mut builder) = policy.builder(version, 1) else {
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
