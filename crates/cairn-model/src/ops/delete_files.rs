//! Empties a family by deleting whole tables: `dropfiles default`. All data is compacted below
//! level 0, then deleted by a range deletion, then all files of the deeper levels are deleted in
//! one step; a failure in this order leaves either all data or none. `clip default k1 k5` clips a
//! family to a range of keys, which also deletes tables. Both are visible to snapshots, so none may
//! be held.

use cairn_options::CompactRangeOptions;
use cairn_types::Result;

use crate::cairn::Cairn;
use crate::failure::Failure;
use crate::line::shown;
use crate::model::Model;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};
use crate::write_entry::{Change, Write};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "dropfiles",
    words: &["dropfiles", "clip"],
    weight: 1,
    switch: Some("dropfiles"),
    read: |line| {
        let family = line.word(0)?.to_owned();
        let key = |at| line.word(at).map(|word| word.as_bytes().to_vec());
        Ok(match line.kind() {
            "clip" => Op::new(Clip {
                family,
                begin: key(1)?,
                end: key(2)?,
            }),
            _ => Op::new(DropFiles { family }),
        })
    },
    generate: |generator| {
        let family = generator.family();
        if generator.has_snapshots() {
            return None;
        }
        if generator.rng.chance(1, 2) {
            return Some(Op::new(DropFiles { family }));
        }
        let (a, b) = (generator.key(), generator.key());
        Some(Op::new(Clip {
            family,
            begin: a.clone().min(b.clone()),
            end: a.max(b),
        }))
    },
};

/// Bounds below and above every key of a script.
const FIRST: &[u8] = b"!";
const LAST: &[u8] = b"~~~";

#[derive(Debug)]
struct DropFiles {
    family: String,
}

impl DropFiles {
    fn write(&self) -> Write {
        Write {
            family: self.family.clone(),
            key: FIRST.to_vec(),
            change: Change::DeleteRange(LAST.to_vec()),
        }
    }

    fn compact(&self, cairn: &Cairn) -> Result<()> {
        let family = cairn.family(&self.family)?;
        family.compact_range(None, None, &CompactRangeOptions::default())
    }

    fn delete_files(&self, cairn: &Cairn) -> Result<()> {
        let family = cairn.family(&self.family)?;
        family.delete_files_in_ranges(&[(None, None)], false)
    }
}

impl Operation for DropFiles {
    fn line(&self) -> String {
        format!("dropfiles {}", self.family)
    }

    fn apply(&self, model: &mut Model) {
        model.write(&[self.write()]);
    }

    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure> {
        let unlogged = runner.options().unlogged;
        let engine = runner.engine()?;
        let families = engine.families();
        // Earlier unlogged writes must be flushed first.
        match unlogged {
            true => engine.flush(&families)?,
            false => engine.sync_wal()?,
        }
        if let Some(cairn) = engine.cairn() {
            self.compact(cairn)?;
        }
        engine.write(&[self.write()], true)?;
        if let Some(cairn) = engine.cairn() {
            self.delete_files(cairn)?;
        }
        if unlogged {
            engine.flush(&families)?;
        }
        Ok(Promise::of_synced(unlogged, families))
    }
}

/// Clips a family to the keys from `begin` to `end`, exclusive.
#[derive(Debug)]
struct Clip {
    family: String,
    begin: Vec<u8>,
    end: Vec<u8>,
}

impl Clip {
    fn writes(&self) -> [Write; 2] {
        let outside = [(FIRST, &self.begin[..]), (&self.end[..], LAST)];
        outside.map(|(from, to)| Write {
            family: self.family.clone(),
            key: from.to_vec(),
            change: Change::DeleteRange(to.to_vec()),
        })
    }
}

impl Operation for Clip {
    fn line(&self) -> String {
        format!(
            "clip {} {} {}",
            self.family,
            shown(&self.begin),
            shown(&self.end)
        )
    }

    fn apply(&self, model: &mut Model) {
        model.write(&self.writes());
    }

    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure> {
        let unlogged = runner.options().unlogged;
        let engine = runner.engine()?;
        let families = engine.families();
        // Earlier unlogged writes must be flushed first.
        match unlogged {
            true => engine.flush(&families)?,
            false => engine.sync_wal()?,
        }
        match engine.cairn() {
            Some(cairn) => cairn.family(&self.family)?.clip(&self.begin, &self.end)?,
            None => engine.write(&self.writes(), true)?,
        }
        if unlogged {
            engine.flush(&families)?;
        }
        Ok(Promise::of_synced(unlogged, families))
    }
}
