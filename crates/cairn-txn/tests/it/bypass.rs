//! Commits past the memtable: the same content, sequence numbers and recovery as with insertions.

use std::sync::Arc;
use std::time::Duration;

use cairn_db::{Column, CommitParts, Db, Family, OpenRequest, WriteBatch};
use cairn_memory::WriteBufferManager;
use cairn_observe::statistics::{Keeping, Statistics, StatsLevel, Ticker};
use cairn_options::{
    CompactRangeOptions, DbOptions, FamilyOptions, MemtableFactory, ReadOptions, WriteOptions,
    merge_operators,
};
use cairn_platform::World;
use cairn_platform::sync::{AtomicBool, Ordering};
use cairn_sim::{Fault, FaultPlan, FaultRule, SimWorld, Trigger};
use cairn_txn::{
    OptimisticTransactionDb, OptimisticTransactionDbOptions, Transaction, TransactionDb,
    TransactionDbOptions, TransactionOptions, ValidatePolicy, WritePolicy,
};
use cairn_types::{Code, Subcode};

use crate::{codes, with_request};

/// Opens the database in `world`, with merges that append.
pub fn open(world: &World, options: &DbOptions, family: &FamilyOptions) -> TransactionDb {
    open_as(world, options, family, WritePolicy::Committed)
}

/// Like [`open`], with the write policy `policy`.
pub fn open_as(
    world: &World,
    options: &DbOptions,
    family: &FamilyOptions,
    policy: WritePolicy,
) -> TransactionDb {
    let own = TransactionDbOptions {
        write_policy: policy,
        ..TransactionDbOptions::default()
    };
    with_request(world.clone(), |request| {
        let options = DbOptions {
            create_if_missing: true,
            ..options.clone()
        };
        let family = FamilyOptions {
            merge_operator: merge_operators::from_text("stringappend").ok(),
            ..family.clone()
        };
        let request = OpenRequest {
            options: &options,
            others: Some(&family),
            path: request.path,
            families: &[],
            read_only: false,
            world: request.world.clone(),
        };
        TransactionDb::open(&request, &own).unwrap()
    })
}

fn family_options() -> FamilyOptions {
    FamilyOptions {
        merge_operator: merge_operators::from_text("stringappend").ok(),
        ..FamilyOptions::default()
    }
}

fn bypassing() -> TransactionOptions {
    TransactionOptions {
        commit_bypass_memtable: true,
        ..TransactionOptions::default()
    }
}

/// Begins a transaction that is committed past the memtable if `bypass`.
fn begin(db: &TransactionDb, bypass: bool, name: &str) -> Transaction {
    let options = TransactionOptions {
        commit_bypass_memtable: bypass,
        ..TransactionOptions::default()
    };
    let mut txn = db.begin_with(&WriteOptions::default(), &options);
    txn.set_name(name.as_bytes()).unwrap();
    txn
}

