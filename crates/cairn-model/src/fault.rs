//! Injects a fault at every file operation of a run, and checks that the fault is reported and that
//! the database recovers.
//!
//! A case is an operation of a fault-free run, a fault, and whether it is transient or lasting. The
//! script is run again with that plan. From the fault on, operations may be *refused* (return an
//! error); it is unknown until the next open if a refused operation took effect. A wrong answer is
//! always a failure. After the fault ends, time advances until all automatic retries are over; a
//! database that is still stopped is resumed, or else reopened; from then on no operation may be
//! refused (E8). At the first refusal and at the end, the disk is crashed twice, keeping only
//! synced data and keeping everything, and the content must be a possible state. An unreported
//! fault is a failure (E1) unless its site is listed as harmless.
//!
//! Silently corrupted writes are treated differently: corrupted data may be lost, and operations
//! may be refused until the end, but every answer must be correct (I1).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use cairn_sim::{Call, CrashModel, DiskImage, FAULTS, Fault, FaultPlan, FaultRule, Rng, SimWorld};
use cairn_sim::{Trace, Trigger};

use crate::compare::content;
use crate::crash::caught;
use crate::engine::Factory;
use crate::failure::Failure;
use crate::model::Model;
use crate::operation::Op;
use crate::ops::check::Check;
use crate::run::run;
use crate::runner::{DIR, Runner};
use crate::script::Script;
use crate::token::FaultPoint;

mod harmless;
mod image;

/// Duration of a lasting fault, in operations of the script.
const LASTING_OPERATIONS: usize = 6;

/// Maximum delay of an automatic retry, unless an option changes it.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(70);

/// Maximum length of a chain of retries.
const MAX_RETRIES: usize = 3;

/// More jobs than any script causes in one [`MAX_RETRY_DELAY`].
const MAX_JOBS_PER_WAIT: usize = 10_000;

/// Counts of the checks.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Runs with a fault.
    pub runs: usize,
    /// Cases whose run ended before the fault.
    pub missed: usize,
    /// Runs in which an operation was refused.
    pub refused: usize,
    /// Runs in which the database stopped writes.
    pub stopped: usize,
    /// Disk images opened and verified.
    pub images: usize,
    /// Runs with an unreported fault at a harmless site.
    pub harmless: usize,
    /// Runs by operation and fault.
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

/// A fault-free run, which the cases are derived from.
pub struct Faulty<'f> {
    factory: &'f dyn Factory,
    script: Script,
    seed: u64,
    trace: Trace,
    /// Number of file operations of the run, excluding its end, where runs with and without faults
    /// diverge.
    reach: usize,
    /// True if progress is printed.
    pub verbose: bool,
}

/// The result of one case.
#[derive(Debug, Default)]
struct Outcome {
    injected: bool,
    refused: bool,
    stopped: bool,
    /// True if the fault was reported to a listener.
    reported: bool,
    images: usize,
    harmless: bool,
}

