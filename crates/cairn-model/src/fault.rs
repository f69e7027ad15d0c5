//! Lets every file operation of a run fail, and checks that the database says so and gets over it.
//!
//! A case is an operation of the run without faults, a fault, and whether it happens once or goes
//! on. The script is run again with that plan. From then on operations may be *refused*; what a
//! refused operation would have done is in doubt: there or not, and settled by the next opening.
//! Wrong answers are failures all the time. Once the fault is over, time passes until everything
//! has been tried again that is tried again by itself; a database that is stopped even then is resumed, or opened anew if it cannot be; after that nothing may be refused any more (E8). At
//! the end, and at the moment of the first refusal, the machine is crashed, with only what was
//! synced left and with everything left, and what is found must be a state that is possible. A
//! fault of which nobody was told is a failure (E1) unless its site is among the harmless ones.
//!
//! Writes that are damaged in silence are another matter: nothing of what was damaged has to be there again, and operations may be
//! refused to the end. What is answered must be right (I1).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cairn_sim::{Call, CrashModel, DiskImage, FAULTS, Fault, FaultPlan, FaultRule, Rng, SimWorld};
use cairn_sim::{Trace, Trigger};

use crate::compare::content;
use crate::crash::caught;
use crate::engine::Factory;
use crate::model::Model;
use crate::ops::check::Check;
use crate::run::{DIR, Failure, Runner, run};
use crate::script::{Op, Script};
use crate::token::FaultPoint;

mod harmless;
mod image;

/// For how many operations of the script a fault that goes on does so.
const LASTS: usize = 6;

/// What failed is tried again after at most this, unless an option says otherwise.
const WAIT: Duration = Duration::from_secs(70);

/// How often a retry may lead to another one.
const WAITS: usize = 3;

/// More jobs than any database of a script has a reason for in one [`WAIT`].
const JOBS_OF_A_WAIT: usize = 10_000;

/// How much was tried.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Runs with a fault.
    pub runs: usize,
    /// Cases that are not counted as runs: the fault came to nothing, as nothing was left to fail.
    pub missed: usize,
    /// Those among them in which something was refused.
    pub refused: usize,
    /// Those in which the database stopped writing.
    pub stopped: usize,
    /// Disks that were opened and checked.
    pub images: usize,
    /// Runs in which a fault at a harmless site was noticed by nobody.
    pub harmless: usize,
    /// Runs by kind of operation and fault.
    pub kinds: BTreeMap<(Call, String), usize>,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Counts) {
        self.runs += more.runs;
        self.missed += more.missed;
        self.refused += more.refused;
        self.stopped += more.stopped;
        self.images += more.images;
        self.harmless += more.harmless;
        for (kind, count) in more.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
    }
}

/// A run without faults, from which the cases come.
pub struct Faulty<'f> {
    factory: &'f dyn Factory,
    script: Script,
    seed: u64,
    trace: Trace,
    /// How many operations there were before the run came to its end, where it and those with
    /// faults part.
    reach: usize,
    /// Prints what happens.
    pub tells: bool,
}

/// What happened in one case.
#[derive(Debug, Default)]
struct Outcome {
    injected: bool,
    refused: bool,
    stopped: bool,
    /// The program was told by an event.
    told: bool,
    images: usize,
    harmless: bool,
}

