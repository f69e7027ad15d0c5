//! Misuse, damage, and primaries that behave as no single run of Cairn does.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use cairn_db::{Db, WriteBatch};
use cairn_options::{CompactRangeOptions, FamilyOptions, ReadOptions};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::Mutex;
use cairn_platform::{FileSystem, World};
use cairn_sim::SimWorld;
use cairn_types::Code;

use crate::watched::{Hook, Watched};
use crate::{
    PRIMARY, SECONDARY, content, open_follower, open_primary, open_secondary, process, request,
};

fn primary(sim: &SimWorld) -> Db {
    let db = open_primary(&sim.world, "").unwrap();
    db.put(b"a", b"1").unwrap();
    db.flush().unwrap();
    db.put(b"b", b"2").unwrap();
    db
}

fn read(fs: &dyn FileSystem, path: &Path) -> Vec<u8> {
    let file = fs.open(path, FileMode::default()).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_up_to_end(0, &mut bytes).unwrap();
    bytes
}

fn write(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    let file = fs.create(path, FileMode::default()).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

fn append(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    let file = fs.open_append(path, FileMode::default()).unwrap();
    file.append(bytes).unwrap();
    file.close().unwrap();
}

#[test]
fn a_secondary_refuses_changes_snapshots_and_the_directory_of_its_primary() {
    let sim = SimWorld::new(1);
    let _primary = primary(&sim);
    let world = process(&sim, 2);
    let same = request(&world, PRIMARY.as_ref(), "", |request| {
        cairn_follow::open_as_secondary(request, PRIMARY.as_ref())
    });
    assert_eq!(same.err().unwrap().code(), Code::InvalidArgument);
    let missing = request(&world, Path::new("/nowhere"), "", |request| {
        cairn_follow::open_as_secondary(request, SECONDARY.as_ref())
    });
    assert!(missing.is_err());
    let before = sim.fs.list(PRIMARY.as_ref()).unwrap();
    let db = open_secondary(&world, "").unwrap();
    let text = "Not supported operation in secondary mode.";
    let refused = [
        db.put(b"a", b"2"),
        db.write(&WriteBatch::default()),
        db.flush(),
        db.compact_range(None, None, &CompactRangeOptions::default())
            .map(drop),
        db.create_family("new", &FamilyOptions::default()).map(drop),
        db.drop_family(&db.family("other").unwrap()),
        db.flush_wal(true),
    ];
    for (number, refused) in refused.into_iter().enumerate() {
        let error = refused.expect_err(&number.to_string());
        assert_eq!(error.code(), Code::NotSupported, "{number}: {error}");
        assert!(error.text().contains(text), "{number}: {error}");
    }
    let snapshot = db.snapshot();
    let options = ReadOptions {
        snapshot: Some(snapshot.sequence()),
        ..ReadOptions::default()
    };
    let error = db.get_with(b"a", &options).err().unwrap();
    assert_eq!(error.text(), "snapshot not supported in secondary mode");
    let mut iter = db.iter_with(&options);
    iter.seek_to_first();
    assert_eq!(iter.status().unwrap_err().code(), Code::NotSupported);
    let many = db.multi_get(&[b"a"], &options);
    assert!(many[0].is_err());
    let many = db.multi_get_with_timestamps(&[b"a"], &options);
    assert_eq!(many[0].as_ref().err().unwrap().code(), Code::NotSupported);
    drop(iter);
    db.close().unwrap();
    assert_eq!(
        db.try_catch_up_with_primary().unwrap_err().code(),
        Code::ShutdownInProgress
    );
    assert_eq!(sim.fs.list(PRIMARY.as_ref()).unwrap(), before);
    let ordinary = open_primary(&World::in_memory(), "").unwrap();
    assert_eq!(
        ordinary.try_catch_up_with_primary().unwrap_err().code(),
        Code::NotSupported
    );
}

/// Regression: a read of attribute groups took a snapshot, which databases that follow another one refuse.
#[test]
fn attribute_groups_are_read_from_databases_that_follow_another_one() {
    let sim = SimWorld::new(1);
    let primary = primary(&sim);
    let other = primary.family("other").unwrap();
    other.put(b"b", b"3").unwrap();
    for (seed, copies) in [(2, false), (3, true)] {
        let world = process(&sim, seed);
        let db = match copies {
            true => open_follower(&world, ""),
            false => open_secondary(&world, ""),
        };
        let db = db.unwrap();
        let other = db.family("other").unwrap();
        let families = [db.default_family(), &other];
        let groups = |options: &ReadOptions| db.get_attribute_groups(b"b", &families, options);
        let value = |group: cairn_types::Result<Option<cairn_db::Columns>>| {
            let columns = group.unwrap().expect("the key exists");
            columns.get(b"").map(<[u8]>::to_vec)
        };
        let values: Vec<_> = groups(&ReadOptions::default())
            .into_iter()
            .map(value)
            .collect();
        assert_eq!(values, [Some(b"2".to_vec()), Some(b"3".to_vec())]);
        let options = ReadOptions {
            snapshot: Some(db.latest_sequence()),
            ..ReadOptions::default()
        };
        for group in groups(&options) {
            assert_eq!(group.err().unwrap().code(), Code::NotSupported);
        }
        db.close().unwrap();
    }
}

#[test]
fn two_secondaries_may_share_a_directory() {
    let sim = SimWorld::new(1);
    let primary = primary(&sim);
    let first = open_secondary(&process(&sim, 2), "").unwrap();
    let second = open_secondary(&process(&sim, 3), "").unwrap();
    primary.put(b"c", b"3").unwrap();
    for db in [first, second] {
        db.try_catch_up_with_primary().unwrap();
        assert_eq!(content(&db).unwrap()[0].len(), 3);
        db.close().unwrap();
    }
}

#[test]
fn a_dropped_family_stays_readable_and_a_new_one_is_ignored() {
    let sim = SimWorld::new(1);
    let primary = primary(&sim);
    let other = primary.family("other").unwrap();
    other.put(b"key", b"value").unwrap();
    other.flush().unwrap();
    let db = open_secondary(&process(&sim, 2), "").unwrap();
    let held = db.family("other").unwrap();
    primary.drop_family(&other).unwrap();
    drop(other);
    let again = primary
        .create_family("other", &FamilyOptions::default())
        .unwrap();
    again.put(b"key", b"new").unwrap();
    primary.put(b"c", b"3").unwrap();
    for _ in 0..2 {
        db.try_catch_up_with_primary().unwrap();
        assert_eq!(held.get(b"key").unwrap().as_deref(), Some(&b"value"[..]));
        assert_eq!(db.get(b"c").unwrap().as_deref(), Some(&b"3"[..]));
        assert!(db.family("other").is_none());
        primary.flush_families(&[]).unwrap();
    }
}

#[test]
fn a_damaged_log_is_an_error_until_its_entries_are_in_tables() {
    let sim = SimWorld::new(1);
    let primary = open_primary(&sim.world, "wal_write_mode=kPlain").unwrap();
    let other = primary.family("other").unwrap();
    let db = open_secondary(&process(&sim, 2), "").unwrap();
    let log = |at: usize| {
        let logs = cairn_wal::list(&*sim.fs, PRIMARY.as_ref()).unwrap();
        logs[at].path.clone()
    };
    primary.put(b"a", &[7; 100]).unwrap();
    sim.fs.flip_bit(&log(0), 50, 1).unwrap();
    // The end of a log may be in the course of being written.
    db.try_catch_up_with_primary().unwrap();
    assert!(db.get(b"a").unwrap().is_none());
    primary.put(b"b", b"2").unwrap();
    other.put(b"c", b"3").unwrap();
    other.flush().unwrap();
    primary.put(b"d", b"4").unwrap();
    let error = db.try_catch_up_with_primary().unwrap_err();
    assert!(error.is_corruption(), "{error}");
    assert!(db.get(b"b").unwrap().is_none());
    primary.flush_families(&[]).unwrap();
    primary.put(b"e", b"5").unwrap();
    db.try_catch_up_with_primary().unwrap();
    assert_eq!(content(&db).unwrap(), content(&primary).unwrap());
}

#[test]
fn another_database_at_the_same_path_takes_its_place() {
    let sim = SimWorld::new(1);
    let first = primary(&sim);
    let db = open_secondary(&process(&sim, 2), "").unwrap();
    first.close().unwrap();
    drop(first);
    for name in sim.fs.list(PRIMARY.as_ref()).unwrap() {
        let path = Path::new(PRIMARY).join(name);
        if path.extension().is_none_or(|it| it != "dbtmp") {
            sim.fs.remove(&path).unwrap();
        }
    }
    assert!(db.try_catch_up_with_primary().is_err());
    assert_eq!(content(&db).unwrap()[0].len(), 2);
    let second = open_primary(&process(&sim, 3), "").unwrap();
    second.put(b"z", b"26").unwrap();
    db.try_catch_up_with_primary().unwrap();
    assert_eq!(content(&db).unwrap(), content(&second).unwrap());
}

/// RocksDB creates a log before it has written the last record of the previous one.
#[test]
fn a_log_is_read_to_its_end_before_the_first_record_of_the_next_one() {
    let sim = SimWorld::new(1);
    let primary = open_primary(&sim.world, "wal_write_mode=kPlain").unwrap();
    primary.put(b"a", b"1").unwrap();
    let dir = Path::new(PRIMARY);
    let state: Vec<_> = sim.fs.list(dir).unwrap();
    let files = state
        .into_iter()
        .filter(|name| name != "LOCK" && name != "LOG");
    let state: Vec<_> = files
        .map(|name| (read(&*sim.fs, &dir.join(&name)), name))
        .collect();
    primary.put(b"b", b"2").unwrap();
    let other = primary.family("other").unwrap();
    other.put(b"c", b"3").unwrap();
    other.flush().unwrap();
    primary.put(b"d", b"4").unwrap();
    let logs = cairn_wal::list(&*sim.fs, dir).unwrap();
    let [old, new] = &logs[..] else {
        panic!("{logs:?}")
    };
    let (old_bytes, new_bytes) = (read(&*sim.fs, &old.path), read(&*sim.fs, &new.path));
    primary.close().unwrap();

    let sim = SimWorld::new(2);
    sim.fs.create_dir_all(dir).unwrap();
    for (bytes, name) in &state {
        write(&*sim.fs, &dir.join(name), bytes);
    }
    write(&*sim.fs, &new.path, b"");
    let begun = read(&*sim.fs, &old.path).len();
    let is_written = Arc::new(AtomicBool::new(false));
    let (fs, paths) = (sim.fs.clone(), (old.path.clone(), new.path.clone()));
    let armed: Arc<Mutex<usize>> = Arc::default();
    let hook: Hook = {
        let (armed, is_written) = (armed.clone(), is_written.clone());
        Arc::new(move || {
            let mut left = armed.lock();
            if *left > 0 {
                *left -= 1;
                if *left == 0 && !is_written.swap(true, Ordering::SeqCst) {
                    append(&*fs, &paths.0, &old_bytes[begun..]);
                    append(&*fs, &paths.1, &new_bytes);
                }
            }
            Ok(())
        })
    };
    // Before each of the reads of a catch-up.
    for at in 1..30 {
        for (path, len) in [(&old.path, begun), (&new.path, 0)] {
            let file = sim.fs.open_overwrite(path, FileMode::default()).unwrap();
            file.truncate(len as u64).unwrap();
            file.close().unwrap();
        }
        is_written.store(false, Ordering::SeqCst);
        let world = process(&sim, 3);
        let inner = world.fs.clone();
        let fs = Watched {
            inner,
            hook: hook.clone(),
            reads: true,
        };
        let db = open_secondary(
            &World {
                fs: Arc::new(fs),
                ..world
            },
            "",
        )
        .unwrap();
        assert_eq!(content(&db).unwrap()[0].len(), 1);
        *armed.lock() = at;
        db.try_catch_up_with_primary().unwrap();
        *armed.lock() = 0;
        let found = db.get(b"b").unwrap().is_some();
        assert_eq!(
            found,
            db.family("other").unwrap().get(b"c").unwrap().is_some(),
            "{at}"
        );
        let last = db.get(b"d").unwrap().is_some();
        assert!(
            !last || found,
            "read {at}: the last write without an earlier one"
        );
        if is_written.load(Ordering::SeqCst) {
            db.try_catch_up_with_primary().unwrap();
            assert!(db.get(b"d").unwrap().is_some());
        } else {
            assert!(at > 4, "{at}");
        }
        db.close().unwrap();
    }
}

#[test]
fn a_follower_has_its_own_files_and_deletes_obsolete_ones() {
    let sim = SimWorld::new(1);
    let leader = primary(&sim);
    let text = "follower_refresh_catchup_period_ms=1000";
    let db = open_follower(&process(&sim, 2), text).unwrap();
    let tables = |dir: &str| -> Vec<String> {
        let names = sim.fs.list(dir.as_ref()).unwrap().into_iter();
        let mut tables: Vec<_> = names.filter(|name| name.ends_with(".sst")).collect();
        tables.sort();
        tables
    };
    for round in 0..4 {
        leader.put(b"a", round.to_string().as_bytes()).unwrap();
        leader.flush().unwrap();
        leader
            .compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
        leader.wait_until_quiet().unwrap();
        db.try_catch_up_with_primary().unwrap();
        assert_eq!(tables(SECONDARY), tables(PRIMARY));
        assert_eq!(content(&db).unwrap(), content(&leader).unwrap());
    }
    db.close().unwrap();
    drop(db);
    leader.delete(b"b").unwrap();
    leader.flush().unwrap();
    leader
        .compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    let db = open_follower(&process(&sim, 3), text).unwrap();
    assert_eq!(tables(SECONDARY), tables(PRIMARY));
    assert_eq!(content(&db).unwrap(), content(&leader).unwrap());
}

#[test]
fn a_follower_catches_up_periodically() {
    let sim = SimWorld::new(1);
    let leader = primary(&sim);
    let world = process(&sim, 2);
    let text = "follower_refresh_catchup_period_ms=1000;follower_catchup_retry_wait_ms=100";
    let db = open_follower(&world, text).unwrap();
    for round in 0..3 {
        leader.put(b"a", round.to_string().as_bytes()).unwrap();
        sim.clock.advance(std::time::Duration::from_millis(1100));
        while world.executor.help() {}
        let value = db.get(b"a").unwrap();
        assert_eq!(value.as_deref(), Some(round.to_string().as_bytes()));
    }
    let current = Path::new(PRIMARY).join("CURRENT");
    let aside = Path::new(PRIMARY).join("ASIDE");
    sim.fs.rename(&current, &aside).unwrap();
    leader.put(b"a", b"late").unwrap();
    sim.clock.advance(std::time::Duration::from_millis(1100));
    while world.executor.help() {}
    sim.fs.rename(&aside, &current).unwrap();
    assert_ne!(db.get(b"a").unwrap().as_deref(), Some(&b"late"[..]));
    sim.clock.advance(std::time::Duration::from_millis(150));
    while world.executor.help() {}
    assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"late"[..]));
    db.close().unwrap();
    sim.clock.advance(std::time::Duration::from_secs(5));
    while world.executor.help() {}
}

