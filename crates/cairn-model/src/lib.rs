//! The reference: what a database should answer, operations to ask it, and checkers.
//!
//! A [`Script`] is a list of operations as text. [`generate`](generate::script) writes one from a
//! seed; [`run`] carries it out on an [`Engine`] and compares every answer with the [`Model`]'s;
//! [`crash`] does so in a simulated world, then opens every disk that a crash could have left and
//! checks that what is found is the state after some number of writes, no fewer than were
//! promised to survive. [`token`] is how a failure says how to see it again.
//!
//! Only [`cairn`] knows the engine: [`engine::Engine`] is the little that scripts need of one.
//! [`toy`] is an engine so simple that it is right by inspection, and can be told to be wrong, to
//! show that the checkers notice.

pub mod cairn;
pub mod crash;
pub mod engine;
pub mod generate;
pub mod model;
pub mod ops;
pub mod run;
pub mod token;
pub mod toy;

pub use engine::{Engine, Factory, OptionSet};
pub use model::Model;
pub use ops::{Op, Script, Write};
