//! Crashes at arbitrary file operations of a database that several threads write: prepared transactions that commit
//! past the memtable or not, ordinary batches, flushes and compactions. Nothing acknowledged is lost, no merge operand
//! is applied twice, nothing is applied in part, and the recovered writes are a prefix.
//!
//! The threads are real, so a seed does not fix their schedule. The trace that they leave fixes every image.

use std::collections::{BTreeMap, BTreeSet};

use cairn_db::{Db, Family, WriteBatch};
use cairn_options::{
    DbOptions, FamilyOptions, FlushOptions, ReadOptions, WriteOptions, merge_operators,
};
use cairn_platform::World;
use cairn_platform::sync::{AtomicBool, Mutex, Ordering};
use cairn_sim::images::MODELS;
use cairn_sim::{CrashModel, DiskImage, Rng, SimWorld};
use cairn_txn::{Transaction, TransactionDb, TransactionOptions, WritePolicy};

use crate::bypass;

/// The threads that commit transactions, and those that write batches.
const COMMITTERS: usize = 3;
const WRITERS: usize = 2;
const ROUNDS: usize = 10;

/// The key whose merge operands are the names of all writes.
const LIST: &[u8] = b"list";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Absent,
    Prepared,
    RolledBack,
    Visible,
}

/// A thread and its round: the identity of a batch or a transaction.
type Id = (usize, usize);

enum Act {
    /// A write has reached a stage.
    Write(Id, Stage),
    /// All earlier writes are durable.
    Synced,
    /// All earlier visible writes are durable. A prepare and a rollback are only in the log.
    Flushed,
}

/// An acknowledged call, with the numbers of file operations before and after it.
struct Event {
    act: Act,
    begin: usize,
    end: usize,
    sync: bool,
}

fn name((thread, round): Id) -> String {
    format!("w{thread}.{round:02}")
}

fn options_of(variant: usize) -> DbOptions {
    DbOptions {
        atomic_flush: matches!(variant, 1 | 5),
        recycle_log_file_num: if matches!(variant, 2 | 4) { 2 } else { 0 },
        enable_pipelined_write: variant == 3,
        ..DbOptions::default()
    }
}

fn open(world: &World, variant: usize) -> TransactionDb {
    let family = FamilyOptions {
        level0_file_num_compaction_trigger: 3,
        ..small_options()
    };
    let policy = match variant {
        4 => WritePolicy::Prepared,
        5 => WritePolicy::Unprepared,
        _ => WritePolicy::Committed,
    };
    bypass::open_as(world, &options_of(variant), &family, policy)
}

/// Small memtables of values that are merged.
fn small_options() -> FamilyOptions {
    FamilyOptions {
        merge_operator: merge_operators::from_text("stringappend").ok(),
        write_buffer_size: 24 << 10,
        ..FamilyOptions::default()
    }
}

/// The database under its threads.
struct Run<'a> {
    sim: &'a SimWorld,
    db: &'a TransactionDb,
    other: Family,
    events: Mutex<Vec<Event>>,
}

