//! Replaces a key range by ingestion: `replace k1 k7 copy put f0 k2 v:3:1 ; delete f0 k4 | put f0 k2 v:3:2`. The tables, all
//! of one family, are written as in `ingest`.

use cairn_db::ReplaceRange;
use cairn_types::Result;

use super::ingest::{clear, file_of, write_instead, write_tables};
use crate::cairn::Cairn;
use crate::external_tables::{ExternalTables, WAYS};
use crate::failure::Failure;
use crate::line::{shown, wrong};
use crate::model::Model;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};
use crate::write_entry::{Change, Write};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "replace",
    words: &["replace"],
    weight: 2,
    switch: Some("ingest"),
    read: |line| {
        let rest = line.rest();
        let mut parts = rest.splitn(3, ' ');
        let mut part = || parts.next().ok_or_else(|| wrong("a word is missing", rest));
        let (begin, end) = (part()?.as_bytes().to_vec(), part()?.as_bytes().to_vec());
        let tables = ExternalTables::read(part()?)?;
        Ok(Op::new(Replace { begin, end, tables }))
    },
    generate: |generator| {
        if !generator.is_on("deleterange") || generator.has_timestamps() {
            return None;
        }
        let family = generator.family();
        let (a, b) = (generator.key(), generator.key());
        let (begin, end) = (a.clone().min(b.clone()), a.max(b));
        let is_inside = |write: &Write| {
            let ends_inside = match &write.change {
                Change::DeleteRange(last) => *last <= end,
                _ => write.key < end,
            };
            begin <= write.key && ends_inside
        };
        let count = 1 + generator.rng.below(2);
        let mut files = Vec::new();
        for _ in 0..count {
            let mut writes = file_of(generator, &family);
            writes.retain(is_inside);
            if !writes.is_empty() {
                files.push(writes);
            }
        }
        let way = WAYS[generator.rng.below(WAYS.len())];
        let tables = ExternalTables { way, files };
        let some = !tables.files.is_empty();
        some.then(|| Op::new(Replace { begin, end, tables }))
    },
};

#[derive(Debug)]
struct Replace {
    begin: Vec<u8>,
    end: Vec<u8>,
    tables: ExternalTables,
}

impl Replace {
    /// The deletion of the range, then the writes of the tables.
    fn writes(&self) -> Vec<Write> {
        let mut writes = self.tables.writes();
        let family = writes[0].family.clone();
        let cleared = Write {
            family,
            key: self.begin.clone(),
            change: Change::DeleteRange(self.end.clone()),
        };
        writes.insert(0, cleared);
        writes
    }

    fn carry_out(&self, cairn: &mut Cairn) -> Result<()> {
        let mut all = write_tables(&self.tables, cairn, "replacing")?.into_iter();
        let Some(mut one) = all.next() else {
            return Ok(());
        };
        for next in all {
            one.files.extend(next.files);
            one.file_infos.extend(next.file_infos);
        }
        one.replace = Some(ReplaceRange::Keys(self.begin.clone(), self.end.clone()));
        let paths = one.files.clone();
        cairn.db.ingest_external_files(&[one])?;
        clear(&self.tables, cairn, &paths)
    }
}

impl Operation for Replace {
    fn line(&self) -> String {
        let (begin, end) = (shown(&self.begin), shown(&self.end));
        format!("replace {begin} {end} {}", self.tables.text())
    }

    fn apply(&self, model: &mut Model) {
        model.write(&self.writes());
    }

    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure> {
        let unlogged = runner.options().unlogged;
        let engine = runner.engine()?;
        let families = engine.families();
        if unlogged {
            // After a crash unlogged data would be missing below newer, ingested data.
            engine.flush(&families)?;
        }
        match engine.cairn() {
            Some(cairn) if !cairn.has_timestamps() => self.carry_out(cairn)?,
            _ => write_instead(&self.writes(), engine, unlogged)?,
        }
        Ok(Promise::of_synced(unlogged, families))
    }
}
