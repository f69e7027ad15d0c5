//! `cargo xtask install`: installs the C libraries, headers, pkg-config and CMake files.
//!
//! ```text
//! PREFIX/include/rocksdb/c.h  version.h         RocksDB's interface, and its release
//! PREFIX/include/cairn/c.h                      Cairn's own functions
//! PREFIX/LIBDIR/librocksdb.so.11.12.0           and the symbolic links .so.11.12, .so.11, .so
//! PREFIX/LIBDIR/.debug/librocksdb.so.11.12.0.debug     debug sections
//! PREFIX/LIBDIR/librocksdb.a
//! PREFIX/LIBDIR/pkgconfig/rocksdb.pc
//! PREFIX/LIBDIR/cmake/rocksdb/RocksDBConfig.cmake, RocksDBConfigVersion.cmake
//! ```
//!
//! Names, targets and version numbers are those of RocksDB's own package, so that a build that looks for RocksDB
//! finds Cairn. Cairn's version is given in addition. Existing files are replaced. The environment variable
//! `DESTDIR` stages the installation for packaging.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::archive;
use crate::commands::{cargo, has, printed, read, target};

/// The destination and the kind of an installation.
pub struct Place {
    /// The prefix that programs use.
    pub prefix: PathBuf,
    /// The library directory below the prefix.
    pub libdir: String,
    /// The value of `DESTDIR`: a staging directory in front of the prefix.
    pub staging: Option<OsString>,
    /// True to install the debug build.
    pub debug: bool,
}

/// The versions that the installed files state.
pub struct Versions {
    /// The release of RocksDB whose interface the library has.
    pub rocksdb: String,
    /// Cairn's.
    pub cairn: String,
}

/// System libraries that a program must link with `librocksdb.a`: the dependencies of Rust's standard
/// library.
pub const PRIVATE: [&str; 6] = ["-lgcc_s", "-lrt", "-lpthread", "-lm", "-ldl", "-lc"];

/// Parses the command's arguments and installs.
pub fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let mut place = Place {
        prefix: PathBuf::new(),
        libdir: "lib".to_owned(),
        staging: std::env::var_os("DESTDIR").filter(|dir| !dir.is_empty()),
        debug: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let mut value = || {
            let value = value.clone().or_else(|| words.next().cloned());
            value.ok_or_else(|| format!("{name} needs a directory"))
        };
        match name {
            "--prefix" => place.prefix = PathBuf::from(value()?),
            "--libdir" => place.libdir = value()?.trim_matches('/').to_owned(),
            "--debug" => place.debug = true,
            _ => return Err(format!("{word}: {USAGE}")),
        }
    }
    if place.prefix.as_os_str().is_empty() || place.libdir.is_empty() {
        return Err(USAGE.to_owned());
    }
    place.prefix = std::path::absolute(&place.prefix).map_err(|error| error.to_string())?;
    install(root, &place)?;
    println!("installed in {}", place.on_disk().display());
    Ok(())
}

const USAGE: &str =
    "cargo xtask install --prefix DIR [--libdir lib] [--debug]; LIBDIR is relative to DIR";

impl Place {
    /// The prefix with the staging directory in front.
    fn on_disk(&self) -> PathBuf {
        match &self.staging {
            None => self.prefix.clone(),
            Some(staging) => {
                let mut path = staging.clone();
                path.push(&self.prefix);
                PathBuf::from(path)
            }
        }
    }
}

/// The versions in the sources.
pub fn versions(root: &Path) -> Result<Versions, String> {
    let quoted = |file: &str, start: &str| -> Result<String, String> {
        let text = read(&root.join(file))?;
        let line = text.lines().find(|line| line.starts_with(start));
        let value = line.and_then(|line| line.split('"').nth(1));
        value
            .map(str::to_owned)
            .ok_or_else(|| format!("{file}: no line begins with {start:?}"))
    };
    Ok(Versions {
        rocksdb: quoted(
            "crates/cairn-options/src/file.rs",
            "pub const ROCKSDB_VERSION",
        )?,
        cairn: quoted("Cargo.toml", "version = ")?,
    })
}

