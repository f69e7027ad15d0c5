//! Syncs the WAL: `syncwal`.

use crate::failure::Failure;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "syncwal",
    words: &["syncwal"],
    weight: 2,
    switch: Some("syncwal"),
    read: |_| Ok(Op::new(SyncWal)),
    generate: |_| Some(Op::new(SyncWal)),
};

#[derive(Debug)]
struct SyncWal;

impl Operation for SyncWal {
    fn line(&self) -> String {
        "syncwal".to_owned()
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        runner.engine()?.sync_wal()?;
        Ok(Promise::Synced)
    }
}
