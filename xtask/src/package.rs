//! `cargo xtask package`: Debian packages, a tarball, the Python wheel, and a jar with the library for Java.
//!
//! ```text
//! target/package/out/librocksdb-cairn11_VERSION_ARCH.deb          the shared library in a directory of its own, cairn-run
//! target/package/out/librocksdb-cairn11-default_VERSION_ARCH.deb  has the system's loader find it
//! target/package/out/librocksdb-cairn-dev_VERSION_ARCH.deb        headers, static library, pkg-config and CMake files
//! target/package/out/cairn-tools_VERSION_ARCH.deb                 the command line tool
//! target/package/out/librocksdb-cairn11-dbgsym_VERSION_ARCH.deb   debug sections
//! target/package/out/cairn-VERSION-ARCH.tar.gz                    all of it below one prefix
//! target/package/out/cairn_rocksdb-VERSION-….whl                  the Python module
//! target/package/out/cairn-rocksdbjni-VERSION.jar                 librocksdbjni for a class path
//! target/package/out/cairn-VERSION.cdx.json                       the SBOM, CycloneDX 1.5
//! target/package/out/SHA256SUMS
//! ```
//!
//! The files depend on the sources and the versions of the tools, not on the directory, the time or the user: paths are
//! replaced in the libraries, and `SOURCE_DATE_EPOCH` is the time of the last commit unless it is set. No file is one of
//! the distribution's packages of RocksDB, so that both can be installed.

mod contents;
mod deb;
mod sbom;
mod trial;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{fresh, printed, read, sysroot, target};
use crate::install::{self, Versions};
use crate::python_module;

const USAGE: &str =
    "cargo xtask package [test|reproduce] [--profile NAME] [--without wheel|jar]...";

/// A build of the packages.
pub struct Build {
    pub root: PathBuf,
    /// `target/package`.
    pub work: PathBuf,
    /// The directory of the finished files.
    pub out: PathBuf,
    pub versions: Versions,
    /// The time of the files, in seconds since 1970.
    epoch: String,
    /// Debian's name of the architecture, and the directory of its libraries.
    pub arch: String,
    pub triplet: String,
    profile: String,
    without: Vec<String>,
}

/// Builds the packages. With `test`, tries each; with `reproduce`, builds them again elsewhere and compares.
pub fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let (task, options) = match words.split_first() {
        Some((word, rest)) if ["test", "reproduce"].contains(&word.as_str()) => {
            (word.as_str(), rest)
        }
        _ => ("", words),
    };
    let mut build = Build::new(root)?;
    let mut words = options.iter();
    while let Some(word) = words.next() {
        let value = words.next().cloned().ok_or_else(|| USAGE.to_owned())?;
        match word.as_str() {
            "--profile" => build.profile = value,
            "--without" if ["wheel", "jar"].contains(&value.as_str()) => build.without.push(value),
            _ => return Err(USAGE.to_owned()),
        }
    }
    if task == "reproduce" {
        return reproduce(&build, options);
    }
    build.all()?;
    match task {
        "test" => trial::run(&build),
        _ => Ok(()),
    }
}

/// Builds the packages of the last commit here and in a clone in another directory. Fails unless the files are equal.
fn reproduce(build: &Build, options: &[String]) -> Result<(), String> {
    let git = |words: &[&str]| printed(Command::new("git").args(words).current_dir(&build.root));
    if !git(&["status", "--porcelain"])?.trim().is_empty() {
        return Err(
            "there are changes that are not committed, which a clone does not have".to_owned(),
        );
    }
    build.all()?;
    let elsewhere = build.work.join("elsewhere");
    fresh(&elsewhere)?;
    let clone = elsewhere.join("clone");
    let at = clone
        .to_str()
        .ok_or("the path of the project is not UTF-8")?;
    git(&["clone", "--quiet", ".", at])?;
    let status = Command::new("cargo")
        .args(["xtask", "package"])
        .args(options)
        .current_dir(&clone)
        .env_remove("CARGO_TARGET_DIR")
        .status();
    if !status.map_err(|error| error.to_string())?.success() {
        return Err("the build in the clone failed".to_owned());
    }
    let sums = |root: &Path| read(&root.join("out/SHA256SUMS"));
    let (here, there) = (sums(&build.work)?, sums(&clone.join("target/package"))?);
    match here == there {
        true => {
            println!("{} files are equal in both builds", here.lines().count());
            Ok(())
        }
        false => Err(format!(
            "two builds of the same commit differ:\n{here}\nin {at}:\n{there}"
        )),
    }
}