impl<'f> Faulty<'f> {
    /// Runs `script` without faults.
    ///
    /// # Errors
    ///
    /// Failures of the run.
    pub fn new(
        factory: &'f dyn Factory,
        script: &Script,
        seed: u64,
    ) -> Result<Faulty<'f>, Failure> {
        // Corruption is undetectable without checksums (I2).
        let script = script.with_options("", "", "checksum=kXXH3");
        let record = caught(|| run(factory, &script, seed))?;
        // The open, the operations of the script, and the final check.
        let last = script.ops.len() + 1;
        let reach = record.marks.get(last).map_or(0, |mark| mark.ended);
        Ok(Faulty {
            factory,
            script,
            seed,
            trace: record.trace,
            reach,
            verbose: false,
        })
    }

    /// Returns all cases, or `limit` of them spread evenly.
    #[must_use]
    pub fn cases(&self, limit: usize) -> Vec<FaultPoint> {
        let mut all = Vec::new();
        let operations = &self.trace.operations()[..self.reach];
        for (at, operation) in operations.iter().enumerate() {
            for (fault, _) in FAULTS {
                let point = |lasting| FaultPoint { at, fault, lasting };
                if fault.is_silent() {
                    let noticed =
                        fault.applies_to(operation.call) && is_detectable(fault, &operation.path);
                    all.extend(noticed.then(|| point(false)));
                } else if fault.applies_to(operation.call) {
                    all.extend([point(false), point(true)]);
                }
            }
        }
        if all.len() <= limit {
            return all;
        }
        // One case from each of `limit` intervals of equal length.
        let mut rng = Rng::new(self.seed).fork(0xfa17);
        let begin = |stretch: usize| stretch * all.len() / limit;
        let stretches = (0..limit).map(|stretch| begin(stretch)..begin(stretch + 1));
        stretches
            .map(|stretch| all[stretch.start + rng.below(stretch.len())])
            .collect()
    }

    /// Runs one case and adds its result to `counts`.
    ///
    /// # Errors
    ///
    /// The failure.
    pub fn case(&self, point: &FaultPoint, counts: &mut Counts) -> Result<(), Failure> {
        let outcome = caught(|| self.attempt(point))?;
        if !outcome.injected {
            counts.missed += 1; // The run ended before the fault.
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

    /// True if the fault makes a log look torn, in which case its newest entries may be dropped (R1,
    /// I2). With direct writes of blobs, the value of a record may be missing.
    fn looks_torn(&self, point: &FaultPoint) -> bool {
        let path = self.path(point);
        let is_direct = || {
            let options = &self.script.options.family;
            path.extension().is_some_and(|end| end == "blob")
                && options.contains("enable_blob_direct_write=true")
        };
        point.fault.falsifies() && (point.lasting || is_log(path) || is_direct())
    }

    fn attempt(&self, point: &FaultPoint) -> Result<Outcome, Failure> {
        let sim = SimWorld::new(self.seed);
        let rule = FaultRule {
            trigger: Trigger::Operation(point.at),
            fault: point.fault,
            lasts: if point.lasting { usize::MAX } else { 1 },
        };
        sim.fs.set_plan(FaultPlan::new(vec![rule]));
        let mut runner = Runner::new(self.factory, sim, self.script.options.clone());
        // The next open removes files whose removal failed.
        runner.allows_leftovers = true;
        let mut course = Course {
            faulty: self,
            runner,
            torn: self.looks_torn(point),
            loses_unsynced: point.fault == Fault::SyncReverted,
            corrupts: point.fault.is_silent(),
            script: Model::new(self.script.options.merge),
            unsettled: false,
            printed: 0,
            first: None,
            over: false,
            strict: false,
            outcome: Outcome::default(),
            images: Vec::new(),
        };
        let done = course.run(point);
        let sim = &course.runner.sim;
        if done.is_err() && self.reads_undetected_corruption(point) {
            return Ok(Outcome {
                injected: true,
                harmless: true,
                ..course.outcome
            });
        }
        done?;
        let outcome = Outcome {
            reported: course.runner.background_errors() > 0,
            ..course.outcome
        };
        let unreported =
            outcome.injected && !outcome.refused && !outcome.stopped && !outcome.reported;
        let must_report = !point.fault.falsifies() && point.fault != Fault::ShortRead;
        match unreported && must_report {
            true => self.check_unreported(point, sim, outcome, course.first),
            false => Ok(outcome),
        }
    }

    /// True if corrupt bytes were read where no check detects them: in the log of an opened checkpoint, in a recycled log,
    /// where corrupt bytes look like remains of its previous use, or in the log of a clip, which is half done without its
    /// deletions at the edges of files.
    fn reads_undetected_corruption(&self, point: &FaultPoint) -> bool {
        if !point.fault.falsifies() {
            return false;
        }
        let path = self.path(point);
        // As in `looks_torn`.
        is_log(path) && (!path.starts_with(DIR) || recycles(&self.script) || clips(&self.script))
    }

    /// Checks whether an unreported fault is acceptable.
    fn check_unreported(
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
                "not reported: {:?} {} failed in {site}",
                operation.call,
                operation.path.display()
            ))),
        }
    }
}

