//! Style rules that a program can check. Each violation is reported as an instruction to fix it.

use std::path::Path;

use crate::circles;
use crate::compat;
use crate::limits;
use crate::sources::{self, Source};
use crate::untested;

/// The crates, lowest layer first: a crate depends only on crates before it.
const LAYERS: [&str; 35] = [
    "cairn-types",
    "cairn-compress",
    "cairn-format",
    "cairn-platform",
    "cairn-observe",
    "cairn-memory",
    "cairn-locks",
    "cairn-options",
    "cairn-memtable",
    "cairn-wal",
    "cairn-table",
    "cairn-blob",
    "cairn-version",
    "cairn-read",
    "cairn-jobs",
    "cairn-db",
    "cairn-indexed",
    "cairn-txn",
    "cairn-backup",
    "cairn-follow",
    "cairn",
    "cairn-capi",
    "cairn-librocksdb",
    "librocksdb-sys",
    "cairn-rocksdbjni",
    "cairn-bench",
    "cairn-microbench",
    "cairn-paths",
    "cairn-cli",
    "cairn-sim",
    "cairn-model",
    "cairn-fuzz",
    "cairn-interop",
    "cairn-soak",
    "xtask",
];

/// Each of these crates owns one file type, and none depends on another.
const APART: [&str; 4] = ["cairn-memtable", "cairn-wal", "cairn-table", "cairn-blob"];

/// Folders, and text that must not occur in them: components do not depend on the database, and the code for
/// files calls components instead of accessing their state.
const SEAMS: [(&str, &[&str]); 5] = [
    (
        "crates/cairn-db/src/catalog/",
        &["crate::shared", "crate::files"],
    ),
    ("crates/cairn-db/src/jobs/scheduler/", &["crate::shared"]),
    ("crates/cairn-db/src/telemetry/", &["crate::shared"]),
    ("crates/cairn-db/src/write/commit/", &["crate::shared"]),
    (
        "crates/cairn-db/src/files/",
        &[
            "crate::shared",
            ".tree.",
            ".writes.",
            ".signals.",
            ".changed.",
        ],
    ),
];

/// The files and folders in which `unsafe` is allowed.
const UNSAFE_ALLOWED: [&str; 11] = [
    "capi/src/",
    "jvm/src/",
    "python/src/pinned.rs",
    "crates/cairn-memtable/src/",
    "crates/cairn-platform/src/",
    "crates/cairn-compress/src/lz4.rs",
    "crates/cairn-fuzz/src/memory_limit.rs",
    "bench/src/",
    "tests/interop/src/twin/",
    "tests/soak/src/resources.rs",
    "crates/cairn-memory/src/",
];

/// The modules of cairn-format, and the fuzz target of each.
const FUZZED: [(&str, &str); 27] = [
    ("backup", "backup_meta"),
    ("compaction_service", "compaction_service"),
    ("coding", "varint_key"),
    ("dated", "dated_values"),
    ("key", "varint_key"),
    ("checksum", "footer_meta_props"),
    ("hash", "filter"),
    ("id", "footer_meta_props"),
    ("block", "block"),
    ("filter", "filter"),
    ("flat", "flat_table"),
    ("protection", "block"),
    ("range_del", "range_del"),
    ("table", "footer_meta_props"),
    ("trace", "trace"),
    ("log", "wal"),
    ("batch", "write_batch"),
    ("manifest", "manifest"),
    ("blob", "blob_file"),
    ("cache_segment", "cache_segment"),
    ("cache_dump", "cache_dump"),
    ("wide", "wide_columns"),
    ("options_text", "options_text"),
    ("names", "names"),
    ("prepared_file", "prepared_file"),
    ("record_text", "compaction_service"),
    ("seqno_times", "footer_meta_props"),
];

/// Limit in bytes on the fuzzing corpus, and on the golden databases.
const CORPUS_LIMIT: u64 = 3 << 20;
const GOLDEN_LIMIT: u64 = 30 << 20;

/// Checks every rule and prints each violation.
pub fn run(root: &Path) -> Result<(), String> {
    let rust = sources::rust(root);
    let mut complaints = Vec::new();
    for source in &rust {
        opening(source, &mut complaints);
        reasons(source, &mut complaints);
        leftovers(source, &mut complaints);
        seams(source, &mut complaints);
    }
    circles::check(&rust, &mut complaints);
    modules(&rust, &mut complaints);
    limits::check(&rust, &mut complaints);
    layers(root, &mut complaints);
    untested::check(&manifests(root), &rust, &mut complaints);
    architecture(root, &mut complaints);
    dependencies(root, &mut complaints);
    compat::check(root, &mut complaints);
    fuzz_targets(root, &mut complaints);
    folder_size(root, "fuzz/corpus", CORPUS_LIMIT, &mut complaints);
    folder_size(root, "tests/golden", GOLDEN_LIMIT, &mut complaints);
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    if complaints.is_empty() {
        println!("tidy: {} files, no violations", rust.len());
        return Ok(());
    }
    Err(format!("tidy found {} violations", complaints.len()))
}

