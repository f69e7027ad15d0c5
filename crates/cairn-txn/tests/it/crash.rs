//! Crashes while transactions are committed: each is recovered completely or not at all, in order.

use cairn_options::{FamilyOptions, WriteOptions};
use cairn_sim::{DiskImage, SimWorld};
use cairn_txn::{
    OptimisticTransactionDb, OptimisticTransactionDbOptions, Transaction, TransactionDb,
    TransactionDbOptions,
};

use crate::with_request;

const TRANSACTIONS: u64 = 12;

/// Writes the number of the transaction to two keys of two families, with a write that is taken back.
fn write(txn: &mut Transaction, family: &cairn_db::Family, number: u64) {
    txn.put(b"a", &number.to_le_bytes()).unwrap();
    txn.set_save_point();
    txn.put_in(family, b"b", b"never").unwrap();
    txn.rollback_to_save_point().unwrap();
    txn.put_in(family, b"b", &number.to_le_bytes()).unwrap();
    if number % 4 == 3 {
        txn.rollback().unwrap();
    }
    txn.commit().unwrap();
}

fn options(number: u64) -> WriteOptions {
    WriteOptions {
        sync: number.is_multiple_of(5),
        ..WriteOptions::default()
    }
}

/// Returns the number of the last transaction in the image, which both families must have.
fn recovered(image: DiskImage) -> u64 {
    let sim = SimWorld::on(image, 1);
    let opened = with_request(sim.world.clone(), |request| {
        TransactionDb::open(request, &TransactionDbOptions::default())
    });
    let db = opened.unwrap();
    let number = |value: Option<cairn_db::Value>| {
        value.map_or(0, |value| u64::from_le_bytes((*value).try_into().unwrap()))
    };
    let first = number(db.db().get(b"a").unwrap());
    let second = db
        .db()
        .family("f")
        .map_or(0, |f| number(f.get(b"b").unwrap()));
    assert_eq!(first, second, "a transaction is atomic");
    assert!(db.lock_status().is_empty());
    first
}

fn crash_everywhere(run: impl Fn(&SimWorld, &mut dyn FnMut(u64, usize))) {
    let sim = SimWorld::new(3);
    // The length of the trace when each transaction was acknowledged.
    let mut acknowledged = Vec::new();
    run(&sim, &mut |number, len| acknowledged.push((number, len)));
    let trace = sim.fs.trace();
    let begin = acknowledged[0].1;
    let mut images = 0;
    for at in begin..=trace.len() {
        for model in cairn_sim::images::MODELS {
            for image in trace.images(at, model, at as u64).take(3) {
                let last = recovered(image);
                images += 1;
                let durable = acknowledged.iter().filter(|(number, len)| {
                    *len <= at && (model.kernel_survives() || number.is_multiple_of(5))
                });
                let least = durable.map(|(number, _)| *number).max().unwrap_or(0);
                assert!(
                    last >= least,
                    "{model:?} at {at}: {last} instead of {least}"
                );
                assert!(last % 4 != 3, "a transaction that was rolled back");
            }
        }
    }
    assert!(images > 100, "{images} images");
}

/// Writes all transactions. `acknowledge` receives the number of each that is not rolled back, and the length of the
/// trace after it.
fn write_all(
    sim: &SimWorld,
    acknowledge: &mut dyn FnMut(u64, usize),
    family: &cairn_db::Family,
    begin: impl Fn(&WriteOptions) -> Transaction,
) {
    acknowledge(0, sim.fs.trace().len());
    for number in 1..=TRANSACTIONS {
        write(&mut begin(&options(number)), family, number);
        if number % 4 != 3 {
            acknowledge(number, sim.fs.trace().len());
        }
    }
}

#[test]
fn pessimistic_transactions_are_atomic_after_a_crash() {
    crash_everywhere(|sim, acknowledge| {
        let opened = with_request(sim.world.clone(), |request| {
            TransactionDb::open(request, &TransactionDbOptions::default())
        });
        let db = opened.unwrap();
        let family = db.create_family("f", &FamilyOptions::default()).unwrap();
        write_all(sim, acknowledge, &family, |options| {
            db.begin_with(options, &Default::default())
        });
    });
}

#[test]
fn optimistic_transactions_are_atomic_after_a_crash() {
    crash_everywhere(|sim, acknowledge| {
        let opened = with_request(sim.world.clone(), |request| {
            OptimisticTransactionDb::open(request, &OptimisticTransactionDbOptions::default())
        });
        let db = opened.unwrap();
        let family = db.create_family("f", &FamilyOptions::default()).unwrap();
        write_all(sim, acknowledge, &family, |options| {
            db.begin_with(options, &Default::default())
        });
    });
}
