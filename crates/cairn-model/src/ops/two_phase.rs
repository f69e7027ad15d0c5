//! Writes a batch as a transaction that is prepared and committed, into the memtables or past them: `txn put default k
//! v:3:1 sync`, `txnpast batch put default k v:3:1 ; delete a k`. Without `allow_2pc` it is a write.

use cairn_db::CommitParts;
use cairn_options::WriteOptions;

use super::write::Batch;
use crate::cairn::Cairn;
use crate::failure::Failure;
use crate::model::Model;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "txn",
    words: &["txn", "txnpast"],
    weight: 4,
    switch: Some("txn"),
    read: |line| {
        Ok(Op::new(Commit {
            past: line.kind() == "txnpast",
            batch: line.rest().parse()?,
        }))
    },
    generate: |generator| {
        Some(Op::new(Commit {
            past: generator.rng.chance(2, 3),
            batch: Batch::generate(generator),
        }))
    },
};

#[derive(Debug)]
struct Commit {
    batch: Batch,
    /// True to commit past the memtable.
    past: bool,
}

impl Commit {
    fn commit(&self, cairn: &Cairn) -> cairn_types::Result<()> {
        let options = WriteOptions {
            sync: self.batch.sync,
            ..WriteOptions::default()
        };
        // Those whose commit has failed.
        for left in cairn.db.prepared()? {
            cairn.db.roll_back_prepared(&left.name, &options)?;
        }
        let name = format!("transaction {}", cairn.moment);
        let batch = cairn.batch(&self.batch.writes)?;
        cairn.db.prepare(name.as_bytes(), &batch, &options)?;
        let parts = CommitParts {
            bypass_memtable: self.past,
            ..CommitParts::default()
        };
        cairn
            .db
            .commit_prepared_with(name.as_bytes(), &parts, &options)
    }
}

impl Operation for Commit {
    fn line(&self) -> String {
        let word = if self.past { "txnpast" } else { "txn" };
        format!("{word} {}", self.batch.line())
    }

    fn apply(&self, model: &mut Model) {
        self.batch.apply(model);
    }

    fn fits(&self, model: &Model) -> bool {
        self.batch.fits(model)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        let options = runner.options();
        // The log of a transaction has no earlier unlogged writes.
        let two_phase = options.is_on("allow_2pc") && !options.unlogged;
        match runner.engine()?.cairn() {
            Some(cairn) if two_phase && !cairn.has_timestamps() => {
                self.commit(cairn)?;
                Ok(match self.batch.sync {
                    true => Promise::Synced,
                    false => Promise::Nothing,
                })
            }
            _ => self.batch.run(runner),
        }
    }
}
