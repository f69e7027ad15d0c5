//! The possible states of a disk image after a crash that follows a fault.

use std::collections::BTreeMap;
use std::path::Path;

use cairn_sim::{DiskImage, SimWorld};

use crate::compare::content;
use crate::engine::Factory;
use crate::failure::Failure;
use crate::model::Model;
use crate::options::OptionSet;
use crate::runner::{DIR, Runner};
use crate::scan::Entries;
use crate::write_entry::Write;

/// The possible states of a disk image.
pub(super) struct Possible {
    models: Vec<Model>,
    floor: usize,
    flushed: BTreeMap<usize, usize>,
    /// In logged runs, how far individually flushed families may be ahead of the others.
    ahead: Vec<BTreeMap<usize, usize>>,
    options: OptionSet,
}

impl Possible {
    /// Returns the possible states after a crash at this point.
    pub(super) fn now(runner: &Runner<'_>, torn: bool) -> Possible {
        let (floor, flushed) = runner.guaranteed();
        Possible {
            models: runner.models().to_vec(),
            floor: if torn { 0 } else { floor },
            flushed,
            ahead: runner.possible_flushes(),
            options: runner.options().clone(),
        }
    }

    /// Opens the image, compares its content, and writes to it.
    pub(super) fn check(
        &self,
        factory: &dyn Factory,
        disk: DiskImage,
        seed: u64,
    ) -> Result<(), Failure> {
        let sim = SimWorld::on(disk, seed);
        let dir = Path::new(DIR);
        let mut engine = factory.open(&sim.world, dir, &self.options)?;
        let found = content(engine.as_mut(), &self.models[0])?;
        if !self.explain(&found) {
            return Err(Failure::wrong(self.difference(&found)));
        }
        let write: Write = "put default k0002 v:5:900003".parse()?;
        engine.begin_moment(self.models[0].now() + 1);
        engine.write(std::slice::from_ref(&write), true)?;
        engine.check(false)?;
        engine.close()?;
        let mut engine = factory.open(&sim.world, dir, &self.options)?;
        let value = engine.get("default", &write.key, None)?;
        engine.close()?;
        match self.options.unlogged || value.is_some() {
            true => Ok(()),
            false => Err(Failure::wrong("a write after the crash is lost")),
        }
    }

    /// True if `found` is one of the states.
    pub(super) fn explain(&self, found: &BTreeMap<String, Entries>) -> bool {
        self.models.iter().any(|model| self.explains(model, found))
    }

    fn explains(&self, model: &Model, found: &BTreeMap<String, Entries>) -> bool {
        let families = model.family_numbers();
        let mut names: Vec<&String> = families.iter().map(|(name, _)| name).collect();
        names.sort();
        if !names.into_iter().eq(found.keys()) {
            return false;
        }
        let is_at = |name: &String, number: usize, moment: usize| {
            model.content_by_number(number, moment) == found[name]
        };
        let now = model.now();
        if self.options.unlogged && !self.options.flushes_atomically() {
            return families.iter().all(|(name, number)| {
                let flushed = self.flushed.get(number).copied().unwrap_or(0);
                let floor = self.floor.max(flushed);
                (floor..=now)
                    .rev()
                    .any(|moment| is_at(name, *number, moment))
            });
        }
        self.ahead.iter().any(|ahead| {
            (self.floor..=now).rev().any(|moment| {
                let mut each = families.iter();
                each.all(|(name, number)| {
                    let flushed = ahead.get(number).copied().unwrap_or(0);
                    is_at(name, *number, moment.max(flushed).min(now))
                })
            })
        })
    }

    fn difference(&self, found: &BTreeMap<String, Entries>) -> String {
        let lower = Possible {
            floor: 0,
            flushed: BTreeMap::new(),
            ahead: vec![BTreeMap::new()],
            models: self.models.clone(),
            options: self.options.clone(),
        };
        let sizes: Vec<String> = found
            .iter()
            .map(|(name, entries)| format!("{name}: {} keys", entries.len()))
            .collect();
        let lost = lower.explain(found);
        let what = match lost {
            true => "guaranteed writes are lost",
            false => "impossible state",
        };
        format!(
            "{what}: {} possible histories of {} to {} batches, found {}",
            self.models.len(),
            self.floor,
            self.models[0].now(),
            sizes.join(", ")
        )
    }
}