impl Run<'_> {
    /// Calls `call` and records its success as `act`.
    fn note(&self, act: Act, sync: bool, call: impl FnOnce()) {
        let begin = self.sim.fs.operations();
        call();
        let end = self.sim.fs.operations();
        let mut events = self.events.lock();
        events.push(Event {
            act,
            begin,
            end,
            sync,
        });
    }

    fn begin(&self, id: Id, sync: bool, rng: &mut Rng) -> Transaction {
        let write = WriteOptions {
            sync,
            ..WriteOptions::default()
        };
        let past = TransactionOptions {
            commit_bypass_memtable: rng.chance(2, 3),
            ..TransactionOptions::default()
        };
        let mut txn = self.db.begin_with(&write, &past);
        let name = name(id);
        txn.set_name(name.as_bytes()).unwrap();
        let value = vec![b'v'; rng.below(1_500)];
        txn.put(name.as_bytes(), &value).unwrap();
        txn.put_in(&self.other, name.as_bytes(), &value).unwrap();
        // Not locked, because several transactions write these keys at a time.
        let default = txn.default_family().clone();
        let batch = txn.write_batch();
        for family in [&default, &self.other] {
            batch.merge_in(family, LIST, name.as_bytes());
            batch.put_in(family, last(id).as_bytes(), name.as_bytes());
        }
        txn
    }

    /// Prepares transactions and decides each in the order of the prepares, up to two rounds later.
    fn commit_all(&self, thread: usize, rng: &mut Rng) {
        let mut open = Vec::new();
        for round in 0..ROUNDS {
            let id = (thread, round);
            let sync = rng.chance(1, 3);
            let mut txn = self.begin(id, sync, rng);
            self.note(Act::Write(id, Stage::Prepared), sync, || {
                txn.prepare().unwrap();
            });
            open.push((id, sync, txn));
            // The last ones stay undecided.
            while open.len() > rng.below(3) + 1 {
                let (id, sync, mut txn) = open.remove(0);
                if rng.chance(1, 5) {
                    self.note(Act::Write(id, Stage::RolledBack), sync, || {
                        txn.rollback().unwrap();
                    });
                } else {
                    self.note(Act::Write(id, Stage::Visible), sync, || {
                        txn.commit().unwrap();
                    });
                }
            }
        }
    }

    fn write_all(&self, thread: usize, rng: &mut Rng) {
        for round in 0..3 * ROUNDS {
            let id = (thread, round);
            let name = name(id);
            let value = vec![b'w'; rng.below(600)];
            let mut batch = WriteBatch::new();
            for family in [self.db.db().default_family(), &self.other] {
                batch.put_in(family, name.as_bytes(), &value);
                batch.merge_in(family, LIST, name.as_bytes());
                batch.put_in(family, last(id).as_bytes(), name.as_bytes());
            }
            let sync = rng.chance(1, 8);
            let options = WriteOptions {
                sync,
                ..WriteOptions::default()
            };
            self.note(Act::Write(id, Stage::Visible), sync, || {
                self.db.db().write_with(&batch, &options).unwrap();
            });
        }
    }

    fn flush_all(&self, rng: &mut Rng, done: &AtomicBool) {
        let db = self.db.db();
        while !done.load(Ordering::Acquire) {
            let families = match rng.below(4) {
                0 => vec![db.default_family()],
                1 => vec![&self.other],
                _ => vec![db.default_family(), &self.other],
            };
            let options = FlushOptions {
                force_atomic_flush: rng.chance(1, 3),
                ..FlushOptions::default()
            };
            if rng.chance(1, 4) {
                self.note(Act::Synced, true, || db.flush_wal(true).unwrap());
            }
            self.note(Act::Flushed, true, || {
                db.flush_families_with(&families, &options).unwrap();
            });
        }
    }

    /// Checks the content at snapshots.
    fn read_all(&self, done: &AtomicBool) {
        let mut last = 0;
        while !done.load(Ordering::Acquire) {
            let snapshot = self.db.db().snapshot();
            let visible = visible(self.db.db(), Some(&snapshot));
            assert!(visible.len() >= last, "a visible write disappears");
            last = visible.len();
        }
    }
}

/// The key that names the last write of a thread.
fn last((thread, _): Id) -> String {
    format!("last {thread}")
}

