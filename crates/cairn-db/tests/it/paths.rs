//! Tables of one family in several directories.

use std::path::Path;

use cairn_db::{Db, FamilyDescriptor, OpenRequest, open};
use cairn_options::{
    CompactRangeOptions, CompactionOptions, CompactionStyle, DbOptions, DbPath, FamilyOptions,
};
use cairn_platform::World;
use cairn_types::{Code, Result};

use crate::basic::{db_options, small};

fn place(path: &str, target_size: u64) -> DbPath {
    DbPath {
        path: path.into(),
        target_size,
    }
}

fn options() -> DbOptions {
    DbOptions {
        db_paths: vec![place("/fast", 300 << 10), place("/slow", 1 << 40)],
        ..db_options()
    }
}

fn open_with(world: &World, options: &DbOptions, family: FamilyOptions) -> Result<Db> {
    open(&OpenRequest {
        path: Path::new("/db"),
        options,
        families: &[FamilyDescriptor::new("default", family)],
        others: Some(&small()),
        read_only: false,
        world: world.clone(),
    })
}

fn tables(world: &World, dir: &str) -> usize {
    let names = world.fs.list(dir.as_ref()).expect("the directory is there");
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

fn value(n: u32) -> Vec<u8> {
    // Hardly compressible, so that levels fill.
    let mut state = u64::from(n) + 1;
    (0..200)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) as u8
        })
        .collect()
}

#[test]
fn upper_levels_are_in_the_first_directory_and_lower_ones_in_the_next() {
    let world = World::in_memory();
    let db = open_with(&world, &options(), small()).unwrap();
    let key = |n: u32| format!("key{n:06}").into_bytes();
    for n in 0..10_000 {
        db.put(&key(n * 7919 % 10_000), &value(n * 7919 % 10_000))
            .unwrap();
    }
    db.flush().unwrap();
    db.wait_until_quiet().unwrap();
    assert!(tables(&world, "/slow") > 0);
    assert_eq!(tables(&world, "/db"), 0);
    for dir in ["/fast", "/slow"] {
        let named = db.live_files_metadata().into_iter();
        let count = named
            .filter(|file| file.directory == Path::new(dir))
            .count();
        assert_eq!(count, tables(&world, dir), "{dir}");
    }
    db.create_checkpoint("/copy".as_ref(), 0).unwrap();
    db.close().unwrap();
    world
        .fs
        .create("/slow/999999.txt".as_ref(), Default::default())
        .unwrap();
    let db = open_with(&world, &options(), small()).unwrap();
    for n in 0..10_000 {
        assert_eq!(
            db.get(&key(n)).unwrap().as_deref(),
            Some(&value(n)[..]),
            "{n}"
        );
    }
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(db.get(&key(77)).unwrap().as_deref(), Some(&value(77)[..]));
    db.close().unwrap();
    cairn_db::destroy(&world, "/db".as_ref(), &options(), &[]).unwrap();
    assert_eq!(world.fs.list("/slow".as_ref()).unwrap(), ["999999.txt"]);
    assert!(!world.fs.exists("/fast".as_ref()).unwrap());
    let copy = open(&OpenRequest {
        path: Path::new("/copy"),
        options: &db_options(),
        families: &[],
        others: Some(&small()),
        read_only: false,
        world: world.clone(),
    })
    .unwrap();
    assert_eq!(copy.get(&key(77)).unwrap().as_deref(), Some(&value(77)[..]));
}

#[test]
fn a_family_can_have_its_own_directories_and_a_fifo_tree_only_one() {
    let world = World::in_memory();
    let own = FamilyOptions {
        cf_paths: vec![place("/own", 1 << 30)],
        ..small()
    };
    let db = open_with(&world, &options(), own.clone()).unwrap();
    db.put(b"k", b"v").unwrap();
    db.flush().unwrap();
    assert_eq!((tables(&world, "/own"), tables(&world, "/db")), (1, 0));
    db.close().unwrap();
    assert!(open_with(&world, &options(), own).is_ok());
    let fifo = FamilyOptions {
        compaction_style: CompactionStyle::Fifo,
        ..small()
    };
    let refused = open_with(&World::in_memory(), &options(), fifo);
    assert_eq!(
        refused.err().map(|error| error.code()),
        Some(Code::NotSupported)
    );
}

#[test]
fn large_runs_of_a_universal_tree_are_in_the_next_directory() {
    let world = World::in_memory();
    let universal = FamilyOptions {
        compaction_style: CompactionStyle::Universal,
        ..small()
    };
    let db = open_with(&world, &options(), universal.clone()).unwrap();
    let write = |from: u32| {
        for n in from..from + 1000 {
            db.put(format!("key{n:06}").as_bytes(), &value(n)).unwrap();
        }
        db.flush().unwrap();
    };
    write(0);
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(tables(&world, "/slow"), 0);
    write(1000);
    for from in 2..8 {
        write(from * 1000);
    }
    db.wait_until_quiet().unwrap();
    // More than the target size of the first directory.
    assert!(tables(&world, "/slow") > 0);
    assert_eq!(tables(&world, "/db"), 0);
    db.close().unwrap();
    let db = open_with(&world, &options(), universal).unwrap();
    let found = db.get(b"key000077").unwrap();
    assert_eq!(found.as_deref(), Some(&value(77)[..]));
}

/// Regression: they were looked for in the first directory, except by a repair.
#[test]
fn tables_with_a_path_id_beyond_the_directories_are_in_the_last_one() {
    let world = World::in_memory();
    let in_dirs = |dirs: &[&str]| DbOptions {
        db_paths: dirs.iter().map(|dir| place(dir, 1 << 40)).collect(),
        ..db_options()
    };
    let db = open_with(&world, &in_dirs(&["/a", "/b", "/c"]), small()).unwrap();
    db.put(b"k", b"v").unwrap();
    let to_last = CompactRangeOptions {
        target_path_id: 2,
        ..CompactRangeOptions::default()
    };
    db.compact_range(None, None, &to_last).unwrap();
    db.close().unwrap();
    assert_eq!(tables(&world, "/c"), 1);
    let options = in_dirs(&["/a", "/c"]);
    let repaired = cairn_db::repair(&world, "/db".as_ref(), &options, &[], &small()).unwrap();
    assert_eq!((repaired.kept, repaired.lost.len()), (1, 0));
    for read_only in [true, false] {
        let db = open(&OpenRequest {
            path: Path::new("/db"),
            options: &options,
            families: &[],
            others: Some(&small()),
            read_only,
            world: world.clone(),
        });
        let db = db.unwrap();
        assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
        assert_eq!(db.live_files_metadata()[0].directory, Path::new("/c"));
        db.close().unwrap();
    }
    let db = open_with(&world, &options, small()).unwrap();
    db.compact_range(None, None, &to_last).unwrap_err();
    db.delete(b"k").unwrap();
    db.compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    assert_eq!(tables(&world, "/c"), 0);
}

#[test]
fn a_compaction_of_files_needs_the_directory_of_its_outputs_if_there_are_several() {
    let world = World::in_memory();
    let db = open_with(&world, &options(), small()).unwrap();
    db.put(b"k", b"v").unwrap();
    db.flush().unwrap();
    let name = &db.live_files_metadata()[0].relative_filename;
    let compact = |path_id| db.compact_files(&CompactionOptions::default(), &[name], 1, path_id);
    assert_eq!(compact(None).unwrap_err().code(), Code::NotSupported);
    assert_eq!(compact(Some(2)).unwrap_err().code(), Code::InvalidArgument);
    compact(Some(1)).unwrap();
    assert_eq!(tables(&world, "/slow"), 1);
}
