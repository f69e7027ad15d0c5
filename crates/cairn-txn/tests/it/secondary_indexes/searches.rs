//! Iterators over the entries of an index.

use cairn_txn::SecondaryIndexIter;
use cairn_types::KeyOrder;

use super::*;

/// The primary keys, with the values of their entries, of a search.
fn found(iter: &mut SecondaryIndexIter, target: &[u8]) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut all = Vec::new();
    iter.seek(target);
    while iter.valid() {
        all.push((text(iter.key()), text(iter.value())));
        iter.next();
    }
    iter.status().unwrap();
    assert!(iter.key().is_empty() && iter.value().is_empty() && iter.columns().is_none());
    all
}

/// The primary keys of a search.
fn keys(iter: &mut SecondaryIndexIter, target: &[u8]) -> Vec<String> {
    found(iter, target)
        .into_iter()
        .map(|(key, _)| key)
        .collect()
}

fn committed(db: &TransactionDb, index: Arc<dyn SecondaryIndex>) -> SecondaryIndexIter {
    SecondaryIndexIter::new(index, db.db(), &ReadOptions::default()).unwrap()
}

#[test]
fn a_search_finds_the_records_with_the_value() {
    let db = open(indexes());
    let (default, write) = (db.db().default_family().clone(), WriteOptions::default());
    // Values that are prefixes of others, and an empty one.
    for (key, value) in [
        ("a", "red"),
        ("b", "re"),
        ("c", "red"),
        ("dd", "redd"),
        ("e", ""),
        ("d", "red"),
    ] {
        db.put(&default, key.as_bytes(), value.as_bytes(), &write)
            .unwrap();
    }
    let mut iter = committed(&db, by_value());
    assert!(!iter.valid());
    assert_eq!(keys(&mut iter, b"red"), ["a", "c", "d"]);
    assert_eq!(keys(&mut iter, b"re"), ["b"]);
    assert_eq!(keys(&mut iter, b"redd"), ["dd"]);
    assert_eq!(keys(&mut iter, b""), ["e"]);
    assert!(keys(&mut iter, b"r").is_empty());
    assert!(keys(&mut iter, b"blue").is_empty());

    iter.seek(b"red");
    iter.next();
    assert_eq!(iter.key(), b"c");
    iter.prev();
    assert_eq!(iter.key(), b"a");
    assert!(iter.prepare_value());
    assert_eq!(iter.columns().unwrap().get(b""), Some(&b""[..]));
    // Out of the search at its beginning; it stays there.
    iter.prev();
    assert!(!iter.valid() && iter.status().is_ok());
    assert!(!iter.prepare_value());
    iter.next();
    assert!(!iter.valid());
    assert_eq!(keys(&mut iter, b"red"), ["a", "c", "d"]);

    for (key, name) in [("p", "ruby"), ("q", "rubin"), ("r", "opal")] {
        db.put_entity(
            &default,
            key.as_bytes(),
            &[(b"name", name.as_bytes())],
            &write,
        )
        .unwrap();
    }
    let mut iter = committed(&db, capitals());
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(
        found(&mut iter, b"R"),
        [pair("p", "ruby"), pair("q", "rubin")]
    );
    iter.seek(b"?");
    assert!(!iter.valid());
    assert_eq!(codes(iter.status()).0, Code::Aborted);
    assert_eq!(found(&mut iter, b"O"), [pair("r", "opal")]);
}

#[test]
fn a_search_in_a_transaction_sees_its_writes() {
    let db = open(indexes());
    let (default, write) = (db.db().default_family().clone(), WriteOptions::default());
    for key in [b"a", b"b", b"c"] {
        db.put(&default, key, b"red", &write).unwrap();
    }
    let mut txn = db.begin();
    txn.delete(b"b").unwrap();
    txn.put(b"c", b"blue").unwrap();
    txn.put(b"d", b"red").unwrap();
    let mut own = txn.index_iter(by_value(), &ReadOptions::default()).unwrap();
    assert_eq!(keys(&mut own, b"red"), ["a", "d"]);
    assert_eq!(keys(&mut own, b"blue"), ["c"]);
    own.seek(b"red");
    own.next();
    own.prev();
    assert_eq!(own.key(), b"a");
    let mut others = committed(&db, by_value());
    assert_eq!(keys(&mut others, b"red"), ["a", "b", "c"]);
    txn.commit().unwrap();
    assert_eq!(keys(&mut others, b"red"), ["a", "b", "c"]);
    let mut now = committed(&db, by_value());
    assert_eq!(keys(&mut now, b"red"), ["a", "d"]);
}

#[test]
fn a_search_that_is_not_possible_is_an_error() {
    let db = open(indexes());
    let reverse = FamilyOptions {
        comparator: KeyOrder::ReverseBytewise,
        ..FamilyOptions::default()
    };
    db.create_family("reverse", &reverse).unwrap();
    let index: Arc<dyn SecondaryIndex> =
        Arc::new(SimpleSecondaryIndex::new("default", b"", "reverse"));
    let mut iter = committed(&db, index);
    iter.seek(b"red");
    assert!(!iter.valid());
    assert_eq!(codes(iter.status()).0, Code::NotSupported);

    let absent: Arc<dyn SecondaryIndex> =
        Arc::new(SimpleSecondaryIndex::new("default", b"", "absent"));
    let options = ReadOptions::default();
    let missing = SecondaryIndexIter::new(absent.clone(), db.db(), &options);
    assert_eq!(codes(missing.map(drop)).0, Code::InvalidArgument);
    let missing = db.begin().index_iter(absent, &options);
    assert_eq!(codes(missing.map(drop)).0, Code::InvalidArgument);
}
