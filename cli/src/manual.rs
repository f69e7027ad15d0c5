//! Manual pages and shell completions, made from the definition of the arguments.

use std::fs;
use std::path::{Path, PathBuf};

use cairn_types::{Error, Result};
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::args::Cli;

/// The arguments of `generate`.
#[derive(Debug, clap::Args)]
pub struct Generate {
    /// The directory, which gets `man1` and `completions`.
    pub dir: PathBuf,
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::io_text(format!("{}: {error}", path.display()))
}

/// Writes a manual page for the tool and each of its commands, and completions for bash, zsh and fish.
pub fn run(flags: &Generate) -> Result<()> {
    let pages = flags.dir.join("man1");
    let completions = flags.dir.join("completions");
    for dir in [&pages, &completions] {
        fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    }
    // Without the pages of `help`, which repeat those of the commands.
    let command = Cli::command()
        .disable_help_subcommand(true)
        .mut_subcommands(|command| command.disable_help_subcommand(true));
    clap_mangen::generate_to(command, &pages).map_err(|error| failed(&pages, &error))?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), "cairn", &completions)
            .map_err(|error| failed(&completions, &error))?;
    }
    Ok(())
}
