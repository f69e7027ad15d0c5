//! `cargo xtask reference`: builds RocksDB's newest library for this machine's CPU.
//!
//! A published library is compiled for any CPU of its architecture, which would make comparisons
//! unfair. RocksDB's sources come from the crate `rust-librocksdb-sys`, which cargo downloads; no crate
//! of the workspace depends on it. They are compiled with RocksDB's release flags and `-march=native`,
//! and linked with the codecs of Debian's packages. A shim makes the library's caches callable from C:
//!
//! ```text
//! target/rocksdb/native/objects/                an object file for each source, reused by later runs
//! target/rocksdb/native/librocksdb.so
//! target/rocksdb/native/librocksdb-caches.so    bench/reference/cache_shim.cc
//! target/rocksdb/native/stamp                   release, compiler and flags of the library
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::commands::{fresh, printed, read, target};
use crate::packages::{self, Part, Probe, Source};
use crate::registry;

/// The crate with RocksDB's sources.
const CRATE: &str = "rust-librocksdb-sys";

/// Its version.
const VERSION: &str = "0.49.0";

/// Its release of RocksDB.
pub const RELEASE: &str = "11.12.0";

const fn header(name: &'static str, package: &'static str) -> Part {
    Part {
        probe: Probe::Header(name),
        source: Source::Debian(package),
    }
}

/// The compiler and the codecs.
const PARTS: [Part; 6] = [
    Part {
        probe: Probe::Program("c++"),
        source: Source::Debian("g++"),
    },
    header("snappy.h", "libsnappy-dev"),
    header("lz4.h", "liblz4-dev"),
    header("zstd.h", "libzstd-dev"),
    header("zlib.h", "zlib1g-dev"),
    header("bzlib.h", "libbz2-dev"),
];

/// Flags of RocksDB's release build on Linux. Its sources detect CPU features by the macros that
/// `-march=native` defines.
const FLAGS: [&str; 26] = [
    "-O2",
    "-fno-omit-frame-pointer",
    "-march=native",
    "-DNDEBUG",
    "-std=c++20",
    "-fPIC",
    "-w",
    "-pthread",
    "-frtti",
    "-DROCKSDB_PLATFORM_POSIX",
    "-DROCKSDB_LIB_IO_POSIX",
    "-DOS_LINUX",
    "-DROCKSDB_FALLOCATE_PRESENT",
    "-DROCKSDB_MALLOC_USABLE_SIZE",
    "-DROCKSDB_PTHREAD_ADAPTIVE_MUTEX",
    "-DROCKSDB_RANGESYNC_PRESENT",
    "-DROCKSDB_SCHED_GETCPU_PRESENT",
    "-DROCKSDB_AUXV_GETAUXVAL_PRESENT",
    "-DHAVE_UINT128_EXTENSION",
    "-DROCKSDB_SUPPORT_THREAD_LOCAL",
    "-DROCKSDB_BACKTRACE",
    "-DSNAPPY",
    "-DLZ4",
    "-DZSTD",
    "-DZLIB",
    "-DBZIP2",
];

const LIBRARIES: [&str; 7] = [
    "-lsnappy",
    "-llz4",
    "-lzstd",
    "-lz",
    "-lbz2",
    "-lpthread",
    "-ldl",
];

/// The shim for caches, whose file name is also in `cairn-bench`.
const SHIM: &str = "bench/reference/cache_shim.cc";
const SHIM_LIBRARY: &str = "librocksdb-caches.so";

/// The directory of the crate with RocksDB's sources. Its manifest is read in `scratch`.
pub fn sources(scratch: &Path) -> Result<PathBuf, String> {
    registry::source(scratch, CRATE, VERSION, "")
}

