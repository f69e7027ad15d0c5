//! The reference: what a database should answer, operations to ask it, and checkers.
//!
//! A [`Script`] is a list of operations as text. [`generate`] writes one from a seed; [`run`]
//! carries it out on an [`Engine`] and compares every answer with the [`Model`]'s; [`crash`] does
//! so in a simulated world, then opens every disk that a crash could have left and checks that
//! what is found is the state after some number of writes, no fewer than were promised to survive.
//! [`fault`] runs it once for each file operation and way to fail, and checks that the database says
//! so and gets over it. [`token`] is how a failure says how to see it again.
//!
//! Only [`cairn`] knows the engine: [`engine::Engine`] is the little that scripts need of one.
//! [`toy`] is an engine so simple that it is right by inspection, and can be told to be wrong, to
//! show that the checkers notice.
//!
//! # To add an operation
//!
//! Write a module in `ops/` (`get.rs` and `snapshots.rs` are short ones): a [`ops::Kind`] with its
//! words, weight, switch, how its line is read and how a seed makes one up, and an
//! [`ops::Operation`] with its line, what it does to the [`Model`] and to the engine, and what it
//! compares ([`run::Runner::agree`]). Add its `KIND` to [`ops::KINDS`]; nothing else changes.
//! What only the real engine can do is behind [`Engine::cairn`], which is `None` in the toy: write
//! the same thing with plain writes there, or do nothing. A new *change* (something that an entry
//! of a batch does to its key) is one more arm in the functions of [`ops::batch_entry`], with a row in
//! its `CHANGES`. State that scripts need while they are written is a field of
//! [`generate::Generator`].
//!
//! # To add options
//!
//! Values that seeds may choose are rows of [`choices`]. A combination that should be tried with
//! every script is a row of [`option_sets::SETS`]. No answer may depend on either.
//!
//! # To add a workload
//!
//! A row of [`workload::WORKLOADS`]: the options that it insists on, what is on, off or frequent,
//! how its writes are made durable. `cairn-model crash --workload NAME` crashes it, and the
//! continuous integration crashes all.
//!
//! # To see that it works
//!
//! ```text
//! cargo run -p cairn-model -- meta --count 200             all named option sets, each script
//! cargo run -p cairn-model -- crash --workload NAME --count 4
//! cargo run -p cairn-model -- fault --workload NAME --count 1 --runs 500
//! cargo run -p cairn-model -- file SCRIPT                  a script that you wrote
//! ```

pub mod cairn;
pub mod compare;
pub mod crash;
pub mod engine;
pub mod fault;
pub mod generate;
pub mod line;
pub mod model;
pub mod ops;
pub mod option_sets;
pub mod option_values;
pub mod options;
pub mod run;
pub mod script;
pub mod token;
pub mod toy;
pub mod workload;

pub use engine::{Engine, Factory};
pub use model::Model;
pub use options::OptionSet;
pub use script::{Op, Script};
