//! Blocks against a sorted list, hostile blocks, and byte-for-byte comparison with blocks of
//! RocksDB.

use std::cmp::Ordering;

use cairn_types::{KeyOrder, SequenceNumber, ValueKind};
use proptest::prelude::*;

use super::*;
use crate::key::{self, InternalKey};
use crate::table::TRAILER_LEN;
use crate::table::handle::Handle;

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn user_keys() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => 0u8..3, 1 => any::<u8>(), 1 => Just(0xff)];
    prop_oneof![
        prop::collection::vec(byte.clone(), 0..6),
        prop::collection::vec(byte, 0..4).prop_map(|tail| [&b"key0000000"[..], &tail].concat()),
    ]
}

fn internal_keys() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        Just(ValueKind::Value),
        Just(ValueKind::Deletion),
        Just(ValueKind::Merge)
    ];
    (user_keys(), 0u64..5, kind).prop_map(|(user, seq, kind)| {
        InternalKey::new(&user, SequenceNumber(seq), kind).into_bytes()
    })
}

fn orders() -> impl Strategy<Value = KeyOrder> {
    prop_oneof![
        3 => Just(KeyOrder::Bytewise),
        1 => Just(KeyOrder::ReverseBytewise),
        2 => Just(KeyOrder::BytewiseU64Ts),
    ]
}

/// Adds a timestamp to `key` if keys in `order` have one.
fn stamp(key: &mut Vec<u8>, order: &KeyOrder) {
    if order.timestamp_size() > 0 {
        let (at, packed) = (key.len() - key::SUFFIX_LEN, key::packed(key));
        let timestamp = ((packed % 7) << 40) | (packed % 3);
        key.splice(at..at, timestamp.to_le_bytes());
    }
}

/// [`sorted`] entries with the timestamps of `order`.
fn stamped(mut entries: Entries, order: &KeyOrder) -> Entries {
    entries.iter_mut().for_each(|(key, _)| stamp(key, order));
    sorted(entries, order)
}

/// `options` for keys in `order`: tables with timestamps have no common prefixes.
fn options_in(options: BlockOptions, order: &KeyOrder) -> BlockOptions {
    BlockOptions {
        common_prefix: options.common_prefix && order.timestamp_size() == 0,
        ..options
    }
}

fn entries(max: usize) -> impl Strategy<Value = Entries> {
    let value = prop_oneof![
        9 => prop::collection::vec(any::<u8>(), 0..8),
        1 => prop::collection::vec(any::<u8>(), 120..300),
    ];
    prop::collection::vec((internal_keys(), value), 0..max)
}

fn sorted(mut entries: Entries, order: &KeyOrder) -> Entries {
    entries.sort_by(|a, b| key::compare(order, &a.0, &b.0));
    entries.dedup_by(|a, b| a.0 == b.0);
    entries
}

fn options() -> impl Strategy<Value = BlockOptions> {
    let flag = any::<bool>;
    (1usize..20, flag(), flag(), flag(), flag()).prop_map(
        |(restart_interval, delta_encoding, hashed, separate_values, common_prefix)| BlockOptions {
            restart_interval,
            delta_encoding,
            hash_util_ratio: hashed.then_some(0.75),
            separate_values,
            common_prefix,
        },
    )
}

/// The block of `entries`, as searched by a reader.
fn built(entries: &Entries, options: BlockOptions) -> Vec<u8> {
    let stored = stored(entries, options);
    let expanded = expand(&stored, EntryForm::Data).unwrap();
    let expected =
        common_prefix_of(entries).filter(|_| options.common_prefix && options.delta_encoding);
    assert_eq!(
        expanded.is_some(),
        expected.is_some_and(|prefix| !prefix.is_empty())
    );
    expanded.unwrap_or(stored)
}

/// The common prefix of all user keys of `entries`.
fn common_prefix_of(entries: &Entries) -> Option<&[u8]> {
    entries
        .iter()
        .map(|(key, _)| key::user_key(key))
        .reduce(|a, b| &a[..a.iter().zip(b).take_while(|(a, b)| a == b).count()])
}

/// The block of `entries`, as stored in a file.
fn stored(entries: &Entries, options: BlockOptions) -> Vec<u8> {
    let mut builder = BlockBuilder::new(options);
    // A reused builder builds the same block.
    builder.add(b"key and somethin", b"else");
    builder.finish();
    builder.reset();
    for (key, value) in entries {
        let limit = builder.estimated_size() + builder.growth(key, value) + 64;
        builder.add(key, value);
        assert!(builder.estimated_size() <= limit || options.common_prefix);
        assert_eq!(builder.last_key(), key);
    }
    assert_eq!(builder.entries(), entries.len());
    let size = builder.estimated_size();
    let block = builder.finish().to_vec();
    // Lengths without the prefix may be shorter.
    assert!(block.len() == size || (options.common_prefix && block.len() < size));
    block
}

fn shown(cursor: &DataCursor, bytes: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    cursor
        .valid()
        .then(|| (cursor.key(bytes).to_vec(), cursor.value(bytes).to_vec()))
}

