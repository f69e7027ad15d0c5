//! The costs of the code paths of the engine, compared with recorded ones.
//!
//! `cairn-paths` (in `bench/paths/`) runs each path in a function of its own, under Callgrind and under DHAT in
//! two modes. Per operation and on the thread of the caller, the runs count instructions, system calls,
//! allocations and bytes copied by `memcpy`. The counts hardly depend on the machine and its load, except for system
//! calls: if a log grows slowly, its writer makes each page writable again that may have been written back meanwhile.
//! Valgrind hides the kernel's functions for reading clocks, so that each such read is counted as a system call. The
//! check fails if one exceeds the record in `bench/path_costs.txt` by more than [`Count::allowed`].
//! If one is that much lower, the check requests an update (`cargo xtask counts update`).

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::commands::{cargo, has, printed, read, target};

const STORED: &str = "bench/path_costs.txt";
/// The architecture of the recorded counts.
const ARCHITECTURE: &str = "x86_64";
/// Stack frames that DHAT records: more than lie between a path and its innermost call.
const FRAMES: u32 = 100;

/// The counts of a path, as columns of the record.
const COUNTS: [Count; 4] = [
    Count {
        name: "instructions",
        tolerance: 0.03,
        slack: 12.0,
    },
    Count {
        name: "system_calls",
        tolerance: 0.2,
        slack: 0.06,
    },
    Count {
        name: "allocations",
        tolerance: 0.03,
        slack: 0.05,
    },
    Count {
        name: "copied_bytes",
        tolerance: 0.03,
        slack: 2.5,
    },
];

/// A column of the record.
struct Count {
    name: &'static str,
    /// The largest relative deviation from the record. That of system calls is large for the writers of logs.
    tolerance: f64,
    /// The deviation per operation that is accepted even beyond the tolerance: counts below one are of work that
    /// is done once for many operations, and two builds of the same source differ by some instructions.
    slack: f64,
}

impl Count {
    /// The largest accepted deviation from `recorded`.
    fn allowed(&self, recorded: f64) -> f64 {
        (recorded * self.tolerance).max(self.slack)
    }
}

/// The counts of one path, in the order of [`COUNTS`].
type Costs = [f64; COUNTS.len()];

/// Counts, then compares or records.
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
        return std::fs::write(&stored, text(&counted))
            .map_err(|error| format!("{}: {error}", stored.display()));
    }
    compare(&parse(&read(&stored)?)?, &counted)
}

/// The costs of each path.
fn count(root: &Path) -> Result<BTreeMap<String, Costs>, String> {
    let source = read(&root.join("bench/paths/src/main.rs"))?;
    let (paths, operations) = (paths(&source), operations(&source)?);
    cargo(
        root,
        &[
            "build",
            "--locked",
            "--profile",
            "counts",
            "-p",
            "cairn-paths",
        ],
    )?;
    let frames = format!("--num-callers={FRAMES}");
    let (calls, heap, copies) = std::thread::scope(|scope| {
        let heap = scope.spawn(|| valgrind(root, "heap", &["--tool=dhat", "--mode=heap", &frames]));
        let calls = valgrind(
            root,
            "calls",
            &["--tool=callgrind", "--collect-systime=yes"],
        );
        let copies = valgrind(root, "copy", &["--tool=dhat", "--mode=copy", &frames]);
        (calls, heap.join().expect("no panic"), copies)
    });
    let (calls, heap, copies) = (calls?, heap?, copies?);
    let (instructions, system_calls) = (inclusive(&calls, 0), inclusive(&calls, 1));
    let allocations = below_paths(&heap, "tbk")?;
    let copied = below_paths(&copies, "tb")?;
    let costs = |path: String| {
        let name = format!("cairn_paths::path_{path}");
        let each = [&instructions, &system_calls, &allocations, &copied];
        let costs = each.map(|counts| *counts.get(&name).unwrap_or(&0) as f64 / operations);
        match costs[0] > 1.0 {
            true => Ok((path, costs)),
            false => Err(format!("callgrind did not count the path {path}")),
        }
    };
    paths.into_iter().map(costs).collect()
}

