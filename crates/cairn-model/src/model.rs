//! The reference model: all versions of every key in plain maps.

use std::collections::BTreeMap;

use crate::merge_kind::MergeKind;
use crate::scan::{Direction, Entries, Scan};
use crate::write_entry::{Change, Write, bytes_of};

/// A family. A family recreated under the name of a dropped one is another family.
#[derive(Clone, Debug)]
struct Family {
    name: String,
    /// Versions of each key with their sequence numbers, oldest first.
    keys: BTreeMap<Vec<u8>, Vec<(u64, Version)>>,
    /// Range tombstones: start, end, sequence number.
    ranges: Vec<(Vec<u8>, Vec<u8>, u64)>,
    alive: bool,
    /// The moment of its last write.
    last_written: usize,
    /// The moments of writes in external tables.
    ingested: Vec<usize>,
}

/// The result of one write to a key.
#[derive(Clone, Debug)]
pub enum Version {
    /// A value.
    Value(Vec<u8>),
    /// An entity: names and values of its columns, sorted by name.
    Entity(Vec<(Vec<u8>, Vec<u8>)>),
    /// A deletion.
    Deleted,
    /// A merge operand on top of the older versions.
    Operand(Vec<u8>),
}

/// A version in families with timestamps: its key, moment and value; no value for a deletion.
pub type MomentVersion = (Vec<u8>, usize, Option<Vec<u8>>);

/// The effect of a change on the model.
pub enum Effect {
    /// A new version of the key.
    Version(Version),
    /// The deletion of the keys up to this one, exclusive.
    RemoveUpTo(Vec<u8>),
}

impl Change {
    /// Returns the effect on the model.
    #[must_use]
    pub fn effect(&self) -> Effect {
        Effect::Version(match self {
            Change::Put(value) => Version::Value(value.bytes()),
            Change::PutEntity(columns) => Version::Entity(bytes_of(columns)),
            Change::Merge(operand) => Version::Operand(operand.bytes()),
            Change::Delete | Change::SingleDelete => Version::Deleted,
            Change::DeleteRange(end) => return Effect::RemoveUpTo(end.clone()),
        })
    }
}

/// A database that keeps all history. A *moment* is a number of batches: moment 0 is the empty
/// database, moment `k` the state after the first `k` batches.
#[derive(Clone, Debug)]
pub struct Model {
    merge: MergeKind,
    families: Vec<Family>,
    /// The last sequence number of each moment.
    moments: Vec<u64>,
}

/// The name of the default family.
pub const DEFAULT: &str = "default";

impl Model {
    /// Creates an empty database with the default family.
    #[must_use]
    pub fn new(merge: MergeKind) -> Model {
        let mut model = Model {
            merge,
            families: Vec::new(),
            moments: vec![0],
        };
        model.create_family(DEFAULT);
        model
    }

    /// Returns the current moment.
    #[must_use]
    pub fn now(&self) -> usize {
        self.moments.len() - 1
    }

    /// Returns the names of the live families.
    #[must_use]
    pub fn families(&self) -> Vec<String> {
        let alive = self.families.iter().filter(|family| family.alive);
        alive.map(|family| family.name.clone()).collect()
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.families
            .iter()
            .position(|family| family.alive && family.name == name)
    }

    fn family(&self, name: &str) -> Option<&Family> {
        self.index(name).map(|index| &self.families[index])
    }

    /// True if a live family has this name.
    #[must_use]
    pub fn has_family(&self, name: &str) -> bool {
        self.index(name).is_some()
    }

    /// Creates a family.
    pub fn create_family(&mut self, name: &str) {
        self.families.push(Family {
            name: name.to_owned(),
            keys: BTreeMap::new(),
            ranges: Vec::new(),
            alive: true,
            last_written: 0,
            ingested: Vec::new(),
        });
    }

    /// Drops a family.
    pub fn drop_family(&mut self, name: &str) {
        if let Some(index) = self.index(name) {
            self.families[index].alive = false;
        }
    }

    /// Returns the number of a live family.
    #[must_use]
    pub fn number(&self, family: &str) -> usize {
        self.index(family)
            .expect("scripts name families that exist")
    }

    /// Returns the moment of the last write to a family.
    #[must_use]
    pub fn last_written(&self, family: &str) -> usize {
        self.family(family).map_or(0, |family| family.last_written)
    }

    /// Applies a batch. A batch that names a missing family only advances the moment, as
    /// [`Model::skip`] does.
    pub fn write(&mut self, writes: &[Write]) {
        if !writes.iter().all(|write| self.has_family(&write.family)) {
            return self.skip();
        }
        let moment = self.moments.len();
        let mut seq = self.moments[moment - 1];
        for write in writes {
            seq += 1;
            let index = self.index(&write.family);
            let family = &mut self.families[index.expect("the batch has been checked")];
            family.last_written = moment;
            match write.change.effect() {
                Effect::Version(version) => {
                    let versions = family.keys.entry(write.key.clone()).or_default();
                    versions.push((seq, version));
                }
                Effect::RemoveUpTo(end) => family.ranges.push((write.key.clone(), end, seq)),
            }
        }
        self.moments.push(seq);
    }

