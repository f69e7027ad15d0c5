//! `cargo xtask kafka-streams`: Kafka Streams on Cairn's library for Java, compared with RocksDB's.
//!
//! The application of `examples/kafka-streams` runs on both libraries, on a broker that it starts. `--short` is a form
//! for every day. `test` runs the tests that Kafka Streams has for its stores with both libraries; a test
//! that passes with RocksDB's library must pass with Cairn's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::commands::{fresh, output, read, target};
use crate::java::{self, maven, rocksdb};

/// The package of Kafka Streams with the tests of stores.
const PACKAGE: &str = "org.apache.kafka.streams.state";

/// The options of the Java processes of the short form, which end before optimized code pays.
const SHORT_JAVA: &str = "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto";

/// The arguments of the short form.
const SHORT: [&str; 5] = [
    "events=6000",
    "cache=8",
    "threads=1",
    "commit=300",
    "parallel=true",
];

/// The time after which the short form is ended.
const SHORT_LIMIT: Duration = Duration::from_secs(600);

/// The time after which the long form is ended.
const LONG_LIMIT: Duration = Duration::from_secs(24 * 3600);

/// The number of lines of each log that a failure prints.
const LINES_OF_LOGS: usize = 15;

/// Runs the comparison, or the tests of the stores.
pub fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let mut given: Option<&String> = None;
    let mut release: Option<&String> = None;
    let mut rest = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--library" => given = Some(words.next().ok_or("--library needs a folder")?),
            "--release" => release = Some(words.next().ok_or("--release needs a version")?),
            other => rest.push(other),
        }
    }
    let library = |profile: &str| java::library(root, given, profile);
    match rest.split_first() {
        Some((&"test", classes)) => store_tests(root, &library("release")?, release, classes),
        _ if release.is_some() => Err("--release is for the tests".to_owned()),
        Some((&"--short", settings)) => short(root, &library("dev")?, settings),
        _ => compare(root, &library("release")?, &rest, LONG_LIMIT),
    }
}

/// The stage of continuous integration: the short form with the library of the dev profile.
pub fn stage(root: &Path) -> Result<(), String> {
    short(root, &java::library(root, None, "dev")?, &[])
}

fn short(root: &Path, library: &Path, settings: &[&str]) -> Result<(), String> {
    let java = format!("java={SHORT_JAVA}");
    let mut all: Vec<&str> = SHORT.to_vec();
    all.push(&java);
    all.extend(settings);
    compare(root, library, &all, SHORT_LIMIT)
}

/// Runs the comparison with `settings`, which are arguments of the class `Comparison`, and ends it after `limit`.
fn compare(root: &Path, library: &Path, settings: &[&str], limit: Duration) -> Result<(), String> {
    let work = target(root).join("kafka-streams");
    let example = root.join("examples/kafka-streams");
    maven(
        &example,
        &["package", &format!("-Doutput={}", work.display())],
    )?;
    let path = read(&work.join("class-path.txt"))?;
    let rocksdb = rocksdb(&work, &path)?;
    let jar = work.join("kafka-streams-example.jar");
    let run = work.join("run");
    let mut comparison = Command::new("java")
        .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"])
        .args(["-cp", &format!("{}:{path}", jar.display())])
        .arg("cairn.streams.Comparison")
        .arg(format!("rocksdb={}", rocksdb.display()))
        .arg(format!("cairn={}", library.display()))
        .arg(format!("work={}", run.display()))
        .args(settings)
        // The comparison, and the processes that it starts, end when it is closed.
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| format!("java: {error}"))?;
    let started = Instant::now();
    let ended = loop {
        match comparison.try_wait() {
            Ok(None) if started.elapsed() < limit => {
                std::thread::sleep(Duration::from_millis(100));
            }
            ended => break ended.map_err(|error| format!("java: {error}"))?,
        }
    };
    let failure = match ended {
        Some(status) if status.success() => return Ok(()),
        Some(status) => format!("the comparison failed with {status}"),
        None => {
            let _ = comparison.kill();
            let _ = comparison.wait();
            format!("the comparison has not ended after {limit:?}")
        }
    };
    print_logs(&run);
    Err(format!("{failure}; the logs are in {}", run.display()))
}

/// Prints the last lines of the logs in `folder` and in those below it.
fn print_logs(folder: &Path) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            print_logs(&entry);
        } else if entry
            .extension()
            .is_some_and(|extension| extension == "log")
            && let Ok(text) = read(&entry)
        {
            let lines: Vec<&str> = text.lines().collect();
            println!("{}:", entry.display());
            for line in &lines[lines.len().saturating_sub(LINES_OF_LOGS)..] {
                println!("  {line}");
            }
        }
    }
}

