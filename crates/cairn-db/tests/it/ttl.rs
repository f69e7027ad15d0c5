//! Databases whose values have a time to live: the stored form, the visible values, and their expiry.

#![expect(clippy::unwrap_used, reason = "an absent value fails the test")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_db::{
    Db, FamilyDescriptor, MayExist, OpenRequest, SstFileReader, SstFileWriter, WriteBatch,
    load_latest_options, open,
};
use cairn_format::dated;
use cairn_options::{
    BottommostLevelCompaction, CompactRangeOptions, DbOptions, FamilyOptions,
    IngestExternalFileOptions, Options, ReadOptions,
};
use cairn_sim::SimWorld;
use cairn_types::{Code, CompactionFilter, FilterDecision, FilterValue, Result, SequenceNumber};
use proptest::prelude::*;

use crate::basic::{db_options, small};

const TTL: u64 = 3_600;

fn options(text: &str) -> FamilyOptions {
    let mut options = small();
    options.disable_auto_compactions = true;
    options.update_from(text).unwrap();
    options
}

fn open_with(sim: &SimWorld, family: &FamilyOptions) -> Result<Db> {
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &db_options(),
        families: &[],
        others: Some(family),
        read_only: false,
        world: sim.world.clone(),
    })
}

fn opened(sim: &SimWorld, text: &str) -> Db {
    open_with(sim, &options(text)).unwrap()
}

fn let_pass(sim: &SimWorld, seconds: u64) {
    sim.clock.advance(Duration::from_secs(seconds));
}

fn compact(db: &Db) {
    let all = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    for family in db.families() {
        family.compact_range(None, None, &all).unwrap();
    }
}

/// Returns the value of `key` by a get, and checks that all other kinds of reads return the same.
fn shown(db: &Db, key: &[u8]) -> Option<Vec<u8>> {
    let reads = ReadOptions::default();
    let found = db.get(key).unwrap().map(|value| value.to_vec());
    let many = db.multi_get(&[b"0".as_slice(), key], &reads);
    assert_eq!(many[1].as_ref().unwrap().as_deref(), found.as_deref());
    let columns = db.get_entity(key, &reads).unwrap();
    assert_eq!(
        columns.as_ref().map(|columns| columns.get(b"").unwrap()),
        found.as_deref()
    );
    let mut buffer = [0; 64];
    let len = db.get_into(key, &mut buffer, &reads).unwrap();
    assert_eq!(len.map(|len| &buffer[..len]), found.as_deref());
    match db.key_may_exist(key, &reads) {
        MayExist::Yes(value) => assert_eq!(Some(&*value), found.as_deref()),
        MayExist::No => assert!(found.is_none()),
        MayExist::Perhaps => {}
    }
    let mut iter = db.iter();
    iter.seek(key);
    let there = (iter.valid() && iter.key() == key).then(|| {
        assert_eq!(*iter.value_pinned(), *iter.value());
        assert_eq!(iter.columns().unwrap().get(b""), Some(iter.value()));
        iter.value().to_vec()
    });
    iter.status().unwrap();
    assert_eq!(there, found);
    iter.seek_for_prev(key);
    let there = (iter.valid() && iter.key() == key).then(|| iter.value().to_vec());
    assert_eq!(there, found);
    found
}

fn seconds(sim: &SimWorld) -> u64 {
    sim.world.clock.wall_seconds()
}

#[test]
fn values_are_visible_until_a_compaction_drops_them_as_expired() {
    let sim = SimWorld::new(1);
    let db = opened(&sim, &format!("value_ttl={TTL}"));
    db.put(b"granite", b"igneous").unwrap();
    assert_eq!(shown(&db, b"granite").unwrap(), b"igneous");
    let_pass(&sim, TTL / 2);
    db.put(b"slate", b"metamorphic").unwrap();
    db.flush().unwrap();
    compact(&db);
    assert_eq!(shown(&db, b"granite").unwrap(), b"igneous");

    let_pass(&sim, TTL / 2 + 2);
    assert_eq!(
        shown(&db, b"granite").unwrap(),
        b"igneous",
        "nothing has compacted it"
    );
    compact(&db);
    assert_eq!(shown(&db, b"granite"), None);
    assert_eq!(shown(&db, b"slate").unwrap(), b"metamorphic");

    // A value that is put again starts over.
    db.put(b"slate", b"roof").unwrap();
    let_pass(&sim, TTL - 2);
    compact(&db);
    assert_eq!(shown(&db, b"slate").unwrap(), b"roof");
}