fn forward(cursor: &mut DataCursor, bytes: &[u8], layout: &BlockLayout) -> Entries {
    let mut all = Entries::new();
    while let Some(entry) = shown(cursor, bytes) {
        all.push(entry);
        cursor.next(bytes, layout).unwrap();
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn data_blocks_match_a_sorted_list(
        entries in entries(60), mut targets in prop::collection::vec(internal_keys(), 1..8),
        order in orders(), options in options(), global in prop::option::of(0u64..5),
    ) {
        let entries = stamped(entries, &order);
        targets.iter_mut().for_each(|target| stamp(target, &order));
        let bytes = built(&entries, options_in(options, &order));
        let layout = BlockLayout::parse(&bytes, BlockKind::Data).unwrap();
        prop_assert_eq!(layout.is_empty(), entries.is_empty());
        // One entry per user key, because a global sequence number would make versions equal.
        let mut wanted = entries.clone();
        if let Some(g) = global {
            wanted.dedup_by(|b, a| key::user_key(&a.0) == key::user_key(&b.0));
            if wanted.len() != entries.len() { return Ok(()); }
            for (key, _) in &mut wanted {
                let at = key.len() - 8;
                let packed = g << 8 | u64::from(key[at]);
                key[at..].copy_from_slice(&packed.to_le_bytes());
            }
        }
        let tail = DataWords::encode(&bytes, &layout, &order);
        let words = DataWords::parse(&tail);
        let can_have = order.bytewise_before_timestamp().is_some();
        prop_assert_eq!(words.is_some(), can_have && !layout.is_empty() && !layout.is_separated());
        let plain = |key| key::strip_timestamp(key::user_key(key), order.timestamp_size());
        if let (Some(words), Some((first, _)), Some((last, _))) = (words, entries.first(), entries.last()) {
            let pairs = plain(first).iter().zip(plain(last));
            prop_assert_eq!(words.shared(), pairs.take_while(|(a, b)| a == b).count());
        }
        if let Some(words) = words {
            for (i, (key, _)) in entries.iter().enumerate() {
                let known = &plain(key)[words.shared()..];
                let word: Vec<u8> = known.iter().chain(&[0; 4]).take(4).copied().collect();
                prop_assert_eq!(&words.place(i).unwrap().word[..], &word[..]);
            }
            prop_assert!(words.place(entries.len()).is_none());
        }
        let mut cursor = DataCursor::new().with_global_seqno(global.map(SequenceNumber));
        cursor.first(&bytes, &layout).unwrap();
        prop_assert_eq!(&forward(&mut cursor, &bytes, &layout), &wanted);

        cursor.last(&bytes, &layout).unwrap();
        let mut backward = Entries::new();
        while let Some(entry) = shown(&cursor, &bytes) {
            backward.push(entry);
            cursor.prev(&bytes, &layout).unwrap();
        }
        backward.reverse();
        prop_assert_eq!(&backward, &wanted);
        cursor.last_with(words, &bytes, &layout).unwrap();
        prop_assert_eq!(shown(&cursor, &bytes), wanted.last().cloned());

        for target in targets.iter().chain(wanted.iter().map(|(key, _)| key)) {
            let at = wanted.partition_point(|(k, _)| key::compare(&order, k, target) == Ordering::Less);
            cursor.seek(&bytes, &layout, &order, target).unwrap();
            prop_assert_eq!(shown(&cursor, &bytes), wanted.get(at).cloned());
            cursor.seek_with(words, &bytes, &layout, &order, target).unwrap();
            prop_assert_eq!(shown(&cursor, &bytes), wanted.get(at).cloned());
            if at < wanted.len() {
                cursor.prev(&bytes, &layout).unwrap();
                prop_assert_eq!(shown(&cursor, &bytes), at.checked_sub(1).map(|i| wanted[i].clone()));
                if cursor.valid() {
                    prop_assert_eq!(&forward(&mut cursor, &bytes, &layout), &wanted[at - 1..]);
                }
            }
            for back_words in [None, words] {
                cursor.seek_with(words, &bytes, &layout, &order, target).unwrap();
                if at < wanted.len() {
                    cursor.prev_with(back_words, &bytes, &layout).unwrap();
                    prop_assert_eq!(shown(&cursor, &bytes), at.checked_sub(1).map(|i| wanted[i].clone()));
                }
            }
            cursor.seek_for_prev_with(words, &bytes, &layout, &order, target).unwrap();
            let end = wanted.partition_point(|(k, _)| key::compare(&order, k, target) != Ordering::Greater);
            prop_assert_eq!(shown(&cursor, &bytes), end.checked_sub(1).map(|i| wanted[i].clone()));

            for words in [None, words] {
                cursor.seek_point_with(words, &bytes, &layout, &order, target).unwrap();
                let same_user = wanted.get(at).filter(|(k, _)| key::user_key(k) == key::user_key(target));
                let found = shown(&cursor, &bytes)
                    .filter(|(k, _)| key::user_key(k) == key::user_key(target));
                prop_assert_eq!(found.as_ref(), same_user);
                if at == wanted.len() {
                    prop_assert!(!cursor.valid(), "the next block has to be searched");
                }
            }
        }
    }

    #[test]
    fn mixed_steps_match_a_sorted_list(
        entries in entries(60), options in options(), global in any::<bool>(), order in orders(),
        from in any::<prop::sample::Index>(),
        backs in prop::collection::vec((prop::bool::weighted(0.7), prop::bool::weighted(0.8)), 0..200),
    ) {
        let mut entries = stamped(entries, &order);
        entries.dedup_by(|b, a| global && key::user_key(&a.0) == key::user_key(&b.0));
        if entries.is_empty() {
            return Ok(());
        }
        let bytes = built(&entries, options_in(options, &order));
        let layout = BlockLayout::parse(&bytes, BlockKind::Data).unwrap();
        let global = global.then_some(SequenceNumber(7));
        let mut cursor = DataCursor::new().with_global_seqno(global);
        let mut at = from.index(entries.len());
        let target = InternalKey::new(
            key::user_key(&entries[at].0), SequenceNumber::MAX, ValueKind::FOR_SEEK,
        );
        cursor.seek(&bytes, &layout, &order, target.as_bytes()).unwrap();
        at = entries.partition_point(|(key, _)| order.compare(key::user_key(key), target.user_key()).is_lt());
        let tail = DataWords::encode(&bytes, &layout, &order);
        for (back, by_words) in backs {
            let words = DataWords::parse(&tail).filter(|_| by_words);
            let at_hand = cursor.key_before(&bytes).map(key::user_key);
            let before = at.checked_sub(1).map(|before| key::user_key(&entries[before].0));
            prop_assert!(at_hand.is_none() || at_hand == before);
            let user = key::user_key(&entries[at].0);
            let begins = cursor.begins_key(words, &bytes, |a, b| a == b);
            prop_assert!(!begins || before.is_some_and(|before| before != user));
            if at_hand.is_some() {
                prop_assert_eq!(begins, before != Some(user));
            }
            prop_assert_eq!(cursor.key_len(), entries[at].0.len());
            match back {
                true => cursor.prev_with(words, &bytes, &layout).unwrap(),
                false => cursor.next(&bytes, &layout).unwrap(),
            }
            let moved = if back { at.checked_sub(1) } else { Some(at + 1) };
            let Some(moved) = moved.filter(|&moved| moved < entries.len()) else {
                prop_assert!(!cursor.valid());
                return Ok(());
            };
            at = moved;
            let (found, value) = shown(&cursor, &bytes).unwrap();
            prop_assert_eq!(key::user_key(&found), key::user_key(&entries[at].0));
            prop_assert_eq!(&value, &entries[at].1);
            let seq = global.unwrap_or(key::sequence(&entries[at].0));
            prop_assert_eq!(key::sequence(&found), seq);
        }
    }

    #[test]
    fn index_blocks_match_a_sorted_list(
        entries in entries(60), mut targets in prop::collection::vec(internal_keys(), 1..8),
        sizes in prop::collection::vec((0u64..5000, prop_oneof![4 => Just(0u64), 1 => 1u64..9000]), 60),
        order in orders(), interval in 1usize..9,
        user_keys: bool, delta_values: bool, first_keys: bool, escaped: bool, common_prefix: bool,
    ) {
        let form = IndexForm { user_keys, delta_values, first_keys, escaped };
        let mut entries = stamped(entries, &order);
        targets.iter_mut().for_each(|target| stamp(target, &order));
        if user_keys {
            for (key, _) in &mut entries { key.truncate(key.len() - 8); }
            entries.dedup_by(|a, b| a.0 == b.0);
        }
        let mut builder = IndexBlockBuilder::new(form, interval);
        // Full handles need no restart point only if they can be escaped.
        let common_prefix = common_prefix && (escaped || !delta_values) && order.timestamp_size() == 0;
        if common_prefix {
            builder = builder.with_common_prefix();
        }
        let mut offset = 0;
        let mut wanted = Vec::new();
        for ((key, first), (size, padding)) in entries.iter().zip(sizes) {
            offset += padding;
            let handle = Handle { offset, size };
            offset += size + TRAILER_LEN as u64;
            builder.add(key, handle, Some(first));
            wanted.push(IndexEntry { key, handle, first_key: first_keys.then_some(&first[..]) });
        }
        builder.mark_uniform();
        let estimate = builder.estimated_size();
        let stored = builder.finish().to_vec();
        prop_assert!(stored.len() == estimate || (common_prefix && stored.len() < estimate));
        let bytes = expand(&stored, EntryForm::Index(form)).unwrap().unwrap_or(stored);
        let layout = BlockLayout::parse(&bytes, BlockKind::Index).unwrap();
        prop_assert!(layout.is_uniform() || bytes.len() < 9);
        let mut cursor = IndexCursor::new(form);
        cursor.first(&bytes, &layout).unwrap();
        for entry in &wanted {
            prop_assert_eq!(&cursor.entry(&bytes), entry);
            cursor.next(&bytes, &layout).unwrap();
        }
        prop_assert!(!cursor.valid());
        cursor.last(&bytes, &layout).unwrap();
        for entry in wanted.iter().rev() {
            prop_assert_eq!(&cursor.entry(&bytes), entry);
            cursor.prev(&bytes, &layout).unwrap();
        }
        prop_assert!(!cursor.valid());
        let words = KeyWords::of_index(&bytes, &layout, form, &order);
        prop_assert!(words.is_none() || order.bytewise_before_timestamp().is_some());
        for (target, by_words) in targets.iter().flat_map(|t| [(t, false), (t, true)]) {
            match &words {
                Some(words) if by_words => cursor.seek_with(words, &bytes, &layout, &order, target).unwrap(),
                _ => cursor.seek(&bytes, &layout, &order, target).unwrap(),
            }
            let at = wanted.partition_point(|entry| {
                let ordering = if user_keys {
                    order.compare(entry.key, key::user_key(target))
                } else {
                    key::compare(&order, entry.key, target)
                };
                ordering == Ordering::Less
            });
            prop_assert_eq!(cursor.valid().then(|| cursor.entry(&bytes)), wanted.get(at).copied());
            if cursor.valid() {
                prop_assert!(!cursor.is_before(&bytes, &order, target));
            }
        }
        for (words, i) in words.iter().flat_map(|words| (0..).map(move |i| (words, i)).take(wanted.len() + 1)) {
            let before = cursor.valid().then(|| cursor.handle());
            if !cursor.move_by_words(words, i) {
                prop_assert_eq!(cursor.valid().then(|| cursor.handle()), before);
                continue;
            }
            prop_assert_eq!(Some(&cursor.entry(&bytes)), wanted.get(i as usize));
            prop_assert_eq!(cursor.neighbour_by_words(false), Some(i + 1));
            prop_assert_eq!(cursor.neighbour_by_words(true), i.checked_sub(1));
            cursor.next(&bytes, &layout).unwrap();
            prop_assert_eq!(
                cursor.valid().then(|| cursor.entry(&bytes)),
                wanted.get(i as usize + 1).copied()
            );
            prop_assert_eq!(cursor.neighbour_by_words(false), None, "the cursor was not positioned by key words");
        }
    }

    #[test]
    fn hostile_blocks_never_panic(
        mut bytes in prop::collection::vec(prop_oneof![0u8..20, any::<u8>()], 0..200),
        footer in prop::option::of((0u32..6, 0u32..16)), target in internal_keys(),
        built_from in prop::option::of(entries(12)), flips in prop::collection::vec((any::<u16>(), any::<u8>()), 0..6),
        options in options(), global: bool,
    ) {
        if let Some(entries) = built_from {
            bytes = stored(&sorted(entries, &KeyOrder::Bytewise), options);
            for (at, bits) in flips {
                let at = usize::from(at) % bytes.len();
                bytes[at] ^= bits;
            }
        } else if let Some((count, flags)) = footer {
            bytes.extend((count | flags << 28).to_le_bytes());
        }
        exercise(&bytes, &target, global.then_some(SequenceNumber(7)));
        if let Ok(Some(expanded)) = expand(&bytes, EntryForm::Data) {
            prop_assert!(expanded.len() <= 5 * bytes.len() + (40 << 10));
            exercise(&expanded, &target, global.then_some(SequenceNumber(7)));
        }
    }
}

/// All movements through arbitrary bytes.
fn exercise(bytes: &[u8], target: &[u8], global: Option<SequenceNumber>) {
    for order in [
        KeyOrder::Bytewise,
        KeyOrder::ReverseBytewise,
        KeyOrder::BytewiseU64Ts,
    ] {
        if let Ok(layout) = BlockLayout::parse(bytes, BlockKind::Data) {
            let mut cursor = DataCursor::new().with_global_seqno(global);
            let tail = DataWords::encode(bytes, &layout, &order);
            let (own, foreign) = (DataWords::parse(&tail), DataWords::parse(target));
            for start in 0..8 {
                let placed = match start {
                    0 => cursor.first(bytes, &layout),
                    1 => cursor.last(bytes, &layout),
                    2 => cursor.seek(bytes, &layout, &order, target),
                    3 => cursor.seek_for_prev(bytes, &layout, &order, target),
                    4 => cursor.seek_point(bytes, &layout, &order, target),
                    5 => cursor.seek_with(own, bytes, &layout, &order, target),
                    6 => cursor.seek_with(foreign, bytes, &layout, &order, target),
                    _ => cursor.seek_bytes(bytes, &layout, target),
                };
                assert!(placed.is_ok() || !cursor.valid());
                for step in 0..3 * bytes.len() {
                    if !cursor.valid() {
                        break;
                    }
                    let _ = (cursor.key(bytes).len(), cursor.value(bytes).len());
                    let _ = cursor.key_before(bytes);
                    let back = if start == 0 { false } else { step % 5 != 4 };
                    let moved = if back {
                        cursor.prev(bytes, &layout)
                    } else {
                        cursor.next(bytes, &layout)
                    };
                    assert!(moved.is_ok() || !cursor.valid());
                }
                assert!(start > 0 || !cursor.valid(), "a forward walk ends");
            }
        }
        for form in 0..16 {
            let form = IndexForm {
                user_keys: form & 1 != 0,
                delta_values: form & 2 != 0,
                first_keys: form & 4 != 0,
                escaped: form & 8 != 0,
            };
            let _ = expand(bytes, EntryForm::Index(form));
            let Ok(layout) = BlockLayout::parse(bytes, BlockKind::Index) else {
                continue;
            };
            let mut cursor = IndexCursor::new(form);
            let mut steps = 0;
            let _ = match KeyWords::of_index(bytes, &layout, form, &order) {
                Some(words) => cursor.seek_with(&words, bytes, &layout, &order, target),
                None => cursor.seek(bytes, &layout, &order, target),
            };
            while cursor.valid() && steps <= bytes.len() {
                let _ = cursor.entry(bytes);
                let _ = cursor.next(bytes, &layout);
                steps += 1;
            }
            assert!(!cursor.valid());
            let _ = cursor.last(bytes, &layout);
            while cursor.valid() {
                let _ = cursor.prev(bytes, &layout);
            }
        }
    }
}

#[test]
fn the_bytes_are_the_documented_ones() {
    let mut builder = BlockBuilder::new(BlockOptions {
        restart_interval: 2,
        ..BlockOptions::default()
    });
    builder.add(b"apple", b"1");
    builder.add(b"apply", b"22");
    builder.add(b"b", b"");
    let expected = [
        &b"\x00\x05\x01apple1\x04\x01\x02y22\x00\x01\x00b"[..],
        &[0, 0, 0, 0, 15, 0, 0, 0, 2, 0, 0, 0],
    ]
    .concat();
    assert_eq!(builder.finish(), expected);

    let mut builder = BlockBuilder::new(BlockOptions {
        restart_interval: 2,
        separate_values: true,
        ..BlockOptions::default()
    });
    builder.add(b"apple", b"1");
    builder.add(b"apply", b"22");
    builder.add(b"b", b"x");
    let expected = [
        &b"\x00\x05\x01\x00apple\x04\x01\x02y\x00\x01\x01\x03b122x"[..],
        &[0, 0, 0, 0, 13, 0, 0, 0, 18, 0, 0, 0, 2, 0, 0, 0x10],
    ]
    .concat();
    assert_eq!(builder.finish(), expected);
}

#[test]
fn lengths_of_entries_are_varints() {
    let lengths = [0, 1, 127, 128, 300, 16_383, 16_384, 70_000];
    for key_len in lengths {
        for value_len in lengths {
            let (key, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
            // A second key that shares all of the first one.
            let longer = [&key[..], b"+"].concat();
            let mut builder = BlockBuilder::new(BlockOptions::default());
            builder.add(&key, &value);
            builder.add(&longer, &value);
            let mut expected = Vec::new();
            for (shared, rest) in [(0, &key[..]), (key_len, b"+")] {
                for len in [shared, rest.len(), value_len] {
                    crate::coding::put_varint64(&mut expected, len as u64);
                }
                expected.extend_from_slice(rest);
                expected.extend_from_slice(&value);
            }
            expected.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
            assert_eq!(builder.estimated_size(), expected.len());
            assert!(builder.finish() == expected, "{key_len} and {value_len}");
        }
    }
}

#[test]
fn an_empty_block_has_one_restart() {
    let mut builder = BlockBuilder::new(BlockOptions::default());
    assert_eq!(builder.finish(), [0, 0, 0, 0, 1, 0, 0, 0]);
}

#[test]
fn delta_handles_are_relative_to_the_previous_block() {
    let form = IndexForm {
        user_keys: true,
        delta_values: true,
        ..IndexForm::default()
    };
    let mut builder = IndexBlockBuilder::new(form, 8);
    builder.add(
        b"ka",
        Handle {
            offset: 0,
            size: 100,
        },
        None,
    );
    builder.add(
        b"kb",
        Handle {
            offset: 105,
            size: 90,
        },
        None,
    );
    // Padding precedes this block, so its handle and its key are stored in full.
    builder.add(
        b"kc",
        Handle {
            offset: 4096,
            size: 90,
        },
        None,
    );
    let expected = [
        &b"\x00\x02ka\x00\x64\x01\x01b\x13\x00\x02kc\x80\x20\x5a"[..],
        &[0, 0, 0, 0, 1, 0, 0, 0],
    ]
    .concat();
    assert_eq!(builder.finish(), expected);
}

#[test]
fn a_hash_index_is_omitted_if_readers_would_ignore_it() {
    let options = BlockOptions {
        hash_util_ratio: Some(0.75),
        restart_interval: 1,
        ..BlockOptions::default()
    };
    let key = |i: u32| InternalKey::new(&i.to_be_bytes(), SequenceNumber(1), ValueKind::Value);
    let hashed = |entries: u32, value: &[u8]| {
        let mut builder = BlockBuilder::new(options);
        for i in 0..entries {
            builder.add(key(i).as_bytes(), value);
        }
        let layout = BlockLayout::parse(builder.finish(), BlockKind::Data).unwrap();
        layout.is_hashed()
    };
    assert!(hashed(254, b""));
    assert!(!hashed(255, b""), "a bucket cannot store restart 254");
    assert!(!hashed(100, &[0; 700]), "too large");
    assert!(!hashed(0, b""));
}

#[test]
fn large_blocks_round_trip() {
    let mut builder = BlockBuilder::new(BlockOptions {
        restart_interval: 1 << 20,
        ..BlockOptions::default()
    });
    let key = |i: u32| InternalKey::new(&i.to_be_bytes(), SequenceNumber(1), ValueKind::Value);
    for i in 0..20_000u32 {
        builder.add(key(i).as_bytes(), &i.to_le_bytes());
    }
    let bytes = builder.finish();
    let layout = BlockLayout::parse(bytes, BlockKind::Data).unwrap();
    assert_eq!(layout.restarts(), 1);
    let mut cursor = DataCursor::new();
    // The whole block is one restart interval; a backward scan keeps only part of it.
    cursor.last(bytes, &layout).unwrap();
    for i in (19_000..20_000u32).rev() {
        assert_eq!(cursor.key(bytes), key(i).as_bytes());
        assert_eq!(cursor.value(bytes), i.to_le_bytes());
        cursor.prev(bytes, &layout).unwrap();
    }
}

/// Entries of two blocks: mostly deletions in the first, mostly of keys that the second has.
fn deletions_and_values() -> impl Strategy<Value = (Entries, Entries)> {
    let user = prop_oneof![
        (0u8..40).prop_map(|n| vec![b'k', n]),
        (0u8..40).prop_map(|n| [&b"a longer key, shared"[..], &[n / 7, n]].concat()),
        (0u8..4).prop_map(|n| vec![b'k'; usize::from(n)]),
    ];
    let entry = (user, 0u64..6, 0u8..8);
    (prop::collection::vec(entry, 0..150), any::<bool>()).prop_map(|(changes, same)| {
        let (mut deletions, mut values) = (Entries::new(), Entries::new());
        for (user, seq, what) in changes {
            let kind = match what {
                0 => ValueKind::Value,
                1 => ValueKind::SingleDeletion,
                _ => ValueKind::Deletion,
            };
            let key = |seq, kind| InternalKey::new(&user, SequenceNumber(seq), kind).into_bytes();
            if what < 7 {
                deletions.push((key(seq + 4, kind), Vec::new()));
            }
            if same || what % 2 == 1 {
                values.push((key(seq, ValueKind::Value), vec![what; usize::from(what)]));
            }
        }
        let order = KeyOrder::Bytewise;
        (sorted(deletions, &order), sorted(values, &order))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn deletions_are_skipped_with_exactly_the_deleted_entries(
        (deletions, values) in deletions_and_values(),
        seq in 3u64..12,
        limit in prop::option::of(prop_oneof![
            (0u8..40).prop_map(|n| vec![b'k', n]),
            (0u8..40).prop_map(|n| [&b"a longer key, shared"[..], &[n / 7, n]].concat()),
        ]),
        budget in prop_oneof![3 => Just(u64::MAX), 1 => 0u64..30],
        intervals in (1usize..20, 1usize..20),
    ) {
        let seq = SequenceNumber(seq);
        let options = |restart_interval| BlockOptions { restart_interval, ..BlockOptions::default() };
        let (a_bytes, b_bytes) = (
            built(&deletions, options(intervals.0)),
            built(&values, options(intervals.1)),
        );
        let (a_layout, b_layout) = (
            BlockLayout::parse(&a_bytes, BlockKind::Data).unwrap(),
            BlockLayout::parse(&b_bytes, BlockKind::Data).unwrap(),
        );
        let (mut a, mut b) = (DataCursor::new(), DataCursor::new());
        a.first(&a_bytes, &a_layout).unwrap();
        b.first(&b_bytes, &b_layout).unwrap();
        let hidden = SkipLimits { seq, limit: limit.as_deref(), budget };
        let mut last = b"untouched".to_vec();
        let Passed { skipped, newer_moved, older_moved } = skip_deleted(
            Walk { cursor: &mut a, block: Block { bytes: &a_bytes, layout: &a_layout } },
            Walk { cursor: &mut b, block: Block { bytes: &b_bytes, layout: &b_layout } },
            &hidden,
            &mut last,
        );
        prop_assert!(newer_moved.is_ok() && older_moved.is_ok());
        prop_assert!(skipped.total() <= budget);
        let (a_passed, a_left) = deletions.split_at(skipped.deletions as usize);
        let (b_passed, b_left) = values.split_at(skipped.deleted as usize);
        let user = |entry: &(Vec<u8>, Vec<u8>)| key::user_key(&entry.0).to_vec();
        let passes = |entry: &(Vec<u8>, Vec<u8>)| {
            let kind = ValueKind::from_u8(key::packed(&entry.0) as u8);
            matches!(kind, Some(ValueKind::Deletion | ValueKind::SingleDeletion))
                && key::sequence(&entry.0) <= seq
                && limit.as_ref().is_none_or(|limit| user(entry) < *limit)
        };
        let deletes = |a: &(Vec<u8>, Vec<u8>), b: &(Vec<u8>, Vec<u8>)| {
            user(a) == user(b) && key::packed(&a.0) > key::packed(&b.0)
        };
        prop_assert!(a_passed.iter().all(passes));
        prop_assert!(b_passed.iter().all(|b| a_passed.iter().any(|a| deletes(a, b))));
        let expected = a_passed.last().map_or(b"untouched".to_vec(), user);
        prop_assert_eq!(&last, &expected);
        // It ends at the first entry that must not be skipped.
        if let (Some(a), Some(b)) = (a_left.first(), b_left.first())
            && skipped.total() + 2 <= budget
        {
            let is_last = !a_passed.is_empty() && user(b) == last;
            let stays = match user(b).cmp(&user(a)) {
                Ordering::Less => !is_last,
                Ordering::Equal => !passes(a) || !deletes(a, b),
                Ordering::Greater => !passes(a),
            };
            prop_assert!(stays, "{:?} {:?}", a, b);
        }
        // The remaining entries can be iterated in both directions.
        prop_assert_eq!(shown(&a, &a_bytes), a_left.first().cloned());
        if b.valid() && skipped.deleted > 0 {
            b.prev(&b_bytes, &b_layout).unwrap();
            prop_assert_eq!(shown(&b, &b_bytes), b_passed.last().cloned());
            b.next(&b_bytes, &b_layout).unwrap();
        }
        prop_assert_eq!(forward(&mut a, &a_bytes, &a_layout), a_left);
        prop_assert_eq!(forward(&mut b, &b_bytes, &b_layout), b_left);
    }

    #[test]
    fn runs_of_deletions_are_skipped_completely(
        entries in prop::collection::vec((0u16..600, 0u64..12, 0u8..60), 1..250),
        limit in prop::option::of(0u16..600),
        seq in 8u64..13,
        budget in prop_oneof![3 => Just(u64::MAX), 1 => 0u64..100],
        restart_interval in 1usize..20,
        global in prop::bool::weighted(0.1),
        from in any::<prop::sample::Index>(),
    ) {
        let user = |n: u16| [&b"key"[..], &n.to_be_bytes()].concat();
        let entry = |&(n, seq, what): &(u16, u64, u8)| {
            let kind = match what {
                0 => ValueKind::Value,
                1..10 => ValueKind::SingleDeletion,
                _ => ValueKind::Deletion,
            };
            let key = InternalKey::new(&user(n), SequenceNumber(seq), kind);
            (key.into_bytes(), vec![7; usize::from(what == 0)])
        };
        let mut entries = sorted(entries.iter().map(entry).collect(), &KeyOrder::Bytewise);
        entries.dedup_by(|b, a| global && key::user_key(&a.0) == key::user_key(&b.0));
        let bytes = built(&entries, BlockOptions { restart_interval, ..BlockOptions::default() });
        let layout = BlockLayout::parse(&bytes, BlockKind::Data).unwrap();
        let global = global.then_some(SequenceNumber(1));
        let mut cursor = DataCursor::new().with_global_seqno(global);
        let from = from.index(entries.len()) / 4;
        cursor.first(&bytes, &layout).unwrap();
        for _ in 0..from {
            cursor.next(&bytes, &layout).unwrap();
        }
        let limit = limit.map(user);
        let hidden = SkipLimits { seq: SequenceNumber(seq), limit: limit.as_deref(), budget };
        let mut last = b"untouched".to_vec();
        let block = Block { bytes: &bytes, layout: &layout };
        let (skipped, moved) = skip_deletions(&mut cursor, block, &hidden, &mut last);
        prop_assert!(moved.is_ok());
        let passes = |entry: &&(Vec<u8>, Vec<u8>)| {
            let kind = ValueKind::from_u8(key::packed(&entry.0) as u8);
            kind != Some(ValueKind::Value)
                && global.unwrap_or(key::sequence(&entry.0)).0 <= seq
                && limit.as_ref().is_none_or(|limit| key::user_key(&entry.0) < &limit[..])
        };
        let expected = entries[from..].iter().take_while(passes).count() as u64;
        prop_assert_eq!(skipped, expected.min(budget));
        let end = from + skipped as usize;
        let passed = entries[from..end].last();
        let passed = passed.map_or(&b"untouched"[..], |entry| key::user_key(&entry.0));
        prop_assert_eq!(&last[..], passed);
        // The remaining entries can be iterated in both directions.
        if cursor.valid() && end > 0 {
            cursor.prev(&bytes, &layout).unwrap();
            let (before, _) = shown(&cursor, &bytes).unwrap();
            prop_assert_eq!(key::user_key(&before), key::user_key(&entries[end - 1].0));
            cursor.next(&bytes, &layout).unwrap();
        }
        let left = forward(&mut cursor, &bytes, &layout);
        let values = |entries: &[(Vec<u8>, Vec<u8>)]| -> Vec<Vec<u8>> {
            entries.iter().map(|(key, _)| key::user_key(key).to_vec()).collect()
        };
        prop_assert_eq!(values(&left), values(&entries[end..]));
    }

    #[test]
    fn skipping_in_hostile_blocks_terminates(
        mut a_bytes in prop::collection::vec(any::<u8>(), 5..200),
        mut b_bytes in prop::collection::vec(any::<u8>(), 5..200),
        entries in entries(20),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let entries = sorted(entries, &KeyOrder::Bytewise);
        if !flips.is_empty() {
            a_bytes = built(&entries, BlockOptions::default());
            b_bytes = a_bytes.clone();
            for (at, byte) in &flips {
                *at.get_mut(&mut a_bytes) ^= byte;
            }
        }
        let layouts = (
            BlockLayout::parse(&a_bytes, BlockKind::Data),
            BlockLayout::parse(&b_bytes, BlockKind::Data),
        );
        let (Ok(a_layout), Ok(b_layout)) = layouts else { return Ok(()); };
        let (mut a, mut b) = (DataCursor::new(), DataCursor::new());
        if a.first(&a_bytes, &a_layout).is_err() || b.first(&b_bytes, &b_layout).is_err() {
            return Ok(());
        }
        let hidden = SkipLimits { seq: SequenceNumber::MAX, limit: None, budget: u64::MAX };
        let mut last = Vec::new();
        let mut alone = DataCursor::new();
        if alone.first(&a_bytes, &a_layout).is_ok() {
            let limit = entries.last().map(|(key, _)| key::user_key(key));
            let limited = SkipLimits { limit, ..hidden };
            for hidden in [limited, hidden] {
                let block = Block { bytes: &a_bytes, layout: &a_layout };
                let _moved = skip_deletions(&mut alone, block, &hidden, &mut last);
            }
        }
        let _passed = skip_deleted(
            Walk { cursor: &mut a, block: Block { bytes: &a_bytes, layout: &a_layout } },
            Walk { cursor: &mut b, block: Block { bytes: &b_bytes, layout: &b_layout } },
            &hidden,
            &mut last,
        );
    }
}

#[test]
fn key_words_allocate_once_and_share_the_common_prefix() {
    let key = |user: &str| {
        InternalKey::new(user.as_bytes(), SequenceNumber(7), ValueKind::Value).into_bytes()
    };
    // Only the last key, which is not at a restart point, starts differently.
    for (last, shared) in [("0000000000000039", 14), ("0000000001", 9), ("1", 0)] {
        let numbered = (0..39).map(|number| key(&format!("{number:016}")));
        let entries: Entries = numbered
            .chain([key(last)])
            .map(|key| (key, vec![0; 90]))
            .collect();
        let bytes = built(&entries, BlockOptions::default());
        let layout = BlockLayout::parse(&bytes, BlockKind::Data).unwrap();
        let tail = DataWords::encode(&bytes, &layout, &KeyOrder::Bytewise);
        assert_eq!(tail.len() as u64, DataWords::encoded_len(40));
        // Three restarts of 16 entries.
        assert!(tail.capacity() as u64 <= DataWords::encoded_len(48));
        assert_eq!(DataWords::parse(&tail).unwrap().shared(), shared);
    }
}

/// Regression: searches passed over an entry that shares more bytes than its predecessor has, and over those after it.
#[test]
fn an_entry_that_shares_more_than_there_is_is_damage() {
    let internal = |user: &[u8]| InternalKey::new(user, SequenceNumber(7), ValueKind::Value);
    let mut builder = BlockBuilder::new(BlockOptions::default());
    for user in [b"key1", b"key2", b"key3"] {
        builder.add(internal(user).as_bytes(), b"v");
    }
    let mut bytes = builder.finish().to_vec();
    // The second entry follows a header of three bytes, a key of twelve and a value of one.
    assert_eq!(bytes[16..19], [3, 9, 1]);
    bytes[16] = 0x7f;
    let layout = BlockLayout::parse(&bytes, BlockKind::Data).unwrap();
    let target = internal(b"key3");
    let mut cursor = DataCursor::new();
    let order = KeyOrder::Bytewise;
    assert!(
        cursor
            .seek(&bytes, &layout, &order, target.as_bytes())
            .is_err()
    );
    assert!(
        cursor
            .seek_point(&bytes, &layout, &order, target.as_bytes())
            .is_err()
    );
}
