//! The time to lock and unlock a key, by the lock manager alone, against its budget of 100 ns, and by a transaction.
#![expect(missing_docs, reason = "criterion's macro makes a public function")]

use std::path::Path;
use std::time::Duration;

use cairn_db::OpenRequest;
use cairn_locks::{LockKey, LockManager, Owner, Request};
use cairn_options::{DbOptions, ReadOptions};
use cairn_platform::World;
use cairn_txn::TransactionDb;
use criterion::{Criterion, criterion_group, criterion_main};

fn uncontended(c: &mut Criterion) {
    let options = DbOptions {
        create_if_missing: true,
        ..DbOptions::default()
    };
    let opened = TransactionDb::open(
        &OpenRequest {
            path: Path::new("/db"),
            options: &options,
            families: &[],
            others: None,
            read_only: false,
            world: World::in_memory(),
        },
        &Default::default(),
    );
    let db = opened.expect("a new database opens");
    let (family, read) = (db.db().default_family(), ReadOptions::default());
    let mut txn = db.begin();
    let mut n = 0_u64;
    c.bench_function("locks/lock and unlock in a transaction", |b| {
        b.iter(|| {
            n = (n + 5_741) % 1_000;
            let key = n.to_be_bytes();
            let locked = txn.lock_for_update(family, &key, &read, true, false);
            locked.expect("no other transaction has locked it");
            txn.undo_get_for_update(family, &key);
        });
    });
}

fn lock_manager(c: &mut Criterion) {
    let locks = LockManager::new(16, None, 5, World::posix().clock);
    let owner = Owner::new(locks.next_id(), 0);
    let request = Request {
        owner: &owner,
        exclusive: true,
        timeout: Some(Duration::from_secs(1)),
        detect: None,
    };
    let mut n = 0_u64;
    c.bench_function("locks/lock and unlock", |b| {
        b.iter(|| {
            n = (n + 5_741) % 1_000;
            let key = LockKey::new(0, &n.to_be_bytes());
            let locked = locks.lock(&key, &request);
            locked.expect("no other transaction has locked it");
            locks.unlock(&key, owner.id);
        });
    });
}

criterion_group!(benches, lock_manager, uncontended);
criterion_main!(benches);
