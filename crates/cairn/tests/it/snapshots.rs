//! Snapshots and iterators show one point in time.

use cairn::{CompactRangeOptions, FamilyOptions, ReadOptions};

use crate::{database, shown};

#[test]
fn a_snapshot_is_unchanged_by_flushes_and_compactions() {
    let db = database("");
    let stones = db
        .create_family("stones", &FamilyOptions::default())
        .unwrap();
    db.put(b"a", b"1").unwrap();
    stones.put(b"s", b"1").unwrap();
    let snapshot = db.snapshot();
    assert_eq!(snapshot.sequence(), db.latest_sequence());
    db.put(b"a", b"2").unwrap();
    db.put(b"b", b"2").unwrap();
    stones.delete(b"s").unwrap();
    for family in db.families() {
        family.flush().unwrap();
        family
            .compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
    }
    assert_eq!(shown(&snapshot), ["a=1"]);
    assert_eq!(shown(snapshot.iter_in(&stones)), ["s=1"]);
    assert_eq!(snapshot.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(snapshot.get_in(&stones, b"s").unwrap().is_some());
    assert!(shown(snapshot.range("b"..)).is_empty());
    assert_eq!(shown(snapshot.prefix_in(&stones, "s")), ["s=1"]);
    assert_eq!(shown(&db), ["a=2", "b=2"]);

    let options = snapshot.options(&ReadOptions::default());
    assert!(db.get_with(b"b", &options).unwrap().is_none());
}

#[test]
fn an_iterator_is_unchanged_until_it_is_refreshed() {
    let db = database("");
    db.put(b"a", b"1").unwrap();
    let (snapshot, mut iter) = (db.snapshot(), db.iter());
    db.put(b"b", b"2").unwrap();
    iter.seek(b"b");
    assert!(!iter.valid());
    iter.refresh().unwrap();
    iter.seek(b"b");
    assert!(iter.valid());
    iter.refresh_to(&snapshot).unwrap();
    assert_eq!(shown(iter), ["a=1"]);
}

#[test]
fn a_snapshot_is_read_by_several_threads() {
    let db = database("");
    db.put(b"a", b"1").unwrap();
    let snapshot = db.snapshot();
    db.put(b"a", b"2").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| assert_eq!(shown(&snapshot), ["a=1"]));
        }
    });
}
