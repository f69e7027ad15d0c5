//! Worker processes, each of which runs the benchmarks of one round in one engine.
//!
//! A worker is this program with the same flags and a few hidden ones. It prints one JSON object per line:
//! the costs of each benchmark, then the effective options of the engine. Each engine thus has its own
//! memory, caches and threads, and a crash does not affect the others.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use cairn::{Error, Result};
use serde_json::{Value, json};

use crate::benchmarks::Benchmark;
use crate::db_dir::{directories, directory, newest_options};
use crate::engine::Source;
use crate::flags::Flags;
use crate::measurement::Measurement;
use crate::progress::Begin;
use crate::{printed, run};

/// The round in which databases are prepared.
pub const PREPARING: u64 = 0;

/// The output of a worker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerOutput {
    /// The costs of each benchmark, in order.
    pub measured: Vec<Measurement>,
    /// The text of the engine's newest OPTIONS file.
    pub options: String,
}

/// Returns the flags of a worker, with the benchmarks of its round.
fn own_flags(flags: &Flags) -> Flags {
    let mut own = flags.clone();
    if let Some(prepare) = &flags.prepare {
        match flags.worker_round {
            PREPARING => {
                own.benchmarks.clone_from(prepare);
                own.duration = 0;
            }
            _ => own.use_existing_db = true,
        }
    }
    own
}

/// Runs the benchmarks of a worker and prints its lines.
///
/// # Errors
///
/// As [`run::run`].
pub fn work<S: Source>(
    source: &S,
    flags: &Flags,
    begin: Begin<'_>,
    out: &mut dyn Write,
) -> Result<()> {
    let flags = own_flags(flags);
    let benchmarks = Benchmark::list(&flags.benchmarks, &flags)?;
    run::run(source, &flags, &benchmarks, begin, |outcome| {
        printed(writeln!(out, "{}", outcome.measured.to_json()))?;
        printed(out.flush())
    })?;
    let dir = flags
        .worker_dir
        .clone()
        .unwrap_or_else(|| directory(&flags));
    let dirs = directories(&dir, flags.databases());
    printed(writeln!(
        out,
        "{}",
        json!({ "options": newest_options(&dirs[0]) })
    ))
}

/// Runs `engine` in a worker process on the database in `dir`, with the arguments of this process.
///
/// # Errors
///
/// The process cannot be started, fails, or prints unexpected output.
pub fn start(engine: &str, dir: &Path, round: u64) -> Result<WorkerOutput> {
    let failed = |what: String| Error::io_text(format!("the worker of engine {engine} {what}"));
    let program =
        std::env::current_exe().map_err(|error| failed(format!("cannot be started: {error}")))?;
    let mut own: Vec<OsString> = vec!["--worker".into(), engine.into()];
    own.extend(["--worker_dir".into(), dir.into()]);
    own.push(format!("--worker_round={round}").into());
    let output = Command::new(program)
        .args(std::env::args_os().skip(1))
        .args(own)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    if !output.status.success() {
        return Err(failed(format!(
            "ended with {} in round {round}; its output is above",
            output.status
        )));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    parse(&text).map_err(|line| failed(format!("printed {line:?} instead of a result")))
}

/// Parses the output of a worker.
///
/// # Errors
///
/// The unexpected line.
pub fn parse(text: &str) -> std::result::Result<WorkerOutput, String> {
    let mut said = WorkerOutput::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let value: Value = serde_json::from_str(line).map_err(|_| line.to_owned())?;
        if let Some(options) = value.get("options").and_then(Value::as_str) {
            options.clone_into(&mut said.options);
        } else {
            let measured = Measurement::from_json(&value).ok_or_else(|| line.to_owned())?;
            said.measured.push(measured);
        }
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_output_is_parsed_and_other_lines_are_reported() {
        let one = Measurement {
            name: "readrandom".into(),
            done: 7,
            ..Measurement::default()
        };
        let text = format!(
            "{}\n\n{}\n",
            one.to_json(),
            json!({"options": "[Version]\n"})
        );
        let said = parse(&text).unwrap();
        assert_eq!(said.measured, [one]);
        assert_eq!(said.options, "[Version]\n");
        assert_eq!(parse("{\"x\":1}"), Err("{\"x\":1}".to_owned()));
        assert_eq!(parse("hello"), Err("hello".to_owned()));
    }
}
