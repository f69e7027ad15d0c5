//! Reads a key, now or in a snapshot: `get default k0042 snap=1`.

use crate::compare::value_text;
use crate::failure::Failure;
use crate::line::{named, shown};
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "get",
    words: &["get"],
    weight: 12,
    switch: Some("get"),
    read: |line| {
        Ok(Op::new(Get {
            family: line.word(0)?.to_owned(),
            key: line.word(1)?.as_bytes().to_vec(),
            snapshot: line.number("snap")?,
        }))
    },
    generate: |generator| {
        Some(Op::new(Get {
            family: generator.family(),
            key: generator.key(),
            snapshot: generator.readable_snapshot(),
        }))
    },
};

#[derive(Debug)]
struct Get {
    family: String,
    key: Vec<u8>,
    snapshot: Option<u64>,
}

impl Operation for Get {
    fn line(&self) -> String {
        let snapshot = named("snap", self.snapshot.map(|number| number.to_string()));
        format!("get {} {}{snapshot}", self.family, shown(&self.key))
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        let (name, moment) = runner.moment(self.snapshot)?;
        let found = runner.engine()?.get(&self.family, &self.key, name)?;
        runner.agree(
            &found,
            |model| model.get(&self.family, &self.key, moment),
            |expected, found| {
                let (expected, found) = (expected.as_deref(), found.as_deref());
                format!(
                    "expected {}, found {}",
                    value_text(expected),
                    value_text(found)
                )
            },
        )?;
        Ok(Promise::Nothing)
    }
}
