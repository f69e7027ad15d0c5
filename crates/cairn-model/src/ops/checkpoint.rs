//! Creates a checkpoint, opens it, and compares it with the current state: `checkpoint flush`,
//! `checkpoint log`.

use std::path::Path;

use cairn_types::Result;

use crate::cairn_factory::CairnFactory;
use crate::compare::content;
use crate::engine::{Engine, Factory};
use crate::failure::Failure;
use crate::line::wrong;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner, current_content};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "checkpoint",
    words: &["checkpoint"],
    weight: 1,
    switch: Some("checkpoint"),
    read: |line| Ok(Op::new(Checkpoint::read(line.rest())?)),
    generate: |generator| {
        let flush = generator.options.unlogged || generator.rng.chance(1, 2);
        Some(Op::new(Checkpoint { flush }))
    },
};

/// Directory of the checkpoint.
const DIR: &str = "/checkpoint";

#[derive(Debug)]
struct Checkpoint {
    /// True if memtables are flushed first.
    flush: bool,
}

impl Checkpoint {
    fn read(text: &str) -> Result<Checkpoint> {
        match text {
            "flush" => Ok(Checkpoint { flush: true }),
            "log" => Ok(Checkpoint { flush: false }),
            _ => Err(wrong("expected flush or log", text)),
        }
    }
}

impl Operation for Checkpoint {
    fn line(&self) -> String {
        format!("checkpoint {}", if self.flush { "flush" } else { "log" })
    }

    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure> {
        let options = runner.options().clone();
        let known = runner.model().clone();
        let engine = runner.engine()?;
        let families = engine.families();
        let Some(cairn) = engine.cairn() else {
            return Ok(Promise::Nothing);
        };
        let world = cairn.world.clone();
        let dir = Path::new(DIR);
        // Removes files left by a failed attempt.
        cairn_db::destroy(&world, dir, &Default::default(), &[])?;
        let limit = if self.flush { 0 } else { u64::MAX };
        cairn.db.create_checkpoint(dir, limit)?;
        let mut copy = CairnFactory.open(&world, dir, &options)?;
        runner.add_error_counter(copy.background_errors());
        let found = content(&mut *copy, &known)?;
        // A silently corrupted log ends early.
        let may_lack = runner.sim.fs.wrong_writes() > 0;
        if !may_lack || !found.values().all(|content| known.ever_had(content)) {
            runner.agree(&found, current_content, |expected, found| {
                let count =
                    |all: &crate::runner::Content| all.values().map(Vec::len).sum::<usize>();
                format!(
                    "wrong content of the checkpoint: {} entries, expected {}",
                    count(found),
                    count(expected)
                )
            })?;
        }
        close(copy)?;
        cairn_db::destroy(&world, dir, &Default::default(), &[])?;
        Ok(match self.flush {
            true => Promise::Flushed(families),
            false => Promise::Nothing,
        })
    }
}

fn close(copy: Box<dyn Engine>) -> Result<()> {
    copy.close()
}
