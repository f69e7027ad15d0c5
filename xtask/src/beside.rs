//! Stages that run beside others, as a process of their own.
//!
//! Most of them leave a core idle for most of their time: they wait for a broker, for a clock, or for crates that are
//! compiled one after the other, in other ways than for the other stages. With `meta`, both processes take about the same
//! time on two cores. Their output is printed at the end, so that the outputs do not mix.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

use crate::commands::{announce, read, target};
use crate::tool_requirements::Selection;

/// The stages, in the order in which they run.
pub const STAGES: [&str; 6] = ["loom", "meta", "streams", "fuzz", "soak", "counts"];

/// Running stages. They end when this is dropped.
pub struct Beside {
    child: Child,
    log: PathBuf,
    names: String,
    started: Instant,
    ended: bool,
}

impl Beside {
    /// Starts those of [`STAGES`] that are selected, and deselects them.
    ///
    /// # Errors
    ///
    /// The process cannot be started.
    pub fn start(root: &Path, selection: &mut Selection) -> Result<Option<Beside>, String> {
        let stages = &mut selection.stages;
        let chosen: Vec<&str> = stages
            .extract_if(.., |stage| STAGES.contains(stage))
            .collect();
        if chosen.is_empty() {
            return Ok(None);
        }
        let log = target(root).join("beside.log");
        let failed = |error: std::io::Error| format!("the stages {}: {error}", chosen.join(", "));
        let file = File::create(&log).map_err(failed)?;
        let mut command = Command::new("cargo");
        command
            .args(["xtask", "test"])
            .args(&chosen)
            .current_dir(root);
        let absent = selection.absent();
        if !absent.is_empty() {
            command.arg(format!("--without={absent}"));
        }
        command
            .stdout(file.try_clone().map_err(failed)?)
            .stderr(file)
            // Its own processes end with it.
            .process_group(0);
        announce(&format!("beside the following: {}", chosen.join(", ")));
        Ok(Some(Beside {
            child: command.spawn().map_err(failed)?,
            log,
            names: chosen.join(", "),
            started: Instant::now(),
            ended: false,
        }))
    }

    /// Fails if the stages have failed so far.
    ///
    /// # Errors
    ///
    /// A stage failed.
    pub fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(Some(status)) if !status.success() => self.outcome(status),
            Ok(_) => Ok(()),
            Err(error) => Err(format!("the stages {}: {error}", self.names)),
        }
    }

    /// Waits for the stages and returns a line of the summary.
    ///
    /// # Errors
    ///
    /// A stage failed.
    pub fn finish(mut self) -> Result<String, String> {
        let waited = Instant::now();
        let status = self.child.wait();
        let status = status.map_err(|error| format!("the stages {}: {error}", self.names))?;
        self.outcome(status)?;
        Ok(format!(
            "{} {:.0} s beside them and {:.0} s after them",
            self.names,
            waited.duration_since(self.started).as_secs_f64(),
            waited.elapsed().as_secs_f64(),
        ))
    }

    fn outcome(&mut self, status: ExitStatus) -> Result<(), String> {
        self.ended = true;
        println!("\n== {}", self.names);
        println!("{}", read(&self.log)?);
        match status.success() {
            true => Ok(()),
            false => Err(format!("one of the stages {} failed", self.names)),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.ended {
            let group = format!("-{}", self.child.id());
            let _ = Command::new("kill").args(["--", &group]).status();
            let _ = self.child.wait();
        }
    }
}
