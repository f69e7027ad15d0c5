//! The expected states of a disk image.

use std::collections::{BTreeMap, HashSet};

use cairn_sim::CrashModel;

use super::{Checker, fingerprint};
use crate::compare::same_entries;
use crate::failure::Failure;
use crate::model::DEFAULT;
use crate::runner::Mark;
use crate::scan::Entries;

/// The expected states of a disk image.
#[derive(Clone, Debug)]
pub(super) struct Expectation {
    pub(super) floor: usize,
    pub(super) last: usize,
    /// Families with their numbers in the model. The two sets differ while a family is being created or
    /// dropped.
    pub(super) families: [Vec<(String, usize)>; 2],
    pub(super) options: usize,
    /// In unlogged runs, the minimum moment of each family, by number. Families may then be at
    /// different moments, unless they are flushed atomically.
    flushed: Option<BTreeMap<usize, usize>>,
    /// In logged runs, how far individually flushed families may be ahead of the others. The two
    /// maps differ during a flush.
    ahead: [BTreeMap<usize, usize>; 2],
}

impl Checker<'_> {
    /// Returns the expected states after a crash following the first `at` file operations.
    pub(super) fn expectation(&self, at: usize, model: CrashModel) -> Expectation {
        let marks = &self.record.marks;
        let done = marks.partition_point(|mark| mark.ended <= at);
        let before = done.checked_sub(1).map(|last| &marks[last]);
        let under_way = marks.get(done).filter(|mark| mark.began <= at);
        let default = vec![(DEFAULT.to_owned(), 0)];
        let families = before.map_or(default, |mark| mark.families.clone());
        let acknowledged = before.map_or(0, |mark| mark.moment);
        let next = under_way.or(before);
        let options = next.map_or(0, |mark| mark.options);
        let used = &self.record.options[options];
        let each = used.unlogged && !used.flushes_atomically();
        let flushed = |mark: Option<&Mark>| mark.map(|mark| mark.flushed.clone());
        Expectation {
            flushed: each.then(|| flushed(before).unwrap_or_default()),
            ahead: [before, next].map(|mark| flushed(mark).unwrap_or_default()),
            floor: before.map_or(0, |mark| match model.kernel_survives() {
                true => mark.crash_floor,
                false => mark.floor,
            }),
            last: under_way.map_or(acknowledged, |mark| mark.moment),
            families: [
                families.clone(),
                under_way.map_or(families, |mark| mark.families.clone()),
            ],
            options,
        }
    }

    /// Checks that `found` is the state at some allowed moment.
    pub(super) fn is_a_prefix(
        &self,
        found: &BTreeMap<String, Entries>,
        expectation: &Expectation,
    ) -> Result<(), Failure> {
        let names: Vec<&String> = found.keys().collect();
        let families = expectation.families.iter().find(|families| {
            let mut expected: Vec<&String> = families.iter().map(|(name, _)| name).collect();
            expected.sort();
            expected == names
        });
        let Some(families) = families else {
            return Err(Failure::wrong(format!(
                "families: expected {:?}, found {names:?}",
                expectation.families[0]
            )));
        };
        let prints: Vec<(usize, u64)> = families
            .iter()
            .map(|(name, number)| (*number, fingerprint(&found[name])))
            .collect();
        let matches = |moment: usize| {
            expectation.ahead.iter().any(|ahead| {
                prints.iter().all(|(number, print)| {
                    let flushed = ahead.get(number).copied().unwrap_or(0);
                    self.states[*number][moment.max(flushed)] == *print
                })
            })
        };
        let Expectation { floor, last, .. } = *expectation;
        if let Some(flushed) = &expectation.flushed {
            return self.is_a_prefix_each(&prints, flushed, floor, last);
        }
        if (floor..=last).any(matches) {
            return Ok(());
        }
        if let Some(moment) = (0..floor).rev().find(|moment| matches(*moment)) {
            return Err(Failure::wrong(format!(
                "guaranteed writes are lost: found the state after {moment} batches, \
                 expected {floor} to {last}"
            )));
        }
        Err(self.explain(found, families, floor, last))
    }

    /// Checks that each family independently is in a state between its floor and `last`.
    fn is_a_prefix_each(
        &self,
        prints: &[(usize, u64)],
        flushed: &BTreeMap<usize, usize>,
        floor: usize,
        last: usize,
    ) -> Result<(), Failure> {
        for (number, print) in prints {
            let floor = flushed
                .get(number)
                .map_or(floor, |moment| floor.max(*moment));
            let states = &self.states[*number];
            if !states[floor..=last].contains(print) {
                let lost = states[..floor].iter().rposition(|state| state == print);
                return Err(Failure::wrong(match lost {
                    Some(moment) => format!(
                        "what was flushed is lost: found the state of family {number} after \
                         {moment} batches, expected {floor} to {last}"
                    ),
                    None => format!(
                        "no state of the history of family {number} between {floor} and {last} \
                         batches"
                    ),
                }));
            }
        }
        Ok(())
    }

    /// Describes the allowed moment with the most matching families, and its first difference.
    fn explain(
        &self,
        found: &BTreeMap<String, Entries>,
        families: &[(String, usize)],
        floor: usize,
        last: usize,
    ) -> Failure {
        let differences = |moment: usize| {
            let of_family = |(name, number): &(String, usize)| {
                let expected = self.record.model.content_by_number(*number, moment);
                let found: HashSet<_> = found[name].iter().collect();
                let expected: HashSet<_> = expected.iter().collect();
                expected.symmetric_difference(&found).count()
            };
            families.iter().map(of_family).sum::<usize>()
        };
        let moment = (floor..=last).min_by_key(|moment| differences(*moment));
        let moment = moment.unwrap_or(floor);
        let detail = families.iter().find_map(|(name, number)| {
            let expected = self.record.model.content_by_number(*number, moment);
            let difference = same_entries(&expected, &found[name]).err()?;
            Some(format!("family {name}, {difference}"))
        });
        Failure::wrong(format!(
            "no state of the history: between {floor} and {last} batches, the nearest is {moment}; \
             {}",
            detail.unwrap_or_default()
        ))
    }
}