#[test]
fn stored_values_have_a_timestamp_suffix_that_is_not_visible() {
    let sim = SimWorld::new(2);
    let before = seconds(&sim);
    {
        let db = opened(&sim, "value_ttl=0;merge_operator=stringappend");
        db.put(b"a", b"flushed").unwrap();
        db.flush().unwrap();
        db.put(b"b", b"").unwrap();
        db.merge(b"c", b"x").unwrap();
        db.merge(b"c", b"y").unwrap();
        assert_eq!(shown(&db, b"c").unwrap(), b"x,y");
        let operands = db.get_merge_operands(b"c", 9, &ReadOptions::default());
        let operands = operands.unwrap();
        assert_eq!(operands.iter().collect::<Vec<_>>(), [b"x", b"y"]);
        db.close().unwrap();
    }
    // Opened without a TTL, as RocksDB would read it. The operator was not recorded as the family's own.
    let db = opened(&sim, "");
    for (key, value) in [(b"a", b"flushed".as_slice()), (b"b", b"")] {
        let stored = db.get(key).unwrap().unwrap();
        let (found, date) = dated::decode(&stored).unwrap();
        assert_eq!(found, value);
        assert!((before..before + 60).contains(&date));
    }
    assert_eq!(db.get(b"c").unwrap_err().code(), Code::InvalidArgument);
    // Values written now have no date.
    db.put(b"d", b"abc").unwrap();
    db.put(b"e", b"abc\0\0\0\0").unwrap();
    db.close().unwrap();

    let db = opened(&sim, "value_ttl=5;merge_operator=stringappend");
    for (key, words) in [(b"d", "less than"), (b"e", "release time")] {
        let error = db.get(key).unwrap_err();
        assert!(
            error.is_corruption() && error.to_string().contains(words),
            "{error}"
        );
        let many = db.multi_get(&[b"a", key], &ReadOptions::default());
        assert_eq!(many[0].as_ref().unwrap().as_deref(), Some(&b"flushed"[..]));
        assert!(many[1].as_ref().unwrap_err().is_corruption());
    }
    // Their age is unknown.
    let_pass(&sim, 99);
    compact(&db);
    assert!(db.get(b"a").unwrap().is_none());
    assert!(db.get(b"d").is_err() && db.get(b"e").is_err());
    assert_eq!(shown(&db, b"c").unwrap(), b"x,y");
    db.close().unwrap();
    drop(db);
    // The operator wrapped by the recorded one is found again.
    let db = opened(&sim, "value_ttl=5");
    db.merge(b"c", b"z").unwrap();
    assert_eq!(shown(&db, b"c").unwrap(), b"x,y,z");
}

