//! Empties a family by deleting whole tables: `dropfiles default`. First everything goes below
//! level 0, then a range deletion takes it, then all files of the deeper levels go in one step. In
//! this order whatever fails leaves all of it or nothing. Snapshots would notice, so there are none.

use cairn_options::CompactRangeOptions;
use cairn_types::Result;

use super::change::{Change, Write};
use super::{Kind, Operation, Promise};
use crate::cairn::Cairn;
use crate::model::Model;
use crate::run::{Failure, Runner};
use crate::script::Op;

/// The kind.
pub const KIND: Kind = Kind {
    name: "dropfiles",
    words: &["dropfiles"],
    weight: 1,
    switch: Some("dropfiles"),
    read: |line| {
        Ok(Op::new(DropFiles {
            family: line.word(0)?.to_owned(),
        }))
    },
    generate: |generator| {
        let family = generator.family();
        (!generator.has_snapshots()).then(|| Op::new(DropFiles { family }))
    },
};

#[derive(Debug)]
struct DropFiles {
    family: String,
}

impl DropFiles {
    fn write(&self) -> Write {
        Write {
            family: self.family.clone(),
            key: b"!".to_vec(),
            change: Change::DeleteRange(b"~~~".to_vec()),
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
        // What was written before must not be lost where this is not.
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
        Ok(match unlogged {
            true => Promise::Flushed(families),
            false => Promise::Logged,
        })
    }
}