impl Build {
    fn new(root: &Path) -> Result<Build, String> {
        let work = target(root).join("package");
        let dpkg = |variable| {
            printed(Command::new("dpkg-architecture").args(["-q", variable]))
                .map_err(|why| format!("{why} (install dpkg-dev)"))
        };
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(epoch) => epoch,
            Err(_) => printed(
                Command::new("git")
                    .args(["log", "-1", "--format=%ct"])
                    .current_dir(root),
            )?,
        };
        Ok(Build {
            root: root.to_owned(),
            out: work.join("out"),
            work,
            versions: install::versions(root)?,
            epoch,
            arch: dpkg("DEB_HOST_ARCH")?,
            triplet: dpkg("DEB_HOST_MULTIARCH")?,
            profile: "release".to_owned(),
            without: Vec::new(),
        })
    }

    pub fn has(&self, part: &str) -> bool {
        !self.without.iter().any(|without| without == part)
    }

    /// The directory of the compiled libraries.
    fn built(&self) -> PathBuf {
        // Cargo's name for the directory of the profile `dev`.
        let directory = match self.profile.as_str() {
            "dev" => "debug",
            profile => profile,
        };
        self.work.join("build").join(directory)
    }

    /// Compiler flags that remove the places of the sources from the libraries.
    fn flags(&self) -> Result<OsString, String> {
        let home = cargo_home()?;
        let sysroot = sysroot()?;
        let mut flags = OsString::new();
        for (from, to) in [
            (self.root.as_path(), "/cairn"),
            (home.as_path(), "/cargo"),
            (sysroot.as_path(), "/rust"),
        ] {
            flags.push("--remap-path-prefix=");
            flags.push(from);
            flags.push("=");
            flags.push(to);
            flags.push("\u{1f}");
        }
        // Without debug information C code has no paths; `command` has the same replacement for it.
        flags.push("-Cstrip=none");
        Ok(flags)
    }

    /// A command with the environment of a reproducible build.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Result<Command, String> {
        let mut command = Command::new(program);
        // The sources of C libraries are in crates, below the home of cargo.
        let [root, home] = [self.root.clone(), cargo_home()?].map(|at| at.display().to_string());
        let map = format!("-ffile-prefix-map={root}=/cairn -ffile-prefix-map={home}=/cargo");
        command
            .env("CARGO_ENCODED_RUSTFLAGS", self.flags()?)
            .env("CARGO_TARGET_DIR", self.work.join("build"))
            .env("CARGO_INCREMENTAL", "0")
            .env("CFLAGS", map)
            .env("SOURCE_DATE_EPOCH", &self.epoch)
            .env("LC_ALL", "C.UTF-8")
            .env("TZ", "UTC");
        Ok(command)
    }

    fn compile(&self) -> Result<(), String> {
        let mut packages = vec!["-p", "cairn-librocksdb", "-p", "cairn-cli"];
        if self.has("jar") {
            packages.extend(["-p", "cairn-rocksdbjni"]);
        }
        let status = self
            .command("cargo")?
            .args(["build", "--locked", "--profile", &self.profile])
            .args(packages)
            .current_dir(&self.root)
            .status();
        match status.map_err(|error| error.to_string())?.success() {
            true => Ok(()),
            false => Err("cargo build failed".to_owned()),
        }
    }

    fn all(&self) -> Result<(), String> {
        fresh(&self.out)?;
        self.compile()?;
        let tree = contents::gather(self)?;
        deb::all(self, &tree)?;
        self.tarball(&tree)?;
        let sbom = self
            .out
            .join(format!("cairn-{}.cdx.json", self.versions.cairn));
        write(&sbom, &sbom::text(self)?)?;
        if self.has("wheel") {
            self.wheel(&sbom)?;
        }
        if self.has("jar") {
            self.jar()?;
        }
        self.sums()
    }

    /// All files below one prefix.
    fn tarball(&self, tree: &contents::Tree) -> Result<(), String> {
        let name = format!("cairn-{}-{}", self.versions.cairn, self.arch);
        let file = self.out.join(format!("{name}.tar.gz"));
        let parent = tree.prefix.parent().ok_or("the prefix is in a directory")?;
        printed(
            self.command("tar")?
                .args([
                    "--sort=name",
                    "--owner=0",
                    "--group=0",
                    "--numeric-owner",
                    "--mode=go=rX,u+rw",
                ])
                .arg(format!("--mtime=@{}", self.epoch))
                .args(["--use-compress-program", "gzip -9n", "-cf"])
                .arg(&file)
                .arg("-C")
                .arg(parent)
                .arg(format!("--transform=s,^prefix,{name},rSH"))
                .arg("prefix"),
        )
        .map(|_| ())
    }

    /// The module for Python, with the bill of materials `sbom`.
    fn wheel(&self, sbom: &Path) -> Result<(), String> {
        let python = python_module::environment(&self.root)?;
        let wheels = self.work.join("wheels");
        let command = self.command(&python)?;
        let wheel = python_module::build(&self.root, command, &self.profile, &wheels, Some(sbom))?;
        let name = wheel.file_name().ok_or("a wheel has a name")?;
        copy(&wheel, &self.out.join(name))
    }

    /// A jar whose library RocksJava's loader finds in place of that of `rocksdbjni.jar`, if it comes first.
    fn jar(&self) -> Result<(), String> {
        let folder = self.work.join("jar");
        fresh(&folder)?;
        let library = match self.arch.as_str() {
            "arm64" => "librocksdbjni-linux-aarch64.so",
            _ => "librocksdbjni-linux64.so",
        };
        copy(
            &self.built().join("librocksdbjni.so"),
            &folder.join(library),
        )?;
        printed(
            Command::new("strip")
                .arg("--strip-debug")
                .arg(folder.join(library)),
        )?;
        let seconds: i64 = self
            .epoch
            .trim()
            .parse()
            .map_err(|_| "SOURCE_DATE_EPOCH is a number")?;
        let date = printed(Command::new("date").args([
            "-u",
            "-d",
            &format!("@{seconds}"),
            "+%Y-%m-%dT%H:%M:%SZ",
        ]))?;
        let jar = self
            .out
            .join(format!("cairn-rocksdbjni-{}.jar", self.versions.cairn));
        printed(
            self.command("jar")?
                .args(["--create", "--no-manifest", "--date", &date, "--file"])
                .arg(&jar)
                .args(["-C".as_ref(), folder.as_os_str(), library.as_ref()]),
        )
        .map(|_| ())
    }

    /// The checksums of the files.
    fn sums(&self) -> Result<(), String> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.out)
            .map_err(|error| error.to_string())?
            .flatten()
        {
            names.push(entry.file_name());
        }
        names.sort();
        let sums = printed(
            Command::new("sha256sum")
                .args(&names)
                .current_dir(&self.out),
        )?;
        println!("{sums}");
        write(&self.out.join("SHA256SUMS"), &format!("{sums}\n"))
    }
}

/// The directory with cargo's sources of crates.
fn cargo_home() -> Result<PathBuf, String> {
    match std::env::var_os("CARGO_HOME") {
        Some(home) => Ok(PathBuf::from(home)),
        None => {
            Ok(PathBuf::from(std::env::var_os("HOME").ok_or("HOME is not set")?).join(".cargo"))
        }
    }
}

pub fn failed(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

pub fn write(path: &Path, text: &str) -> Result<(), String> {
    let dir = path.parent().ok_or("a file lies in a directory")?;
    fs::create_dir_all(dir).map_err(failed(dir))?;
    fs::write(path, text).map_err(failed(path))
}

pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let dir = to.parent().ok_or("a file lies in a directory")?;
    fs::create_dir_all(dir).map_err(failed(dir))?;
    fs::copy(from, to).map(|_| ()).map_err(failed(from))
}
