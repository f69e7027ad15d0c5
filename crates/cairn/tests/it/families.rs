//! Column families: created, listed, read together, dropped.

use cairn::{
    Code, Db, Family, FamilyDescriptor, FamilyOptions, FlushOptions, Options, ReadOptions, World,
    WriteBatch, WriteOptions,
};

use crate::{database, shown};

#[test]
fn families_have_separate_keys() {
    let db = database("");
    let stones = db
        .create_family("stones", &FamilyOptions::default())
        .unwrap();
    stones.put(b"k", b"in stones").unwrap();
    db.put(b"k", b"in default").unwrap();
    assert_eq!(shown(&stones), ["k=in stones"]);
    assert_eq!(shown(&db.default_family()), ["k=in default"]);
    let names: Vec<_> = db
        .families()
        .iter()
        .map(|family| family.name().to_owned())
        .collect();
    assert_eq!(names, ["default", "stones"]);
    assert_eq!((stones.id(), stones.is_dropped()), (1, false));
    assert!(db.family("none").is_none());
}

#[test]
fn several_families_are_read_as_of_one_point_in_time() {
    let db = database("");
    let options = FamilyOptions::default();
    let given = ["one", "two"].map(|name| FamilyDescriptor::new(name, options.clone()));
    let created = db.create_families(&given).unwrap();
    for family in &created {
        family.put(b"k", family.name().as_bytes()).unwrap();
    }
    let keys: Vec<_> = created.iter().map(|family| (family, &b"k"[..])).collect();
    let found = db.multi_get_in(&keys, &ReadOptions::default(), false);
    let found: Vec<_> = found
        .into_iter()
        .map(|value| value.unwrap().unwrap())
        .collect();
    assert_eq!([&*found[0], &*found[1]], [&b"one"[..], b"two"]);

    let families: Vec<_> = created.iter().collect();
    let iters = db.iterators(&families, &ReadOptions::default()).unwrap();
    let all: Vec<_> = iters.into_iter().flat_map(shown).collect();
    assert_eq!(all, ["k=one", "k=two"]);
}

#[test]
fn a_dropped_family_stays_readable_through_its_handle() {
    let db = database("");
    let gone = db.create_family("gone", &FamilyOptions::default()).unwrap();
    gone.put(b"k", b"v").unwrap();
    db.drop_family(&gone).unwrap();
    assert!(gone.is_dropped());
    assert_eq!(shown(&gone), ["k=v"]);
    let error = gone.put(b"k", b"w").unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let error = db.drop_family(&db.default_family()).unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
}

#[test]
fn options_of_a_family_change_while_it_is_open_and_are_found_again() {
    let world = World::in_memory();
    let options = Options::default().create_if_missing(true);
    let builder = Db::builder("/db").world(world.clone()).options(options);
    let db = builder.open().unwrap();
    let stones = db
        .create_family("stones", &FamilyOptions::default())
        .unwrap();
    stones.set_options(&[("write_buffer_size", "1M")]).unwrap();
    assert_eq!(stones.options().write_buffer_size, 1 << 20);
    drop(stones);
    db.close().unwrap();

    let file = cairn::options::load_latest_options("/db".as_ref(), false, &world).unwrap();
    let (name, stones) = &file.families[1];
    assert_eq!((&name[..], stones.write_buffer_size), ("stones", 1 << 20));
}

#[test]
fn columns_of_an_entity_are_read_by_name() {
    let db = database("");
    let family = db.default_family();
    family
        .put_entity(b"slate", &[(b"from", b"shale"), (b"colour", b"grey")])
        .unwrap();
    let columns = family.get_entity(b"slate").unwrap().unwrap();
    assert_eq!(columns.get(b"colour"), Some(&b"grey"[..]));
    assert_eq!(columns.len(), 2);
}

/// Opens an empty database at `path` with a family `f`, whose number is 1.
fn with_family(path: &str) -> Db {
    let options = Options::default().create_if_missing(true);
    let builder = Db::builder(path).world(World::in_memory()).options(options);
    let db = builder.open().unwrap();
    db.create_family("f", &FamilyOptions::default()).unwrap();
    db
}

