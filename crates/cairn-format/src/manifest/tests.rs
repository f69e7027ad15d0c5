//! Round trips of version edits, hostile input, and RocksDB's encoding of each tag.

use cairn_types::{FileNumber, SequenceNumber, ValueKind};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::coding::{put_fixed64, put_lps, put_varint32, put_varint64};

fn key() -> impl Strategy<Value = InternalKey> {
    let kinds = prop_oneof![
        Just(ValueKind::Value),
        Just(ValueKind::Deletion),
        Just(ValueKind::RangeDeletion)
    ];
    (vec(any::<u8>(), 0..12), seq(), kinds)
        .prop_map(|(user, seq, kind)| InternalKey::new(&user, seq, kind))
}

fn seq() -> impl Strategy<Value = SequenceNumber> {
    (0..=SequenceNumber::MAX.0).prop_map(SequenceNumber)
}

fn number() -> impl Strategy<Value = FileNumber> {
    prop_oneof![0..100u64, any::<u64>()].prop_map(FileNumber)
}

prop_compose! {
    fn new_file()(
        level in 0..8u32,
        number in number(),
        size in any::<u64>(),
        keys in (key(), key()),
        seqs in (seq(), seq()),
        numbers in (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()),
        path_id in 0..4u32,
        oldest_blob_file in option::of((1..u64::MAX).prop_map(FileNumber)),
        checksum in option::of((vec(any::<u8>(), 0..5), "[A-Za-z]{1,8}")),
        timestamps in option::of((vec(any::<u8>(), 8), vec(any::<u8>(), 8))),
        unique_id in any::<[u64; 2]>(),
        flags in any::<(bool, bool, u8)>(),
    ) -> NewFile {
        let checksum = checksum.map(|(value, function)| FileChecksum {
            value,
            function: function.into(),
        });
        let (min, max) = timestamps.unwrap_or_default();
        NewFile {
            path_id,
            marked_for_compaction: flags.0,
            oldest_blob_file,
            times: CreationTimes {
                oldest_ancester: numbers.0,
                file: numbers.1,
            },
            checksum: checksum.unwrap_or_default(),
            temperature: flags.2,
            timestamps: Timestamps {
                min,
                max,
                persisted: flags.1,
            },
            unique_id,
            epoch_number: numbers.2,
            compensated_range_deletion_size: numbers.3,
            tail_size: numbers.4,
            ..NewFile::new(level, number, size, keys, seqs)
        }
    }
}

prop_compose! {
    fn files()(
        compact_cursors in vec((0..8u32, key()), 0..3),
        deleted_files in vec((0..8u32, number()), 0..5),
        new_files in vec(new_file(), 0..4),
        blob_additions in vec((number(), any::<u64>(), any::<u64>(), "[a-z]{0,4}"), 0..3),
        blob_garbage in vec((number(), any::<u64>(), any::<u64>()), 0..3),
    ) -> TreeChanges {
        TreeChanges {
            compact_cursors,
            deleted_files,
            new_files,
            blob_additions: blob_additions
                .into_iter()
                .map(|(number, blob_count, blob_bytes, checksum_method)| BlobAddition {
                    number, blob_count, blob_bytes,
                    checksum: checksum_method.as_bytes().to_vec(),
                    checksum_method,
                })
                .collect(),
            blob_garbage: blob_garbage
                .into_iter()
                .map(|(number, blob_count, blob_bytes)| BlobGarbage {
                    number, blob_count, blob_bytes,
                })
                .collect(),
        }
    }
}

