//! The `clients` stage: programs and bindings in other languages over the installed C library.
//!
//! Installs the libraries and builds programs with pkg-config and CMake, and runs the tests of a Python package and a Go
//! module (`prefix`), and those of Cairn's module for Python (`python_module`); runs the tests of the published crate
//! `rocksdb` with Cairn's library in place of RocksDB's (`rocksdb_crate`), and some of RocksJava's tests with the library
//! for Java (`jni`). Last it runs the commands of the documentation (`pages`).

use std::path::Path;

use crate::commands::cargo;
use crate::rocksdb_crate::{self, StandIn};
use crate::tool_requirements::Selection;
use crate::{jni, pages, prefix, python_module};

/// Runs the stage.
pub fn run(root: &Path, selection: &Selection) -> Result<(), String> {
    let stand = prefix::run(root, selection)?;
    let stand_in = StandIn::write(root, selection)?;
    if let Some(stand_in) = &stand_in {
        rocksdb_crate::test(root, stand_in)?;
    }
    if selection.has("javac") {
        jni::smoke(root)?;
    }
    if selection.has("python") {
        python_module::run(root, &[])?;
    }
    cargo(root, &["build", "--locked", "-p", "cairn-cli", "--bins"])?;
    pages::run(root, &stand, stand_in.as_ref(), selection)
}