#[test]
fn a_batch_has_one_date_and_logs_keep_the_dates() {
    let sim = SimWorld::new(3);
    let db = opened(&sim, "value_ttl=60;merge_operator=stringappend");
    let other = db.create_family("other", &options("")).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"k", b"v");
    batch.put_in(&other, b"k", b"w");
    batch.merge(b"m", b"1");
    batch.timed_put(b"t", b"timed", 7);
    batch.put_entity(b"e", &[(b"", b"default"), (b"kind", b"rock")]);
    batch.delete(b"gone");
    batch.put(b"once", b"x");
    batch.single_delete(b"once");
    batch.put_log_data(b"note");
    db.write(&batch).unwrap();
    let check = |db: &Db| {
        assert_eq!(shown(db, b"k").unwrap(), b"v");
        assert_eq!(shown(db, b"m").unwrap(), b"1");
        assert_eq!(shown(db, b"t").unwrap(), b"timed");
        assert_eq!(shown(db, b"e").unwrap(), b"default");
        assert_eq!(shown(db, b"once"), None);
        let other = db.family("other").unwrap();
        assert_eq!(other.get(b"k").unwrap().as_deref(), Some(&b"w"[..]));
    };
    check(&db);
    // The change stream has the content of the logs.
    let (_, logged) = db
        .updates_since(SequenceNumber(1))
        .unwrap()
        .batch()
        .unwrap();
    let date = dated::encode(seconds(&sim));
    let stored = logged.records().next().unwrap().unwrap();
    assert!(format!("{stored:?}").contains(&format!("{:?}", [b"v".as_slice(), &date].concat())));
    db.close().unwrap();
    drop((db, other));

    let db = opened(&sim, "value_ttl=60;merge_operator=stringappend");
    check(&db);
    let_pass(&sim, 62);
    compact(&db);
    for key in [b"k", b"t"] {
        assert_eq!(shown(&db, key), None);
    }
    // Entities have no date; values merged by the flush of the opening get the current one.
    assert_eq!(shown(&db, b"e").unwrap(), b"default");
    let other = db.family("other").unwrap();
    assert!(
        other.get(b"k").unwrap().is_none(),
        "all families of an opening have its options"
    );
}

#[test]
fn a_merged_value_has_the_date_of_the_merge() {
    let sim = SimWorld::new(4);
    let db = opened(&sim, "value_ttl=100;merge_operator=stringappend");
    db.put(b"k", b"a").unwrap();
    db.put_entity(b"e", &[(b"", b"a"), (b"n", b"v")]).unwrap();
    db.flush().unwrap();
    let_pass(&sim, 90);
    db.merge(b"k", b"b").unwrap();
    db.merge(b"e", b"b").unwrap();
    db.flush().unwrap();
    let_pass(&sim, 90);
    assert_eq!(shown(&db, b"k").unwrap(), b"a,b");
    compact(&db);
    assert_eq!(shown(&db, b"k").unwrap(), b"a,b", "merged now");
    let_pass(&sim, 90);
    compact(&db);
    assert_eq!(shown(&db, b"k").unwrap(), b"a,b");
    let_pass(&sim, 20);
    compact(&db);
    assert_eq!(shown(&db, b"k"), None);
    let columns = db
        .get_entity(b"e", &ReadOptions::default())
        .unwrap()
        .unwrap();
    let columns: Vec<_> = columns.iter().collect();
    assert_eq!(columns, [(&b""[..], &b"a,b"[..]), (b"n", b"v")]);
}

#[test]
fn operands_merged_early_are_dated_as_well() {
    let sim = SimWorld::new(5);
    let db = opened(
        &sim,
        "value_ttl=0;merge_operator=stringappend;max_successive_merges=1",
    );
    db.put_entity(b"e", &[(b"", b"a")]).unwrap();
    db.put(b"k", b"a").unwrap();
    for operand in [b"b", b"c", b"d"] {
        db.merge(b"k", operand).unwrap();
        db.merge(b"e", operand).unwrap();
    }
    assert_eq!(shown(&db, b"k").unwrap(), b"a,b,c,d");
    assert_eq!(shown(&db, b"e").unwrap(), b"a,b,c,d");
    let operands = db
        .get_merge_operands(b"k", 9, &ReadOptions::default())
        .unwrap();
    assert!(operands.len() < 4, "some were merged");
    db.flush().unwrap();
    compact(&db);
    assert_eq!(shown(&db, b"k").unwrap(), b"a,b,c,d");
    assert_eq!(shown(&db, b"e").unwrap(), b"a,b,c,d");
}