/// The profile of the paths that a tool of Valgrind writes. `name` distinguishes runs at the same time.
fn valgrind(root: &Path, name: &str, arguments: &[&str]) -> Result<String, String> {
    let folder = target(root).join("counts");
    let (out, data) = (
        folder.join(format!("{name}.out")),
        folder.join(format!("{name}.paths")),
    );
    let _ = std::fs::remove_dir_all(&data);
    std::fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
    let mut valgrind = Command::new("valgrind");
    let tool = arguments[0].trim_start_matches("--tool=");
    valgrind
        .args(arguments)
        .arg(format!("--{tool}-out-file={}", out.display()))
        .arg(folder.join("cairn-paths"))
        .arg(&data);
    printed(&mut valgrind)?;
    let _ = std::fs::remove_dir_all(&data);
    read(&out)
}

/// The names of the paths in a source file.
fn paths(source: &str) -> Vec<String> {
    let name = |line: &str| Some(line.strip_prefix("fn path_")?.split_once('(')?.0.to_owned());
    source.lines().filter_map(name).collect()
}

/// The number of operations of each path, from their source file.
fn operations(source: &str) -> Result<f64, String> {
    let value = |line: &str| {
        let number = line.strip_prefix("const OPERATIONS: u64 = ")?;
        number.trim_end_matches(';').replace('_', "").parse().ok()
    };
    let found = source.lines().find_map(value);
    found.ok_or_else(|| "bench/paths has no constant OPERATIONS".to_owned())
}

/// The inclusive cost of each function in Callgrind output; `event` is its index in a line of costs, from 0.
///
/// A name is given once, as `(number) name`, and by its number afterwards. The cost line after a
/// `calls` line is the callee's inclusive cost. Zeros at its end are omitted.
fn inclusive(profile: &str, event: usize) -> HashMap<String, u64> {
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
                .nth(1 + event)
                .and_then(|cost| cost.parse::<u64>().ok())
        {
            *costs.entry(callee.to_owned()).or_default() += cost;
        }
    }
    costs
}

/// The sum of `field` over the program points of a DHAT profile below each path.
fn below_paths(profile: &str, field: &str) -> Result<HashMap<String, u64>, String> {
    let profile: Value =
        serde_json::from_str(profile).map_err(|error| format!("DHAT's profile: {error}"))?;
    let frames: Vec<Option<&str>> = list(&profile["ftbl"])?
        .iter()
        .map(|frame| path_of(frame.as_str().unwrap_or_default()))
        .collect();
    let mut sums = HashMap::new();
    for point in list(&profile["pps"])? {
        let stack = list(&point["fs"])?;
        let path = stack.iter().find_map(|frame| {
            let frame = usize::try_from(frame.as_u64()?).ok()?;
            *frames.get(frame)?
        });
        if let (Some(path), Some(sum)) = (path, point[field].as_u64()) {
            *sums.entry(path.to_owned()).or_default() += sum;
        }
    }
    Ok(sums)
}

fn list(value: &Value) -> Result<&Vec<Value>, String> {
    let missing = || "DHAT's profile lacks a list: is Valgrind older than 3.18?".to_owned();
    value.as_array().ok_or_else(missing)
}

/// The function of a path in a stack frame, `ADDRESS: FUNCTION (PLACE)`.
fn path_of(frame: &str) -> Option<&str> {
    let (_, name) = frame.split_once(": ")?;
    let name = name.split(' ').next()?;
    name.starts_with("cairn_paths::path_").then_some(name)
}

/// The record of these costs.
fn text(counted: &BTreeMap<String, Costs>) -> String {
    let names: Vec<_> = COUNTS.iter().map(|count| count.name).collect();
    let mut text = format!("path {}\n", names.join(" "));
    for (path, costs) in counted {
        let [instructions, system_calls, allocations, copied] = costs;
        text +=
            &format!("{path} {instructions:.0} {system_calls:.4} {allocations:.3} {copied:.1}\n");
    }
    text
}

fn parse(stored: &str) -> Result<BTreeMap<String, Costs>, String> {
    let entry = |line: &str| {
        let mut words = line.split(' ');
        let path = words.next()?.to_owned();
        let costs: Vec<f64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some((path, costs.try_into().ok()?))
    };
    let lines = stored.lines().skip(1);
    lines
        .map(|line| entry(line).ok_or_else(|| format!("{STORED}: not a path and counts: {line}")))
        .collect()
}

