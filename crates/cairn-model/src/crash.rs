//! Crashes a run at every operation, opens every possible disk image, and verifies it.
//!
//! The rule (promises D and R1): the content is the state after the first *k* batches, with the
//! same *k* for every family, where *k* is at least the number of batches guaranteed to survive
//! (the *floor*) and at most the number started. After a process crash every acknowledged batch is
//! guaranteed; after a power failure, those up to the last sync, flush or close. A family exists as
//! soon as its creation is acknowledged.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use cairn_sim::{CrashModel, DiskImage, Replay, Rng, SimWorld, Trace};

use crate::engine::Factory;
use crate::failure::Failure;
use crate::run::{RunRecord, run};
use crate::runner::DIR;
use crate::scan::Entries;
use crate::script::Script;
use crate::token::CrashPoint;

use self::expected_state::Expectation;

mod expected_state;
mod recover;

/// The extent of the checks.
#[derive(Clone, Debug)]
pub struct Effort {
    /// The crash models.
    pub models: Vec<CrashModel>,
    /// Maximum number of images per moment and model, sampled from all.
    pub images_per_moment: usize,
    /// One in this many recoveries is crashed at each of its own operations; 0 for none.
    pub nest_one_in: usize,
}

/// Behaviour of common file systems, which never expose stale or random bytes in new blocks. The
/// excluded models do: a reader of a log that is not recycled cannot distinguish its records from
/// those of an earlier log, nor can a reader of a MANIFEST distinguish random bytes from damage.
pub const USUAL: [CrashModel; 8] = [
    CrashModel::Kill,
    CrashModel::Synced,
    CrashModel::All,
    CrashModel::Prefix,
    CrashModel::Blocks,
    CrashModel::Sectors,
    CrashModel::NamesFirst,
    CrashModel::DataFirst,
];

impl Effort {
    /// The common models, with a few images per moment.
    #[must_use]
    pub fn quick() -> Effort {
        Effort {
            models: USUAL.to_vec(),
            images_per_moment: 4,
            nest_one_in: 40,
        }
    }

    /// The common models, with every image.
    #[must_use]
    pub fn thorough() -> Effort {
        Effort {
            models: USUAL.to_vec(),
            images_per_moment: usize::MAX,
            nest_one_in: 10,
        }
    }
}

/// Counts of the checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Images opened and verified.
    pub images: usize,
    /// Of these, images of crashed recoveries.
    pub nested: usize,
    /// Images skipped because they equal an earlier one.
    pub repeated: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, more: Counts) {
        self.images += more.images;
        self.nested += more.nested;
        self.repeated += more.repeated;
    }
}

/// A failure with its disk image, or of the run itself.
#[derive(Clone, Debug)]
pub struct CrashFailure {
    /// The disk image; `None` if the run failed.
    pub point: Option<CrashPoint>,
    /// The failure.
    pub failure: Failure,
}

impl std::fmt::Display for CrashFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({:?})", self.failure, self.point)
    }
}

/// A run, with the state at each moment.
pub struct Checker<'f> {
    factory: &'f dyn Factory,
    record: RunRecord,
    /// For each family number and moment, the hash of its content.
    states: Vec<Vec<u64>>,
    seed: u64,
}

/// Crashes a run of `script` at every operation.
///
/// # Errors
///
/// The first image with unexpected content, or a failure of the run.
pub fn crash(
    factory: &dyn Factory,
    script: &Script,
    seed: u64,
    effort: &Effort,
) -> Result<Counts, Box<CrashFailure>> {
    let fail = |point, failure| Box::new(CrashFailure { point, failure });
    let checker = Checker::new(factory, script, seed).map_err(|failure| fail(None, failure))?;
    checker
        .everywhere(effort)
        .map_err(|(point, failure)| fail(Some(point), failure))
}

