//! Writing and replaying MANIFESTs: intact, torn, damaged, rotated.

use std::collections::BTreeMap;
use std::path::Path;

use cairn_format::key::InternalKey;
use cairn_format::manifest::{BlobAddition, FamilyChange, LogReach, VersionEdit};
use cairn_platform::FileSystem;
use cairn_platform::fs::{FileMode, remove_if_there};
use cairn_platform::mem::MemFileSystem;
use cairn_platform::sync::Arc;
use cairn_types::{Code, Error, FileNumber, KeyOrder, Result, SequenceNumber, ValueKind};

use super::{Contents, FamilyContents, Manifest, News, Recovered, Tail, current, families, replay};
use crate::edit::TreeEdit;
use crate::file_meta::FileMeta;
use crate::version::Version;

const DIR: &str = "/db";

fn key(user: &str) -> InternalKey {
    InternalKey::new(user.as_bytes(), SequenceNumber(1), ValueKind::Value)
}

fn file(number: u64, smallest: &str, largest: &str) -> Arc<FileMeta> {
    let mut file = FileMeta::new(FileNumber(number), 100, key(smallest), key(largest));
    file.epoch = number;
    file.unique_id = Some([number, 7]);
    Arc::new(file)
}

fn adds(level: usize, files: Vec<Arc<FileMeta>>) -> VersionEdit {
    let added = files.into_iter().map(|file| (level, file)).collect();
    TreeEdit {
        added,
        ..TreeEdit::default()
    }
    .record(0)
}

/// Creates MANIFEST 4 of a database whose default family has `version`.
fn create(fs: &MemFileSystem, version: &Version, edits: &[VersionEdit]) -> Manifest {
    let contents = Contents {
        db_id: Some("an id"),
        next_file: FileNumber(5),
        last_sequence: SequenceNumber(9),
        min_log_to_keep: FileNumber(3),
        max_family: 0,
        wals: &BTreeMap::from([(FileNumber(3), Some(77))]),
        log_reach: Some(LogReach {
            number: FileNumber(3),
            bytes: 70,
        }),
        families: vec![FamilyContents {
            id: 0,
            name: "default",
            version,
            log_number: FileNumber(3),
            full_history_ts_low: b"",
            persist_timestamps: true,
        }],
    };
    fs.create_dir_all(Path::new(DIR)).unwrap();
    Manifest::create(fs, Path::new(DIR), FileNumber(4), &contents, edits).unwrap()
}

fn built_in(family: &str, comparator: &str) -> Result<KeyOrder> {
    KeyOrder::from_name(comparator)
        .ok_or_else(|| Error::invalid_argument(format!("{family}: comparator {comparator}")))
}

fn read_back(fs: &MemFileSystem) -> Result<Recovered> {
    let number = current(fs, Path::new(DIR)).unwrap().unwrap();
    replay(fs, Path::new(DIR), number, &built_in)
}

fn numbers(recovered: &Recovered) -> Vec<(usize, u64)> {
    let files = recovered.families[0].version.files();
    files.map(|(level, file)| (level, file.number.0)).collect()
}

fn empty() -> Version {
    Version::empty(KeyOrder::Bytewise, 7)
}