fn compare(
    stored: &BTreeMap<String, Costs>,
    counted: &BTreeMap<String, Costs>,
) -> Result<(), String> {
    let mut grown = Vec::new();
    for (path, costs) in counted {
        let Some(records) = stored.get(path) else {
            return Err(format!(
                "{STORED} has no path {path}: run cargo xtask counts update"
            ));
        };
        let mut line = format!("{path:18}");
        let mut less = false;
        for ((count, &before), &now) in COUNTS.iter().zip(records).zip(costs) {
            let places = if before < 100.0 { 3 } else { 0 };
            line += &format!(" {now:8.places$} {:+5.1} %", percent(before, now));
            let change = now - before;
            if change > count.allowed(before) {
                let name = count.name;
                grown.push(format!("{path}: {name} from {before} to {now:.places$}"));
            }
            less |= change < -count.allowed(before);
        }
        println!("{line}");
        if less {
            println!("    less than in {STORED}: run cargo xtask counts update");
        }
    }
    if let Some(path) = stored.keys().find(|path| !counted.contains_key(*path)) {
        return Err(format!("{STORED} has a path {path} that does not exist"));
    }
    match grown.is_empty() {
        true => Ok(()),
        false => Err(format!("costs per operation grew: {}", grown.join(", "))),
    }
}

/// The change in percent; 0 if nothing was recorded.
fn percent(before: f64, now: f64) -> f64 {
    match before > 0.0 {
        true => (now / before - 1.0) * 100.0,
        false => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inclusive_cost_contains_callees() {
        let profile = "fl=(1) a.rs\nfn=(1) main\n10 5\ncfn=(2) a::b\ncalls=1 20\n* 113 2\n\
                       fn=(2)\n20 13\ncfn=(3) c\ncalls=3 20\n+2 60 1\ncfn=(3)\ncalls=2 20\n+3 40\n";
        let costs = inclusive(profile, 0);
        assert_eq!((costs["a::b"], costs["c"]), (113, 100));
        assert!(!costs.contains_key("main"));
        let calls = inclusive(profile, 1);
        assert_eq!((calls["a::b"], calls["c"]), (2, 1));
    }

    #[test]
    fn program_points_count_for_the_path_above_them() {
        let profile = r#"{"ftbl": ["[root]", "0x1: memmove (a.c:1)", "0x2: cairn_paths::path_put (in /x)",
            "0x3: cairn_paths::main (in /x)"],
            "pps": [{"tb": 100, "tbk": 1, "fs": [1, 2, 3]}, {"tb": 20, "tbk": 2, "fs": [1, 2, 3]},
                    {"tb": 7, "tbk": 1, "fs": [1, 3]}]}"#;
        let sums = below_paths(profile, "tb").expect("a profile");
        assert_eq!(
            sums,
            HashMap::from([("cairn_paths::path_put".to_owned(), 120)])
        );
        assert!(below_paths("{}", "tb").is_err());
    }

    #[test]
    fn growth_beyond_the_tolerance_fails_with_the_path_and_the_count() {
        let record = |get: &str, put: &str| {
            let text = format!("path {}\nget {get}\nput {put}\n", "instructions ...");
            parse(&text).expect("two paths")
        };
        let stored = record("1000 0 1 100", "500 0.1 0 50");
        let get = |costs: &str| compare(&stored, &record(costs, "400 0.1 0 50"));
        assert!(get("1029 0.004 1.04 102.9").is_ok());
        for (costs, grown) in [
            ("1031 0 1 100", "get: instructions from 1000 to 1031"),
            ("1000 0.1 1 100", "get: system_calls from 0 to 0.100"),
            ("1000 0 2 100", "get: allocations from 1 to 2.000"),
            ("1000 0 1 200", "get: copied_bytes from 100 to 200"),
        ] {
            let error = get(costs).expect_err(costs);
            assert!(error.contains(grown), "{error}");
        }
        assert!(compare(&stored, &parse("\nget 1000 0 0 0\n").expect("a path")).is_err());
        assert!(parse("\nget 1\n").is_err());
    }

    #[test]
    fn writers_may_make_a_fifth_more_system_calls() {
        let stored = parse("\nput 500 1.03 0 50\n").expect("a path");
        let put = |calls: &str| compare(&stored, &parse(&format!("\nput 500 {calls} 0 50\n"))?);
        assert_eq!(put("1.2"), Ok(()));
        assert!(put("1.3").is_err());
    }

    #[test]
    fn the_number_of_operations_is_that_of_the_paths() {
        assert_eq!(
            operations("\nconst OPERATIONS: u64 = 10_000;\n"),
            Ok(10_000.0)
        );
        assert!(operations("const BATCH: u64 = 100;").is_err());
    }

    #[test]
    fn the_record_is_read_as_it_was_written() {
        let costs = BTreeMap::from([("get".to_owned(), [1234.0, 0.0025, 1.5, 33.5])]);
        assert_eq!(parse(&text(&costs)), Ok(costs));
    }
}