/// Commits a transaction that puts `value` under `keys` past the memtable.
fn commit(db: &TransactionDb, name: &str, keys: impl Iterator<Item = u64>, value: &[u8]) {
    let mut txn = begin(db, true, name);
    for key in keys {
        txn.put(&key.to_be_bytes(), value).unwrap();
    }
    txn.prepare().unwrap();
    txn.commit().unwrap();
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// All keys and values of `family` at `seq`, forwards and backwards.
fn content(family: &Family, seq: Option<cairn_types::SequenceNumber>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let options = ReadOptions {
        snapshot: seq,
        ..ReadOptions::default()
    };
    let mut iter = family.iter_with(&options);
    let mut forwards = Vec::new();
    iter.seek_to_first();
    while iter.valid() {
        forwards.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.next();
    }
    let mut backwards = Vec::new();
    iter.seek_to_last();
    while iter.valid() {
        backwards.push((iter.key().to_vec(), iter.value().to_vec()));
        iter.prev();
    }
    iter.status().unwrap();
    backwards.reverse();
    assert_eq!(forwards, backwards);
    for (key, value) in &forwards {
        let found = family.get_with(key, &options).unwrap();
        assert_eq!(found.as_deref(), Some(&value[..]));
    }
    forwards
}

/// Runs the same random transactions and other writes, past the memtable or not.
fn run(db: &TransactionDb, bypass: bool, seed: u64) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut random = Random(seed);
    let other = db
        .db()
        .family("other")
        .unwrap_or_else(|| db.create_family("other", &family_options()).unwrap());
    let mut snapshots = Vec::new();
    for round in 0..12 {
        let mut txn = begin(db, bypass, &format!("{seed} {round}"));
        for _ in 0..random.below(60) {
            let key = random.below(30).to_be_bytes();
            let value = vec![b'v'; random.below(100) as usize];
            let default = txn.default_family().clone();
            let family = match random.below(2) {
                0 => &default,
                _ => &other,
            };
            match random.below(12) {
                0 => txn.delete_in(family, &key).unwrap(),
                // Keys of their own, so that each is put once.
                1 => txn
                    .single_delete_in(family, &[b's', round, key[7] % 4])
                    .unwrap(),
                2 => txn
                    .put_in(family, &[b's', round + 1, key[7] % 4], b"once")
                    .unwrap(),
                3 | 4 => txn.merge_in(family, &key, b"m").unwrap(),
                5 => {
                    let column: Column<'_> = (b"c", &value);
                    txn.put_entity_in(family, &key, &[column]).unwrap();
                }
                6 => {
                    txn.disable_indexing();
                    txn.put_in(family, &key, &value).unwrap();
                    txn.enable_indexing();
                }
                _ => txn.put_in(family, &key, &value).unwrap(),
            }
        }
        txn.commit_time_batch().put(b"commit time", &[round]);
        txn.prepare().unwrap();
        if round % 3 == 0 {
            // Part of the commit, but not of what is prepared.
            txn.put(b"late", &[round]).unwrap();
        }
        txn.commit().unwrap();
        snapshots.push(db.db().snapshot());
        match random.below(5) {
            0 => db.db().flush_families(&[]).unwrap(),
            1 => other.flush().unwrap(),
            2 => db
                .db()
                .delete_range(&3_u64.to_be_bytes(), &9_u64.to_be_bytes())
                .unwrap(),
            _ => {
                let key = random.below(30).to_be_bytes();
                db.put(&other, &key, b"plain", &WriteOptions::default())
                    .unwrap();
            }
        }
        snapshots.push(db.db().snapshot());
    }
    let seqs = snapshots.iter().map(|snapshot| Some(snapshot.sequence()));
    let mut all = Vec::new();
    for seq in seqs.chain([None]) {
        all.push(content(db.db().default_family(), seq));
        all.push(content(&other, seq));
    }
    all
}

/// Statistics, and options of a database that counts in them.
fn counted() -> (Arc<Statistics>, DbOptions) {
    let statistics = Arc::new(Statistics::new(StatsLevel::All));
    let options = DbOptions {
        statistics: Keeping::Shared(statistics.clone()),
        ..DbOptions::default()
    };
    (statistics, options)
}

#[test]
fn a_commit_past_the_memtable_equals_one_with_insertions() {
    let sets: [fn(&mut DbOptions, &mut FamilyOptions); 7] = [
        |_, _| {},
        |options, _| options.atomic_flush = true,
        |_, family| {
            family.max_write_buffer_number = 9;
            family.min_write_buffer_number_to_merge = 4;
        },
        |_, family| {
            family.memtable_protection_bytes_per_key = 8;
            family.paranoid_memory_checks = true;
            family.memtable_verify_per_key_checksum_on_seek = true;
        },
        |options, family| {
            options.recycle_log_file_num = 2;
            family.memtable_prefix_bloom_size_ratio = 0.1;
            family.memtable_whole_key_filtering = true;
            family.max_successive_merges = 2;
        },
        |options, _| {
            options.track_and_verify_wals_in_manifest = true;
            options.track_and_verify_wals = true;
        },
        |options, family| {
            options.enable_pipelined_write = true;
            options.allow_concurrent_memtable_write = false;
            family.memtable_factory = MemtableFactory::Vector;
        },
    ];
    for (seed, change) in (0..14).zip(sets.iter().cycle()) {
        let (mut options, mut family) = (DbOptions::default(), FamilyOptions::default());
        change(&mut options, &mut family);
        let worlds = [SimWorld::new(seed), SimWorld::new(seed)];
        let databases = worlds
            .each_ref()
            .map(|sim| open(&sim.world, &options, &family));
        let plain = run(&databases[0], false, seed);
        let past = run(&databases[1], true, seed);
        assert_eq!(past, plain, "seed {seed}");
        let [a, b] = databases.each_ref().map(|db| db.db().latest_sequence());
        assert_eq!(a, b, "seed {seed}");
        // Everything is recovered from the log, or from tables.
        let newest = |db: &Db| {
            let other = db.family("other").unwrap();
            (
                content(db.default_family(), None),
                content(&other, None),
                db.latest_sequence(),
            )
        };
        let [expected, now] = databases.each_ref().map(|db| newest(db.db()));
        assert_eq!(now, expected, "seed {seed}");
        let image = worlds[1].fs.image();
        drop(databases);
        let killed = SimWorld::on(image, 1);
        let again = open(&killed.world, &options, &family);
        let found = newest(again.db());
        assert_eq!(
            (&found.0, &found.1),
            (&expected.0, &expected.1),
            "seed {seed}"
        );
        assert!(found.2 >= expected.2);
        again.db().flush_families(&[]).unwrap();
        again
            .db()
            .default_family()
            .compact_range(None, None, &CompactRangeOptions::default())
            .unwrap();
        assert_eq!(newest(again.db()).0, expected.0, "seed {seed}");
    }
}

