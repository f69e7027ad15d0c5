//! RocksDB's test of its C interface, `c_test.c`, on Cairn's library: a step of the stage `capi`.
//!
//! The program comes from the crate with RocksDB's sources. It consists of phases, each of which prints its name and
//! ends the process if a check fails. [`DEVIATIONS`] lists the checks that do not hold on Cairn, with the reason: they
//! are removed from the source before it is compiled. Everything else must pass. A deviation whose phase or text is not
//! in the source is an error, so that the list has no obsolete entries. The library must export every function of
//! RocksDB's header.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::commands::{cargo, compiler, fresh, output, printed, read, target};
use crate::{capi, reference};

/// A difference between RocksDB's library and Cairn's.
struct Deviation {
    phase: &'static str,
    change: Change,
    reason: &'static str,
}

/// The change of a phase that excludes a difference.
enum Change {
    /// The text from the first string up to the second one is removed.
    Remove(&'static str, &'static str),
    /// The second string follows the first one.
    Append(&'static str, &'static str),
}

const DEVIATIONS: [Deviation; 5] = [
    Deviation {
        phase: "snapshot_with_memtable_inplace_update",
        change: Change::Remove(
            "rocksdb_readoptions_set_snapshot(roptions, snap);",
            "// restore the data and options",
        ),
        reason: "snapshots work with inplace_update_support: the test expects that they do not",
    },
    Deviation {
        phase: "cuckoo_options",
        change: Change::Append(
            "rocksdb_cuckoo_options_destroy(cuckoo_options);",
            "rocksdb_options_set_block_based_table_factory(options, table_options);",
        ),
        reason: "later phases flush values of several sizes, which a Cuckoo table cannot hold: Cairn reports the error",
    },
    Deviation {
        phase: "block_based_options_auto",
        change: Change::Remove(
            "rocksdb_block_based_options_set_user_defined_index_factory_from_string(",
            "rocksdb_block_based_options_clear_user_defined_index_factory(bbo);",
        ),
        reason: "user-defined indexes are not supported: trie_index is rejected by its setter",
    },
    Deviation {
        phase: "read_options",
        change: Change::Remove(
            "rocksdb_readoptions_set_table_index_factory_from_string(",
            "rocksdb_readoptions_clear_table_index_factory(ro);",
        ),
        reason: "user-defined indexes are not supported: trie_index is rejected by its setter",
    },
    Deviation {
        phase: "generated_option_roundtrips",
        change: Change::Remove(
            "rocksdb_restore_options_set_mode(obj, 0);",
            "rocksdb_restore_options_destroy(obj);",
        ),
        reason: "RocksDB's enumeration of restore modes has no 0: it is rejected when the options are used",
    },
];

/// The line that starts a phase.
const PHASE: &str = "=== Test ";

/// The file that the program includes, and the phase that runs it.
const INCLUDED: &str = "c_api_gen/c_generated_roundtrip_tests.c.inc";
const INCLUDING: &str = "generated_option_roundtrips";

/// A header with fewer functions was not read correctly.
const FEWEST: usize = 1_700;

/// Seconds after which the program is ended.
const LIMIT: &str = "300";

/// Builds Cairn's library and runs the test.
pub fn alone(root: &Path) -> Result<(), String> {
    cargo(
        root,
        &["build", "--locked", "--package", "cairn-librocksdb"],
    )?;
    run(root, &target(root).join("debug"))
}