    /// Applies the writes in external tables.
    pub fn write_external(&mut self, writes: &[Write]) {
        self.write(writes);
        let now = self.now();
        for family in &mut self.families {
            if family.alive && family.last_written == now {
                family.ingested.push(now);
            }
        }
    }

    /// True if external tables were written to a family after the moment `after`, and by the moment `upto`.
    #[must_use]
    pub fn was_ingested(&self, number: usize, after: usize, upto: usize) -> bool {
        let mut ingested = self.families[number].ingested.iter();
        ingested.any(|&moment| moment > after && moment <= upto)
    }

    /// Advances the moment without a change, for a batch that was not executed.
    pub fn skip(&mut self) {
        let seq = self.moments[self.moments.len() - 1];
        self.moments.push(seq);
    }

    /// Returns the value of `key` at `moment`.
    #[must_use]
    pub fn get(&self, family: &str, key: &[u8], moment: usize) -> Option<Vec<u8>> {
        self.read(self.family(family)?, key, self.moments[moment])
    }

    /// Returns the columns of `key` at `moment`; a plain value is the unnamed column.
    #[must_use]
    pub fn columns(&self, family: &str, key: &[u8], moment: usize) -> Option<Entries> {
        self.read_columns(self.family(family)?, key, self.moments[moment])
    }

    /// Returns the value, or the default column of an entity.
    fn read(&self, family: &Family, key: &[u8], bound: u64) -> Option<Vec<u8>> {
        let columns = self.read_columns(family, key, bound)?;
        let default = columns.into_iter().find(|(name, _)| name.is_empty());
        Some(default.map(|(_, value)| value).unwrap_or_default())
    }

    fn read_columns(&self, family: &Family, key: &[u8], bound: u64) -> Option<Entries> {
        let covering = covering(family, key, bound);
        let mut value: Option<Entries> = None;
        for (seq, version) in family.keys.get(key)? {
            if *seq <= bound && *seq > covering {
                value = match version {
                    Version::Value(bytes) => Some(vec![(Vec::new(), bytes.clone())]),
                    Version::Entity(columns) => Some(columns.clone()),
                    Version::Deleted => None,
                    Version::Operand(operand) => Some(self.merged(value, operand)),
                };
            }
        }
        value
    }

    /// Returns the versions of a family written at the moments from `from` to `at`, newest first within a key, without
    /// those that range tombstones cover at `at`. Of several writes to a key in one batch, the last one counts.
    #[must_use]
    pub fn versions(&self, family: &str, from: usize, at: usize) -> Vec<MomentVersion> {
        let Some(family) = self.family(family) else {
            return Vec::new();
        };
        let bound = self.moments[at.min(self.now())];
        let mut all = Vec::new();
        for (key, versions) in &family.keys {
            let covering = covering(family, key, bound);
            let mut newest = None;
            for (seq, version) in versions.iter().rev() {
                let moment = self.moments.partition_point(|last| last < seq);
                if *seq > bound || newest == Some(moment) {
                    continue;
                }
                newest = Some(moment);
                if *seq > covering && moment >= from {
                    let value = match version {
                        Version::Deleted => None,
                        _ => self.read(family, key, self.moments[moment]),
                    };
                    all.push((key.clone(), moment, value));
                }
            }
        }
        all
    }

    /// Applies `operand` to the default column of `existing`, or to an empty one if it has none.
    fn merged(&self, existing: Option<Entries>, operand: &[u8]) -> Entries {
        let Some(mut columns) = existing else {
            return vec![(Vec::new(), self.merge.apply(None, operand))];
        };
        if columns.first().is_none_or(|(name, _)| !name.is_empty()) {
            columns.insert(0, (Vec::new(), Vec::new()));
        }
        columns[0].1 = self.merge.apply(Some(&columns[0].1), operand);
        columns
    }

    /// Returns the entries of an iterator at `moment`.
    #[must_use]
    pub fn scan(&self, family: &str, scan: &Scan, moment: usize) -> Entries {
        let mut entries = self.content(family, moment);
        entries.retain(|(key, _)| {
            scan.lower.as_ref().is_none_or(|lower| key >= lower)
                && scan.upper.as_ref().is_none_or(|upper| key < upper)
        });
        match scan.direction {
            Direction::Forward => {
                entries.retain(|(key, _)| scan.from.as_ref().is_none_or(|from| key >= from));
            }
            Direction::Backward => {
                entries.retain(|(key, _)| scan.from.as_ref().is_none_or(|from| key <= from));
                entries.reverse();
            }
        }
        entries.truncate(scan.limit);
        entries
    }

