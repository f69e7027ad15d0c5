//! The whole engine on encrypted files.

use std::path::Path;
use std::sync::Arc;

use cairn_db::{Db, FamilyDescriptor, OpenRequest, WriteBatch, open};
use cairn_options::{CompactRangeOptions, DbOptions, FamilyOptions};
use cairn_platform::fs::FileMode;
use cairn_platform::{BlockCipher, CtrProvider, FileSystem, MemFileSystem, World};
use cairn_sim::{CrashModel, SampleCipher, SimWorld};
use cairn_types::{Code, Result};

const DIR: &str = "/db";
const COPY: &str = "/copy";

/// A key that differs from the sample cipher's.
struct OtherKey;

impl BlockCipher for OtherKey {
    fn block_size(&self) -> usize {
        32
    }
    fn encrypt_blocks(&self, blocks: &mut [u8]) {
        blocks
            .iter_mut()
            .for_each(|byte| *byte = byte.wrapping_mul(3));
    }
}

fn encrypted(world: World, cipher: impl BlockCipher + 'static) -> World {
    let provider = CtrProvider::new(Arc::new(cipher)).expect("its blocks are long enough");
    let random = world.random.clone();
    world.encrypted(Arc::new(provider.with_random(random)))
}

fn open_with(world: &World, dir: &str, db: &DbOptions, read_only: bool) -> Result<Db> {
    let family = FamilyOptions {
        enable_blob_files: true,
        min_blob_size: 1000,
        ..FamilyOptions::default()
    };
    open(&OpenRequest {
        path: Path::new(dir),
        options: db,
        families: &[FamilyDescriptor {
            name: "default".to_owned(),
            options: family.clone(),
        }],
        others: Some(&family),
        read_only,
        world: world.clone(),
    })
}

fn open_at(world: &World, dir: &str) -> Db {
    let db = DbOptions {
        create_if_missing: true,
        recycle_log_file_num: 2,
        ..DbOptions::default()
    };
    open_with(world, dir, &db, false).expect("it opens")
}

fn key(n: u32) -> Vec<u8> {
    format!("secret key {n:05}").into_bytes()
}

/// Some values are in blob files.
fn value(n: u32) -> Vec<u8> {
    let times = if n.is_multiple_of(20) { 100 } else { 1 };
    format!("secret value {n} ").repeat(times).into_bytes()
}

fn fill(db: &Db, keys: std::ops::Range<u32>) {
    for n in keys {
        let mut batch = WriteBatch::new();
        batch.put(&key(n), &value(n));
        db.write(&batch).expect("written");
    }
}

fn check(db: &Db, keys: u32) {
    let mut iter = db.iter();
    iter.seek_to_first();
    for n in 0..keys {
        assert!(iter.valid(), "{n}");
        assert_eq!((iter.key(), iter.value()), (&key(n)[..], &value(n)[..]));
        assert_eq!(
            db.get(&key(n)).expect("read").as_deref(),
            Some(&value(n)[..])
        );
        iter.next();
    }
    assert!(!iter.valid());
    iter.status().expect("no error");
}

/// Returns the files below `dir` that contain `text`.
fn that_show(fs: &dyn FileSystem, dir: &str, text: &[u8]) -> Vec<String> {
    let mut names = fs.list(Path::new(dir)).expect("listed");
    names.retain(|name| {
        let path = Path::new(dir).join(name);
        // The lock file is held, and empty.
        let Ok(file) = fs.open(&path, FileMode::default()) else {
            return false;
        };
        let mut bytes = vec![0; file.len().expect("it has one") as usize];
        file.read_at(0, &mut bytes).expect("read");
        bytes.windows(text.len()).any(|bytes| bytes == text)
    });
    names
}

#[test]
fn all_data_survives_flushes_compactions_copies_and_openings() {
    let plain = MemFileSystem::new();
    let world = World {
        fs: Arc::new(plain.clone()),
        ..World::posix()
    };
    let world = encrypted(world, SampleCipher);
    let db = open_at(&world, DIR);
    for round in 0..4 {
        fill(&db, round * 200..(round + 1) * 200);
        db.flush().unwrap();
    }
    db.default_family()
        .compact_range(None, None, &CompactRangeOptions::default())
        .unwrap();
    fill(&db, 800..900);
    check(&db, 900);
    db.verify_checksum(&Default::default()).unwrap();
    db.create_checkpoint(Path::new(COPY), u64::MAX).unwrap();
    fill(&db, 900..1000);
    db.close().unwrap();
    drop(db);

    for (dir, keys) in [(DIR, 1000), (COPY, 900), (DIR, 1000)] {
        let db = open_at(&world, dir);
        check(&db, keys);
        db.close().unwrap();
    }
    for dir in [DIR, COPY] {
        for text in [
            &b"secret"[..],
            b"leveldb.Bytewise",
            b"MANIFEST-",
            b"[DBOptions]",
        ] {
            assert_eq!(that_show(&plain, dir, text), [""; 0]);
        }
        assert_ne!(that_show(&*world.fs, dir, b"secret").len(), 0);
    }
}

