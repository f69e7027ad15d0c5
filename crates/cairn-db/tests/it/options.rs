//! Changes of options while the database is open.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cairn_db::{Db, FamilyDescriptor, check_options_compatibility, load_latest_options};
use cairn_options::file::OptionsFile;
use cairn_options::{
    CompactionStyle, DbOptions, FamilyOptions, Options, ReadOptions, WaitForCompactOptions,
};
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_sim::trace::Call;
use cairn_sim::{Fault, SimWorld};
use cairn_types::{Code, PrefixExtractor};

use crate::basic::{self, db_options, open_at, small};
use crate::controls::files;
use crate::errors::{failing, of_kind};
use crate::wal::open_with;

fn options_files(world: &World) -> Vec<String> {
    let names = world
        .fs
        .list(Path::new("/db"))
        .expect("the directory is there");
    let mut names: Vec<String> = names
        .into_iter()
        .filter(|name| name.starts_with("OPTIONS-"))
        .collect();
    names.sort();
    names
}

/// Returns the content of the file `name` of the database.
fn text_of(world: &World, name: &str) -> String {
    let file = world
        .fs
        .open(&Path::new("/db").join(name), FileMode::default())
        .expect("it opens");
    let mut bytes = vec![0; file.len().expect("it has a length") as usize];
    file.read_at(0, &mut bytes).expect("it is read");
    String::from_utf8(bytes).expect("it is text")
}

fn newest(world: &World) -> OptionsFile {
    let name = options_files(world)
        .pop()
        .expect("a database has an OPTIONS file");
    OptionsFile::from_text(&text_of(world, &name), false).expect("it is valid")
}

fn open() -> (World, Db) {
    let world = World::in_memory();
    let db = open_at(&world, &[]).expect("it opens");
    (world, db)
}

#[test]
fn changes_are_in_effect_and_on_disk_when_the_call_returns() {
    let (world, db) = open();
    db.set_options(&[
        ("write_buffer_size", "256K"),
        ("compression", "kNoCompression"),
        ("block_based_table_factory", "{block_size=16K}"),
        ("table_factory.filter_policy", "bloomfilter:10:false"),
        ("compression_opts.level", "3"),
        ("compression_opts", "{checksum=true}"),
    ])
    .unwrap();
    let options = db.default_family().options();
    assert_eq!(options.write_buffer_size, 256 << 10);
    assert_eq!(options.table.block_size, 16 << 10);
    assert!(options.table.filter_policy.is_some());
    assert!(options.compression_opts.checksum && options.compression_opts.level == 3);
    let file = newest(&world);
    let written = &file.families[0].1;
    for name in ["write_buffer_size", "compression", "compression_opts"] {
        assert_eq!(written.get(name), options.get(name));
    }
    assert_eq!(written.table.block_size, 16 << 10);

    // The memtable has the new size: 300 KiB would have been five of the old ones.
    for n in 0..200_u32 {
        db.put(&n.to_be_bytes(), &[b'x'; 1000]).unwrap();
    }
    let number = |name| db.property_number(name).unwrap();
    db.wait_until_quiet().unwrap();
    assert_eq!(number("rocksdb.live-sst-files-size"), 0);
    db.flush().unwrap();
    assert!(
        number("rocksdb.live-sst-files-size") > 200_000,
        "not compressed"
    );
}

#[test]
fn a_change_is_atomic() {
    let (world, db) = open();
    let other = db.create_family("other", &Default::default()).unwrap();
    let before = (
        db.default_family().options().to_text(),
        options_files(&world),
    );
    for (name, text) in [
        ("nosuch", "1"),
        ("write_buffer_size", "many"),
        ("num_levels", "4"),
        ("compression_opts.nosuch", "1"),
        ("write_buffer_size.x", "1"),
        ("bottommost_compression", "kXpressCompression"),
    ] {
        let changes: &[_] = &[("disable_auto_compactions", "true"), (name, text)];
        let error = db.set_options(changes).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        let good: &[_] = &[("ttl", "77")];
        let both = [(&other, good), (db.default_family(), changes)];
        assert!(db.set_options_of(&both).is_err());
    }
    assert_eq!(
        db.set_options(&[]).unwrap_err().code(),
        Code::InvalidArgument
    );
    assert_ne!(other.options().ttl, 77);
    let after = (
        db.default_family().options().to_text(),
        options_files(&world),
    );
    assert_eq!(before, after);
    assert!(db.set_db_options(&[("wal_dir", "/x")]).is_err());
    assert!(
        db.set_db_options(&[("max_background_jobs", "4"), ("nosuch", "1")])
            .is_err()
    );
    assert_eq!(db.options().max_background_jobs, 2);
}