#[test]
fn the_thresholds_are_those_of_rocksdb() {
    let (statistics, options) = counted();
    let db = open(&World::in_memory(), &options, &FamilyOptions::default());
    let writes = |large, bytes, bypass| TransactionOptions {
        large_txn_commit_optimize_threshold: large,
        large_txn_commit_optimize_byte_threshold: bytes,
        commit_bypass_memtable: bypass,
        ..TransactionOptions::default()
    };
    // 10 puts of 8 and 100 bytes.
    let cases = [
        (writes(0, 0, false), 10, true, false),
        (writes(0, 0, true), 1, true, true),
        (writes(0, 0, true), 0, true, false),
        (writes(10, 0, false), 10, true, true),
        (writes(11, 0, false), 10, true, false),
        (writes(11, 1000, false), 10, true, true),
        (writes(0, 2000, false), 10, true, false),
        // Takes effect only after a prepare.
        (writes(1, 1, true), 10, false, false),
    ];
    for (nth, (options, puts, prepares, bypasses)) in cases.into_iter().enumerate() {
        let before = statistics.ticker(Ticker::NumberWbwiIngest);
        let mut txn = db.begin_with(&WriteOptions::default(), &options);
        txn.set_name(format!("{nth}").as_bytes()).unwrap();
        for put in 0..puts {
            txn.put(&u64::to_be_bytes(put), &[b'v'; 100]).unwrap();
        }
        if prepares {
            txn.prepare().unwrap();
        }
        txn.commit().unwrap();
        let ingested = statistics.ticker(Ticker::NumberWbwiIngest) - before;
        assert_eq!(ingested, u64::from(bypasses), "case {nth}");
    }
    let default = TransactionOptions::default();
    assert_eq!(default.large_txn_commit_optimize_threshold, 0);
    assert_eq!(default.large_txn_commit_optimize_byte_threshold, 0);
}

#[test]
fn a_key_is_always_visible_while_it_is_replaced_and_flushed() {
    let db = open(
        &World::in_memory(),
        &DbOptions::default(),
        &FamilyOptions::default(),
    );
    commit(&db, "first", 0..300, b"0");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !done.load(Ordering::Acquire) {
                    let get = |key: u64| {
                        let value = db.db().get(&key.to_be_bytes()).unwrap();
                        let value = value.expect("it is always there");
                        String::from_utf8(value.to_vec())
                            .unwrap()
                            .parse::<u32>()
                            .unwrap()
                    };
                    let (first, second) = (get(7), get(299));
                    assert!(last <= first && first <= second, "{last} {first} {second}");
                    last = second;
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                db.db().flush_families(&[]).unwrap();
                db.put(
                    db.db().default_family(),
                    b"other",
                    b"1",
                    &WriteOptions::default(),
                )
                .unwrap();
            }
        });
        for round in 1..150_u32 {
            commit(
                &db,
                &format!("{round}"),
                0..300,
                round.to_string().as_bytes(),
            );
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(content(db.db().default_family(), None).len(), 301);
}

