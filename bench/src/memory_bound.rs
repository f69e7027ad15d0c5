//! Peaks of resident memory, measured from outside: ten workloads, each in a child process.
//!
//! Each workload runs in Cairn under `--memory_budget`. With `--engines`, each engine also runs it at equal
//! explicit settings: an eighth of the budget limits the memtables, and the rest is the block cache. The parent polls
//! the peak that the kernel counts for the child (`VmHWM`), which includes its code and the memory of the benchmark.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use cairn::{Error, FamilyDescriptor, FamilyOptions, Result};

use crate::db_dir::directory;
use crate::flags::{Flags, OURS};
use crate::printed;

/// The name of all workloads; that of one is the name, a hyphen and its own.
pub const NAME: &str = "memory";

/// The budget if none is given.
const USUAL_BUDGET: u64 = 64 << 20;

/// The share of the memtables at explicit settings, as a divisor.
const BUFFERS_OF_BUDGET: u64 = 8;

/// The column families of the workload `families`.
const FAMILIES: usize = 1000;

/// The interval at which a child is polled.
const POLL: Duration = Duration::from_millis(2);

/// A workload: its name, and the arguments of the child.
struct Workload {
    name: &'static str,
    args: &'static [&'static str],
}

const WORKLOADS: [Workload; 10] = [
    Workload {
        name: "fill",
        args: &[
            "--benchmarks=fillrandom",
            "--num=1500000",
            "--value_size=200",
        ],
    },
    Workload {
        name: "reads",
        args: &[
            "--benchmarks=fillrandom,readrandom",
            "--num=1000000",
            "--value_size=200",
        ],
    },
    Workload {
        name: "scans",
        args: &[
            "--benchmarks=fillrandom,readseq,readreverse",
            "--num=1000000",
            "--value_size=200",
        ],
    },
    Workload {
        name: "families",
        args: &[
            "--benchmarks=overwrite,readrandom",
            "--num=500000",
            "--use_existing_db",
        ],
    },
    Workload {
        name: "files",
        args: &[
            "--benchmarks=fillrandom,compact,readrandom",
            "--num=2000000",
            "--value_size=200",
            "--options=target_file_size_base=20480",
        ],
    },
    Workload {
        name: "iterators",
        args: &[
            "--benchmarks=fillrandom,seekrandom",
            "--num=4000",
            "--value_size=4000",
            "--threads=16",
            "--reads=100",
            "--seek_nexts=1000",
        ],
    },
    Workload {
        name: "bursts",
        args: &[
            "--benchmarks=fillrandom",
            "--num=100000",
            "--threads=8",
            "--batch_size=100",
            "--value_size=400",
        ],
    },
    Workload {
        name: "blobs",
        args: &[
            "--benchmarks=fillrandom,readrandom",
            "--num=150000",
            "--value_size=2000",
            "--options=enable_blob_files=true",
        ],
    },
    Workload {
        name: "large-values",
        args: &[
            "--benchmarks=fillrandom,readrandom",
            "--num=100",
            "--threads=16",
            "--value_size=200000",
        ],
    },
    Workload {
        name: "openings",
        args: &[
            "--benchmarks=fillrandom,open",
            "--num=300000",
            "--reads=200",
        ],
    },
];

/// The workloads that `benchmarks` selects; `None` if it names another benchmark.
fn selected(benchmarks: &str) -> Option<Vec<&'static Workload>> {
    let mut selected = Vec::new();
    for name in benchmarks.split(',') {
        match name.strip_prefix(NAME)? {
            "" => selected.extend(&WORKLOADS),
            rest => {
                let rest = rest.strip_prefix('-')?;
                selected.push(WORKLOADS.iter().find(|one| one.name == rest)?);
            }
        }
    }
    Some(selected)
}

/// True if the flags select workloads of this module.
#[must_use]
pub fn is_selected(flags: &Flags) -> bool {
    flags.worker.is_none() && selected(&flags.benchmarks).is_some()
}

/// A run of a workload: an engine, and its memory settings.
struct Variant<'a> {
    engine: &'a str,
    label: String,
    settings: Vec<String>,
}

