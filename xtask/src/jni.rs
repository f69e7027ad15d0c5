//! `cargo xtask jni`: the native methods of the library for Java are those of RocksJava's classes.
//!
//! The native methods that the class files of the jars declare are compared with `jvm/methods.txt`, which the
//! library is generated from; the Rust compiler checks the types of the functions against the descriptors. `test` runs
//! RocksJava's own unit tests, whose sources a crate carries.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::commands::{cargo, fresh, output, printed, read, target};
use crate::java;
use crate::java_programs::{self, Programs};

/// The jars that each check compares with: group, artifact and version. Kafka Streams depends on version 10.1.3 since
/// release 4, and on 7.9.2 before, Flink on the others since release 2, and before.
const JARS: [[&str; 3]; 6] = [
    ["org.rocksdb", "rocksdbjni", "11.1.1"],
    ["org.rocksdb", "rocksdbjni", "11.8.1"],
    ["org.rocksdb", "rocksdbjni", "10.1.3"],
    ["org.rocksdb", "rocksdbjni", "7.9.2"],
    ["com.ververica", "frocksdbjni", "8.10.0-ververica-1.0"],
    ["com.ververica", "frocksdbjni", "6.20.3-ververica-2.0"],
];
/// Those whose methods and numbers differ most from the first one's.
const OLDEST: std::ops::Range<usize> = 3..6;
/// The further versions of `rocksdbjni` that `releases` compares with.
const FURTHER: [&str; 14] = [
    "6.29.4.1",
    "7.1.2",
    "8.3.2",
    "8.8.1",
    "8.11.4",
    "9.6.1",
    "9.8.4",
    "9.10.0",
    "10.2.1",
    "10.4.2",
    "10.6.2",
    "10.10.1.1",
    "11.0.4",
    "11.1.2",
];
/// The libraries of RocksJava's tests.
const TEST_JARS: [[&str; 3]; 4] = [
    ["junit", "junit", "4.13.1"],
    ["org.hamcrest", "hamcrest", "2.2"],
    ["org.assertj", "assertj-core", "2.9.0"],
    ["org.mockito", "mockito-all", "1.10.19"],
];
/// The crate with the sources of RocksJava.
const SOURCES: [&str; 2] = ["rust-librocksdb-sys", "0.44.0"];

/// A native method: class, name and descriptor.
type Native = (String, String, String);

/// The library, whose methods are those of the jars.
struct Checked {
    /// The folder of what is compiled and written.
    work: PathBuf,
    /// That of the library, under both names that the classes look for.
    libraries: PathBuf,
    /// [`JARS`], and maybe those of [`FURTHER`].
    jars: Vec<PathBuf>,
}

/// Builds the library and checks its methods, with `all` jars or those of [`JARS`].
fn checked(root: &Path, all: bool) -> Result<Checked, String> {
    let libraries = java::library(root, None, "dev")?;
    let library = libraries.join("librocksdbjni.so");
    std::fs::copy(&library, libraries.join("librocksdbjni-linux64.so"))
        .map_err(|error| error.to_string())?;
    let further = FURTHER.map(|version| ["org.rocksdb", "rocksdbjni", version]);
    let named = JARS.into_iter().chain(further.into_iter().filter(|_| all));
    let jars = named.map(fetched).collect::<Result<Vec<_>, _>>()?;
    let work = target(root).join("jvm");
    std::fs::create_dir_all(&work).map_err(|error| error.to_string())?;
    check(root, &work, &jars, &library, all)?;
    Ok(Checked {
        work,
        libraries,
        jars,
    })
}

impl Checked {
    fn programs(&self, root: &Path) -> Result<Programs<'_>, String> {
        Programs::new(root, &self.work, &self.jars[0], &self.libraries)
    }

    /// Runs RocksJava's tests; returns the number of those that failed.
    fn test(&self, root: &Path, classes: &[String]) -> Result<u64, String> {
        let programs = self.programs(root)?;
        let jar = &self.jars[0];
        test(root, &self.work, jar, &self.libraries, &programs, classes)
    }

    /// Runs `Releases` with each of `jars`.
    fn releases(&self, root: &Path, jars: &[PathBuf]) -> Result<(), String> {
        let run = |jar: &PathBuf| java_programs::release(root, &self.work, jar, &self.libraries);
        jars.iter().try_for_each(run)
    }
}

/// Builds the library, checks its methods, and runs tests if `words` say so.
pub fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let names: Vec<&str> = words.iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => checked(root, false).map(|_| ()),
        ["releases"] => {
            let all = checked(root, true)?;
            all.releases(root, &all.jars)
        }
        ["test", ..] => checked(root, false)?.test(root, &words[1..]).map(|_| ()),
        ["stress", ..] => checked(root, false)?.programs(root)?.stress(&words[1..]),
        _ => {
            let words = "cargo xtask jni [test [CLASS]... | releases | stress [CALLS [MINUTES]]]";
            Err(words.to_owned())
        }
    }
}

