//! Transactions on databases in memory and in the simulator.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod bypass;
mod checker;
mod crash;
mod crash_threads;
mod crash_two_phase;
mod isolation;
mod optimistic;
mod pessimistic;
mod policies;
mod random;
mod ranges;
mod secondary_indexes;
mod timestamps;
mod two_phase;

use std::path::Path;

use cairn_db::OpenRequest;
use cairn_options::DbOptions;
use cairn_platform::World;
use cairn_txn::{
    OptimisticTransactionDb, OptimisticTransactionDbOptions, TransactionDb, TransactionDbOptions,
    WritePolicy,
};
use cairn_types::{Code, Error, Result, Subcode};

/// Calls `open` with the request for a new database in `world`.
fn with_request<T>(world: World, open: impl FnOnce(&OpenRequest<'_>) -> T) -> T {
    let options = DbOptions {
        create_if_missing: true,
        ..DbOptions::default()
    };
    open(&OpenRequest {
        path: Path::new("/db"),
        options: &options,
        families: &[],
        others: Some(&cairn_options::FamilyOptions::default()),
        read_only: false,
        world,
    })
}

fn pessimistic(options: &TransactionDbOptions) -> TransactionDb {
    with_request(World::in_memory(), |request| {
        TransactionDb::open(request, options).unwrap()
    })
}

fn optimistic(options: &OptimisticTransactionDbOptions) -> OptimisticTransactionDb {
    with_request(World::in_memory(), |request| {
        OptimisticTransactionDb::open(request, options).unwrap()
    })
}

/// All write policies.
const POLICIES: [WritePolicy; 3] = [
    WritePolicy::Committed,
    WritePolicy::Prepared,
    WritePolicy::Unprepared,
];

/// The code and subcode of an error.
fn codes<T: std::fmt::Debug>(result: Result<T>) -> (Code, Subcode) {
    let error: Error = result.expect_err("it fails");
    (error.code(), error.subcode())
}
