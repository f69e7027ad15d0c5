//! Closes and reopens the database, optionally with other options: `reopen`, `reopen merge=...`.

use crate::failure::Failure;
use crate::operation::{Kind, Op, Operation};
use crate::options::OptionSet;
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "reopen",
    words: &["reopen"],
    weight: 1,
    switch: Some("reopen"),
    read: |line| {
        Ok(Op::new(Reopen(match line.rest() {
            "" => None,
            options => Some(options.parse()?),
        })))
    },
    generate: |generator| {
        generator.snapshots.clear();
        generator.changed_families = false;
        let other = generator.rng.chance(1, 2);
        Some(Op::new(Reopen(other.then(|| generator.other_options()))))
    },
};

/// Closes and reopens with these options; with the previous ones if `None`.
#[derive(Debug)]
pub struct Reopen(pub Option<OptionSet>);

impl Operation for Reopen {
    fn line(&self) -> String {
        match &self.0 {
            None => "reopen".to_owned(),
            Some(options) => format!("reopen {options}"),
        }
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        let closed = runner.close();
        runner.open(self.0.clone())?;
        closed?;
        Ok(Promise::Everything)
    }

    fn with_options(&self, change: &mut dyn FnMut(&mut OptionSet)) -> Option<Op> {
        let mut options = self.0.clone()?;
        change(&mut options);
        Some(Op::new(Reopen(Some(options))))
    }
}