/// A listener that catches up within a catch-up.
#[test]
fn a_catch_up_within_a_catch_up_is_busy() {
    let sim = SimWorld::new(1);
    let primary = primary(&sim);
    let within: Arc<OnceLock<Db>> = Arc::default();
    let inner: Arc<OnceLock<Code>> = Arc::default();
    let (db, seen) = (within.clone(), inner.clone());
    let hook: Hook = Arc::new(move || {
        if let Some(db) = db.get() {
            let caught_up = db.try_catch_up_with_primary();
            let _ = seen.set(caught_up.unwrap_err().code());
        }
        Ok(())
    });
    let world = process(&sim, 2);
    let fs = Watched {
        inner: world.fs.clone(),
        hook,
        reads: true,
    };
    let db = open_secondary(
        &World {
            fs: Arc::new(fs),
            ..world
        },
        "",
    )
    .unwrap();
    within.set(db.clone()).ok().unwrap();
    primary.put(b"c", b"3").unwrap();
    db.try_catch_up_with_primary().unwrap();
    assert_eq!(inner.get(), Some(&Code::Busy));
    assert!(db.get(b"c").unwrap().is_some());
    db.close().unwrap();
    std::mem::forget(within);
}

/// It would delete the tables of the database, or those of the other follower.
#[test]
fn a_follower_has_a_directory_without_a_database_to_itself() {
    let sim = SimWorld::new(1);
    let leader = primary(&sim);
    let other = request(&process(&sim, 2), SECONDARY.as_ref(), "", cairn_db::open).unwrap();
    other.put(b"z", b"1").unwrap();
    other.flush().unwrap();
    other.close().unwrap();
    drop(other);
    let before = sim.fs.list(SECONDARY.as_ref()).unwrap();
    let error = open_follower(&process(&sim, 3), "").err().unwrap();
    assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    assert_eq!(sim.fs.list(SECONDARY.as_ref()).unwrap(), before);
    for name in before {
        sim.fs.remove(&Path::new(SECONDARY).join(name)).unwrap();
    }
    let first = open_follower(&process(&sim, 4), "").unwrap();
    let error = open_follower(&process(&sim, 5), "").err().unwrap();
    assert_eq!(error.code(), Code::IoError, "{error}");
    first.close().unwrap();
    let second = open_follower(&process(&sim, 5), "").unwrap();
    assert_eq!(content(&second).unwrap(), content(&leader).unwrap());
}
