//! Switches the memtables of all families and the log, without waiting for the flush: `switch`.

use cairn_options::FlushOptions;

use crate::failure::Failure;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "switch",
    words: &["switch"],
    weight: 1,
    switch: Some("switch"),
    read: |_| Ok(Op::new(Switch)),
    generate: |_| Some(Op::new(Switch)),
};

#[derive(Debug)]
struct Switch;

impl Operation for Switch {
    fn line(&self) -> String {
        "switch".to_owned()
    }

    fn run(&self, runner: &mut Runner<'_>) -> Result<Promise, Failure> {
        if let Some(cairn) = runner.engine()?.cairn() {
            // With `atomic_flush`, a flush of one family would not keep the others consistent with it.
            let options = FlushOptions {
                wait: false,
                allow_write_stall: true,
                ..FlushOptions::default()
            };
            cairn.db.flush_families_with(&[], &options)?;
        }
        Ok(Promise::Nothing)
    }
}
