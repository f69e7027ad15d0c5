//! Random operations on transaction databases of each write policy: save points, prepares, decisions, handles that are
//! dropped, writes after the prepare, names that are used again, families that are dropped under prepared transactions,
//! closings and crashes. A model has the expected content after each step.

use std::collections::{BTreeMap, BTreeSet};

use cairn_db::Family;
use cairn_options::{FamilyOptions, ReadOptions, WriteOptions, merge_operators};
use cairn_sim::{Rng, SimWorld};
use cairn_txn::{Transaction, TransactionDb, TransactionOptions, TransactionState, WritePolicy};
use cairn_types::{Code, Result};

use crate::two_phase::open_as;

/// Keys and values by family and key.
type Content = BTreeMap<(String, Vec<u8>), Vec<u8>>;

#[derive(Clone, Debug)]
enum Value {
    Put(Vec<u8>),
    Delete,
    Add(u64),
}

/// A write to the family with this number, which no other family ever has.
#[derive(Clone, Debug)]
struct Change {
    family: u32,
    key: Vec<u8>,
    value: Value,
}

struct Open {
    /// `None` while the prepared transaction has no handle.
    txn: Option<Transaction>,
    changes: Vec<Change>,
    /// The numbers of changes at the save points.
    points: Vec<usize>,
    /// The number of changes that are prepared.
    prepared: Option<usize>,
}

struct Run {
    sim: SimWorld,
    db: TransactionDb,
    policy: WritePolicy,
    rng: Rng,
    content: Content,
    open: BTreeMap<Vec<u8>, Open>,
}

fn apply(content: &mut Content, families: &[Family], change: &Change) {
    let Some(family) = families.iter().find(|one| one.id() == change.family) else {
        return;
    };
    let place = (family.name().to_owned(), change.key.clone());
    match &change.value {
        Value::Put(value) => drop(content.insert(place, value.clone())),
        Value::Delete => drop(content.remove(&place)),
        Value::Add(number) => {
            let before = content.get(&place).map_or(0, |value| {
                u64::from_le_bytes(value[..].try_into().expect("eight bytes"))
            });
            content.insert(place, before.wrapping_add(*number).to_le_bytes().to_vec());
        }
    }
}

fn write(txn: &mut Transaction, family: &Family, change: &Change) -> Result<()> {
    match &change.value {
        Value::Put(value) => txn.put_in(family, &change.key, value),
        Value::Delete => txn.delete_in(family, &change.key),
        Value::Add(number) => txn.merge_in(family, &change.key, &number.to_le_bytes()),
    }
}

fn is_prepared(txn: &Transaction) -> bool {
    txn.state() == TransactionState::Prepared
}

impl Run {
    fn new(policy: WritePolicy, seed: u64) -> Run {
        let sim = SimWorld::new(seed);
        let db = open_as(&sim.world, policy);
        Run {
            sim,
            db,
            policy,
            rng: Rng::new(seed),
            content: Content::new(),
            open: BTreeMap::new(),
        }
    }

    fn families(&self) -> Vec<Family> {
        self.db.db().families()
    }

    fn change(&mut self) -> (Family, Change) {
        let families = self.families();
        let family = families[self.rng.below(families.len())].clone();
        let number = self.rng.below(1000) as u64;
        let change = Change {
            family: family.id(),
            key: vec![b'a' + self.rng.below(12) as u8],
            value: match self.rng.below(4) {
                0 => Value::Delete,
                1 => Value::Add(number),
                _ => Value::Put(number.to_le_bytes().to_vec()),
            },
        };
        (family, change)
    }

