//! Compacts the keys of a range: `compact default start=k1 end=k9`.

use crate::failure::Failure;
use crate::line::named_key;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "compact",
    words: &["compact"],
    weight: 2,
    switch: Some("compact"),
    read: |line| {
        Ok(Op::new(Compact {
            family: line.word(0)?.to_owned(),
            start: line.key("start"),
            end: line.key("end"),
        }))
    },
    generate: |generator| {
        Some(Op::new(Compact {
            family: generator.family(),
            start: generator.bound(),
            end: generator.bound(),
        }))
    },
};

#[derive(Debug)]
struct Compact {
    family: String,
    start: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
}

impl Operation for Compact {
    fn line(&self) -> String {
        let (start, end) = (named_key("start", &self.start), named_key("end", &self.end));
        format!("compact {}{start}{end}", self.family)
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        let (start, end) = (self.start.as_deref(), self.end.as_deref());
        runner.engine()?.compact(&self.family, start, end)?;
        Ok(Promise::Nothing)
    }
}