#[test]
fn the_two_newest_files_stay() {
    let (world, db) = open();
    for jobs in 3..8_i32 {
        db.set_db_options(&[("max_background_jobs", &jobs.to_string())])
            .unwrap();
        assert_eq!(newest(&world).db.max_background_jobs, jobs);
        assert!(options_files(&world).len() <= 2);
    }
    // A change to the current value does not write a file.
    let before = options_files(&world);
    db.set_db_options(&[("max_background_jobs", "7")]).unwrap();
    assert_eq!(options_files(&world), before);
}

/// Regression: each change while deletions were disabled added all old files again to those to delete later.
#[test]
fn old_files_stay_while_deletions_are_disabled() {
    let (world, db) = open();
    db.disable_file_deletions().unwrap();
    for jobs in 3..53_i32 {
        db.set_db_options(&[("max_background_jobs", &jobs.to_string())])
            .unwrap();
    }
    let all = options_files(&world);
    assert!(all.len() > 50, "{all:?}");
    db.enable_file_deletions().unwrap();
    assert_eq!(options_files(&world), all[all.len() - 2..]);
}

/// Regression: each failed write of an OPTIONS file left its temporary file until the next opening.
#[test]
fn a_failed_options_file_leaves_no_temporary_file() {
    for call in [Call::Create, Call::Append, Call::Sync, Call::Rename] {
        let sim = SimWorld::new(1);
        let db = open_at(&sim.world, &[]).unwrap();
        let before = options_files(&sim.world);
        for jobs in 3..6_i32 {
            let plan = failing(call, ".dbtmp", Fault::NoSpace, 1);
            sim.fs.set_plan(plan);
            let failed = db.set_db_options(&[("max_background_jobs", &jobs.to_string())]);
            assert!(failed.is_err() && sim.fs.injected() == 1, "{call:?}");
        }
        assert_eq!(options_files(&sim.world), before, "{call:?}");
        assert!(of_kind(&sim, "dbtmp").is_empty(), "{call:?}");
        db.set_db_options(&[("max_background_jobs", "9")]).unwrap();
        assert_eq!(newest(&sim.world).db.max_background_jobs, 9);
    }
}

/// The filter of a table opened before the change has longer prefixes than those of a later scan.
#[test]
fn prefix_scans_find_keys_in_tables_with_another_extractor() {
    let (_world, db) = open();
    db.set_options(&[
        ("prefix_extractor", "fixed:4"),
        (
            "table_factory",
            "{id=BlockBasedTable;filter_policy=bloomfilter:10:false}",
        ),
    ])
    .unwrap();
    for n in 0..50 {
        db.put(format!("ab{n:02}x").as_bytes(), b"1").unwrap();
    }
    db.flush().unwrap();
    assert!(db.get(b"ab07x").unwrap().is_some());
    db.set_options(&[("prefix_extractor", "fixed:2")]).unwrap();
    let mut iter = db.iter_with(&ReadOptions {
        prefix_same_as_start: true,
        ..ReadOptions::default()
    });
    iter.seek(b"ab!!x");
    assert!(
        iter.valid() && iter.key() == b"ab00x",
        "{:?}",
        iter.status()
    );
    assert!(matches!(
        db.default_family().options().prefix_extractor,
        Some(PrefixExtractor::Fixed(2))
    ));
}