#[test]
fn writes_to_a_family_that_is_dropped_before_the_commit_are_ignored() {
    let sim = SimWorld::new(1);
    let db = open(&sim.world, &DbOptions::default(), &FamilyOptions::default());
    let gone = db.create_family("gone", &family_options()).unwrap();
    let mut txn = begin(&db, true, "t");
    txn.put_in(&gone, b"g", b"1").unwrap();
    txn.put(b"k", b"1").unwrap();
    txn.put_in(&gone, b"h", b"1").unwrap();
    txn.prepare().unwrap();
    db.db().drop_family(&gone).unwrap();
    drop(gone);
    let before = db.db().latest_sequence();
    txn.commit().unwrap();
    assert_eq!(db.db().latest_sequence(), before.plus(3));
    let mut only_gone = begin(&db, true, "u");
    only_gone.put(b"l", b"1").unwrap();
    only_gone.prepare().unwrap();
    only_gone.commit().unwrap();
    let image = sim.fs.image();
    let again = open(
        &SimWorld::on(image, 2).world,
        &DbOptions::default(),
        &FamilyOptions::default(),
    );
    let keys: Vec<_> = content(again.db().default_family(), None);
    assert_eq!(keys.len(), 2, "{keys:?}");
}

/// Without the marker in the log, nothing is committed; without another log, the records are inserted and the failure is
/// a background error.
#[test]
fn a_failure_of_the_log_leaves_the_transaction_prepared_or_committed_as_a_whole() {
    let (mut prepared, mut committed) = (0, 0);
    let put = |db: &TransactionDb| {
        let family = db.db().default_family().clone();
        db.put(&family, b"later", b"1", &WriteOptions::default())
    };
    for at in 0..30 {
        let sim = SimWorld::new(at as u64);
        let db = open(&sim.world, &DbOptions::default(), &FamilyOptions::default());
        let mut txn = db.begin_with(
            &WriteOptions {
                sync: true,
                ..WriteOptions::default()
            },
            &bypassing(),
        );
        txn.set_name(b"t").unwrap();
        for key in 0..50_u64 {
            txn.put(&key.to_be_bytes(), b"1").unwrap();
        }
        txn.prepare().unwrap();
        let operation = sim.fs.operations() + at;
        sim.fs.set_plan(FaultPlan::new(vec![FaultRule {
            trigger: Trigger::Operation(operation),
            fault: Fault::InputOutput,
            lasts: 1,
        }]));
        let result = txn.commit();
        let found = content(db.db().default_family(), None).len();
        match &result {
            Ok(()) => assert_eq!(found, 50, "at {at}"),
            Err(_) => assert_eq!(found, 0, "at {at}"),
        }
        let met = sim.fs.injected() > 0;
        sim.fs.set_plan(FaultPlan::default());
        match result {
            Ok(()) if met && db.db().background_error_state().is_some() => {
                committed += 1;
                assert!(put(&db).is_err(), "at {at}: writes wait for the recovery");
                assert_eq!(content(db.db().default_family(), None).len(), 50);
            }
            Ok(()) => {}
            Err(_) => prepared += 1,
        }
        // Nobody has seen a failed commit. A committed transaction survives a crash before the recovery, too.
        if result.is_ok() {
            let killed = SimWorld::on(sim.fs.image(), 3);
            let killed = open(&killed.world, &DbOptions::default(), &family_options());
            assert_eq!(content(killed.db().default_family(), None).len(), 50);
        }
        // The database recovers from the error by itself.
        for _ in 0..60 {
            sim.clock.advance(Duration::from_secs(1));
            sim.executor.run(1_000);
        }
        if result.is_ok() {
            assert!(db.db().background_error_state().is_none(), "at {at}");
            assert_eq!(content(db.db().default_family(), None).len(), 50);
        }
        let again = SimWorld::on(sim.fs.image(), 1);
        let again = open(
            &again.world,
            &DbOptions::default(),
            &FamilyOptions::default(),
        );
        let after = content(again.db().default_family(), None).len();
        assert!(after == 50 || found == 0 && after == 0, "at {at}: {after}");
        if result.is_ok() {
            put(&db).unwrap();
        }
    }
    assert!(prepared > 0 && committed > 0, "{prepared} {committed}");
}