/// Returns the names of all visible writes, each of which is whole and applied once.
fn visible(db: &Db, snapshot: Option<&cairn_db::Snapshot>) -> BTreeSet<String> {
    let options = ReadOptions {
        snapshot: snapshot.map(cairn_db::Snapshot::sequence),
        ..ReadOptions::default()
    };
    let Some(other) = db.family("other") else {
        return BTreeSet::new();
    };
    let [(list, names, lasts), second] = [db.default_family(), &other].map(|family| {
        let (mut names, mut lasts, mut list) = (BTreeSet::new(), Vec::new(), None);
        let mut iter = family.iter_with(&options);
        iter.seek_to_first();
        while iter.valid() {
            let key = String::from_utf8(iter.key().to_vec()).unwrap();
            if key.as_bytes() == LIST {
                list = Some(String::from_utf8(iter.value().to_vec()).unwrap());
            } else if key.starts_with("last") {
                lasts.push(String::from_utf8(iter.value().to_vec()).unwrap());
            } else {
                names.insert(key);
            }
            iter.next();
        }
        iter.status().unwrap();
        let got = family.get_with(LIST, &options).unwrap();
        assert_eq!(got.as_deref(), list.as_deref().map(str::as_bytes));
        (list, names, lasts)
    });
    assert_eq!((&list, &names, &lasts), (&second.0, &second.1, &second.2));
    let list = list.unwrap_or_default();
    let operands: Vec<&str> = list.split(',').filter(|name| !name.is_empty()).collect();
    let once: BTreeSet<String> = operands.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(
        operands.len(),
        once.len(),
        "an operand applied twice: {list}"
    );
    assert_eq!(once, names, "operands and puts of the same writes");
    let mut newest: BTreeMap<&str, &String> = BTreeMap::new();
    for name in &names {
        // Names of a thread are in the order of its writes.
        newest.insert(name.split('.').next().unwrap(), name);
    }
    let newest: Vec<String> = newest.into_values().cloned().collect();
    assert_eq!(lasts, newest, "the last write of each thread");
    names
}

