//! The row cache: gets of keys from tables that were searched before.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, Family, OpenRequest, SstFileWriter, WriteBatch, open};
use cairn_memory::{BlockCache, CacheOptions};
use cairn_observe::statistics::{Statistics, StatsLevel, Ticker};
use cairn_options::{
    DbOptions, FamilyOptions, IngestExternalFileOptions, ReadOptions, merge_operators,
};
use cairn_platform::World;

use crate::basic::{db_options, small};

struct Rows {
    db: Db,
    statistics: Arc<Statistics>,
}

impl Rows {
    fn new(world: &World, cache: &Arc<BlockCache>, family: &FamilyOptions) -> Rows {
        let statistics = Arc::new(Statistics::new(StatsLevel::All));
        let options = DbOptions {
            row_cache: Some(cache.clone()),
            statistics: statistics.clone().into(),
            ..db_options()
        };
        let db = open(&OpenRequest {
            path: Path::new("/db"),
            options: &options,
            families: &[],
            others: Some(family),
            read_only: false,
            world: world.clone(),
        });
        Rows {
            db: db.expect("it opens"),
            statistics,
        }
    }

    /// Hits and misses since the last call.
    fn counts(&self) -> (u64, u64) {
        let take = |ticker| self.statistics.take_ticker(ticker);
        (take(Ticker::RowCacheHit), take(Ticker::RowCacheMiss))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let found = self.db.get(key).expect("the read succeeds");
        found.map(|value| value.to_vec())
    }
}

fn cache() -> Arc<BlockCache> {
    Arc::new(BlockCache::new(1 << 20, CacheOptions::default()))
}

fn by_hand() -> FamilyOptions {
    FamilyOptions {
        disable_auto_compactions: true,
        merge_operator: Some(merge_operators::from_text("stringappend").expect("it is built in")),
        ..small()
    }
}

#[test]
fn a_get_counts_a_hit_or_a_miss_for_each_table() {
    let cache = cache();
    let rows = Rows::new(&World::in_memory(), &cache, &by_hand());
    let db = &rows.db;
    for value in ["1", "2"] {
        db.merge(b"b", value.as_bytes()).unwrap();
        db.put(b"a", value.as_bytes()).unwrap();
        db.put(b"c", value.as_bytes()).unwrap();
        db.flush().unwrap();
    }
    assert_eq!(rows.get(b"c"), Some(b"2".to_vec()));
    assert_eq!(rows.counts(), (0, 1));
    assert_eq!(rows.get(b"c"), Some(b"2".to_vec()));
    assert_eq!(rows.counts(), (1, 0));
    // The operands are in both tables.
    assert_eq!(rows.get(b"b"), Some(b"1,2".to_vec()));
    assert_eq!(rows.counts(), (0, 2));
    assert_eq!(rows.get(b"b"), Some(b"1,2".to_vec()));
    assert_eq!(rows.counts(), (2, 0));
    // A key that a table does not have has no row.
    for _ in 0..2 {
        assert_eq!(rows.get(b"bb"), None);
        assert_eq!(rows.counts(), (0, 2));
    }
    // A batch uses the rows of single gets.
    let found = db.multi_get(&[b"a", b"b", b"c"], &ReadOptions::default());
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|found| matches!(found, Ok(Some(_)))));
    assert_eq!(rows.counts(), (3, 1));
    // A value in a memtable hides every row.
    db.put(b"c", b"3").unwrap();
    assert_eq!(rows.get(b"c"), Some(b"3".to_vec()));
    assert_eq!(rows.counts(), (0, 0));
}

#[test]
fn range_deletions_and_snapshots_are_respected_by_rows() {
    let cache = cache();
    let rows = Rows::new(&World::in_memory(), &cache, &by_hand());
    let db = &rows.db;
    db.put(b"a", b"1").unwrap();
    db.put(b"z", b"1").unwrap();
    db.flush().unwrap();
    let before = db.snapshot();
    let old = ReadOptions {
        snapshot: Some(before.sequence()),
        ..ReadOptions::default()
    };
    assert_eq!(rows.get(b"a"), Some(b"1".to_vec()));
    for step in 0..3 {
        match step {
            0 => db.delete_range(b"a", b"b").unwrap(),
            1 => db.flush().unwrap(),
            _ => db.compact_range(None, None, &Default::default()).unwrap(),
        }
        for _ in 0..2 {
            assert_eq!(rows.get(b"a"), None, "step {step}");
            let found = db.get_with(b"a", &old).unwrap();
            assert_eq!(found.as_deref(), Some(&b"1"[..]), "step {step}");
            assert_eq!(rows.get(b"z"), Some(b"1".to_vec()));
        }
    }
    assert!(rows.counts().0 > 6);
    drop(before);
    db.compact_range(None, None, &Default::default()).unwrap();
    assert_eq!(rows.get(b"a"), None);
}

