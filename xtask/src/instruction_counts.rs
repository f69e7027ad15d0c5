//! Instruction counts of the code paths of the engine, compared with recorded ones.
//!
//! `cairn-paths` (in `bench/`) runs each path in a function of its own under Callgrind. The counts hardly
//! depend on the machine, and not at all on its load. The check fails if a path takes over [`TOLERANCE`] more
//! instructions than recorded in `bench/instructions.txt`. If it takes that much less, the check requests an
//! update (`cargo xtask counts update`).

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;

use crate::commands::{cargo, has, printed, read, target};

const STORED: &str = "bench/instructions.txt";
const OPERATIONS: u64 = 20_000;
/// The largest relative deviation from a recorded count.
const TOLERANCE: f64 = 0.03;
/// The architecture of the recorded counts.
const ARCHITECTURE: &str = "x86_64";

/// Counts instructions, then compares or records them.
pub fn run(root: &Path, update: bool) -> Result<(), String> {
    if std::env::consts::ARCH != ARCHITECTURE {
        let here = std::env::consts::ARCH;
        return Err(format!(
            "{STORED} holds counts of {ARCHITECTURE}, this machine is {here}: run with --without counts"
        ));
    }
    if !has("valgrind") {
        return Err("valgrind is missing; on Debian and Ubuntu: apt-get install valgrind".into());
    }
    let counted = count(root)?;
    let stored = root.join(STORED);
    if update {
        let line = |(path, count): (&String, &u64)| format!("{path} {count}\n");
        let text: String = counted.iter().map(line).collect();
        return std::fs::write(&stored, text)
            .map_err(|error| format!("{}: {error}", stored.display()));
    }
    compare(&parse(&read(&stored)?)?, &counted)
}

/// The instructions per operation of each path.
fn count(root: &Path) -> Result<BTreeMap<String, u64>, String> {
    let paths = paths(&read(&root.join("bench/src/bin/cairn-paths.rs"))?);
    let build = ["build", "--locked", "--profile", "counts"];
    cargo(
        root,
        &[&build[..], &["-p", "cairn-bench", "--bin", "cairn-paths"]].concat(),
    )?;
    let folder = target(root).join("counts");
    let (out, data) = (folder.join("callgrind.out"), folder.join("paths"));
    let _ = std::fs::remove_dir_all(&data);
    std::fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
    let mut valgrind = Command::new("valgrind");
    valgrind
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(folder.join("cairn-paths"))
        .arg(&data);
    printed(&mut valgrind)?;
    let _ = std::fs::remove_dir_all(&data);
    let costs = inclusive(&read(&out)?);
    paths
        .into_iter()
        .map(
            |path| match costs.get(&format!("cairn_paths::path_{path}")) {
                Some(&cost) if cost > OPERATIONS => Ok((path, cost / OPERATIONS)),
                _ => Err(format!("callgrind did not count the path {path}")),
            },
        )
        .collect()
}

/// The names of the paths in a source file.
fn paths(source: &str) -> Vec<String> {
    let name = |line: &str| Some(line.strip_prefix("fn path_")?.split_once('(')?.0.to_owned());
    source.lines().filter_map(name).collect()
}

/// The inclusive cost of each function in Callgrind output.
///
/// A name is given once, as `(number) name`, and by its number afterwards. The cost line after a
/// `calls` line is the callee's inclusive cost.
fn inclusive(profile: &str) -> HashMap<String, u64> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut costs: HashMap<String, u64> = HashMap::new();
    let (mut callee, mut called) = ("", false);
    for line in profile.lines() {
        if let Some((key, name)) = line.split_once("=(")
            && let Some((number, name)) = name.split_once(')')
        {
            if matches!(key, "fn" | "cfn") && !name.is_empty() {
                names.insert(number, name.trim_start());
            }
            if key == "cfn" {
                callee = names.get(number).copied().unwrap_or_default();
            }
        } else if line.starts_with("calls=") {
            called = true;
        } else if std::mem::take(&mut called)
            && let Some(cost) = line
                .split(' ')
                .nth(1)
                .and_then(|cost| cost.parse::<u64>().ok())
        {
            *costs.entry(callee.to_owned()).or_default() += cost;
        }
    }
    costs
}

fn parse(stored: &str) -> Result<BTreeMap<String, u64>, String> {
    let entry = |line: &str| {
        let (path, count) = line.split_once(' ')?;
        Some((path.to_owned(), count.parse().ok()?))
    };
    let lines = stored.lines();
    lines
        .map(|line| entry(line).ok_or_else(|| format!("{STORED}: not a path and a count: {line}")))
        .collect()
}

fn compare(stored: &BTreeMap<String, u64>, counted: &BTreeMap<String, u64>) -> Result<(), String> {
    let mut grown = Vec::new();
    for (path, &now) in counted {
        let Some(&before) = stored.get(path) else {
            return Err(format!(
                "{STORED} has no path {path}: run cargo xtask counts update"
            ));
        };
        let change = now as f64 / before as f64 - 1.0;
        println!("{path:16} {before:8} {now:8} {:+6.1} %", change * 100.0);
        if change > TOLERANCE {
            grown.push(format!("{path} (from {before} to {now})"));
        } else if change < -TOLERANCE {
            println!("    less than in {STORED}: run cargo xtask counts update");
        }
    }
    if let Some(path) = stored.keys().find(|path| !counted.contains_key(*path)) {
        return Err(format!("{STORED} has a path {path} that does not exist"));
    }
    match grown.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "instructions per operation grew by more than 3 %: {}",
            grown.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inclusive_cost_contains_callees() {
        let profile = "fl=(1) a.rs\nfn=(1) main\n10 5\ncfn=(2) a::b\ncalls=1 20\n* 113\n\
                       fn=(2)\n20 13\ncfn=(3) c\ncalls=3 20\n+2 60\ncfn=(3)\ncalls=2 20\n+3 40\n";
        let costs = inclusive(profile);
        assert_eq!((costs["a::b"], costs["c"]), (113, 100));
        assert!(!costs.contains_key("main"));
    }

    #[test]
    fn growth_beyond_the_tolerance_fails_with_the_path() {
        let stored = parse("get 1000\nput 500\n").expect("two paths");
        let with = |get, put| parse(&format!("get {get}\nput {put}\n")).expect("two paths");
        assert!(compare(&stored, &with(1029, 400)).is_ok());
        let error = compare(&stored, &with(1031, 500)).expect_err("3.1 % more");
        assert!(error.contains("get (from 1000 to 1031)"), "{error}");
        assert!(compare(&stored, &parse("get 1000\n").expect("a path")).is_err());
        assert!(parse("get\n").is_err());
    }
}
