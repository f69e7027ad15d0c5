//! The installation test: each package in a clean system, or a clean directory.
//!
//! The Debian packages are installed in a chroot of debootstrap, where a C program written for RocksDB is compiled and
//! run, with the static and the shared library, and the tool fills and reads a database. The tarball, the wheel and the jar
//! are used in empty directories.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Build, copy, write};
use crate::commands::{fresh, output, printed};
use crate::packages::{self, Part, Probe, Source};

/// Packages of the chroot beyond the smallest system.
const INCLUDED: &str = "gcc,libc6-dev,pkg-config";

/// A program for RocksDB's C interface.
const PROGRAM: &str = r#"#include <stdio.h>
#include <string.h>
#include "rocksdb/c.h"

int main(int count, char **arguments) {
    char *error = NULL;
    size_t length = 0;
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_t *db = rocksdb_open(options, arguments[1], &error);
    if (error) { fprintf(stderr, "%s\n", error); return 1; }
    rocksdb_writeoptions_t *write = rocksdb_writeoptions_create();
    rocksdb_readoptions_t *read = rocksdb_readoptions_create();
    rocksdb_put(db, write, "quartz", 6, "SiO2", 4, &error);
    char *value = rocksdb_get(db, read, "quartz", 6, &length, &error);
    if (error || length != 4 || memcmp(value, "SiO2", 4)) return 1;
    rocksdb_free(value);
    rocksdb_readoptions_destroy(read);
    rocksdb_writeoptions_destroy(write);
    rocksdb_close(db);
    rocksdb_options_destroy(options);
    puts("stored");
    return 0;
}
"#;

/// A program for RocksJava.
const JAVA: &str = r#"import org.rocksdb.*;

public class Stones {
    public static void main(String[] arguments) throws RocksDBException {
        try (Options options = new Options().setCreateIfMissing(true);
             RocksDB db = RocksDB.open(options, arguments[0])) {
            db.put("quartz".getBytes(), "SiO2".getBytes());
            System.out.println(new String(db.get("quartz".getBytes())));
            System.out.println(db.getProperty("cairn.memory") != null ? "cairn" : "rocksdb");
        }
    }
}
"#;

/// Tries every file of `build.out`.
pub fn run(build: &Build) -> Result<(), String> {
    debian(build)?;
    tarball(build)?;
    if build.has("wheel") {
        wheel(build)?;
    }
    if build.has("jar") {
        jar(build)?;
    }
    Ok(())
}

/// The name of the system that the machine runs, for debootstrap.
fn suite() -> Result<String, String> {
    let release = crate::commands::read(Path::new("/etc/os-release"))?;
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.map(str::to_owned)
        .ok_or_else(|| "/etc/os-release names no release".to_owned())
}

/// A clean system, copied from one that is bootstrapped once.
fn chroot(build: &Build) -> Result<PathBuf, String> {
    let tool = Part {
        probe: Probe::Program("debootstrap"),
        source: Source::Debian("debootstrap"),
    };
    if let Some(why) = packages::install(&packages::missing([&tool]))
        .into_iter()
        .next()
    {
        return Err(why);
    }
    let (clean, used) = (build.work.join("clean"), build.work.join("chroot"));
    if !clean.join("usr/bin/gcc").exists() {
        fresh(&clean)?;
        let include = format!("--include={INCLUDED}");
        printed(
            Command::new("debootstrap")
                .args(["--variant=minbase", &include, &suite()?])
                .arg(&clean),
        )?;
    }
    fresh(&used)?;
    printed(Command::new("cp").arg("-a").arg(clean.join(".")).arg(&used))?;
    Ok(used)
}

fn debian(build: &Build) -> Result<(), String> {
    let root = chroot(build)?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&build.out)
        .map_err(|error| error.to_string())?
        .flatten()
    {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".deb") {
            copy(&entry.path(), &root.join("tmp").join(&name))?;
            files.push(name);
        }
    }
    files.sort();
    let inside = |script: &str| {
        let done = output(
            Command::new("chroot")
                .arg(&root)
                .args(["sh", "-euc", script])
                .env("LC_ALL", "C.UTF-8"),
        )?;
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).trim().to_owned()),
            false => Err(format!(
                "in the chroot: {script}: {}{}",
                String::from_utf8_lossy(&done.stdout),
                String::from_utf8_lossy(&done.stderr)
            )),
        }
    };
    let packages = |filter: fn(&str) -> bool| -> String {
        let chosen = files.iter().filter(|name| filter(name));
        chosen.map(|name| format!("/tmp/{name} ")).collect()
    };
    inside(&format!(
        "dpkg -i {}",
        packages(|name| !name.contains("-default_"))
    ))?;
    write(&root.join("tmp/stones.c"), PROGRAM)?;
    inside(
        "cd /tmp; cc stones.c -o shared $(pkg-config --cflags --libs cairn-rocksdb); \
         cc stones.c -o static $(pkg-config --cflags cairn-rocksdb) \
         $(pkg-config --variable=libdir cairn-rocksdb)/librocksdb.a -lm",
    )?;
    expect(
        "the C program, static",
        &inside("/tmp/static /tmp/db1")?,
        "stored",
    )?;
    expect(
        "the C program with cairn-run",
        &inside("cairn-run /tmp/shared /tmp/db2")?,
        "stored",
    )?;
    if inside("/tmp/shared /tmp/db3").is_ok() {
        return Err("the library is found without cairn-run or the default package".to_owned());
    }
    expect(
        "the tool",
        &inside("cairn get --db /tmp/db2 quartz")?,
        "SiO2",
    )?;
    inside("cairn verify --db /tmp/db2")?;
    inside("gzip -t /usr/share/man/man1/cairn.1.gz /usr/share/man/man1/cairn-scan.1.gz")?;
    inside("test -s /usr/share/bash-completion/completions/cairn")?;
    inside(&format!(
        "dpkg -i {}",
        packages(|name| name.contains("-default_"))
    ))?;
    expect(
        "the C program with the default package",
        &inside("/tmp/shared /tmp/db3")?,
        "stored",
    )?;
    inside("dpkg --purge librocksdb-cairn11-default")?;
    if inside("/tmp/shared /tmp/db3").is_ok() {
        return Err("the loader still finds the library without the default package".to_owned());
    }
    let names = "librocksdb-cairn11 librocksdb-cairn-dev cairn-tools librocksdb-cairn11-dbgsym";
    inside(&format!(
        "dpkg -V {names}; dpkg --purge {names}; test ! -e /usr/lib/*/cairn"
    ))?;
    println!("Debian packages: installed, used and removed in a chroot");
    Ok(())
}

