//! Runs a script in a simulated world and compares every answer with the model.

use std::collections::BTreeMap;

use cairn_sim::{SimWorld, Trace};

use crate::engine::Factory;
use crate::failure::Failure;
use crate::model::Model;
use crate::operation::Op;
use crate::ops::check::Check;
use crate::ops::reopen::Reopen;
use crate::options::OptionSet;
use crate::runner::{Mark, Promise, Runner};
use crate::script::Script;

/// Maximum number of possible states; further uncertain operations are assumed not to have taken
/// effect.
const POSSIBLE: usize = 64;

/// The record of a run, for crash tests.
pub struct RunRecord {
    /// All file operations.
    pub trace: Trace,
    /// The marks of the operations. The first mark is the open.
    pub marks: Vec<Mark>,
    /// The model at the end.
    pub model: Model,
    /// The options of each open.
    pub options: Vec<OptionSet>,
}

/// Runs `script` in a new world, closes and reopens the database, and compares once more.
///
/// # Errors
///
/// The first wrong answer, or an error of the engine.
pub fn run(factory: &dyn Factory, script: &Script, seed: u64) -> Result<RunRecord, Failure> {
    let mut runner = Runner::new(factory, SimWorld::new(seed), script.options.clone());
    runner.open(None)?;
    runner.mark(0, Promise::Nothing);
    for (number, op) in script.ops.iter().enumerate() {
        let step = runner.step(op);
        step.map_err(|failure| failure.at(&format!("operation {number}, `{op}`")))?;
    }
    let end = |failure: Failure| failure.at("at the end");
    for op in [Op::new(Check), Op::new(Reopen(None)), Op::new(Check)] {
        runner.step(&op).map_err(end)?;
    }
    runner.close().map_err(end)?;
    Ok(RunRecord {
        trace: runner.sim.fs.trace(),
        model: runner.models.remove(0),
        marks: runner.marks,
        options: runner.options,
    })
}

impl Runner<'_> {
    /// Runs one operation.
    ///
    /// # Errors
    ///
    /// The wrong answer, or an error of the engine.
    pub fn step(&mut self, op: &Op) -> Result<(), Failure> {
        let began = self.sim.fs.operations();
        self.begin_moment();
        let promise = op.run(self)?;
        if self.models.iter().any(|model| op.fits(model)) {
            self.models.retain(|model| op.fits(model));
        }
        for model in &mut self.models {
            op.apply(model);
        }
        self.mark(began, promise);
        Ok(())
    }

    /// Records that an operation was not attempted. Its moments pass without a change.
    pub fn skip_operation(&mut self, op: &Op) {
        for model in &mut self.models {
            let mut with = model.clone();
            op.apply(&mut with);
            while model.now() < with.now() {
                model.skip();
            }
        }
    }

    /// Records that an operation was refused but may have taken effect.
    pub fn record_uncertain(&mut self, op: &Op) {
        let model = self.model();
        let flushed = op
            .flushes()
            .iter()
            .filter(|family| model.has_family(family));
        let flushed: BTreeMap<usize, usize> = flushed
            .map(|family| (model.number(family), model.last_written(family)))
            .collect();
        let options = self.options();
        if options.unlogged && options.flushes_atomically() && !flushed.is_empty() {
            self.uncertain_flushes.push(flushed);
        }
        let mut done = self.models.clone();
        self.skip_operation(op);
        for (done, undone) in done.iter_mut().zip(&self.models) {
            let before = (done.now(), done.family_numbers());
            op.apply(done);
            if (done.now(), done.family_numbers()) == before {
                return; // The operation has no effect.
            }
            debug_assert_eq!(done.now(), undone.now());
        }
        self.models.append(&mut done);
        self.models.truncate(POSSIBLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;
    use crate::toy::{Bug, ToyFactory};

    #[test]
    fn a_correct_engine_agrees_with_the_model() {
        for seed in 0..60 {
            let script = generate::script(seed, 150);
            let factory = ToyFactory::correct();
            if let Err(failure) = run(&factory, &script, seed) {
                panic!("seed {seed}: {failure}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        let script = generate::script(5, 100);
        let print = || {
            let record = run(&ToyFactory::correct(), &script, 5);
            record.expect("the engine is correct").trace.fingerprint()
        };
        assert_eq!(print(), print());
    }

    #[test]
    fn wrong_answers_are_detected() {
        for bug in [
            Bug::SnapshotSeesLater,
            Bug::BackwardSkipsFirst,
            Bug::MergeIgnoresBase,
        ] {
            let factory = ToyFactory::with_bug(bug);
            let noticed = (0..30)
                .filter(|seed| run(&factory, &generate::script(*seed, 150), *seed).is_err())
                .count();
            assert!(noticed > 0, "not detected: {bug:?}");
        }
    }
}
