//! User-defined timestamps: both engines apply the same writes, exchange their databases (logs included), and must
//! return the same values, timestamps and versions, before and after history is dropped.

use std::path::Path;

use cairn::compaction::BottommostLevelCompaction;
use cairn::{CompactRangeOptions, Db, FamilyDescriptor, Options, ReadOptions, WriteBatch};
use cairn_bench::rocksdb::{self, Library, OpenMode};
use cairn_format::batch::WriteBatch as Encoded;
use cairn_sim::Rng;

/// The families, with their options: two with timestamps, of which one has merge operands, and one without.
const FAMILIES: [(&str, &str); 3] = [
    (
        "default",
        "comparator=leveldb.BytewiseComparator.u64ts;disable_auto_compactions=true",
    ),
    (
        "reverse",
        "comparator=rocksdb.ReverseBytewiseComparator.u64ts;merge_operator=stringappend;\
         disable_auto_compactions=true",
    ),
    ("plain", "disable_auto_compactions=true"),
];

/// Key, timestamp, kind in an iteration over versions, and value.
type Row = (Vec<u8>, Vec<u8>, u8, Vec<u8>);

/// One of the two engines with a database.
enum Engine {
    Cairn(Db),
    RocksDb(Box<rocksdb::Db>),
}

fn descriptors() -> Vec<FamilyDescriptor> {
    let family = |(name, text): (&str, &str)| {
        let options = Options::default()
            .text(text)
            .expect("the options are known");
        FamilyDescriptor::new(name, options.family)
    };
    FAMILIES.map(family).into()
}

impl Engine {
    fn cairn(path: &Path) -> Engine {
        let options = Options::default()
            .create_if_missing(true)
            .text("create_missing_column_families=true")
            .unwrap();
        let builder = Db::builder(path).options(options);
        Engine::Cairn(builder.families(descriptors()).open().unwrap())
    }

    fn rocksdb(library: &Library, path: &Path) -> Engine {
        let options = "create_if_missing=true;create_missing_column_families=true";
        let db = rocksdb::Db::open(library, path, options, &FAMILIES, OpenMode::Create);
        Engine::RocksDb(Box::new(db.unwrap()))
    }

    fn write(&self, batch: &Encoded) {
        match self {
            Engine::Cairn(db) => {
                let batch = WriteBatch::from_data(batch.as_bytes()).unwrap();
                db.write(&batch).unwrap();
            }
            Engine::RocksDb(db) => db.write(&db.batch_of(batch.as_bytes())).unwrap(),
        }
    }

    fn flush(&self) {
        for (name, _) in FAMILIES {
            match self {
                Engine::Cairn(db) => db.family(name).unwrap().flush().unwrap(),
                Engine::RocksDb(db) => db.flush(db.family(name).unwrap()).unwrap(),
            }
        }
    }

    fn raise(&self, low: u64) {
        for (name, _) in &FAMILIES[..2] {
            let low = low.to_le_bytes();
            match self {
                Engine::Cairn(db) => {
                    let family = db.family(name).unwrap();
                    family.increase_full_history_ts_low(&low).unwrap();
                }
                Engine::RocksDb(db) => {
                    let family = db.family(name).unwrap();
                    db.increase_full_history_ts_low(family, &low).unwrap();
                }
            }
        }
    }

    fn compact(&self) {
        for (name, _) in FAMILIES {
            match self {
                Engine::Cairn(db) => {
                    let options = CompactRangeOptions {
                        bottommost_level_compaction: BottommostLevelCompaction::Force,
                        ..CompactRangeOptions::default()
                    };
                    let family = db.family(name).unwrap();
                    family.compact_range(None, None, &options).unwrap();
                }
                Engine::RocksDb(db) => db.compact(db.family(name).unwrap()),
            }
        }
    }

