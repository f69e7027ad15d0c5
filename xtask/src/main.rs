//! The workspace's automation: tests, style checks, generated files, installation.
//!
//! ```text
//! cargo xtask test [STAGE...] [--without NAME]...
//!                              run all stages of continuous integration, or the given ones: lint unit crash
//!                              fault meta interop capi streams fuzz soak counts. Missing tools are installed; one that
//!                              cannot be installed fails the run, unless --without names it or its stage
//!                              (tool_requirements.rs)
//! cargo xtask tidy             check the style rules (takes a second; part of lint)
//! cargo xtask compat           regenerate the lists of options in docs/compatibility.md
//! cargo xtask header [check]   generate capi/include from the definitions in capi/, or compare
//! cargo xtask counts [update]  compare the instructions, system calls, allocations and copied bytes of
//!                              twenty code paths with bench/path_costs.txt, or update it
//! cargo xtask advisories       check dependencies against the advisory database of cargo-deny
//! cargo xtask loom             run the loom tests of lock-free code (part of unit)
//! cargo xtask miri             run tests of raw memory under Miri (needs a nightly toolchain)
//! cargo xtask tsan             run concurrent tests of the block cache under the thread sanitizer (nightly)
//! cargo xtask soak --minutes 60
//!                              run all kinds of load on real files and compare with a model; fails if memory,
//!                              threads or descriptors grow (20 seconds are part of test)
//! cargo xtask pages [--without NAME]...
//!                              run the commands of the README and of docs/guide (part of clients)
//! cargo xtask c-test           run RocksDB's test of its C interface with Cairn's library (part of capi)
//! cargo xtask reference        build RocksDB's newest library for this CPU, for comparisons
//! cargo xtask pgo              build the command line tool and the C libraries with a profile
//! cargo xtask jni [test [CLASS]... | releases | stress [CALLS [MINUTES]]]
//!                              build librocksdbjni.so and compare its native methods with the class files of
//!                              RocksJava's jars; test runs RocksJava's own unit tests with it (needs a JDK, Maven);
//!                              stress calls it 100 million times under -Xcheck:jni
//! cargo xtask package [test]   make Debian packages, a tarball, the wheel, a jar and an SBOM, and try each
//! cargo xtask package reproduce  make them twice, in two directories, and compare
//! cargo xtask python [test | bench | wheel]
//!                              build the Python module, and run its tests or its comparison with rocksdict
//! cargo xtask jni bench [--library DIR] [--rounds N] [--seconds N] [NAME]...
//!                              compare RocksJava's methods on librocksdbjni.so and on RocksDB's library with JMH
//! cargo xtask kafka-streams [--short | test [--release VERSION] [CLASS]...] [--library DIR] [SETTING=VALUE]...
//!                              compare a Kafka Streams application on librocksdbjni.so and on RocksDB's library; test
//!                              runs Kafka Streams' own tests of its stores with both (needs a JDK, Maven)
//! cargo xtask install --prefix DIR [--libdir lib] [--debug]
//!                              install the C libraries, headers, pkg-config and CMake files
//! ```

mod archive;
mod c_test;
mod capi;
mod circles;
mod clients;
mod commands;
mod compat;
mod deny;
mod exchange;
mod go;
mod header;
mod install;
mod java;
mod java_programs;
mod jni;
mod jni_bench;
mod kafka_streams;
mod leaks;
mod limits;
mod loom;
mod microbench;
mod nightly;
mod package;
mod packages;
mod pages;
mod path_costs;
mod pgo;
mod prefix;
mod python;
mod python_module;
mod reference;
mod registry;
mod rocksdb_crate;
mod side_by_side;
mod soak;
mod sources;
mod stages;
mod tidy;
mod tool_requirements;
mod untested;

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
        Some("counts") if words.len() == 1 => path_costs::run(&root(), false),
        Some("counts") if words[1..] == ["update"] => path_costs::run(&root(), true),
        Some("loom") if words.len() == 1 => loom::run(&root()),
        Some("microbench") => microbench::run(&root(), &words[1..]),
        Some("miri") if words.len() == 1 => nightly::miri(&root()),
        Some("tsan") if words.len() == 1 => nightly::thread_sanitizer(&root()),
        Some("asan") if words.len() == 1 => nightly::address_sanitizer(&root()),
        Some("pgo") if words.len() == 1 => pgo::run(&root()),
        Some("jni") if words.get(1).is_some_and(|word| word == "bench") => {
            jni_bench::run(&root(), &words[2..])
        }
        Some("jni") => jni::run(&root(), &words[1..]),
        Some("package") => package::run(&root(), &words[1..]),
        Some("python") => python_module::run(&root(), &words[1..]),
        Some("kafka-streams") => kafka_streams::run(&root(), &words[1..]),
        Some("install") => install::run(&root(), &words[1..]),
        Some("c-test") if words.len() == 1 => c_test::alone(&root()),
        Some("reference") if words.len() == 1 => reference::run(&root()),
        Some("pages") => pages::alone(&root(), &words[1..]),
        Some("soak") => soak::run(&root(), &words[1..]),
        Some("test") => stages::run(&root(), &words[1..]),
        _ => Err("cargo xtask tidy, cargo xtask compat, cargo xtask header, cargo xtask counts [update], cargo xtask advisories, cargo xtask pages [--without NAME]..., cargo xtask loom, cargo xtask microbench --against LIBRARY, cargo xtask miri, cargo xtask tsan, cargo xtask asan, cargo xtask install --prefix DIR, cargo xtask jni [test [CLASS]... | releases | stress [CALLS [MINUTES]]], cargo xtask jni bench [NAME]..., cargo xtask kafka-streams [--short | test], cargo xtask package [test | reproduce], cargo xtask python [test | bench | wheel], cargo xtask soak --minutes N, cargo xtask reference, cargo xtask c-test, or cargo xtask test [STAGE...] [--without NAME]".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("xtask: {words}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is in the workspace's root")
        .to_owned()
}
