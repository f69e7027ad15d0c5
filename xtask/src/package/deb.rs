//! The Debian packages.
//!
//! The library lies in `/usr/lib/TRIPLET/cairn`, a prefix of its own, and has the soname of RocksDB's library. Programs
//! find it in one of three ways: `cairn-run PROGRAM` for one program, `librocksdb-cairn11-default` for all, or a link with
//! `pkg-config cairn-rocksdb` and a run path.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::contents::Tree;
use super::{Build, copy, failed, write};
use crate::commands::{fresh, printed};

/// A package: its name, and the fields of its control file that differ.
struct Package<'a> {
    name: &'a str,
    section: &'a str,
    /// Packages of this source have `=` for their version.
    depends: &'a str,
    more: &'a str,
    description: &'a str,
}

/// Makes all packages of `tree`.
pub fn all(build: &Build, tree: &Tree) -> Result<(), String> {
    let folder = build.work.join("debian");
    fresh(&folder)?;
    let lib = tree.prefix.join("lib");
    let private = format!("usr/lib/{}/cairn", build.triplet);
    let libc = libc(&[&lib.join("librocksdb.so"), &tree.prefix.join("bin/cairn")])?;
    for package in &PACKAGES {
        let root = folder.join(package.name);
        let documents = root.join("usr/share/doc").join(package.name);
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            copy(&build.root.join(licence), &documents.join(licence))?;
        }
        match package.name {
            "librocksdb-cairn11" => {
                copy_where(&lib, &root.join(&private).join("lib"), |name| {
                    name.starts_with("librocksdb.so.")
                })?;
                let script = root.join("usr/bin/cairn-run");
                write(&script, &run_script(&private))?;
                executable(&script)?;
            }
            "librocksdb-cairn11-default" => {
                let list = root.join("etc/ld.so.conf.d/cairn-rocksdb.conf");
                write(&list, &format!("/{private}/lib\n"))?;
                write(
                    &root.join("DEBIAN/conffiles"),
                    "/etc/ld.so.conf.d/cairn-rocksdb.conf\n",
                )?;
                write(&root.join("DEBIAN/triggers"), "activate-noawait ldconfig\n")?;
            }
            "librocksdb-cairn11-dbgsym" => {
                copy_where(
                    &lib.join(".debug"),
                    &root.join(&private).join("lib/.debug"),
                    |_| true,
                )?;
            }
            "librocksdb-cairn-dev" => development(build, &tree.prefix, &root, &private)?,
            _ => tool(&tree.prefix, &root)?,
        }
        finish(build, package, &root, &libc)?;
    }
    Ok(())
}

const PACKAGES: [Package<'_>; 5] = [
    Package {
        name: "librocksdb-cairn11",
        section: "libs",
        depends: "${libc}",
        more: "Multi-Arch: same\n",
        description: "RocksDB's C interface, provided by Cairn\n \
            A storage engine in Rust with the C interface of RocksDB 11, for the same databases. The library\n \
            lies in a directory of its own; cairn-run runs a program with it.",
    },
    Package {
        name: "librocksdb-cairn11-default",
        section: "libs",
        depends: "librocksdb-cairn11 (= ${version})",
        more: "Multi-Arch: same\nProvides: librocksdb11\n",
        description: "Cairn in place of librocksdb.so.11\n \
            With this package, every program that is linked with librocksdb.so.11 uses Cairn. No file of\n \
            another package is replaced; without the package, the loader finds RocksDB's library again.\n \
            Programs that use RocksDB's C++ interface cannot be served.",
    },
    Package {
        name: "librocksdb-cairn-dev",
        section: "libdevel",
        depends: "librocksdb-cairn11 (= ${version})",
        more: "Multi-Arch: same\n",
        description: "Headers and static library of Cairn's C interface\n \
            For pkg-config (cairn-rocksdb) and CMake. Can be installed beside librocksdb-dev.",
    },
    Package {
        name: "cairn-tools",
        section: "database",
        depends: "${libc}",
        more: "Multi-Arch: foreign\n",
        description: "Command line tool for databases of RocksDB and Cairn\n \
            Reads, loads, scans, inspects, verifies, backs up and repairs databases, and measures engines.",
    },
    Package {
        name: "librocksdb-cairn11-dbgsym",
        section: "debug",
        depends: "librocksdb-cairn11 (= ${version})",
        more: "Multi-Arch: same\n",
        description: "Debug symbols of librocksdb-cairn11\n For debuggers and profilers.",
    },
];

fn run_script(private: &str) -> String {
    format!(
        "#!/bin/sh\n\
         # Runs a program that is linked with librocksdb.so.11 with Cairn's library.\n\
         if [ $# -eq 0 ]; then\n    echo \"cairn-run PROGRAM [ARGUMENT]...\" >&2\n    exit 2\nfi\n\
         LD_LIBRARY_PATH=\"/{private}/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\"\n\
         export LD_LIBRARY_PATH\n\
         exec \"$@\"\n"
    )
}

