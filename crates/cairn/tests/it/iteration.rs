//! Iteration: with `for`, with adapters, in both directions, over ranges and prefixes, and with a
//! cursor.

use cairn::{Code, Db, KeyOrder, Options, ReadOptions, World};

use crate::{database, shown};

fn letters() -> Db {
    let db = database("");
    for key in ["a", "b", "c", "d"] {
        db.put(key.as_bytes(), b"1").unwrap();
    }
    db
}

#[test]
fn a_database_is_iterated_with_for() {
    let db = letters();
    let mut keys = Vec::new();
    for entry in &db {
        let (key, value) = entry.unwrap();
        assert_eq!(*value, *b"1");
        keys.push(key);
    }
    assert_eq!(keys.concat(), b"abcd");
    let values: cairn::Result<Vec<_>> = db.iter().into_iter().collect();
    assert_eq!(values.unwrap().len(), 4);
}

#[test]
fn adapters_of_the_standard_library_apply() {
    let db = letters();
    let keys = db.iter().into_keys().map(Result::unwrap);
    assert_eq!(keys.rev().take(2).collect::<Vec<_>>().concat(), b"dc");
    let mut ends = db.iter().into_keys().map(Result::unwrap);
    let mut found = vec![ends.next(), ends.next_back(), ends.next(), ends.next_back()];
    found.push(ends.next());
    let found: Vec<_> = found.iter().map(|key| key.as_deref()).collect();
    let expected: [Option<&[u8]>; 5] = [Some(b"a"), Some(b"d"), Some(b"b"), Some(b"c"), None];
    assert_eq!(found, expected);
}

#[test]
fn ranges_exclude_their_end() {
    let db = letters();
    let keys = |iter: cairn::Iter<'_>| iter.into_keys().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(keys(db.range("b".."d")).concat(), b"bc");
    assert_eq!(keys(db.range("c"..)).concat(), b"cd");
    assert_eq!(keys(db.range(..b"b")).concat(), b"a");
    assert_eq!(keys(db.range(..)).concat(), b"abcd");
    assert_eq!(keys(db.default_family().range("b".."c")).concat(), b"b");
    let last = db.range("a".."c").into_keys().next_back();
    assert_eq!(&*last.unwrap().unwrap(), b"b");
}

#[test]
fn prefixes_are_complete_whatever_their_last_byte() {
    let db = database("prefix_extractor=rocksdb.FixedPrefix.1");
    for key in [
        &b"a"[..],
        b"a\xff",
        b"a\xff\xff1",
        b"b",
        b"\xff",
        b"\xff\xff1",
    ] {
        db.put(key, b"1").unwrap();
    }
    db.flush().unwrap();
    let count = |prefix: &[u8]| db.prefix(prefix).into_keys().map(Result::unwrap).count();
    assert_eq!(count(b"a"), 3);
    assert_eq!(count(b"a\xff"), 2);
    assert_eq!(count(b"\xff"), 2);
    assert_eq!(count(b"c"), 0);
    assert_eq!(count(b""), 6);
}

#[test]
fn a_cursor_is_iterated_from_its_position() {
    let db = letters();
    let mut cursor = db.iter();
    cursor.seek(b"c");
    assert_eq!(shown(cursor), ["c=1", "d=1"]);
    let mut cursor = db.iter();
    cursor.seek(b"c");
    assert_eq!(shown(cursor.into_iter().rev()), ["d=1", "c=1"]);
    let mut cursor = db.iter();
    cursor.seek(b"x");
    assert!(shown(cursor).is_empty());
}

#[test]
fn a_cursor_moves_in_both_directions_without_copies() {
    let db = letters();
    let mut cursor = db.iter();
    assert!(!cursor.valid());
    cursor.seek_for_prev(b"bb");
    assert_eq!(cursor.entry(), Some((&b"b"[..], &b"1"[..])));
    cursor.next();
    assert_eq!(cursor.key(), b"c");
    let pinned = cursor.value_pinned();
    cursor.prev();
    cursor.prev();
    assert_eq!((cursor.key(), &*pinned), (&b"a"[..], &b"1"[..]));
    cursor.prev();
    assert!(!cursor.valid());
    cursor.status().unwrap();
}

#[test]
fn a_failed_move_is_the_last_item() {
    let db = letters();
    let tailing = ReadOptions {
        tailing: true,
        ..ReadOptions::default()
    };
    let mut entries = db.iter_with(&tailing).into_iter();
    let error = entries.next_back().unwrap().unwrap_err();
    assert_eq!(error.code(), Code::NotSupported);
    assert!(entries.next().is_none() && entries.next_back().is_none());
}

#[test]
fn other_orders_have_ranges() {
    let mut options = Options::default().create_if_missing(true);
    options.family.comparator = KeyOrder::ReverseBytewise;
    let builder = Db::builder("/db").world(World::in_memory());
    let db = builder.options(options).open().unwrap();
    for key in ["a", "b", "c"] {
        db.put(key.as_bytes(), b"1").unwrap();
    }
    assert_eq!(shown(db.range("c".."a")), ["c=1", "b=1"]);
}

#[test]
#[should_panic(expected = "are ordered by rocksdb.ReverseBytewiseComparator")]
fn other_orders_have_no_prefixes() {
    let mut options = Options::default().create_if_missing(true);
    options.family.comparator = KeyOrder::ReverseBytewise;
    let builder = Db::builder("/db").world(World::in_memory());
    let db = builder.options(options).open().unwrap();
    drop(db.prefix("a"));
}

#[test]
fn updates_are_iterated_and_continue() {
    let db = database("WAL_ttl_seconds=3600");
    db.put(b"a", b"1").unwrap();
    let from = db.latest_sequence();
    let mut updates = db.updates_since(from).unwrap();
    let (first, batch) = updates.next().unwrap().unwrap();
    assert_eq!((first, batch.count()), (from, 1));
    assert!(updates.next().is_none());
    db.put(b"b", b"2").unwrap();
    db.put(b"c", b"3").unwrap();
    let later: Vec<_> = updates.map(|update| update.unwrap().0).collect();
    assert_eq!(later, [from.plus(1), from.plus(2)]);
}
