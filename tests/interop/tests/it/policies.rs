//! Both engines take turns on a transaction database with the write policies "prepared" and "unprepared", after closings
//! and after crashes, with prepared transactions in between.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cairn::transactions::WritePolicy;
use cairn_bench::rocksdb::Library;
use cairn_interop::twin::policies::{Cairn, Change, Content, Engine, RocksDb};
use cairn_sim::Rng;

/// The expected state.
#[derive(Default)]
struct Model {
    content: Content,
    prepared: BTreeMap<String, Vec<Change>>,
}

impl Model {
    fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            let content = &mut self.content[change.place().0];
            match change {
                Change::Put(_, key, value) => drop(content.insert(key.clone(), value.clone())),
                Change::Delete(_, key) => drop(content.remove(key)),
                Change::Merge(_, key, operand) => {
                    let value = content.entry(key.clone()).or_default();
                    if !value.is_empty() {
                        value.push(b',');
                    }
                    value.extend_from_slice(operand);
                }
            }
        }
    }

    /// Returns changes of keys that no prepared transaction has locked.
    fn changes(&self, rng: &mut Rng, merges: bool) -> Vec<Change> {
        let locked: BTreeSet<(usize, &[u8])> = self
            .prepared
            .values()
            .flatten()
            .map(Change::place)
            .collect();
        let mut changes = Vec::new();
        while changes.is_empty() {
            for _ in 0..1 + rng.below(4) {
                let (family, key) = (rng.below(2), vec![b'a' + rng.below(24) as u8]);
                if locked.contains(&(family, &key[..])) {
                    continue;
                }
                let value = format!("{}", rng.below(1000)).into_bytes();
                changes.push(match rng.below(4) {
                    0 => Change::Delete(family, key),
                    1 if merges => Change::Merge(family, key, value),
                    _ => Change::Put(family, key, value),
                });
            }
        }
        changes
    }
}

/// Copies a directory whose database is open. Files may be deleted meanwhile.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match fs::copy(entry.path(), to.join(entry.file_name())) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
    }
}

/// Runs random operations on `engine`.
fn turn(engine: &mut dyn Engine, model: &mut Model, rng: &mut Rng, is_rocksdb: bool, names: &str) {
    for step in 0..4 + rng.below(12) {
        match rng.below(10) {
            0 | 1 => {
                let changes = model.changes(rng, true);
                engine.write(&changes);
                model.apply(&changes);
            }
            2 => {
                let changes = model.changes(rng, false);
                let (family, key) = changes[0].place();
                engine.put(family, key, b"plain");
                let put = Change::Put(family, key.to_vec(), b"plain".to_vec());
                model.apply(&[put]);
            }
            3..6 if model.prepared.len() < 4 => {
                let name = format!("{names}.{step}");
                let changes = model.changes(rng, true);
                engine.prepare(&name, &changes);
                model.prepared.insert(name, changes);
            }
            6 | 7 => engine.flush(rng.below(2)),
            _ => {
                let nth = rng.below(model.prepared.len().max(1));
                let Some(name) = model.prepared.keys().nth(nth).cloned() else {
                    continue;
                };
                let changes = model.prepared.remove(&name).unwrap();
                // RocksDB does not take back operands unless rollback_merge_operands is set.
                let merges = changes.iter().any(|one| matches!(one, Change::Merge(..)));
                let commits = rng.chance(1, 2) || (is_rocksdb && merges);
                engine.decide(&name, commits);
                if commits {
                    model.apply(&changes);
                }
            }
        }
        assert_eq!(engine.content(), model.content, "{names}.{step}");
    }
}

fn open(library: &Path, path: &Path, policy: WritePolicy, is_rocksdb: bool) -> Box<dyn Engine> {
    match is_rocksdb {
        true => Box::new(RocksDb::open(library, path, policy).unwrap()),
        false => Box::new(Cairn::open(path, policy).unwrap()),
    }
}

/// Runs `turns` turns of random operations, which `seed` determines.
fn take_turns(policy: WritePolicy, seed: u64, turns: usize) {
    let place = tempfile::tempdir().unwrap();
    let library = Library::path();
    let mut rng = Rng::new(seed);
    let mut model = Model::default();
    let mut path: PathBuf = place.path().join("0");
    let mut is_rocksdb = rng.chance(1, 2);
    for number in 0..turns {
        let what = format!("{policy:?}, seed {seed}, turn {number}, RocksDB: {is_rocksdb}");
        let mut engine = open(&library, &path, policy, is_rocksdb);
        let names: Vec<String> = model.prepared.keys().cloned().collect();
        assert_eq!(engine.recovered(), names, "{what}");
        assert_eq!(engine.content(), model.content, "{what}");
        turn(&mut *engine, &mut model, &mut rng, is_rocksdb, &what);
        if rng.chance(1, 2) {
            // A crash.
            let next = place.path().join((number + 1).to_string());
            copy(&path, &next);
            engine.close();
            fs::remove_dir_all(&path).unwrap();
            path = next;
        } else {
            engine.close();
        }
        is_rocksdb = rng.chance(1, 2) != is_rocksdb || rng.chance(1, 2);
    }
}

#[test]
fn both_engines_take_turns_with_prepared_transactions() {
    if crate::library().is_none() {
        return;
    }
    let seeds = std::env::var("CAIRN_TURNS").ok();
    let seeds = seeds.and_then(|text| text.parse().ok()).unwrap_or(2);
    for seed in 0..seeds {
        for policy in [
            WritePolicy::Committed,
            WritePolicy::Prepared,
            WritePolicy::Unprepared,
        ] {
            take_turns(policy, seed, 8);
        }
    }
}

/// A switch of the policy with undecided transactions in the logs is rejected, as in RocksDB.
#[test]
fn neither_engine_opens_undecided_transactions_of_another_policy() {
    if crate::library().is_none() {
        return;
    }
    for (written, other) in [
        (WritePolicy::Committed, WritePolicy::Prepared),
        (WritePolicy::Prepared, WritePolicy::Committed),
        (WritePolicy::Unprepared, WritePolicy::Committed),
    ] {
        let place = tempfile::tempdir().unwrap();
        let mut engine = Cairn::open(place.path(), written).unwrap();
        engine.prepare("t", &[Change::Put(0, b"k".to_vec(), b"v".to_vec())]);
        Box::new(engine).close();
        let refused = RocksDb::open(&Library::path(), place.path(), other);
        let refused = refused.err().unwrap();
        assert!(refused.starts_with("Not implemented: "), "{refused}");
        let refused = Cairn::open(place.path(), other).err().unwrap();
        assert_eq!(refused.code(), cairn::Code::NotSupported, "{refused}");
        let mut engine = Cairn::open(place.path(), written).unwrap();
        assert_eq!(engine.recovered(), ["t"]);
    }
}
