//! Compares all content with the model and verifies the structure: `check`.

use crate::failure::Failure;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "check",
    words: &["check"],
    weight: 1,
    switch: None,
    read: |_| Ok(Op::new(Check)),
    generate: |_| Some(Op::new(Check)),
};

/// Compares all content with the model.
#[derive(Debug)]
pub struct Check;

impl Operation for Check {
    fn line(&self) -> String {
        "check".to_owned()
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        runner.check_content()?;
        let leftovers = runner.allows_leftovers;
        runner.engine()?.check(leftovers)?;
        Ok(Promise::Nothing)
    }
}
