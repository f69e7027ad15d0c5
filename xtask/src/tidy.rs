//! The house rules that a program can check. Each complaint is a sentence that says what to do.

use std::path::Path;

use crate::compat;
use crate::sources::{self, Source};
use crate::unsupported;

/// The crates, lowest first: a crate uses only crates that stand before it.
const LAYERS: [&str; 30] = [
    "cairn-types",
    "cairn-compress",
    "cairn-format",
    "cairn-platform",
    "cairn-observe",
    "cairn-memory",
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
    "cairn",
    "cairn-capi",
    "cairn-librocksdb",
    "librocksdb-sys",
    "cairn-bench",
    "cairn-cli",
    "cairn-sim",
    "cairn-model",
    "cairn-fuzz",
    "cairn-interop",
    "cairn-soak",
    "xtask",
];

/// These four each know one kind of file, and none knows another.
const APART: [&str; 4] = ["cairn-memtable", "cairn-wal", "cairn-table", "cairn-blob"];

/// The rooms in which `unsafe` may stand.
const ROOMS: [&str; 9] = [
    "capi/src/",
    "crates/cairn-memtable/src/",
    "crates/cairn-platform/src/",
    "crates/cairn-compress/src/lz4.rs",
    "crates/cairn-fuzz/src/memory_limit.rs",
    "bench/src/",
    "tests/interop/src/twin/",
    "tests/soak/src/resources.rs",
    "crates/cairn-memory/src/",
];

/// The modules of cairn-format, and the fuzz target that feeds each hostile bytes.
const FUZZED: [(&str, &str); 17] = [
    ("coding", "varint_key"),
    ("dated", "dated_values"),
    ("key", "varint_key"),
    ("checksum", "footer_meta_props"),
    ("hash", "filter"),
    ("id", "footer_meta_props"),
    ("block", "block"),
    ("filter", "filter"),
    ("range_del", "range_del"),
    ("table", "footer_meta_props"),
    ("log", "wal"),
    ("batch", "write_batch"),
    ("manifest", "manifest"),
    ("blob", "blob_file"),
    ("wide", "wide_columns"),
    ("options_text", "options_text"),
    ("names", "names"),
];

/// Most bytes of the fuzzing corpus, and of the golden databases.
const CORPUS_LIMIT: u64 = 3 << 20;
const GOLDEN_LIMIT: u64 = 30 << 20;

/// Most lines of a function, tests aside.
const FUNCTION_LIMIT: usize = 100;

/// Checks every rule and prints each complaint.
pub fn run(root: &Path) -> Result<(), String> {
    let rust = sources::rust(root);
    let mut complaints = Vec::new();
    for source in &rust {
        opening(source, &mut complaints);
        reasons(source, &mut complaints);
        leftovers(source, &mut complaints);
        long_functions(source, &mut complaints);
    }
    layers(root, &mut complaints);
    architecture(root, &mut complaints);
    compat::check(root, &mut complaints);
    unsupported::check(root, &mut complaints);
    fuzz_targets(root, &mut complaints);
    weight(root, "fuzz/corpus", CORPUS_LIMIT, &mut complaints);
    weight(root, "tests/golden", GOLDEN_LIMIT, &mut complaints);
    for complaint in &complaints {
        eprintln!("{complaint}");
    }
    if complaints.is_empty() {
        println!("tidy: {} files, nothing to say", rust.len());
        return Ok(());
    }
    Err(format!("tidy has {} things to say", complaints.len()))
}

fn opening(source: &Source, complaints: &mut Vec<String>) {
    if !source
        .text
        .trim_start_matches("#![no_main]\n")
        .starts_with("//!")
    {
        complaints.push(format!(
            "{}: a file opens with `//!` and a sentence that a newcomer understands",
            source.path
        ));
    }
}

/// Every `unsafe` block and implementation has its reason just above, and stands in a room.
fn reasons(source: &Source, complaints: &mut Vec<String>) {
    let lines: Vec<&str> = source.text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        let block = code.contains("unsafe {") || code.contains("unsafe impl");
        if !block || code.contains('"') {
            continue;
        }
        if !ROOMS.iter().any(|room| source.path.starts_with(room)) {
            complaints.push(format!(
                "{}:{}: `unsafe` stands only in the rooms that xtask/src/tidy.rs lists",
                source.path,
                number + 1
            ));
        }
        let above = &lines[number.saturating_sub(8)..=number];
        if !above.iter().any(|line| line.contains("SAFETY:")) {
            complaints.push(format!(
                "{}:{}: an `unsafe` says why it is sound, in a `// SAFETY:` comment above",
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
                    "{}:{at}: `{left})` is not left in the code",
                    source.path
                ));
            }
        }
    }
}

