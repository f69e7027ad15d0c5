//! Memory, and the number of files written, are proportional to the live column families.

use std::path::Path;

use cairn_db::{FamilyDescriptor, OpenRequest, WriteBatch, open};
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::World;
use cairn_platform::fs::FileMode;

use crate::basic::{db_options, open_at};

fn descriptors(count: usize) -> Vec<FamilyDescriptor> {
    (0..count)
        .map(|n| FamilyDescriptor::new(format!("family {n}"), FamilyOptions::default()))
        .collect()
}

/// The number of the newest OPTIONS file, which grows by one with each allocated file number.
fn options_number(world: &World) -> u64 {
    let names = world
        .fs
        .list(Path::new("/db"))
        .expect("the folder is listed");
    let numbers = names
        .iter()
        .filter_map(|name| name.strip_prefix("OPTIONS-")?.parse().ok());
    numbers.max().expect("an open database has an OPTIONS file")
}

#[test]
fn many_families_with_a_row_each_take_little_memory() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let families = db.create_families(&descriptors(200)).unwrap();
    let mut batch = WriteBatch::new();
    for family in &families {
        batch.put_in(family, b"key", &[7; 100]);
    }
    db.write(&batch).unwrap();
    let held = |property| -> u64 {
        let held = families
            .iter()
            .map(|family| family.property_number(property));
        held.map(|bytes| bytes.expect("a property of numbers"))
            .sum()
    };
    let bytes = held("rocksdb.size-all-mem-tables");
    assert!(bytes > 200 * 100, "{bytes} bytes in memtables");
    assert!(bytes <= 200 * (8 << 10), "{bytes} bytes in memtables");
}

#[test]
fn the_log_has_the_options_of_ten_families_only() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    db.create_families(&descriptors(40)).unwrap();
    db.close().unwrap();
    drop(db);
    let titles_and_options = || {
        let log = world.fs.open("/db/LOG".as_ref(), FileMode::default());
        let log = log.expect("an open database has a LOG");
        let mut bytes = vec![0; log.len().unwrap() as usize];
        log.read_at(0, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let count = |part| text.matches(part).count();
        (
            count("Options for column family ["),
            count("Options.write_buffer_size:"),
            count("(skipping printing options)"),
        )
    };
    assert_eq!(titles_and_options(), (41, 10, 31));
    let given: Vec<FamilyDescriptor> = std::iter::once("default".to_owned())
        .chain((0..40).map(|n| format!("family {n}")))
        .map(|name| FamilyDescriptor::new(name, FamilyOptions::default()))
        .collect();
    let db = open_at(&world, &given).unwrap();
    db.create_family("another", &FamilyOptions::default())
        .unwrap();
    assert_eq!(titles_and_options(), (42, 10, 32));
}

#[test]
fn families_created_together_write_one_options_file_and_survive_together() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    let before = options_number(&world);
    let made = db.create_families(&descriptors(40)).unwrap();
    assert_eq!(options_number(&world), before + 1);
    for (n, family) in made.iter().enumerate() {
        assert_eq!(family.name(), format!("family {n}"));
        family.put(b"key", family.name().as_bytes()).unwrap();
    }
    drop(made);
    db.close().unwrap();
    drop(db);

    let mut given = vec![FamilyDescriptor::new("default", FamilyOptions::default())];
    given.extend(descriptors(50));
    let options = DbOptions {
        create_missing_column_families: true,
        ..db_options()
    };
    let db = open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &given,
        others: None,
        read_only: false,
        world: world.clone(),
    })
    .unwrap();
    for n in 0..50 {
        let name = format!("family {n}");
        let family = db.family(&name).expect("created by this call or before");
        let value = family.get(b"key").unwrap();
        let expected = (n < 40).then(|| name.clone().into_bytes());
        assert_eq!(value.as_deref(), expected.as_deref(), "{name}");
    }
}

#[test]
fn no_family_is_created_if_one_of_several_cannot_be() {
    let world = World::in_memory();
    let db = open_at(&world, &[]).unwrap();
    db.create_family("family 2", &FamilyOptions::default())
        .unwrap();
    let error = db.create_families(&descriptors(4)).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    let mut twice = descriptors(1);
    twice.extend(descriptors(1));
    db.create_families(&twice).unwrap_err();
    assert_eq!(db.families().len(), 2);
    db.create_families(&[]).unwrap();
}

/// The descriptors of logs in `dir` that this process has open.
#[expect(
    clippy::disallowed_methods,
    reason = "descriptors are the machine's, not the world's"
)]
fn log_descriptors(dir: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").expect("a Linux machine");
    let names = open.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    names
        .filter(|name| name.starts_with(dir) && name.extension().is_some_and(|end| end == "log"))
        .count()
}

#[test]
fn ended_logs_keep_no_descriptors_while_deletions_are_disabled() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().canonicalize().unwrap().join("db");
    let options = DbOptions {
        create_if_missing: true,
        ..DbOptions::default()
    };
    let db = open(&OpenRequest {
        path: &path,
        options: &options,
        families: &[],
        others: Some(&FamilyOptions::default()),
        read_only: false,
        world: World::posix(),
    })
    .unwrap();
    db.disable_file_deletions().unwrap();
    for round in 0_u32..30 {
        db.put(&round.to_be_bytes(), b"value").unwrap();
        db.flush().unwrap();
    }
    let open_logs = log_descriptors(&path);
    assert!(
        (1..=4).contains(&open_logs),
        "{open_logs} descriptors of logs"
    );
    db.enable_file_deletions().unwrap();
    db.close().unwrap();
}
