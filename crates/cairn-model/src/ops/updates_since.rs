//! Reads the change stream from a sequence number: `updates 17`. The stream must start at or before
//! that number (or where the logs start), be contiguous, and reach the last write; if writes are
//! unlogged or buffered, it may end earlier with an error.

use cairn_types::{Code, SequenceNumber};

use crate::failure::Failure;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "updates",
    words: &["updates"],
    weight: 1,
    switch: Some("updates"),
    read: |line| Ok(Op::new(Updates(line.number_at(0)?))),
    generate: |generator| {
        let now = generator.model.now();
        Some(Op::new(Updates(generator.rng.below(now + 1) as u64)))
    },
};

#[derive(Debug)]
struct Updates(u64);

impl Operation for Updates {
    fn line(&self) -> String {
        format!("updates {}", self.0)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        let Some(engine) = runner.engine()?.cairn() else {
            return Ok(Promise::Nothing);
        };
        let last = engine.db.latest_sequence();
        let start = SequenceNumber(self.0);
        let mut stream = match engine.db.updates_since(start) {
            Err(error) if error.code() == Code::NotFound && start > last => {
                return Ok(Promise::Nothing);
            }
            stream => stream?,
        };
        let mut next: Option<SequenceNumber> = None;
        while stream.valid() {
            let (first, batch) = stream.batch()?;
            if next.is_some_and(|next| next != first) {
                return Err(Failure::wrong(format!(
                    "the stream of updates: expected {next:?}, found {first}"
                )));
            }
            next = Some(first.plus(u64::from(batch.count())));
            stream.next();
        }
        let reached = next.map(|next| next.0 - 1);
        match stream.status() {
            Ok(()) if reached.is_some_and(|reached| reached != last.0) => {
                Err(Failure::wrong(format!(
                    "the stream of updates ends without an error at {reached:?}, expected {last}"
                )))
            }
            Err(error) if !matches!(error.code(), Code::NotFound | Code::TryAgain) => {
                Err(error.into())
            }
            _ => Ok(Promise::Nothing),
        }
    }
}