#[test]
fn a_stall_ends_when_its_trigger_is_raised() {
    let (_world, db) = open();
    let options: &[_] = &[
        ("level0_file_num_compaction_trigger", "100"),
        ("level0_slowdown_writes_trigger", "2"),
        ("level0_stop_writes_trigger", "3"),
    ];
    // In effect, no limit is lower than that of the compactions that would end the stall.
    db.set_options(options).unwrap();
    let limits = db.default_family().options().write_limits();
    assert_eq!((limits.slowdown_files, limits.stop_files), (100, 100));
    let quiet: &[_] = &[
        ("disable_auto_compactions", "false"),
        ("level0_file_num_compaction_trigger", "2"),
        ("level0_slowdown_writes_trigger", "2"),
        ("level0_stop_writes_trigger", "2"),
    ];
    db.set_options(quiet).unwrap();
    for n in 0..4_u8 {
        db.put(&[n], b"1").unwrap();
        db.flush().unwrap();
    }
    db.set_options(&[
        ("level0_stop_writes_trigger", "40"),
        ("level0_slowdown_writes_trigger", "40"),
    ])
    .unwrap();
    assert_eq!(db.property_number("rocksdb.is-write-stopped"), Some(0));
    db.put(b"x", b"1").unwrap();
}

/// Regression: a negative trigger was in effect as 1, also in the OPTIONS file.
#[test]
fn a_negative_trigger_disables_compactions_by_the_number_of_files() {
    let trigger = "level0_file_num_compaction_trigger";
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        for at_open in [true, false] {
            let world = World::in_memory();
            let mut family = FamilyOptions {
                compaction_style: style,
                ..small()
            };
            if at_open {
                family.level0_file_num_compaction_trigger = -1;
            }
            let db = basic::open_with(&world, &db_options(), &family).expect("it opens");
            if !at_open {
                db.set_options(&[(trigger, "-1")])
                    .expect("a dynamic option");
            }
            for n in 0..12_u8 {
                db.put(b"a", &[n]).expect("a write");
                db.put(b"b", &[n]).expect("a write");
                db.flush().expect("a flush");
            }
            db.wait_for_compact(&WaitForCompactOptions::default())
                .expect("nothing is due");
            assert_eq!(files(&db, 1), [12], "{style:?}, at open: {at_open}");
            let kept = &newest(&world).families[0].1;
            assert_eq!(kept.level0_file_num_compaction_trigger, -1);
            db.set_options(&[(trigger, "4")]).expect("a dynamic option");
            db.wait_for_compact(&WaitForCompactOptions::default())
                .expect("a compaction is due");
            assert!(files(&db, 1)[0] < 4, "{style:?}, at open: {at_open}");
        }
    }
}

#[test]
fn options_of_the_last_opening_are_loaded_and_compared() {
    let (world, db) = open();
    let dir = Path::new("/db");
    db.set_options(&[("ttl", "99")]).unwrap();
    db.create_family("other", &Default::default()).unwrap();
    let loaded = load_latest_options(dir, false, &world).unwrap();
    assert_eq!(loaded.families[0].1.ttl, 99);
    let mut given: Vec<FamilyDescriptor> = loaded
        .families
        .iter()
        .map(|(name, options)| FamilyDescriptor::new(name.as_str(), options.clone()))
        .collect();
    let check = |given: &[FamilyDescriptor]| check_options_compatibility(dir, given, false, &world);
    given[1].options.ttl = 5;
    check(&given).unwrap();
    assert!(check(&given[..1]).unwrap_err().text().contains("other"));
    given[1].options.comparator = cairn_types::KeyOrder::ReverseBytewise;
    assert!(check(&given).unwrap_err().text().contains("comparator"));
    // As in RocksDB, also for a directory that does not exist and for a file.
    world.fs.create_dir_all(Path::new("/empty")).unwrap();
    world
        .fs
        .create(Path::new("/file"), Default::default())
        .unwrap();
    for path in ["/nowhere", "/nowhere/deeper", "/empty", "/file", ""] {
        let nowhere = load_latest_options(Path::new(path), false, &world);
        let error = nowhere.map(|_| ()).unwrap_err();
        assert_eq!(error.code(), cairn_types::Code::NotFound, "{path}: {error}");
    }
}

/// Regression: an OPTIONS file with thousands of families, which has more than 16 MiB, is loaded.
#[test]
fn long_options_files_are_loaded() {
    let (world, db) = open();
    db.set_options(&[("ttl", "98")]).unwrap();
    let mut text = text_of(&world, &options_files(&world).pop().unwrap());
    while text.len() < 17 << 20 {
        text.push_str(
            "# A comment in the place of the options of a column family, in a line of its own.\n",
        );
    }
    let path = Path::new("/db/OPTIONS-999999");
    let file = world.fs.create(path, FileMode::default()).unwrap();
    file.append(text.as_bytes()).unwrap();
    file.close().unwrap();
    let loaded = load_latest_options(Path::new("/db"), false, &world).unwrap();
    assert_eq!(loaded.families[0].1.ttl, 98);
}