    /// The content of a family at a timestamp, in both directions; with `versions`, all versions with their kinds.
    fn scan(&mut self, name: &str, at: u64, versions: bool) -> Vec<Row> {
        let (at, start) = (at.to_le_bytes(), 0_u64.to_le_bytes());
        let (mut rows, mut back) = (Vec::new(), Vec::new());
        match self {
            Engine::Cairn(db) => {
                let mut iter = db.family(name).unwrap().iter_with(&ReadOptions {
                    timestamp: Some(at.to_vec()),
                    iter_start_ts: versions.then(|| start.to_vec()),
                    ..ReadOptions::default()
                });
                let row = |iter: &cairn::Iter<'_>| {
                    let (key, value) = (iter.key().to_vec(), iter.value().to_vec());
                    (
                        key,
                        iter.timestamp().to_vec(),
                        iter.is_deletion().into(),
                        value,
                    )
                };
                iter.seek_to_first();
                while iter.valid() {
                    rows.push(row(&iter));
                    iter.next();
                }
                iter.seek_to_last();
                while iter.valid() {
                    back.push(row(&iter));
                    iter.prev();
                }
                iter.status().unwrap();
            }
            Engine::RocksDb(db) => {
                db.read_at(&at);
                db.versions_since(versions.then_some(&start[..]));
                let mut iter = db.iter(db.family(name).unwrap());
                let row = |iter: &rocksdb::Iter<'_>| {
                    let (mut key, mut kind) = (iter.key(), 0);
                    if versions {
                        kind = u8::from(matches!(key[key.len() - 8], 0 | 7 | 0x14));
                        key = &key[..key.len() - 16];
                    }
                    let value = match kind {
                        0 => iter.value().to_vec(),
                        // The value of an earlier entry.
                        _ => Vec::new(),
                    };
                    (key.to_vec(), iter.timestamp().to_vec(), kind, value)
                };
                iter.seek_to_first();
                while iter.valid() {
                    rows.push(row(&iter));
                    iter.next();
                }
                iter.status().unwrap();
                if versions {
                    // Backward, RocksDB returns every entry of a version.
                    return rows;
                }
                iter.seek_to_last();
                while iter.valid() {
                    back.push(row(&iter));
                    iter.prev();
                }
                iter.status().unwrap();
            }
        }
        back.reverse();
        assert_eq!(rows, back, "{name} at {at:?}");
        rows
    }

    fn get(&mut self, name: &str, key: &[u8], at: u64) -> Option<Vec<u8>> {
        let at = at.to_le_bytes();
        match self {
            Engine::Cairn(db) => {
                let options = ReadOptions {
                    timestamp: Some(at.to_vec()),
                    ..ReadOptions::default()
                };
                let found = db.family(name).unwrap().get_with(key, &options).unwrap();
                found.map(|value| value.to_vec())
            }
            Engine::RocksDb(db) => {
                db.read_at(&at);
                let found = db.get(db.family(name).unwrap(), key).unwrap();
                found.map(|value| value.to_vec())
            }
        }
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:02}").into_bytes()
}

/// The rows are the same.
fn same(ours: &[Row], theirs: &[Row], what: &str, at: u64) {
    let only = |rows: &[Row], others: &[Row]| -> Vec<String> {
        let missing = rows.iter().filter(|row| !others.contains(row));
        missing
            .map(|(key, stamp, kind, value)| {
                let [key, value] = [key, value].map(|bytes| String::from_utf8_lossy(bytes));
                format!("{key} at {} ({kind}): {value}", stamp[0])
            })
            .collect()
    };
    assert!(
        ours == theirs,
        "{what} at {at}: ours has {:?}, theirs has {:?}",
        only(ours, theirs),
        only(theirs, ours)
    );
}

/// Both engines return the same from timestamp `low` on, at which history begins.
fn agree(ours: &mut Engine, theirs: &mut Engine, low: u64, now: u64) {
    for at in [low, low + 1, (low + now) / 2, now, u64::MAX] {
        for (name, _) in &FAMILIES[..2] {
            same(
                &ours.scan(name, at, false),
                &theirs.scan(name, at, false),
                name,
                at,
            );
            for number in 0..30 {
                let key = key(number);
                assert_eq!(
                    ours.get(name, &key, at),
                    theirs.get(name, &key, at),
                    "{name} {number} at {at}"
                );
            }
        }
        let (ours, theirs) = (
            ours.scan("default", at, true),
            theirs.scan("default", at, true),
        );
        same(&ours, &theirs, "versions", at);
    }
}