fn opening(source: &Source, complaints: &mut Vec<String>) {
    if !source
        .text
        .trim_start_matches("#![no_main]\n")
        .starts_with("//!")
    {
        complaints.push(format!(
            "{}: a file begins with `//!` and a sentence about its purpose",
            source.path
        ));
    }
}

/// True if `code`, a line, begins an unsafe block or implementation outside of string literals.
fn has_unsafe(code: &str) -> bool {
    code.match_indices("unsafe ").any(|(at, word)| {
        let rest = &code[at + word.len()..];
        let in_string = code[..at].matches('"').count() % 2 == 1;
        !in_string && (rest.starts_with('{') || rest.starts_with("impl"))
    })
}

/// Checks that every `unsafe` block and implementation is in an allowed place, with a `// SAFETY:`
/// comment above.
fn reasons(source: &Source, complaints: &mut Vec<String>) {
    let lines: Vec<&str> = source.text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        if !has_unsafe(code) {
            continue;
        }
        if !UNSAFE_ALLOWED
            .iter()
            .any(|place| source.path.starts_with(place))
        {
            complaints.push(format!(
                "{}:{}: `unsafe` is allowed only in the places listed in xtask/src/tidy.rs",
                source.path,
                number + 1
            ));
        }
        let above = &lines[number.saturating_sub(8)..=number];
        if !above.iter().any(|line| line.contains("SAFETY:")) {
            complaints.push(format!(
                "{}:{}: `unsafe` needs a `// SAFETY:` comment above it",
                source.path,
                number + 1
            ));
        }
    }
}

fn leftovers(source: &Source, complaints: &mut Vec<String>) {
    if source.path.starts_with("xtask/") {
        return;
    }
    for (number, line) in source.text.lines().enumerate() {
        for left in ["todo!(", "unimplemented!(", "dbg!("] {
            if line.contains(left) {
                let at = number + 1;
                complaints.push(format!(
                    "{}:{at}: `{left})` is not allowed in committed code",
                    source.path
                ));
            }
        }
    }
}

/// Checks that every file in a folder of modules is one: a file that no module declares is not compiled.
fn modules(rust: &[Source], complaints: &mut Vec<String>) {
    let is_declared = |parents: &[String], name: &str, file: &str| {
        let words = [format!("mod {name};"), format!("\"{file}\"]")];
        rust.iter().any(|source| {
            parents.contains(&source.path) && words.iter().any(|word| source.text.contains(word))
        })
    };
    for source in rust {
        let Some((folder, file)) = source.path.rsplit_once('/') else {
            continue;
        };
        let is_root = ["main.rs", "lib.rs", "build.rs"].contains(&file);
        let holds_roots = ["tests", "benches", "examples", "bin", "fuzz_targets"];
        let (above, own) = folder.rsplit_once('/').unwrap_or(("", folder));
        if is_root || holds_roots.contains(&own) {
            continue;
        }
        let (folder, name) = match file {
            "mod.rs" => (above, own),
            _ => (folder, file.trim_end_matches(".rs")),
        };
        let inside = rust.iter().map(|source| &source.path);
        let siblings =
            inside.filter(|path| path.rsplit_once('/').is_some_and(|(of, _)| of == folder));
        let parents: Vec<String> = siblings.cloned().chain([format!("{folder}.rs")]).collect();
        if !is_declared(&parents, name, file) {
            complaints.push(format!(
                "{}: no module declares this file, so it is not compiled",
                source.path
            ));
        }
    }
}

/// Checks the rules of [`SEAMS`].
fn seams(source: &Source, complaints: &mut Vec<String>) {
    let rules = SEAMS
        .iter()
        .filter(|(folder, _)| source.path.starts_with(folder));
    for (folder, texts) in rules {
        for (number, line) in source.text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            if let Some(text) = texts.iter().find(|text| code.contains(**text)) {
                complaints.push(format!(
                    "{}:{}: `{text}` is not used in {folder}: call the component instead",
                    source.path,
                    number + 1
                ));
            }
        }
    }
}