impl<'f> Checker<'f> {
    /// Runs `script` and records the state at each moment.
    ///
    /// # Errors
    ///
    /// Failures of the run.
    pub fn new(
        factory: &'f dyn Factory,
        script: &Script,
        seed: u64,
    ) -> Result<Checker<'f>, Failure> {
        let record = caught(|| run(factory, script, seed))?;
        let model = &record.model;
        let states = (0..model.family_count())
            .map(|number| {
                (0..=model.now())
                    .map(|moment| fingerprint(&model.content_by_number(number, moment)))
                    .collect()
            })
            .collect();
        Ok(Checker {
            factory,
            record,
            states,
            seed,
        })
    }

    /// Returns the trace of file operations.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.record.trace
    }

    fn everywhere(&self, effort: &Effort) -> Result<Counts, (CrashPoint, Failure)> {
        let mut counts = Counts::default();
        let mut seen = HashSet::new();
        let mut rng = Rng::new(self.seed).fork(0xc4a5);
        let mut replay = self.record.trace.replay();
        loop {
            if replay.changed() || self.acknowledged_at(replay.at()) {
                for model in &effort.models {
                    self.moment(&replay, *model, effort, &mut rng, &mut seen, &mut counts)?;
                }
            }
            if !replay.step() {
                return Ok(counts);
            }
        }
    }

    /// True if an operation of the script was just acknowledged, which raises the floor.
    fn acknowledged_at(&self, at: usize) -> bool {
        let marks = &self.record.marks;
        let after = marks.partition_point(|mark| mark.ended <= at);
        after > 0 && marks[after - 1].ended == at
    }

    /// Verifies the images of one moment under one model.
    fn moment(
        &self,
        replay: &Replay<'_>,
        model: CrashModel,
        effort: &Effort,
        rng: &mut Rng,
        seen: &mut HashSet<(u64, usize, usize)>,
        counts: &mut Counts,
    ) -> Result<(), (CrashPoint, Failure)> {
        let expectation = self.expectation(replay.at(), model);
        let images: Vec<DiskImage> = replay.images(model, self.seed).collect();
        let step = images.len().div_ceil(effort.images_per_moment).max(1);
        let first = rng.below(step);
        for (number, image) in images.into_iter().enumerate().skip(first).step_by(step) {
            let print = image.fingerprint();
            if !seen.insert((print, expectation.floor, expectation.last)) {
                counts.repeated += 1;
                continue;
            }
            let mut point = CrashPoint {
                at: replay.at(),
                model,
                image: number,
                nested: None,
            };
            let recovery = self
                .check(image, &expectation)
                .map_err(|failure| (point, failure))?;
            counts.images += 1;
            if effort.nest_one_in > 0 && rng.chance(1, effort.nest_one_in) {
                self.nested(&recovery, model, &expectation, &mut point, counts)
                    .map_err(|failure| (point, failure))?;
            }
        }
        Ok(())
    }

    /// Crashes a recovery at each of its operations, and verifies one image of each.
    fn nested(
        &self,
        recovery: &Trace,
        model: CrashModel,
        expectation: &Expectation,
        point: &mut CrashPoint,
        counts: &mut Counts,
    ) -> Result<(), Failure> {
        let mut replay = recovery.replay();
        let mut rng = Rng::new(self.seed).fork(point.at as u64);
        while replay.step() {
            if !replay.changed() {
                continue;
            }
            let images: Vec<DiskImage> = replay.images(model, self.seed).collect();
            let number = rng.below(images.len());
            let image = images.into_iter().nth(number);
            point.nested = Some((replay.at(), number));
            self.check(image.expect("every model has a disk image"), expectation)?;
            counts.images += 1;
            counts.nested += 1;
        }
        Ok(())
    }

    /// Returns the image at `point`.
    #[must_use]
    pub fn image(&self, point: &CrashPoint) -> Option<DiskImage> {
        let images = self.record.trace.images(point.at, point.model, self.seed);
        let image = images.into_iter().nth(point.image)?;
        let Some((at, number)) = point.nested else {
            return Some(image);
        };
        let sim = SimWorld::on(image, self.seed);
        let options = self.expectation(point.at, point.model).options;
        let options = &self.record.options[options];
        // A recovery that fails is crashed at each of its operations up to the failure.
        let _opened = self.factory.open(&sim.world, Path::new(DIR), options);
        sim.fs
            .trace()
            .images(at, point.model, self.seed)
            .nth(number)
    }

    /// Verifies the image at `point`.
    ///
    /// # Errors
    ///
    /// The failure.
    pub fn replay(&self, point: &CrashPoint) -> Result<(), Failure> {
        let image = self.image(point);
        let image = image.ok_or_else(|| Failure::wrong("no such disk image"))?;
        let expectation = self.expectation(point.at, point.model);
        self.check(image, &expectation).map(|_| ())
    }
}