/// Regression: a path that is not UTF-8 has its bytes in the OPTIONS file, and is the same after loading it.
#[test]
fn paths_of_any_bytes_are_recorded_and_loaded() {
    // A private character stands for a byte in the text of a file, but is not that byte in a path.
    for name in [&b"caf\xe9"[..], "caf\u{10ffe9}".as_bytes()] {
        let world = World::in_memory();
        let options = DbOptions {
            wal_dir: Path::new("/logs").join(OsStr::from_bytes(name)),
            ..db_options()
        };
        let merging = FamilyOptions::from_text("merge_operator=stringappend").unwrap();
        let db = basic::open_with(&world, &options, &merging).unwrap();
        db.put(b"k", b"v").unwrap();
        db.merge(b"k", b"w").unwrap();
        drop(db);
        let loaded = load_latest_options(Path::new("/db"), false, &world).unwrap();
        assert_eq!(loaded.db.wal_dir, options.wal_dir);
        // The merge operator is that in the file.
        let db = open_with(&world, &loaded.db, false);
        assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"v,w"[..]));
    }
}

struct Backwards;

impl cairn_types::Comparator for Backwards {
    fn name(&self) -> &str {
        "backwards"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        b.cmp(a)
    }
}

/// Custom objects that are not registered must be set by the program.
#[test]
fn options_with_an_unregistered_comparator_are_loaded_without_it() {
    let (world, db) = open();
    let dir = Path::new("/db");
    let options = cairn_options::FamilyOptions {
        comparator: cairn_types::KeyOrder::Custom(std::sync::Arc::new(Backwards)),
        ..Default::default()
    };
    db.create_family("turned", &options).unwrap();
    let loaded = load_latest_options(dir, false, &world).unwrap();
    assert_eq!(loaded.families.len(), 2);
    assert_eq!(loaded.unknown.len(), 1);
    assert_eq!(loaded.unknown[0].text, "backwards");
    let descriptor = |options: &cairn_options::FamilyOptions| {
        let whole = FamilyDescriptor::new("default", Default::default());
        [whole, FamilyDescriptor::new("turned", options.clone())]
    };
    let check = |options| check_options_compatibility(dir, &descriptor(options), false, &world);
    check(&options).unwrap();
    let error = check(&loaded.families[1].1).unwrap_err();
    assert!(error.text().contains("backwards"), "{error}");
}

/// Regression: options of a read-only database could not be changed; in RocksDB they can.
#[test]
fn a_read_only_database_changes_its_options_but_no_file() {
    let world = World::in_memory();
    drop(open_with(&world, &db_options(), false));
    let mut before = world.fs.list(Path::new("/db")).unwrap();
    let reader = open_with(&world, &db_options(), true);
    let change = [("max_sequential_skip_in_iterations", "3")];
    reader.set_options(&change).unwrap();
    reader.set_db_options(&[("max_open_files", "50")]).unwrap();
    assert_eq!(
        reader
            .default_family()
            .options()
            .max_sequential_skip_in_iterations,
        3
    );
    assert_eq!(reader.options().max_open_files, 50);
    assert!(reader.set_options(&[("num_levels", "3")]).is_err());
    drop(reader);
    let mut after = world.fs.list(Path::new("/db")).unwrap();
    before.sort();
    after.sort();
    assert_eq!(before, after);
}

/// An opening uses the known options in the OPTIONS file of a newer release, and logs the others.
#[test]
fn unknown_options_of_a_newer_release_are_logged_and_ignored() {
    let world = World::in_memory();
    let max = FamilyOptions::from_text("merge_operator=max").unwrap();
    drop(open_at(&world, &[FamilyDescriptor::new("default", max)]).expect("it opens"));
    let name = options_files(&world).pop().unwrap();
    let newer = text_of(&world, &name)
        .replace("rocksdb_version=", "rocksdb_version=99")
        .replacen("compression_opts={", "compression_opts={a_new_part=1;", 1)
        .replacen("[DBOptions]", "[DBOptions]\n  a_new_option=7", 1);
    let path = Path::new("/db").join(&name);
    world.fs.remove(&path).unwrap();
    let file = world.fs.create(&path, FileMode::default()).unwrap();
    file.append(newer.as_bytes()).unwrap();
    file.close().unwrap();
    let db = open_with(&world, &db_options(), false);
    let options = db.default_family().options();
    assert_eq!(options.get("merge_operator").unwrap(), "MaxOperator");
    let log = text_of(&world, "LOG");
    for passed_over in [
        "option a_new_option in section [DBOptions]",
        "option compression_opts.a_new_part in section [CFOptions \"default\"]",
    ] {
        assert!(log.contains(passed_over), "{log}");
    }
}

