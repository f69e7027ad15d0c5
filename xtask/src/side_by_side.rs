//! Stages that run side by side, each as a process of its own.
//!
//! Most stages leave a core idle for much of their time: they wait for a broker, for a clock, or for crates that are
//! compiled one after the other. The longest start first, so that they end at about the same time. The output of each
//! is printed when it ends.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::commands::{announce, read, target};
use crate::stages::{cpu_of_children, summary_of};
use crate::tool_requirements::Selection;

/// The stages, longest first. Not among them are the unit tests, some of which measure times.
const STAGES: [&str; 11] = [
    "clients", "counts", "loom", "interop", "capi", "crash", "fault", "streams", "meta", "soak",
    "fuzz",
];

/// The time between two looks at the running stages.
const PAUSE: Duration = Duration::from_millis(100);

/// Removes the stages that can run side by side from the selection and returns them, unless there is only one.
pub fn take(selection: &mut Selection) -> Vec<&'static str> {
    let selected = |stage: &&str| selection.stages.contains(stage);
    let chosen: Vec<&str> = STAGES.iter().copied().filter(selected).collect();
    if chosen.len() == 1 {
        return Vec::new();
    }
    selection.stages.retain(|stage| !chosen.contains(stage));
    chosen
}

/// Runs `stages`, two more at a time than there are cores, without the tools that `absent` lists. Stops at the first
/// failure. Returns a line of the summary for each.
///
/// # Errors
///
/// A stage failed or could not be started.
pub fn run(root: &Path, stages: &[&'static str], absent: &str) -> Result<Vec<String>, String> {
    let at_a_time = 2 + std::thread::available_parallelism().map_or(1, usize::from);
    let mut waiting = stages.iter();
    let mut running: Vec<Running> = Vec::new();
    let mut summary = Vec::new();
    loop {
        while running.len() < at_a_time
            && let Some(stage) = waiting.next()
        {
            running.push(Running::start(root, stage, absent)?);
        }
        if running.is_empty() {
            return Ok(summary);
        }
        sleep(PAUSE);
        let mut at = 0;
        while let Some(stage) = running.get_mut(at) {
            match stage.ended()? {
                Some(line) => {
                    summary.push(line);
                    running.swap_remove(at);
                }
                None => at += 1,
            }
        }
    }
}

/// A running stage. It is killed when this is dropped.
struct Running {
    name: &'static str,
    child: Child,
    log: PathBuf,
    started: Instant,
}

impl Running {
    fn start(root: &Path, name: &'static str, absent: &str) -> Result<Running, String> {
        let failed = |error: std::io::Error| format!("stage {name}: {error}");
        let log = target(root).join(format!("stage-{name}.log"));
        let file = File::create(&log).map_err(failed)?;
        // This program, so that no other one waits for a build of it.
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args(["test", name]).current_dir(root);
        if !absent.is_empty() {
            command.arg(format!("--without={absent}"));
        }
        command
            .stdout(file.try_clone().map_err(failed)?)
            .stderr(file)
            // Its own processes end with it.
            .process_group(0);
        announce(&format!("stage {name}"));
        Ok(Running {
            name,
            child: command.spawn().map_err(failed)?,
            log,
            started: Instant::now(),
        })
    }

    /// A line of the summary once the stage has ended.
    fn ended(&mut self) -> Result<Option<String>, String> {
        let name = self.name;
        // The time of a child counts when its end has been observed.
        let cpu = cpu_of_children();
        let status = self.child.try_wait();
        let Some(status) = status.map_err(|error| format!("stage {name}: {error}"))? else {
            return Ok(None);
        };
        println!("\n== {name}\n{}", read(&self.log)?);
        if !status.success() {
            return Err(format!("stage {name} failed"));
        }
        Ok(Some(summary_of(name, self.started, cpu)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let group = format!("-{}", self.child.id());
            let _ = Command::new("kill").args(["--", &group]).status();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stages;

    fn select(words: &[&str]) -> Selection {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        Selection::parse(&words, &stages::names()).unwrap()
    }

    #[test]
    fn all_stages_but_the_first_two_run_side_by_side() {
        let mut selection = select(&[]);
        let taken = take(&mut selection);
        assert_eq!(selection.stages, ["lint", "unit"]);
        assert_eq!(taken.len(), stages::names().len() - 2);
    }

    #[test]
    fn a_stage_without_others_runs_in_this_process() {
        let mut selection = select(&["lint", "fuzz"]);
        assert!(take(&mut selection).is_empty());
        assert_eq!(selection.stages, ["lint", "fuzz"]);
    }
}
