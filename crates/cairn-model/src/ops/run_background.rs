//! Runs a number of background jobs: `work 3`.

use crate::failure::Failure;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "work",
    words: &["work"],
    weight: 3,
    switch: None,
    read: |line| Ok(Op::new(Work(line.number_at(0)?))),
    generate: |generator| Some(Op::new(Work(1 + generator.rng.below(3)))),
};

#[derive(Debug)]
struct Work(usize);

impl Operation for Work {
    fn line(&self) -> String {
        format!("work {}", self.0)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        runner.sim.executor.run(self.0);
        Ok(Promise::Nothing)
    }
}