#[test]
fn a_block_ends_after_each_key_if_the_policy_says_so() {
    for index in ["kBinarySearch", "kTwoLevelIndexSearch"] {
        let world = World::in_memory();
        let partitioned = index == "kTwoLevelIndexSearch";
        let table = format!(
            "block_based_table_factory={{flush_block_policy_factory=FlushBlockEveryKeyPolicyFactory;index_type={index};\
             partition_filters={partitioned};filter_policy=bloomfilter:10:false;metadata_block_size=512;\
             detect_filter_construct_corruption=true;}}"
        );
        let mut options = small();
        options.update_from(&table).unwrap();
        let db = basic::open_with(&world, &db_options(), &options).unwrap();
        let family = db.create_family("blocks", &options).unwrap();
        for n in 0..300_u32 {
            family.put(format!("{n:04}").as_bytes(), b"v").unwrap();
        }
        family.flush().unwrap();
        let tables = family.properties_of_all_tables().unwrap();
        let blocks: Vec<u64> = tables.values().map(|table| table.num_data_blocks).collect();
        assert_eq!(blocks, [300]);
        for n in 0..300_u32 {
            assert!(family.get(format!("{n:04}").as_bytes()).unwrap().is_some());
        }
        assert!(family.get(b"0300").unwrap().is_none());
        let mut iter = family.iter_with(&ReadOptions::default());
        iter.seek_to_first();
        let mut found = 0;
        while iter.valid() {
            found += 1;
            iter.next();
        }
        iter.status().unwrap();
        assert_eq!(found, 300);
        let text = text_of(&world, &options_files(&world).pop().unwrap());
        let line = "  flush_block_policy_factory=FlushBlockEveryKeyPolicyFactory\n";
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn an_unknown_policy_of_blocks_is_rejected_for_writing_only() {
    let world = World::in_memory();
    open_at(&world, &[]).unwrap().close().unwrap();
    let mut options = small();
    let table = "block_based_table_factory={flush_block_policy_factory=TheirPolicy;}";
    options.update_from(table).unwrap();
    let open = |read_only| {
        cairn_db::open(&cairn_db::OpenRequest {
            path: Path::new("/db"),
            options: &db_options(),
            families: &[],
            others: Some(&options),
            read_only,
            world: world.clone(),
        })
    };
    let error = open(false).map(drop).unwrap_err();
    assert_eq!(error.code(), Code::NotSupported);
    assert!(
        error.text().contains("flush_block_policy_factory"),
        "{error}"
    );
    open(true).unwrap();
}

/// Regression: an option that raised or lowered limits of writes left them there when it was changed back.
#[test]
fn limits_of_writes_return_when_the_options_that_they_depend_on_do() {
    let world = World::in_memory();
    let db = basic::open_with(&world, &db_options(), &FamilyOptions::default()).unwrap();
    let family = db.default_family();
    let before = family.options();
    for (name, value, default) in [
        ("level0_file_num_compaction_trigger", "100", "4"),
        (
            "hard_pending_compaction_bytes_limit",
            "5000",
            "274877906944",
        ),
    ] {
        family.set_options(&[(name, value)]).unwrap();
        let limits = family.options().write_limits();
        assert!(limits.slowdown_files == 100 || limits.soft_bytes == 5000);
        assert!(limits.stop_files >= limits.slowdown_files && limits.stop_files >= 36);
        family.set_options(&[(name, default)]).unwrap();
        assert_eq!(family.options().write_limits(), before.write_limits());
        assert_eq!(family.options().to_text(), before.to_text());
    }
}

/// Options of codecs that are accepted never make a flush or a compaction fail, which would stop writes.
#[test]
fn every_accepted_option_of_a_codec_can_be_used() {
    for codec in [
        "level=77",
        "level=-7",
        "strategy=1",
        "window_bits=-15",
        "window_bits=15",
        "max_dict_bytes=4096;zstd_max_train_bytes=16384;use_zstd_dict_trainer=false",
    ] {
        let (world, db) = open();
        let family = db.default_family();
        let options = format!("{{{codec}}}");
        for kind in ["kZlibCompression", "kZSTD", "kSnappyCompression"] {
            family
                .set_options(&[
                    ("compression", kind),
                    ("bottommost_compression", kind),
                    ("compression_opts", &options),
                    ("bottommost_compression_opts", &options),
                    ("enable_blob_files", "true"),
                    ("min_blob_size", "1000"),
                    ("blob_compression_type", kind),
                    ("blob_compression_opts", &options),
                ])
                .unwrap();
            for n in 0..500_u32 {
                let len = if n % 50 == 0 { 5000 } else { 100 };
                db.put(&n.to_be_bytes(), &vec![b'v'; len]).unwrap();
            }
            db.flush().unwrap();
            db.compact_range(None, None, &Default::default()).unwrap();
            db.put(b"later", kind.as_bytes()).unwrap();
        }
        db.close().unwrap();
        drop(db);
        let db = open_at(&world, &[]).unwrap();
        for n in 0..500_u32 {
            let value = db.get(&n.to_be_bytes()).unwrap().unwrap();
            assert_eq!(value.len(), if n % 50 == 0 { 5000 } else { 100 }, "{codec}");
        }
    }
}

/// A change of an option does not change others for good: RocksDB derives them only when a database is opened.
#[test]
fn options_that_depend_on_others_stay_as_given() {
    let universal = FamilyOptions {
        compaction_style: CompactionStyle::Universal,
        ttl: 3000,
        ..FamilyOptions::default()
    };
    let db = basic::open_with(&World::in_memory(), &db_options(), &universal).unwrap();
    let family = db.default_family();
    assert_eq!(family.options().periodic_compaction_seconds, 3000);
    for (name, value, periodic) in [
        ("periodic_compaction_seconds", "0", 0),
        ("ttl", "77", 0),
        ("periodic_compaction_seconds", "5000", 5000),
        ("ttl", "0", 5000),
    ] {
        family.set_options(&[(name, value)]).unwrap();
        assert_eq!(
            family.options().periodic_compaction_seconds,
            periodic,
            "{name}={value}"
        );
    }

    let merging = FamilyOptions {
        max_write_buffer_number: 6,
        min_write_buffer_number_to_merge: 4,
        ..FamilyOptions::default()
    };
    let db = basic::open_with(&World::in_memory(), &db_options(), &merging).unwrap();
    let family = db.default_family();
    for (most, merged) in [("2", 1), ("4", 3), ("6", 4)] {
        family
            .set_options(&[("max_write_buffer_number", most)])
            .unwrap();
        assert_eq!(family.options().memtables_to_merge(), merged);
        assert_eq!(family.options().min_write_buffer_number_to_merge, 4);
    }
}

/// Flushes count as a level above all others for Ribbon filters, but not those of a recovery, as in RocksDB.
#[test]
fn flushes_of_a_recovery_have_the_filters_of_level_zero() {
    let ribbon = FamilyOptions {
        compression: cairn_options::Compression::None,
        ..FamilyOptions::from_text("block_based_table_factory={filter_policy=ribbonfilter:10:0}")
            .unwrap()
    };
    let world = World::in_memory();
    let open = || basic::open_with(&world, &db_options(), &ribbon).unwrap();
    let filter_bytes = |db: &Db| {
        let properties = db.properties_of_all_tables().unwrap();
        let sizes = properties.values().map(|one| one.filter_size);
        sizes.collect::<Vec<_>>()
    };
    let fill = |db: &Db| (0..5000_u32).for_each(|n| db.put(&n.to_be_bytes(), b"v").unwrap());
    let db = open();
    fill(&db);
    db.flush().unwrap();
    let flushed = filter_bytes(&db);
    fill(&db);
    drop(db);
    let recovered = filter_bytes(&open());
    assert!(
        recovered.iter().min() < flushed.iter().min(),
        "{flushed:?} {recovered:?}"
    );
}