/// Headers, the static library, and the files by which builds find them.
fn development(build: &Build, prefix: &Path, root: &Path, private: &str) -> Result<(), String> {
    let place = root.join(private);
    copy_all(&prefix.join("include"), &place.join("include"))?;
    let lib = prefix.join("lib");
    for folder in ["pkgconfig", "cmake"] {
        copy_all(&lib.join(folder), &place.join("lib").join(folder))?;
    }
    copy_where(&lib, &place.join("lib"), |name| {
        ["librocksdb.so", "librocksdb.a"].contains(&name)
    })?;
    // A name that librocksdb-dev does not have.
    let found = root.join(format!(
        "usr/lib/{}/pkgconfig/cairn-rocksdb.pc",
        build.triplet
    ));
    let text = crate::commands::read(&lib.join("pkgconfig/rocksdb.pc"))?;
    let (_, rest) = text.split_once('\n').ok_or("rocksdb.pc has lines")?;
    write(&found, &format!("prefix=/{private}\n{rest}"))
}

fn tool(prefix: &Path, root: &Path) -> Result<(), String> {
    copy(&prefix.join("bin/cairn"), &root.join("usr/bin/cairn"))?;
    let share = prefix.join("share");
    for folder in ["man", "bash-completion", "zsh", "fish"] {
        copy_all(&share.join(folder), &root.join("usr/share").join(folder))?;
    }
    Ok(())
}

/// Writes the control files and builds the package.
fn finish(build: &Build, package: &Package<'_>, root: &Path, libc: &str) -> Result<(), String> {
    let version = format!("{}-1", build.versions.cairn);
    let size = printed(
        Command::new("du")
            .args(["-sk", "--apparent-size"])
            .arg(root),
    )?;
    let size = size.split_whitespace().next().unwrap_or("0").to_owned();
    let depends = package
        .depends
        .replace("${libc}", libc)
        .replace("${version}", &version);
    let control = format!(
        "Package: {}\nSource: cairn\nVersion: {version}\nArchitecture: {}\n\
         Maintainer: Cairn developers <cairn@example.invalid>\nInstalled-Size: {size}\n\
         Depends: {depends}\nSection: {}\nPriority: optional\n{}Description: {}\n",
        package.name, build.arch, package.section, package.more, package.description
    );
    let sums = printed(
        Command::new("sh")
            .args([
                "-c",
                "find * -path DEBIAN -prune -o -type f -print | sort | xargs -d '\\n' md5sum",
            ])
            .current_dir(root),
    )?;
    write(&root.join("DEBIAN/control"), &control)?;
    write(&root.join("DEBIAN/md5sums"), &format!("{sums}\n"))?;
    printed(Command::new("chmod").args(["-R", "u+rwX,go=rX"]).arg(root))?;
    let file = build
        .out
        .join(format!("{}_{version}_{}.deb", package.name, build.arch));
    printed(
        build
            .command("dpkg-deb")?
            .args(["--root-owner-group", "-Zxz", "-z3", "--build"])
            .args([root, &file]),
    )
    .map(|_| ())
}

/// The dependency on the C library whose symbols `files` use.
fn libc(files: &[&Path]) -> Result<String, String> {
    let mut newest = (2, 17);
    for file in files {
        for word in printed(Command::new("objdump").arg("-T").arg(file))?.split_whitespace() {
            let version = word.trim_matches(['(', ')']).strip_prefix("GLIBC_2.");
            if let Some(minor) = version.and_then(|v| v.split('.').next()?.parse().ok()) {
                newest = newest.max((2, minor));
            }
        }
    }
    Ok(format!("libc6 (>= {}.{}), libgcc-s1", newest.0, newest.1))
}

fn executable(path: &Path) -> Result<(), String> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(failed(path))
}

/// Copies the files of a directory whose names `wanted` accepts. Symbolic links stay links.
fn copy_where(from: &Path, to: &Path, wanted: impl Fn(&str) -> bool) -> Result<(), String> {
    fs::create_dir_all(to).map_err(failed(to))?;
    for entry in fs::read_dir(from).map_err(failed(from))?.flatten() {
        let (name, path): (_, PathBuf) = (entry.file_name(), entry.path());
        if path.is_dir() || !name.to_str().is_some_and(&wanted) {
            continue;
        }
        match fs::read_link(&path) {
            Ok(target) => symlink(target, to.join(&name)).map_err(failed(&path))?,
            Err(_) => copy(&path, &to.join(&name))?,
        }
    }
    Ok(())
}

/// Copies a directory with everything below it.
fn copy_all(from: &Path, to: &Path) -> Result<(), String> {
    copy_where(from, to, |_| true)?;
    for entry in fs::read_dir(from).map_err(failed(from))?.flatten() {
        if entry.path().is_dir() {
            copy_all(&entry.path(), &to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
