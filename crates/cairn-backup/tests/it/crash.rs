//! Crashes at every file operation of creation, deletion, garbage collection and restore.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use cairn_backup::{BackupEngine, BackupEngineOptions, RestoreOptions};
use cairn_db::Db;
use cairn_options::FamilyOptions;
use cairn_platform::World;
use cairn_sim::images::MODELS;
use cairn_sim::{CrashModel, DiskImage, SimWorld};

use crate::{
    BACKUPS, RESTORED, back_up, back_up_flushed, entries, files, open, restored, try_open,
};

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// A database outside of the simulated disk, with the backups on it.
struct Scene {
    db_world: World,
    db: Db,
    sim: SimWorld,
    engine: BackupEngine,
    /// The entries in each backup.
    states: BTreeMap<u32, Entries>,
}

fn engine_on(db_world: &World, sim: &SimWorld) -> BackupEngine {
    let mut options = BackupEngineOptions::new(BACKUPS);
    options.backup_world = Some(sim.world.clone());
    BackupEngine::open(db_world, &options).unwrap()
}

impl Scene {
    /// Creates two backups, which share tables and have logs.
    fn new() -> Scene {
        let db_world = World::in_memory();
        let db = open(&db_world);
        let sim = SimWorld::new(11);
        let engine = engine_on(&db_world, &sim);
        let mut scene = Scene {
            db_world,
            db,
            sim,
            engine,
            states: BTreeMap::new(),
        };
        scene.write(0);
        scene.back_up();
        scene.write(1);
        scene.back_up();
        scene.write(2);
        scene
    }

    fn write(&self, round: u32) {
        for number in 0..30_u32 {
            let key = (number * 3 + round).to_le_bytes();
            self.db.put(&key, &[round as u8; 300]).unwrap();
        }
        self.db.flush().unwrap();
        self.db.put(b"in the log", &[round as u8]).unwrap();
    }

    fn back_up(&mut self) -> u32 {
        let id = back_up(&self.engine, &self.db);
        self.states.insert(id, entries(&self.db));
        id
    }

    /// Checks every image of the disk at each of the operations `at`. The backups `kept` must be there; others of
    /// `states` may be there if they are complete.
    fn check(&self, at: RangeInclusive<usize>, kept: &[u32]) {
        let trace = self.sim.fs.trace();
        let mut images = 0;
        let mut replay = trace.replay();
        for at in at {
            while replay.at() < at && replay.step() {}
            for model in MODELS {
                for image in replay.images(model, at as u64).take(3) {
                    images += 1;
                    let context = format!("{model:?} at {at}: {:?}", trace.operations().get(at));
                    self.check_image(image, kept, images % 20 == 0, &context);
                }
            }
        }
        assert!(images > 10, "{images} images");
    }

    fn check_image(&self, image: DiskImage, kept: &[u32], continues: bool, context: &str) {
        let sim = SimWorld::on(image, 1);
        let engine = engine_on(&self.db_world, &sim);
        assert!(
            engine.corrupted_backups().is_empty(),
            "{context}: {:?}",
            engine.corrupted_backups()
        );
        let ids: Vec<u32> = engine.backups().iter().map(|info| info.backup_id).collect();
        assert!(kept.iter().all(|id| ids.contains(id)), "{context}: {ids:?}");
        for id in &ids {
            engine.verify_backup(*id, true).expect(context);
        }
        if !continues {
            return;
        }
        for id in &ids {
            assert!(
                restored(&self.db_world, &engine, *id) == self.states[id],
                "{context}: {id}"
            );
        }
        let id = back_up(&engine, &self.db);
        assert!(!ids.contains(&id));
        for id in ids.iter().chain([&id]) {
            engine.verify_backup(*id, true).expect(context);
        }
        engine.purge_old_backups(0).expect(context);
        assert_eq!(
            files(&sim.world, BACKUPS.as_ref()),
            ["BACKUP_LOCK"],
            "{context}"
        );
    }
}

#[test]
fn a_crash_during_a_creation_leaves_it_complete_or_absent() {
    let mut scene = Scene::new();
    let begin = scene.sim.fs.trace().len();
    let id = scene.back_up();
    let end = scene.sim.fs.trace().len();
    scene.check(begin..=end, &[1, 2]);
    scene.check(end..=end, &[1, 2, id]);
}

