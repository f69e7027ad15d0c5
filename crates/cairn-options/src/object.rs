//! Options whose value is an object: an order of keys, an operator, an extractor, a place.

use std::path::PathBuf;
use std::sync::Arc;

use cairn_types::{KeyOrder, MergeOperator, PrefixExtractor, SequenceNumber};

use crate::merge;
use crate::text::{NULL, Named, Refusal, Text};

impl Text for KeyOrder {
    fn parse(text: &str) -> Result<KeyOrder, Refusal> {
        KeyOrder::from_name(text)
            .ok_or_else(|| "no built-in comparator has this name; set it in code".to_owned())
    }

    fn print(&self) -> String {
        self.name().to_owned()
    }
}

impl Text for Option<Arc<dyn MergeOperator>> {
    fn parse(text: &str) -> Result<Self, Refusal> {
        if text == NULL || text.is_empty() {
            return Ok(None);
        }
        merge::from_text(text).map(Some)
    }

    fn print(&self) -> String {
        match self {
            Some(operator) => operator.option_text(),
            None => NULL.to_owned(),
        }
    }
}

impl Named for PrefixExtractor {}

impl Text for PrefixExtractor {
    fn parse(text: &str) -> Result<PrefixExtractor, Refusal> {
        PrefixExtractor::from_name(text)
            .ok_or_else(|| "expected fixed:N, capped:N, noop or nullptr".to_owned())
    }

    fn print(&self) -> String {
        self.name()
    }
}

impl Text for PathBuf {
    fn parse(text: &str) -> Result<PathBuf, Refusal> {
        Ok(PathBuf::from(text))
    }

    fn print(&self) -> String {
        self.to_string_lossy().into_owned()
    }
}

impl Named for SequenceNumber {}

impl Text for SequenceNumber {
    fn parse(text: &str) -> Result<SequenceNumber, Refusal> {
        u64::parse(text).map(SequenceNumber)
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

impl Named for Vec<u8> {
    const NONE: &'static [&'static str] = &[NULL];
}

/// Keys and timestamps, in hexadecimal.
impl Text for Vec<u8> {
    fn parse(text: &str) -> Result<Vec<u8>, Refusal> {
        let pair = |pair: &[u8]| {
            let digits = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(digits, 16).ok()
        };
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(pair).collect();
        match bytes {
            Some(bytes) if text.len() % 2 == 0 => Ok(bytes),
            _ => Err("expected an even number of hexadecimal digits".to_owned()),
        }
    }

    fn print(&self) -> String {
        self.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
