//! The tools that the steps of the stages need, and the choice of the steps that run.
//!
//! A missing tool is installed if possible ([`crate::packages`]). If it is still missing, the steps that
//! [`NEEDS`] lists for it are skipped and the run fails at its end. `--without NAME` skips a stage or the
//! steps of a tool; such a run can succeed. The last line of the output lists all skipped steps.

use std::collections::BTreeMap;

use crate::packages::{Part, Probe, Source};

/// A tool or a download, with the steps that need it.
pub struct Need {
    /// The argument of `--without`. The programs among its parts are accepted too.
    pub name: &'static str,
    /// The programs and files that it consists of.
    pub parts: &'static [Part],
    /// The result of an earlier download, which makes the parts unnecessary: a path below the root.
    pub cached: Option<&'static str>,
    /// The steps that need it: stage and description.
    pub steps: &'static [(&'static str, &'static str)],
    /// The stage that consists of these steps only, if there is one.
    pub whole: Option<&'static str>,
}

const fn program(program: &'static str, package: &'static str) -> Part {
    Part {
        probe: Probe::Program(program),
        source: Source::Debian(package),
    }
}

const fn component(name: &'static str, probe: &'static [&'static str]) -> Part {
    Part {
        probe: Probe::Succeeds(probe),
        source: Source::Rustup(name),
    }
}

/// Everything that the stages need beyond cargo and a C compiler.
pub const NEEDS: [Need; 16] = [
    Need {
        name: "rustfmt",
        parts: &[component("rustfmt", &["cargo", "fmt", "--version"])],
        cached: None,
        steps: &[("lint", "the format of the sources")],
        whole: None,
    },
    Need {
        name: "clippy",
        parts: &[component("clippy", &["cargo", "clippy", "--version"])],
        cached: None,
        steps: &[("lint", "clippy")],
        whole: None,
    },
    Need {
        name: "ldb",
        parts: &[program("ldb", "rocksdb-tools")],
        cached: None,
        steps: &[
            ("interop", "databases read and written by RocksDB's tools"),
            ("clients", "commands of docs/guide that need them"),
        ],
        whole: None,
    },
    Need {
        name: "rocksdb",
        parts: &[
            program("mvn", "maven"),
            program("java", "default-jre-headless"),
            program("unzip", "unzip"),
        ],
        cached: Some("target/rocksdb/.version"),
        steps: &[
            ("interop", "comparisons with RocksDB's library"),
            ("capi", "C tests with RocksDB's library"),
        ],
        whole: None,
    },
    Need {
        name: "lmdb",
        parts: &[Part {
            probe: Probe::Succeeds(&[
                "sh",
                "-c",
                "PATH=$PATH:/sbin:/usr/sbin; ldconfig -p | grep -q 'liblmdb[.]so[.]0 '",
            ]),
            source: Source::Debian("liblmdb0"),
        }],
        cached: None,
        steps: &[("interop", "tests of LMDB as a benchmark engine")],
        whole: None,
    },
    Need {
        name: "rocksdb-header",
        parts: &[program("apt-get", "apt"), program("dpkg-deb", "dpkg")],
        cached: Some("target/rocksdb-dev/usr/include/rocksdb/c.h"),
        steps: &[("capi", "C tests with RocksDB 7.8's header")],
        whole: None,
    },
    Need {
        name: "c++",
        parts: &[program("c++", "g++")],
        cached: None,
        steps: &[
            ("capi", "the headers and exceptions in C++"),
            ("clients", "the installed headers in C++"),
        ],
        whole: None,
    },
    Need {
        name: "objcopy",
        parts: &[program("objcopy", "binutils")],
        cached: None,
        steps: &[("clients", "the symbols of librocksdb.a")],
        whole: None,
    },
    Need {
        name: "pkg-config",
        parts: &[program("pkg-config", "pkg-config")],
        cached: None,
        steps: &[("clients", "programs built with pkg-config")],
        whole: None,
    },
    Need {
        name: "cmake",
        parts: &[program("cmake", "cmake"), program("make", "make")],
        cached: None,
        steps: &[("clients", "programs built with CMake")],
        whole: None,
    },
    Need {
        name: "javac",
        parts: &[
            program("javac", "default-jdk-headless"),
            program("mvn", "maven"),
        ],
        cached: None,
        steps: &[
            ("clients", "tests of RocksJava"),
            ("streams", "the Kafka Streams example"),
        ],
        whole: None,
    },
    Need {
        name: "c_test",
        parts: &[],
        cached: None,
        steps: &[("capi", "RocksDB's test of its C interface")],
        whole: None,
    },
    Need {
        name: "rocksdb-crate",
        parts: &[],
        cached: None,
        steps: &[("clients", "tests of the crate rocksdb")],
        whole: None,
    },
    Need {
        name: "python",
        parts: &[
            program("python3", "python3"),
            Part {
                probe: Probe::Succeeds(&["python3", "-c", "import ensurepip, venv"]),
                source: Source::Debian("python3-venv"),
            },
        ],
        cached: None,
        steps: &[
            ("clients", "tests of the Python package rockstore"),
            ("clients", "tests of the Python module"),
        ],
        whole: None,
    },
    Need {
        name: "go",
        parts: &[program("go", "golang-go")],
        cached: None,
        steps: &[("clients", "tests of the Go module grocksdb")],
        whole: None,
    },
    Need {
        name: "valgrind",
        parts: &[program("valgrind", "valgrind")],
        cached: None,
        steps: &[("counts", "instructions of an operation")],
        whole: Some("counts"),
    },
];

impl Need {
    /// True if `--without word` refers to this need.
    fn answers_to(&self, word: &str) -> bool {
        self.name == word || self.parts.iter().any(|part| part.program() == Some(word))
    }

    /// The steps of `stages` that need it.
    fn steps_of<'a>(&'a self, stages: &'a [&str]) -> impl Iterator<Item = String> + 'a {
        let steps = self.steps.iter();
        let wanted = steps.filter(|(stage, _)| stages.contains(stage));
        wanted.map(|(stage, step)| format!("{stage}: {step}"))
    }
}

/// The stages that run, and the tools that are absent.
#[derive(Debug, Default)]
pub struct Selection {
    /// Names of stages, in the order in which they run.
    pub stages: Vec<&'static str>,
    /// Skipped stages and steps; true if skipped by `--without`.
    left_out: BTreeMap<String, bool>,
    /// Names of the needs whose steps do not run.
    absent: Vec<&'static str>,
}

impl Selection {
    /// Parses the arguments: names of stages (default: all), and `--without NAME` or
    /// `--without=NAME,NAME`.
    ///
    /// # Errors
    ///
    /// A name is neither a stage nor a need.
    pub fn parse(words: &[String], known: &[&'static str]) -> Result<Selection, String> {
        let (mut chosen, mut without) = (Vec::new(), Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = match word.strip_prefix("--without") {
                None => {
                    chosen.push(word.as_str());
                    continue;
                }
                Some("") => words.next().map(String::as_str),
                Some(rest) => rest.strip_prefix('='),
            };
            let value = value.ok_or("--without needs the name of a stage or a tool")?;
            without.extend(value.split(','));
        }
        if let Some(name) = chosen.iter().find(|name| !known.contains(name)) {
            let stages = known.join(", ");
            return Err(format!("no stage {name}; the stages are {stages}"));
        }
        let runs = |stage: &&&str| chosen.is_empty() || chosen.contains(*stage);
        let mut selection = Selection {
            stages: known.iter().filter(runs).copied().collect(),
            ..Selection::default()
        };
        for name in without {
            selection.leave_out_by_name(name, known)?;
        }
        Ok(selection)
    }

    fn leave_out_by_name(&mut self, name: &str, known: &[&str]) -> Result<(), String> {
        if known.contains(&name) {
            if self.stages.contains(&name) {
                self.stages.retain(|stage| *stage != name);
                self.left_out.insert(format!("the stage {name}"), true);
            }
            return Ok(());
        }
        let need = NEEDS.iter().find(|need| need.answers_to(name));
        let need = need.ok_or_else(|| {
            let needs = NEEDS.map(|need| need.name).join(", ");
            let stages = known.join(", ");
            format!("--without {name}: the stages are {stages}; the tools are {needs}")
        })?;
        self.leave_out(need, true);
        Ok(())
    }

    /// The needs of the selected stages, except those that `--without` names.
    pub fn needed(&self) -> impl Iterator<Item = &'static Need> {
        let needed = |need: &&Need| self.has(need.name) && self.concerns(need);
        NEEDS.iter().filter(needed)
    }

    /// Skips the steps that need `need`. `asked` is true for `--without`.
    pub fn leave_out(&mut self, need: &'static Need, asked: bool) {
        self.absent.push(need.name);
        if self.concerns(need) {
            let name = need.name;
            let steps: Vec<String> = need.steps_of(&self.stages).collect();
            let text = format!("{} (no {name})", steps.join(", "));
            self.left_out.insert(text, asked);
        }
        self.stages.retain(|stage| need.whole != Some(*stage));
    }

    fn concerns(&self, need: &Need) -> bool {
        need.steps_of(&self.stages).next().is_some()
    }

    /// True if the steps that need `name` run.
    pub fn has(&self, name: &str) -> bool {
        debug_assert!(NEEDS.iter().any(|need| need.name == name), "{name}");
        !self.absent.contains(&name)
    }

    /// The names of absent needs, comma-separated, for the environment of test programs.
    pub fn absent(&self) -> String {
        self.absent.join(",")
    }

    /// The summary of skipped steps. An error unless all of them were skipped by `--without`.
    pub fn verdict(&self) -> Result<String, String> {
        let named = |asked: bool| {
            let chosen = self.left_out.iter().filter(|entry| *entry.1 == asked);
            chosen
                .map(|entry| entry.0.as_str())
                .collect::<Vec<_>>()
                .join("; ")
        };
        let (asked, missing) = (named(true), named(false));
        match (asked.is_empty(), missing.is_empty()) {
            (true, true) => Ok("nothing was left out".to_owned()),
            (false, true) => Ok(format!("left out by --without: {asked}")),
            (true, false) => Err(format!("left out without --without: {missing}")),
            (false, false) => Err(format!(
                "left out without --without: {missing}; left out by --without: {asked}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAGES: [&str; 5] = ["lint", "interop", "capi", "clients", "counts"];

    fn parse(words: &str) -> Result<Selection, String> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Selection::parse(&words, &STAGES)
    }

    fn needed(selection: &Selection) -> Vec<&str> {
        selection.needed().map(|need| need.name).collect()
    }

    fn find(name: &str) -> &'static Need {
        NEEDS.iter().find(|need| need.name == name).unwrap()
    }

    #[test]
    fn all_stages_need_every_tool() {
        let all = parse("").unwrap();
        assert_eq!(all.stages, STAGES);
        assert_eq!(needed(&all), NEEDS.map(|need| need.name));
        assert_eq!(all.verdict(), Ok("nothing was left out".to_owned()));
    }

    #[test]
    fn a_stage_needs_its_own_tools() {
        assert_eq!(needed(&parse("counts").unwrap()), ["valgrind"]);
        assert_eq!(
            needed(&parse("interop").unwrap()),
            ["ldb", "rocksdb", "lmdb"]
        );
    }

    #[test]
    fn stages_run_in_their_order() {
        assert_eq!(parse("counts lint").unwrap().stages, ["lint", "counts"]);
    }

    #[test]
    fn a_missing_tool_fails_the_run_and_is_named() {
        let mut selection = parse("").unwrap();
        selection.leave_out(find("go"), false);
        assert!(!selection.has("go") && selection.has("cmake"));
        let verdict = selection.verdict().unwrap_err();
        assert!(
            verdict.contains("clients: tests of the Go module grocksdb (no go)"),
            "{verdict}"
        );
    }

    #[test]
    fn a_tool_left_out_on_request_does_not_fail_the_run() {
        let selection = parse("--without go,mvn").unwrap();
        assert!(!needed(&selection).contains(&"go"));
        assert!(!selection.has("rocksdb"), "a program names its tool");
        assert_eq!(selection.absent(), "go,rocksdb");
        let verdict = selection.verdict().unwrap();
        assert!(
            verdict.contains("(no go)") && verdict.contains("(no rocksdb)"),
            "{verdict}"
        );
    }

    #[test]
    fn a_stage_of_one_tool_is_left_out_with_it() {
        let selection = parse("--without valgrind").unwrap();
        assert_eq!(selection.stages, ["lint", "interop", "capi", "clients"]);
        assert!(selection.verdict().unwrap().contains("counts: "));
    }

    #[test]
    fn without_does_not_cover_another_missing_tool() {
        let mut selection = parse("--without=go").unwrap();
        selection.leave_out(find("cmake"), false);
        let verdict = selection.verdict().unwrap_err();
        let (missing, asked) = verdict.split_once("left out by --without").unwrap();
        assert!(
            missing.contains("cmake") && asked.contains("go"),
            "{verdict}"
        );
    }

    #[test]
    fn a_stage_left_out_needs_no_tools() {
        let selection = parse("--without counts").unwrap();
        assert_eq!(selection.stages, ["lint", "interop", "capi", "clients"]);
        assert!(!needed(&selection).contains(&"valgrind"));
        assert_eq!(
            selection.verdict(),
            Ok("left out by --without: the stage counts".to_owned())
        );
    }

    #[test]
    fn a_tool_that_no_chosen_stage_needs_is_not_reported() {
        let selection = parse("lint --without valgrind").unwrap();
        assert_eq!(selection.verdict(), Ok("nothing was left out".to_owned()));
    }

    #[test]
    fn unknown_names_are_refused() {
        assert!(parse("lnit").unwrap_err().contains("no stage lnit"));
        assert!(parse("--without og").unwrap_err().contains("valgrind"));
        assert!(parse("--without").is_err());
        assert!(parse("--withoutgo").is_err());
    }

    #[test]
    fn steps_belong_to_stages() {
        let known = crate::stages::names();
        for need in &NEEDS {
            for (stage, _) in need.steps {
                assert!(known.contains(stage), "{}: {stage}", need.name);
            }
        }
    }
}