/// Returns the content of MANIFEST 4.
fn bytes(fs: &MemFileSystem) -> Vec<u8> {
    let file = fs
        .open(&Path::new(DIR).join("MANIFEST-000004"), FileMode::default())
        .unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn overwrite(fs: &MemFileSystem, bytes: &[u8]) {
    let path = Path::new(DIR).join("MANIFEST-000004");
    fs.remove(&path).unwrap();
    fs.create(&path, FileMode::default())
        .unwrap()
        .append(bytes)
        .unwrap();
}

#[test]
fn a_fresh_manifest_holds_the_state_and_later_edits() {
    let fs = MemFileSystem::new();
    let edit = TreeEdit::from(adds(6, vec![file(2, "a", "m"), file(1, "n", "z")]).tree);
    let version = empty().with_edit(&edit).unwrap();
    let mut manifest = create(&fs, &version, &[adds(0, vec![file(11, "a", "z")])]);
    manifest
        .append(&[adds(1, vec![file(20, "c", "d")])])
        .unwrap();
    let recovered = read_back(&fs).unwrap();
    assert_eq!(numbers(&recovered), [(0, 11), (1, 20), (6, 2), (6, 1)]);
    assert_eq!(
        recovered.next_file,
        FileNumber(21),
        "larger than every recorded number"
    );
    assert_eq!(recovered.last_sequence, SequenceNumber(9));
    assert_eq!(recovered.min_log_to_keep, FileNumber(3));
    assert_eq!(recovered.db_id.as_deref(), Some("an id"));
    assert_eq!(recovered.wals, BTreeMap::from([(FileNumber(3), Some(77))]));
    assert_eq!(recovered.manifest_bytes, manifest.size());
    let family = &recovered.families[0];
    assert_eq!(
        (family.name.as_str(), family.log_number),
        ("default", FileNumber(3))
    );
    assert_eq!(family.version.level(6).files()[0].unique_id, Some([2, 7]));
}

#[test]
fn the_newest_log_reach_is_recovered() {
    let fs = MemFileSystem::new();
    let reach = |number, bytes| LogReach {
        number: FileNumber(number),
        bytes,
    };
    let mut manifest = create(&fs, &empty(), &[]);
    assert_eq!(read_back(&fs).unwrap().log_reach, Some(reach(3, 70)));
    let reached = |number, bytes| VersionEdit {
        log_reach: Some(reach(number, bytes)),
        ..VersionEdit::default()
    };
    manifest.append(&[reached(3, 77), reached(5, 7)]).unwrap();
    manifest.append(&[VersionEdit::default()]).unwrap();
    assert_eq!(read_back(&fs).unwrap().log_reach, Some(reach(5, 7)));
}

#[test]
fn a_torn_tail_is_ignored() {
    let fs = MemFileSystem::new();
    let mut manifest = create(&fs, &empty(), &[]);
    let before = manifest.size() as usize;
    manifest
        .append(&[adds(1, vec![file(20, "c", "d")])])
        .unwrap();
    let whole = bytes(&fs);
    for len in before..whole.len() {
        overwrite(&fs, &whole[..len]);
        let recovered = read_back(&fs).unwrap();
        assert_eq!(
            (numbers(&recovered), recovered.manifest_bytes),
            (vec![], before as u64)
        );
    }
}

#[test]
fn a_flipped_bit_is_corruption_at_its_offset() {
    let fs = MemFileSystem::new();
    let mut manifest = create(&fs, &empty(), &[]);
    manifest
        .append(&[adds(1, vec![file(20, "c", "d")])])
        .unwrap();
    let whole = bytes(&fs);
    let mut bad = whole.clone();
    bad[9] ^= 4;
    overwrite(&fs, &bad);
    let error = read_back(&fs).unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(
        error.text().contains("at offset 0 of /db/MANIFEST-000004"),
        "{error}"
    );
}

/// Regression test: a flipped bit made a length point beyond the end of the file; all later records
/// were silently ignored, and their files deleted.
#[test]
fn a_length_beyond_the_end_is_corruption_if_records_follow() {
    let fs = MemFileSystem::new();
    let mut manifest = create(&fs, &empty(), &[]);
    let first = manifest.size() as usize;
    for number in [20, 30] {
        let files = vec![file(number, "c", "d")];
        manifest.append(&[adds(1, files)]).unwrap();
    }
    let mut bad = bytes(&fs);
    // The higher byte of the length; the header is checksum, length, type.
    bad[first + 5] ^= 0x40;
    overwrite(&fs, &bad);
    let error = read_back(&fs).unwrap_err();
    let named = format!("at offset {first} of /db/MANIFEST-000004");
    assert!(
        error.is_corruption() && error.text().contains(&named),
        "{error}"
    );
}

#[test]
fn an_append_with_missing_sectors_is_ignored() {
    let fs = MemFileSystem::new();
    let mut manifest = create(&fs, &empty(), &[]);
    let before = manifest.size() as usize;
    let files = (10..50).map(|number| {
        let (smallest, largest) = (format!("a{number}"), format!("b{number}"));
        file(number, &smallest, &largest)
    });
    manifest.append(&[adds(0, files.collect())]).unwrap();
    let whole = bytes(&fs);
    let sectors: Vec<_> = (before / 512..whole.len().div_ceil(512))
        .map(|sector| (sector * 512).max(before)..(sector * 512 + 512).min(whole.len()))
        .collect();
    assert!(sectors.len() > 3);
    for lost in 1..1usize << sectors.len() {
        let mut torn = whole.clone();
        for (number, sector) in sectors.iter().enumerate() {
            if lost >> number & 1 == 1 {
                torn[sector.clone()].fill(0);
            }
        }
        overwrite(&fs, &torn);
        let recovered = read_back(&fs).unwrap_or_else(|e| panic!("lost {lost:b}: {e}"));
        assert_eq!(numbers(&recovered), []);
        assert_eq!(recovered.manifest_bytes, before as u64);
    }
}

/// The sector of a torn append has the content of a write-ahead log that was deleted.
#[test]
fn a_torn_append_with_the_record_of_a_log_is_ignored() {
    let fs = MemFileSystem::new();
    let mut manifest = create(&fs, &empty(), &[]);
    let before = manifest.size() as usize;
    manifest
        .append(&[adds(1, vec![file(20, "c", "d")])])
        .unwrap();
    let whole = bytes(&fs);
    let record = |payload: &[u8]| {
        let covered = [&[1][..], payload].concat();
        let sum = cairn_format::checksum::mask(cairn_format::checksum::crc32c(&covered));
        let len = (payload.len() as u16).to_le_bytes();
        [&sum.to_le_bytes()[..], &len, &covered].concat()
    };
    let with = |payload: &[u8]| {
        let mut stale = whole[..before].to_vec();
        stale.extend(b"the end of a record");
        stale.extend(record(payload));
        stale.resize(whole.len().max(stale.len()), 7);
        overwrite(&fs, &stale);
        read_back(&fs)
    };
    // A batch: sequence number 25, an entry.
    let batch = *b"\x19\0\0\0\0\0\0\0\x01\0\0\0\x01\x01k\x01v";
    let recovered = with(&batch).unwrap();
    assert_eq!(numbers(&recovered), []);
    assert_eq!(recovered.manifest_bytes, before as u64);
    let edit = VersionEdit {
        last_sequence: Some(SequenceNumber(9)),
        ..VersionEdit::default()
    };
    let mut encoded = Vec::new();
    edit.encode(&mut encoded);
    let error = with(&encoded).unwrap_err();
    assert!(error.is_corruption(), "another append follows");
}

/// Regression test: a power failure left the second record of a group without the first, whose
/// sector was missing. The second was mistaken for a later append, and the MANIFEST for a damaged
/// one.
#[test]
fn a_group_with_missing_sectors_is_ignored() {
    let fs = MemFileSystem::new();
    let mut manifest = create(&fs, &empty(), &[]);
    let before = manifest.size() as usize;
    let group = (0..4).map(|n| {
        let files = (10 * n..10 * n + 6).map(|number| {
            let (smallest, largest) = (format!("a{number:02}"), format!("b{number:02}"));
            file(10 + number, &smallest, &largest)
        });
        adds(0, files.collect())
    });
    manifest.append_group(group.collect()).unwrap();
    let whole = bytes(&fs);
    manifest
        .append(&[adds(1, vec![file(90, "x", "y")])])
        .unwrap();
    let longer = bytes(&fs);
    let sectors: Vec<_> = (before / 512..whole.len().div_ceil(512))
        .map(|sector| (sector * 512).max(before)..(sector * 512 + 512).min(whole.len()))
        .collect();
    assert!(sectors.len() > 3);
    for lost in 1..1usize << sectors.len() {
        let mut torn = whole.clone();
        for (number, sector) in sectors.iter().enumerate() {
            if lost >> number & 1 == 1 {
                torn[sector.clone()].fill(0);
            }
        }
        overwrite(&fs, &torn);
        let recovered = read_back(&fs).unwrap_or_else(|e| panic!("lost {lost:b}: {e}"));
        assert_eq!(numbers(&recovered), []);
    }
    // If another append follows, the missing sector is damage.
    let mut damaged = longer;
    damaged[sectors[1].clone()].fill(0);
    overwrite(&fs, &damaged);
    assert!(read_back(&fs).unwrap_err().is_corruption());
}

#[test]
fn a_missing_sector_before_a_record_is_corruption() {
    let fs = MemFileSystem::new();
    let mut manifest = create(&fs, &empty(), &[]);
    let files = (10..50).map(|number| {
        let (smallest, largest) = (format!("a{number}"), format!("b{number}"));
        file(number, &smallest, &largest)
    });
    manifest.append(&[adds(0, files.collect())]).unwrap();
    let one = file(60, "x", "y");
    manifest.append(&[adds(1, vec![one])]).unwrap();
    let mut damaged = bytes(&fs);
    damaged[512..1024].fill(0);
    overwrite(&fs, &damaged);
    assert!(read_back(&fs).unwrap_err().is_corruption());
}

#[test]
fn an_atomic_group_is_applied_completely_or_not_at_all() {
    let fs = MemFileSystem::new();
    let mut manifest = create(&fs, &empty(), &[]);
    let group = || {
        vec![
            adds(1, vec![file(20, "c", "d")]),
            adds(1, vec![file(21, "e", "f")]),
        ]
    };
    manifest.append_group(group()).unwrap();
    assert_eq!(numbers(&read_back(&fs).unwrap()), [(1, 20), (1, 21)]);
    let whole = bytes(&fs);
    overwrite(&fs, &whole[..whole.len() - 3]);
    assert_eq!(numbers(&read_back(&fs).unwrap()), []);

    let mut broken = adds(2, vec![file(30, "c", "d")]);
    broken.atomic_group_remaining = Some(3);
    let mut manifest = create(&fs, &empty(), &[broken.clone(), broken]);
    manifest.append(&[]).unwrap();
    assert!(
        read_back(&fs)
            .unwrap_err()
            .text()
            .contains("expected 2, found 3")
    );
}

/// Regression: a MANIFEST without a complete record counts as another one only when it is first read.
#[test]
fn a_manifest_without_a_record_is_new_once() {
    let fs = Arc::new(MemFileSystem::new());
    create(&fs, &empty(), &[]);
    let whole = bytes(&fs);
    let mut tail = Tail::open(fs.clone(), Path::new(DIR)).unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = Path::new(DIR).join(name);
        remove_if_there(&*fs, &path).unwrap();
        let file = fs.create(&path, FileMode::default()).unwrap();
        file.append(content).unwrap();
    };
    write("MANIFEST-000005", &whole[..5]);
    write("CURRENT", b"MANIFEST-000005\n");
    assert_eq!(tail.advance().unwrap(), News::Replaced);
    assert_eq!(tail.advance().unwrap(), News::None);
    write("MANIFEST-000005", &whole);
    assert_eq!(tail.advance().unwrap(), News::Edits);
    assert_eq!(tail.advance().unwrap(), News::None);
}

