//! A part of the `clients` stage: build systems find the libraries that `cargo xtask install` installs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{compiler, fresh, printed, target};
use crate::install::{Place, install, versions};
use crate::pages::Stand;
use crate::tool_requirements::Selection;
use crate::{archive, go, python};

/// A CMake project that builds a program with each of the libraries.
const CMAKE: &str = "cmake_minimum_required(VERSION 3.16)\n\
    project(installed C)\n\
    find_package(RocksDB 11.1 CONFIG REQUIRED)\n\
    foreach(kind rocksdb rocksdb-shared)\n\
    \x20 add_executable(with-${kind} ${PROGRAM})\n\
    \x20 target_link_libraries(with-${kind} RocksDB::${kind})\n\
    endforeach()\n";

/// Installs a debug build into the target directory, and builds and runs a program with pkg-config's
/// flags and with CMake's targets. Returns the paths of what was installed.
pub fn run(root: &Path, selection: &Selection) -> Result<Stand, String> {
    let work = target(root).join("installed");
    fresh(&work)?;
    let place = Place {
        prefix: work.join("usr"),
        libdir: "lib/here".to_owned(),
        staging: None,
        debug: true,
    };
    install(root, &place)?;
    let programs = Programs {
        source: root.join("capi/tests/basic.c"),
        lib: place.prefix.join(&place.libdir),
        work,
    };
    let languages: &[&str] = match selection.has("c++") {
        true => &["c", "c++"],
        false => &["c"],
    };
    headers(&place.prefix, languages)?;
    if selection.has("objcopy") {
        archive::check(root, &programs.lib.join("librocksdb.a"))?;
        debug_is_apart(&programs.lib)?;
    }
    if selection.has("pkg-config") {
        programs.pkg_config(&versions(root)?.rocksdb)?;
    }
    if selection.has("cmake") {
        programs.cmake()?;
    }
    if selection.has("python") {
        python::run(root, &programs.lib)?;
    }
    if selection.has("go") {
        go::run(root, &place.prefix, &programs.lib)?;
    }
    Ok(Stand {
        programs: target(root).join("debug"),
        prefix: place.prefix,
        lib: programs.lib,
    })
}

/// Checks that the installed library has no debug sections and links to the file that has them.
fn debug_is_apart(lib: &Path) -> Result<(), String> {
    let sections = |file: &Path| printed(Command::new("readelf").args(["-SW"]).arg(file));
    let library = sections(&lib.join("librocksdb.so"))?;
    if library.contains(".debug_") || !library.contains(".gnu_debuglink") {
        return Err("the installed librocksdb.so contains debug sections".to_owned());
    }
    let folder = lib.join(".debug");
    let listed = std::fs::read_dir(&folder);
    let listed = listed.map_err(|error| format!("{}: {error}", folder.display()))?;
    let found: Vec<_> = listed.flatten().map(|entry| entry.path()).collect();
    match &found[..] {
        [file] if sections(file)?.contains(".debug_info") => Ok(()),
        _ => Err(format!(
            "{} is not a file of debug sections",
            folder.display()
        )),
    }
}

/// Compiles each header on its own in each language.
fn headers(prefix: &Path, languages: &[&str]) -> Result<(), String> {
    for header in ["rocksdb/c.h", "rocksdb/version.h", "cairn/c.h"] {
        let path = prefix.join("include").join(header);
        for language in languages {
            printed(
                compiler()
                    .args(["-fsyntax-only", "-Wall", "-Werror", "-x", language, "-I"])
                    .arg(prefix.join("include"))
                    .args(["-include"])
                    .arg(&path)
                    .arg("/dev/null"),
            )?;
        }
    }
    Ok(())
}

struct Programs {
    source: PathBuf,
    lib: PathBuf,
    work: PathBuf,
}

impl Programs {
    /// Runs `program`. A statically linked one gets no library path.
    fn run(&self, program: &Path, shared: bool) -> Result<(), String> {
        let dir = program.with_extension("dir");
        fresh(&dir)?;
        let mut command = Command::new(program);
        command.arg(&dir).env_remove("LD_LIBRARY_PATH");
        if shared {
            command.env("LD_LIBRARY_PATH", &self.lib);
        }
        printed(&mut command)?;
        println!(
            "{}: right",
            program.file_name().unwrap_or_default().to_string_lossy()
        );
        Ok(())
    }

    fn pkg_config(&self, version: &str) -> Result<(), String> {
        let ask = |flags: &[&str]| {
            printed(
                Command::new("pkg-config")
                    .args(flags)
                    .arg("rocksdb")
                    .env("PKG_CONFIG_LIBDIR", self.lib.join("pkgconfig")),
            )
        };
        let found = ask(&["--modversion"])?;
        if found != version {
            return Err(format!("rocksdb.pc: expected {version}, found {found}"));
        }
        let shared = ask(&["--cflags", "--libs"])?;
        // The linker prefers a shared library unless it gets the file name of the static one.
        let whole = ask(&["--static", "--cflags", "--libs"])?;
        let whole = whole.replace("-lrocksdb", "-l:librocksdb.a");
        for (name, flags) in [("shared", shared), ("static", whole)] {
            let program = self.work.join(format!("pkg-config-{name}"));
            printed(
                compiler()
                    .arg(&self.source)
                    .arg("-o")
                    .arg(&program)
                    .args(flags.split_whitespace()),
            )?;
            self.run(&program, name == "shared")?;
        }
        Ok(())
    }

    fn cmake(&self) -> Result<(), String> {
        let project = self.work.join("project");
        let build = self.work.join("build");
        fresh(&project)?;
        std::fs::write(project.join("CMakeLists.txt"), CMAKE).map_err(|e| e.to_string())?;
        printed(
            Command::new("cmake")
                .arg("-S")
                .arg(&project)
                .arg("-B")
                .arg(&build)
                .arg(format!("-DPROGRAM={}", self.source.display()))
                .arg(format!(
                    "-DRocksDB_DIR={}",
                    self.lib.join("cmake/rocksdb").display()
                )),
        )?;
        printed(Command::new("cmake").arg("--build").arg(&build))?;
        self.run(&build.join("with-rocksdb"), false)?;
        self.run(&build.join("with-rocksdb-shared"), true)
    }
}
