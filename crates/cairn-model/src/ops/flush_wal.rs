//! Writes the WAL buffer to the file: `flushwal`.

use crate::failure::Failure;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "flushwal",
    words: &["flushwal"],
    weight: 1,
    switch: Some("flushwal"),
    read: |_| Ok(Op::new(FlushWal)),
    generate: |_| Some(Op::new(FlushWal)),
};

#[derive(Debug)]
struct FlushWal;

impl Operation for FlushWal {
    fn line(&self) -> String {
        "flushwal".to_owned()
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        match runner.engine()?.cairn() {
            Some(engine) => engine.db.flush_wal(false)?,
            None => return Ok(Promise::Nothing),
        }
        Ok(Promise::Written)
    }
}