/// Runs the tests of Kafka Streams' stores, or `classes` of them, with both libraries.
fn store_tests(
    root: &Path,
    library: &Path,
    release: Option<&String>,
    classes: &[&str],
) -> Result<(), String> {
    let work = target(root).join("kafka-streams-tests");
    std::fs::create_dir_all(&work).map_err(|error| error.to_string())?;
    let tests = root.join("examples/kafka-streams/store-tests");
    let listed = work.join("class-path.txt");
    let mut words = vec![
        "dependency:build-classpath".to_owned(),
        format!("-Dmdep.outputFile={}", listed.display()),
    ];
    words.extend(release.map(|release| format!("-Dkafka.version={release}")));
    maven(
        &tests,
        &words.iter().map(String::as_str).collect::<Vec<_>>(),
    )?;
    let path = read(&listed)?;
    let rocksdb = rocksdb(&work, &path)?;
    let logging = tests.join("log4j2.properties");
    let mut passed = Vec::new();
    for (name, folder) in [("rocksdb", rocksdb.as_path()), ("cairn", library)] {
        let reports = work.join(name);
        fresh(&reports)?;
        let mut java = Command::new("java");
        java.arg("-Xmx1g")
            .arg(format!("-Dlog4j2.configurationFile={}", logging.display()))
            .arg(format!("-Djava.library.path={}", folder.display()))
            .args(["-cp", path.trim()])
            .args(["org.junit.platform.console.ConsoleLauncher", "execute"])
            .args(["--disable-banner", "--details=summary"])
            .args(["--include-classname", ".*Test", "--reports-dir"])
            .arg(&reports)
            .current_dir(&reports);
        match classes.is_empty() {
            true => java.args(["--select-package", PACKAGE]),
            false => java.args(
                classes
                    .iter()
                    .map(|class| format!("--select-class={PACKAGE}.internals.{class}")),
            ),
        };
        let said = output(&mut java)?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        std::fs::write(work.join(format!("{name}.txt")), said)
            .map_err(|error| error.to_string())?;
        let results = results(&read(&reports.join("TEST-junit-jupiter.xml"))?);
        println!(
            "{name}: {} of {} tests passed",
            results.iter().filter(|result| result.1).count(),
            results.len()
        );
        passed.push(results);
    }
    let failed = |results: &[(String, bool)]| -> BTreeSet<String> {
        let failed = results.iter().filter(|result| !result.1);
        failed.map(|result| result.0.clone()).collect()
    };
    let (before, after) = (failed(&passed[0]), failed(&passed[1]));
    for test in before.difference(&after) {
        println!("passes with Cairn only: {test}");
    }
    let worse: Vec<_> = after.difference(&before).collect();
    for test in &worse {
        println!("fails with Cairn only: {test}");
    }
    match worse.is_empty() && passed[0].len() == passed[1].len() && !passed[0].is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{} tests fail with Cairn only; the output is in {}",
            worse.len(),
            work.display()
        )),
    }
}

/// The tests in a report of JUnit, by class and name, and true for those that passed.
fn results(report: &str) -> Vec<(String, bool)> {
    let mut results = Vec::new();
    for case in report.split("<testcase ").skip(1) {
        let case = case.split("</testcase>").next().unwrap_or(case);
        let attribute = |name: &str| {
            let start = case.find(&format!("{name}=\""))? + name.len() + 2;
            let end = start + case[start..].find('"')?;
            Some(case[start..end].to_owned())
        };
        let class = attribute("classname").unwrap_or_default();
        let name = attribute("name").unwrap_or_default();
        let failed = case.contains("<failure") || case.contains("<error");
        results.push((format!("{class}.{name}"), !failed));
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_passed_and_failed_tests() {
        let report = "<testsuite>\n<testcase name=\"a()\" classname=\"x.Y\" time=\"1\">\n<system-out>unique-id</system-out>\n</testcase>\n<testcase name=\"b()\" classname=\"x.Y\">\n<failure message=\"no\"/>\n</testcase>\n<testcase name=\"c()\" classname=\"x.Z\">\n<error/></testcase></testsuite>";
        assert_eq!(
            results(report),
            [
                ("x.Y.a()".to_owned(), true),
                ("x.Y.b()".to_owned(), false),
                ("x.Z.c()".to_owned(), false)
            ]
        );
    }
}