/// No function outside of tests is longer than a page or two. Relies on the layout that rustfmt gives: a
/// function ends with the first closing brace that stands where its first line begins.
fn long_functions(source: &Source, complaints: &mut Vec<String>) {
    if source.path.contains("tests/") || source.path.ends_with("tests.rs") {
        return;
    }
    let code = source.text.split("#[cfg(test)]\nmod tests {").next();
    let lines: Vec<&str> = code.unwrap_or_default().lines().collect();
    for (first, line) in lines.iter().enumerate() {
        let text = line.trim_start();
        let Some((before, name)) = text.split_once("fn ") else {
            continue;
        };
        let is_prefix = |c: char| c.is_ascii_alphabetic() || " ()\"_".contains(c);
        if !before.chars().all(is_prefix) {
            continue;
        }
        let opens = |line: &&&str| line.ends_with(['{', '}', ';']);
        if !lines[first..]
            .iter()
            .find(opens)
            .is_some_and(|line| line.ends_with('{'))
        {
            continue;
        }
        let end = format!("{}}}", &line[..line.len() - text.len()]);
        let length = lines[first..].iter().position(|line| *line == end);
        let name = name.split(['(', '<']).next().unwrap_or(name);
        if length.is_some_and(|length| length >= FUNCTION_LIMIT) {
            complaints.push(format!(
                "{}:{}: `{name}` has more than {FUNCTION_LIMIT} lines; divide it along its sense",
                source.path,
                first + 1
            ));
        }
    }
}

/// The names of the workspace's packages with the text of their manifests.
fn manifests(root: &Path) -> Vec<(String, Source)> {
    let mut files = Vec::new();
    for folder in ["crates", "cli", "bench", "tests", "xtask", "capi"] {
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

/// The crates of ours in a manifest's `[dependencies]`.
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
                "{}: {name} has no place among the layers in xtask/src/tidy.rs",
                manifest.path
            ));
            continue;
        };
        for used in uses(&manifest.text) {
            if place(&used).is_none_or(|theirs| theirs >= mine) {
                complaints.push(format!(
                    "{}: {name} stands below {used} and cannot use it",
                    manifest.path
                ));
            }
            if APART.contains(&name.as_str()) && APART.contains(&used.as_str()) {
                complaints.push(format!(
                    "{}: {name} and {used} do not know each other",
                    manifest.path
                ));
            }
        }
    }
}

/// ARCHITECTURE.md names every crate, and only paths that are there.
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
                "ARCHITECTURE.md names `{path}`, which is not there"
            ));
        }
    }
}

fn is_path(word: &str) -> bool {
    const STARTS: [&str; 9] = [
        "crates/", "cli/", "bench/", "tests/", "fuzz/", "xtask/", "docs/", ".ci/", "capi/",
    ];
    STARTS.iter().any(|start| word.starts_with(start)) && !word.contains(['*', ' ', '<'])
}

/// Each module of cairn-format has a target, and each target its three places.
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
                "cairn-format: {module} wants the fuzz target crates/cairn-fuzz/src/targets/{target}.rs"
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
            complaints.push(format!("fuzz/Cargo.toml: there is no [[bin]] for {name}"));
        }
        if !root.join(format!("fuzz/fuzz_targets/{name}.rs")).exists() {
            complaints.push(format!("fuzz/fuzz_targets/{name}.rs is missing"));
        }
        if !root.join(format!("fuzz/corpus/{name}")).is_dir() {
            complaints.push(format!(
                "fuzz/corpus/{name}/ is missing: seeds for the target"
            ));
        }
    }
}

fn weight(root: &Path, folder: &str, limit: u64, complaints: &mut Vec<String>) {
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
    fn an_unsafe_without_a_reason_is_noticed() {
        let mut complaints = Vec::new();
        let text = "//! X.\nfn f() {\n    unsafe { g() }\n}\n".to_owned();
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
    fn the_house_is_tidy() {
        run(&crate::root()).unwrap();
    }
}