/// True if a file is a WAL.
fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "log")
}

/// True if a silently corrupted write to this file is detectable. A record missing at the end of
/// the MANIFEST looks like one that was never written, and CURRENT may still refer to the previous
/// MANIFEST.
fn is_detectable(fault: Fault, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    fault == Fault::FlippedWrite || !(name.starts_with("MANIFEST") || name.ends_with("dbtmp"))
}

/// True if logs are ever recycled.
fn recycles(script: &Script) -> bool {
    let text = script.to_string();
    let mut values = text.split("recycle_log_file_num=").skip(1);
    values.any(|value| !value.starts_with('0'))
}

/// True if a family is ever clipped.
fn clips(script: &Script) -> bool {
    let text = script.to_string();
    text.lines().any(|line| line.starts_with("clip "))
}

/// A run with a fault in progress.
struct Course<'c> {
    faulty: &'c Faulty<'c>,
    runner: Runner<'c>,
    /// True if the newest entries of logs may be missing after an open.
    torn: bool,
    /// True if unsynced data may be missing from logs after an open.
    loses_unsynced: bool,
    /// True if corrupted data may be lost, in disk images as well.
    corrupts: bool,
    /// The state of a fault-free run, with all families of the script.
    script: Model,
    /// True if the content after the last open could not be read.
    unsettled: bool,
    /// Number of file operations printed.
    printed: usize,
    /// The first operation that failed.
    first: Option<usize>,
    /// True once the fault is over.
    over: bool,
    /// True once no operation may be refused.
    strict: bool,
    outcome: Outcome,
    /// Disk images of crashes with their possible states.
    images: Vec<(DiskImage, image::Possible)>,
}

/// The decision to continue or end a run.
#[derive(PartialEq, Eq)]
enum Next {
    Continue,
    /// The content is correct, but too uncertain to continue.
    Stop,
}