/// Three threads commit transactions that are larger than the memory budget and the limit on memtables, beside small
/// writes. Returns the memory that is charged to the budget after a flush, and after the database is closed.
fn memory_after_commits(bypass: bool) -> (usize, usize) {
    let buffers = Arc::new(WriteBufferManager::new(256 << 10, None, true));
    let options = DbOptions {
        write_buffer_manager: Some(buffers.clone()),
        ..DbOptions::default()
    };
    let family = FamilyOptions {
        max_write_buffer_number: 2,
        // Transaction databases keep flushed memtables otherwise, which are charged as well.
        max_write_buffer_size_to_maintain: 1,
        ..FamilyOptions::default()
    };
    let db = open(&World::in_memory(), &options, &family);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let commits: Vec<_> = (0..3_u64)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || {
                    for round in 0..10 {
                        let mut txn = begin(db, bypass, &format!("{thread} {round}"));
                        for key in thread * 1000..thread * 1000 + 1000 {
                            txn.put(&key.to_be_bytes(), &[b'v'; 400]).unwrap();
                        }
                        txn.prepare().unwrap();
                        txn.commit().unwrap();
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let family = db.db().default_family().clone();
            while !done.load(Ordering::Acquire) {
                db.put(&family, b"small", b"1", &WriteOptions::default())
                    .unwrap();
            }
        });
        commits.into_iter().for_each(|one| one.join().unwrap());
        done.store(true, Ordering::Release);
    });
    assert_eq!(content(db.db().default_family(), None).len(), 3001);
    db.db().flush_families(&[]).unwrap();
    let flushed = buffers.memory_usage();
    db.db().close().unwrap();
    drop(db);
    (flushed, buffers.memory_usage())
}

#[test]
fn memtables_of_transactions_count_as_others() {
    let (past, closed) = memory_after_commits(true);
    let (plain, _) = memory_after_commits(false);
    // The history keeps one memtable beyond its limit, which is the largest one here.
    let most = plain.max(1 << 20);
    assert!(past <= most, "{past} bytes, with insertions {plain}");
    assert_eq!(closed, 0);
}

#[test]
fn transactions_conflict_with_commits_past_the_memtable() {
    let db = open(
        &World::in_memory(),
        &DbOptions::default(),
        &FamilyOptions::default(),
    );
    let (key, other) = (1_u64.to_be_bytes(), 2_u64.to_be_bytes());
    for flushes in [false, true] {
        let options = TransactionOptions {
            set_snapshot: true,
            ..TransactionOptions::default()
        };
        let mut before = db.begin_with(&WriteOptions::default(), &options);
        commit(&db, "t", 1..2, b"1");
        let mut after = db.begin_with(&WriteOptions::default(), &options);
        if flushes {
            db.db().flush_families(&[]).unwrap();
        }
        let read = ReadOptions::default();
        let refused = codes(before.get_for_update(&key, &read));
        assert_eq!(refused, (Code::Busy, Subcode::None), "{flushes}");
        assert!(before.get_for_update(&other, &read).unwrap().is_none());
        drop(before);
        let found = after.get_for_update(&key, &read).unwrap();
        assert_eq!(found.as_deref(), Some(&b"1"[..]), "{flushes}");
    }
}

#[test]
fn an_optimistic_transaction_conflicts_with_a_commit_past_the_memtable() {
    for validate_policy in [ValidatePolicy::Serial, ValidatePolicy::Parallel] {
        let options = OptimisticTransactionDbOptions {
            validate_policy,
            ..OptimisticTransactionDbOptions::default()
        };
        let db = with_request(World::in_memory(), |request| {
            let two_phase = DbOptions {
                allow_2pc: true,
                ..request.options.clone()
            };
            let request = OpenRequest {
                options: &two_phase,
                path: request.path,
                families: request.families,
                others: request.others,
                read_only: false,
                world: request.world.clone(),
            };
            OptimisticTransactionDb::open(&request, &options).unwrap()
        });
        let (mut conflicting, mut other) = (db.begin(), db.begin());
        conflicting.put(b"k", b"mine").unwrap();
        other.put(b"l", b"mine").unwrap();
        let mut batch = WriteBatch::new();
        batch.put(b"k", b"1");
        db.db()
            .prepare(b"t", &batch, &WriteOptions::default())
            .unwrap();
        let parts = CommitParts {
            bypass_memtable: true,
            ..CommitParts::default()
        };
        db.db()
            .commit_prepared_with(b"t", &parts, &WriteOptions::default())
            .unwrap();
        let refused = codes(conflicting.commit());
        assert_eq!(refused.0, Code::Busy, "{validate_policy:?}");
        other.commit().unwrap();
        assert_eq!(db.db().get(b"k").unwrap().unwrap(), b"1"[..]);
    }
}