/// The classes of RocksJava's tests that continuous integration runs.
const SMOKE: [&str; 8] = [
    "RocksIteratorTest",
    "MergeTest",
    "ColumnFamilyTest",
    "SecondaryDBTest",
    "WriteBatchTest",
    "EventListenerTest",
    "OptimisticTransactionDBTest",
    BEHAVIOUR,
];

/// The name of the program with the tests that RocksJava's own leave out.
const BEHAVIOUR: &str = "Behaviour";

/// Checks the methods of the library, runs some of RocksJava's tests, and `Releases` with the oldest classes.
pub fn smoke(root: &Path) -> Result<(), String> {
    let checked = checked(root, false)?;
    match checked.test(root, &SMOKE.map(str::to_owned))? {
        0 => checked.releases(root, &checked.jars[OLDEST]),
        failed => Err(format!("{failed} of RocksJava's tests failed")),
    }
}

/// The path of a jar in Maven's repository, which fetches it if necessary.
fn fetched([group, artifact, version]: [&str; 3]) -> Result<PathBuf, String> {
    let home = std::env::var("HOME").map_err(|_| "HOME is not set")?;
    let jar = Path::new(&home)
        .join(".m2/repository")
        .join(group.replace('.', "/"))
        .join(artifact)
        .join(version)
        .join(format!("{artifact}-{version}.jar"));
    if !jar.exists() {
        let name = format!("-Dartifact={group}:{artifact}:{version}");
        let words = ["dependency:get", "-Dtransitive=false", &name];
        java::maven(Path::new(&home), &words)?;
    }
    Ok(jar)
}

/// The jar with RocksJava's classes.
pub fn classes() -> Result<PathBuf, String> {
    fetched(JARS[0])
}

/// Compares the table of methods with the class files of the jars, which may be `all`, and with the symbols of the
/// library.
fn check(
    root: &Path,
    work: &Path,
    jars: &[PathBuf],
    library: &Path,
    all: bool,
) -> Result<(), String> {
    let (listed, built) = table(&read(&root.join("jvm/methods.txt"))?);
    let (of_tests, _) = table(&read(&root.join("jvm/test_methods.txt"))?);
    let mut problems = Vec::new();
    let mut declared = BTreeSet::new();
    for jar in jars {
        let natives = natives(work, jar)?;
        let name = jar.file_stem().unwrap_or_default().to_string_lossy();
        let ours = natives
            .iter()
            .filter(|native| built.contains(*native))
            .count();
        println!(
            "{name}: {ours} of {} native methods are built",
            natives.len()
        );
        declared.extend(natives);
    }
    for (class, name, descriptor) in declared.difference(&listed) {
        problems.push(format!(
            "{class}.{name}{descriptor} is not in jvm/methods.txt"
        ));
    }
    for (class, name, descriptor) in listed.difference(&declared).filter(|_| all) {
        problems.push(format!(
            "{class}.{name}{descriptor} in jvm/methods.txt is in no jar"
        ));
    }
    let symbols = printed(
        Command::new("nm")
            .args(["-D", "--defined-only"])
            .arg(library),
    )?;
    let exported = symbols
        .lines()
        .filter(|line| line.contains(" T Java_org_rocksdb_"))
        .count();
    let all = listed.len() + of_tests.len();
    if exported != all {
        problems.push(format!("the library exports {exported} of {all} methods"));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n")),
    }
}

/// The methods of `jvm/methods.txt`, and those that are built.
fn table(text: &str) -> (BTreeSet<Native>, BTreeSet<Native>) {
    let (mut listed, mut built) = (BTreeSet::new(), BTreeSet::new());
    let mut class = "";
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if let Some(name) = line.strip_prefix('[') {
            class = name.trim_end_matches(']');
            continue;
        }
        let signature = line.split(" = ").next().unwrap_or(line);
        let Some((name, descriptor)) = signature.split_once(' ') else {
            continue;
        };
        let native = (class.to_owned(), name.to_owned(), descriptor.to_owned());
        if signature.len() < line.len() {
            built.insert(native.clone());
        }
        listed.insert(native);
    }
    (listed, built)
}

/// The native methods of the classes in `jar`.
fn natives(work: &Path, jar: &Path) -> Result<BTreeSet<Native>, String> {
    let dir = work.join("classes");
    fresh(&dir)?;
    printed(
        Command::new("jar")
            .arg("xf")
            .arg(jar)
            .arg("org")
            .current_dir(&dir),
    )?;
    let all = natives_in(&dir)?;
    fresh(&dir)?;
    Ok(all)
}

