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
use std::sync::Arc;

use cairn_db::OpenRequest;
use cairn_observe::EventListener;
use cairn_options::{DbOptions, FamilyOptions};
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
    open(&request(world, &options, &FamilyOptions::default()))
}

/// Calls `open` with the request for a new database in memory, with small memtables and `listener`.
fn with_listener<T>(
    listener: Arc<dyn EventListener>,
    open: impl FnOnce(&OpenRequest<'_>) -> T,
) -> T {
    let mut options = DbOptions {
        create_if_missing: true,
        ..DbOptions::default()
    };
    options.listeners.push(listener);
    let family = FamilyOptions {
        write_buffer_size: 64 << 10,
        ..FamilyOptions::default()
    };
    open(&request(World::in_memory(), &options, &family))
}

fn request<'a>(world: World, options: &'a DbOptions, family: &'a FamilyOptions) -> OpenRequest<'a> {
    OpenRequest {
        path: Path::new("/db"),
        options,
        families: &[],
        others: Some(family),
        read_only: false,
        world,
    }
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