/// Runs the selected workloads and prints a line for each: the budget, the peak under it, their ratio, and the peak of
/// each engine at equal settings.
///
/// # Errors
///
/// A child cannot be started or fails.
pub fn run(flags: &Flags, out: &mut dyn Write) -> Result<()> {
    let budget = flags.memory_budget.unwrap_or(USUAL_BUDGET);
    let buffers = budget / BUFFERS_OF_BUDGET;
    let explicit = vec![
        format!("--cache_size={}", budget - buffers),
        format!(
            "--options=db_write_buffer_size={buffers};write_buffer_size={}",
            buffers / 2
        ),
    ];
    let mut variants = vec![Variant {
        engine: OURS,
        label: "peak".to_owned(),
        settings: vec![format!("--memory_budget={budget}")],
    }];
    for (at, engine) in flags.engines.iter().enumerate() {
        variants.push(Variant {
            engine,
            label: format!("engine {at}"),
            settings: explicit.clone(),
        });
    }
    let root = directory(flags);
    printed(write!(out, "{:<14}{:>10}", "MiB", "budget"))?;
    for variant in &variants {
        printed(write!(out, "{:>10}", variant.label))?;
    }
    printed(writeln!(out, "{:>12}", "peak/budget"))?;
    for workload in selected(&flags.benchmarks).unwrap_or_default() {
        printed(write!(out, "{:<14}{:>10.1}", workload.name, mib(budget)))?;
        let mut own = 0;
        for (at, variant) in variants.iter().enumerate() {
            let dir = root.join(format!("{}-{at}", workload.name));
            let peak = peak_of(workload, variant, flags.given_num, &dir)?;
            own = if at == 0 { peak } else { own };
            printed(write!(out, "{:>10.1}", mib(peak)))?;
            printed(out.flush())?;
        }
        printed(writeln!(out, "{:>12.3}", own as f64 / budget as f64))?;
    }
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Runs a workload, with `num` entries if given, in a child, and returns its peak of resident memory in bytes.
fn peak_of(
    workload: &Workload,
    variant: &Variant<'_>,
    num: Option<u64>,
    dir: &Path,
) -> Result<u64> {
    let failed = |what: String| Error::io_text(format!("the workload {} {what}", workload.name));
    forget(dir);
    if workload.name == "families" {
        create_families(dir)?;
    }
    let program =
        std::env::current_exe().map_err(|error| failed(format!("cannot be started: {error}")))?;
    // The command of this program that runs benchmarks.
    let command: Vec<OsString> = std::env::args_os().skip(1).take(1).collect();
    let mut child = Command::new(program)
        .args(command)
        .args(merged_options(workload.args, &variant.settings, num))
        // Each thread has a histogram of 250 kB otherwise.
        .arg("--histogram=0")
        .args(["--worker", variant.engine])
        .arg("--worker_dir")
        .arg(dir)
        .arg("--worker_round=1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let mut peak = 0;
    let ended = loop {
        peak = peak.max(peak_in(&status));
        match child.try_wait() {
            Ok(Some(ended)) => break ended,
            Ok(None) => std::thread::sleep(POLL),
            Err(error) => return Err(failed(format!("is lost: {error}"))),
        }
    };
    forget(dir);
    match ended.success() {
        true => Ok(peak),
        false => Err(failed(format!("ended with {ended} in {}", variant.engine))),
    }
}

/// The arguments with one `--options` for those of both, and with `num` entries.
fn merged_options(args: &[&str], settings: &[String], num: Option<u64>) -> Vec<String> {
    let mut all: Vec<String> = num.iter().map(|num| format!("--num={num}")).collect();
    let mut options = Vec::new();
    for arg in args
        .iter()
        .copied()
        .chain(settings.iter().map(String::as_str))
    {
        match arg.strip_prefix("--options=") {
            Some(text) => options.push(text),
            None if num.is_some() && arg.starts_with("--num=") => {}
            None => all.push(arg.to_owned()),
        }
    }
    if !options.is_empty() {
        all.push(format!("--options={}", options.join(";")));
    }
    all
}

/// The peak of the process with this status file; 0 once it has ended.
fn peak_in(status: &Path) -> u64 {
    let text = std::fs::read_to_string(status).unwrap_or_default();
    crate::resource_usage::field(&text, "VmHWM:") * 1024
}

/// Removes the database of a workload.
fn forget(dir: &Path) {
    // A directory that remains makes the child fail.
    let _ = std::fs::remove_dir_all(dir);
}

/// Creates a database with many column families.
fn create_families(dir: &Path) -> Result<()> {
    let families = (0..FAMILIES)
        .map(|n| FamilyDescriptor::new(format!("family{n}"), FamilyOptions::default()));
    let db = cairn::Db::builder(dir)
        .create_if_missing(true)
        .create_missing_column_families(true)
        .families(families)
        .open()?;
    db.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_selected_by_name() {
        let names = |text| selected(text).map(|all| all.iter().map(|it| it.name).collect());
        let names: Vec<Option<Vec<&str>>> = vec![
            names("memory-blobs,memory-fill"),
            names("memory-fill,readseq"),
            names("memory-none"),
        ];
        assert_eq!(names, [Some(vec!["blobs", "fill"]), None, None]);
        assert_eq!(selected(NAME).unwrap().len(), 10);
    }

    #[test]
    fn options_are_passed_once() {
        let settings = ["--x".to_owned(), "--options=b=2".to_owned()];
        let args = ["--options=a=1", "--num=3"];
        let merged = merged_options(&args, &settings, None);
        assert_eq!(merged, ["--num=3", "--x", "--options=a=1;b=2"]);
        let merged = merged_options(&args, &settings, Some(4));
        assert_eq!(merged, ["--num=4", "--x", "--options=a=1;b=2"]);
    }
}