/// The native methods of the classes in a folder.
fn natives_in(dir: &Path) -> Result<BTreeSet<Native>, String> {
    let mut all = BTreeSet::new();
    let top = dir.join("org/rocksdb");
    let mut classes = Vec::new();
    files_with(&top, "class", &mut classes)?;
    for path in classes {
        let inner = path.strip_prefix(&top).unwrap_or(&path).with_extension("");
        let class = inner.to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).map_err(|error| error.to_string())?;
        let methods = ClassFile {
            bytes: &bytes,
            at: 0,
        }
        .natives();
        let methods = methods.ok_or_else(|| format!("{}: not a class file", path.display()))?;
        all.extend(
            methods
                .into_iter()
                .map(|(name, descriptor)| (class.clone(), name, descriptor)),
        );
    }
    Ok(all)
}

/// A reader of class files, as far as names and descriptors of methods need it.
struct ClassFile<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl ClassFile<'_> {
    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    fn u16(&mut self) -> Option<usize> {
        let bytes = self.take(2)?.try_into().ok()?;
        Some(usize::from(u16::from_be_bytes(bytes)))
    }

    fn u32(&mut self) -> Option<usize> {
        let bytes = self.take(4)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(bytes)).ok()
    }

    /// Names and descriptors of the native methods; `None` for a malformed file.
    fn natives(mut self) -> Option<Vec<(String, String)>> {
        /// `ACC_NATIVE`.
        const NATIVE: usize = 0x100;
        self.take(8)?;
        let texts = self.constants()?;
        self.take(6)?;
        let interfaces = self.u16()?;
        self.take(2 * interfaces)?;
        // Fields, whose entries have the form of those of methods.
        self.members(|_, _, _| Some(()))?;
        let mut natives = Vec::new();
        self.members(|flags, name, descriptor| {
            if flags & NATIVE != 0 {
                natives.push((texts.get(&name)?.clone(), texts.get(&descriptor)?.clone()));
            }
            Some(())
        })?;
        Some(natives)
    }

    /// The texts of the constant pool.
    fn constants(&mut self) -> Option<BTreeMap<usize, String>> {
        let count = self.u16()?;
        let mut texts = BTreeMap::new();
        let mut number = 1;
        while number < count {
            let tag = self.take(1)?[0];
            let len = match tag {
                1 => self.u16()?,
                7 | 8 | 16 | 19 | 20 => 2,
                15 => 3,
                3 | 4 | 9..=12 | 17 | 18 => 4,
                5 | 6 => 8,
                _ => return None,
            };
            let content = self.take(len)?;
            if tag == 1 {
                texts.insert(number, String::from_utf8_lossy(content).into_owned());
            }
            // Numbers of eight bytes take two places.
            number += if matches!(tag, 5 | 6) { 2 } else { 1 };
        }
        Some(texts)
    }

    fn members(&mut self, mut visit: impl FnMut(usize, usize, usize) -> Option<()>) -> Option<()> {
        for _ in 0..self.u16()? {
            let (flags, name, descriptor) = (self.u16()?, self.u16()?, self.u16()?);
            for _ in 0..self.u16()? {
                self.take(2)?;
                let len = self.u32()?;
                self.take(len)?;
            }
            visit(flags, name, descriptor)?;
        }
        Some(())
    }
}

