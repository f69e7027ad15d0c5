//! The command line: runs and crashes scripts, and reproduces failures.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use cairn_model::cairn_factory::{CairnFactory, EncryptedFactory};
use cairn_model::crash::{Checker, Counts, CrashFailure, Effort, crash};
use cairn_model::engine::Factory;
use cairn_model::failure::Failure;
use cairn_model::option_sets::NamedSet;
use cairn_model::run::run;
use cairn_model::script::Script;
use cairn_model::token::{CrashPoint, Token};
use cairn_model::toy::ToyFactory;
use cairn_model::workload::Workload;
use cairn_model::{generate, option_sets, workload};

mod fault_command;
mod stall_watchdog;

use cairn_platform::PosixFileSystem;
use cairn_platform::sync::{AtomicU64, Mutex, Ordering};
use cairn_types::{Error, Result};

const USAGE: &str = "\
usage: cairn-model COMMAND [--name value]...

  meta     runs scripts against the model    --seed N --count N --ops N --engine E
                                             --set S (a named option set; default all)
  crash    runs scripts and crashes them     --seed N --count N --ops N --engine E [--thorough]
                                             --images N (per moment and model) --models M,M
                                             both: --threads N --workload W (default all)
  fault    injects faults                    --seed N --count N --ops N --engine E --workload W
                                             --runs N (per script) --threads N --keep-going
  script   prints a script                   --seed N --ops N --workload W
  file     runs the script in a file         PATH --seed N --engine E
  replay   reproduces a failure with trace TOKEN
  export   writes its disk image             TOKEN DIRECTORY
";

/// Returns the engine of this name.
fn engine(name: &str) -> Result<Box<dyn Factory>> {
    match name {
        "cairn" => Ok(Box::new(CairnFactory)),
        "encrypted" => Ok(Box::new(EncryptedFactory)),
        "toy" => Ok(Box::new(ToyFactory::correct())),
        other => Err(Error::invalid_argument(format!(
            "unknown engine {other:?}, expected cairn, encrypted or toy"
        ))),
    }
}

/// The arguments after the command.
struct Arguments(Vec<String>);

impl Arguments {
    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|argument| argument == name)
    }

    fn text(&self, name: &str) -> Option<&str> {
        let at = self.0.iter().position(|argument| argument == name)?;
        self.0.get(at + 1).map(String::as_str)
    }

    fn number(&self, name: &str, default: u64) -> Result<u64> {
        let Some(text) = self.text(name) else {
            return Ok(default);
        };
        let parsed = match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => text.parse(),
        };
        parsed.map_err(|_| Error::invalid_argument(format!("{name} {text:?} is not a number")))
    }

    fn first(&self, what: &str) -> Result<&str> {
        let first = self.0.first().map(String::as_str);
        first.ok_or_else(|| Error::invalid_argument(format!("missing {what}")))
    }
}

/// Converts a failure to an error with its token.
fn failed(failure: &Failure, token: &Token) -> Error {
    Error::aborted(format!("{failure}\n{token}"))
}

fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.is_empty() {
        eprint!("{USAGE}");
        return ExitCode::from(2);
    }
    let command = arguments.remove(0);
    let arguments = Arguments(arguments);
    let done = match command.as_str() {
        "meta" => many(&arguments, false),
        "crash" => many(&arguments, true),
        "fault" => fault_command::many(&arguments),
        "script" => print_script(&arguments),
        "file" => file(&arguments),
        "replay" => replay(&arguments),
        "export" => export(&arguments),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// One script to run.
struct Task {
    workload: &'static Workload,
    set: Option<&'static NamedSet>,
    seed: u64,
    ops: usize,
}

impl Task {
    fn token(&self, engine: &str, crash: Option<CrashPoint>) -> Token {
        Token {
            engine: engine.to_owned(),
            workload: self.workload.name.to_owned(),
            set: self.set.map(|set| set.name.to_owned()),
            seed: self.seed,
            ops: self.ops,
            crash,
            fault: None,
        }
    }

    fn script(&self) -> Script {
        let script = generate::workload(self.workload, self.seed, self.ops);
        match self.set {
            Some(set) => script.with_options(set.db, set.family, set.table),
            None => script,
        }
    }

    fn of(token: &Token) -> Result<Task> {
        Ok(Task {
            workload: workload::find(&token.workload)?,
            set: token.set.as_deref().map(option_sets::find).transpose()?,
            seed: token.seed,
            ops: token.ops,
        })
    }

    /// Runs the script, and crashes it if an effort is given.
    fn run(&self, name: &str, effort: Option<&Effort>) -> Result<Counts> {
        let (factory, script) = (engine(name)?, self.script());
        let Some(effort) = effort else {
            run(factory.as_ref(), &script, self.seed)
                .map_err(|failure| failed(&failure, &self.token(name, None)))?;
            return Ok(Counts::default());
        };
        crash(factory.as_ref(), &script, self.seed, effort).map_err(|failure: Box<CrashFailure>| {
            failed(&failure.failure, &self.token(name, failure.point))
        })
    }
}

/// Returns the scripts selected by the arguments: a number of each workload or option set.
fn tasks(arguments: &Arguments, crashing: bool) -> Result<Vec<Task>> {
    let workloads: Vec<&Workload> = match arguments.text("--workload") {
        Some(name) => vec![workload::find(name)?],
        None if crashing => workload::WORKLOADS.iter().collect(),
        None => vec![&workload::FREE],
    };
    let sets: Vec<Option<&NamedSet>> = match arguments.text("--set") {
        Some(name) => vec![Some(option_sets::find(name)?)],
        None if crashing => vec![None],
        None => option_sets::SETS.iter().map(Some).collect(),
    };
    let first = arguments.number("--seed", 1)?;
    let count = arguments.number("--count", if crashing { 4 } else { 20 })?;
    let ops = arguments.number("--ops", if crashing { 50 } else { 400 })? as usize;
    let mut tasks = Vec::new();
    for seed in first..first.saturating_add(count) {
        for workload in workloads.iter().copied() {
            for set in sets.iter().copied() {
                tasks.push(Task {
                    workload,
                    set,
                    seed,
                    ops,
                });
            }
        }
    }
    Ok(tasks)
}

fn many(arguments: &Arguments, crashing: bool) -> Result<()> {
    let name = arguments.text("--engine").unwrap_or("cairn");
    engine(name)?;
    let effort = effort(arguments)?;
    let effort = crashing.then_some(&effort);
    let tasks = tasks(arguments, crashing)?;
    let next = AtomicU64::new(0);
    let total = Mutex::new(Counts::default());
    let failures = Mutex::new(BTreeMap::new());
    let work = |current: &stall_watchdog::Current| {
        while failures.lock().is_empty() {
            // Relaxed: a counter that orders no other memory access.
            let number = next.fetch_add(1, Ordering::Relaxed) as usize;
            let Some(task) = tasks.get(number) else {
                return;
            };
            if !crashing {
                current.begins(task.token(name, None).to_string());
            }
            match task.run(name, effort) {
                Ok(counts) => *total.lock() += counts,
                Err(error) => drop(failures.lock().insert(number, error)),
            }
            current.ends();
        }
    };
    stall_watchdog::run(arguments.number("--threads", 2)?.clamp(1, 64), work);
    if let Some((_, error)) = failures.lock().pop_first() {
        return Err(error);
    }
    let count = tasks.len();
    let Counts { images, nested, .. } = *total.lock();
    let operations: usize = tasks.iter().map(|task| task.ops).sum();
    match crashing {
        true => println!("{count} scripts, {images} disk images checked, {nested} of them nested"),
        false => println!("{count} scripts, {operations} operations, no difference"),
    }
    Ok(())
}

fn effort(arguments: &Arguments) -> Result<Effort> {
    let mut effort = match arguments.has("--thorough") {
        true => Effort::thorough(),
        false => Effort::quick(),
    };
    let images = arguments.number("--images", effort.images_per_moment as u64)?;
    effort.images_per_moment = usize::try_from(images).unwrap_or(usize::MAX).max(1);
    if let Some(models) = arguments.text("--models") {
        effort.models = models.split(',').map(str::parse).collect::<Result<_>>()?;
    }
    Ok(effort)
}

fn print_script(arguments: &Arguments) -> Result<()> {
    let seed = arguments.number("--seed", 1)?;
    let ops = arguments.number("--ops", 400)? as usize;
    let workload = arguments.text("--workload").unwrap_or("free");
    print!(
        "{}",
        generate::workload(workload::find(workload)?, seed, ops)
    );
    Ok(())
}

fn file(arguments: &Arguments) -> Result<()> {
    let factory = engine(arguments.text("--engine").unwrap_or("cairn"))?;
    let path = Path::new(arguments.first("a path")?);
    let world = cairn_platform::World::posix();
    let file = world.fs.open(path, Default::default())?;
    let mut bytes = vec![0; file.len()? as usize];
    let got = file.read_at(0, &mut bytes)?;
    let script: Script = String::from_utf8_lossy(&bytes[..got]).parse()?;
    let seed = arguments.number("--seed", 1)?;
    run(factory.as_ref(), &script, seed).map_err(|failure| Error::aborted(failure.text))?;
    println!("{} operations, no difference", script.ops.len());
    Ok(())
}

fn replay(arguments: &Arguments) -> Result<()> {
    let token: Token = arguments.first("a token")?.parse()?;
    let factory = engine(&token.engine)?;
    let script = Task::of(&token)?.script();
    print!("{script}");
    if let Some(point) = &token.fault {
        return fault_command::replay(factory.as_ref(), &script, &token, point);
    }
    let checker = Checker::new(factory.as_ref(), &script, token.seed)
        .map_err(|failure| failed(&failure, &token))?;
    let Some(point) = token.crash else {
        println!("no failure");
        return Ok(());
    };
    let operations = checker.trace().operations().iter().enumerate();
    for (number, operation) in operations.take(point.at) {
        println!("op {number}: {operation}");
    }
    checker
        .replay(&point)
        .map_err(|failure| failed(&failure, &token))?;
    println!("no failure");
    Ok(())
}

fn export(arguments: &Arguments) -> Result<()> {
    let token: Token = arguments.first("a token")?.parse()?;
    let dir = arguments
        .0
        .get(1)
        .ok_or_else(|| Error::invalid_argument("missing directory"))?;
    let point = token
        .crash
        .ok_or_else(|| Error::invalid_argument("not a token of a crash"))?;
    let factory = engine(&token.engine)?;
    let script = Task::of(&token)?.script();
    let checker = Checker::new(factory.as_ref(), &script, token.seed)
        .map_err(|failure| failed(&failure, &token))?;
    let image = checker.image(&point).ok_or_else(|| {
        Error::invalid_argument("the token does not name a disk image of this run")
    })?;
    image.export(&PosixFileSystem, Path::new(dir))
}
