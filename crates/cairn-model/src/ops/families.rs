//! Creates and drops families: `createfamily f0`, `dropfamily f0`.

use crate::failure::Failure;
use crate::model::Model;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "family",
    words: &["createfamily", "dropfamily"],
    weight: 2,
    switch: Some("family"),
    read: |line| {
        let name = line.word(0)?.to_owned();
        Ok(match line.kind() {
            "createfamily" => Op::new(Create(name)),
            _ => Op::new(Drop(name)),
        })
    },
    generate: |generator| {
        if generator.names.is_empty() {
            return None;
        }
        let name = generator.rng.pick(&generator.names).clone();
        Some(match generator.model.has_family(&name) {
            true => {
                generator.changed_families = true;
                Op::new(Drop(name))
            }
            false => create(name, generator),
        })
    },
};

/// Creates a family in a script.
pub fn create(name: String, generator: &mut crate::generator::Generator) -> Op {
    generator.changed_families = true;
    Op::new(Create(name))
}

#[derive(Debug)]
struct Create(String);

impl Operation for Create {
    fn line(&self) -> String {
        format!("createfamily {}", self.0)
    }

    fn apply(&self, model: &mut Model) {
        model.create_family(&self.0);
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        runner.engine()?.create_family(&self.0)?;
        Ok(Promise::Nothing)
    }
}

#[derive(Debug)]
struct Drop(String);

impl Operation for Drop {
    fn line(&self) -> String {
        format!("dropfamily {}", self.0)
    }

    fn apply(&self, model: &mut Model) {
        model.drop_family(&self.0);
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        runner.engine()?.drop_family(&self.0)?;
        Ok(Promise::Nothing)
    }
}
