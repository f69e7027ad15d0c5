//! Ways to read: batches of keys, views of several families.

use cairn_db::FamilyDescriptor;
use cairn_options::{ReadOptions, ReadTier, WriteOptions};
use cairn_platform::World;
use cairn_types::Code;

use crate::basic::{open_at, small};

#[test]
fn a_batch_reads_several_families_in_the_order_of_its_keys() {
    let world = World::in_memory();
    let stones = FamilyDescriptor::new("stones", small());
    let db = open_at(&world, &[]).unwrap();
    let stones = db.create_family("stones", &stones.options).unwrap();
    for n in 0..2000_u32 {
        db.put(&n.to_be_bytes(), b"default").unwrap();
        stones
            .put(&n.to_be_bytes(), format!("stone {n}").as_bytes())
            .unwrap();
    }
    db.flush_families(&[]).unwrap();
    stones.delete(&7_u32.to_be_bytes()).unwrap();
    let snapshot = db.snapshot();
    stones.put(&8_u32.to_be_bytes(), b"new").unwrap();
    let numbers = [1999_u32, 8, 7, 8, 2000, 0].map(u32::to_be_bytes);
    let default = db.default_family();
    let keys: Vec<_> = numbers
        .iter()
        .enumerate()
        .map(|(at, key)| (if at == 3 { default } else { &stones }, &key[..]))
        .collect();
    let text = |options: &ReadOptions| -> Vec<Option<String>> {
        let found = db.multi_get_in(&keys, options, false).into_iter();
        found
            .map(|value| {
                value
                    .unwrap()
                    .map(|value| String::from_utf8(value.to_vec()).unwrap())
            })
            .collect()
    };
    let some = |text: &str| Some(text.to_owned());
    let newest = text(&ReadOptions::default());
    assert_eq!(
        newest,
        [
            some("stone 1999"),
            some("new"),
            None,
            some("default"),
            None,
            some("stone 0")
        ]
    );
    let before = text(&ReadOptions {
        snapshot: Some(snapshot.sequence()),
        ..ReadOptions::default()
    });
    assert_eq!(before[1], some("stone 8"));
    let columns = stones.multi_get_entity(&numbers, &ReadOptions::default());
    let columns = columns[0].as_ref().unwrap().as_ref().unwrap();
    assert_eq!(columns.get(b""), Some(&b"stone 1999"[..]));
    let other = open_at(&World::in_memory(), &[]).unwrap();
    let refused = other.multi_get_in(&keys[..1], &ReadOptions::default(), false);
    assert_eq!(
        refused[0].as_ref().unwrap_err().code(),
        Code::InvalidArgument
    );
}

#[test]
fn the_persisted_tier_leaves_out_what_has_no_log() {
    let db = open_at(&World::in_memory(), &[]).unwrap();
    let persisted = ReadOptions {
        read_tier: ReadTier::Persisted,
        ..ReadOptions::default()
    };
    db.put(b"a", b"1").unwrap();
    assert!(db.get_with(b"a", &persisted).unwrap().is_some());
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    db.put_with(b"b", b"2", &unlogged).unwrap();
    assert!(db.get_with(b"b", &persisted).unwrap().is_none());
    assert!(
        db.multi_get(&[b"b"], &persisted)[0]
            .as_ref()
            .unwrap()
            .is_none()
    );
    assert!(db.get(b"b").unwrap().is_some());
    db.flush().unwrap();
    assert!(db.get_with(b"b", &persisted).unwrap().is_some());
}
