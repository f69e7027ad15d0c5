//! Parsing and formatting of script lines.

use std::str::FromStr;

use cairn_types::{Error, Result};

/// Formats bytes.
#[must_use]
pub fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Formats ` name=value`; nothing without a value.
#[must_use]
pub fn named(name: &str, value: Option<String>) -> String {
    value.map_or_else(String::new, |value| format!(" {name}={value}"))
}

/// Formats ` name=key`; nothing without a key.
#[must_use]
pub fn named_key(name: &str, key: &Option<Vec<u8>>) -> String {
    named(name, key.as_deref().map(shown))
}

/// Returns a parse error of a line.
#[must_use]
pub fn wrong(what: &str, line: &str) -> Error {
    Error::invalid_argument(format!("{what} in {line:?}"))
}

/// A line of a script: words separated by spaces, some of them `name=value`.
#[derive(Clone, Copy, Debug)]
pub struct Line<'l>(pub &'l str);

impl<'l> Line<'l> {
    /// Returns the first word.
    #[must_use]
    pub fn kind(self) -> &'l str {
        self.0.split_whitespace().next().unwrap_or("")
    }

    /// Returns everything after the first word.
    #[must_use]
    pub fn rest(self) -> &'l str {
        self.0.split_once(' ').map_or("", |(_, rest)| rest)
    }

    /// Returns a word by position, starting after the first word.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it is missing.
    pub fn word(self, number: usize) -> Result<&'l str> {
        let mut words = self.0.split_whitespace();
        let word = words.nth(number + 1);
        word.ok_or_else(|| wrong("missing word", self.0))
    }

    /// True if `flag` is one of the words.
    #[must_use]
    pub fn has(self, flag: &str) -> bool {
        self.0.split_whitespace().any(|word| word == flag)
    }

    /// Returns the value of `name=value`.
    #[must_use]
    pub fn option(self, name: &str) -> Option<&'l str> {
        let mut words = self.0.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    }

    /// Returns the value of `name=key`.
    #[must_use]
    pub fn key(self, name: &str) -> Option<Vec<u8>> {
        self.option(name).map(|text| text.as_bytes().to_vec())
    }

    /// Returns the value of `name=number`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it is not a number.
    pub fn number<N: FromStr>(self, name: &str) -> Result<Option<N>> {
        let number = |text: &str| text.parse().map_err(|_| wrong("no number", self.0));
        self.option(name).map(number).transpose()
    }

    /// Returns a word as a number.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it is not a number.
    pub fn number_at<N: FromStr>(self, word: usize) -> Result<N> {
        let text = self.word(word)?;
        text.parse().map_err(|_| wrong("no number", self.0))
    }
}
