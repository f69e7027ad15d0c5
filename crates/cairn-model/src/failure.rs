//! Failures of a run.

use std::fmt;

use cairn_types::Error;

/// A failure with its description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The description.
    pub text: String,
    /// True if the engine reported an error, which is allowed after an injected fault. False if an
    /// answer was wrong, which is never allowed.
    pub refused: bool,
}

impl Failure {
    /// A wrong answer.
    #[must_use]
    pub fn wrong(text: impl Into<String>) -> Failure {
        Failure {
            text: text.into(),
            refused: false,
        }
    }

    /// Prepends the current activity.
    #[must_use]
    pub fn at(self, doing: &str) -> Failure {
        Failure {
            text: format!("{doing}: {}", self.text),
            ..self
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure {
            text: error.to_string(),
            refused: true,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