prop_compose! {
    fn edit()(
        tree in files(),
        names in (option::of("\\PC{0,8}"), option::of("\\PC{0,8}"), option::of("\\PC{0,8}")),
        numbers in vec(option::of(number()), 6),
        last_sequence in option::of(seq()),
        ids in (option::of(any::<u32>()), any::<u32>(), option::of(any::<u32>()), option::of(any::<u32>())),
        wals in vec((number(), option::of(any::<u64>())), 0..3),
        drop in any::<bool>(),
        low in option::of(vec(any::<u8>(), 1..9)),
        persist_timestamps in option::of(any::<bool>()),
        compaction_progress in option::of(vec(any::<u8>(), 0..9)),
        reach in option::of((number(), any::<u64>())),
    ) -> VersionEdit {
        VersionEdit {
            log_reach: reach.map(|(number, bytes)| LogReach { number, bytes }),
            db_id: names.0,
            comparator: names.1,
            family_change: match names.2 {
                Some(name) => Some(FamilyChange::Add { name }),
                None => drop.then_some(FamilyChange::Drop),
            },
            log_number: numbers[0],
            prev_log_number: numbers[1].map(|n| n.0),
            next_file_number: numbers[2],
            min_log_number_to_keep: numbers[3],
            compacted_manifest_bytes: numbers[5].map(|n| n.0),
            max_family: ids.0,
            family: ids.1,
            atomic_group_remaining: ids.2,
            family_group_remaining: ids.3,
            last_sequence,
            tree,
            wals: WalChanges {
                additions: wals
                    .into_iter()
                    .map(|(number, synced_bytes)| WalAddition { number, synced_bytes })
                    .collect(),
                deleted_before: numbers[4],
            },
            full_history_ts_low: low,
            persist_timestamps,
            compaction_progress,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn version_edits_round_trip(edit in edit()) {
        prop_assert_eq!(VersionEdit::decode(&edit.to_bytes()), Ok(edit));
    }

    #[test]
    fn hostile_edits_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(edit) = VersionEdit::decode(&bytes) {
            prop_assert_eq!(VersionEdit::decode(&edit.to_bytes()), Ok(edit));
        }
    }

    #[test]
    fn damaged_edits_never_panic(
        edit in edit(), at in any::<prop::sample::Index>(), byte in any::<u8>()
    ) {
        let mut bytes = edit.to_bytes();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = byte;
            if let Ok(edit) = VersionEdit::decode(&bytes) {
                prop_assert_eq!(VersionEdit::decode(&edit.to_bytes()), Ok(edit));
            }
        }
    }
}

#[test]
fn checksums_without_a_function_are_dropped() {
    let keys = (ikey(b"a"), ikey(b"b"));
    let seqs = (SequenceNumber(1), SequenceNumber(2));
    let mut file = NewFile::new(0, FileNumber(7), 9, keys, seqs);
    file.checksum.value = vec![1, 2];
    file.checksum.function = "Unknowm".into();
    let mut edit = VersionEdit::default();
    edit.tree.new_files.push(file);
    let mut bytes = edit.to_bytes();
    let at = bytes.windows(7).position(|name| name == b"Unknowm");
    bytes[at.unwrap() + 6] = b'n';
    let read = VersionEdit::decode(&bytes).unwrap();
    assert_eq!(read.tree.new_files[0].checksum.value, b"");
    assert_eq!(VersionEdit::decode(&read.to_bytes()), Ok(read));
}

fn field(tag: u32, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint32(&mut bytes, tag);
    body(&mut bytes);
    bytes
}

fn ikey(user: &[u8]) -> InternalKey {
    InternalKey::new(user, SequenceNumber(3), ValueKind::Value)
}

#[test]
fn unknown_tags_are_skipped_if_skippable() {
    let newer = field(tag::SKIPPABLE + 500, |b| put_lps(b, b"from the future"));
    assert_eq!(VersionEdit::decode(&newer), Ok(VersionEdit::default()));

    let unknown = VersionEdit::decode(&field(8, |_| {})).unwrap_err();
    assert_eq!(
        unknown.to_string(),
        "unknown version edit tag 8 at offset 0"
    );
}

