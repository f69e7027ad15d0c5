//! Operations and their kinds.

use std::fmt::{self, Debug};
use std::ops::Deref;
use std::sync::Arc;

use cairn_types::Result;

use crate::failure::Failure;
use crate::generator::Generator;
use crate::line::Line;
use crate::model::Model;
use crate::options::OptionSet;
use crate::runner::{Promise, Runner};

/// A kind of operation.
pub struct Kind {
    /// Its name in workloads.
    pub name: &'static str,
    /// The words that its lines start with.
    pub words: &'static [&'static str],
    /// Its weight, relative to the sum of all weights. A kind that is off or not applicable is
    /// replaced by a write.
    pub weight: usize,
    /// The switch with which a seed disables it, possibly shared with other kinds; `None` if it is
    /// always enabled.
    pub switch: Option<&'static str>,
    /// Parses a line that starts with one of the words.
    pub read: fn(Line<'_>) -> Result<Op>,
    /// Generates an operation that is valid in the current state, if there is one.
    pub generate: fn(&mut Generator) -> Option<Op>,
}

/// An operation of a script.
pub trait Operation: Debug + Send + Sync {
    /// Returns its line in a script, which [`Kind::read`] parses.
    fn line(&self) -> String;

    /// Applies it to the model. Also called during script generation, and for a failed operation
    /// that may have taken effect.
    fn apply(&self, _model: &mut Model) {}

    /// True if it can succeed in this state. States in which it cannot are excluded once it
    /// succeeds.
    fn fits(&self, _model: &Model) -> bool {
        true
    }

    /// Calls the engine and compares its answer with the model, to which the operation is applied
    /// *afterwards*. Errors of the engine are propagated with `?`; a wrong answer is a
    /// [`Failure::wrong`] or an error of [`Runner::agree`].
    ///
    /// # Errors
    ///
    /// An error of the engine, or a wrong answer.
    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure>;

    /// Returns the families that the operation flushes individually.
    fn flushes(&self) -> &[String] {
        &[]
    }

    /// Returns the operation with changed options, if it opens the database with options.
    fn with_options(&self, _change: &mut dyn FnMut(&mut OptionSet)) -> Option<Op> {
        None
    }
}

/// An operation of any kind. Two are equal if their lines are.
#[derive(Clone)]
pub struct Op(Arc<dyn Operation>);

impl Op {
    /// Wraps an operation.
    #[must_use]
    pub fn new(operation: impl Operation + 'static) -> Op {
        Op(Arc::new(operation))
    }
}

impl Deref for Op {
    type Target = dyn Operation;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for Op {
    fn eq(&self, other: &Op) -> bool {
        self.line() == other.line()
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line())
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line())
    }
}