impl<'f> Faulty<'f> {
    /// Runs `script` without faults.
    ///
    /// # Errors
    ///
    /// Those of the run.
    pub fn new(
        factory: &'f dyn Factory,
        script: &Script,
        seed: u64,
    ) -> Result<Faulty<'f>, Failure> {
        // Wrong bytes go unnoticed where there is no checksum (I2).
        let script = script.with_options("", "", "checksum=kXXH3");
        let record = caught(|| run(factory, &script, seed))?;
        // The opening, the operations of the script, and the check that follows them.
        let last = script.ops.len() + 1;
        let reach = record.marks.get(last).map_or(0, |mark| mark.ended);
        Ok(Faulty {
            factory,
            script,
            seed,
            trace: record.trace,
            reach,
            tells: false,
        })
    }

    /// All cases, or `limit` of them spread evenly.
    #[must_use]
    pub fn cases(&self, limit: usize) -> Vec<FaultPoint> {
        let mut all = Vec::new();
        let operations = &self.trace.operations()[..self.reach];
        for (at, operation) in operations.iter().enumerate() {
            for (fault, _) in FAULTS {
                let point = |lasting| FaultPoint { at, fault, lasting };
                if fault.is_silent() {
                    let noticed =
                        fault.applies_to(operation.call) && can_be_noticed(fault, &operation.path);
                    all.extend(noticed.then(|| point(false)));
                } else if fault.applies_to(operation.call) {
                    all.extend([point(false), point(true)]);
                }
            }
        }
        if all.len() <= limit {
            return all;
        }
        // One of each of `limit` stretches that are as long as each other.
        let mut rng = Rng::new(self.seed).fork(0xfa17);
        let begin = |stretch: usize| stretch * all.len() / limit;
        let stretches = (0..limit).map(|stretch| begin(stretch)..begin(stretch + 1));
        stretches
            .map(|stretch| all[stretch.start + rng.below(stretch.len())])
            .collect()
    }

    /// Carries one case out and adds what happened to `counts`.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub fn case(&self, point: &FaultPoint, counts: &mut Counts) -> Result<(), Failure> {
        let outcome = caught(|| self.attempt(point))?;
        if !outcome.injected {
            counts.missed += 1; // The run ended before.
            return Ok(());
        }
        counts.runs += 1;
        counts.refused += usize::from(outcome.refused);
        counts.stopped += usize::from(outcome.stopped);
        counts.images += outcome.images;
        counts.harmless += usize::from(outcome.harmless);
        let call = self.call(point);
        *counts
            .kinds
            .entry((call, point.fault.to_string()))
            .or_default() += 1;
        Ok(())
    }

    fn call(&self, point: &FaultPoint) -> Call {
        self.trace.operations()[point.at].call
    }

    fn path(&self, point: &FaultPoint) -> &Path {
        &self.trace.operations()[point.at].path
    }

    /// True if what the fault does to a log cannot be told from a write that was cut short: its
    /// newest entries may then be dropped (R1, I2).
    fn looks_torn(&self, point: &FaultPoint) -> bool {
        point.fault.falsifies() && (point.lasting || is_log(self.path(point)))
    }

    fn attempt(&self, point: &FaultPoint) -> Result<Outcome, Failure> {
        let sim = SimWorld::new(self.seed);
        let rule = FaultRule {
            trigger: Trigger::Operation(point.at),
            fault: point.fault,
            lasts: if point.lasting { usize::MAX } else { 1 },
        };
        sim.fs.set_plan(FaultPlan::new(vec![rule]));
        let mut runner = Runner::new(self.factory, sim, &self.script);
        // What could not be removed is removed by the next opening.
        runner.allows_leftovers = true;
        let mut course = Course {
            faulty: self,
            runner,
            torn: self.looks_torn(point),
            reverts: point.fault == Fault::SyncReverted,
            damages: point.fault.is_silent(),
            script: Model::new(self.script.options.merge),
            unsettled: false,
            told: 0,
            first: None,
            over: false,
            strict: false,
            outcome: Outcome::default(),
            images: Vec::new(),
        };
        let done = course.run(point);
        let sim = &course.runner.sim;
        if done.is_err() && self.passes_on(point) {
            return Ok(Outcome {
                injected: true,
                harmless: true,
                ..course.outcome
            });
        }
        done?;
        let outcome = Outcome {
            told: course.runner.background_errors() > 0,
            ..course.outcome
        };
        let silent = outcome.injected && !outcome.refused && !outcome.stopped && !outcome.told;
        let speaks = !point.fault.falsifies() && point.fault != Fault::ShortRead;
        match silent && speaks {
            true => self.judge_silence(point, sim, outcome, course.first),
            false => Ok(outcome),
        }
    }

    /// True if wrong bytes were read where no check can find it: in the log of a checkpoint that is
    /// looked at, or in a recycled log, in which wrong bytes are where an older life of it begins.
    fn passes_on(&self, point: &FaultPoint) -> bool {
        if !point.fault.falsifies() {
            return false;
        }
        let path = self.path(point);
        // As in `looks_torn`.
        is_log(path) && (!path.starts_with(DIR) || recycles(&self.script))
    }

    /// Whether nobody needs to be told of this fault.
    fn judge_silence(
        &self,
        point: &FaultPoint,
        sim: &SimWorld,
        outcome: Outcome,
        first: Option<usize>,
    ) -> Result<Outcome, Failure> {
        let at = first.unwrap_or(point.at);
        let trace = sim.fs.trace();
        let operation = &trace.operations()[at];
        let site = sim.fs.injected_site();
        let site = site.as_deref().unwrap_or("somewhere");
        match harmless::reason(operation.call, &operation.path, site) {
            Some(_) => Ok(Outcome {
                harmless: true,
                ..outcome
            }),
            None => Err(Failure::wrong(format!(
                "nobody was told: {:?} {} failed in {site}",
                operation.call,
                operation.path.display()
            ))),
        }
    }
}