#[test]
fn older_encodings_of_tables_are_read() {
    let head = |b: &mut Vec<u8>| {
        put_varint32(b, 2);
        put_varint64(b, 9);
    };
    let keys = |b: &mut Vec<u8>| {
        put_varint64(b, 1000);
        put_lps(b, ikey(b"a").as_bytes());
        put_lps(b, ikey(b"z").as_bytes());
    };
    let seqs = |b: &mut Vec<u8>| {
        put_varint64(b, 5);
        put_varint64(b, 6);
    };
    let file = |seqs: (u64, u64)| {
        let seqs = (SequenceNumber(seqs.0), SequenceNumber(seqs.1));
        NewFile::new(2, FileNumber(9), 1000, (ikey(b"a"), ikey(b"z")), seqs)
    };

    let bytes = field(tag::NEW_FILE, |b| {
        head(b);
        keys(b);
    });
    assert_eq!(
        VersionEdit::decode(&bytes).unwrap().tree.new_files,
        [file((0, 0))]
    );
    let bytes = field(tag::NEW_FILE2, |b| {
        head(b);
        keys(b);
        seqs(b);
    });
    assert_eq!(
        VersionEdit::decode(&bytes).unwrap().tree.new_files,
        [file((5, 6))]
    );
    let bytes = field(tag::NEW_FILE3, |b| {
        head(b);
        put_varint32(b, 3);
        keys(b);
        seqs(b);
    });
    let expected = NewFile {
        path_id: 3,
        ..file((5, 6))
    };
    assert_eq!(
        VersionEdit::decode(&bytes).unwrap().tree.new_files,
        [expected]
    );
}

fn with_custom_field(tag: u32, value: &[u8]) -> Decoded<VersionEdit> {
    let seqs = (SequenceNumber(5), SequenceNumber(6));
    let file = NewFile::new(0, FileNumber(9), 1000, (ikey(b"a"), ikey(b"z")), seqs);
    let mut edit = VersionEdit::default();
    edit.tree.new_files.push(file);
    let mut bytes = edit.to_bytes();
    assert_eq!(bytes.pop(), Some(1), "the terminator");
    put_varint32(&mut bytes, tag);
    put_lps(&mut bytes, value);
    put_varint32(&mut bytes, 1);
    VersionEdit::decode(&bytes)
}

#[test]
fn unknown_fields_of_tables_are_skipped_if_skippable() {
    assert!(with_custom_field(33, b"later").is_ok());
    assert!(with_custom_field(17, b"opaque").is_ok());
    let error = with_custom_field(70, b"").unwrap_err();
    assert!(error.unsupported);
    assert!(error.what.contains("field 70"), "{error}");
}

#[test]
fn a_field_of_a_table_may_belong_to_the_edit() {
    let mut value = Vec::new();
    put_fixed64(&mut value, 77);
    let edit = with_custom_field(3, &value).unwrap();
    assert_eq!(edit.min_log_number_to_keep, Some(FileNumber(77)));
}

#[test]
fn invalid_fields_of_tables_are_rejected() {
    for (tag, value) in [
        (2, &b"\x01\x01"[..]),
        (3, b"short"),
        (9, b""),
        (12, b"fifteen bytes..."[..15].as_ref()),
        (13, b"\xff"),
        (16, b""),
        (65, b"\x04"),
        (8, b"\xff\xfe"),
    ] {
        assert!(with_custom_field(tag, value).is_err(), "{tag} {value:?}");
    }
}

#[test]
fn both_encodings_of_wals_are_read() {
    let body = |b: &mut Vec<u8>| {
        put_varint64(b, 12);
        put_varint32(b, 2);
        put_varint64(b, 3456);
        put_varint32(b, 1);
    };
    let expected = WalAddition {
        number: FileNumber(12),
        synced_bytes: Some(3456),
    };
    let old = VersionEdit::decode(&field(tag::OLD_WAL_ADDITION, body)).unwrap();
    assert_eq!(old.wals.additions, [expected]);
    let mut sized = Vec::new();
    body(&mut sized);
    let new = VersionEdit::decode(&field(tag::WAL_ADDITION, |b| put_lps(b, &sized))).unwrap();
    assert_eq!(new.wals.additions, [expected]);

    let old = VersionEdit::decode(&field(tag::OLD_WAL_DELETION, |b| put_varint64(b, 9))).unwrap();
    assert_eq!(old.wals.deleted_before, Some(FileNumber(9)));
}

#[test]
fn error_offsets_are_relative_to_the_edit() {
    let mut bytes = field(tag::LOG_NUMBER, |b| put_varint64(b, 7));
    bytes.extend(field(tag::PERSIST_TIMESTAMPS, |b| put_lps(b, b"ab")));
    let error = VersionEdit::decode(&bytes).unwrap_err();
    assert_eq!(error.at, 5);
}