/// Rows of values whose stored form differs from the value read: entities, blobs, values with a TTL
/// timestamp.
#[test]
fn entities_blobs_and_dated_values_are_read_from_rows() {
    for value_ttl in [None, Some(0)] {
        let family = FamilyOptions {
            enable_blob_files: true,
            min_blob_size: 100,
            value_ttl,
            ..by_hand()
        };
        let rows = Rows::new(&World::in_memory(), &cache(), &family);
        let db = &rows.db;
        let mut batch = WriteBatch::new();
        batch.put_entity(b"entity", &[(b"n", b"column")]);
        db.write(&batch).unwrap();
        db.put(b"blob", &[b'b'; 200]).unwrap();
        db.put(b"operands", b"1").unwrap();
        db.merge(b"operands", b"2").unwrap();
        db.flush().unwrap();
        for round in 0..3 {
            let found = db.get_entity(b"entity", &ReadOptions::default()).unwrap();
            assert_eq!(found.expect("it is there").get(b"n"), Some(&b"column"[..]));
            assert_eq!(rows.get(b"blob"), Some(vec![b'b'; 200]));
            assert_eq!(rows.get(b"operands"), Some(b"1,2".to_vec()));
            let expected = if round == 0 { (0, 3) } else { (3, 0) };
            assert_eq!(rows.counts(), expected);
        }
    }
}

/// The entries of an ingested file have a different sequence number in each family, so families do not share
/// its rows.
#[test]
fn a_file_in_two_families_has_rows_for_each() {
    let world = World::in_memory();
    let rows = Rows::new(&world, &cache(), &by_hand());
    let db = &rows.db;
    let other = db.create_family("other", &by_hand()).unwrap();
    let families: [Family; 2] = [db.default_family().clone(), other];
    let path = Path::new("/file.sst");
    let mut writer = SstFileWriter::new(&world, &db_options(), &by_hand());
    writer.open(path).unwrap();
    writer.put(b"k", b"ingested").unwrap();
    writer.put(b"l", b"ingested").unwrap();
    writer.finish().unwrap();
    let mut snapshots = Vec::new();
    for family in &families {
        family.put(b"k", b"before").unwrap();
        family.flush().unwrap();
        snapshots.push(db.snapshot());
        let options = IngestExternalFileOptions::default();
        family.ingest_external_file([path], &options).unwrap();
    }
    for _ in 0..2 {
        for (family, snapshot) in families.iter().zip(&snapshots) {
            let found = family.get(b"k").unwrap();
            assert_eq!(found.as_deref(), Some(&b"ingested"[..]));
            let options = ReadOptions {
                snapshot: Some(snapshot.sequence()),
                ..ReadOptions::default()
            };
            let found = family.get_with(b"k", &options).unwrap();
            assert_eq!(found.as_deref(), Some(&b"before"[..]));
        }
    }
    // The entries of the ingested file are invisible to the snapshots, which therefore have no row for them.
    assert_eq!(rows.counts(), (4, 8));
}

/// Databases, and openings of one database, that share a cache do not share rows.
#[test]
fn openings_that_share_a_cache_have_rows_of_their_own() {
    let cache = cache();
    let world = World::in_memory();
    for _ in 0..2 {
        let rows = Rows::new(&world, &cache, &by_hand());
        rows.db.put(b"k", b"v").unwrap();
        rows.db.flush().unwrap();
        assert_eq!(rows.get(b"k"), Some(b"v".to_vec()));
        assert_eq!(rows.get(b"k"), Some(b"v".to_vec()));
        assert_eq!(rows.counts(), (1, 1));
        rows.db.close().unwrap();
    }
}