/// True if a file is a log of writes.
fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "log")
}

/// True if a write to this file that is damaged in silence can be noticed. A record that is missing from the end
/// of the MANIFEST looks like one that was never written, and CURRENT may go on naming the MANIFEST before.
fn can_be_noticed(fault: Fault, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    fault == Fault::FlippedWrite || !(name.starts_with("MANIFEST") || name.ends_with("dbtmp"))
}

/// True if logs are recycled at some time.
fn recycles(script: &Script) -> bool {
    let text = script.to_string();
    let mut values = text.split("recycle_log_file_num=").skip(1);
    values.any(|value| !value.starts_with('0'))
}

/// A run with a fault, on its way.
struct Course<'c> {
    faulty: &'c Faulty<'c>,
    runner: Runner<'c>,
    /// The newest entries of logs may be missing after an opening.
    torn: bool,
    /// What was not synced may be gone from logs after an opening.
    reverts: bool,
    /// Nothing of what is damaged has to come back, also not on the disks of crashes.
    damages: bool,
    /// What the script takes the state to be: without faults its families would be there.
    script: Model,
    /// What the last opening found could not be read.
    unsettled: bool,
    /// How many file operations have been printed.
    told: usize,
    /// The first operation that was made to fail.
    first: Option<usize>,
    /// The fault is over.
    over: bool,
    /// Nothing may be refused any more.
    strict: bool,
    outcome: Outcome,
    /// Disks that crashes could have left, with what may be found there.
    images: Vec<(DiskImage, image::Possible)>,
}

/// Whether a run goes on.
#[derive(PartialEq, Eq)]
enum Then {
    GoOn,
    /// What was found is right, but no longer known well enough to go on from.
    Stop,
}

