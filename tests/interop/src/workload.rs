//! Random changes, identical for all engines, and a map that computes the expected content.

use std::collections::BTreeMap;
use std::path::Path;

use crate::content::{Content, Row, Rows};

/// A family of the workload: its name and its specific options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyKind {
    /// Its name.
    pub name: &'static str,
    /// Merge operator and comparator, in RocksDB's text form.
    pub options: &'static str,
}

/// The families of every workload. A change refers to its family by the index in this list.
pub const FAMILIES: [FamilyKind; 3] = [
    FamilyKind {
        name: "default",
        options: "merge_operator=stringappend",
    },
    FamilyKind {
        name: "sums",
        options: "merge_operator=uint64add",
    },
    FamilyKind {
        name: "reverse",
        options: "comparator=rocksdb.ReverseBytewiseComparator",
    },
];

const DEFAULT: usize = 0;
const SUMS: usize = 1;
const REVERSE: usize = 2;

/// Column names and values.
pub type Columns = Vec<(Vec<u8>, Vec<u8>)>;

/// A change of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Puts a key.
    Put(usize, Vec<u8>, Vec<u8>),
    /// Puts an entity with these columns, sorted by name.
    PutEntity(usize, Vec<u8>, Columns),
    /// Adds a merge operand.
    Merge(usize, Vec<u8>, Vec<u8>),
    /// Deletes a key.
    Delete(usize, Vec<u8>),
    /// Deletes a key that was put once.
    SingleDelete(usize, Vec<u8>),
    /// Deletes a range, in the family's order.
    DeleteRange(usize, Vec<u8>, Vec<u8>),
}

/// A step of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Changes that are written atomically.
    Write(Vec<Change>),
    /// Flushes a family.
    Flush(usize),
    /// Compacts a family.
    Compact(usize),
}

/// An engine that runs the steps: Cairn, RocksDB, or the map.
pub trait Engine {
    /// Writes `changes` atomically.
    fn write(&mut self, changes: &[Change]);
    /// Flushes a family.
    fn flush(&mut self, family: usize);
    /// Compacts a family.
    fn compact(&mut self, family: usize);
    /// Waits until the directory no longer changes.
    fn settle(&mut self) {}
    /// The whole content.
    fn content(&mut self) -> Content;
    /// `content` as this engine's interface shows it.
    fn shown(&self, content: Content) -> Content {
        content
    }

    /// Runs `steps`.
    fn run(&mut self, steps: &[Step]) {
        for step in steps {
            match step {
                Step::Write(changes) => self.write(changes),
                Step::Flush(family) => self.flush(*family),
                Step::Compact(family) => self.compact(*family),
            }
        }
    }
}

/// A small random number generator (SplitMix64).
#[derive(Clone, Debug)]
struct Rng(u64);

impl Rng {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    fn below(&mut self, limit: usize) -> usize {
        (self.bits() % limit as u64) as usize
    }
}

/// An engine with a database in a directory. Dropping it closes the database.
pub trait Durable: Engine + Sized {
    /// Opens or creates the database at `path`, with `options` for the database and `common` for each
    /// family, both in RocksDB's text form.
    ///
    /// # Errors
    ///
    /// The engine's error.
    fn open(path: &Path, options: &str, common: &str) -> Result<Self, String>;
}

/// Generates steps; the same seed generates the same ones.
pub struct Generator {
    rng: Rng,
    /// The number of keys put for single deletions, and those that still exist.
    once: u64,
    untaken: Vec<u64>,
    /// True to write entities too.
    entities: bool,
}

impl Generator {
    /// A generator with this seed.
    #[must_use]
    pub fn new(seed: u64) -> Generator {
        Generator {
            rng: Rng(seed),
            once: 0,
            untaken: Vec::new(),
            entities: false,
        }
    }

    /// The same, with entities.
    #[must_use]
    pub fn with_entities(mut self, entities: bool) -> Generator {
        self.entities = entities;
        self
    }

    /// The next `count` steps.
    pub fn steps(&mut self, count: usize) -> Vec<Step> {
        (0..count).map(|_| self.step()).collect()
    }

    fn step(&mut self) -> Step {
        let family = self.rng.below(FAMILIES.len());
        match self.rng.below(100) {
            0 | 1 => Step::Flush(family),
            2 => Step::Compact(family),
            _ => {
                let count = 1 + self.rng.below(6);
                Step::Write((0..count).map(|_| self.change()).collect())
            }
        }
    }

    fn change(&mut self) -> Change {
        let family = self.rng.below(FAMILIES.len());
        let key = self.key();
        match self.rng.below(20) {
            0..=2 => Change::Delete(family, key),
            3 => self.range(family),
            4..=7 if family == SUMS => {
                Change::Merge(family, key, self.rng.bits().to_le_bytes().to_vec())
            }
            4..=7 if family == DEFAULT => Change::Merge(family, key, self.value(12)),
            8 => self.once(),
            _ if family == SUMS => Change::Put(family, key, self.rng.bits().to_le_bytes().to_vec()),
            9 => Change::Put(family, key, self.value(3000)),
            10 if self.entities => Change::PutEntity(family, key, self.columns()),
            _ => Change::Put(family, key, self.value(60)),
        }
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.rng.below(2000);
        match self.rng.below(8) {
            0 => format!("k{number}").into_bytes(),
            1 => number.to_be_bytes().to_vec(),
            _ => format!("key{number:08}").into_bytes(),
        }
    }