#[test]
fn large_values_are_dated_in_their_blob_files() {
    let sim = SimWorld::new(6);
    let db = opened(
        &sim,
        "value_ttl=60;enable_blob_files=true;merge_operator=stringappend",
    );
    db.put(b"k", b"in a blob file").unwrap();
    db.put(b"m", b"base").unwrap();
    db.flush().unwrap();
    db.merge(b"m", b"more").unwrap();
    assert_eq!(shown(&db, b"k").unwrap(), b"in a blob file");
    assert_eq!(shown(&db, b"m").unwrap(), b"base,more");
    let unprepared = ReadOptions {
        allow_unprepared_value: true,
        ..ReadOptions::default()
    };
    let mut iter = db.iter_with(&unprepared);
    iter.seek(b"k");
    assert!(iter.prepare_value());
    assert_eq!(iter.value(), b"in a blob file");
    drop(iter);
    let_pass(&sim, 62);
    compact(&db);
    assert_eq!(shown(&db, b"k"), None);
    assert_eq!(shown(&db, b"m").unwrap(), b"base,more");
}

#[test]
fn the_time_to_live_can_change_but_cannot_be_added_or_removed() {
    let sim = SimWorld::new(7);
    let db = opened(&sim, "value_ttl=-1");
    db.put(b"k", b"v").unwrap();
    let_pass(&sim, 1_000_000);
    compact(&db);
    assert_eq!(shown(&db, b"k").unwrap(), b"v");
    let error = db.set_options(&[("value_ttl", "nullptr")]).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    db.set_options(&[("value_ttl", "2000000")]).unwrap();
    compact(&db);
    assert_eq!(shown(&db, b"k").unwrap(), b"v");
    // The OPTIONS file has it in RocksDB's form, which can be read.
    let file = load_latest_options(Path::new("/db"), false, &sim.world).unwrap();
    assert_eq!(file.families[0].1.value_ttl, Some(2_000_000));
    db.set_options(&[("value_ttl", "5")]).unwrap();
    assert_eq!(db.default_family().options().value_ttl, Some(5));
    compact(&db);
    assert_eq!(shown(&db, b"k"), None);
    db.close().unwrap();
    drop(db);

    let db = opened(&sim, "");
    let error = db.set_options(&[("value_ttl", "5")]).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let error = db.create_family("f", &options("value_ttl=5")).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}

