//! The Java programs in `jvm/tests`, which run with the library for Java: `Behaviour`, tests that RocksJava's own leave
//! out, `Releases`, what changed between its releases, and `Stress`, millions of calls in both directions under
//! `-Xcheck:jni`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::commands::{fresh, output, printed};

/// The calls of `Stress`, and the limit of its duration in minutes.
const CALLS: u64 = 100_000_000;
const MINUTES: u64 = 60;

/// The compiled programs, with the jar of RocksJava and the folder of the library.
pub struct Programs<'a> {
    work: &'a Path,
    jar: &'a Path,
    libraries: &'a Path,
    compiled: PathBuf,
}

impl<'a> Programs<'a> {
    /// Compiles the programs.
    pub fn new(
        root: &Path,
        work: &'a Path,
        jar: &'a Path,
        libraries: &'a Path,
    ) -> Result<Programs<'a>, String> {
        let compiled = work.join("programs");
        let sources = root.join("jvm/tests");
        let compile = |to: &Path, files: &[PathBuf]| {
            fresh(to)?;
            let mut compiler = Command::new("javac");
            compiler.args(["-nowarn", "-cp"]).arg(jar).arg("-d").arg(to);
            printed(compiler.args(files))
        };
        compile(
            &compiled,
            &["Behaviour.java", "Stress.java"].map(|file| sources.join(file)),
        )?;
        compile(
            &work.join("other"),
            &[sources.join("other/org/rocksdb/BlockBasedTableConfig.java")],
        )?;
        Ok(Programs {
            work,
            jar,
            libraries,
            compiled,
        })
    }

    /// A virtual machine with the program `class`, and an empty folder for its databases.
    fn java(&self, class: &str, options: &[&str]) -> Result<Command, String> {
        let scratch = self.work.join(format!("{class}.databases"));
        fresh(&scratch)?;
        let mut java = Command::new("java");
        java.args(["-ea", "-Xmx400m", "-XX:+UseSerialGC"])
            .args(options)
            .arg(format!("-Djava.library.path={}", self.libraries.display()))
            .arg(format!(
                "-Dother.classes={}",
                self.work.join("other").display()
            ))
            .arg("-cp")
            .arg(format!(
                "{}:{}",
                self.compiled.display(),
                self.jar.display()
            ))
            .arg(class)
            .arg(&scratch);
        Ok(java)
    }

    /// Runs `Behaviour`; returns its output, which ends like that of JUnit. Warnings of the virtual machine fail it.
    pub fn behaviour(&self) -> Result<String, String> {
        let text = output(&mut self.java("Behaviour", &["-Xcheck:jni"])?)?;
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        match text.lines().find(|line| is_warning(line)) {
            None => Ok(text),
            Some(warning) => Err(format!("Behaviour: {warning}")),
        }
    }

    /// Runs `Stress` with the number of calls and of minutes in `words`. Warnings of the virtual machine fail it.
    pub fn stress(&self, words: &[String]) -> Result<(), String> {
        let number = |at: usize, default: u64| match words.get(at) {
            None => Ok(default),
            Some(word) => word.parse().map_err(|_| format!("{word}: not a number")),
        };
        let (calls, minutes) = (number(0, CALLS)?, number(1, MINUTES)?);
        let mut java = self.java("Stress", &["-Xcheck:jni"])?;
        java.arg(calls.to_string()).arg((minutes * 60).to_string());
        let mut child = java
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("java: {error}"))?;
        let stdout = child.stdout.take().ok_or("no output")?;
        let mut warnings = Vec::new();
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(|error| error.to_string())?;
            println!("{line}");
            if is_warning(&line) {
                warnings.push(line);
            }
        }
        let status = child.wait().map_err(|error| error.to_string())?;
        match (status.success(), warnings.is_empty()) {
            (true, true) => Ok(()),
            (false, true) => Err(format!("Stress: {status}")),
            _ => Err(format!("{} warnings of -Xcheck:jni", warnings.len())),
        }
    }
}

/// Runs `Releases` with the classes of `jar`: with the library in `libraries`, and then on the same databases with that
/// of the jar.
pub fn release(root: &Path, work: &Path, jar: &Path, libraries: &Path) -> Result<(), String> {
    let name = jar.file_stem().unwrap_or_default().to_string_lossy();
    let compiled = work.join("release");
    let scratch = work.join("release.databases");
    fresh(&compiled)?;
    fresh(&scratch)?;
    let mut compiler = Command::new("javac");
    compiler.args(["-nowarn", "-cp"]).arg(jar);
    compiler.arg("-d").arg(&compiled);
    printed(compiler.arg(root.join("jvm/tests/Releases.java")))?;
    let run = |options: &[&str], libraries: &Path, words: &[&str]| {
        let mut java = Command::new("java");
        java.args(["-ea", "-Xmx300m", "-XX:+UseSerialGC"])
            .args(options)
            .arg(format!("-Djava.library.path={}", libraries.display()))
            .arg("-cp")
            .arg(format!("{}:{}", compiled.display(), jar.display()))
            .arg("Releases")
            .arg(&scratch)
            .args(words);
        let done = output(&mut java).map_err(|error| format!("{name}: {error}"))?;
        let [text, said] =
            [done.stdout, done.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
        match text.lines().find(|line| is_warning(line)) {
            Some(warning) => Err(format!("{name}: {warning}")),
            None if text.ends_with("passed\n") => Ok(()),
            None => Err(format!("{name}: {said}{text}")),
        }
    };
    run(&["-Xcheck:jni"], libraries, &[])?;
    let content = printed(Command::new("jar").arg("tf").arg(jar))?;
    // A release of classes alone.
    if !content.contains("librocksdbjni-linux") {
        println!("{name}: passed, without the second run: the jar has no library");
        return Ok(());
    }
    // Without a library in the path, the classes take that of their jar.
    run(&[], &scratch, &["again"])?;
    println!("{name}: passed");
    Ok(())
}

/// True for a line in which `-Xcheck:jni` reports a violation.
fn is_warning(line: &str) -> bool {
    line.starts_with("WARNING") || line.starts_with("FATAL ERROR in native method")
}

#[cfg(test)]
mod tests {
    use super::is_warning;

    #[test]
    fn reports_of_the_virtual_machine_are_warnings() {
        assert!(is_warning(
            "WARNING in native method: JNI call made without checking exceptions"
        ));
        assert!(is_warning(
            "WARNING: JNI local refs: 34, exceeds capacity: 32"
        ));
        assert!(is_warning(
            "FATAL ERROR in native method: Bad global or local ref"
        ));
        assert!(!is_warning("20 s: 1000000 calls, 200 MB"));
    }
}
