//! Detection and installation of the programs that the stages need.
//!
//! On Debian and its derivatives `apt-get` installs packages, as root or through `sudo`; `rustup` adds
//! components of the toolchain; `cargo install` builds tools of a pinned version. On other systems the
//! result names the packages to install by hand.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program or file that a step needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The test for its presence.
    pub probe: Probe,
    /// Its source.
    pub source: Source,
}

/// The test for the presence of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// An executable in a directory of `PATH`.
    Program(&'static str),
    /// A command that exits with success.
    Succeeds(&'static [&'static str]),
    /// A header that the C++ compiler finds.
    Header(&'static str),
}

/// The source of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A package of Debian and Ubuntu.
    Debian(&'static str),
    /// A component of the Rust toolchain.
    Rustup(&'static str),
    /// A program of a crate, and the crate's version.
    Crate(&'static str, &'static str),
}

impl Part {
    /// The name of the program, or `None` for other parts.
    pub fn program(&self) -> Option<&'static str> {
        match self.probe {
            Probe::Program(name) => Some(name),
            Probe::Succeeds(_) | Probe::Header(_) => None,
        }
    }

    fn is_there(&self) -> bool {
        match self.probe {
            Probe::Program(name) => on_path(name).is_some(),
            Probe::Succeeds(words) => quiet(Command::new(words[0]).args(&words[1..])),
            Probe::Header(name) => quiet(
                Command::new("c++")
                    .args(["-fsyntax-only", "-x", "c++", "-include", name])
                    .arg("/dev/null"),
            ),
        }
    }
}

/// True if `command` succeeds. Its output is discarded.
fn quiet(command: &mut Command) -> bool {
    command.stdin(Stdio::null());
    command.output().is_ok_and(|done| done.status.success())
}

/// The executable file called `name` in the directories of `PATH`.
fn on_path(name: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = std::env::var_os("PATH")?;
    let executable = |file: &Path| {
        file.metadata()
            .is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|file| executable(file))
}

/// Those of `parts` that the machine lacks.
pub fn missing<'p>(parts: impl IntoIterator<Item = &'p Part>) -> Vec<Part> {
    let parts = parts.into_iter().filter(|part| !part.is_there());
    parts.copied().collect()
}

/// The command that installs Debian packages on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installer {
    /// `apt-get` as root.
    Direct,
    /// `apt-get` through `sudo`.
    Sudo,
    /// None: there is no `apt-get`, or neither root nor `sudo`.
    None,
}

impl Installer {
    /// The installer of a machine with these programs and this user.
    fn of(apt_get: bool, root: bool, sudo: bool) -> Installer {
        match (apt_get, root, sudo) {
            (true, true, _) => Installer::Direct,
            (true, false, true) => Installer::Sudo,
            _ => Installer::None,
        }
    }

    /// The installer of this machine.
    fn here() -> Installer {
        let user = Command::new("id").arg("-u").output();
        let root = user.is_ok_and(|done| done.stdout.trim_ascii() == b"0");
        let has = |name| on_path(name).is_some();
        Installer::of(has("apt-get"), root, has("sudo"))
    }

    fn apt_get(self, words: &[&str]) -> Result<(), String> {
        let mut command = match self {
            Installer::Direct => Command::new("apt-get"),
            Installer::Sudo => {
                let mut sudo = Command::new("sudo");
                sudo.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]);
                sudo
            }
            Installer::None => return Err("no apt-get, or no permission to run it".to_owned()),
        };
        command.env("DEBIAN_FRONTEND", "noninteractive").args(words);
        succeed(&mut command)
    }

    fn debian(self, packages: &[&str]) -> Result<(), String> {
        if self == Installer::None {
            return self.apt_get(&[]);
        }
        println!("installing {}", packages.join(" "));
        self.apt_get(&["update", "-qq"])?;
        let install = ["install", "-y", "-qq", "--no-install-recommends"];
        self.apt_get(&[&install[..], packages].concat())
    }
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    // The output of an installer is shown only if it fails.
    let done = command.stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("{name}: {error}"))?;
    match done.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{name} failed with {}: {}",
            done.status,
            String::from_utf8_lossy(&done.stderr).trim()
        )),
    }
}

/// Installs `parts`. Returns the reason for each failure.
pub fn install(parts: &[Part]) -> Vec<String> {
    let mut failures = Vec::new();
    let packages: Vec<&str> = debian(parts);
    if !packages.is_empty()
        && let Err(why) = Installer::here().debian(&packages)
    {
        failures.push(format!("{}: {why}", packages.join(" ")));
    }
    for part in parts {
        let words = match part.source {
            Source::Debian(_) => continue,
            source => by_command(source),
        };
        println!("installing with {}", words.join(" "));
        let mut command = Command::new(words[0]);
        // The tools run for a second, so optimizing them takes longer than it saves.
        command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
        command.env("CARGO_PROFILE_RELEASE_LTO", "off");
        command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
        if let Err(why) = succeed(command.args(&words[1..])) {
            failures.push(why);
        }
    }
    failures
}

/// The Debian packages of `parts`, without duplicates.
fn debian(parts: &[Part]) -> Vec<&'static str> {
    let mut packages = Vec::new();
    for part in parts {
        if let Source::Debian(package) = part.source
            && !packages.contains(&package)
        {
            packages.push(package);
        }
    }
    packages
}

/// The command that installs a part from another source than Debian.
fn by_command(source: Source) -> Vec<&'static str> {
    match source {
        Source::Debian(package) => vec!["apt-get", "install", package],
        Source::Rustup(name) => vec!["rustup", "component", "add", name],
        Source::Crate(name, version) => {
            vec!["cargo", "install", "--locked", name, "--version", version]
        }
    }
}

/// The command by which a user installs `parts`.
pub fn by_hand(parts: &[Part]) -> String {
    let packages = debian(parts);
    let mut commands = Vec::new();
    if !packages.is_empty() {
        commands.push(format!("apt-get install {}", packages.join(" ")));
    }
    for part in parts {
        if !matches!(part.source, Source::Debian(_)) {
            commands.push(by_command(part.source).join(" "));
        }
    }
    commands.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &'static str, package: &'static str) -> Part {
        Part {
            probe: Probe::Program(name),
            source: Source::Debian(package),
        }
    }

    #[test]
    fn packages_are_installed_by_root_or_through_sudo() {
        assert_eq!(Installer::of(true, true, false), Installer::Direct);
        assert_eq!(Installer::of(true, false, true), Installer::Sudo);
        assert_eq!(Installer::of(true, false, false), Installer::None);
        assert_eq!(Installer::of(false, true, true), Installer::None);
    }

    #[test]
    fn without_an_installer_the_reason_is_returned() {
        let why = Installer::None.debian(&["valgrind"]).unwrap_err();
        assert!(why.contains("no apt-get"), "{why}");
    }

    #[test]
    fn installed_programs_are_not_missing() {
        let (shell, absent) = (program("sh", "dash"), program("no such program", "none"));
        assert_eq!(missing(&[shell, absent]), [absent]);
        let runs = Part {
            probe: Probe::Succeeds(&["sh", "-c", "exit 1"]),
            source: Source::Rustup("none"),
        };
        assert_eq!(missing(&[runs]), [runs]);
    }

    #[test]
    fn a_package_of_two_programs_is_named_once() {
        let parts = [
            program("a", "both"),
            program("b", "both"),
            Part {
                probe: Probe::Succeeds(&["false"]),
                source: Source::Rustup("clippy"),
            },
        ];
        assert_eq!(
            by_hand(&parts),
            "apt-get install both; rustup component add clippy"
        );
    }
}
