//! The `cairn` command line tool.
//!
//! [`args`] defines the arguments, [`commands`] and other modules the commands. Commands print to
//! standard output and report errors to standard error. The exit code is 0 on success, 1 if something
//! was not found or not intact, and 2 for invalid arguments and other errors.

mod args;
mod backup;
mod bench;
mod cache;
mod commands;
mod files;
mod inspect;
mod load;
mod manual;
mod memory;
mod progress;
mod show;
mod tables;
mod target;
mod trace;
mod verify;

use std::fmt::Display;
use std::io::{BufWriter, ErrorKind, StdoutLock, Write};
use std::process::ExitCode;

use cairn_types::{Code, Error, Result};
use clap::Parser;

use args::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse_from(bench::normalized(std::env::args_os()));
    let stdout = std::io::stdout().lock();
    let mut out = BufWriter::with_capacity(
        1 << 16,
        Pipe {
            stdout,
            is_closed: false,
        },
    );
    let result = run(&cli.command, &mut out);
    let was_closed = out.get_ref().is_closed;
    match (result, out.flush()) {
        (Err(_), _) if was_closed => ExitCode::SUCCESS,
        (Err(error), _) => failed(&error),
        (Ok(_), Err(error)) if error.kind() != ErrorKind::BrokenPipe => {
            failed(&Error::io_text(format!("print: {error}")))
        }
        (Ok(true), _) => ExitCode::SUCCESS,
        (Ok(false), _) => ExitCode::FAILURE,
    }
}

/// Standard output that notes when its reader closes it, as in `| head`, which ends a command and is not an error.
struct Pipe {
    stdout: StdoutLock<'static>,
    is_closed: bool,
}

impl Pipe {
    fn note<T>(&mut self, result: std::io::Result<T>) -> std::io::Result<T> {
        let error = result.as_ref().err();
        self.is_closed |= error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe);
        result
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.stdout.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = self.stdout.flush();
        self.note(flushed)
    }
}

fn failed(error: &Error) -> ExitCode {
    complain(error);
    match error.code() {
        Code::NotFound | Code::Corruption => ExitCode::FAILURE,
        _ => ExitCode::from(2),
    }
}

/// Prints a line to standard error, whose reader may have closed it.
fn complain(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "cairn: {text}");
}

/// Runs a command. Returns false if something was not found or not intact.
fn run(command: &Command, out: &mut dyn Write) -> Result<bool> {
    let done = |result: Result<()>| result.map(|()| true);
    match command {
        Command::Get(flags) => commands::get(flags, out),
        Command::Put(flags) => done(commands::put(flags)),
        Command::Delete(flags) => done(commands::delete(flags)),
        Command::Scan(flags) => done(commands::scan(flags, out)),
        Command::Load(flags) => done(commands::load(flags, out)),
        Command::ListFamilies(flags) => done(commands::list_families(flags, out)),
        Command::Properties(flags) => done(commands::properties(flags, out)),
        Command::Memory(flags) => done(memory::run(flags, out)),
        Command::Compact(flags) => done(commands::compact(flags)),
        Command::Flush(flags) => done(commands::flush(flags)),
        Command::Ingest(flags) => done(files::ingest(flags)),
        Command::Checkpoint(flags) => done(files::checkpoint(flags, out)),
        Command::Backup(command) => backup::run(command, out),
        Command::Export(flags) => done(files::export(flags, out)),
        Command::Import(flags) => done(files::import(flags, out)),
        Command::Repair(flags) => files::repair(flags, out),
        Command::Destroy(flags) => done(files::destroy(flags)),
        Command::Inspect(flags) => inspect::run(flags, out),
        Command::Verify(flags) => verify::run(flags, out),
        Command::Cache(flags) => done(cache::run(flags, out)),
        Command::Trace(flags) => done(trace::run(flags, out)),
        Command::Bench(flags) => done(bench::run(flags, out)),
        Command::Generate(flags) => done(manual::run(flags)),
    }
}