#[test]
fn writes_survive_a_kill_and_synced_writes_a_power_failure() {
    let sim = SimWorld::new(5);
    let world = encrypted(sim.world.clone(), SampleCipher);
    let db = open_at(&world, DIR);
    fill(&db, 0..100);
    db.flush().unwrap();
    fill(&db, 100..150);
    db.sync_wal().unwrap();
    let synced = sim.fs.operations();
    fill(&db, 150..160);
    let trace = sim.fs.trace();
    for (at, model, keys) in [
        (trace.len(), CrashModel::Kill, 160),
        (synced, CrashModel::Synced, 150),
        (synced, CrashModel::Garbage, 150),
    ] {
        for image in trace.images(at, model, 1).take(8) {
            let sim = SimWorld::on(image, 2);
            let db = open_at(&encrypted(sim.world.clone(), SampleCipher), DIR);
            check(&db, keys);
            db.close().unwrap();
        }
    }
}

#[test]
fn the_wrong_key_and_unencrypted_files_are_rejected() {
    let mem = World::in_memory();
    let db = open_at(&encrypted(mem.clone(), SampleCipher), DIR);
    fill(&db, 0..100);
    db.close().unwrap();
    drop(db);
    let plain = open_at(&mem, COPY);
    fill(&plain, 0..100);
    plain.close().unwrap();
    drop(plain);
    let options = DbOptions::default();
    for (world, dir) in [
        (encrypted(mem.clone(), OtherKey), DIR),
        (mem.clone(), DIR),
        (encrypted(mem.clone(), SampleCipher), COPY),
    ] {
        let error = open_with(&world, dir, &options, false)
            .err()
            .expect("refused");
        assert_eq!(error.code(), Code::Corruption, "{error}");
    }
    // The attempts did no damage.
    check(&open_at(&encrypted(mem.clone(), SampleCipher), DIR), 100);
    check(&open_at(&mem, COPY), 100);
}

#[test]
fn mappings_are_rejected_when_a_table_is_read() {
    let world = encrypted(World::in_memory(), SampleCipher);
    let db = open_with(
        &world,
        DIR,
        &DbOptions {
            create_if_missing: true,
            allow_mmap_reads: true,
            ..DbOptions::default()
        },
        false,
    )
    .unwrap();
    fill(&db, 0..10);
    let refused = match db.flush() {
        Err(error) => error,
        Ok(()) => db.get(&key(1)).unwrap_err(),
    };
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
}

#[test]
fn damage_to_any_file_is_an_error_and_never_a_wrong_value() {
    let plain = MemFileSystem::new();
    let world = World {
        fs: Arc::new(plain.clone()),
        ..World::posix()
    };
    let world = encrypted(world, SampleCipher);
    let db = open_at(&world, DIR);
    fill(&db, 0..50);
    db.flush().unwrap();
    fill(&db, 50..100);
    db.close().unwrap();
    drop(db);
    let mut names = plain.list(Path::new(DIR)).unwrap();
    names.retain(|name| name != "LOCK");
    let mut noticed = std::collections::BTreeSet::new();
    for name in &names {
        // The counter, the nonce, the first encrypted byte, the entire prefix; then none of it.
        for damaged in [0..1, 40..41, 4096..4097, 0..4096, 0..0] {
            let path = Path::new(DIR).join(name);
            let file = plain.open(&path, FileMode::default()).unwrap();
            let mut whole = vec![0; file.len().unwrap() as usize];
            file.read_at(0, &mut whole).unwrap();
            let mut bytes = whole.clone();
            match bytes.get_mut(damaged.clone()) {
                Some([]) => drop(bytes.drain(..4096)),
                Some(some) => some.iter_mut().for_each(|byte| *byte ^= 0x55),
                None => continue,
            }
            rewrite(&plain, &path, &bytes);
            let opened = open_with(&world, DIR, &DbOptions::default(), true);
            let harmed = opened.and_then(|db| {
                (0..100).try_fold(0, |missing, n| match db.get(&key(n))? {
                    Some(found) => {
                        assert_eq!(found[..], value(n)[..], "{name}");
                        Ok(missing)
                    }
                    None => Ok(missing + 1),
                })
            });
            // The records of a damaged log are not replayed in this recovery mode.
            if harmed.map_or(true, |missing| missing > 0) {
                noticed.insert(
                    name.split(['-', '.'])
                        .next_back()
                        .unwrap_or_default()
                        .to_owned(),
                );
                noticed.insert(name.split('-').next().unwrap_or_default().to_owned());
            }
            rewrite(&plain, &path, &whole);
        }
    }
    for kind in ["CURRENT", "MANIFEST", "sst", "blob", "log"] {
        assert!(noticed.contains(kind), "{kind} of {noticed:?}");
    }
}

fn rewrite(fs: &dyn FileSystem, path: &Path, bytes: &[u8]) {
    fs.remove(path).expect("it was there");
    let file = fs.create(path, FileMode::default()).expect("created");
    file.append(bytes).expect("appended");
    file.close().expect("closed");
}
