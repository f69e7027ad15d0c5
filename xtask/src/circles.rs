//! Circles of imports: files of a crate that need each other can only be read together.
//!
//! A file needs another one if a `use`, or a path that begins with `crate`, `super` or `self`, leads to it. Calls of methods do
//! not count, nor do tests; the root of a crate is left out, because it names every module.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::Source;

/// The largest number of files in a circle.
const LIMIT: usize = 8;

/// A module path below the root of its crate.
type Module = Vec<String>;

/// Reports each circle of more than [`LIMIT`] files.
pub fn check(sources: &[Source], complaints: &mut Vec<String>) {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        if let Some((name, _)) = source.path.split_once("/src/") {
            crates.entry(name).or_default().push(source);
        }
    }
    for (name, sources) in crates {
        for circle in circles(&imports(name, &sources)) {
            if circle.len() > LIMIT {
                let files: Vec<String> = circle.iter().map(|module| module.join("/")).collect();
                complaints.push(format!(
                    "{name}: {} files import each other in a circle, more than {LIMIT}: {}",
                    files.len(),
                    files.join(", ")
                ));
            }
        }
    }
}

/// The files that each file of a crate needs.
fn imports(name: &str, sources: &[&Source]) -> BTreeMap<Module, BTreeSet<Module>> {
    let modules: BTreeMap<Module, &str> = sources
        .iter()
        .filter_map(|source| Some((module(name, &source.path)?, &source.text[..])))
        .collect();
    let needs = modules.iter().map(|(module, text)| {
        let paths = paths(code(text)).into_iter();
        let needed = paths.filter_map(|path| {
            let mut path = absolute(module, &path)?;
            // A path to an item leads to the file that has it.
            while !path.is_empty() && !modules.contains_key(&path) {
                path.pop();
            }
            (!path.is_empty() && path != *module).then_some(path)
        });
        (module.clone(), needed.collect())
    });
    needs.collect()
}

/// The module of a file; `None` for the root and for tests.
fn module(name: &str, path: &str) -> Option<Module> {
    let path = path.strip_prefix(name)?.strip_prefix("/src/")?;
    let mut module: Module = path
        .strip_suffix(".rs")?
        .split('/')
        .map(str::to_owned)
        .collect();
    if matches!(
        module.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        module.pop();
    }
    module
        .last()
        .is_some_and(|last| !last.ends_with("tests"))
        .then_some(module)
}

/// A file without its tests.
fn code(text: &str) -> &str {
    let ends = ["#[cfg(test)]\nmod tests {", "#[cfg(all(test"];
    let end = ends.iter().filter_map(|end| text.find(end)).min();
    &text[..end.unwrap_or(text.len())]
}

/// The paths in `text`: those of `use` declarations, and others that begin with `crate`, `super` or `self`.
fn paths(text: &str) -> Vec<Module> {
    let bare: String = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or("").to_owned() + "\n")
        .collect();
    let mut found = Vec::new();
    for declaration in bare.split("use ").skip(1) {
        let tree = declaration.split(';').next().unwrap_or("");
        expand(&Vec::new(), tree, &mut found);
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for word in bare.split(|c| !is_part(c)) {
        let path: Module = word.split("::").map(str::to_owned).collect();
        if path.len() > 1 {
            found.push(path);
        }
    }
    found
}

/// Adds the paths of a `use` tree below `prefix` to `found`.
fn expand(prefix: &Module, tree: &str, found: &mut Vec<Module>) {
    let tree = tree.trim();
    let parts = |text: &str| {
        let parts = text.split("::").map(str::trim);
        let parts = parts.filter(|part| !part.is_empty()).map(str::to_owned);
        prefix.iter().cloned().chain(parts).collect::<Module>()
    };
    let Some((before, list)) = tree.split_once('{') else {
        if !tree.is_empty() {
            found.push(parts(tree.split(" as ").next().unwrap_or(tree)));
        }
        return;
    };
    let prefix = parts(before);
    let list = list.rsplit_once('}').map_or(list, |(list, _)| list);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&prefix, &list[start..at], found);
                start = at + 1;
            }
            _ => {}
        }
    }
    expand(&prefix, &list[start..], found);
}

/// `path`, written in `module`, from the root of the crate; `None` for a path to another crate.
fn absolute(module: &Module, path: &Module) -> Option<Module> {
    let (first, mut rest) = path.split_first()?;
    let mut base = match first.as_str() {
        "crate" => Vec::new(),
        "self" => module.clone(),
        "super" => module[..module.len() - 1].to_vec(),
        _ => return None,
    };
    while let Some((part, left)) = rest.split_first()
        && part == "super"
    {
        base.pop();
        rest = left;
    }
    base.extend_from_slice(rest);
    Some(base)
}

/// The sets of files that reach each other.
fn circles(needs: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> = needs
        .keys()
        .map(|from| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(at) = open.pop() {
                let next = needs.get(at).into_iter().flatten();
                open.extend(next.filter(|next| seen.insert(*next)));
            }
            (from, seen)
        })
        .collect();
    let mut circles = Vec::new();
    let mut done: BTreeSet<&Module> = BTreeSet::new();
    for (from, seen) in &reached {
        let others = seen.iter().copied();
        let circle: Vec<&Module> = others
            .filter(|other| reached[other].contains(from))
            .collect();
        if !circle.is_empty() && done.insert(from) {
            done.extend(circle.iter().copied());
            circles.push(circle.into_iter().cloned().collect());
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source {
            path: format!("crates/x/src/{path}"),
            text: text.to_owned(),
        }
    }

    #[test]
    fn a_path_leads_to_the_file_of_its_item() {
        let sources = [
            source("lib.rs", "mod a;\nmod b;\n"),
            source("a/mod.rs", "use super::b::{Item as It, c::{self, D}};\n"),
            source(
                "a/deep.rs",
                "fn f() -> crate::b::Item { super::super::b::f() }\n",
            ),
            source(
                "b/mod.rs",
                "// use crate::a;\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n",
            ),
            source("b/c.rs", "use std::fmt;\nuse super::Item;\n"),
            source("b/tests.rs", "use crate::a;\n"),
        ];
        let found = imports("crates/x", &sources.iter().collect::<Vec<_>>());
        let found: Vec<(String, Vec<String>)> = found
            .iter()
            .map(|(module, needs)| {
                (
                    module.join("/"),
                    needs.iter().map(|n| n.join("/")).collect(),
                )
            })
            .collect();
        let expected = [
            ("a", vec!["b", "b/c"]),
            ("a/deep", vec!["b"]),
            ("b", vec![]),
            ("b/c", vec!["b"]),
        ];
        let expected = expected.map(|(module, needs)| {
            let needs = needs.into_iter().map(str::to_owned);
            (module.to_owned(), needs.collect::<Vec<_>>())
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn a_circle_over_the_limit_is_reported() {
        let ring = |files: usize| {
            let next = |n: usize| (n + 1) % files;
            (0..files)
                .map(|n| source(&format!("m{n}.rs"), &format!("use crate::m{};\n", next(n))))
                .collect::<Vec<_>>()
        };
        for (files, reports) in [(LIMIT, 0), (LIMIT + 1, 1)] {
            let mut complaints = Vec::new();
            check(&ring(files), &mut complaints);
            assert_eq!(complaints.len(), reports, "{complaints:?}");
        }
    }
}