/// Builds the libraries and installs them.
pub fn install(root: &Path, place: &Place) -> Result<(), String> {
    let mut build = vec!["build", "--locked", "--package", "cairn-librocksdb"];
    if !place.debug {
        build.push("--release");
    }
    cargo(root, &build)?;
    let built = target(root).join(if place.debug { "debug" } else { "release" });
    install_from(root, place, &built)
}

/// Installs the libraries in the directory `built`.
pub fn install_from(root: &Path, place: &Place, built: &Path) -> Result<(), String> {
    let versions = versions(root)?;
    let prefix = place.on_disk();
    let lib = prefix.join(&place.libdir);

    for header in ["rocksdb/c.h", "cairn/c.h"] {
        let from = root.join("capi/include").join(header);
        copy(&from, &prefix.join("include").join(header))?;
    }
    write(
        &prefix.join("include/rocksdb/version.h"),
        &version_header(&versions),
    )?;
    let archive = lib.join("librocksdb.a");
    clear(&archive)?;
    archive::install(root, &built.join("librocksdb.a"), &archive)?;
    shared_library(&built.join("librocksdb.so"), &lib, &versions)?;
    write(
        &lib.join("pkgconfig/rocksdb.pc"),
        &pkg_config(place, &versions),
    )?;
    let cmake = lib.join("cmake/rocksdb");
    write(
        &cmake.join("RocksDBConfig.cmake"),
        &cmake_config(place, &versions),
    )?;
    write(
        &cmake.join("RocksDBConfigVersion.cmake"),
        &cmake_version(&versions),
    )
}

/// Installs the shared library under its full version, with symbolic links for its shorter names.
fn shared_library(from: &Path, lib: &Path, versions: &Versions) -> Result<(), String> {
    let mut name = format!("librocksdb.so.{}", versions.rocksdb);
    let library = lib.join(&name);
    copy(from, &library)?;
    split_debug(&library, &lib.join(".debug").join(format!("{name}.debug")))?;
    for dots in [1, 0] {
        let parts: Vec<&str> = versions.rocksdb.split('.').take(dots + 1).collect();
        let shorter = format!("librocksdb.so.{}", parts.join("."));
        link(&name, &lib.join(&shorter))?;
        name = shorter;
    }
    link(&name, &lib.join("librocksdb.so"))
}

/// Moves the debug sections of `library` to a separate file and links it (`.gnu_debuglink`). Without
/// objcopy they stay in the library.
fn split_debug(library: &Path, debug: &Path) -> Result<(), String> {
    if !(cfg!(target_os = "linux") && has("objcopy")) {
        println!("objcopy is not installed: the library keeps its debug sections");
        return Ok(());
    }
    clear(debug)?;
    printed(
        Command::new("objcopy")
            .arg("--only-keep-debug")
            .args([library, debug]),
    )?;
    let mut link = OsString::from("--add-gnu-debuglink=");
    link.push(debug);
    printed(
        Command::new("objcopy")
            .arg("--strip-debug")
            .arg(link)
            .arg(library),
    )
    .map(|_| ())
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> String + '_ {
    move |error| format!("{}: {error}", path.display())
}

/// Creates the directory of `path` and removes an existing file: overwriting a file that a program has
/// mapped would corrupt that program.
fn clear(path: &Path) -> Result<(), String> {
    let dir = path.parent().ok_or("a file lies in a directory")?;
    fs::create_dir_all(dir).map_err(failed(dir))?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed(path)(error)),
        _ => Ok(()),
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    clear(to)?;
    fs::copy(from, to).map(|_| ()).map_err(failed(from))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    clear(path)?;
    fs::write(path, text).map_err(failed(path))
}

fn link(to: &str, path: &Path) -> Result<(), String> {
    clear(path)?;
    std::os::unix::fs::symlink(to, path).map_err(failed(path))
}