/// Compiles RocksJava's unit tests and runs `classes`, or all, each in its own process. Returns the number of failed
/// tests.
fn test(
    root: &Path,
    work: &Path,
    jar: &Path,
    libraries: &Path,
    programs: &Programs<'_>,
    classes: &[String],
) -> Result<u64, String> {
    let sources = sources(work)?.join("rocksdb/java/src/test/java");
    let mut path: Vec<String> = vec![jar.display().to_string()];
    for test_jar in TEST_JARS {
        path.push(fetched(test_jar)?.display().to_string());
    }
    let compiled = work.join("tests");
    path.push(compiled.display().to_string());
    let path = path.join(":");
    let mut files = Vec::new();
    files_with(&sources, "java", &mut files)?;
    if !compiled.exists() {
        fresh(&compiled)?;
        let mut compiler = Command::new("javac");
        compiler
            .args(["-nowarn", "-cp", &path, "-d"])
            .arg(&compiled)
            .args(&files);
        printed(&mut compiler)?;
    }
    let (of_tests, _) = table(&read(&root.join("jvm/test_methods.txt"))?);
    if of_tests != natives_in(&compiled)? {
        return Err("jvm/test_methods.txt is not the list of the tests' native methods".to_owned());
    }
    let names = files.iter().filter_map(|file| class_name(&sources, file));
    let chosen: Vec<String> = match classes.is_empty() {
        true => names
            .filter(|name| name.ends_with("Test") && !name.contains(".Abstract"))
            .chain([BEHAVIOUR.to_owned()])
            .collect(),
        false => classes
            .iter()
            .map(|name| match name == BEHAVIOUR {
                true => name.clone(),
                false => format!("org.rocksdb.{name}"),
            })
            .collect(),
    };
    let (mut passed, mut failed) = (0, 0);
    for class in chosen {
        let text = match class == BEHAVIOUR {
            true => programs.behaviour()?,
            false => {
                let mut java = Command::new("timeout");
                java.args(["300", "java", "-ea", "-Xmx600m", "-XX:+UseSerialGC"])
                    .arg(format!("-Djava.library.path={}", libraries.display()))
                    .args(["-cp", &path, "org.junit.runner.JUnitCore", &class])
                    .current_dir(work);
                let text = output(&mut java)?;
                String::from_utf8_lossy(&text.stdout).into_owned()
            }
        };
        let [run, bad] = counts(&text).unwrap_or([1, 1]);
        println!("{class}: {} of {run} passed", run - bad.min(run));
        passed += run - bad.min(run);
        failed += bad.min(run);
        std::fs::write(work.join(format!("{class}.txt")), text)
            .map_err(|error| error.to_string())?;
    }
    println!("{passed} tests passed, {failed} failed");
    Ok(failed)
}

/// The numbers of tests and failures that JUnit prints at the end.
fn counts(text: &str) -> Option<[u64; 2]> {
    let line = text
        .lines()
        .rev()
        .find(|line| line.starts_with("OK (") || line.starts_with("Tests run: "))?;
    let mut numbers = line
        .split(|c: char| !c.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .map_while(|part| part.parse().ok());
    Some([numbers.next()?, numbers.next().unwrap_or(0)])
}

/// The folder of the crate with RocksJava's sources, which cargo fetches.
fn sources(work: &Path) -> Result<PathBuf, String> {
    let [name, version] = SOURCES;
    let scratch = work.join("sources");
    std::fs::create_dir_all(scratch.join("src")).map_err(|error| error.to_string())?;
    let manifest = format!(
        "[package]\nname = \"sources\"\nversion = \"0.1.0\"\n[dependencies]\n{name} = \"={version}\"\n[workspace]\n"
    );
    let write = |file: &str, text: &str| {
        std::fs::write(scratch.join(file), text).map_err(|error| error.to_string())
    };
    write("Cargo.toml", &manifest)?;
    write("src/lib.rs", "")?;
    cargo(&scratch, &["fetch"])?;
    let metadata = printed(
        Command::new("cargo")
            .args(["metadata", "--format-version", "1"])
            .current_dir(&scratch),
    )?;
    let metadata: serde_json::Value =
        serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let found = packages
        .filter(|package| package["name"] == name)
        .find_map(|package| package["manifest_path"].as_str());
    let manifest = found.ok_or("cargo metadata does not list the crate with the sources")?;
    Ok(Path::new(manifest)
        .parent()
        .unwrap_or(Path::new("."))
        .to_owned())
}

/// Appends the files in `dir` and below with the given extension, in order of their paths.
fn files_with(dir: &Path, extension: &str, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let entries = std::fs::read_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(|error| error.to_string())?.path());
    }
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => files_with(&path, extension, files)?,
            false if path.extension().is_some_and(|found| found == extension) => files.push(path),
            false => {}
        }
    }
    Ok(())
}

/// The class of a source file.
fn class_name(sources: &Path, file: &Path) -> Option<String> {
    let inner = file.strip_prefix(sources).ok()?.with_extension("");
    Some(inner.to_str()?.replace('/', "."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_separates_built_methods() {
        let text =
            "# Comment.\n[Cache]\ngetUsage (J)J = objects::cache_usage\n\n[Env]\nstop (J)V\n";
        let (listed, built) = table(text);
        assert_eq!((listed.len(), built.len()), (2, 1));
        assert!(built.contains(&("Cache".into(), "getUsage".into(), "(J)J".into())));
    }

    #[test]
    fn a_truncated_class_file_is_rejected() {
        for len in 0..40 {
            let bytes = vec![1; len];
            assert!(
                ClassFile {
                    bytes: &bytes,
                    at: 0
                }
                .natives()
                .is_none()
            );
        }
    }

    #[test]
    fn the_last_line_of_junit_has_the_numbers() {
        assert_eq!(counts("...\nOK (8 tests)\n"), Some([8, 0]));
        assert_eq!(counts("Tests run: 65,  Failures: 15\n"), Some([65, 15]));
        assert_eq!(counts("killed"), None);
    }
}