fn expect(step: &str, found: &str, wanted: &str) -> Result<(), String> {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("{step}: expected {wanted:?}, found {found:?}")),
    }
}

/// The only file in `build.out` with this end.
fn file(build: &Build, end: &str) -> Result<PathBuf, String> {
    let entries = std::fs::read_dir(&build.out).map_err(|error| error.to_string())?;
    let mut paths = entries.flatten().map(|entry| entry.path());
    let found = paths.find(|path| path.to_string_lossy().ends_with(end));
    found.ok_or_else(|| format!("no file ends with {end}"))
}

fn tarball(build: &Build) -> Result<(), String> {
    let home = build.work.join("trial");
    fresh(&home)?;
    let archive = file(build, ".tar.gz")?;
    printed(
        Command::new("tar")
            .args(["--strip-components=1", "-xzf"])
            .arg(archive)
            .arg("-C")
            .arg(&home),
    )?;
    let lib = home.join("lib");
    write(&home.join("stones.c"), PROGRAM)?;
    let flags = printed(
        Command::new("pkg-config")
            .args(["--cflags", "--libs", "rocksdb"])
            .env("PKG_CONFIG_PATH", lib.join("pkgconfig")),
    )?;
    printed(
        Command::new("cc")
            .args(["stones.c", "-o", "stones"])
            .args(flags.split_whitespace())
            .current_dir(&home),
    )?;
    let stored = printed(
        Command::new("./stones")
            .arg("db")
            .current_dir(&home)
            .env("LD_LIBRARY_PATH", &lib),
    )?;
    expect("the tarball's library", &stored, "stored")?;
    let found = printed(
        Command::new(home.join("bin/cairn"))
            .args(["get", "--db", "db", "quartz"])
            .current_dir(&home),
    )?;
    expect("the tarball's tool", &found, "SiO2")?;
    let sections = printed(
        Command::new("objdump")
            .arg("-h")
            .arg(lib.join("librocksdb.so")),
    )?;
    if sections.contains(".debug_info") || !sections.contains(".gnu_debuglink") {
        return Err("the library has debug sections, or no link to them".to_owned());
    }
    println!("tarball: a C program and the tool ran");
    Ok(())
}

fn wheel(build: &Build) -> Result<(), String> {
    let home = build.work.join("trial-wheel");
    fresh(&home)?;
    printed(Command::new("python3").args(["-m", "venv"]).arg(&home))?;
    let python = home.join("bin/python");
    let pip = [
        "-m",
        "pip",
        "-q",
        "install",
        "--no-index",
        "--disable-pip-version-check",
    ];
    printed(Command::new(&python).args(pip).arg(file(build, ".whl")?))?;
    let program = "import cairn\n\
        with cairn.Db('db', create_if_missing=True) as db:\n    db[b'quartz'] = b'SiO2'\n    print(db[b'quartz'].decode())\n";
    let found = printed(
        Command::new(&python)
            .args(["-c", program])
            .current_dir(&home),
    )?;
    expect("the wheel", &found, "SiO2")?;
    println!("wheel: installed and used in a clean environment");
    Ok(())
}

fn jar(build: &Build) -> Result<(), String> {
    let home = build.work.join("trial-jar");
    fresh(&home)?;
    write(&home.join("Stones.java"), JAVA)?;
    let classes = crate::jni::classes()?;
    let path = std::env::join_paths([&file(build, ".jar")?, &classes, &home])
        .map_err(|error| error.to_string())?;
    // Without a library in this path, the classes take that of the jar.
    let no_libraries = format!("-Djava.library.path={}", home.display());
    for (program, arguments) in [
        ("javac", ["Stones.java"].as_slice()),
        ("java", &[&no_libraries, "Stones", "db"]),
    ] {
        let said = printed(
            Command::new(program)
                .arg("-cp")
                .arg(&path)
                .args(arguments)
                .current_dir(&home),
        )?;
        if program == "java" {
            expect("the jar", &said, "SiO2\ncairn")?;
        }
    }
    println!("jar: RocksJava's classes used its library");
    Ok(())
}