/// Compiles the program with Cairn's library in `libraries`, and runs it.
pub fn run(root: &Path, libraries: &Path) -> Result<(), String> {
    let work = target(root).join("c-test");
    fresh(&work)?;
    let sources = reference::sources(&work.join("crate"))?.join("rocksdb");
    exports(&sources.join("include/rocksdb/c.h"), libraries)?;
    let original = read(&sources.join("db/c_test.c"))?;
    let included = read(&sources.join(INCLUDED))?;
    let changed = changed(&original, &included, &DEVIATIONS)?;
    let (source, program) = (work.join("c_test.c"), work.join("c_test"));
    std::fs::write(&source, changed).map_err(|error| format!("{}: {error}", source.display()))?;
    printed(
        compiler()
            .args(["-g", "-w", "-I"])
            .arg(sources.join("include"))
            .arg(&source)
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(libraries)
            .arg("-lrocksdb"),
    )?;
    capi::link_by_soname(libraries)?;
    let files = work.join("files");
    fresh(&files)?;
    let done = output(
        Command::new("timeout")
            .arg(LIMIT)
            .arg(&program)
            .env("LD_LIBRARY_PATH", libraries)
            .env("TEST_TMPDIR", &files),
    )?;
    let words = String::from_utf8_lossy(&done.stderr);
    let ran: Vec<&str> = words
        .lines()
        .filter_map(|line| line.strip_prefix(PHASE))
        .collect();
    let last = ran.last().copied().unwrap_or_default();
    if !done.status.success() {
        let message = words.lines().last().unwrap_or_default();
        return Err(format!(
            "c_test of RocksDB {} failed in the phase {last} with {}: {message}",
            reference::RELEASE,
            done.status
        ));
    }
    let expected = phases(&original).count();
    if ran.len() != expected {
        return Err(format!(
            "c_test ran {} of {expected} phases, the last of which is {last}",
            ran.len()
        ));
    }
    report(&ran);
    Ok(())
}

/// Checks that the library exports each function that RocksDB's `header` declares.
fn exports(header: &Path, libraries: &Path) -> Result<(), String> {
    let text = read(header)?;
    let listed = printed(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(libraries.join("librocksdb.so")),
    )?;
    let exported: BTreeSet<&str> = listed
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .collect();
    let declared: BTreeSet<&str> = declared(&text).collect();
    let missing: Vec<_> = declared.difference(&exported).collect();
    if declared.len() < FEWEST || !missing.is_empty() {
        return Err(format!(
            "of the {} functions that RocksDB {} declares, librocksdb.so lacks {missing:?}",
            declared.len(),
            reference::RELEASE
        ));
    }
    println!(
        "librocksdb.so exports the {} functions of RocksDB {}",
        declared.len(),
        reference::RELEASE
    );
    Ok(())
}

/// The functions that the header with this `text` declares.
fn declared(text: &str) -> impl Iterator<Item = &str> {
    let declarations = text.split("extern ROCKSDB_LIBRARY_API").skip(1);
    declarations.filter_map(|rest| {
        let (before, _) = rest.split_once('(')?;
        let name = before.rsplit(|char: char| !char.is_ascii_alphanumeric() && char != '_');
        name.into_iter().next()
    })
}

fn report(ran: &[&str]) {
    println!(
        "c_test of RocksDB {}: {} phases passed; in {} of them checks are changed:",
        reference::RELEASE,
        ran.len(),
        DEVIATIONS.len()
    );
    for one in &DEVIATIONS {
        println!("  {}: {}", one.phase, one.reason);
    }
}

/// The names of the phases of the program `source`, in order.
fn phases(source: &str) -> impl Iterator<Item = &str> {
    let starts = source.split("\n  StartPhase(\"").skip(1);
    starts.filter_map(|rest| rest.split('"').next())
}

/// Returns the program `source` with the `deviations`, and with the text `included` in place of the directive that
/// includes it.
fn changed(source: &str, included: &str, deviations: &[Deviation]) -> Result<String, String> {
    let directive = format!("#include \"{INCLUDED}\"\n");
    let (before, after) = source
        .split_once(&directive)
        .ok_or_else(|| format!("c_test.c does not include {INCLUDED}"))?;
    let names: BTreeSet<&str> = phases(source).collect();
    if let Some(missing) = deviations.iter().find(|one| !names.contains(one.phase)) {
        return Err(format!(
            "c_test.c has no phase {}: remove it from xtask/src/c_test.rs",
            missing.phase
        ));
    }
    let (mut included, mut program) = (included.to_owned(), after.to_owned());
    for one in deviations {
        if one.phase == INCLUDING {
            included = one.apply(&included)?;
            continue;
        }
        let start = program
            .find(&format!("StartPhase(\"{}\");", one.phase))
            .ok_or_else(|| one.obsolete())?;
        let rest = &program[start + 1..];
        let end = rest
            .find("\n  StartPhase(\"")
            .map_or(program.len(), |len| start + 1 + len);
        let phase = one.apply(&program[start..end])?;
        program.replace_range(start..end, &phase);
    }
    Ok([before, &included, &program].concat())
}

