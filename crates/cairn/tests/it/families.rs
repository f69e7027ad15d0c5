//! Column families: created, listed, read together, dropped.

use cairn::{Code, Db, FamilyDescriptor, FamilyOptions, Options, ReadOptions, World};

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