/// `rocksdb/version.h`, whose macros builds test.
fn version_header(versions: &Versions) -> String {
    let mut numbers = versions.rocksdb.split('.');
    let mut number = || numbers.next().unwrap_or("0").to_owned();
    format!(
        "/* The release of RocksDB whose interface this is, and Cairn's own version. */\n\
         #pragma once\n\n\
         #define ROCKSDB_MAJOR {}\n#define ROCKSDB_MINOR {}\n#define ROCKSDB_PATCH {}\n\
         #define CAIRN_VERSION \"{}\"\n",
        number(),
        number(),
        number(),
        versions.cairn
    )
}

fn pkg_config(place: &Place, versions: &Versions) -> String {
    format!(
        "prefix={prefix}\nexec_prefix=${{prefix}}\nincludedir=${{prefix}}/include\n\
         libdir=${{prefix}}/{libdir}\ncairn_version={cairn}\n\n\
         Name: rocksdb\n\
         Description: RocksDB's C interface, provided by Cairn\n\
         Version: {rocksdb}\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -lrocksdb\n\
         Libs.private: {private}\n",
        prefix = place.prefix.display(),
        libdir = place.libdir,
        cairn = versions.cairn,
        rocksdb = versions.rocksdb,
        private = PRIVATE.join(" "),
    )
}

fn cmake_config(place: &Place, versions: &Versions) -> String {
    let up = "/..".repeat(place.libdir.split('/').filter(|part| *part != ".").count());
    let major = versions.rocksdb.split('.').next().unwrap_or_default();
    let private: Vec<&str> = PRIVATE.iter().map(|flag| &flag[2..]).collect();
    format!(
        r#"# RocksDB's C interface, provided by Cairn {cairn}.
#   RocksDB::rocksdb         the static library
#   RocksDB::rocksdb-shared  the shared library
get_filename_component(_rocksdb_lib "${{CMAKE_CURRENT_LIST_DIR}}/../.." ABSOLUTE)
get_filename_component(_rocksdb_prefix "${{_rocksdb_lib}}{up}" ABSOLUTE)
set(RocksDB_CAIRN_VERSION "{cairn}")
if(NOT TARGET RocksDB::rocksdb)
  add_library(RocksDB::rocksdb STATIC IMPORTED)
  set_target_properties(RocksDB::rocksdb PROPERTIES
    IMPORTED_LOCATION "${{_rocksdb_lib}}/librocksdb.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES "C"
    INTERFACE_INCLUDE_DIRECTORIES "${{_rocksdb_prefix}}/include"
    INTERFACE_LINK_LIBRARIES "{private}")
endif()
if(NOT TARGET RocksDB::rocksdb-shared)
  add_library(RocksDB::rocksdb-shared SHARED IMPORTED)
  set_target_properties(RocksDB::rocksdb-shared PROPERTIES
    IMPORTED_LOCATION "${{_rocksdb_lib}}/librocksdb.so.{rocksdb}"
    IMPORTED_SONAME "librocksdb.so.{major}"
    INTERFACE_INCLUDE_DIRECTORIES "${{_rocksdb_prefix}}/include")
endif()
unset(_rocksdb_lib)
unset(_rocksdb_prefix)
"#,
        cairn = versions.cairn,
        rocksdb = versions.rocksdb,
        private = private.join(";"),
    )
}

/// The CMake version file: a release satisfies requests for older ones with the same major version.
fn cmake_version(versions: &Versions) -> String {
    format!(
        r#"set(PACKAGE_VERSION "{rocksdb}")
if(PACKAGE_VERSION VERSION_EQUAL PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_EXACT TRUE)
endif()
if(PACKAGE_FIND_VERSION_MAJOR STREQUAL "{major}" AND NOT PACKAGE_VERSION VERSION_LESS PACKAGE_FIND_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
else()
  set(PACKAGE_VERSION_COMPATIBLE FALSE)
endif()
"#,
        rocksdb = versions.rocksdb,
        major = versions.rocksdb.split('.').next().unwrap_or_default(),
    )
}
