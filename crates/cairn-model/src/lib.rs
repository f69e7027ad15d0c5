//! Model-based tests: a reference model, scripts of operations, and checkers.
//!
//! A [`Script`] is a list of operations as text. [`generate`] creates one from a seed; [`run`]
//! executes it on an [`Engine`] and compares every answer with the [`Model`]; [`crash`] also opens
//! every disk image that a crash of the run could have left, and checks that the content is the
//! state after a prefix of the writes that includes all guaranteed ones. [`fault`] runs a script
//! once for each file operation and kind of failure, and checks that the failure is reported and
//! that the database recovers. A [`token`] reproduces a failure.
//!
//! Only [`cairn`] and [`cairn_factory`] depend on the engine; scripts use the narrow interface
//! [`engine::Engine`]. [`toy`] is an engine simple enough to be correct by inspection, with
//! optional bugs that the checkers must detect.
//!
//! # Adding an operation
//!
//! Write a module in `ops/` (`get.rs` and `snapshots.rs` are short examples): a [`operation::Kind`]
//! with its words, weight and switch, a parser and a generator, and an [`operation::Operation`]
//! with its line, its effect on the [`Model`], its call to the engine, and the comparison
//! ([`runner::Runner::agree`]). Add its `KIND` to [`ops::KINDS`]; nothing else changes. Calls that
//! only the real engine supports use [`Engine::cairn`]; if it is `None` (the toy engine), write the
//! same data with plain writes, or do nothing. A new *change* (an entry of a batch) is one more arm
//! in the functions of [`write_entry`], [`model`] and [`ops::write`], with a row in its `CHANGES`.
//! State of script generation belongs in [`generator::Generator`].
//!
//! # Adding options
//!
//! [`option_values`] lists the values that seeds choose from, [`option_sets::SETS`] the
//! combinations that every script is tried with. No answer may depend on either.
//!
//! # Adding a workload
//!
//! Add a row to [`workload::WORKLOADS`]: fixed options, operation kinds that are on, off or
//! frequent, and the durability of writes. `cairn-model crash --workload NAME` crash-tests it;
//! continuous integration does so for all workloads.
//!
//! # Running it
//!
//! ```text
//! cargo run -p cairn-model -- meta --count 200             every script with all named option sets
//! cargo run -p cairn-model -- crash --workload NAME --count 4
//! cargo run -p cairn-model -- fault --workload NAME --count 1 --runs 500
//! cargo run -p cairn-model -- file SCRIPT                  a hand-written script
//! ```

pub mod cairn;
pub mod cairn_factory;
pub mod compare;
pub mod crash;
pub mod engine;
pub mod external_tables;
pub mod failure;
pub mod fault;
pub mod generate;
pub mod generator;
pub mod line;
pub mod merge_kind;
pub mod model;
pub mod operation;
pub mod ops;
pub mod option_sets;
pub mod option_values;
pub mod options;
pub mod run;
pub mod runner;
pub mod scan;
pub mod script;
pub mod token;
pub mod toy;
pub mod workload;
pub mod write_entry;

pub use engine::{Engine, Factory};
pub use model::Model;
pub use operation::Op;
pub use options::OptionSet;
pub use script::Script;
