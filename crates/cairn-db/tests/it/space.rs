//! Space of files: accounting, the limit, and rate-limited deletion.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_db::Db;
use cairn_options::{CompactRangeOptions, DbOptions, FamilyOptions};
use cairn_platform::SstFileManager;
use cairn_platform::sst_file_manager::TRASH_SUFFIX;
use cairn_sim::SimWorld;
use cairn_types::{Code, Severity, Subcode};

use super::basic::{db_options, open_with, small};

fn managed() -> (Arc<SstFileManager>, DbOptions) {
    let manager = Arc::new(SstFileManager::new());
    let options = DbOptions {
        sst_file_manager: Some(manager.clone()),
        ..db_options()
    };
    (manager, options)
}

fn by_hand() -> FamilyOptions {
    FamilyOptions {
        disable_auto_compactions: true,
        ..small()
    }
}

fn open_on(sim: &SimWorld, options: &DbOptions, family: &FamilyOptions) -> Db {
    open_with(&sim.world, options, family).expect("it opens")
}

/// Writes a table of about 10000 incompressible bytes, with the same keys each time.
fn table(db: &Db, round: u32) {
    let mut noise = 1 + round;
    for n in 0..20_u32 {
        let value = (0..500).map(|_| {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (noise >> 24) as u8
        });
        db.put(&n.to_be_bytes(), &value.collect::<Vec<_>>())
            .expect("it is written");
    }
    db.flush().expect("it is flushed");
}

fn compact(db: &Db) -> cairn_types::Result<()> {
    db.compact_range(None, None, &CompactRangeOptions::default())
}

/// Returns the size of the files with this suffix.
fn bytes_of(sim: &SimWorld, ends: &[&str]) -> u64 {
    let image = sim.fs.image();
    let files = image.files().filter(|(path, _)| {
        let path = path.to_string_lossy();
        ends.iter().any(|end| path.ends_with(end))
    });
    files.map(|(_, bytes)| bytes.len() as u64).sum()
}

fn data(sim: &SimWorld) -> u64 {
    bytes_of(sim, &[".sst", ".blob"])
}

fn wait(sim: &SimWorld, seconds: u32) {
    for _ in 0..seconds {
        sim.executor.run(1_000);
        sim.clock.advance(Duration::from_secs(1));
    }
    sim.executor.run(1_000);
}

#[test]
fn tables_and_blob_files_count_from_their_installation_to_their_deletion() {
    let sim = SimWorld::new(1);
    let (manager, options) = managed();
    let blobs = FamilyOptions {
        enable_blob_files: true,
        ..by_hand()
    };
    let db = open_on(&sim, &options, &blobs);
    assert_eq!(manager.total_size(), 0);
    table(&db, 1);
    let one = manager.total_size();
    assert!(one > 10_000, "{one}");
    assert_eq!(one, data(&sim));
    table(&db, 2);
    table(&db, 3);
    assert_eq!(manager.total_size(), data(&sim));
    let before = manager.total_size();
    compact(&db).unwrap();
    wait(&sim, 1);
    assert_eq!(manager.total_size(), data(&sim));
    assert!(manager.total_size() < before);
    let other = db.create_family("other", &by_hand()).unwrap();
    other.put(b"k", b"v").unwrap();
    other.flush().unwrap();
    assert_eq!(manager.total_size(), data(&sim));
    drop(other);
    db.close().unwrap();
    assert_eq!(manager.total_size(), 0);
    drop(db);
    let db = open_on(&sim, &options, &blobs);
    assert_eq!(manager.total_size(), data(&sim));
    drop(db);
    assert_eq!(manager.total_size(), 0);
}

#[test]
fn a_flush_that_reaches_the_limit_stops_writes_until_it_is_raised() {
    for atomic_flush in [false, true] {
        let sim = SimWorld::new(2);
        let (manager, options) = managed();
        let options = DbOptions {
            atomic_flush,
            ..options
        };
        let db = open_on(&sim, &options, &small());
        table(&db, 1);
        let reached = manager.total_size() + 1;
        manager.set_max_allowed_space_usage(reached);
        assert!(!manager.is_max_allowed_space_reached());
        db.put(b"a", b"1").unwrap();
        let error = db.flush().unwrap_err();
        assert_eq!(error.subcode(), Subcode::SpaceLimit);
        assert!(error.text().contains("Max allowed space was reached"));
        let state = db.background_error_state().expect("the limit is reached");
        assert_eq!(state.severity, Severity::Hard);
        wait(&sim, 60);
        assert_eq!(
            db.put(b"b", b"2").unwrap_err().subcode(),
            Subcode::SpaceLimit
        );
        assert_eq!(db.get(b"a").unwrap().as_deref(), Some(&b"1"[..]));
        assert_eq!(db.resume().unwrap_err().code(), Code::Busy);

        manager.set_max_allowed_space_usage(reached + 1_000_000);
        wait(&sim, 3);
        assert_eq!(db.background_error_state(), None);
        db.put(b"b", b"2").unwrap();
        db.flush().unwrap();
        drop(db);
        let db = open_on(&sim, &options, &small());
        for (key, value) in [(b"a", b"1"), (b"b", b"2")] {
            assert_eq!(db.get(key).unwrap().as_deref(), Some(&value[..]));
        }
    }
}