#[test]
fn families_have_their_own_times_to_live_and_all_have_dates() {
    let sim = SimWorld::new(8);
    let families = [
        FamilyDescriptor::new("default", options("value_ttl=0")),
        FamilyDescriptor::new("short", options("value_ttl=10")),
        FamilyDescriptor::new("silent", options("")),
    ];
    let open = |families: &[FamilyDescriptor]| {
        open(&OpenRequest {
            path: Path::new("/db"),
            options: &DbOptions {
                create_missing_column_families: true,
                ..db_options()
            },
            families,
            others: None,
            read_only: false,
            world: sim.world.clone(),
        })
    };
    let db = open(&families).unwrap();
    let (short, silent) = (db.family("short").unwrap(), db.family("silent").unwrap());
    let later = db.create_family("later", &options("")).unwrap();
    assert_eq!(silent.options().value_ttl, Some(0));
    for family in [db.default_family(), &short, &silent, &later] {
        family.put(b"k", b"v").unwrap();
    }
    let_pass(&sim, 12);
    compact(&db);
    for family in [db.default_family(), &silent, &later] {
        assert_eq!(family.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    }
    assert!(short.get(b"k").unwrap().is_none());
    let pairs = [
        (db.default_family(), &b"k"[..]),
        (&short, b"k"),
        (&later, b"k"),
    ];
    let found = db.multi_get_in(&pairs, &ReadOptions::default(), false);
    let found: Vec<_> = found
        .into_iter()
        .map(|one| one.unwrap().map(Vec::from))
        .collect();
    assert_eq!(found, [Some(b"v".to_vec()), None, Some(b"v".to_vec())]);
    let iters = [&silent, &later];
    for iter in &mut db.iterators(&iters, &ReadOptions::default()).unwrap() {
        iter.seek_to_first();
        assert_eq!(iter.value(), b"v");
    }
    db.close().unwrap();
    drop((db, short, silent, later));

    let undecided = [
        FamilyDescriptor::new("default", options("")),
        FamilyDescriptor::new("short", options("value_ttl=10")),
        FamilyDescriptor::new("silent", options("")),
        FamilyDescriptor::new("later", options("")),
    ];
    let error = open(&undecided).err().unwrap();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
}

#[test]
fn ingested_tables_keep_their_dates() {
    let sim = SimWorld::new(9);
    let family = options("value_ttl=60;merge_operator=stringappend");
    let db = open_with(&sim, &family).unwrap();
    sim.world.fs.create_dir_all("/out".as_ref()).unwrap();
    let mut writer = SstFileWriter::new(&sim.world, &DbOptions::default(), &family);
    writer.open("/out/1.sst".as_ref()).unwrap();
    writer.put(b"k", b"v").unwrap();
    writer.merge(b"m", b"operand").unwrap();
    writer.finish().unwrap();
    let reader = SstFileReader::open(&sim.world, "/out/1.sst".as_ref(), &family).unwrap();
    assert_eq!(reader.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    let ingest = IngestExternalFileOptions::default();
    db.ingest_external_file(["/out/1.sst"], &ingest).unwrap();
    assert_eq!(shown(&db, b"k").unwrap(), b"v");
    assert_eq!(shown(&db, b"m").unwrap(), b"operand");
    let_pass(&sim, 62);
    compact(&db);
    assert_eq!(shown(&db, b"k"), None);
}

/// Drops values that are `x`, and changes others once.
struct Marks;

impl CompactionFilter for Marks {
    fn name(&self) -> &str {
        "marks"
    }

    fn filter(&self, _: usize, _: &[u8], value: FilterValue<'_>) -> FilterDecision {
        match value {
            FilterValue::Value(b"x") => FilterDecision::Remove,
            FilterValue::Value(value) if !value.ends_with(b"!") => {
                FilterDecision::ChangeValue([value, b"!"].concat())
            }
            _ => FilterDecision::Keep,
        }
    }
}

#[test]
fn the_programs_filter_gets_values_without_dates() {
    let sim = SimWorld::new(10);
    let mut family = options("value_ttl=100");
    family.compaction_filter = (Arc::new(Marks) as Arc<dyn CompactionFilter>).into();
    let db = open_with(&sim, &family).unwrap();
    for (key, value) in [(b"a", b"x"), (b"b", b"y")] {
        db.put(key, value).unwrap();
    }
    let_pass(&sim, 60);
    compact(&db);
    assert_eq!(shown(&db, b"a"), None);
    assert_eq!(shown(&db, b"b").unwrap(), b"y!");
    let_pass(&sim, 60);
    compact(&db);
    assert_eq!(shown(&db, b"b"), None, "what is changed keeps its time");
}

#[test]
fn with_a_wrong_clock_nothing_is_written() {
    let sim = SimWorld::new(11);
    let db = opened(&sim, "value_ttl=0");
    db.put(b"k", b"v").unwrap();
    let back = i64::try_from(seconds(&sim)).unwrap() - 1_000_000_000;
    sim.clock.jump_wall_seconds(-back);
    assert_eq!(db.put(b"k", b"w").unwrap_err().code(), Code::Aborted);
    sim.clock.jump_wall_seconds(back);
    assert_eq!(shown(&db, b"k").unwrap(), b"v");
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8, u8),
    Merge(u8, u8),
    Delete(u8),
    Pass(u64),
    Flush,
    Compact,
    SetTtl(i32),
    Reopen(i32),
}

fn op() -> impl Strategy<Value = Op> {
    let ttl = || prop_oneof![Just(-1), Just(0), 20i32..200];
    prop_oneof![
        6 => (0u8..8, any::<u8>()).prop_map(|(key, value)| Op::Put(key, value)),
        3 => (0u8..8, any::<u8>()).prop_map(|(key, value)| Op::Merge(key, value)),
        1 => (0u8..8).prop_map(Op::Delete),
        5 => (1u64..60).prop_map(Op::Pass),
        2 => Just(Op::Flush),
        3 => Just(Op::Compact),
        1 => ttl().prop_map(Op::SetTtl),
        1 => ttl().prop_map(Op::Reopen),
    ]
}

/// The value of a key, and bounds of its date: not before the first and not after the second time. The second
/// is unknown while operands are unmerged.
struct Kept {
    value: Vec<u8>,
    earliest: u64,
    latest: Option<u64>,
}

/// The uncertainty of the times in the model, in seconds: the clock advances while the engine works.
const SLACK: u64 = 2;

/// The effect of a compaction at `now` on `kept` if values live for `ttl` seconds; `None` if both outcomes
/// are possible.
fn survives(kept: &Kept, ttl: i32, now: u64) -> Option<bool> {
    let Some(ttl) = u64::try_from(ttl).ok().filter(|ttl| *ttl > 0) else {
        return Some(true);
    };
    if kept.earliest + ttl >= now + SLACK {
        return Some(true);
    }
    let over = kept.latest.is_some_and(|latest| latest + ttl + SLACK < now);
    over.then_some(false)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Values are returned as they were written, and are dropped by the first compaction after they expire.
    #[test]
    fn values_are_dropped_by_the_first_compaction_after_expiry(
        ops in proptest::collection::vec(op(), 1..60),
        blobs in any::<bool>(),
    ) {
        let sim = SimWorld::new(12);
        let text = |ttl: i32| format!(
            "value_ttl={ttl};merge_operator=stringappend;enable_blob_files={blobs};min_blob_size=6"
        );
        let mut ttl = 50;
        let mut db = opened(&sim, &text(ttl));
        let mut model: BTreeMap<u8, Kept> = BTreeMap::new();
        for op in ops {
            match op {
                Op::Put(key, value) => {
                    let value = vec![b'a' + value % 26; usize::from(value % 9)];
                    db.put(&[key], &value).unwrap();
                    let now = seconds(&sim);
                    model.insert(key, Kept { value, earliest: now, latest: Some(now) });
                }
                Op::Merge(key, value) => {
                    let operand = [b'A' + value % 26];
                    db.merge(&[key], &operand).unwrap();
                    let value = match model.remove(&key) {
                        Some(kept) => [&kept.value[..], b",", &operand].concat(),
                        None => operand.to_vec(),
                    };
                    model.insert(key, Kept { value, earliest: seconds(&sim), latest: None });
                }
                Op::Delete(key) => {
                    db.delete(&[key]).unwrap();
                    model.remove(&key);
                }
                Op::Pass(seconds) => let_pass(&sim, seconds),
                Op::Flush => db.flush().unwrap(),
                Op::Compact => {
                    compact(&db);
                    let now = seconds(&sim);
                    model.retain(|key, kept| {
                        let stays = survives(kept, ttl, now);
                        let stays = stays.unwrap_or_else(|| shown(&db, &[*key]).is_some());
                        kept.latest.get_or_insert(now);
                        stays
                    });
                }
                Op::SetTtl(next) => {
                    ttl = next;
                    db.set_options(&[("value_ttl", &next.to_string())]).unwrap();
                }
                Op::Reopen(next) => {
                    ttl = next;
                    db.close().unwrap();
                    drop(db);
                    db = opened(&sim, &text(ttl));
                }
            }
            for key in 0..8 {
                let expected = model.get(&key).map(|kept| kept.value.clone());
                prop_assert_eq!(shown(&db, &[key]), expected);
            }
            let mut iter = db.iter();
            iter.seek_to_last();
            let mut found = Vec::new();
            while iter.valid() {
                found.insert(0, (iter.key()[0], iter.value().to_vec()));
                iter.prev();
            }
            let expected = model.iter().map(|(key, kept)| (*key, kept.value.clone()));
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }
}