/// RocksDB's secondary instances report a column family added in an atomic group as corruption.
#[test]
fn a_group_of_families_is_atomic_and_invisible_to_rocksdb() {
    let fs = MemFileSystem::new();
    let mut manifest = create(&fs, &empty(), &[]);
    let before = manifest.size() as usize;
    let group = [(2, "two"), (3, "three")].map(|(id, name)| VersionEdit {
        family_change: Some(FamilyChange::Add {
            name: name.to_owned(),
        }),
        comparator: Some("leveldb.BytewiseComparator".to_owned()),
        log_number: Some(FileNumber(9)),
        ..VersionEdit::of_family(id)
    });
    manifest.append_group(group.to_vec()).unwrap();
    let whole = bytes(&fs);
    let added = |recovered: &Recovered| -> Vec<u32> {
        let added = recovered.families.iter().map(|family| family.id);
        added.filter(|id| *id > 1).collect()
    };
    assert_eq!(added(&read_back(&fs).unwrap()), [2, 3]);
    for len in before + 1..whole.len() {
        overwrite(&fs, &whole[..len]);
        assert_eq!(added(&read_back(&fs).unwrap()), [], "{len}");
    }
    // The payload follows checksum, length and type.
    let len = usize::from(u16::from_le_bytes([whole[before + 4], whole[before + 5]]));
    let first = VersionEdit::decode(&whole[before + 7..before + 7 + len]).unwrap();
    assert_eq!(first.atomic_group_remaining, None);
    assert_eq!(first.family_group_remaining, Some(1));
}

