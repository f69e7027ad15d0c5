//! The time to lock and unlock a key, with its tracking by the transaction, against its budget of 100 ns.
#![expect(missing_docs, reason = "criterion's macro makes a public function")]

use std::path::Path;

use cairn_db::OpenRequest;
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
    c.bench_function("locks/lock and unlock", |b| {
        b.iter(|| {
            n = (n + 5_741) % 1_000;
            let key = n.to_be_bytes();
            let locked = txn.lock_for_update(family, &key, &read, true, false);
            locked.expect("no other transaction has locked it");
            txn.undo_get_for_update(family, &key);
        });
    });
}

criterion_group!(benches, uncontended);
criterion_main!(benches);
