//! Runs a number of background jobs, and lets time pass: `work 3`.

use std::time::Duration;

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

/// The time that passes. It is short, because scripts set a `ttl` of an hour, after which FIFO compaction drops data.
const PASSES: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct Work(usize);

impl Operation for Work {
    fn line(&self) -> String {
        format!("work {}", self.0)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        runner.sim.executor.run(self.0);
        runner.sim.clock.advance(PASSES);
        Ok(Promise::Nothing)
    }
}