#[test]
fn families_come_and_go() {
    let fs = MemFileSystem::new();
    let mut manifest = create(&fs, &empty(), &[]);
    let add = |id: u32, name: &str, comparator: &str| VersionEdit {
        family_change: Some(FamilyChange::Add {
            name: name.to_owned(),
        }),
        comparator: Some(comparator.to_owned()),
        log_number: Some(FileNumber(8)),
        ..VersionEdit::of_family(id)
    };
    let drop = VersionEdit {
        family_change: Some(FamilyChange::Drop),
        ..VersionEdit::of_family(1)
    };
    manifest
        .append(&[add(1, "one", "leveldb.BytewiseComparator")])
        .unwrap();
    manifest
        .append(&[add(2, "two", "rocksdb.ReverseBytewiseComparator"), drop])
        .unwrap();
    manifest
        .append(&[VersionEdit {
            log_number: Some(FileNumber(9)),
            ..VersionEdit::of_family(2)
        }])
        .unwrap();
    let recovered = read_back(&fs).unwrap();
    let names: Vec<&str> = recovered
        .families
        .iter()
        .map(|family| family.name.as_str())
        .collect();
    assert_eq!(names, ["default", "two"]);
    assert_eq!(
        recovered.families[1].version.order().name(),
        "rocksdb.ReverseBytewiseComparator"
    );
    assert_eq!(
        (recovered.max_family, recovered.next_file),
        (2, FileNumber(10))
    );

    manifest
        .append(&[add(2, "three", "leveldb.BytewiseComparator")])
        .unwrap();
    assert!(read_back(&fs).unwrap_err().is_corruption());
}