/// Builds the library and the shim unless they are up to date.
pub fn run(root: &Path) -> Result<(), String> {
    provide()?;
    let folder = target(root).join("rocksdb/native");
    let source = sources(&folder.join("source"))?;
    let build = Build {
        units: units(&source, &read(&source.join("rocksdb_lib_sources.txt"))?),
        include: source.join("rocksdb"),
        objects: folder.join("objects"),
        stamp: stamp()?,
    };
    build.discard_others(&folder.join("stamp"))?;
    let due = build.due()?;
    println!(
        "RocksDB {RELEASE}: {} of {} sources to compile",
        due.len(),
        build.units.len()
    );
    build.compile(&due)?;
    let library = folder.join("librocksdb.so");
    if !due.is_empty() || !library.exists() {
        build.link(&library)?;
    }
    build.shim(&root.join(SHIM), &library)?;
    println!("RocksDB {RELEASE} is at {}", library.display());
    Ok(())
}

/// Installs the compiler and the codecs.
fn provide() -> Result<(), String> {
    // The compiler comes first, because the test for headers needs it.
    for parts in [&PARTS[..1], &PARTS[1..]] {
        let missing = packages::missing(parts);
        let failures = packages::install(&missing);
        let missing = packages::missing(&missing);
        if !missing.is_empty() {
            return Err(format!(
                "cargo xtask reference needs {}: {}",
                packages::by_hand(&missing),
                failures.join("; ")
            ));
        }
    }
    Ok(())
}

/// The compiler and its flags: objects of another stamp are not reused.
fn stamp() -> Result<String, String> {
    let compiler = printed(Command::new("c++").arg("--version"))?;
    let compiler = compiler.lines().next().unwrap_or_default();
    // `-march=native` selects other instructions on another machine, so the stamp holds its expansion.
    let native = ["-march=native", "-E", "-v", "-x", "c++", "/dev/null"];
    let said = Command::new("c++").args(native).output();
    let said = said.map_err(|error| format!("c++: {error}"))?;
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    let processor = said.lines().find(|line| line.contains("cc1plus"));
    let processor = processor.map_or_else(String::new, |line| {
        let words = line
            .split_whitespace()
            .filter(|word| word.starts_with("-m"));
        words.collect::<Vec<_>>().join(" ")
    });
    Ok(format!(
        "RocksDB {RELEASE}\n{compiler}\n{}\n{processor}\n",
        FLAGS.join(" ")
    ))
}

/// A source file and its object file.
#[derive(Debug, PartialEq, Eq)]
struct Unit {
    source: PathBuf,
    object: String,
}

/// The units of the crate at `source`, where `list` is the list of RocksDB's files.
fn units(source: &Path, list: &str) -> Vec<Unit> {
    let names = list.lines().map(str::trim);
    // The crate supplies its own build_version.cc. Assembler sources are for other architectures.
    let names = names.filter(|name| name.ends_with(".cc") && !name.ends_with("build_version.cc"));
    let mut units: Vec<Unit> = names
        .map(|name| Unit {
            source: source.join("rocksdb").join(name),
            object: format!("{}.o", name.replace('/', "_")),
        })
        .collect();
    units.push(Unit {
        source: source.join("build_version.cc"),
        object: "bv.o".to_owned(),
    });
    units
}

struct Build {
    units: Vec<Unit>,
    include: PathBuf,
    objects: PathBuf,
    stamp: String,
}

