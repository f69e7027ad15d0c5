//! Licences, sources, versions and known defects of everything that the workspace depends on, by cargo-deny.
//!
//! `deny.toml` says what is allowed. The list of known defects is a repository that cargo-deny clones, which not
//! every machine that runs the gate can reach: it is looked at by [`advisories`] alone.

use std::path::Path;

use crate::commands::cargo;
use crate::packages::{self, Part, Probe, Source};

/// The version of cargo-deny.
pub const VERSION: &str = "0.20.2";

/// Checks licences, sources, and that no crate is there in two versions unless `deny.toml` says why.
pub fn run(root: &Path) -> Result<(), String> {
    cargo(
        root,
        &["deny", "--locked", "check", "licenses", "bans", "sources"],
    )
}

/// Checks all of it and the known defects, after installing cargo-deny if it is missing.
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
