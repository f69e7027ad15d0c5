//! Flushes families: `flush default`, `flush default f0`, and together, with `force_atomic_flush`: `flushforced default f0`.

use crate::failure::Failure;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "flush",
    words: &["flush", "flushforced"],
    weight: 3,
    switch: Some("flush"),
    read: |line| {
        line.word(0)?;
        Ok(Op::new(Flush {
            families: words(line.rest()),
            forced: line.kind() == "flushforced",
        }))
    },
    generate: |generator| {
        let families = match generator.rng.chance(1, 4) {
            true => generator.model.families(),
            false => vec![generator.family()],
        };
        let forced = generator.rng.chance(1, 3);
        Some(Op::new(Flush { families, forced }))
    },
};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[derive(Debug)]
struct Flush {
    families: Vec<String>,
    /// True to flush them together.
    forced: bool,
}

impl Operation for Flush {
    fn line(&self) -> String {
        let word = if self.forced { "flushforced" } else { "flush" };
        format!("{word} {}", self.families.join(" "))
    }

    fn flushes(&self) -> &[String] {
        &self.families
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        match runner.engine()?.cairn() {
            Some(cairn) if self.forced => cairn.flush_forced(&self.families)?,
            _ => runner.engine()?.flush(&self.families)?,
        }
        Ok(Promise::Flushed(self.families.clone()))
    }
}