#[test]
fn a_crash_during_the_first_creation_leaves_nothing_or_the_backup() {
    let db_world = World::in_memory();
    let db = open(&db_world);
    db.put(b"key", b"value").unwrap();
    let sim = SimWorld::new(12);
    let engine = engine_on(&db_world, &sim);
    let states = BTreeMap::from([(1, entries(&db))]);
    let scene = Scene {
        db_world,
        db,
        sim,
        engine,
        states,
    };
    back_up_flushed(&scene.engine, &scene.db);
    let end = scene.sim.fs.trace().len();
    scene.check(0..=end, &[]);
    scene.check(end..=end, &[1]);
}

#[test]
fn a_crash_during_a_deletion_leaves_other_backups_complete() {
    let mut scene = Scene::new();
    let third = scene.back_up();
    let begin = scene.sim.fs.trace().len();
    scene.engine.delete_backup(2).unwrap();
    scene.check(begin..=scene.sim.fs.trace().len(), &[1, third]);
    let begin = scene.sim.fs.trace().len();
    scene.engine.purge_old_backups(1).unwrap();
    scene.check(begin..=scene.sim.fs.trace().len(), &[third]);
}

/// A creation is interrupted, and then the garbage collection that removes its files.
#[test]
fn a_crash_during_a_garbage_collection_leaves_backups_complete() {
    let mut scene = Scene::new();
    let begin = scene.sim.fs.trace().len();
    scene.back_up();
    let end = scene.sim.fs.trace().len();
    let trace = scene.sim.fs.trace();
    for at in (begin..end).step_by(5) {
        let killed = trace.images(at, CrashModel::Kill, 0).next();
        let sim = SimWorld::on(killed.unwrap(), 2);
        let engine = engine_on(&scene.db_world, &sim);
        let start = sim.fs.trace().len();
        engine.garbage_collect().unwrap();
        let again = Scene {
            db_world: scene.db_world.clone(),
            db: scene.db.clone(),
            sim,
            engine,
            states: scene.states.clone(),
        };
        again.check(start..=again.sim.fs.trace().len(), &[1, 2]);
    }
}

#[test]
fn a_crash_during_a_restore_leaves_no_database_that_opens_or_the_whole() {
    // The databases are on the simulated disk, the backups are not.
    let backups = World::in_memory();
    let mut options = BackupEngineOptions::new(BACKUPS);
    options.backup_world = Some(backups);
    let sim = SimWorld::new(13);
    let engine = BackupEngine::open(&sim.world, &options).unwrap();
    let db = open(&sim.world);
    db.put(b"a", b"1").unwrap();
    back_up_flushed(&engine, &db);
    db.put(b"a", b"2").unwrap();
    db.put(b"b", &[1; 5_000]).unwrap();
    back_up_flushed(&engine, &db);
    db.close().unwrap();
    let states = [entries(&open(&sim.world))];
    let target = Path::new(RESTORED);
    let restore = RestoreOptions::default();
    engine
        .restore_db_from_backup(1, target, target, &restore)
        .unwrap();
    let begin = sim.fs.trace().len();
    engine
        .restore_db_from_backup(2, target, target, &restore)
        .unwrap();
    let end = sim.fs.trace().len();
    let trace = sim.fs.trace();
    let (mut opened, mut images) = (0, 0);
    let mut replay = trace.replay();
    for at in begin + 1..=end {
        while replay.at() < at && replay.step() {}
        for model in MODELS {
            for image in (0..8).flat_map(|seed| replay.images(model, at as u64 * 8 + seed).take(3))
            {
                images += 1;
                let world = SimWorld::on(image, 1).world;
                let current = world.fs.exists(&target.join("CURRENT")).unwrap();
                match try_open(&world, target, &FamilyOptions::default(), false) {
                    Err(_) => assert!(at < end, "{model:?} at {at}"),
                    Ok(db) => {
                        assert!(current);
                        opened += 1;
                        let found = entries(&db);
                        // Until CURRENT is removed, the database is the one of the first restore.
                        let old = BTreeMap::from([(b"a".to_vec(), b"1".to_vec())]);
                        assert!(found == states[0] || found == old, "{model:?} at {at}");
                    }
                }
            }
        }
    }
    assert!(opened > 0 && images > 100, "{opened} of {images}");
}