    fn value(&mut self, longest: usize) -> Vec<u8> {
        const WORDS: [&str; 8] = [
            "granite", "slate", "chalk", "basalt", "marble", "flint", "gneiss", "tuff",
        ];
        let len = 1 + self.rng.below(longest);
        let mut value = Vec::with_capacity(len + 8);
        while value.len() < len {
            value.extend_from_slice(WORDS[self.rng.below(WORDS.len())].as_bytes());
            value.push(self.rng.bits() as u8);
        }
        value
    }

    fn columns(&mut self) -> Columns {
        let mut columns = Columns::new();
        for name in ["", "colour", "hardness", "origin"] {
            if self.rng.below(2) == 0 {
                columns.push((name.as_bytes().to_vec(), self.value(80)));
            }
        }
        columns
    }

    /// A range deletion, in the order of its family.
    fn range(&mut self, family: usize) -> Change {
        let from = self.rng.below(2000);
        let to = from + self.rng.below(60);
        let (begin, end) = (
            format!("key{from:08}").into_bytes(),
            format!("key{to:08}").into_bytes(),
        );
        if family == REVERSE {
            return Change::DeleteRange(family, end, begin);
        }
        Change::DeleteRange(family, begin, end)
    }

    /// Puts a key that was never put before, or deletes one of those by a single deletion.
    fn once(&mut self) -> Change {
        if self.untaken.len() > 4 && self.rng.below(2) == 0 {
            let number = self.untaken.pop().expect("there are some");
            return Change::SingleDelete(DEFAULT, once_key(number));
        }
        self.untaken.push(self.once);
        self.once += 1;
        Change::Put(DEFAULT, once_key(self.once - 1), self.value(20))
    }
}

/// A deleted key is never reused: RocksDB would expose older values.
fn once_key(number: u64) -> Vec<u8> {
    format!("once{number:06}").into_bytes()
}

/// The map with the expected content.
#[derive(Clone, Debug, Default)]
pub struct Model {
    families: [BTreeMap<Vec<u8>, Columns>; FAMILIES.len()],
}

impl Model {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Put(family, key, value) => {
                let plain = vec![(Vec::new(), value.clone())];
                self.families[*family].insert(key.clone(), plain);
            }
            Change::PutEntity(family, key, columns) => {
                self.families[*family].insert(key.clone(), columns.clone());
            }
            Change::Delete(family, key) | Change::SingleDelete(family, key) => {
                self.families[*family].remove(key);
            }
            Change::DeleteRange(family, begin, end) if *family == REVERSE => {
                self.families[*family].retain(|key, _| !(key <= begin && key > end));
            }
            Change::DeleteRange(family, begin, end) => {
                self.families[*family].retain(|key, _| !(key >= begin && key < end));
            }
            Change::Merge(family, key, operand) => {
                let existing = self.families[*family].remove(key);
                // Operands apply to the default column, which is empty if the entity has none.
                let (old, mut columns) = match existing {
                    None => (None, Columns::new()),
                    Some(mut columns) if columns.first().is_some_and(|c| c.0.is_empty()) => {
                        (Some(columns.remove(0).1), columns)
                    }
                    Some(columns) => (Some(Vec::new()), columns),
                };
                let new = if *family == SUMS {
                    sum(old.as_ref(), operand)
                } else {
                    joined(old.as_ref(), operand)
                };
                columns.insert(0, (Vec::new(), new));
                self.families[*family].insert(key.clone(), columns);
            }
        }
    }
}

fn sum(old: Option<&Vec<u8>>, operand: &[u8]) -> Vec<u8> {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("sums have 8 bytes"));
    let old = old.map_or(0, |old| number(old));
    old.wrapping_add(number(operand)).to_le_bytes().to_vec()
}

fn joined(old: Option<&Vec<u8>>, operand: &[u8]) -> Vec<u8> {
    old.map_or_else(
        || operand.to_vec(),
        |old| [old, &b","[..], operand].concat(),
    )
}

fn row(key: &[u8], columns: &Columns) -> Row {
    let pairs = columns.iter().map(|(name, value)| (&name[..], &value[..]));
    let pairs: Vec<(&[u8], &[u8])> = pairs.collect();
    let default = pairs.iter().find(|(name, _)| name.is_empty());
    let value = default.map_or(&[][..], |(_, value)| value);
    Row::of(key, value).with_columns(&pairs)
}

impl Engine for Model {
    fn write(&mut self, changes: &[Change]) {
        for change in changes {
            self.apply(change);
        }
    }

    fn flush(&mut self, _: usize) {}

    fn compact(&mut self, _: usize) {}

    fn content(&mut self) -> Content {
        let mut content = Content::new();
        for (number, family) in self.families.iter().enumerate() {
            let mut rows: Vec<_> = family
                .iter()
                .map(|(key, columns)| row(key, columns))
                .collect();
            if number == REVERSE {
                rows.reverse();
            }
            let name = FAMILIES[number].name.to_owned();
            content.insert(name, Rows { rows, error: None });
        }
        content
    }
}
