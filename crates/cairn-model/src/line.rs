//! Words of a script's line, for those who read them.

use std::str::FromStr;

use cairn_types::{Error, Result};

/// Bytes as a script shows them.
#[must_use]
pub fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// ` name=value`, or nothing if there is no value.
#[must_use]
pub fn named(name: &str, value: Option<String>) -> String {
    value.map_or_else(String::new, |value| format!(" {name}={value}"))
}

/// ` name=key`, or nothing if there is no key.
#[must_use]
pub fn named_key(name: &str, key: &Option<Vec<u8>>) -> String {
    named(name, key.as_deref().map(shown))
}

/// That a line cannot be read.
#[must_use]
pub fn wrong(what: &str, line: &str) -> Error {
    Error::invalid_argument(format!("{what} in {line:?}"))
}

/// A line of a script: words between spaces, some of them `name=value`.
#[derive(Clone, Copy, Debug)]
pub struct Line<'l>(pub &'l str);

impl<'l> Line<'l> {
    /// The first word.
    #[must_use]
    pub fn kind(self) -> &'l str {
        self.0.split_whitespace().next().unwrap_or("")
    }

    /// What follows the first word.
    #[must_use]
    pub fn rest(self) -> &'l str {
        self.0.split_once(' ').map_or("", |(_, rest)| rest)
    }

    /// The word behind so many words, not counting the first.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if there is none.
    pub fn word(self, number: usize) -> Result<&'l str> {
        let mut words = self.0.split_whitespace();
        let word = words.nth(number + 1);
        word.ok_or_else(|| wrong("a word is missing", self.0))
    }

    /// True if `flag` is one of the words.
    #[must_use]
    pub fn has(self, flag: &str) -> bool {
        self.0.split_whitespace().any(|word| word == flag)
    }

    /// The value of `name=value`.
    #[must_use]
    pub fn option(self, name: &str) -> Option<&'l str> {
        let mut words = self.0.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// The same as a key.
    #[must_use]
    pub fn key(self, name: &str) -> Option<Vec<u8>> {
        self.option(name).map(|text| text.as_bytes().to_vec())
    }

    /// The same as a number.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it is none.
    pub fn number<N: FromStr>(self, name: &str) -> Result<Option<N>> {
        let number = |text: &str| text.parse().map_err(|_| wrong("no number", self.0));
        self.option(name).map(number).transpose()
    }

    /// A word as a number.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it is none.
    pub fn number_at<N: FromStr>(self, word: usize) -> Result<N> {
        let text = self.word(word)?;
        text.parse().map_err(|_| wrong("no number", self.0))
    }
}