impl Course<'_> {
    fn run(&mut self, point: &FaultPoint) -> Result<(), Failure> {
        let script = &self.faulty.script;
        if point.fault.is_silent() {
            return self.run_damaged();
        }
        let mut since = 0;
        if self.step(None)? == Next::Stop {
            return self.check_images();
        }
        let check = Op::new(Check);
        for op in script.ops.iter().chain([&check]) {
            self.update_injected();
            if self.outcome.injected {
                since += 1;
                self.over |= !point.lasting;
            }
            if since > LASTING_OPERATIONS && !self.over {
                self.end_fault();
            }
            if self.over && self.step_over()? == Next::Stop {
                return self.check_images();
            }
            if self.step(Some(op))? == Next::Stop {
                return self.check_images();
            }
            op.apply(&mut self.script);
        }
        self.update_injected();
        self.end_fault();
        if self.recover()? == Next::Stop {
            return self.check_images();
        }
        self.strict = true;
        for line in [
            "put default k0001 v:20:900001",
            "put default k0003 v:9:900002 sync",
        ] {
            let op: Op = line.parse().expect("the line is valid");
            self.step(Some(&op))?;
        }
        self.step(Some(&check))?;
        self.crash();
        self.step(Some(&"reopen".parse().expect("the line is valid")))?;
        self.runner.allows_leftovers = false;
        self.step(Some(&check))?;
        self.runner.close()?;
        self.check_images()
    }

    /// Runs a case with a silently corrupted write: all data that can be read must be correct.
    fn run_damaged(&mut self) -> Result<(), Failure> {
        let script = &self.faulty.script;
        let mut then = self.step(None)?;
        let last =
            ["check", "reopen", "check"].map(|line| line.parse().expect("the line is valid"));
        for op in script.ops.iter().chain(&last) {
            if then == Next::Stop {
                break;
            }
            then = self.step(Some(op))?;
            op.apply(&mut self.script);
            self.update_injected();
        }
        match self.runner.close() {
            Err(failure) if !failure.refused => Err(failure),
            _ => Ok(()),
        }
    }

    fn update_injected(&mut self) {
        let fs = &self.runner.sim.fs;
        self.outcome.injected |= fs.injected() > 0;
        self.first = self.first.or(fs.first_injected());
    }

    fn end_fault(&mut self) {
        self.runner.sim.fs.set_plan(FaultPlan::default());
        self.over = true;
    }

    /// Recovers the database if an operation was refused or writes were stopped.
    fn step_over(&mut self) -> Result<Next, Failure> {
        let stopped = self.stopped();
        if self.strict || !(self.outcome.refused || stopped) {
            return Ok(Next::Continue);
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

    /// Runs one operation of the script, or the first open.
    fn step(&mut self, op: Option<&Op>) -> Result<Next, Failure> {
        let Some(op) = op else {
            return Ok(self.open()?.unwrap_or(Next::Continue));
        };
        if !self.runner.is_open() {
            match self.open()? {
                Some(Next::Stop) => return Ok(Next::Stop),
                Some(Next::Continue) => {}
                None => {
                    // The database was not called.
                    self.runner.skip_operation(op);
                    return Ok(Next::Continue);
                }
            }
        }
        let done = self.runner.step(op);
        let reopened = op.line().starts_with("reopen");
        if self.faulty.verbose {
            self.print_step(op, done.as_ref().err());
        }
        match done {
            Ok(()) if reopened => self.settle(),
            Ok(()) => {
                self.stopped();
                Ok(Next::Continue)
            }
            Err(failure) if failure.refused && !self.strict => {
                if !reopened {
                    self.runner.record_uncertain(op);
                }
                self.refuse();
                let forgets = self.runner.options().unlogged || self.runner.options().buffers_wal();
                if reopened && forgets {
                    // A failed close may lose unwritten data.
                    return Ok(Next::Stop);
                }
                match reopened && self.runner.is_open() {
                    true => self.settle(),
                    false => Ok(Next::Continue),
                }
            }
            // The operation that takes the snapshot was refused.
            Err(failure) if failure.refused && self.lacks_snapshot(op) => {
                self.runner.skip_operation(op);
                Ok(Next::Continue)
            }
            // The operation that creates or drops the family was refused.
            Err(failure) if failure.refused && self.families_differ() => {
                self.runner.skip_operation(op);
                Ok(Next::Continue)
            }
            Err(failure) => {
                let late = if self.strict { "after the fault, " } else { "" };
                Err(failure.at(&format!("{late}`{op}`")))
            }
        }
    }

    /// Prints an operation, its outcome, and the file operations since the last one.
    fn print_step(&mut self, op: &Op, refused: Option<&Failure>) {
        let trace = self.runner.sim.fs.trace();
        for (number, operation) in trace.operations().iter().enumerate().skip(self.printed) {
            println!("  op {number}: {operation}");
        }
        self.printed = trace.len();
        println!(
            "{op}{}",
            refused.map_or_else(String::new, |failure| format!(": {failure}"))
        );
    }

    /// True if the operation uses a snapshot that does not exist.
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
        if first && !self.corrupts {
            self.crash();
        }
    }

    /// Opens the database; `None` if it was refused.
    fn open(&mut self) -> Result<Option<Next>, Failure> {
        match self.runner.open(None) {
            Ok(()) => self.settle().map(Some),
            Err(failure) if failure.refused && !self.strict => {
                self.refuse();
                Ok(None)
            }
            Err(failure) => Err(failure.at("open after the fault")),
        }
    }

    /// Determines after an open which of the possible states is present.
    fn settle(&mut self) -> Result<Next, Failure> {
        self.unsettled = false;
        self.update_injected();
        if !self.outcome.injected {
            // The operations have the same numbers as in the fault-free run.
            return Ok(Next::Continue);
        }
        match self.runner.settle() {
            Ok(()) => Ok(Next::Continue),
            Err(failure) if failure.refused && !self.strict => {
                self.unsettled = true;
                self.refuse();
                // Later writes would be indistinguishable from dropped ones.
                Ok(if self.torn {
                    Next::Stop
                } else {
                    Next::Continue
                })
            }
            Err(failure) if self.may_have_lost(&failure)? => Ok(Next::Stop),
            Err(failure) => Err(failure.at("content after an open")),
        }
    }

    /// True if the content is what a power failure could have left, if logs may have lost unsynced
    /// data.
    fn may_have_lost(&mut self, failure: &Failure) -> Result<bool, Failure> {
        if failure.refused || !(self.torn || self.loses_unsynced) {
            return Ok(false);
        }
        let possible = image::Possible::now(&self.runner, self.torn);
        let known = self.runner.model().clone();
        let found = content(self.runner.engine()?, &known)?;
        Ok(possible.explain(&found))
    }

    /// Advances time until all automatic retries are over.
    fn wait_for_retries(&mut self) -> Result<(), Failure> {
        let SimWorld {
            clock, executor, ..
        } = &self.runner.sim;
        for _ in 0..MAX_RETRIES {
            clock.advance(MAX_RETRY_DELAY);
            if executor.run(MAX_JOBS_PER_WAIT) == MAX_JOBS_PER_WAIT {
                return Err(Failure::wrong(format!(
                    "after the fault, {MAX_JOBS_PER_WAIT} jobs ran and more are queued"
                )));
            }
        }
        Ok(())
    }

    /// Recovers the database by waiting, resuming, or reopening.
    fn recover(&mut self) -> Result<Next, Failure> {
        self.strict = true;
        self.wait_for_retries()?;
        if self.unsettled && self.runner.is_open() && self.settle()? == Next::Stop {
            return Ok(Next::Stop);
        }
        if self.runner.is_open() && self.stopped() {
            // If resuming fails, the database is reopened.
            let _ = self.runner.engine()?.resume();
        }
        if self.runner.is_open() && self.stopped() {
            let options = self.runner.options();
            let forgets = options.unlogged || options.buffers_wal();
            // Closing a stopped database may fail.
            match self.runner.close() {
                Err(failure) if !failure.refused => return Err(failure),
                _ if forgets => return Ok(Next::Stop),
                _ => {}
            }
        }
        if !self.runner.is_open() {
            return Ok(self.open()?.unwrap_or(Next::Continue));
        }
        Ok(Next::Continue)
    }

    /// Keeps the disk images of a crash at this point.
    fn crash(&mut self) {
        let fs = &self.runner.sim.fs;
        let trace = fs.trace();
        for model in [CrashModel::Synced, CrashModel::All] {
            let disk = trace.images(trace.len(), model, self.faulty.seed).next();
            let possible = image::Possible::now(&self.runner, self.torn);
            self.images
                .push((disk.expect("every model has a disk image"), possible));
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
            // The toy engine treats unreadable log data as the end of the log.
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
    fn a_correct_engine_recovers_from_every_fault() {
        let (counts, failure) = first_failure(&ToyFactory::correct());
        assert!(failure.is_none(), "{}", failure.unwrap());
        assert!(counts.runs > 300 && counts.images > 600, "{counts:?}");
        assert!(counts.refused > counts.runs / 2, "{counts:?}");
    }

    #[test]
    fn an_ignored_sync_error_is_detected() {
        let (_, failure) = first_failure(&ToyFactory::with_bug(Bug::SyncErrorIgnored));
        assert!(failure.is_some(), "not detected");
    }
}
