//! The state of a script under construction.

use std::collections::{BTreeMap, BTreeSet};

use cairn_sim::Rng;

use crate::external_tables::ExternalTables;
use crate::merge_kind::MergeKind;
use crate::model::Model;
use crate::option_values::{keep_fixed, keep_unlogged, merge, option_set};
use crate::options::OptionSet;
use crate::workload::{Durability, Workload};
use crate::write_entry::Value;

/// The state of a script under construction.
pub struct Generator {
    /// Source of all random choices.
    pub rng: Rng,
    /// The state after the operations so far.
    pub model: Model,
    /// The options of the first open.
    pub options: OptionSet,
    /// Names of families that scripts may create.
    pub names: Vec<String>,
    /// Snapshots held.
    pub snapshots: BTreeSet<u64>,
    /// True if families were created or dropped since the last open: their content in earlier
    /// snapshots is undefined.
    pub changed_families: bool,
    /// Prepared ingestions.
    pub staged: BTreeMap<u64, ExternalTables>,
    /// The number of the last one.
    pub last_staged: u64,
    /// True if every write is synced.
    pub always_syncs: bool,
    pub(crate) workload: &'static Workload,
    on: BTreeSet<&'static str>,
    keys: usize,
    value_len: usize,
    next_snapshot: u64,
    next_value: u64,
}

impl Generator {
    /// Creates the generator of a seed, which enables a subset of `switches`.
    pub(crate) fn new(
        workload: &'static Workload,
        seed: u64,
        switches: BTreeSet<&'static str>,
    ) -> Generator {
        let mut rng = Rng::new(seed).fork(0x6e6e);
        let mut on: BTreeSet<&str> = switches.into_iter().filter(|_| rng.chance(2, 3)).collect();
        on.extend(workload.on);
        on.retain(|switch| !workload.off.contains(switch));
        let merge = match on.contains("merge") {
            true => merge(&mut rng),
            false => MergeKind::None,
        };
        let unlogged = match workload.durability {
            Durability::Any => rng.chance(1, 8),
            durability => durability == Durability::Unlogged,
        };
        let families = rng.below(3).max(workload.families);
        let mut generator = Generator {
            keys: *rng.pick(&[8, 30, 200, 1000]),
            value_len: *rng.pick(&[8, 40, 400, 4000]),
            names: (0..families).map(|number| format!("f{number}")).collect(),
            on,
            model: Model::new(merge),
            options: OptionSet {
                merge,
                unlogged,
                ..OptionSet::default()
            },
            snapshots: BTreeSet::new(),
            next_snapshot: 1,
            next_value: 1,
            changed_families: false,
            staged: BTreeMap::new(),
            last_staged: 0,
            always_syncs: workload.durability == Durability::Synced,
            workload,
            rng,
        };
        generator.options = generator.any_options();
        keep_unlogged(&mut generator.options);
        generator
    }

    /// Returns random options for a first open.
    fn any_options(&mut self) -> OptionSet {
        let mut options = option_set(&mut self.rng, self.options.merge);
        options.unlogged = self.options.unlogged;
        let Workload {
            db, family, table, ..
        } = self.workload;
        options.override_with(db, family, table);
        options
    }

    /// Returns other options for the same database.
    pub fn other_options(&mut self) -> OptionSet {
        let mut options = self.any_options();
        keep_fixed(&mut options, &self.options);
        options
    }

    /// True if the keys of all families have timestamps.
    #[must_use]
    pub fn has_timestamps(&self) -> bool {
        let order = OptionSet::value(&self.options.family, "comparator");
        order.is_some_and(|order| order.ends_with(".u64ts"))
    }

    /// True if a switch is on.
    #[must_use]
    pub fn is_on(&self, switch: &str) -> bool {
        self.on.contains(switch)
    }

    /// Returns a random key.
    pub fn key(&mut self) -> Vec<u8> {
        format!("k{:04}", self.rng.below(self.keys)).into_bytes()
    }

    /// Returns a random key or, more often, `None`.
    pub fn bound(&mut self) -> Option<Vec<u8>> {
        self.rng.chance(1, 3).then(|| self.key())
    }

    /// Returns an existing family.
    pub fn family(&mut self) -> String {
        let families = self.model.families();
        self.rng.pick(&families).clone()
    }

    /// Returns a new unique value, or a valid operand of the merge operator.
    pub fn value(&mut self) -> Value {
        self.next_value += 1;
        match self.options.merge {
            MergeKind::Add => Value::Number(self.rng.next_u64() >> self.rng.below(64)),
            _ => Value::Text {
                len: 1 + self.rng.below(self.value_len),
                seed: self.next_value,
            },
        }
    }

    /// Returns a key for which a single delete is legal, if there is one.
    pub fn put_once(&mut self, family: &str) -> Option<Vec<u8>> {
        let mut keys = self.model.keys(family);
        keys.retain(|key| self.model.single_delete_is_legal(family, key));
        (!keys.is_empty()).then(|| self.rng.pick(&keys).clone())
    }

    /// Returns a snapshot with probability 1/2, if one is held.
    pub fn readable_snapshot(&mut self) -> Option<u64> {
        let all: Vec<u64> = self.snapshots.iter().copied().collect();
        (!all.is_empty() && !self.changed_families && self.rng.chance(1, 2))
            .then(|| *self.rng.pick(&all))
    }

    /// True if a snapshot is held.
    #[must_use]
    pub fn has_snapshots(&self) -> bool {
        !self.snapshots.is_empty()
    }

    /// Returns the number for a new snapshot.
    pub fn new_snapshot(&mut self) -> u64 {
        let number = self.next_snapshot;
        self.next_snapshot += 1;
        self.snapshots.insert(number);
        number
    }
}
