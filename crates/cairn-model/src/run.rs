//! Carries a script out in a simulated world and compares every answer with the model's.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use cairn_sim::{SimWorld, Trace};
use cairn_types::Result;

use crate::engine::{Engine, Entries, Factory, OptionSet};
use crate::model::Model;
use crate::ops::{Direction, Op, Scan, Script};

/// Where the database lies in the simulated world.
pub const DIR: &str = "/db";

/// What is wrong, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What one operation of a script did, for those who crash it.
#[derive(Clone, Debug)]
pub struct Mark {
    /// How many file operations there were when it began.
    pub began: usize,
    /// How many when it was acknowledged.
    pub ended: usize,
    /// The moment after it.
    pub moment: usize,
    /// The first moment that a power cut after it may leave.
    pub floor: usize,
    /// Where no write is logged, the same of each family that was flushed, by its number.
    pub flushed: BTreeMap<usize, usize>,
    /// The families after it, with their numbers in the model.
    pub families: Vec<(String, usize)>,
    /// What the database was opened with last, as an index of `RunRecord::options`.
    pub options: usize,
}

/// A run, for those who crash it.
pub struct RunRecord {
    /// All file operations.
    pub trace: Trace,
    /// What each operation of the script did. The first mark is the opening.
    pub marks: Vec<Mark>,
    /// Everything that was ever written.
    pub model: Model,
    /// The options of each opening.
    pub options: Vec<OptionSet>,
}

/// Carries `script` out in a new world, closes, opens again, and compares once more.
///
/// # Errors
///
/// The first answer that differs from the model's, or an error of the engine.
pub fn run(factory: &dyn Factory, script: &Script, seed: u64) -> Result<RunRecord, Failure> {
    let mut runner = Runner::open(factory, script, seed)?;
    for (number, op) in script.ops.iter().enumerate() {
        runner
            .step(op)
            .map_err(|failure| Failure(format!("operation {number}, `{op}`: {failure}")))?;
    }
    let end = |failure: Failure| Failure(format!("at the end: {failure}"));
    runner.step(&Op::Check).map_err(end)?;
    runner.step(&Op::Reopen(None)).map_err(end)?;
    runner.step(&Op::Check).map_err(end)?;
    runner.close().map_err(end)?;
    Ok(RunRecord {
        trace: runner.sim.fs.trace(),
        marks: runner.marks,
        model: runner.model,
        options: runner.options,
    })
}

struct Runner<'f> {
    factory: &'f dyn Factory,
    sim: SimWorld,
    engine: Option<Box<dyn Engine>>,
    model: Model,
    /// By the script's name: the engine's, and the moment.
    snapshots: BTreeMap<u64, (u64, usize)>,
    floor: usize,
    flushed: BTreeMap<usize, usize>,
    options: Vec<OptionSet>,
    marks: Vec<Mark>,
}

/// The engine's error as a failure.
fn refused(error: cairn_types::Error) -> Failure {
    Failure(error.to_string())
}

