//! A run in progress: the simulated world, the engine, the model, and the current durability
//! guarantees.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cairn_platform::sync::{AtomicU64, Ordering};
use cairn_sim::SimWorld;
use cairn_types::Error;

use crate::compare::{content, same_entries};
use crate::engine::{Engine, Factory};
use crate::failure::Failure;
use crate::model::Model;
use crate::options::OptionSet;
use crate::scan::Entries;

/// Directory of the database in the simulated world.
pub const DIR: &str = "/db";

/// The durability guaranteed by a successful operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Nothing.
    Nothing,
    /// Everything logged so far survives a process crash.
    Written,
    /// Everything logged so far survives a power failure.
    Synced,
    /// Everything in these families survives a power failure, logged or not.
    Flushed(Vec<String>),
    /// Everything survives a power failure.
    Everything,
}

impl Promise {
    /// That of an operation that has flushed `families` if writes are `unlogged`, and has synced the log otherwise.
    pub(crate) fn of_synced(unlogged: bool, families: Vec<String>) -> Promise {
        match unlogged {
            true => Promise::Flushed(families),
            false => Promise::Synced,
        }
    }
}

/// The position and guarantees of one operation of a script, for crash tests.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Number of file operations before it.
    pub began: usize,
    /// Number of file operations when it was acknowledged.
    pub ended: usize,
    /// The moment after it.
    pub moment: usize,
    /// The minimum moment after a later process crash.
    pub crash_floor: usize,
    /// The minimum moment after a later power failure.
    pub floor: usize,
    /// In unlogged runs, the minimum moment of each flushed family, by number.
    pub flushed: BTreeMap<usize, usize>,
    /// The families after it, with their numbers in the model.
    pub families: Vec<(String, usize)>,
    /// The options of the last open, as an index of `RunRecord::options`.
    pub options: usize,
}

/// A run in progress.
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
    pub(crate) models: Vec<Model>,
    crash_floor: usize,
    floor: usize,
    flushed: BTreeMap<usize, usize>,
    /// Flushed moments of refused flushes, which may have taken effect in this order.
    pub(crate) uncertain_flushes: Vec<BTreeMap<usize, usize>>,
    pub(crate) options: Vec<OptionSet>,
    pub(crate) marks: Vec<Mark>,
}

impl<'f> Runner<'f> {
    /// Creates a runner in a world, without opening the database.
    #[must_use]
    pub fn new(factory: &'f dyn Factory, sim: SimWorld, options: OptionSet) -> Runner<'f> {
        Runner {
            factory,
            sim,
            engine: None,
            errors: Vec::new(),
            models: vec![Model::new(options.merge)],
            snapshots: BTreeMap::new(),
            allows_leftovers: false,
            crash_floor: 0,
            floor: 0,
            flushed: BTreeMap::new(),
            uncertain_flushes: Vec::new(),
            options: vec![options],
            marks: Vec::new(),
        }
    }

    pub(crate) fn mark(&mut self, began: usize, promise: Promise) {
        self.keep(promise);
        let model = &self.models[0];
        self.marks.push(Mark {
            began,
            ended: self.sim.fs.operations(),
            moment: model.now(),
            crash_floor: self.crash_floor,
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
            Promise::Written | Promise::Synced if unlogged => {}
            Promise::Written => self.crash_floor = now,
            Promise::Synced => self.floor = now,
            // The families are recovered at a common moment.
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
        if !self.options().buffers_wal() && !unlogged {
            self.crash_floor = now;
        }
        self.crash_floor = self.crash_floor.max(self.floor);
    }

    /// Returns the options of the last open.
    #[must_use]
    pub fn options(&self) -> &OptionSet {
        self.options.last().expect("the database has been opened")
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
    /// A refusal if the database is not open.
    pub fn engine(&mut self) -> Result<&mut dyn Engine, Failure> {
        match self.engine.as_mut() {
            Some(engine) => Ok(engine.as_mut()),
            None => Err(Error::aborted("the database is not open").into()),
        }
    }

    /// Passes the moment after the next writes to the engine, which uses it as their timestamp.
    pub(crate) fn begin_moment(&mut self) {
        let moment = self.model().now() + 1;
        if let Some(engine) = &mut self.engine {
            engine.begin_moment(moment);
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
        self.add_error_counter(engine.background_errors());
        self.engine = Some(engine);
        self.begin_moment();
        Ok(())
    }

    /// Adds a counter of reported background errors, see [`Engine::background_errors`].
    pub fn add_error_counter(&mut self, errors: Arc<AtomicU64>) {
        self.errors.push(errors);
    }

    /// Returns the number of reported background errors.
    #[must_use]
    pub fn background_errors(&self) -> u64 {
        // Relaxed: counters that order no other memory access.
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
    pub fn guaranteed(&self) -> (usize, BTreeMap<usize, usize>) {
        (self.floor, self.flushed.clone())
    }

    /// Returns the possible sets of flushed moments: the guaranteed one, and those with each prefix
    /// of the refused flushes added.
    #[must_use]
    pub fn possible_flushes(&self) -> Vec<BTreeMap<usize, usize>> {
        let mut all = vec![self.flushed.clone()];
        for doubtful in &self.uncertain_flushes {
            let mut next = all.last().cloned().unwrap_or_default();
            for (family, moment) in doubtful {
                let known = next.entry(*family).or_default();
                *known = (*known).max(*moment);
            }
            all.push(next);
        }
        all
    }

    /// Determines after an open which of the possible states is present.
    ///
    /// # Errors
    ///
    /// If none of them is; errors of the engine.
    pub fn settle(&mut self) -> Result<(), Failure> {
        self.check_content()?;
        if self.models.len() > 1 {
            let known = self.models[0].clone();
            let found = content(self.engine()?, &known)?;
            self.models.retain(|model| current_content(model) == found);
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
                    "the script does not hold snapshot {number}"
                ))
                .into()),
            },
        }
    }

    /// Compares an answer of the engine with the model.
    ///
    /// # Errors
    ///
    /// The `difference`, if no possible state explains the answer.
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
        self.agree(&found, current_content, |expected, found| {
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
pub fn current_content(model: &Model) -> Content {
    let numbers = model.family_numbers().into_iter();
    numbers
        .map(|(family, number)| (family, model.content_by_number(number, model.now())))
        .collect()
}