/// The names of the workspace's packages with their manifests.
fn manifests(root: &Path) -> Vec<(String, Source)> {
    let mut files = Vec::new();
    for folder in ["crates", "cli", "bench", "tests", "xtask", "capi", "jvm"] {
        sources::below(&root.join(folder), &mut files);
    }
    files.retain(|file| file.file_name().is_some_and(|name| name == "Cargo.toml"));
    files.sort();
    let named = files.iter().map(|file| {
        let source = sources::read(root, file);
        let line = source
            .text
            .lines()
            .find_map(|line| line.strip_prefix("name = \""));
        (line.unwrap_or("").trim_end_matches('"').to_owned(), source)
    });
    named.collect()
}

/// The workspace's crates in a manifest's `[dependencies]`.
fn uses(manifest: &str) -> Vec<String> {
    let section = manifest
        .split("\n[")
        .find(|part| part.starts_with("dependencies]"));
    let names = section.unwrap_or("").lines().skip(1).filter_map(|line| {
        let name = line.split(['.', ' ', '=']).next().unwrap_or("");
        (name == "cairn" || name.starts_with("cairn-")).then(|| name.to_owned())
    });
    names.collect()
}

fn layers(root: &Path, complaints: &mut Vec<String>) {
    let place = |name: &str| LAYERS.iter().position(|known| *known == name);
    for (name, manifest) in manifests(root) {
        let Some(mine) = place(&name) else {
            complaints.push(format!(
                "{}: {name} is not in the list of layers in xtask/src/tidy.rs",
                manifest.path
            ));
            continue;
        };
        for used in uses(&manifest.text) {
            if place(&used).is_none_or(|theirs| theirs >= mine) {
                complaints.push(format!(
                    "{}: {name} is below {used} and must not depend on it",
                    manifest.path
                ));
            }
            if APART.contains(&name.as_str()) && APART.contains(&used.as_str()) {
                complaints.push(format!(
                    "{}: {name} and {used} must not depend on each other",
                    manifest.path
                ));
            }
        }
    }
}

/// Checks that ARCHITECTURE.md names every crate, and only existing paths.
fn architecture(root: &Path, complaints: &mut Vec<String>) {
    let file = root.join("ARCHITECTURE.md");
    if !file.exists() {
        complaints.push("ARCHITECTURE.md is missing".to_owned());
        return;
    }
    let text = sources::read(root, &file).text;
    for (name, _) in manifests(root) {
        if !text.contains(&format!("`{name}`")) {
            complaints.push(format!("ARCHITECTURE.md does not mention `{name}`"));
        }
    }
    for path in text
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| is_path(word))
    {
        if !root.join(path).exists() {
            complaints.push(format!(
                "ARCHITECTURE.md names `{path}`, which does not exist"
            ));
        }
    }
}

/// The page of dependencies, with the reason for each.
const DEPENDENCIES: &str = "docs/dependencies.md";

/// Every dependency of the workspace manifest that is not a crate of the workspace has a row in [`DEPENDENCIES`].
fn dependencies(root: &Path, complaints: &mut Vec<String>) {
    let page = sources::read(root, &root.join(DEPENDENCIES)).text;
    for name in foreign(&sources::read(root, &root.join("Cargo.toml")).text) {
        if !page.contains(&format!("`{name}`")) {
            complaints.push(format!("{DEPENDENCIES}: {name} has no reason"));
        }
    }
}

/// The names of the dependencies in a workspace's manifest that have no path.
fn foreign(manifest: &str) -> Vec<&str> {
    let section = manifest
        .split("\n[")
        .find(|part| part.starts_with("workspace.dependencies]"));
    let lines = section.unwrap_or("").lines().skip(1);
    let rows = lines.filter(|line| !line.starts_with('#') && !line.contains("path = "));
    rows.filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
        .collect()
}

fn is_path(word: &str) -> bool {
    const STARTS: [&str; 10] = [
        "crates/", "cli/", "bench/", "tests/", "fuzz/", "xtask/", "docs/", ".ci/", "capi/", "jvm/",
    ];
    STARTS.iter().any(|start| word.starts_with(start)) && !word.contains(['*', ' ', '<'])
}

