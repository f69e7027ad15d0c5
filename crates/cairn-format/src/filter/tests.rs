//! Filters written by RocksDB, built filters, and hostile filters.

use proptest::prelude::*;

use super::*;

/// Filters written by RocksDB 7.8.3: two of 900 keys `p000:00000` and their 4-byte prefixes, with 9.9 bits
/// per key; one of the 1500 keys of db_bench.
const FAST: &[u8] = include_bytes!("testdata/fast.bin");
const LEGACY: &[u8] = include_bytes!("testdata/legacy.bin");
const RIBBON_1500: &[u8] = include_bytes!("testdata/ribbon.bin");

fn prefixed_keys() -> impl Iterator<Item = String> {
    (0..900).map(|i| format!("p{:03}:{i:05}", i / 37))
}

fn counted_keys() -> impl Iterator<Item = Vec<u8>> {
    (0..1500u64).map(|i| [&i.to_be_bytes()[..], b"00000000"].concat())
}

fn absent_keys(n: u32) -> impl Iterator<Item = String> {
    (0..n).map(|i| format!("absent-key-{i}"))
}

/// The false-positive rate.
fn rate(bytes: &[u8]) -> f64 {
    let n = 20_000;
    let kind = FilterKind::parse(bytes);
    let passed = absent_keys(n)
        .filter(|key| kind.may_match(bytes, &FilterKey::new(key.as_bytes())))
        .count();
    passed as f64 / f64::from(n)
}

fn builder(text: &str, format_version: u32, level: i32) -> FilterBuilder {
    let policy = FilterPolicy::from_text(text).unwrap();
    policy.builder(format_version, level).unwrap()
}

#[test]
fn filters_of_rocksdb_accept_their_keys() {
    assert!(matches!(
        FilterKind::parse(FAST),
        FilterKind::FastLocalBloom { .. }
    ));
    assert!(matches!(
        FilterKind::parse(LEGACY),
        FilterKind::LegacyBloom { .. }
    ));
    for key in prefixed_keys() {
        for part in [&key, &key[..4]] {
            assert!(may_match(FAST, part.as_bytes()), "{part}");
            assert!(may_match(LEGACY, part.as_bytes()), "{part}");
        }
    }
    assert!(matches!(
        FilterKind::parse(RIBBON_1500),
        FilterKind::Ribbon128(_)
    ));
    for key in counted_keys() {
        assert!(may_match(RIBBON_1500, &key));
    }
    for filter in [FAST, LEGACY, RIBBON_1500] {
        assert!((0.004..0.02).contains(&rate(filter)), "{}", rate(filter));
    }
}

#[test]
fn bloom_filters_have_the_bytes_that_rocksdb_writes() {
    for (version, expected) in [(5, FAST), (4, LEGACY)] {
        let mut builder = builder("bloomfilter:9.9:false", version, FilterPolicy::FLUSH);
        let mut last = String::new();
        for key in prefixed_keys() {
            builder.add_key(key.as_bytes());
            if key[..4] != last {
                last = key[..4].to_owned();
                builder.add_key(last.as_bytes());
            }
        }
        assert!(builder.finish() == expected, "format version {version}");
    }
}

#[test]
fn ribbon_filters_have_the_size_of_rocksdbs() {
    let mut builder = builder("ribbonfilter:10:0", 5, 6);
    counted_keys().for_each(|key| builder.add_key(&key));
    assert_eq!(builder.estimated_size(), RIBBON_1500.len());
    assert_eq!(builder.finish().len(), RIBBON_1500.len());
    assert_eq!(builder.keys(), 0);
}

#[test]
fn all_types_and_sizes_have_the_expected_accuracy() {
    // Text, format version, expected false-positive rate.
    let cases = [
        ("bloomfilter:10", 5, 0.0095),
        ("bloomfilter:20:true", 7, 0.0002),
        ("bloomfilter:3.5", 5, 0.20),
        ("bloomfilter:10", 2, 0.0125),
        ("ribbonfilter:10", 5, 0.0095),
        ("ribbonfilter:7.2", 5, 0.034),
        ("ribbonfilter:20:-1", 6, 0.0002),
    ];
    for (text, version, expected) in cases {
        for keys in [1u32, 2, 100, 900, 1021, 4000] {
            let mut builder = builder(text, version, 3);
            for i in 0..keys {
                builder.add_key(format!("present-{i}").as_bytes());
                builder.add_key(format!("present-{i}").as_bytes());
            }
            assert_eq!(builder.keys(), keys as usize);
            let bytes = builder.finish();
            for i in 0..keys {
                assert!(
                    may_match(&bytes, format!("present-{i}").as_bytes()),
                    "{text} {keys}"
                );
            }
            let rate = rate(&bytes);
            assert!(
                rate < expected * 1.5 + 0.001,
                "{text} of {keys} keys: {rate}"
            );
            if keys >= 4000 {
                assert!(
                    rate > expected * 0.5 - 0.001,
                    "{text} of {keys} keys: {rate}"
                );
            }
        }
    }
}

#[test]
fn empty_filters_match_nothing() {
    for (text, version) in [
        ("bloomfilter:10", 5),
        ("bloomfilter:10", 4),
        ("ribbonfilter:10", 5),
    ] {
        let bytes = builder(text, version, 1).finish();
        assert_eq!(FilterKind::parse(&bytes), FilterKind::AlwaysFalse);
        assert!(!may_match(&bytes, b"any"));
    }
    assert!(!may_match(&[], b"any"));
}