/// The markers of two-phase commit are logged in any case.
#[test]
fn a_commit_without_the_log_is_recovered() {
    let sim = SimWorld::new(1);
    let db = open(&sim.world, &DbOptions::default(), &FamilyOptions::default());
    let unlogged = WriteOptions {
        disable_wal: true,
        ..WriteOptions::default()
    };
    let mut txn = db.begin_with(&unlogged, &bypassing());
    txn.set_name(b"t").unwrap();
    txn.put(b"k", b"1").unwrap();
    txn.prepare().unwrap();
    txn.commit().unwrap();
    let killed = SimWorld::on(sim.fs.image(), 2);
    let again = open(
        &killed.world,
        &DbOptions::default(),
        &FamilyOptions::default(),
    );
    assert_eq!(again.db().get(b"k").unwrap().unwrap(), b"1"[..]);
}

/// Range deletions, and entries that are compared with checksums in the batch, are inserted into the active memtable.
#[test]
fn some_transactions_are_inserted_nevertheless() {
    let (statistics, options) = counted();
    let db = open(&World::in_memory(), &options, &FamilyOptions::default());
    let mut batch = WriteBatch::new();
    batch.put(b"k", b"1");
    batch.delete_range(b"a", b"l");
    batch.put(b"m", b"1");
    let logged = WriteOptions::default();
    db.db().prepare(b"range deletion", &batch, &logged).unwrap();
    let parts = CommitParts {
        bypass_memtable: true,
        ..CommitParts::default()
    };
    db.db()
        .commit_prepared_with(b"range deletion", &parts, &logged)
        .unwrap();
    let protected = WriteOptions {
        protection_bytes_per_key: 8,
        ..WriteOptions::default()
    };
    let mut txn = db.begin_with(&protected, &bypassing());
    txn.set_name(b"protected").unwrap();
    txn.put(b"n", b"1").unwrap();
    txn.prepare().unwrap();
    txn.commit().unwrap();
    assert_eq!(statistics.ticker(Ticker::NumberWbwiIngest), 0);
    let keys: Vec<_> = content(db.db().default_family(), None);
    assert_eq!(keys.len(), 2, "{keys:?}");
    assert!(db.db().get(b"k").unwrap().is_none());
}

#[test]
fn the_logs_of_a_transaction_are_kept_until_its_memtable_is_flushed() {
    let sim = SimWorld::new(1);
    let family = FamilyOptions {
        max_write_buffer_number: 20,
        min_write_buffer_number_to_merge: 10,
        ..FamilyOptions::default()
    };
    let db = open(&sim.world, &DbOptions::default(), &family);
    let logs = |db: &Db| db.sorted_wal_files().unwrap().len();
    let mut txn = begin(&db, true, "t");
    txn.put(b"k", b"1").unwrap();
    txn.prepare().unwrap();
    for round in 0..3_u64 {
        commit(&db, &format!("{round}"), round..round + 1, b"1");
    }
    txn.commit().unwrap();
    assert!(
        logs(db.db()) >= 4,
        "one log for each commit, and the current one"
    );
    assert_eq!(content(db.db().default_family(), None).len(), 4);
    let killed = SimWorld::on(sim.fs.image(), 2);
    let again = open(&killed.world, &DbOptions::default(), &family);
    assert_eq!(content(again.db().default_family(), None).len(), 4);
    db.db().flush_families(&[]).unwrap();
    sim.executor.run(1_000);
    assert!(logs(db.db()) <= 1, "all are released by the flush");
}