/// Checks that each module of cairn-format has a fuzz target, registered in all three places.
fn fuzz_targets(root: &Path, complaints: &mut Vec<String>) {
    let map = sources::read(root, &root.join("crates/cairn-format/src/lib.rs"));
    let modules = map
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod "));
    for module in modules.map(|module| module.trim_end_matches(';')) {
        let target = FUZZED
            .iter()
            .find(|(known, _)| *known == module)
            .map(|found| found.1);
        let Some(target) = target else {
            complaints.push(format!(
                "crates/cairn-format/src/lib.rs: {module} has no fuzz target in xtask/src/tidy.rs"
            ));
            continue;
        };
        if !root
            .join(format!("crates/cairn-fuzz/src/targets/{target}.rs"))
            .exists()
        {
            complaints.push(format!(
                "cairn-format: {module} needs the fuzz target crates/cairn-fuzz/src/targets/{target}.rs"
            ));
        }
    }
    let table = sources::read(root, &root.join("crates/cairn-fuzz/src/lib.rs")).text;
    let fuzz = sources::read(root, &root.join("fuzz/Cargo.toml")).text;
    let mut bodies = Vec::new();
    sources::below(&root.join("crates/cairn-fuzz/src/targets"), &mut bodies);
    bodies.sort();
    for body in bodies {
        let name = body
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name == "mod" {
            continue;
        }
        if !table.contains(&format!("\"{name}\"")) {
            complaints.push(format!(
                "crates/cairn-fuzz/src/lib.rs: TARGETS has no row for {name}"
            ));
        }
        if !fuzz.contains(&format!("\"{name}\"")) {
            complaints.push(format!("fuzz/Cargo.toml: no [[bin]] for {name}"));
        }
        if !root.join(format!("fuzz/fuzz_targets/{name}.rs")).exists() {
            complaints.push(format!("fuzz/fuzz_targets/{name}.rs is missing"));
        }
        if !root.join(format!("fuzz/corpus/{name}")).is_dir() {
            complaints.push(format!(
                "fuzz/corpus/{name}/ is missing: the target has no seeds"
            ));
        }
    }
}

fn folder_size(root: &Path, folder: &str, limit: u64, complaints: &mut Vec<String>) {
    let mut files = Vec::new();
    sources::below(&root.join(folder), &mut files);
    let bytes: u64 = files
        .iter()
        .filter_map(|file| file.metadata().ok())
        .map(|m| m.len())
        .sum();
    if bytes > limit {
        complaints.push(format!("{folder}: {bytes} bytes; the limit is {limit}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_found_in_their_section_only() {
        let manifest = "[package]\nname = \"x\"\n\n[dependencies]\ncairn-types.workspace = true\n\
                        zstd = \"1\"\n\n[dev-dependencies]\ncairn-db.workspace = true\n";
        assert_eq!(uses(manifest), ["cairn-types"]);
    }

    #[test]
    fn foreign_dependencies_are_those_without_a_path() {
        let manifest = "[workspace]\n\n[workspace.dependencies]\ncairn = { path = \"crates/cairn\" }\n\
                        # Codecs.\nsnap = \"1\"\n\n[profile.dev]\ndebug = 1\n";
        assert_eq!(foreign(manifest), ["snap"]);
    }

    #[test]
    fn a_file_that_no_module_declares_is_reported() {
        let source = |path: &str, text: &str| Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let rust = [
            source("a/src/lib.rs", "mod one;\nmod two;\n"),
            source("a/src/one.rs", "#[path = \"one_tests.rs\"]\nmod tests;\n"),
            source("a/src/one_tests.rs", ""),
            source("a/src/two/mod.rs", "mod inner;\n"),
            source("a/src/two/inner.rs", ""),
            source("a/src/two/lost.rs", ""),
            source("a/tests/it/main.rs", "mod present;\n"),
            source("a/tests/it/present.rs", ""),
            source("a/tests/it/absent.rs", ""),
            source("a/tests/alone.rs", ""),
        ];
        let mut complaints = Vec::new();
        modules(&rust, &mut complaints);
        let found: Vec<_> = complaints
            .iter()
            .filter_map(|it| it.split(':').next())
            .collect();
        assert_eq!(found, ["a/src/two/lost.rs", "a/tests/it/absent.rs"]);
    }

    #[test]
    fn a_component_that_reaches_over_its_seam_is_reported() {
        let found = |path: &str, text: &str| {
            let (path, text) = (path.to_owned(), text.to_owned());
            let mut complaints = Vec::new();
            seams(&Source { path, text }, &mut complaints);
            complaints.len()
        };
        let text =
            "//! X.\nuse crate::shared::Shared;\nlet a = db.tree.lock();\n// db.tree.lock()\n";
        assert_eq!(found("crates/cairn-db/src/catalog/mod.rs", text), 1);
        assert_eq!(found("crates/cairn-db/src/files/export.rs", text), 2);
        assert_eq!(found("crates/cairn-db/src/jobs/flush.rs", text), 0);
    }

    #[test]
    fn unsafe_without_a_safety_comment_is_reported() {
        let mut complaints = Vec::new();
        let text = "//! X.\nfn f() {\n    unsafe\x20{ g(\"x\") }\n}\n".to_owned();
        reasons(
            &Source {
                path: "bench/src/x.rs".to_owned(),
                text,
            },
            &mut complaints,
        );
        assert_eq!(complaints.len(), 1);
    }

    #[test]
    fn the_repository_is_tidy() {
        run(&crate::root()).unwrap();
    }
}
