//! Pauses, aborts and resumes background work: `hold pause`, `hold abort`, `hold ban`, `hold wait`.

use cairn_options::{CompactRangeOptions, WaitForCompactOptions};
use cairn_types::{Code, Result};

use crate::cairn::Cairn;
use crate::failure::Failure;
use crate::line::wrong;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "hold",
    words: &["hold"],
    weight: 1,
    switch: Some("hold"),
    read: |line| {
        let way = WAYS.into_iter().find(|way| Ok(*way) == line.word(0));
        let way = way.ok_or_else(|| wrong("missing mode", line.rest()))?;
        Ok(Op::new(Hold { way }))
    },
    generate: |generator| {
        Some(Op::new(Hold {
            way: WAYS[generator.rng.below(WAYS.len())],
        }))
    },
};

const WAYS: [&str; 4] = ["pause", "abort", "ban", "wait"];

#[derive(Debug)]
struct Hold {
    way: &'static str,
}

/// Returns the error code of a refused manual compaction.
fn refusal(cairn: &Cairn) -> Option<Code> {
    let options = CompactRangeOptions::default();
    let result = cairn.db.compact_range(None, None, &options);
    result.err().map(|error| error.code())
}

impl Hold {
    /// Runs the operation and returns a description of a wrong result.
    fn carry_out(&self, cairn: &Cairn) -> Result<Option<&'static str>> {
        let db = &cairn.db;
        match self.way {
            "pause" => {
                db.pause_background_work();
                let options = WaitForCompactOptions {
                    abort_on_pause: true,
                    ..WaitForCompactOptions::default()
                };
                let waited = db.wait_for_compact(&options);
                db.continue_background_work()?;
                match waited {
                    Err(error) if error.code() == Code::Aborted => Ok(None),
                    Err(error) => Err(error),
                    Ok(()) => Ok(Some("a wait ignored the pause")),
                }
            }
            "abort" | "ban" => {
                let refused = match self.way {
                    "abort" => {
                        db.abort_all_compactions();
                        let refused = refusal(cairn);
                        db.resume_all_compactions();
                        refused
                    }
                    _ => {
                        db.disable_manual_compaction();
                        let refused = refusal(cairn);
                        db.enable_manual_compaction();
                        refused
                    }
                };
                db.background_error().map_or(Ok(()), Err)?;
                Ok((refused != Some(Code::Incomplete)).then_some("a compaction was not refused"))
            }
            _ => {
                let options = WaitForCompactOptions {
                    wait_for_purge: true,
                    ..WaitForCompactOptions::default()
                };
                db.wait_for_compact(&options).map(|()| None)
            }
        }
    }
}

impl Operation for Hold {
    fn line(&self) -> String {
        format!("hold {}", self.way)
    }

    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure> {
        if let Some(cairn) = runner.engine()?.cairn()
            && let Some(wrong) = self.carry_out(cairn)?
        {
            return Err(Failure::wrong(wrong));
        }
        Ok(Promise::Nothing)
    }
}