impl Course<'_> {
    fn run(&mut self, point: &FaultPoint) -> Result<(), Failure> {
        let script = &self.faulty.script;
        if point.fault.is_silent() {
            return self.run_damaged();
        }
        let mut since = 0;
        if self.step(None)? == Then::Stop {
            return self.check_images();
        }
        let check = Op::new(Check);
        for op in script.ops.iter().chain([&check]) {
            self.look_for_injected();
            if self.outcome.injected {
                since += 1;
                self.over |= !point.lasting;
            }
            if since > LASTS && !self.over {
                self.lift();
            }
            if self.over && self.step_over()? == Then::Stop {
                return self.check_images();
            }
            if self.step(Some(op))? == Then::Stop {
                return self.check_images();
            }
            op.apply(&mut self.script);
        }
        self.look_for_injected();
        self.lift();
        if self.recover()? == Then::Stop {
            return self.check_images();
        }
        self.strict = true;
        for line in [
            "put default k0001 v:20:900001",
            "put default k0003 v:9:900002 sync",
        ] {
            let op: Op = line.parse().expect("it is right");
            self.step(Some(&op))?;
        }
        self.step(Some(&check))?;
        self.crash();
        self.step(Some(&"reopen".parse().expect("it is right")))?;
        self.runner.allows_leftovers = false;
        self.step(Some(&check))?;
        self.runner.close()?;
        self.check_images()
    }

    /// A run in which a write is damaged and nobody is told: what can be read is right, all the way.
    fn run_damaged(&mut self) -> Result<(), Failure> {
        let script = &self.faulty.script;
        let mut then = self.step(None)?;
        let last = ["check", "reopen", "check"].map(|line| line.parse().expect("it is right"));
        for op in script.ops.iter().chain(&last) {
            if then == Then::Stop {
                break;
            }
            then = self.step(Some(op))?;
            op.apply(&mut self.script);
            self.look_for_injected();
        }
        match self.runner.close() {
            Err(failure) if !failure.refused => Err(failure),
            _ => Ok(()),
        }
    }

    fn look_for_injected(&mut self) {
        let fs = &self.runner.sim.fs;
        self.outcome.injected |= fs.injected() > 0;
        self.first = self.first.or(fs.first_injected());
    }

    fn lift(&mut self) {
        self.runner.sim.fs.set_plan(FaultPlan::default());
        self.over = true;
    }

    /// What follows once the fault is over and something was refused or stopped.
    fn step_over(&mut self) -> Result<Then, Failure> {
        let stopped = self.stopped();
        if self.strict || !(self.outcome.refused || stopped) {
            return Ok(Then::GoOn);
        }
        let then = self.recover()?;
        self.strict = true;
        Ok(then)
    }

    fn stopped(&mut self) -> bool {
        let stopped = self
            .runner
            .engine()
            .map(|engine| engine.stopped().is_some());
        self.outcome.stopped |= stopped.as_ref().is_ok_and(|stopped| *stopped);
        stopped.unwrap_or(true)
    }

    /// One operation of the script, or the first opening.
    fn step(&mut self, op: Option<&Op>) -> Result<Then, Failure> {
        let Some(op) = op else {
            return Ok(self.open()?.unwrap_or(Then::GoOn));
        };
        if !self.runner.is_open() {
            match self.open()? {
                Some(Then::Stop) => return Ok(Then::Stop),
                Some(Then::GoOn) => {}
                None => {
                    // Nobody asked the database anything.
                    self.runner.leave_out(op);
                    return Ok(Then::GoOn);
                }
            }
        }
        let done = self.runner.step(op);
        let reopened = op.line().starts_with("reopen");
        if self.faulty.tells {
            self.tell(op, done.as_ref().err());
        }
        match done {
            Ok(()) if reopened => self.settle(),
            Ok(()) => {
                self.stopped();
                Ok(Then::GoOn)
            }
            Err(failure) if failure.refused && !self.strict => {
                if !reopened {
                    self.runner.doubt(op);
                }
                self.refuse();
                let forgets =
                    self.runner.options().unlogged || self.runner.options().holds_writes_back();
                if reopened && forgets {
                    // What a closing could not write is gone, and nobody promised it.
                    return Ok(Then::Stop);
                }
                match reopened && self.runner.is_open() {
                    true => self.settle(),
                    false => Ok(Then::GoOn),
                }
            }
            // The script reads in a snapshot that was never taken: nobody was there to take it.
            Err(failure) if failure.refused && self.lacks_snapshot(op) => {
                self.runner.leave_out(op);
                Ok(Then::GoOn)
            }
            // The script knows families that were never created, or not those never dropped.
            Err(failure) if failure.refused && self.families_differ() => {
                self.runner.leave_out(op);
                Ok(Then::GoOn)
            }
            Err(failure) => {
                let late = if self.strict {
                    "with the fault over, "
                } else {
                    ""
                };
                Err(failure.at(&format!("{late}`{op}`")))
            }
        }
    }

    /// Prints an operation, what became of it, and the file operations since the last one.
    fn tell(&mut self, op: &Op, refused: Option<&Failure>) {
        let trace = self.runner.sim.fs.trace();
        for (number, operation) in trace.operations().iter().enumerate().skip(self.told) {
            println!("  op {number}: {operation}");
        }
        self.told = trace.len();
        println!(
            "{op}{}",
            refused.map_or_else(String::new, |failure| format!(": {failure}"))
        );
    }

    /// True if the operation is about a snapshot that is not held.
    fn lacks_snapshot(&self, op: &Op) -> bool {
        let line = op.line();
        let named = line
            .split(' ')
            .find_map(|word| word.strip_prefix("snap="))
            .or_else(|| line.strip_prefix("release "));
        let number = named.and_then(|number| number.parse().ok());
        number.is_some_and(|number: u64| self.runner.moment(Some(number)).is_err())
    }

    fn families_differ(&mut self) -> bool {
        let mut expected = self.script.families();
        let Ok(engine) = self.runner.engine() else {
            return false;
        };
        let mut found = engine.families();
        expected.sort();
        found.sort();
        expected != found
    }

    fn refuse(&mut self) {
        let first = !self.outcome.refused;
        self.outcome.refused = true;
        self.stopped();
        if first && !self.damages {
            self.crash();
        }
    }

    /// Opens the database; `None` if it would not.
    fn open(&mut self) -> Result<Option<Then>, Failure> {
        match self.runner.open(None) {
            Ok(()) => self.settle().map(Some),
            Err(failure) if failure.refused && !self.strict => {
                self.refuse();
                Ok(None)
            }
            Err(failure) => Err(failure.at("with the fault over, open")),
        }
    }

    /// Finds out after an opening which of the states that were possible is there.
    fn settle(&mut self) -> Result<Then, Failure> {
        self.unsettled = false;
        self.look_for_injected();
        if !self.outcome.injected {
            // As in the run without faults, so that operations have the same numbers.
            return Ok(Then::GoOn);
        }
        match self.runner.settle() {
            Ok(()) => Ok(Then::GoOn),
            Err(failure) if failure.refused && !self.strict => {
                self.unsettled = true;
                self.refuse();
                // What follows would no longer be told from what was dropped.
                Ok(if self.torn { Then::Stop } else { Then::GoOn })
            }
            Err(failure) if self.may_have_lost(&failure)? => Ok(Then::Stop),
            Err(failure) => Err(failure.at("what an opening found")),
        }
    }

    /// Whether what an opening found is what a power cut could have left, where a log may have lost
    /// what was not synced.
    fn may_have_lost(&mut self, failure: &Failure) -> Result<bool, Failure> {
        if failure.refused || !(self.torn || self.reverts) {
            return Ok(false);
        }
        let possible = image::Possible::now(&self.runner, self.torn);
        let known = self.runner.model().clone();
        let found = content(self.runner.engine()?, &known)?;
        Ok(possible.explain(&found))
    }

    /// Lets so much time pass that everything has been tried again that is tried again by itself.
    fn wait_for_retries(&mut self) -> Result<(), Failure> {
        let SimWorld {
            clock, executor, ..
        } = &self.runner.sim;
        for _ in 0..WAITS {
            clock.advance(WAIT);
            if executor.run(JOBS_OF_A_WAIT) == JOBS_OF_A_WAIT {
                return Err(Failure::wrong(format!(
                    "with the fault over, {JOBS_OF_A_WAIT} jobs ran and more wait"
                )));
            }
        }
        Ok(())
    }

    /// Gets the database going again: by waiting, by resuming it, or by opening it anew.
    fn recover(&mut self) -> Result<Then, Failure> {
        self.strict = true;
        self.wait_for_retries()?;
        if self.unsettled && self.runner.is_open() && self.settle()? == Then::Stop {
            return Ok(Then::Stop);
        }
        if self.runner.is_open() && self.stopped() {
            // An error says that it has to be opened anew.
            let _ = self.runner.engine()?.resume();
        }
        if self.runner.is_open() && self.stopped() {
            let options = self.runner.options();
            let forgets = options.unlogged || options.holds_writes_back();
            // A database that is stopped may say so when it is closed.
            match self.runner.close() {
                Err(failure) if !failure.refused => return Err(failure),
                _ if forgets => return Ok(Then::Stop),
                _ => {}
            }
        }
        if !self.runner.is_open() {
            return Ok(self.open()?.unwrap_or(Then::GoOn));
        }
        Ok(Then::GoOn)
    }

    /// Keeps the disks that a crash now may leave.
    fn crash(&mut self) {
        let fs = &self.runner.sim.fs;
        let trace = fs.trace();
        for model in [CrashModel::Synced, CrashModel::All] {
            let disk = trace.images(trace.len(), model, self.faulty.seed).next();
            let possible = image::Possible::now(&self.runner, self.torn);
            self.images
                .push((disk.expect("every model leaves a disk"), possible));
        }
    }

    fn check_images(&mut self) -> Result<(), Failure> {
        for (disk, possible) in std::mem::take(&mut self.images) {
            self.outcome.images += 1;
            possible
                .check(self.faulty.factory, disk, self.faulty.seed)
                .map_err(|failure| failure.at("after a crash"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;
    use crate::toy::{Bug, ToyFactory};

    fn first_failure(factory: &ToyFactory) -> (Counts, Option<Failure>) {
        let mut counts = Counts::default();
        for seed in 0..3 {
            let script = generate::workload(&crate::workload::SMALL, seed, 25);
            let faulty = Faulty::new(factory, &script, seed).unwrap();
            // The toy takes what it cannot read of its log for the end of it.
            let ends =
                |point: &FaultPoint| point.fault == Fault::ShortRead || point.fault.falsifies();
            for point in faulty.cases(300).into_iter().filter(|point| !ends(point)) {
                if let Err(failure) = faulty.case(&point, &mut counts) {
                    return (counts, Some(failure.at(&format!("seed {seed}, {point:?}"))));
                }
            }
        }
        (counts, None)
    }

    #[test]
    fn a_right_engine_gets_over_every_fault() {
        let (counts, failure) = first_failure(&ToyFactory::right());
        assert!(failure.is_none(), "{}", failure.unwrap());
        assert!(counts.runs > 300 && counts.images > 600, "{counts:?}");
        assert!(counts.refused > counts.runs / 2, "{counts:?}");
    }

    #[test]
    fn a_sync_whose_error_nobody_looks_at_is_noticed() {
        let (_, failure) = first_failure(&ToyFactory::wrong(Bug::SyncErrorSwallowed));
        assert!(failure.is_some(), "nobody noticed");
    }
}