/// Random writes at ascending timestamps, the same to both engines.
fn write(rng: &mut Rng, engines: [&Engine; 2], now: &mut u64, merges: bool) {
    for round in 0..60 {
        *now += rng.below(3) as u64;
        let stamp = now.to_le_bytes();
        let stamped = |number: u64| [&key(number)[..], &stamp].concat();
        let mut batch = Encoded::new();
        for _ in 0..=rng.below(3) {
            let (family, number) = (rng.below(2) as u32, rng.below(30) as u64);
            let value = format!("{round} at {now}");
            match rng.below(10) {
                0..5 => batch.put(family, &stamped(number), value.as_bytes()),
                5 | 6 if family == 1 && merges => {
                    batch.merge(family, &stamped(number), value.as_bytes())
                }
                5..=8 => batch.delete(family, &stamped(number)),
                // Not together with merge operands: RocksDB's flush drops operands that a range deletion with a newer
                // timestamp covers, which reads at older timestamps should see.
                9 if family == 0 => {
                    let end = number + 1 + rng.below(3) as u64;
                    batch.delete_range(family, &stamped(number), &stamped(end))
                }
                _ => batch.put(2, &key(number), value.as_bytes()),
            }
            .unwrap();
        }
        for engine in engines {
            engine.write(&batch);
            if round % 25 == 24 {
                engine.flush();
            }
        }
    }
}

#[test]
fn both_engines_return_the_same_versions_and_drop_the_same_history() {
    let Some(library) = crate::library() else {
        return;
    };
    for seed in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        let mut rng = Rng::new(seed);
        let mut now = 1;
        let (mut low, mut paths) = (0, [first, second]);
        for round in 0..3 {
            let mut ours = Engine::cairn(&paths[0]);
            let mut theirs = Engine::rocksdb(&library, &paths[1]);
            // What the other engine wrote last is recovered from its log.
            agree(&mut ours, &mut theirs, low, now);
            // Only before history is dropped: RocksDB merges operands at and above full_history_ts_low into older
            // versions, which reads at older timestamps then do not find.
            write(&mut rng, [&ours, &theirs], &mut now, round == 0);
            agree(&mut ours, &mut theirs, low, now);
            if round > 0 {
                low = now - 10;
                for engine in [&ours, &theirs] {
                    engine.raise(low);
                    engine.compact();
                }
                agree(&mut ours, &mut theirs, low, now);
                write(&mut rng, [&ours, &theirs], &mut now, false);
            }
            drop((ours, theirs));
            paths.reverse();
        }
    }
}

/// Regression: of a family whose comparator RocksDB replaced by one without timestamps, keys were not found once this
/// engine had opened it twice.
#[test]
fn keys_are_found_after_timestamps_are_given_up() {
    let Some(library) = crate::library() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let open = |options: &str, mode| {
        let families = [("default", options)];
        rocksdb::Db::open(&library, folder.path(), options, &families, mode).unwrap()
    };
    let stamped = "create_if_missing=true;allow_concurrent_memtable_write=false;\
                   comparator=leveldb.BytewiseComparator.u64ts;persist_user_defined_timestamps=false";
    let db = open(stamped, OpenMode::Create);
    let mut batch = Encoded::new();
    for number in 0..50_u64 {
        let stamped = [key(number), (number + 1).to_le_bytes().to_vec()].concat();
        batch.put(0, &stamped, b"value").unwrap();
    }
    db.write(&db.batch_of(batch.as_bytes())).unwrap();
    db.flush(db.family("default").unwrap()).unwrap();
    drop(db);
    drop(open("create_if_missing=true", OpenMode::Create));
    for round in 0..3 {
        let db = Db::builder(folder.path()).open().unwrap();
        for number in 0..50 {
            assert!(db.get(&key(number)).unwrap().is_some(), "{round}, {number}");
        }
        db.close().unwrap();
    }
    let theirs = open("create_if_missing=true", OpenMode::Create);
    let family = theirs.family("default").unwrap();
    for number in 0..50 {
        assert!(
            theirs.get(family, &key(number)).unwrap().is_some(),
            "{number}"
        );
    }
}
