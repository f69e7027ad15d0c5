//! The `cairn` command line tool.
//!
//! [`args`] defines the arguments, [`commands`] and other modules the commands. Commands print to
//! standard output and report errors to standard error. The exit code is 0 on success, 1 if something
//! was not found or not intact, and 2 for invalid arguments.

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

use std::io::{BufWriter, Write};
use std::process::ExitCode;

use cairn_types::{Error, Result};
use clap::Parser;

use args::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse_from(bench::normalized(std::env::args_os()));
    let mut out = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let result = run(&cli.command, &mut out);
    let flushed = out.flush();
    match (result, flushed) {
        (Ok(true), Ok(())) => ExitCode::SUCCESS,
        (Ok(false), Ok(())) => ExitCode::FAILURE,
        // The reader has closed the pipe, as in `| head`, which is not an error.
        (_, Err(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        (Ok(_), Err(error)) => failed(&Error::io_text(format!("print: {error}"))),
        (Err(error), _) => failed(&error),
    }
}

fn failed(error: &Error) -> ExitCode {
    eprintln!("cairn: {error}");
    ExitCode::FAILURE
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
