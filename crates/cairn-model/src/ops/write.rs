//! Writes a batch of any number of entries: `put default k v:3:1 sync`, `batch put default k v:3:1 ;
//! delete a k ; sync`, `batch none ; sync`.

use std::str::FromStr;

use cairn_types::{Error, Result};

use crate::failure::Failure;
use crate::generator::Generator;
use crate::model::Model;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};
use crate::write_entry::{CHANGES, Change, Value, Write};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "write",
    words: &[
        "put",
        "putentity",
        "merge",
        "delete",
        "singledelete",
        "deleterange",
        "batch",
    ],
    weight: 60,
    switch: None,
    read: |line| Ok(Op::new(line.0.parse::<Batch>()?)),
    generate: |generator| Some(Op::new(Batch::generate(generator))),
};

/// The word for an empty batch.
const NONE: &str = "none";

/// A batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Its entries.
    pub writes: Vec<Write>,
    /// True if the WAL is synced before the write is acknowledged.
    pub sync: bool,
}

impl Batch {
    /// Generates a batch.
    pub(super) fn generate(generator: &mut Generator) -> Batch {
        let several = generator.is_on("batch") && generator.rng.chance(1, 4);
        let count = match several {
            // An empty batch is logged as well.
            true if generator.rng.chance(1, 6) => 0,
            true => 2 + generator.rng.below(6),
            false => 1,
        };
        let mut writes: Vec<Write> = Vec::new();
        for _ in 0..count {
            let family = generator.family();
            let mut roll = generator.rng.below(12);
            let mut word = "put";
            for (name, weight) in CHANGES {
                if roll < weight {
                    word = if generator.is_on(name) { name } else { "put" };
                    break;
                }
                roll -= weight;
            }
            let (key, change) = Change::generate(word, &family, writes.is_empty(), generator);
            writes.push(Write {
                family,
                key,
                change,
            });
        }
        let sync = generator.always_syncs || generator.is_on("sync") && generator.rng.chance(1, 5);
        Batch { writes, sync }
    }
}

impl FromStr for Batch {
    type Err = Error;

    fn from_str(line: &str) -> Result<Batch> {
        if let Some(rest) = line.strip_prefix("batch ") {
            let body = rest.strip_suffix(" ; sync");
            let parts = body.unwrap_or(rest).split(" ; ");
            let parts = parts.filter(|part| *part != NONE);
            return Ok(Batch {
                writes: parts.map(str::parse).collect::<Result<_>>()?,
                sync: body.is_some(),
            });
        }
        let body = line.strip_suffix(" sync");
        Ok(Batch {
            writes: vec![body.unwrap_or(line).parse()?],
            sync: body.is_some(),
        })
    }
}

impl Operation for Batch {
    fn line(&self) -> String {
        match self.writes.as_slice() {
            [one] => format!("{one}{}", if self.sync { " sync" } else { "" }),
            writes => {
                let mut parts: Vec<String> = writes.iter().map(Write::to_string).collect();
                if parts.is_empty() {
                    parts.push(NONE.to_owned());
                }
                let sync = if self.sync { " ; sync" } else { "" };
                format!("batch {}{sync}", parts.join(" ; "))
            }
        }
    }

    fn apply(&self, model: &mut Model) {
        model.write(&self.writes);
    }

    fn fits(&self, model: &Model) -> bool {
        let mut families = self.writes.iter().map(|write| &write.family);
        families.all(|family| model.has_family(family))
    }

    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure> {
        runner.engine()?.write(&self.writes, self.sync)?;
        Ok(match self.sync {
            true => Promise::Synced,
            false => Promise::Nothing,
        })
    }
}

impl Change {
    /// Generates the change named `word` for a key of `family`; a put if the change is illegal.
    pub fn generate(
        word: &str,
        family: &str,
        first_of_batch: bool,
        generator: &mut Generator,
    ) -> (Vec<u8>, Change) {
        let key = generator.key();
        let change = match word {
            "delete" => Change::Delete,
            // The key must not occur earlier in the batch, so the single delete comes first.
            "singledelete" if first_of_batch => match generator.put_once(family) {
                Some(once) => return (once, Change::SingleDelete),
                None => Change::Put(generator.value()),
            },
            "putentity" => Change::PutEntity(some_columns(generator)),
            "merge" => Change::Merge(generator.value()),
            "deleterange" => {
                let mut end = generator.key();
                if end <= key {
                    end = [key.as_slice(), b"~"].concat();
                }
                Change::DeleteRange(end)
            }
            _ => Change::Put(generator.value()),
        };
        (key, change)
    }
}

/// Column names in scripts; `_` is the unnamed default column.
const NAMES: [&str; 4] = ["_", "a", "bb", "c"];

fn some_columns(generator: &mut Generator) -> Vec<(String, Value)> {
    let mut columns = Vec::new();
    for name in NAMES {
        if generator.rng.chance(1, 2) {
            columns.push((name.to_owned(), generator.value()));
        }
    }
    columns
}
