//! Flushes families: `flush default`, `flush default f0`.

use crate::failure::Failure;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "flush",
    words: &["flush"],
    weight: 3,
    switch: Some("flush"),
    read: |line| {
        line.word(0)?;
        Ok(Op::new(Flush(words(line.rest()))))
    },
    generate: |generator| {
        Some(Op::new(Flush(match generator.rng.chance(1, 4) {
            true => generator.model.families(),
            false => vec![generator.family()],
        })))
    },
};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[derive(Debug)]
struct Flush(Vec<String>);

impl Operation for Flush {
    fn line(&self) -> String {
        format!("flush {}", self.0.join(" "))
    }

    fn flushes(&self) -> &[String] {
        &self.0
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        runner.engine()?.flush(&self.0)?;
        Ok(Promise::Flushed(self.0.clone()))
    }
}
