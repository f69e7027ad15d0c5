//! Ingestion in two phases: `stage 2 copy put f0 a v:3:1 | put f0 b v:3:2` prepares each file on its own, `commit 2
//! copy ...` ingests them together, `unstage 2` drops them. The line of a commit repeats the files: if they are no longer
//! prepared, or one of their families is another one by now, they are written instead.

use cairn_db::{Family, FileIngestionHandle};
use cairn_types::Result;

use super::ingest::{clear, generate, write_instead, write_tables};
use crate::cairn::Cairn;
use crate::external_tables::{ExternalTables, Staged};
use crate::failure::Failure;
use crate::model::Model;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "stage",
    words: &["stage", "commit", "unstage"],
    weight: 2,
    switch: Some("ingest"),
    read: |line| {
        let number = line.number_at(0)?;
        let files = || {
            let rest = line.rest();
            ExternalTables::read(rest.split_once(' ').map_or("", |(_, files)| files))
        };
        Ok(match line.kind() {
            "stage" => Op::new(Stage(number, files()?)),
            "commit" => Op::new(Commit(number, files()?)),
            _ => Op::new(Unstage(number)),
        })
    },
    generate: |generator| {
        if generator.has_timestamps() {
            return None;
        }
        let oldest = generator.staged.keys().next().copied();
        let due = generator.staged.len() >= 3 || generator.rng.chance(1, 2);
        let Some(oldest) = oldest.filter(|_| due) else {
            let tables = generate(generator);
            generator.last_staged += 1;
            let number = generator.last_staged;
            generator.staged.insert(number, tables.clone());
            return Some(Op::new(Stage(number, tables)));
        };
        let tables = generator.staged.remove(&oldest)?;
        let writes = tables.writes();
        let is_there = writes
            .iter()
            .all(|write| generator.model.has_family(&write.family));
        Some(match is_there && generator.rng.chance(3, 4) {
            true => Op::new(Commit(oldest, tables)),
            false => Op::new(Unstage(oldest)),
        })
    },
};

#[derive(Debug)]
struct Stage(u64, ExternalTables);

impl Stage {
    fn carry_out(&self, cairn: &mut Cairn) -> Result<()> {
        let mut staged = Staged::default();
        for one in write_tables(&self.1, cairn, &format!("staged{}-", self.0))? {
            staged.families.push(one.family.clone());
            staged.paths.extend(one.files.clone());
            let handle = cairn.db.prepare_file_ingestion(&[one])?;
            staged.handles.push(handle);
        }
        cairn.staged.insert(self.0, staged);
        Ok(())
    }
}

impl Operation for Stage {
    fn line(&self) -> String {
        format!("stage {} {}", self.0, self.1.text())
    }

    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure> {
        if let Some(cairn) = runner.engine()?.cairn()
            && !cairn.has_timestamps()
        {
            self.carry_out(cairn)?;
        }
        Ok(Promise::Nothing)
    }
}

#[derive(Debug)]
struct Commit(u64, ExternalTables);

impl Commit {
    /// Commits the prepared files. Returns false if there are none for the present families.
    fn carry_out(&self, cairn: &mut Cairn) -> Result<bool> {
        let Some(staged) = cairn.staged.remove(&self.0) else {
            return Ok(false);
        };
        let is_present = |family: &Family| {
            let found = cairn.db.family(family.name());
            found.is_some_and(|found| found.id() == family.id())
        };
        if !staged.families.iter().all(is_present) {
            return Ok(false);
        }
        cairn.db.commit_file_ingestion_handles(staged.handles)?;
        clear(&self.1, cairn, &staged.paths)?;
        Ok(true)
    }
}

impl Operation for Commit {
    fn line(&self) -> String {
        format!("commit {} {}", self.0, self.1.text())
    }

    fn apply(&self, model: &mut Model) {
        model.write(&self.1.writes());
    }

    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure> {
        let unlogged = runner.options().unlogged;
        let engine = runner.engine()?;
        let families = engine.families();
        if unlogged {
            // After a crash unlogged data would be missing below newer, ingested data.
            engine.flush(&families)?;
        }
        let is_committed = match engine.cairn() {
            Some(cairn) => self.carry_out(cairn)?,
            None => false,
        };
        if !is_committed {
            write_instead(&self.1.writes(), engine, unlogged)?;
        }
        Ok(Promise::of_synced(unlogged, families))
    }
}

#[derive(Debug)]
struct Unstage(u64);

impl Operation for Unstage {
    fn line(&self) -> String {
        format!("unstage {}", self.0)
    }

    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure> {
        if let Some(cairn) = runner.engine()?.cairn()
            && let Some(staged) = cairn.staged.remove(&self.0)
        {
            staged
                .handles
                .into_iter()
                .for_each(FileIngestionHandle::abort);
        }
        Ok(Promise::Nothing)
    }
}