impl Build {
    /// Removes the objects if they have another stamp.
    fn discard_others(&self, path: &Path) -> Result<(), String> {
        if read(path).is_ok_and(|stamp| stamp == self.stamp) && self.objects.is_dir() {
            return Ok(());
        }
        fresh(&self.objects)?;
        fs::write(path, &self.stamp).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// The units whose objects are missing or older than their sources.
    fn due(&self) -> Result<Vec<&Unit>, String> {
        let mut due = Vec::new();
        for unit in &self.units {
            if !is_newer(&self.objects.join(&unit.object), &unit.source)? {
                due.push(unit);
            }
        }
        Ok(due)
    }

    /// Compiles `due` with one process per core.
    fn compile(&self, due: &[&Unit]) -> Result<(), String> {
        let jobs = std::thread::available_parallelism().map_or(2, usize::from);
        let (next, failure) = (AtomicUsize::new(0), Mutex::new(None));
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(unit) = due.get(number) else { return };
                        if number % 25 == 24 {
                            println!("{} of {}", number + 1, due.len());
                        }
                        if let Err(words) = self.compile_one(unit) {
                            // Stops the other threads.
                            next.store(due.len(), Ordering::Relaxed);
                            let failure = failure.lock();
                            *failure.unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(words);
                        }
                    }
                });
            }
        });
        let failure = failure.into_inner();
        let failure = failure.unwrap_or_else(|poisoned| poisoned.into_inner());
        failure.map_or(Ok(()), Err)
    }

    /// The compiler with RocksDB's flags and headers.
    fn compiler(&self) -> Command {
        let mut compiler = Command::new("c++");
        compiler
            .args(FLAGS)
            .arg("-I")
            .arg(self.include.join("include"))
            .arg("-I")
            .arg(&self.include);
        compiler
    }

    fn compile_one(&self, unit: &Unit) -> Result<(), String> {
        let object = self.objects.join(&unit.object);
        // An interrupted compiler leaves no object under the final name.
        let part = object.with_extension("part");
        let mut compiler = self.compiler();
        compiler.arg("-c").arg(&unit.source).arg("-o").arg(&part);
        printed(&mut compiler).map_err(|words| format!("{}: {words}", unit.source.display()))?;
        fs::rename(&part, &object).map_err(|error| format!("{}: {error}", object.display()))
    }

    /// Compiles the shim `source` and links it with `library`, unless it is up to date.
    fn shim(&self, source: &Path, library: &Path) -> Result<(), String> {
        let shim = library.with_file_name(SHIM_LIBRARY);
        if is_newer(&shim, source)? && is_newer(&shim, library)? {
            return Ok(());
        }
        let part = shim.with_extension("part");
        let mut compiler = self.compiler();
        compiler.args(["-shared", "-o"]).arg(&part);
        printed(compiler.arg(source).arg(library))
            .map_err(|words| format!("{}: {words}", source.display()))?;
        fs::rename(&part, &shim).map_err(|error| format!("{}: {error}", shim.display()))
    }

    fn link(&self, library: &Path) -> Result<(), String> {
        let part = library.with_extension("part");
        let mut linker = Command::new("c++");
        linker.args(["-shared", "-Wl,-soname,librocksdb.so.11", "-o"]);
        linker.arg(&part);
        for unit in &self.units {
            linker.arg(self.objects.join(&unit.object));
        }
        printed(linker.args(LIBRARIES))?;
        fs::rename(&part, library).map_err(|error| format!("{}: {error}", library.display()))
    }
}

/// True if `made` exists and is not older than `source`, which must exist.
fn is_newer(made: &Path, source: &Path) -> Result<bool, String> {
    let modified = |path: &Path| path.metadata().and_then(|data| data.modified());
    let source = modified(source).map_err(|error| format!("{}: {error}", source.display()))?;
    Ok(modified(made).is_ok_and(|made| made >= source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_leave_out_assembler() {
        let found = units(
            Path::new("/c"),
            "db/c.cc\nutil/build_version.cc\nutil/crc32c_ppc_asm.S\n\n",
        );
        let unit = |source: &str, object: &str| Unit {
            source: source.into(),
            object: object.to_owned(),
        };
        assert_eq!(
            found,
            [
                unit("/c/rocksdb/db/c.cc", "db_c.cc.o"),
                unit("/c/build_version.cc", "bv.o")
            ]
        );
    }

    #[test]
    fn an_object_is_reused_until_its_source_or_the_stamp_changes() {
        let name = format!("cairn-reference-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fresh(&folder).unwrap();
        let build = |stamp: &str| Build {
            units: vec![Unit {
                source: folder.join("a.cc"),
                object: "a.o".to_owned(),
            }],
            include: folder.clone(),
            objects: folder.join("objects"),
            stamp: stamp.to_owned(),
        };
        let path = folder.join("stamp");
        fs::write(folder.join("a.cc"), "int a;").unwrap();
        let first = build("one");
        first.discard_others(&path).unwrap();
        assert_eq!(first.due().unwrap().len(), 1);
        fs::write(folder.join("objects/a.o"), "").unwrap();
        first.discard_others(&path).unwrap();
        assert_eq!(first.due().unwrap().len(), 0);
        build("two").discard_others(&path).unwrap();
        assert_eq!(build("two").due().unwrap().len(), 1);
        fs::remove_dir_all(folder).unwrap();
    }
}