impl Deviation {
    fn obsolete(&self) -> String {
        format!(
            "the phase {} of c_test.c has changed: adapt xtask/src/c_test.rs",
            self.phase
        )
    }

    /// Returns the text `phase` with the change.
    fn apply(&self, phase: &str) -> Result<String, String> {
        let at = |text: &str| phase.find(text).ok_or_else(|| self.obsolete());
        Ok(match self.change {
            Change::Remove(from, to) => {
                let (from, to) = (at(from)?, at(to)?);
                if to < from {
                    return Err(self.obsolete());
                }
                format!("{}{}", &phase[..from], &phase[to..])
            }
            Change::Append(after, text) => {
                let end = at(after)? + after.len();
                format!("{}\n    {text}{}", &phase[..end], &phase[end..])
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "first\n#include \"c_api_gen/c_generated_roundtrip_tests.c.inc\"\n\
        int main() {\n  StartPhase(\"one\");\n  {\n    a();\n    b();\n    c();\n  }\n  \
        StartPhase(\"two\");\n  {\n    a();\n    b();\n  }\n  StartPhase(\"generated_option_roundtrips\");\n  run();\n}\n";

    fn with(phase: &'static str, change: Change) -> Result<String, String> {
        let one = Deviation {
            phase,
            change,
            reason: "",
        };
        changed(SOURCE, "inc x();\nz();\n", &[one])
    }

    #[test]
    fn a_phase_is_changed_and_no_other() {
        let unchanged = SOURCE.replace(
            "#include \"c_api_gen/c_generated_roundtrip_tests.c.inc\"\n",
            "inc x();\nz();\n",
        );
        let removed = with("one", Change::Remove("b();", "c();")).unwrap();
        assert_eq!(removed, unchanged.replace("b();\n    c();", "c();"));
        let appended = with("two", Change::Append("b();", "d();")).unwrap();
        assert_eq!(
            appended,
            unchanged.replace(
                "b();\n  }\n  StartPhase(\"gen",
                "b();\n    d();\n  }\n  StartPhase(\"gen"
            )
        );
        let included = with(INCLUDING, Change::Remove("x();", "z();")).unwrap();
        assert_eq!(included, unchanged.replace("x();\nz();", "z();"));
        let names: Vec<_> = phases(SOURCE).collect();
        assert_eq!(names, ["one", "two", INCLUDING]);
    }

    #[test]
    fn the_functions_of_a_header_are_found() {
        let text = "#define X f(1)\nextern ROCKSDB_LIBRARY_API rocksdb_t* rocksdb_open(\n    int x);\n\
            extern ROCKSDB_LIBRARY_API void\nrocksdb_close(void (*f)(int));\n";
        let names: Vec<_> = declared(text).collect();
        assert_eq!(names, ["rocksdb_open", "rocksdb_close"]);
    }

    #[test]
    fn obsolete_deviations_are_errors() {
        let missing = with("three", Change::Append("b();", "d();")).unwrap_err();
        assert!(missing.contains("no phase three"), "{missing}");
        for change in [
            Change::Remove("c();", "b();"),
            Change::Remove("b();", "q();"),
            Change::Append("q();", "d();"),
        ] {
            let error = with("one", change).unwrap_err();
            assert!(
                error.contains("the phase one of c_test.c has changed"),
                "{error}"
            );
        }
        // The text is in another phase.
        with("two", Change::Remove("a();", "c();")).unwrap_err();
    }
}
