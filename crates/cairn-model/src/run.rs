//! Runs a script in a simulated world and compares every answer with the model.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use cairn_platform::sync::{AtomicU64, Ordering};
use cairn_sim::{SimWorld, Trace};
use cairn_types::Error;

use crate::compare::{content, same_entries};
use crate::engine::{Engine, Entries, Factory};
use crate::model::Model;
use crate::ops::Promise;
use crate::ops::check::Check;
use crate::ops::reopen::Reopen;
use crate::options::OptionSet;
use crate::script::{Op, Script};

/// Directory of the database in the simulated world.
pub const DIR: &str = "/db";

/// Maximum number of possible states; further uncertain operations are taken as not executed.
const POSSIBLE: usize = 64;

/// A failure with its description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The description.
    pub text: String,
    /// True if the engine reported an error, which is allowed after an injected fault. Otherwise an
    /// answer was wrong, which is never allowed.
    pub refused: bool,
}

impl Failure {
    /// A wrong answer.
    #[must_use]
    pub fn wrong(text: impl Into<String>) -> Failure {
        Failure {
            text: text.into(),
            refused: false,
        }
    }

    /// Prepends the current activity.
    #[must_use]
    pub fn at(self, doing: &str) -> Failure {
        Failure {
            text: format!("{doing}: {}", self.text),
            ..self
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure {
            text: error.to_string(),
            refused: true,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The effect of one operation of a script, for crash tests.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Number of file operations before it.
    pub began: usize,
    /// Number of file operations when it was acknowledged.
    pub ended: usize,
    /// The moment after it.
    pub moment: usize,
    /// The minimum moment after a process crash that follows it.
    pub handed: usize,
    /// The minimum moment after a power failure that follows it.
    pub floor: usize,
    /// In unlogged runs, the minimum moment of each flushed family, by number.
    pub flushed: BTreeMap<usize, usize>,
    /// The families after it, with their numbers in the model.
    pub families: Vec<(String, usize)>,
    /// The options of the last open, as an index of `RunRecord::options`.
    pub options: usize,
}

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
    let mut runner = Runner::new(factory, SimWorld::new(seed), script);
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

/// A run in progress, which operations act on.
pub struct Runner<'f> {
    /// The simulated world.
    pub sim: SimWorld,
    /// Snapshots of the script: the engine's name and the moment.
    pub snapshots: BTreeMap<u64, (u64, usize)>,
    /// True if obsolete files may exist.
    pub allows_leftovers: bool,
    factory: &'f dyn Factory,
    engine: Option<Box<dyn Engine>>,
    /// Number of reported background errors for each open.
    errors: Vec<Arc<AtomicU64>>,
    /// The possible states: several if it is unknown whether a failed operation took effect.
    models: Vec<Model>,
    handed: usize,
    floor: usize,
    flushed: BTreeMap<usize, usize>,
    /// States of refused flushes, which may have taken effect one after the other.
    doubtful_flushes: Vec<BTreeMap<usize, usize>>,
    options: Vec<OptionSet>,
    marks: Vec<Mark>,
}

impl<'f> Runner<'f> {
    /// Creates a runner of `script` in a world, without opening the database.
    #[must_use]
    pub fn new(factory: &'f dyn Factory, sim: SimWorld, script: &Script) -> Runner<'f> {
        Runner {
            factory,
            sim,
            engine: None,
            errors: Vec::new(),
            models: vec![Model::new(script.options.merge)],
            snapshots: BTreeMap::new(),
            allows_leftovers: false,
            handed: 0,
            floor: 0,
            flushed: BTreeMap::new(),
            doubtful_flushes: Vec::new(),
            options: vec![script.options.clone()],
            marks: Vec::new(),
        }
    }

    fn mark(&mut self, began: usize, promise: Promise) {
        self.keep(promise);
        let model = &self.models[0];
        self.marks.push(Mark {
            began,
            ended: self.sim.fs.operations(),
            moment: model.now(),
            handed: self.handed,
            floor: self.floor,
            flushed: self.flushed.clone(),
            families: model.family_numbers(),
            options: self.options.len() - 1,
        });
    }

    /// Records a durability guarantee.
    fn keep(&mut self, promise: Promise) {
        let (model, options) = (&self.models[0], self.options());
        let (now, unlogged) = (model.now(), options.unlogged);
        match promise {
            Promise::Nothing => {}
            Promise::Everything => self.floor = now,
            Promise::Handed | Promise::Logged if unlogged => {}
            Promise::Handed => self.handed = now,
            Promise::Logged => self.floor = now,
            // All of them are recovered at a common moment.
            Promise::Flushed(families)
                if unlogged
                    && options.flushes_atomically()
                    && model
                        .families()
                        .iter()
                        .all(|family| families.contains(family)) =>
            {
                self.floor = now;
            }
            Promise::Flushed(families) => {
                for family in families.iter().filter(|family| model.has_family(family)) {
                    let written = model.last_written(family);
                    match unlogged {
                        true => drop(self.flushed.insert(model.number(family), written)),
                        false => self.floor = self.floor.max(written),
                    }
                }
            }
        }
        if !self.options().holds_writes_back() && !unlogged {
            self.handed = now;
        }
        self.handed = self.handed.max(self.floor);
    }

    /// Returns the options of the last open.
    #[must_use]
    pub fn options(&self) -> &OptionSet {
        self.options.last().expect("the first opening has some")
    }

    /// Returns the state after all operations so far.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.models[0]
    }

    /// Returns the open database.
    ///
    /// # Errors
    ///
    /// A refusal if it could not be opened.
    pub fn engine(&mut self) -> Result<&mut dyn Engine, Failure> {
        match self.engine.as_mut() {
            Some(engine) => Ok(engine.as_mut()),
            None => Err(Error::aborted("the database is not open").into()),
        }
    }

    /// Opens the database with these options, or with the last ones.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub fn open(&mut self, options: Option<OptionSet>) -> Result<(), Failure> {
        if let Some(options) = options {
            self.options.push(options);
        }
        let dir = Path::new(DIR);
        let engine = self.factory.open(&self.sim.world, dir, self.options())?;
        self.hear(engine.background_errors());
        self.engine = Some(engine);
        Ok(())
    }

    /// Adds a counter of reported background errors, see [`Engine::background_errors`].
    pub fn hear(&mut self, errors: Arc<AtomicU64>) {
        self.errors.push(errors);
    }

    /// Returns the number of reported background errors.
    #[must_use]
    pub fn background_errors(&self) -> u64 {
        // Relaxed: counters that order nothing.
        let each = self.errors.iter();
        each.map(|errors| errors.load(Ordering::Relaxed)).sum()
    }

    /// Closes the database and checks for leaked resources.
    ///
    /// # Errors
    ///
    /// Errors of the engine; leaked resources.
    pub fn close(&mut self) -> Result<(), Failure> {
        let snapshots = std::mem::take(&mut self.snapshots);
        if let Ok(engine) = self.engine() {
            for (name, _) in snapshots.into_values() {
                engine.release(name);
            }
        }
        let Some(engine) = self.engine.take() else {
            return Ok(());
        };
        let closed = engine.close();
        self.sim.executor.run(usize::MAX);
        closed?;
        match self.sim.fs.leaks() {
            leaks if leaks.is_empty() => Ok(()),
            leaks => Err(Failure::wrong(format!("after close: {}", leaks.join(", ")))),
        }
    }

    /// Runs one operation.
    ///
    /// # Errors
    ///
    /// The wrong answer, or an error of the engine.
    pub fn step(&mut self, op: &Op) -> Result<(), Failure> {
        let began = self.sim.fs.operations();
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

    /// True if the database is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.engine.is_some()
    }

    /// Returns all possible states.
    #[must_use]
    pub fn models(&self) -> &[Model] {
        &self.models
    }

    /// Returns the minimum moment after a power failure, and that of each flushed family.
    #[must_use]
    pub fn promised(&self) -> (usize, BTreeMap<usize, usize>) {
        (self.floor, self.flushed.clone())
    }

    /// Returns the possible sets of flushed moments: the guaranteed one, and those with refused flushes
    /// added one after the other.
    #[must_use]
    pub fn perhaps_flushed(&self) -> Vec<BTreeMap<usize, usize>> {
        let mut all = vec![self.flushed.clone()];
        for doubtful in &self.doubtful_flushes {
            let mut next = all.last().cloned().unwrap_or_default();
            for (family, moment) in doubtful {
                let known = next.entry(*family).or_default();
                *known = (*known).max(*moment);
            }
            all.push(next);
        }
        all
    }

    /// Records that an operation was not attempted. Its moments pass without effect.
    pub fn leave_out(&mut self, op: &Op) {
        for model in &mut self.models {
            let mut with = model.clone();
            op.apply(&mut with);
            while model.now() < with.now() {
                model.skip();
            }
        }
    }

    /// Records that an operation was refused, but may have taken effect.
    pub fn doubt(&mut self, op: &Op) {
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
            self.doubtful_flushes.push(flushed);
        }
        let mut done = self.models.clone();
        self.leave_out(op);
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

    /// Determines after an open which of the possible states is present.
    ///
    /// # Errors
    ///
    /// None of them is; errors of the engine.
    pub fn settle(&mut self) -> Result<(), Failure> {
        self.check_content()?;
        if self.models.len() > 1 {
            let known = self.models[0].clone();
            let found = content(self.engine()?, &known)?;
            self.models.retain(|model| whole(model) == found);
        }
        Ok(())
    }

    /// Returns the engine's name and the moment of a snapshot of the script.
    ///
    /// # Errors
    ///
    /// If the script has no such snapshot.
    pub fn moment(&self, snapshot: Option<u64>) -> Result<(Option<u64>, usize), Failure> {
        match snapshot {
            None => Ok((None, self.model().now())),
            Some(number) => match self.snapshots.get(&number) {
                Some((name, moment)) => Ok((Some(*name), *moment)),
                None => Err(Error::invalid_argument(format!(
                    "the script has no snapshot {number} here"
                ))
                .into()),
            },
        }
    }

    /// Compares an answer of the engine with the model.
    ///
    /// # Errors
    ///
    /// The `difference` of the two, if no possible state explains the answer.
    pub fn agree<T: PartialEq>(
        &self,
        found: &T,
        expected: impl Fn(&Model) -> T,
        difference: impl Fn(&T, &T) -> String,
    ) -> Result<(), Failure> {
        let answers: Vec<T> = self.models.iter().map(expected).collect();
        match answers.contains(found) {
            true => Ok(()),
            false => Err(Failure::wrong(difference(&answers[0], found))),
        }
    }

    /// Reads all content and compares it with the model.
    ///
    /// # Errors
    ///
    /// The first difference, or an error of the engine.
    pub fn check_content(&mut self) -> Result<(), Failure> {
        let known = self.models[0].clone();
        let found = content(self.engine()?, &known)?;
        self.agree(&found, whole, |expected, found| {
            if !expected.keys().eq(found.keys()) {
                let names = |all: &Content| all.keys().cloned().collect::<Vec<_>>().join(" ");
                let (expected, found) = (names(expected), names(found));
                return format!("families: expected {expected}, found {found}");
            }
            let mut each = expected.iter();
            let difference = each.find_map(|(family, expected)| {
                let failure = same_entries(expected, &found[family]).err()?;
                Some(format!("family {family}: {failure}"))
            });
            difference.unwrap_or_default()
        })
    }
}

/// The entries of all families.
pub type Content = BTreeMap<String, Entries>;

/// Returns the current content of all families.
pub fn whole(model: &Model) -> Content {
    let numbers = model.family_numbers().into_iter();
    numbers
        .map(|(family, number)| (family, model.content_by_number(number, model.now())))
        .collect()
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
            let factory = ToyFactory::right();
            if let Err(failure) = run(&factory, &script, seed) {
                panic!("seed {seed}: {failure}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_trace() {
        let script = generate::script(5, 100);
        let print = || {
            let record = run(&ToyFactory::right(), &script, 5);
            record.expect("a right engine").trace.fingerprint()
        };
        assert_eq!(print(), print());
    }

    #[test]
    fn wrong_answers_are_detected() {
        for bug in [
            Bug::SnapshotSeesLater,
            Bug::BackwardSkipsFirst,
            Bug::MergeForgetsBase,
        ] {
            let factory = ToyFactory::wrong(bug);
            let noticed = (0..30)
                .filter(|seed| run(&factory, &generate::script(*seed, 150), *seed).is_err())
                .count();
            assert!(noticed > 0, "not detected: {bug:?}");
        }
    }
}
