//! Scripts: operations as text, one per line. The file is self-contained.
//!
//! ```text
//! options merge=uint64add db=[] family=[write_buffer_size=4096;] table=[block_size=256;]
//! put default k0042 v:120:7 sync
//! batch put default k1 u:5 ; delete a k2 ; deleterange a k1 k9 ; sync
//! get a k0042 snap=1
//! scan a back from=k0050 lower=k0010 upper=k0090 limit=7
//! snapshot 1
//! reopen
//! ```

use std::fmt;
use std::str::FromStr;

use cairn_types::{Error, Result};

use crate::line::{Line, wrong};
use crate::operation::Op;
use crate::ops::KINDS;
use crate::option_values::keep_unlogged;
use crate::options::OptionSet;

impl FromStr for Op {
    type Err = Error;

    fn from_str(text: &str) -> Result<Op> {
        let line = Line(text.trim());
        let kind = KINDS
            .iter()
            .find(|kind| kind.words.contains(&line.kind()))
            .ok_or_else(|| wrong("unknown operation", text))?;
        (kind.read)(line)
    }
}

/// Operations, and the options of the first open.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// Options of the first open.
    pub options: OptionSet,
    /// The operations.
    pub ops: Vec<Op>,
}

impl Script {
    /// Overrides the options of every open with these.
    #[must_use]
    pub fn with_options(&self, db: &str, family: &str, table: &str) -> Script {
        let mut change = |options: &mut OptionSet| {
            options.override_with(db, family, table);
            keep_unlogged(options);
        };
        let mut script = self.clone();
        change(&mut script.options);
        for op in &mut script.ops {
            if let Some(other) = op.with_options(&mut change) {
                *op = other;
            }
        }
        script
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "options {}", self.options)?;
        self.ops.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}

impl FromStr for Script {
    type Err = Error;

    fn from_str(text: &str) -> Result<Script> {
        let mut script = Script::default();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.strip_prefix("options ") {
                Some(options) => script.options = options.parse()?,
                None => script.ops.push(line.parse()?),
            }
        }
        Ok(script)
    }
}