    fn entries(&self, family: &Family, bound: u64) -> Entries {
        family
            .keys
            .keys()
            .filter_map(|key| Some((key.clone(), self.read(family, key, bound)?)))
            .collect()
    }

    /// Returns every key ever written to a family.
    #[must_use]
    pub fn keys(&self, family: &str) -> Vec<Vec<u8>> {
        let keys = self.family(family).map(|family| family.keys.keys());
        keys.into_iter().flatten().cloned().collect()
    }

    /// Returns the content of a family at `moment`; empty if it does not exist.
    #[must_use]
    pub fn content(&self, family: &str, moment: usize) -> Entries {
        let family = self.family(family);
        family.map_or_else(Entries::new, |family| {
            self.entries(family, self.moments[moment])
        })
    }

    /// Returns the live families, each with a unique number.
    #[must_use]
    pub fn family_numbers(&self) -> Vec<(String, usize)> {
        let numbered = self.families.iter().enumerate();
        numbered
            .filter(|(_, family)| family.alive)
            .map(|(number, family)| (family.name.clone(), number))
            .collect()
    }

    /// True if any family, dropped or not, had this content at any moment.
    #[must_use]
    pub fn ever_had(&self, content: &Entries) -> bool {
        let moments = 0..=self.now();
        moments.rev().any(|moment| {
            let mut numbers = 0..self.families.len();
            numbers.any(|number| self.content_by_number(number, moment) == *content)
        })
    }

    /// Returns the content of the family of this number, dropped or not, at `moment`.
    #[must_use]
    pub fn content_by_number(&self, number: usize, moment: usize) -> Entries {
        self.entries(&self.families[number], self.moments[moment])
    }

    /// Returns the number of families ever created.
    #[must_use]
    pub fn family_count(&self) -> usize {
        self.families.len()
    }

    /// True if `key` has been put exactly once since it was last absent, and not otherwise written, so
    /// that a single delete is legal.
    #[must_use]
    pub fn single_delete_is_legal(&self, family: &str, key: &[u8]) -> bool {
        let Some(family) = self.family(family) else {
            return false;
        };
        let in_range = |(start, end, _): &(Vec<u8>, Vec<u8>, u64)| {
            start.as_slice() <= key && key < end.as_slice()
        };
        match family.keys.get(key).map(Vec::as_slice) {
            Some([(_, Version::Value(_))]) => !family.ranges.iter().any(in_range),
            _ => false,
        }
    }
}

/// Returns the number of the newest range tombstone up to `bound` over `key`; 0 if there is none.
fn covering(family: &Family, key: &[u8], bound: u64) -> u64 {
    let covers = |(start, end, seq): &&(Vec<u8>, Vec<u8>, u64)| {
        *seq <= bound && start.as_slice() <= key && key < end.as_slice()
    };
    let covering = family.ranges.iter().filter(covers).map(|(_, _, seq)| *seq);
    covering.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Op;

    fn model(merge: MergeKind, lines: &[&str]) -> Model {
        let mut model = Model::new(merge);
        for line in lines {
            line.parse::<Op>().unwrap().apply(&mut model);
        }
        model
    }

    #[test]
    fn a_range_tombstone_hides_older_entries_only() {
        let model = model(
            MergeKind::None,
            &[
                "put default a v:3:1",
                "put default c v:3:1",
                "deleterange default a c",
                "put default b v:3:2",
            ],
        );
        let keys = |moment| -> Vec<Vec<u8>> {
            let content = model.content(DEFAULT, moment);
            content.into_iter().map(|(key, _)| key).collect()
        };
        assert_eq!(keys(2), [b"a", b"c"]);
        assert_eq!(keys(3), [b"c"]);
        assert_eq!(keys(4), [b"b", b"c"]);
    }

    #[test]
    fn operands_apply_to_the_value_below_and_stop_at_a_deletion() {
        let adds = [
            "merge default a u:5",
            "merge default a u:6",
            "delete default a",
            "merge default a u:1",
        ];
        let model = model(MergeKind::Add, &adds);
        let value = |moment| model.get(DEFAULT, b"a", moment).unwrap();
        assert_eq!(value(2), 11u64.to_le_bytes());
        assert_eq!(value(4), 1u64.to_le_bytes());
        assert_eq!(MergeKind::Append.apply(Some(b"x"), b"y"), b"x,y");
        assert_eq!(MergeKind::Max.apply(Some(b"x"), b"y"), b"y");
        assert_eq!(MergeKind::Put.apply(Some(b"x"), b"a"), b"a");
    }
}
