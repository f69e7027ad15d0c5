//! Licences, sources, duplicate versions and advisories of all dependencies, checked by cargo-deny.
//!
//! `deny.toml` holds the policy. cargo-deny clones the advisory database, which not every machine that
//! runs the tests can reach, so only [`advisories`] checks it.

use std::path::Path;

use crate::commands::cargo;
use crate::packages::{self, Part, Probe, Source};

/// The version of cargo-deny.
pub const VERSION: &str = "0.20.2";

/// Checks licences, sources and duplicate versions.
pub fn run(root: &Path) -> Result<(), String> {
    cargo(
        root,
        &["deny", "--locked", "check", "licenses", "bans", "sources"],
    )
}

/// Checks everything, advisories included. Installs cargo-deny if it is missing.
pub fn advisories(root: &Path) -> Result<(), String> {
    let part = Part {
        probe: Probe::Succeeds(&["cargo", "deny", "--version"]),
        source: Source::Crate("cargo-deny", VERSION),
    };
    let missing = packages::missing([&part]);
    if let Some(why) = packages::install(&missing).into_iter().next() {
        return Err(why);
    }
    cargo(root, &["deny", "--locked", "check"])
}