#[test]
fn unknown_filters_match_every_key() {
    for end in [
        [0u8, 0, 0, 0, 0],
        [0xff, 1, 6, 0, 0],
        [0xff, 0, 0x26, 0, 0],
        [0xff, 0, 0, 0, 0],
        [0xff, 0, 31, 0, 0],
        [0xff, 0, 6, 0, 1],
        [0xfe, 0, 1, 0, 0],
        [0xfd, 0, 0, 0, 0],
        [0x80, 0, 0, 0, 0],
        [6, 0, 0, 0, 0],
        [6, 5, 0, 0, 0],
    ] {
        let bytes = [&[0; 64][..], &end].concat();
        assert_eq!(
            FilterKind::parse(&bytes),
            FilterKind::AlwaysTrue,
            "{end:02x?}"
        );
        assert!(may_match(&bytes, b"any"));
    }
    assert!(
        may_match(&[0; 6], b"any"),
        "the encoding of an always-true filter"
    );
}

#[test]
fn policies_are_parsed_from_options() {
    let shown = |text| FilterPolicy::from_text(text).map(|policy| policy.to_string());
    for text in [
        "bloomfilter:10:false",
        "bloomfilter:9.9:false",
        "ribbonfilter:10:1",
        BUILTIN_NAME,
    ] {
        assert_eq!(shown(text).as_deref(), Some(text));
    }
    assert_eq!(
        shown("bloomfilter:10").as_deref(),
        Some("bloomfilter:10:false")
    );
    assert_eq!(
        shown("ribbonfilter:10").as_deref(),
        Some("ribbonfilter:10:0")
    );
    assert_eq!(
        shown("{id=ribbonfilter:10:1;bloom_before_level=2;}").as_deref(),
        Some("ribbonfilter:10:2")
    );
    for bad in [
        "",
        "nullptr",
        "bloomfilter",
        "bloomfilter:x",
        "bloomfilter:1:2",
        "ribbonfilter:1:x",
        "zonefilter:3",
        "{id=bloomfilter:10;bloom_before_level=1}",
        "{}",
    ] {
        assert_eq!(shown(bad), None, "{bad}");
    }
}

#[test]
fn levels_and_versions_select_the_type() {
    let kind = |text, version, level| {
        let mut builder = builder(text, version, level);
        (0..2000u32).for_each(|i| builder.add_key(&i.to_be_bytes()));
        FilterKind::parse(&builder.finish())
    };
    let ribbon = |kind| matches!(kind, FilterKind::Ribbon128(_));
    let fast = |kind| matches!(kind, FilterKind::FastLocalBloom { .. });
    let legacy = |kind| matches!(kind, FilterKind::LegacyBloom { .. });
    assert!(
        fast(kind("ribbonfilter:10:0", 5, FilterPolicy::FLUSH)),
        "a flush is level -1"
    );
    assert!(ribbon(kind("ribbonfilter:10:-1", 5, FilterPolicy::FLUSH)));
    assert!(ribbon(kind("ribbonfilter:10:1", 5, 1)));
    assert!(ribbon(kind(
        "ribbonfilter:10:6",
        5,
        FilterPolicy::UNKNOWN_LEVEL
    )));
    assert!(fast(kind(
        "ribbonfilter:10:2147483647",
        5,
        FilterPolicy::UNKNOWN_LEVEL
    )));
    assert!(fast(kind("ribbonfilter:10:1", 5, 0)));
    assert!(legacy(kind("ribbonfilter:10:1", 4, 1)));
    assert!(legacy(kind("bloomfilter:10", 4, FilterPolicy::FLUSH)));
    assert!(fast(kind("bloomfilter:10", 7, 2)));
    assert!(
        FilterPolicy::ReadOnly
            .builder(5, FilterPolicy::FLUSH)
            .is_none()
    );
    assert!(
        FilterPolicy::from_text("bloomfilter:0.4")
            .unwrap()
            .builder(5, FilterPolicy::FLUSH)
            .is_none()
    );
}

#[test]
fn partitions_have_the_requested_size() {
    for text in ["bloomfilter:10", "ribbonfilter:10"] {
        let mut builder = builder(text, 5, 1);
        let keys = builder.keys_that_fit(4096);
        (0..keys as u32).for_each(|i| builder.add_key(&i.to_be_bytes()));
        let len = builder.finish().len();
        assert!((3600..4500).contains(&len), "{text}: {len}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn hostile_filters_never_panic(
        bits in prop::collection::vec(any::<u8>(), 0..300),
        kind in prop_oneof![Just(0xffu8), Just(0xfe), any::<u8>()],
        rest in prop::array::uniform4(prop_oneof![0u8..4, any::<u8>()]),
        cut in 0usize..300, key in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let bytes = [&bits[..], &[kind], &rest].concat();
        let parsed = FilterKind::parse(&bytes);
        let key = FilterKey::new(&key);
        let _ = parsed.may_match(&bytes, &key);
        // Not even with the bytes of another filter.
        let _ = parsed.may_match(&bytes[..cut.min(bytes.len())], &key);
    }

    #[test]
    fn there_are_no_false_negatives(keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 1..400),
                      text in prop_oneof![Just("bloomfilter:10"), Just("bloomfilter:1"), Just("ribbonfilter:12:-1")],
                      version in 4u32..6) {
        let mut builder = builder(text, version, FilterPolicy::FLUSH);
        keys.iter().for_each(|key| builder.add_key(key));
        let bytes = builder.finish();
        for key in &keys {
            prop_assert!(may_match(&bytes, key));
        }
    }
}
