//! The parts of crates whose manifests say that they have no tests, so that no test program is built for them.

use crate::sources::Source;

/// Complains about each such part that has tests.
pub fn check(manifests: &[(String, Source)], rust: &[Source], complaints: &mut Vec<String>) {
    for (_, manifest) in manifests {
        let folder = manifest.path.trim_end_matches("Cargo.toml");
        let in_lib = |source: &&Source| {
            let file = source.path.strip_prefix(folder);
            file.is_some_and(|file| file.starts_with("src/") && file != "src/main.rs")
        };
        let is_main = |source: &&Source| source.path.strip_prefix(folder) == Some("src/main.rs");
        for section in manifest.text.split("\n[") {
            let says = |text: &str| section.lines().any(|line| line == text);
            let mut complain = |found: Option<&Source>, line: &str| {
                if let Some(source) = found {
                    let (manifest, source) = (&manifest.path, &source.path);
                    complaints.push(format!(
                        "{source} has tests: remove `{line}` from {manifest}"
                    ));
                }
            };
            if section.starts_with("lib]") && says("doctest = false") {
                let found = rust
                    .iter()
                    .filter(in_lib)
                    .find(|source| has_doctest(&source.text));
                complain(found, "doctest = false");
            }
            if says("test = false") {
                let mut found = rust.iter().filter(|source| has_test(&source.text));
                let found = match section.starts_with("lib]") {
                    true => found.find(in_lib),
                    false => found.find(is_main),
                };
                complain(found, "test = false");
            }
        }
    }
}

fn has_test(code: &str) -> bool {
    code.lines()
        .map(str::trim)
        .any(|line| line == "#[test]" || line.starts_with("proptest! {"))
}

/// True if a block of code in documentation is Rust, which no word after its fence denies.
fn has_doctest(code: &str) -> bool {
    let mut is_open = false;
    let comments = code.lines().map(str::trim).filter_map(|line| {
        let comment = line.strip_prefix("///").or(line.strip_prefix("//!"))?;
        Some(comment.trim())
    });
    for language in comments.filter_map(|line| line.strip_prefix("```")) {
        is_open = !is_open;
        let is_rust = ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&language);
        if is_open && is_rust {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(manifest: &str, path: &str, text: &str) -> Vec<String> {
        let source = |path: &str, text: &str| Source {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        let manifests = [("a".to_owned(), source("crates/a/Cargo.toml", manifest))];
        let mut complaints = Vec::new();
        check(&manifests, &[source(path, text)], &mut complaints);
        complaints
    }

    #[test]
    fn tests_are_found_where_none_are_built() {
        let lib = "[package]\n\n[lib]\ndoctest = false\ntest = false\n";
        let bin = "[package]\n\n[[bin]]\nname = \"a\"\ntest = false\n";
        let test = "    #[test]\n    fn a() {}\n";
        let doctest = "/// ```\n/// a();\n/// ```\n";
        let text = "//! ```text\n//! a\n//! ```\n";
        for (manifest, path, code, found) in [
            (lib, "crates/a/src/lib.rs", test, 1),
            (lib, "crates/a/src/lib.rs", doctest, 1),
            (lib, "crates/a/src/lib.rs", text, 0),
            (lib, "crates/a/tests/it/main.rs", test, 0),
            (lib, "crates/a/src/main.rs", test, 0),
            (bin, "crates/a/src/main.rs", test, 1),
            (bin, "crates/a/src/lib.rs", test, 0),
            ("[package]\n", "crates/a/src/lib.rs", test, 0),
        ] {
            assert_eq!(
                complaints(manifest, path, code).len(),
                found,
                "{manifest} {path} {code}"
            );
        }
    }
}
