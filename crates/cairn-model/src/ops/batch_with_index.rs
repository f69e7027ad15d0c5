//! Reads a batch with index together with the database, then writes it: `indexed last put default k
//! v:3:1 ; delete a k`. With `last` the index keeps the last write of each key only, with `all`
//! every write.

use cairn_indexed::IndexedBatch;
use cairn_options::{ReadOptions, WriteOptions};
use cairn_types::Result;

use super::write::Batch;
use crate::cairn::Cairn;
use crate::failure::Failure;
use crate::line::wrong;
use crate::model::Model;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Content, Promise, Runner, current_content};
use crate::scan::Entries;
use crate::write_entry::Change;

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "indexed",
    words: &["indexed"],
    weight: 3,
    switch: Some("indexed"),
    read: |line| {
        let rest = line.rest();
        let (mode, batch) = rest.split_once(' ').unwrap_or((rest, ""));
        let last = match mode {
            "last" => true,
            "all" => false,
            other => return Err(wrong("expected last or all", other)),
        };
        let batch = batch.parse()?;
        Ok(Op::new(Indexed { last, batch }))
    },
    generate: |generator| {
        let mut batch = Batch::generate(generator);
        // The index supports single keys only.
        batch
            .writes
            .retain(|write| !matches!(write.change, Change::DeleteRange(_)));
        let last = generator.rng.chance(1, 2);
        (!batch.writes.is_empty()).then(|| Op::new(Indexed { last, batch }))
    },
};

#[derive(Debug)]
struct Indexed {
    last: bool,
    batch: Batch,
}

impl Indexed {
    fn build(&self, cairn: &Cairn) -> Result<IndexedBatch> {
        let indexed = IndexedBatch::with_order(cairn.family.comparator.clone(), self.last);
        indexed.rebuild_from(&cairn.batch(&self.batch.writes)?)?;
        Ok(indexed)
    }

    /// Returns the content of each family written to, read through the batch.
    fn read(&self, cairn: &Cairn, indexed: &IndexedBatch) -> Result<Content> {
        let options = cairn.read_options(None)?;
        let mut all = Content::new();
        for write in &self.batch.writes {
            if all.contains_key(&write.family) {
                continue;
            }
            all.insert(
                write.family.clone(),
                self.read_family(cairn, indexed, &write.family, &options)?,
            );
        }
        Ok(all)
    }

    fn read_family(
        &self,
        cairn: &Cairn,
        indexed: &IndexedBatch,
        name: &str,
        options: &ReadOptions,
    ) -> Result<Entries> {
        let family = cairn.family(name)?;
        let mut iter = indexed.iter_over(&family, family.iter_with(options), options);
        iter.seek_to_first();
        let mut entries = Entries::new();
        while iter.valid() {
            entries.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next();
        }
        iter.status()?;
        Ok(entries)
    }
}

impl Operation for Indexed {
    fn line(&self) -> String {
        let mode = if self.last { "last" } else { "all" };
        format!("indexed {mode} {}", self.batch.line())
    }

    fn apply(&self, model: &mut Model) {
        self.batch.apply(model);
    }

    fn fits(&self, model: &Model) -> bool {
        self.batch.fits(model)
    }

    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure> {
        let unlogged = runner.options().unlogged;
        let engine = runner.engine()?;
        let Some(cairn) = engine.cairn() else {
            return self.batch.run(runner);
        };
        let indexed = self.build(cairn)?;
        let found = self.read(cairn, &indexed)?;
        for write in &self.batch.writes {
            let family = cairn.family(&write.family)?;
            let options = cairn.read_options(None)?;
            let value = indexed.get_over(&family, &write.key, &options)?;
            let scanned = found[&write.family]
                .iter()
                .find(|(key, _)| *key == write.key);
            if value.as_deref() != scanned.map(|(_, value)| value.as_slice()) {
                return Err(Failure::wrong(format!(
                    "key {}: a get and a scan through the batch disagree",
                    String::from_utf8_lossy(&write.key)
                )));
            }
        }
        let options = WriteOptions {
            sync: self.batch.sync && !unlogged,
            disable_wal: unlogged,
            ..WriteOptions::default()
        };
        let expected = |model: &Model| {
            let mut model = model.clone();
            self.apply(&mut model);
            let mut expected = current_content(&model);
            expected.retain(|family, _| found.contains_key(family));
            expected
        };
        runner.agree(&found, expected, |_, _| {
            "wrong content through the batch".to_owned()
        })?;
        if let Some(cairn) = runner.engine()?.cairn() {
            indexed.write_to(&cairn.db, &options)?;
        }
        Ok(match self.batch.sync {
            true => Promise::Synced,
            false => Promise::Nothing,
        })
    }
}