    /// Returns the name of a random transaction, or of a new one.
    fn some(&mut self) -> Vec<u8> {
        let count = self.open.len();
        if count > 0 && (count > 4 || self.rng.chance(2, 3)) {
            let nth = self.rng.below(count);
            return self
                .open
                .keys()
                .nth(nth)
                .cloned()
                .expect("there are so many");
        }
        let name = vec![b'A' + self.rng.below(6) as u8];
        if self.open.contains_key(&name) {
            return name;
        }
        let options = TransactionOptions {
            commit_bypass_memtable: self.rng.chance(1, 4),
            ..TransactionOptions::default()
        };
        let write_options = WriteOptions {
            disable_wal: false,
            sync: self.rng.chance(1, 4),
            ..WriteOptions::default()
        };
        let mut txn = self.db.begin_with(&write_options, &options);
        txn.set_name(&name).expect("the name is free");
        let open = Open {
            txn: Some(txn),
            changes: Vec::new(),
            points: Vec::new(),
            prepared: None,
        };
        self.open.insert(name.clone(), open);
        name
    }

    /// A locked key is the only reason for a write to fail.
    fn wrote(&self, done: &Result<()>) -> bool {
        match done {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.code(), Code::TimedOut, "{error}");
                false
            }
        }
    }

    fn with(&mut self, name: &[u8], work: impl FnOnce(&mut Open)) {
        let db = self.db.clone();
        let open = self.open.get_mut(name).expect("it is open");
        if open.txn.is_none() {
            open.txn = Some(db.transaction_by_name(name).expect("it is prepared"));
        }
        work(open);
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..=6 => {
                let name = self.some();
                let (family, change) = self.change();
                let mut done = Ok(());
                self.with(&name, |open| {
                    let txn = open.txn.as_mut().expect("a handle");
                    done = write(txn, &family, &change);
                    if done.is_ok() {
                        open.changes.push(change);
                    }
                });
                self.wrote(&done);
            }
            7 => {
                let (name, takes) = (self.some(), self.rng.chance(1, 2));
                self.with(&name, |open| {
                    let txn = open.txn.as_mut().expect("a handle");
                    if open.prepared.is_some() {
                        assert!(txn.rollback_to_save_point().is_err());
                    } else if takes && let Some(len) = open.points.pop() {
                        txn.rollback_to_save_point().expect("a save point");
                        open.changes.truncate(len);
                    } else {
                        txn.set_save_point();
                        open.points.push(open.changes.len());
                    }
                });
            }
            8 | 9 => self.prepare(),
            10 | 11 => self.commit(),
            12 => {
                let name = self.some();
                self.with(&name, |open| {
                    open.txn
                        .as_mut()
                        .expect("a handle")
                        .rollback()
                        .expect("a rollback");
                });
                // A transaction that was not prepared keeps its name until it is dropped.
                self.open.remove(&name);
            }
            13 => {
                let name = self.some();
                let open = self.open.get_mut(&name).expect("it is open");
                open.txn = None;
                if open.prepared.is_none() {
                    self.open.remove(&name);
                }
            }
            14 | 15 => {
                let (family, change) = self.change();
                let options = WriteOptions::default();
                let done = match &change.value {
                    Value::Put(value) => self.db.put(&family, &change.key, value, &options),
                    Value::Delete => self.db.delete(&family, &change.key, &options),
                    Value::Add(number) => {
                        let operand = number.to_le_bytes();
                        self.db.merge(&family, &change.key, &operand, &options)
                    }
                };
                if self.wrote(&done) {
                    apply(&mut self.content, &[family], &change);
                }
            }
            16 => {
                let families = self.families();
                let family = &families[self.rng.below(families.len())];
                family.flush().expect("a flush");
            }
            17 => match self.db.db().family("b") {
                Some(family) if self.rng.chance(1, 2) => {
                    self.db.db().drop_family(&family).expect("a drop");
                    self.content.retain(|(name, _), _| name != "b");
                }
                Some(_) => {}
                None => {
                    let options = FamilyOptions {
                        merge_operator: merge_operators::from_text("uint64add").ok(),
                        ..FamilyOptions::default()
                    };
                    self.db.create_family("b", &options).expect("a family");
                }
            },
            _ if self.rng.chance(1, 3) => self.reopen(),
            _ => {}
        }
        self.check();
    }

    fn prepare(&mut self) {
        let name = self.some();
        let mut done = Ok(());
        self.with(&name, |open| {
            let txn = open.txn.as_mut().expect("a handle");
            done = txn.prepare();
            match open.prepared {
                Some(_) => assert!(done.is_err()),
                None => open.prepared = Some(open.changes.len()),
            }
        });
        let open = &self.open[&name];
        if done.is_ok() || open.txn.as_ref().is_some_and(is_prepared) {
            return;
        }
        let families = self.families();
        let is_there = |change: &Change| families.iter().any(|one| one.id() == change.family);
        let error = done.expect_err("it failed");
        assert!(!open.changes.iter().all(is_there), "{error}");
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        self.open.remove(&name);
    }

    fn commit(&mut self) {
        let name = self.some();
        let mut done = Ok(());
        self.with(&name, |open| {
            done = open.txn.as_mut().expect("a handle").commit();
        });
        let families = self.families();
        let open = self.open.remove(&name).expect("it is open");
        let Err(error) = done else {
            for change in &open.changes {
                apply(&mut self.content, &families, change);
            }
            return;
        };
        // Writes that are not prepared cannot be committed to a family that was dropped.
        let unprepared = &open.changes[open.prepared.unwrap_or(0)..];
        let is_there = |change: &Change| families.iter().any(|one| one.id() == change.family);
        assert!(!unprepared.iter().all(is_there), "{error}");
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        if open.prepared.is_some() {
            self.open.insert(name, open);
        }
    }

    /// Opens the database again, after a closing or a crash.
    fn reopen(&mut self) {
        let image = self.sim.fs.image();
        let crashes = self.rng.chance(1, 2);
        self.open.retain(|_, open| open.prepared.is_some());
        for open in self.open.values_mut() {
            open.txn = None;
            open.points.clear();
            open.changes
                .truncate(open.prepared.expect("it is prepared"));
        }
        let sim = match crashes {
            true => SimWorld::on(image, 7),
            false => {
                self.db.db().close().expect("a close");
                SimWorld::on(self.sim.fs.image(), 7)
            }
        };
        self.db = open_as(&sim.world, self.policy);
        self.sim = sim;
        let found: BTreeSet<Vec<u8>> = self
            .db
            .prepared_transactions()
            .iter()
            .map(|txn| txn.name().to_vec())
            .collect();
        let expected: BTreeSet<Vec<u8>> = self.open.keys().cloned().collect();
        assert_eq!(found, expected);
    }

    fn check(&self) {
        let mut found = Content::new();
        for family in self.families() {
            let mut iter = family.iter_with(&ReadOptions::default());
            iter.seek_to_first();
            while iter.valid() {
                let place = (family.name().to_owned(), iter.key().to_vec());
                found.insert(place, iter.value().to_vec());
                iter.next();
            }
            iter.status().expect("a scan");
        }
        assert_eq!(found, self.content);
        let families = self.families();
        for (name, open) in &self.open {
            let Some(txn) = &open.txn else { continue };
            let mut content = self.content.clone();
            for change in &open.changes {
                apply(&mut content, &families, change);
            }
            for change in &open.changes {
                let family = families.iter().find(|one| one.id() == change.family);
                let Some(family) = family else { continue };
                let value = txn.get_in(family, &change.key, &ReadOptions::default());
                let value = value.expect("a read").map(|value| value.to_vec());
                let place = (family.name().to_owned(), change.key.clone());
                assert_eq!(value.as_ref(), content.get(&place), "{name:?} {change:?}");
            }
        }
    }
}

#[test]
fn random_operations_lead_to_the_content_of_a_model() {
    let seeds = std::env::var("CAIRN_SEEDS").ok();
    let seeds = seeds.and_then(|text| text.parse().ok()).unwrap_or(30);
    for policy in crate::POLICIES {
        for seed in 0..seeds {
            let mut run = Run::new(policy, seed);
            for step in 0..120 {
                let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run.step()));
                if let Err(panic) = caught {
                    eprintln!("{policy:?}, seed {seed}, step {step}");
                    std::panic::resume_unwind(panic);
                }
            }
            run.reopen();
            run.check();
        }
    }
}
