//! A database whose indexes RocksDB 11.1.1 wrote, in `tests/golden/indexed`: the process ended with a prepared
//! transaction.
//!
//! ```text
//! put a red, b re, c red, d blue, e "", f red; put entities g, h; flush
//! commit: put a blue, delete b, put g plain, put entity c         prepare: put f blue, put entity i
//! ```

use cairn_txn::SecondaryIndexIter;

use super::*;
use crate::policies::copy;

fn keys(db: &TransactionDb, index: Arc<dyn SecondaryIndex>, target: &str) -> String {
    let mut iter = SecondaryIndexIter::new(index, db.db(), &ReadOptions::default()).unwrap();
    let mut keys = String::new();
    iter.seek(target.as_bytes());
    while iter.valid() {
        keys.push_str(std::str::from_utf8(iter.key()).unwrap());
        iter.next();
    }
    iter.status().unwrap();
    keys
}

/// The keys of a family.
fn all(db: &TransactionDb, name: &str) -> Vec<String> {
    let all = content(db.db(), None, name).into_iter();
    all.map(|(key, _)| String::from_utf8(key).unwrap())
        .collect()
}

#[test]
fn indexes_of_rocksdb_are_searched_and_changed_as_by_rocksdb() {
    let world = World::in_memory();
    copy("indexed", &world);
    let options = options(vec![by_value(), by_hue()]);
    let db = with_request(world, |request| {
        TransactionDb::open(request, &options).unwrap()
    });
    let default = family(db.db(), "default");
    for (value, expected) in [
        ("red", "fh"),
        ("re", ""),
        ("blue", "ad"),
        ("", "e"),
        ("plain", "g"),
    ] {
        assert_eq!(keys(&db, by_value(), value), expected, "{value}");
    }
    for (hue, expected) in [("red", "h"), ("grey", "c"), ("green", "")] {
        assert_eq!(keys(&db, by_hue(), hue), expected, "{hue}");
    }
    let mut prepared = db.transaction_by_name(b"prepared").unwrap();
    prepared.commit().unwrap();
    let mut txn = db.begin();
    txn.put(b"a", b"new").unwrap();
    txn.delete(b"c").unwrap();
    txn.delete(b"d").unwrap();
    txn.put_entity_in(&default, b"h", &[(b"hue", b"green")])
        .unwrap();
    txn.commit().unwrap();
    // RocksDB's content after the same commits.
    assert_eq!(all(&db, "default"), ["a", "e", "f", "g", "h", "i"]);
    let by_value = ["\0e", "\x03newa", "\x04bluef", "\x05plaing"];
    assert_eq!(all(&db, "by_value"), by_value);
    assert_eq!(all(&db, "by_hue"), ["\x03redi", "\x05greenh"]);
}