/// A transaction read the family of another database, though it rejected writes to it.
fn rejected_by_transactions(foreign: &Family<'_>) {
    let builder = Db::builder("/three").world(World::in_memory());
    let builder = builder.options(Options::default().create_if_missing(true));
    let db = builder.open_transactional(&Default::default()).unwrap();
    let (options, mut txn) = (ReadOptions::default(), db.begin());
    let results = [
        txn.get_in(foreign, b"k", &options).map(|_| ()),
        txn.get_entity_in(foreign, b"k", &options).map(|_| ()),
        txn.get_for_update_in(foreign, b"k", &options, true, true)
            .map(|_| ()),
        txn.put_in(foreign, b"k", b"v"),
    ];
    for result in results {
        assert_eq!(result.unwrap_err().code(), Code::InvalidArgument);
    }
    let mut iter = txn.iter_in(foreign, &options);
    iter.seek_to_first();
    assert!(!iter.valid());
    assert_eq!(iter.status().unwrap_err().code(), Code::InvalidArgument);
}

/// A write through the handle of another database went to the family with the same number, and a flush and a drop acted on
/// that family.
#[test]
fn a_family_of_another_database_is_rejected() {
    let (one, two) = (with_family("/one"), with_family("/two"));
    let (own, foreign) = (one.family("f").unwrap(), two.family("f").unwrap());
    one.put(b"k", b"v").unwrap();
    own.put(b"k", b"v").unwrap();
    let rejected = |result: cairn::Result<()>| {
        let error = result.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains("/one") && text.contains("/two"), "{text}");
    };
    let mut batch = WriteBatch::new();
    batch.put_in(&own, b"a", b"1");
    batch.set_save_point();
    batch.put_in(&foreign, b"a", b"1");
    rejected(one.write(&batch));
    batch.rollback_to_save_point().unwrap();
    one.write(&batch).unwrap();
    rejected(two.write(&batch).map_err(|error| {
        assert!(error.to_string().ends_with("not to /two"), "{error}");
        error
    }));
    let indexed = cairn::IndexedBatch::new(true);
    indexed.delete_in(&foreign, b"k");
    rejected(one.write_indexed(&indexed, &WriteOptions::default()));
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    rejected(one.ingest_indexed(&indexed, &unlogged));
    rejected(one.flush_families(&[&own, &foreign], &FlushOptions::default()));
    rejected(one.drop_family(&foreign));
    rejected(one.set_options_of(&[(&foreign, &[("write_buffer_size", "65536")])]));
    let columns: &[(&[u8], &[u8])] = &[(b"c", b"1")];
    let groups = [(&own, columns), (&foreign, columns)];
    rejected(one.put_attribute_groups(b"a", &groups, &unlogged));
    let options = ReadOptions::default();
    rejected(one.iterators(&[&foreign], &options).map(|_| ()));
    let found = one.multi_get_in(&[(&own, b"k"), (&foreign, b"k")], &options, false);
    let [first, second] = <[_; 2]>::try_from(found).unwrap();
    assert_eq!(first.unwrap().as_deref(), Some(&b"v"[..]));
    rejected(second.map(|_| ()));
    rejected_by_transactions(&foreign);
    assert_eq!(shown(&own), ["a=1", "k=v"]);
    assert!(shown(&foreign).is_empty());
    foreign.put(b"x", b"1").unwrap();
    let snapshot = one.snapshot();
    rejected(snapshot.get_in(&foreign, b"x").map(drop));
    rejected(snapshot.get_entity_in(&foreign, b"x").map(drop));
    for mut iter in [
        snapshot.iter_in(&foreign),
        snapshot.range_in(&foreign, ..),
        snapshot.prefix_in(&foreign, b"x"),
    ] {
        rejected(iter.status());
        iter.seek_to_first();
        iter.seek(b"x");
        assert!(!iter.valid());
        rejected(iter.status());
        rejected(iter.refresh());
    }
    let mut iter = foreign.iter();
    iter.seek_to_first();
    rejected(iter.refresh_to(&snapshot));
    assert_eq!(iter.key(), b"x");
    iter.status().unwrap();
    drop((iter, snapshot));

    batch.clear();
    batch.put_in(&foreign, b"b", b"1");
    drop(foreign);
    two.close().unwrap();
    let error = one.write(&batch).unwrap_err().to_string();
    assert!(error.contains("a database that is closed"), "{error}");
    batch.clear();
    batch.put(b"b", b"1");
    one.write(&batch).unwrap();
}