/// Regression: later edits of a dropped family were ignored, and so was a second drop.
#[test]
fn an_edit_of_a_dropped_family_is_corruption() {
    let family = |change| VersionEdit {
        family_change: change,
        ..VersionEdit::of_family(1)
    };
    let name = "one".to_owned();
    let added = family(Some(FamilyChange::Add { name }));
    let dropped = || family(Some(FamilyChange::Drop));
    for later in [dropped(), family(None)] {
        let fs = MemFileSystem::new();
        let mut manifest = create(&fs, &empty(), &[added.clone(), dropped()]);
        assert_eq!(read_back(&fs).unwrap().families.len(), 1);
        manifest.append(&[later]).unwrap();
        let error = read_back(&fs).unwrap_err();
        let expected = "column family 1, which does not exist";
        assert!(
            error.is_corruption() && error.text().contains(expected),
            "{error}"
        );
    }
}

/// Regression: an opening panicked, because the first log that recovery needs was above the next file number.
#[test]
fn the_next_file_number_is_above_the_first_log_to_keep() {
    let fs = MemFileSystem::new();
    let keeps = VersionEdit {
        min_log_number_to_keep: Some(FileNumber(50)),
        ..VersionEdit::default()
    };
    create(&fs, &empty(), &[keeps]);
    let recovered = read_back(&fs).unwrap();
    assert_eq!(recovered.min_log_to_keep, FileNumber(50));
    assert_eq!(recovered.next_file, FileNumber(51));
}

#[test]
fn an_unknown_comparator_is_the_callers_error() {
    let fs = MemFileSystem::new();
    let other = VersionEdit {
        comparator: Some("mine".to_owned()),
        ..VersionEdit::default()
    };
    create(&fs, &empty(), &[other]);
    let error = read_back(&fs).unwrap_err();
    assert_eq!(error, Error::invalid_argument("default: comparator mine"));
}

#[test]
fn the_names_of_families_need_no_comparator() {
    let fs = MemFileSystem::new();
    let order = VersionEdit {
        comparator: Some("mine".to_owned()),
        ..VersionEdit::default()
    };
    // In bytewise order this table's bounds are inverted.
    create(&fs, &empty(), &[order, adds(6, vec![file(3, "b", "a")])]);
    let number = current(&fs, Path::new(DIR)).unwrap().unwrap();
    assert_eq!(families(&fs, Path::new(DIR), number).unwrap(), ["default"]);
}

#[test]
fn bounds_without_timestamps_get_the_smallest() {
    let fs = MemFileSystem::new();
    let [smallest, largest] = ["c", "d"].map(|key| format!("{key}{}", "\0".repeat(8)));
    let mut stripped = FileMeta::clone(&file(20, &smallest, &largest));
    stripped.timestamps.persisted = false;
    let mut edit = adds(1, vec![Arc::new(stripped)]);
    edit.comparator = Some("leveldb.BytewiseComparator.u64ts".to_owned());
    create(&fs, &empty(), &[edit]);
    let recovered = read_back(&fs).unwrap();
    let file = &recovered.families[0].version.level(1).files()[0];
    assert_eq!(file.smallest.user_key(), b"c\0\0\0\0\0\0\0\0");
    // They are recorded without.
    assert_eq!(file.largest.user_key(), largest.as_bytes());
}