#[test]
fn without_paranoid_checks_the_limit_does_not_stop_writes() {
    let sim = SimWorld::new(3);
    let (manager, options) = managed();
    let options = DbOptions {
        paranoid_checks: false,
        ..options
    };
    let db = open_on(&sim, &options, &small());
    manager.set_max_allowed_space_usage(1);
    table(&db, 1);
    assert!(manager.is_max_allowed_space_reached());
    table(&db, 2);
    assert_eq!(db.background_error_state(), None);
}

#[test]
fn a_compaction_that_may_exceed_the_limit_waits_for_space() {
    let sim = SimWorld::new(4);
    let (manager, options) = managed();
    let db = open_on(&sim, &options, &small());
    manager.set_max_allowed_space_usage(1_000_000);
    manager.set_compaction_buffer_size(1_000_000);
    for round in 0..4 {
        table(&db, round);
    }
    wait(&sim, 10);
    let level_zero = || db.property("rocksdb.num-files-at-level0");
    assert_eq!(level_zero().as_deref(), Some("4"));
    assert_eq!(compact(&db).unwrap_err().code(), Code::CompactionTooLarge);
    assert_eq!(db.background_error_state(), None);
    assert!(!manager.is_max_allowed_space_reached_including_compactions());
    manager.set_compaction_buffer_size(0);
    wait(&sim, 3);
    assert_eq!(level_zero().as_deref(), Some("0"));
    assert_eq!(manager.total_size(), data(&sim));
}

#[test]
fn obsolete_tables_are_deleted_at_the_rate() {
    let sim = SimWorld::new(5);
    let (manager, options) = managed();
    manager.set_max_trash_db_ratio(10.0);
    let db = open_on(&sim, &options, &by_hand());
    for round in 0..3 {
        table(&db, round);
    }
    let before = data(&sim);
    manager.set_delete_rate_bytes_per_second((before / 3 / 10).cast_signed());
    compact(&db).unwrap();
    let trash = || bytes_of(&sim, &[TRASH_SUFFIX]);
    sim.executor.run(1_000);
    // The first is deleted at once; the others after the ten seconds that the rate requires for each.
    for left in [2, 1, 0] {
        let expected = before / 3 * left;
        assert!(trash().abs_diff(expected) < 100, "{} {expected}", trash());
        assert_eq!(manager.total_trash_size(), trash());
        assert_eq!(manager.total_size(), data(&sim) + trash());
        wait(&sim, 6);
        assert!(trash().abs_diff(expected) < 100, "{} {expected}", trash());
        wait(&sim, 6);
    }
}

#[test]
fn too_much_trash_is_deleted_at_once() {
    let sim = SimWorld::new(6);
    let (manager, options) = managed();
    manager.set_delete_rate_bytes_per_second(1);
    assert!((manager.max_trash_db_ratio() - 0.25).abs() < f64::EPSILON);
    let db = open_on(&sim, &options, &by_hand());
    for round in 0..10 {
        table(&db, round);
    }
    let before = data(&sim);
    compact(&db).unwrap();
    let left = manager.total_trash_size();
    assert_eq!(left, bytes_of(&sim, &[TRASH_SUFFIX]));
    assert!(left > 0 && left < before / 2, "{left} of {before}");
}

#[test]
fn trash_is_removed_by_an_opening_and_by_the_destruction() {
    let sim = SimWorld::new(7);
    for destroys in [false, true] {
        let (manager, options) = managed();
        manager.set_delete_rate_bytes_per_second(1);
        let db = open_on(&sim, &options, &by_hand());
        for round in 0..3 {
            table(&db, round);
        }
        compact(&db).unwrap();
        drop(db);
        drop((manager, options));
        wait(&sim, 1);
        assert!(bytes_of(&sim, &[TRASH_SUFFIX]) > 0);
        match destroys {
            false => drop(open_on(&sim, &db_options(), &by_hand())),
            true => {
                let families = [FamilyOptions::default()];
                let dir = Path::new("/db");
                cairn_db::destroy(&sim.world, dir, &db_options(), &families).unwrap();
                assert_eq!(data(&sim), 0);
            }
        }
        assert_eq!(bytes_of(&sim, &[TRASH_SUFFIX]), 0);
    }
}