/// Converts a panic of the engine to a failure.
pub(crate) fn caught<T>(act: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Failure::wrong(format!(
            "panic: {}",
            text.unwrap_or_default()
        )))
    })
}

fn fingerprint(entries: &Entries) -> u64 {
    let mut hasher = DefaultHasher::new();
    entries.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate;
    use crate::toy::{Bug, ToyFactory};

    #[test]
    fn a_correct_engine_survives_every_crash() {
        let mut counts = Counts::default();
        for seed in 0..6 {
            let script = generate::script(seed, 40);
            match crash(&ToyFactory::correct(), &script, seed, &Effort::quick()) {
                Ok(more) => counts += more,
                Err(failure) => panic!("{failure}"),
            }
        }
        assert!(counts.images > 500, "{counts:?}");
        assert!(counts.nested > 10, "{counts:?}");
    }

    /// Crashes scripts of an engine with this bug and returns the first failure.
    fn found(bug: Bug) -> (u64, Box<CrashFailure>) {
        let factory = ToyFactory::with_bug(bug);
        let failure = (0..20).find_map(|seed| {
            let script = generate::script(seed, 30);
            let failure = crash(&factory, &script, seed, &Effort::quick()).err()?;
            Some((seed, failure))
        });
        failure.unwrap_or_else(|| panic!("not detected: {bug:?}"))
    }

    #[test]
    fn a_missing_sync_is_detected() {
        let (_, failure) = found(Bug::SyncOmitted);
        assert!(failure.failure.text.contains("lost"), "{failure}");
    }

    #[test]
    fn an_unsynced_directory_is_detected() {
        let (_, failure) = found(Bug::DirectoryNotSynced);
        assert!(failure.point.is_some(), "{failure}");
    }

    #[test]
    fn a_replay_that_continues_after_damage_is_detected() {
        let (_, failure) = found(Bug::ReplayIgnoresDamage);
        assert!(failure.point.is_some(), "{failure}");
    }

    #[test]
    fn a_partial_batch_is_detected() {
        let (_, failure) = found(Bug::BatchSplit);
        assert!(failure.failure.text.contains("no state"), "{failure}");
    }

    #[test]
    fn a_replay_that_stops_early_is_detected_by_the_run() {
        let script: Script = "options merge=none db=[] family=[] table=[]\nput default a v:3:1"
            .parse()
            .unwrap();
        let factory = ToyFactory::with_bug(Bug::ReplayStopsEarly);
        let failure = crash(&factory, &script, 1, &Effort::quick()).unwrap_err();
        assert!(failure.point.is_none(), "{failure}");
        assert!(failure.failure.text.contains("at the end"), "{failure}");
    }

    #[test]
    fn a_crash_point_reproduces_its_failure() {
        let (seed, failure) = found(Bug::BatchSplit);
        let script = generate::script(seed, 30);
        let factory = ToyFactory::with_bug(Bug::BatchSplit);
        let checker = Checker::new(&factory, &script, seed).unwrap();
        let again = checker.replay(&failure.point.unwrap()).unwrap_err();
        assert_eq!(again, failure.failure);
    }
}
