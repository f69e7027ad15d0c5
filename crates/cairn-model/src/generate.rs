//! Generates scripts from seeds. Each seed enables a random subset of operation kinds and options,
//! so that rare combinations occur; few keys and tiny buffers give short scripts deep trees.

use std::collections::BTreeSet;

use crate::generator::Generator;
use crate::operation::{Kind, Op};
use crate::ops::{KINDS, families, write};
use crate::script::Script;
use crate::workload::{FREE, Workload};
use crate::write_entry::CHANGES;

/// Switches of neither a kind nor a change.
const OTHER_SWITCHES: [&str; 2] = ["batch", "sync"];

/// Returns the script of `seed` with `count` operations of the unrestricted workload.
#[must_use]
pub fn script(seed: u64, count: usize) -> Script {
    workload(&FREE, seed, count)
}

/// Returns the script of `seed` with `count` operations of `workload`.
#[must_use]
pub fn workload(workload: &'static Workload, seed: u64, count: usize) -> Script {
    let mut generator = Generator::new(workload, seed, switches());
    let options = generator.options.clone();
    let mut ops = Vec::new();
    for name in generator.names.clone().into_iter().take(workload.families) {
        ops.push(families::create(name, &mut generator));
    }
    for op in &ops {
        op.apply(&mut generator.model);
    }
    while ops.len() < count {
        ops.push(generator.next());
    }
    Script { options, ops }
}

/// Returns the names of all switches.
#[must_use]
pub fn switches() -> BTreeSet<&'static str> {
    let kinds = KINDS.iter().filter_map(|kind| kind.switch);
    let changes = CHANGES.iter().map(|(word, _)| *word);
    kinds.chain(changes).chain(OTHER_SWITCHES).collect()
}

impl Generator {
    fn weight(&self, kind: &Kind) -> usize {
        let often = self.workload.often.iter();
        let more = often
            .filter(|(name, _)| *name == kind.name)
            .map(|(_, times)| times);
        kind.weight * more.product::<usize>()
    }

    fn next(&mut self) -> Op {
        let total = KINDS.iter().map(|kind| self.weight(kind)).sum();
        let mut roll = self.rng.below(total);
        let mut chosen = &write::KIND;
        for kind in KINDS {
            let weight = self.weight(kind);
            if roll < weight {
                chosen = kind;
                break;
            }
            roll -= weight;
        }
        let is_on = chosen.switch.is_none_or(|switch| self.is_on(switch));
        let made = if is_on { (chosen.generate)(self) } else { None };
        let op = made.or_else(|| (write::KIND.generate)(self));
        let op = op.expect("a write can always be generated");
        op.apply(&mut self.model);
        op
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{self, WORKLOADS};

    #[test]
    fn a_script_round_trips_through_text() {
        for seed in 0..60 {
            let script = script(seed, 120);
            let again: Script = script.to_string().parse().unwrap();
            assert_eq!(again, script, "seed {seed}");
        }
    }

    #[test]
    fn every_operation_word_is_generated() {
        let mut found = BTreeSet::new();
        let timestamps = workload::find("timestamps").unwrap();
        for seed in 0..60 {
            let scripts = [script(seed, 200), super::workload(timestamps, seed, 200)];
            for op in scripts.into_iter().flat_map(|script| script.ops) {
                let line = op.to_string();
                found.insert(line.split(' ').next().unwrap_or("").to_owned());
            }
        }
        let words = KINDS.iter().flat_map(|kind| kind.words);
        let missing: Vec<_> = words.filter(|word| !found.contains(**word)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn seeds_determine_scripts_and_differ_from_each_other() {
        assert_eq!(script(3, 50), script(3, 50));
        assert_ne!(script(3, 50), script(4, 50));
    }

    #[test]
    fn workloads_name_existing_switches_and_kinds() {
        let switches = switches();
        for workload in WORKLOADS {
            for switch in workload.on.iter().chain(workload.off) {
                assert!(switches.contains(switch), "{}: {switch}", workload.name);
            }
            for (kind, _) in workload.often {
                let known = KINDS.iter().any(|known| known.name == *kind);
                assert!(known, "{}: {kind}", workload.name);
            }
        }
    }
}