impl<'f> Runner<'f> {
    fn open(factory: &'f dyn Factory, script: &Script, seed: u64) -> Result<Runner<'f>, Failure> {
        let sim = SimWorld::new(seed);
        let engine = factory
            .open(&sim.world, Path::new(DIR), &script.options)
            .map_err(refused)?;
        let mut runner = Runner {
            factory,
            sim,
            engine: Some(engine),
            model: Model::new(script.options.merge),
            snapshots: BTreeMap::new(),
            floor: 0,
            flushed: BTreeMap::new(),
            options: vec![script.options.clone()],
            marks: Vec::new(),
        };
        runner.mark(0);
        Ok(runner)
    }

    fn mark(&mut self, began: usize) {
        self.marks.push(Mark {
            began,
            ended: self.sim.fs.operations(),
            moment: self.model.now(),
            floor: self.floor,
            flushed: self.flushed.clone(),
            families: self.model.family_numbers(),
            options: self.options.len() - 1,
        });
    }

    fn unlogged(&self) -> bool {
        self.options.last().is_some_and(|options| options.unlogged)
    }

    fn engine(&mut self) -> &mut dyn Engine {
        let engine = self.engine.as_mut().expect("it is open between operations");
        engine.as_mut()
    }

    fn step(&mut self, op: &Op) -> Result<(), Failure> {
        let began = self.sim.fs.operations();
        self.carry_out(op)?;
        self.mark(began);
        Ok(())
    }

    fn carry_out(&mut self, op: &Op) -> Result<(), Failure> {
        match op {
            Op::Write { writes, sync } => {
                self.engine().write(writes, *sync).map_err(refused)?;
                self.model.write(writes);
                if *sync && !self.unlogged() {
                    self.floor = self.model.now();
                }
            }
            Op::Get {
                family,
                key,
                snapshot,
            } => {
                let (name, moment) = self.moment(*snapshot)?;
                let found = self.engine().get(family, key, name).map_err(refused)?;
                let expected = self.model.get(family, key, moment);
                if found != expected {
                    return Err(Failure(format!(
                        "expected {}, found {}",
                        value_text(expected.as_deref()),
                        value_text(found.as_deref())
                    )));
                }
            }
            Op::Scan {
                family,
                scan,
                snapshot,
            } => {
                let (name, moment) = self.moment(*snapshot)?;
                let found = self.engine().scan(family, scan, name).map_err(refused)?;
                same_entries(&self.model.scan(family, scan, moment), &found)?;
            }
            Op::Snapshot(number) => {
                let name = self.engine().snapshot().map_err(refused)?;
                self.snapshots.insert(*number, (name, self.model.now()));
            }
            Op::Release(number) => {
                if let Some((name, _)) = self.snapshots.remove(number) {
                    self.engine().release(name);
                }
            }
            Op::Flush(family) => {
                self.engine().flush(family).map_err(refused)?;
                let written = self.model.last_written(family);
                match self.unlogged() {
                    true => drop(self.flushed.insert(self.model.number(family), written)),
                    false => self.floor = self.floor.max(written),
                }
            }
            Op::Compact { family, start, end } => self
                .engine()
                .compact(family, start.as_deref(), end.as_deref())
                .map_err(refused)?,
            Op::SyncWal => {
                self.engine().sync_wal().map_err(refused)?;
                if !self.unlogged() {
                    self.floor = self.model.now();
                }
            }
            Op::CreateFamily(name) => {
                self.engine().create_family(name).map_err(refused)?;
                self.model.create_family(name);
            }
            Op::DropFamily(name) => {
                self.engine().drop_family(name).map_err(refused)?;
                self.model.drop_family(name);
            }
            Op::Work(jobs) => {
                self.sim.executor.run(*jobs);
            }
            Op::Reopen(options) => {
                self.close()?;
                let last = self.options.last().expect("the first opening has some");
                let options = options.as_ref().unwrap_or(last).clone();
                let engine = self
                    .factory
                    .open(&self.sim.world, Path::new(DIR), &options)
                    .map_err(refused)?;
                self.engine = Some(engine);
                self.options.push(options);
            }
            Op::Check => {
                let moment = self.model.now();
                let engine = self.engine.as_mut().expect("it is open between operations");
                let found = content(engine.as_mut(), &self.model)?;
                let names: Vec<&String> = found.keys().collect();
                let mut expected = self.model.families();
                expected.sort();
                if names != expected.iter().collect::<Vec<_>>() {
                    return Err(Failure(format!(
                        "families: expected {expected:?}, found {names:?}"
                    )));
                }
                for (family, number) in self.model.family_numbers() {
                    let expected = self.model.content_by_number(number, moment);
                    same_entries(&expected, &found[&family])
                        .map_err(|failure| Failure(format!("family {family}: {failure}")))?;
                }
                self.engine().check().map_err(refused)?;
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Failure> {
        for (_, (name, _)) in std::mem::take(&mut self.snapshots) {
            self.engine().release(name);
        }
        let engine = self.engine.take().expect("it is open between operations");
        engine.close().map_err(refused)?;
        self.floor = self.model.now();
        self.sim.executor.run(usize::MAX);
        match self.sim.fs.leaks() {
            leaks if leaks.is_empty() => Ok(()),
            leaks => Err(Failure(format!("after close: {}", leaks.join(", ")))),
        }
    }

    fn moment(&self, snapshot: Option<u64>) -> Result<(Option<u64>, usize), Failure> {
        match snapshot {
            None => Ok((None, self.model.now())),
            Some(number) => match self.snapshots.get(&number) {
                Some((name, moment)) => Ok((Some(*name), *moment)),
                None => Err(Failure(format!("the script has no snapshot {number} here"))),
            },
        }
    }
}

/// The content of every family, read forward, backward and key by key, which must agree.
///
/// # Errors
///
/// Two ways of reading that differ, or an error of the engine.
pub fn content(
    engine: &mut dyn Engine,
    model: &Model,
) -> Result<BTreeMap<String, Entries>, Failure> {
    let mut all = BTreeMap::new();
    for family in engine.families() {
        let wrong =
            |text: &str, failure: Failure| Failure(format!("family {family}, {text}: {failure}"));
        let mut read = |direction| engine.scan(&family, &Scan::all(direction), None);
        let forward = read(Direction::Forward).map_err(refused)?;
        let mut backward = read(Direction::Backward).map_err(refused)?;
        backward.reverse();
        same_entries(&forward, &backward).map_err(|f| wrong("forward against backward", f))?;
        if !forward.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(Failure(format!("family {family}: keys out of order")));
        }
        let known = match model.has_family(&family) {
            true => model.keys(&family),
            false => Vec::new(),
        };
        let mut asked: BTreeMap<Vec<u8>, Option<Vec<u8>>> =
            known.into_iter().map(|key| (key, None)).collect();
        asked.extend(
            forward
                .iter()
                .map(|(key, value)| (key.clone(), Some(value.clone()))),
        );
        for (key, scanned) in asked {
            let got = engine.get(&family, &key, None).map_err(refused)?;
            if got != scanned {
                return Err(Failure(format!(
                    "family {family}, key {}: a scan finds {}, a get {}",
                    String::from_utf8_lossy(&key),
                    value_text(scanned.as_deref()),
                    value_text(got.as_deref())
                )));
            }
        }
        all.insert(family, forward);
    }
    Ok(all)
}

/// Whether the entries are the same, and if not, the first that differs.
///
/// # Errors
///
/// The first difference.
pub fn same_entries(expected: &Entries, found: &Entries) -> Result<(), Failure> {
    if expected == found {
        return Ok(());
    }
    let at = expected
        .iter()
        .zip(found)
        .take_while(|(a, b)| a == b)
        .count();
    let entry = |entry: Option<&(Vec<u8>, Vec<u8>)>| match entry {
        Some((key, value)) => {
            let key = String::from_utf8_lossy(key);
            format!("{key} = {}", value_text(Some(value)))
        }
        None => "the end".to_owned(),
    };
    Err(Failure(format!(
        "entry {at} of {}: expected {}, found {} (and {} in all)",
        expected.len(),
        entry(expected.get(at)),
        entry(found.get(at)),
        found.len()
    )))
}

/// A value in few letters.
fn value_text(value: Option<&[u8]>) -> String {
    match value {
        None => "nothing".to_owned(),
        Some(value) => {
            let shown = &value[..value.len().min(24)];
            format!(
                "{:?} ({} bytes)",
                String::from_utf8_lossy(shown),
                value.len()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;
    use crate::toy::{Bug, ToyFactory};

    #[test]
    fn a_right_engine_agrees_with_the_model_on_every_script() {
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
    fn wrong_answers_are_noticed() {
        for bug in [
            Bug::SnapshotSeesLater,
            Bug::BackwardSkipsFirst,
            Bug::MergeForgetsBase,
        ] {
            let factory = ToyFactory::wrong(bug);
            let noticed = (0..30)
                .filter(|seed| run(&factory, &generate::script(*seed, 150), *seed).is_err())
                .count();
            assert!(noticed > 0, "nobody noticed {bug:?}");
        }
    }
}