fn work(seed: u64, variant: usize) -> (SimWorld, Vec<Event>) {
    let sim = SimWorld::new(seed);
    let world = World {
        fs: sim.fs.clone(),
        ..World::posix()
    };
    let db = open(&world, variant);
    let other = db.create_family("other", &small_options()).unwrap();
    let run = Run {
        sim: &sim,
        db: &db,
        other,
        events: Mutex::default(),
    };
    let done = AtomicBool::new(false);
    let rng = |thread: usize| Rng::new(seed).fork(thread as u64);
    std::thread::scope(|scope| {
        let (run, done) = (&run, &done);
        let threads: Vec<_> = (0..COMMITTERS + WRITERS)
            .map(|thread| {
                scope.spawn(move || match thread < COMMITTERS {
                    true => run.commit_all(thread, &mut rng(thread)),
                    false => run.write_all(thread, &mut rng(thread)),
                })
            })
            .collect();
        scope.spawn(move || run.flush_all(&mut rng(100), done));
        scope.spawn(move || run.read_all(done));
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Release);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    let events = run.events.into_inner();
    drop(run.other);
    (sim, events)
}

/// The stages of all writes in `db`.
fn stages(db: &TransactionDb) -> BTreeMap<String, Stage> {
    let visible = visible(db.db(), None).into_iter();
    let mut stages: BTreeMap<String, Stage> = visible.map(|name| (name, Stage::Visible)).collect();
    for prepared in db.db().prepared().unwrap() {
        let name = String::from_utf8(prepared.name).unwrap();
        let before = stages.insert(name.clone(), Stage::Prepared);
        assert_eq!(before, None, "{name} is prepared and committed");
    }
    stages
}

/// Checks `found` after a crash at operation `at`.
fn check(found: &BTreeMap<String, Stage>, events: &[Event], at: usize, model: CrashModel) {
    let stage = |id: Id| *found.get(&name(id)).unwrap_or(&Stage::Absent);
    let acknowledged: Vec<&Event> = events.iter().filter(|event| event.end <= at).collect();
    // Every write that ended before the begin of a synced one is durable with it.
    let floor = |flushed: bool| {
        let synced = acknowledged
            .iter()
            .filter(|event| event.sync && (flushed || !matches!(event.act, Act::Flushed)));
        synced.map(|event| event.begin).max().unwrap_or(0)
    };
    let (floor, floor_of_visible) = (floor(false), floor(true));
    let durable = |event: &Event| {
        let floor = match event.act {
            Act::Write(_, Stage::Visible) => floor_of_visible,
            _ => floor,
        };
        event.end <= floor || event.end <= at && (model.kernel_survives() || event.sync)
    };
    let later = |id: Id, at: usize| {
        events.iter().any(|event| {
            matches!(event.act, Act::Write(other, stage) if other == id && stage > Stage::Prepared)
                && event.begin < at
        })
    };
    // True if the write of an event is missing.
    let lost = |event: &Event| match event.act {
        Act::Write(id, Stage::Prepared) => stage(id) == Stage::Absent && !later(id, at),
        Act::Write(id, Stage::RolledBack) => stage(id) != Stage::Absent,
        Act::Write(id, _) => stage(id) != Stage::Visible,
        Act::Synced | Act::Flushed => false,
    };
    let case = |event: &Event| match event.act {
        Act::Write(id, stage) => format!("{} {stage:?} {}..{}", name(id), event.begin, event.end),
        Act::Synced | Act::Flushed => String::new(),
    };
    for event in events {
        if durable(event) {
            assert!(!lost(event), "{} is lost, {model} at {at}", case(event));
        }
        let Act::Write(id, reached) = event.act else {
            continue;
        };
        if event.begin >= at {
            assert!(
                stage(id) < reached,
                "{} has not begun, {model} at {at}: {:?}",
                case(event),
                stage(id)
            );
        }
        // A prefix of the writes is recovered.
        if stage(id) == reached {
            let before = events.iter().filter(|one| one.end <= event.begin);
            for one in before {
                assert!(
                    !lost(one),
                    "{} is lost and {} is not, {model} at {at}",
                    case(one),
                    case(event)
                );
            }
        }
    }
}

/// Opens an image, checks it, decides the prepared transactions, and checks that again after another opening.
fn take_over(image: DiskImage, variant: usize, events: &[Event], at: usize, model: CrashModel) {
    let sim = SimWorld::on(image, at as u64);
    let db = open(&sim.world, variant);
    let mut expected = stages(&db);
    check(&expected, events, at, model);
    let mut prepared = db.prepared_transactions();
    // Those of a thread in its order, which its last write shows.
    prepared.sort_by_key(|txn| txn.name().to_vec());
    for (nth, mut txn) in prepared.into_iter().enumerate() {
        let name = String::from_utf8(txn.name().to_vec()).unwrap();
        if (at + nth).is_multiple_of(2) {
            txn.commit().unwrap();
            expected.insert(name, Stage::Visible);
        } else {
            txn.rollback().unwrap();
            expected.remove(&name);
        }
    }
    assert_eq!(stages(&db), expected);
    db.db().put(b"w9.00", b"1").unwrap();
    db.db().delete(b"w9.00").unwrap();
    db.db().default_family().flush().unwrap();
    db.db().close().unwrap();
    drop(db);
    assert_eq!(stages(&open(&sim.world, variant)), expected);
}

/// Crashes a run at `points` operations under every model. Returns the number of images.
fn crash(seed: u64, points: usize) -> usize {
    let variant = (seed % 6) as usize;
    let (sim, events) = work(seed, variant);
    let trace = sim.fs.trace();
    let first = events.iter().map(|event| event.begin).min().unwrap();
    let mut rng = Rng::new(seed).fork(7);
    let mut images = 0;
    // In the others, the end of a MANIFEST may have bytes that were never written, which are damage.
    let models = MODELS
        .into_iter()
        .filter(|model| !matches!(model, CrashModel::Stale | CrashModel::Garbage));
    for model in models {
        for _ in 0..points {
            let at = first + rng.below(trace.len() + 1 - first);
            for image in trace.images(at, model, rng.next_u64()).take(1) {
                take_over(image, variant, &events, at, model);
                images += 1;
            }
        }
    }
    images
}

#[test]
fn threads_lose_and_repeat_nothing_in_a_crash() {
    let images: usize = (0..6).map(|seed| crash(seed, 3)).sum();
    assert!(images >= 130, "{images} images");
}

/// More of them: `CAIRN_CRASHES=10000 cargo test -p cairn-txn --test it soak_of_crashes -- --nocapture`.
#[test]
fn soak_of_crashes_of_threads() {
    let wanted = std::env::var("CAIRN_CRASHES").ok();
    let wanted = wanted.and_then(|text| text.parse().ok()).unwrap_or(1);
    let (mut images, mut seed) = (0, 6);
    while images < wanted {
        images += crash(seed, 10);
        seed += 1;
        if seed % 20 == 0 {
            println!("{images} images of {seed} runs, nothing lost");
        }
    }
}