/// Regression: a family whose comparator RocksDB replaced by one without timestamps lost the last 8 bytes of the bounds of
/// its tables with each new MANIFEST.
#[test]
fn bounds_of_a_family_that_has_no_timestamps_any_more_are_kept() {
    let fs = MemFileSystem::new();
    let mut stripped = FileMeta::clone(&file(20, "a-long-key", "b-long-key"));
    stripped.timestamps.persisted = false;
    let mut written = stripped.clone();
    // As recorded without timestamps.
    let padded = |bound: &InternalKey| {
        let user = [bound.user_key(), &[0; 8]].concat();
        InternalKey::new(&user, bound.seq(), bound.kind())
    };
    (written.smallest, written.largest) = (padded(&stripped.smallest), padded(&stripped.largest));
    create(&fs, &empty(), &[adds(1, vec![Arc::new(written)])]);
    for round in 0..3 {
        let recovered = read_back(&fs).unwrap();
        let file = &recovered.families[0].version.level(1).files()[0];
        assert_eq!(
            (&file.smallest, &file.largest),
            (&stripped.smallest, &stripped.largest),
            "{round}"
        );
        create(&fs, &recovered.families[0].version, &[]);
    }
}

/// Regression: such a table was deleted by the compaction of one of its places, while the other was in use.
#[test]
fn a_table_in_two_places_is_corruption() {
    let family = |mut edit: VersionEdit| {
        edit.family = 1;
        edit
    };
    let other = VersionEdit {
        family: 1,
        family_change: Some(FamilyChange::Add {
            name: "other".to_owned(),
        }),
        ..VersionEdit::default()
    };
    let table = || vec![file(20, "a", "b")];
    for (second, place) in [
        (adds(2, table()), "default"),
        (family(adds(1, table())), "other"),
    ] {
        let fs = MemFileSystem::new();
        create(&fs, &empty(), &[other.clone(), adds(1, table()), second]);
        let error = read_back(&fs).unwrap_err();
        assert_eq!(error.code(), Code::Corruption);
        let expected = format!(
            "of column family {place:?}, but it is in level 1 of column family \"default\""
        );
        assert!(error.text().contains(&expected), "{error}");
    }
    // So is a blob file.
    let fs = MemFileSystem::new();
    let mut blob = VersionEdit::default();
    blob.tree.blob_additions = vec![BlobAddition {
        number: FileNumber(30),
        blob_count: 1,
        blob_bytes: 10,
        ..BlobAddition::default()
    }];
    create(&fs, &empty(), &[other.clone(), blob.clone(), family(blob)]);
    let error = read_back(&fs).unwrap_err();
    let expected = "to column family \"other\", but it is in column family \"default\"";
    assert!(
        error.is_corruption() && error.text().contains(expected),
        "{error}"
    );
    // A table can move.
    let fs = MemFileSystem::new();
    let mut moved = adds(2, table());
    moved.tree.deleted_files = vec![(1, FileNumber(20))];
    create(&fs, &empty(), &[other, adds(1, table()), moved]);
    assert_eq!(
        read_back(&fs).unwrap().families[0]
            .version
            .level(2)
            .files()
            .len(),
        1
    );
}

#[test]
fn inverted_bounds_in_level_0_are_corruption() {
    let fs = MemFileSystem::new();
    create(&fs, &empty(), &[adds(0, vec![file(3, "b", "a")])]);
    let error = read_back(&fs).unwrap_err();
    assert_eq!(error.code(), Code::Corruption);
    assert!(
        error.text().contains("smallest key of table 000003"),
        "{error}"
    );
}

#[test]
fn a_manifest_is_rotated_when_it_has_grown() {
    let fs = MemFileSystem::new();
    let mut manifest = create(&fs, &empty(), &[]);
    assert!(!manifest.wants_rotation(200, 100));
    for number in 0..20 {
        manifest
            .append(&[adds(0, vec![file(100 + number, "a", "b")])])
            .unwrap();
    }
    assert!(manifest.wants_rotation(200, 100) && !manifest.wants_rotation(1 << 30, 100));
}
