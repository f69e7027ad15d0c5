//! Opens and verifies a disk image, and continues to use it.

use std::collections::BTreeMap;
use std::path::Path;

use cairn_sim::{DiskImage, SimWorld, Trace};

use super::expected_state::Expectation;
use super::{Checker, caught};
use crate::compare::{content, same_entries};
use crate::engine::Engine;
use crate::failure::Failure;
use crate::model::DEFAULT;
use crate::ops::timestamps::past;
use crate::options::OptionSet;
use crate::runner::DIR;
use crate::scan::Entries;
use crate::scan::{Direction, Scan};
use crate::write_entry::{Change, Value, Write};

impl Checker<'_> {
    /// Opens an image, verifies its content, writes, and returns the trace of the recovery.
    pub(super) fn check(
        &self,
        image: DiskImage,
        expectation: &Expectation,
    ) -> Result<Trace, Failure> {
        caught(|| self.check_uncaught(image, expectation))
    }

    fn check_uncaught(
        &self,
        image: DiskImage,
        expectation: &Expectation,
    ) -> Result<Trace, Failure> {
        let sim = SimWorld::on(image, self.seed);
        let options = &self.record.options[expectation.options];
        let text = |doing: &str, error: cairn_types::Error| Failure::from(error).at(doing);
        let mut engine = self
            .factory
            .open(&sim.world, Path::new(DIR), options)
            .map_err(|error| text("open after the crash", error))?;
        let recovery = sim.fs.trace();
        let found = content(engine.as_mut(), &self.record.model)?;
        self.is_a_prefix(&found, expectation)?;
        self.check_past(engine.as_mut(), expectation)?;
        engine
            .check(false)
            .map_err(|error| text("structure after the crash", error))?;
        engine.begin_moment(expectation.last + 1);
        self.resume(sim, engine, found, options)?;
        Ok(recovery)
    }

    /// Checks that guaranteed states of the past can be read in families with timestamps, except for dropped history.
    fn check_past(
        &self,
        engine: &mut dyn Engine,
        expectation: &Expectation,
    ) -> Result<(), Failure> {
        let Some(cairn) = engine.cairn().filter(|cairn| cairn.has_timestamps()) else {
            return Ok(());
        };
        let [before, after] = &expectation.families;
        for (name, number) in before.iter().filter(|family| after.contains(family)) {
            let mut keys = self.record.model.keys(name);
            keys.truncate(10);
            for moment in [expectation.floor / 2, expectation.floor] {
                let is_shown = |last| self.record.model.was_ingested(*number, moment, last);
                if cairn.strips_timestamps() && is_shown(expectation.last) {
                    continue;
                }
                let Some(found) = past(cairn, name, moment, &keys)? else {
                    continue;
                };
                let expected = self.record.model.content_by_number(*number, moment);
                same_entries(&expected, &found).map_err(|failure| {
                    failure.at(&format!("family {name} at timestamp {moment}"))
                })?;
            }
        }
        Ok(())
    }

    /// Writes, closes, reopens, and checks the content.
    fn resume(
        &self,
        sim: SimWorld,
        mut engine: Box<dyn Engine>,
        mut found: BTreeMap<String, Entries>,
        options: &OptionSet,
    ) -> Result<(), Failure> {
        let text = |error: cairn_types::Error| Failure::from(error).at("after recovery");
        let mut after: BTreeMap<Vec<u8>, Vec<u8>> = found
            .remove(DEFAULT)
            .unwrap_or_default()
            .into_iter()
            .collect();
        for number in 0..4u64 {
            let value = Value::Text {
                len: 30,
                seed: number,
            };
            let key = format!("k{:04}", number * 7).into_bytes();
            after.insert(key.clone(), value.bytes());
            let write = Write {
                family: DEFAULT.to_owned(),
                key,
                change: Change::Put(value),
            };
            engine.write(&[write], number % 2 == 1).map_err(text)?;
        }
        engine.close().map_err(text)?;
        let mut engine = self
            .factory
            .open(&sim.world, Path::new(DIR), options)
            .map_err(text)?;
        found.insert(DEFAULT.to_owned(), after.into_iter().collect());
        for (family, expected) in &found {
            let scan = Scan::all(Direction::Forward);
            let now = engine.scan(family, &scan, None).map_err(text)?;
            same_entries(expected, &now)
                .map_err(|failure| failure.at(&format!("after recovery, {family}")))?;
        }
        engine.close().map_err(text)
    }
}
