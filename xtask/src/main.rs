//! The house rules, and the one command that runs every test.
//!
//! ```text
//! cargo xtask test [STAGE...] [--without NAME]...
//!                              the stages of the continuous integration, or those named: lint unit crash
//!                              fault meta interop capi fuzz soak counts; missing tools are installed, or fail
//!                              the run unless --without names them (a stage, or a tool of tool_requirements.rs)
//! cargo xtask tidy             the house rules alone (a second; part of lint)
//! cargo xtask compat           writes the lists of options in docs/compatibility.md
//! cargo xtask header [check]   writes capi/include from the definitions in capi/, or compares
//! cargo xtask counts [update] instructions of twelve paths against bench/instructions.txt
//! cargo xtask advisories       known defects of dependencies, by the list that cargo-deny downloads
//! cargo xtask loom             every interleaving that loom tries of what has no locks (part of unit)
//! cargo xtask soak --minutes 60
//!                              all kinds of load on real files against a model; fails if memory, threads or
//!                              descriptors grow (part of test for 20 seconds)
//! cargo xtask reference        RocksDB's newest library for this processor, to compare with
//! cargo xtask pgo              command line and C libraries, optimized by a profile
//! cargo xtask install --prefix DIR [--libdir lib] [--debug]
//!                              the C libraries, headers and what build systems find them by
//! ```

mod archive;
mod capi;
mod commands;
mod compat;
mod deny;
mod exchange;
mod go;
mod header;
mod install;
mod instruction_counts;
mod leaks;
mod loom;
mod packages;
mod pgo;
mod prefix;
mod python;
mod reference;
mod registry;
mod soak;
mod sources;
mod stages;
mod tidy;
mod tool_requirements;
mod unsupported;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        Some("tidy") if words.len() == 1 => tidy::run(&root()),
        Some("header") if words.len() == 1 => header::run(&root(), false),
        Some("header") if words[1..] == ["check"] => header::run(&root(), true),
        Some("compat") if words.len() == 1 => compat::run(&root()),
        Some("advisories") if words.len() == 1 => deny::advisories(&root()),
        Some("counts") if words.len() == 1 => instruction_counts::run(&root(), false),
        Some("counts") if words[1..] == ["update"] => instruction_counts::run(&root(), true),
        Some("loom") if words.len() == 1 => loom::run(&root()),
        Some("pgo") if words.len() == 1 => pgo::run(&root()),
        Some("install") => install::run(&root(), &words[1..]),
        Some("reference") if words.len() == 1 => reference::run(&root()),
        Some("soak") => soak::run(&root(), &words[1..]),
        Some("test") => stages::run(&root(), &words[1..]),
        _ => Err("cargo xtask tidy, cargo xtask compat, cargo xtask header, cargo xtask counts [update], cargo xtask advisories, cargo xtask install --prefix DIR, cargo xtask soak --minutes N, cargo xtask reference, or cargo xtask test [STAGE...] [--without NAME]".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("xtask: {words}");
            ExitCode::FAILURE
        }
    }
}

/// The folder that the workspace lies in.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the root")
        .to_owned()
}
