//! The commands in the documentation: each is run, and its output is compared with the page.
//!
//! A *session* is a block that is indented by four spaces and starts with `$ `. Its commands run in sequence
//! in the page's own directory, in one shell, so that variables are kept; each section starts in that
//! directory:
//!
//! ```text
//!     $ cairn get --db stones quartz         a command; a line ending in \ continues on the next
//!     SiO2                                   its output; `...` matches any text, on its own line any lines
//! ```
//!
//! A block after a paragraph that ends with a file name in backticks and a colon is the content of that file.
//! The exit status of a command is 0, or the one in a comment after it: `# ends with 1`.
//!
//! [`ELSEWHERE`] lists the commands that are not run, with reasons. A section (from one heading to the next)
//! that needs a missing tool is skipped.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::commands::{fresh, read, target};
use crate::rocksdb_crate::{REPLACEMENT, StandIn};
use crate::tool_requirements::Selection;

/// Commands that are not run: how each begins, and the reason.
const ELSEWHERE: [(&str, &str); 7] = [
    (
        "cargo build",
        "the stages have built the same crates without optimization",
    ),
    (
        "cargo xtask install",
        "the stage has installed the same build into a directory of its own",
    ),
    ("sudo ldconfig", "LD_LIBRARY_PATH stands for it"),
    ("cargo xtask test", "it runs these commands"),
    (
        "cargo run --release -- bench",
        "a build with optimization and minutes of load",
    ),
    ("cargo xtask reference", "an hour of one core"),
    (
        "cairn bench --engines",
        "it compares with what `cargo xtask reference` has built; tests/interop has short comparisons",
    ),
];

/// First words of commands: a block that begins with one of them is a session, and its commands must start
/// with `$ `.
const PROGRAMS: [&str; 9] = [
    "cairn",
    "cargo",
    "cc",
    "cmake",
    "go",
    "pkg-config",
    "printf",
    "python3",
    "sudo",
];

/// Programs in sessions that may be missing on the machine, and the need that provides them.
const TOOLS: [(&str, &str); 6] = [
    ("ldb", "ldb"),
    ("pkg-config", "pkg-config"),
    ("cmake", "cmake"),
    ("go", "go"),
    ("python3", "python"),
    ("cargo run --quiet", "rocksdb-crate"),
];

/// The directories that replace those named in pages.
pub struct Stand {
    /// The directory with the command `cairn`.
    pub programs: PathBuf,
    /// The prefix of the installation, replacing `/usr/local`.
    pub prefix: PathBuf,
    /// The directory of the libraries, replacing `/usr/local/lib`.
    pub lib: PathBuf,
}

/// Runs the sessions of the README and of every page of the guide. Programs over the crate `rocksdb` use `stand_in`.
pub fn run(
    root: &Path,
    stand: &Stand,
    stand_in: Option<&StandIn>,
    selection: &Selection,
) -> Result<(), String> {
    let mut unused: Vec<&str> = ELSEWHERE.iter().map(|(command, _)| *command).collect();
    let mut failures = Vec::new();
    let works = std::env::temp_dir().join(format!("cairn-pages-{}", std::process::id()));
    for page in pages(root)? {
        let name = page
            .strip_prefix(root)
            .unwrap_or(&page)
            .display()
            .to_string();
        let blocks = blocks(&read(&page)?);
        for (line, problem) in misplaced(&blocks) {
            failures.push(format!("{name}:{line}: {problem}"));
        }
        unused.retain(|start| !steps(&blocks).any(|step| step.command.starts_with(start)));
        let left_out = |section: usize| absent(&blocks, section, selection);
        let here: Vec<&Block> = blocks
            .iter()
            .filter(|block| left_out(block.section).is_none())
            .collect();
        let page = Page {
            stand,
            stand_in,
            work: works.join(name.replace('/', "-")),
        };
        let started = Instant::now();
        let count = page.run(&here, &mut |line, problem| {
            failures.push(format!("{name}:{line}: {problem}"));
        })?;
        let seconds = started.elapsed().as_secs_f64();
        println!("{name}: {count} commands, {seconds:.0} s");
        let mut reasons: Vec<_> = blocks.iter().filter_map(|b| left_out(b.section)).collect();
        reasons.dedup();
        for need in reasons {
            println!("{name}: a section is left out (no {need})");
        }
    }
    fs::remove_dir_all(&works).map_err(|error| format!("{}: {error}", works.display()))?;
    for start in unused {
        failures.push(format!(
            "xtask/src/pages.rs: no page has a command that begins with `{start}`"
        ));
    }
    match failures.is_empty() {
        true => Ok(()),
        false => Err(failures.join("\n")),
    }
}

/// The pages with commands.
fn pages(root: &Path) -> Result<Vec<PathBuf>, String> {
    let folder = root.join("docs/guide");
    let listed = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut pages: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages.insert(0, root.join("README.md"));
    Ok(pages)
}

/// An indented block of a page.
#[derive(Debug, PartialEq)]
struct Block {
    /// The number of its first line.
    line: usize,
    /// The number of headings above it.
    section: usize,
    /// The name of the file whose content it is.
    file: Option<String>,
    /// Its lines, without their indentation.
    lines: Vec<String>,
}

/// A command of a session and its output.
#[derive(Debug, PartialEq)]
struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
    /// The exit status.
    status: String,
}

/// The indented blocks of a page.
fn blocks(text: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut section, mut above, mut inside) = (0, "", false);
    for (number, line) in text.lines().enumerate() {
        match line.strip_prefix("    ") {
            Some(code) if inside || (above.is_empty() && !code.trim().is_empty()) => {
                if !inside {
                    blocks.push(Block {
                        line: number + 1,
                        section,
                        file: None,
                        lines: Vec::new(),
                    });
                }
                inside = true;
                if let Some(block) = blocks.last_mut() {
                    block.lines.push(code.to_owned());
                }
            }
            // A blank line may be part of a block.
            _ if inside && line.is_empty() => {
                if let Some(block) = blocks.last_mut() {
                    block.lines.push(String::new());
                }
            }
            _ => {
                inside = false;
                section += usize::from(line.starts_with('#'));
            }
        }
        if !inside {
            above = line;
        } else {
            above = "";
        }
    }
    for block in &mut blocks {
        while block.lines.last().is_some_and(String::is_empty) {
            block.lines.pop();
        }
        block.file = file_name(text, block.line);
    }
    blocks
}

/// The file name in backticks at the end of the paragraph above `line`, if a colon follows it.
fn file_name(text: &str, line: usize) -> Option<String> {
    let mut above = text.lines().take(line - 1).collect::<Vec<_>>();
    while above.last().is_some_and(|line| line.is_empty()) {
        above.pop();
    }
    let (_, name) = above.pop()?.strip_suffix("`:")?.rsplit_once('`')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    (name.contains('.') && name.chars().all(plain)).then(|| name.to_owned())
}

/// Commands that would not run: those without `$ `, or after the lines of a file.
fn misplaced(blocks: &[Block]) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    for block in blocks {
        let first = block.lines.first().map_or("", String::as_str);
        let program = first.split(' ').next().unwrap_or_default();
        if block.file.is_none() && PROGRAMS.contains(&program) {
            problems.push((block.line, "commands begin with `$ `".to_owned()));
        }
        let is_command = |line: &String| line.starts_with("$ ");
        if !first.starts_with("$ ") && block.lines.iter().any(is_command) {
            problems.push((block.line, "a session is a block of its own".to_owned()));
        }
    }
    problems
}

/// The commands of a session.
fn session(block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    if !block
        .lines
        .first()
        .is_some_and(|line| line.starts_with("$ "))
    {
        return steps;
    }
    let mut goes_on = false;
    for (number, line) in block.lines.iter().enumerate() {
        match (goes_on, line.strip_prefix("$ ")) {
            (false, Some(command)) => steps.push(Step {
                line: block.line + number,
                command: command.to_owned(),
                expected: Vec::new(),
                status: String::new(),
            }),
            (true, _) => {
                if let Some(step) = steps.last_mut() {
                    let _ = write!(step.command, "\n{line}");
                }
            }
            (false, None) => {
                if let Some(step) = steps.last_mut() {
                    step.expected.push(line.clone());
                }
                continue;
            }
        }
        goes_on = line.ends_with('\\');
    }
    for step in &mut steps {
        let stated = step.command.rsplit_once("# ends with ");
        step.status = stated.map_or("0", |(_, status)| status.trim()).to_owned();
        while step.expected.last().is_some_and(|line| line.is_empty()) {
            step.expected.pop();
        }
    }
    steps
}

fn steps(blocks: &[Block]) -> impl Iterator<Item = Step> + '_ {
    blocks.iter().flat_map(session)
}

/// The missing tool that a section of a page needs.
fn absent(blocks: &[Block], section: usize, selection: &Selection) -> Option<&'static str> {
    let here = blocks.iter().filter(|block| block.section == section);
    let commands: Vec<Step> = here.flat_map(session).collect();
    let missing = TOOLS.iter().filter(|(_, need)| !selection.has(need));
    let uses = |program: &str| {
        let word = format!(" {program} ");
        commands
            .iter()
            .any(|step| format!(" {} ", step.command).contains(&word))
    };
    let mut missing = missing.filter(|(program, _)| uses(program));
    missing.next().map(|(_, need)| *need)
}

/// A page and the directories in which its commands run.
struct Page<'a> {
    stand: &'a Stand,
    stand_in: Option<&'a StandIn>,
    work: PathBuf,
}

/// Separates the outputs of two commands.
const MARK: &str = "\u{1}cairn-pages\u{1}";

impl Page<'_> {
    /// Runs the sessions of `blocks`, reports differences from the page, and returns the number of commands.
    fn run(
        &self,
        blocks: &[&Block],
        report: &mut dyn FnMut(usize, String),
    ) -> Result<usize, String> {
        fresh(&self.work)?;
        let mut script = String::from("shopt -s expand_aliases\nexec 2>&1\n");
        let mut run = Vec::new();
        let mut section = 0;
        for block in blocks {
            if section != block.section {
                section = block.section;
                let _ = writeln!(script, "cd '{}'", self.work.display());
            }
            if let Some(file) = &block.file {
                self.write(file, &block.lines)?;
                continue;
            }
            for step in session(block) {
                if ELSEWHERE
                    .iter()
                    .any(|(start, _)| step.command.starts_with(start))
                {
                    continue;
                }
                let command = self.here(&step.command);
                let _ = write!(script, "{command}\nprintf '\\n{MARK}%d\\n' $?\n");
                run.push(step);
            }
        }
        let printed = self.shell(&script)?;
        let mut outputs = printed.split(MARK);
        let mut output = outputs.next().unwrap_or_default();
        for step in &run {
            let Some(rest) = outputs.next() else {
                let command = &step.command;
                report(
                    step.line,
                    format!("the shell ended within `{command}`: {output}"),
                );
                break;
            };
            let (status, next) = rest.split_once('\n').unwrap_or((rest, ""));
            if let Err(problem) = self.judge(step, output, status) {
                report(step.line, problem);
            }
            output = next;
        }
        Ok(run.len())
    }

    fn judge(&self, step: &Step, output: &str, status: &str) -> Result<(), String> {
        let output = self.there(output.strip_suffix('\n').unwrap_or(output));
        let command = &step.command;
        if status != step.status {
            return Err(format!("`{command}` ended with {status}: {output}"));
        }
        let found: Vec<&str> = output.lines().map(str::trim_end).collect();
        let expected: Vec<&str> = step.expected.iter().map(|line| line.trim_end()).collect();
        // A page may omit the output of a command, but not show a different one.
        match expected.is_empty() || lines_match(&expected, &found) {
            true => Ok(()),
            false => Err(format!("`{command}` printed\n{output}")),
        }
    }

    fn shell(&self, script: &str) -> Result<String, String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let stand = self.stand;
        let mut shell = Command::new("bash");
        shell
            .args(["--noprofile", "--norc", "-s"])
            .current_dir(&self.work)
            .env("PATH", format!("{}:{path}", stand.programs.display()))
            .env("LD_LIBRARY_PATH", &stand.lib)
            .env("PKG_CONFIG_PATH", stand.lib.join("pkgconfig"))
            .env("CMAKE_PREFIX_PATH", stand.lib.join("cmake"));
        if let Some(stand_in) = self.stand_in {
            stand_in.prepare(&mut shell);
        }
        let file = self.work.with_extension("sh");
        fs::write(&file, script).map_err(|error| format!("{}: {error}", file.display()))?;
        let input =
            fs::File::open(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let done = shell.stdin(Stdio::from(input)).output();
        let done = done.map_err(|error| format!("bash: {error}"))?;
        Ok(String::from_utf8_lossy(&done.stdout).into_owned())
    }

    fn write(&self, name: &str, lines: &[String]) -> Result<(), String> {
        let path = self.work.join(name);
        let folder = path.parent().ok_or("a file lies in a directory")?;
        let failed = |error| format!("{}: {error}", path.display());
        fs::create_dir_all(folder).map_err(failed)?;
        fs::write(&path, self.here(&(lines.join("\n") + "\n"))).map_err(failed)
    }

    /// The text of a page with its directories replaced by those of this machine.
    fn here(&self, text: &str) -> String {
        self.places()
            .iter()
            .fold(text.to_owned(), |text, (page, here)| {
                text.replace(page.as_str(), here)
            })
    }

    /// The output of a command with its directories replaced by those named in pages.
    fn there(&self, text: &str) -> String {
        let places = self.places();
        let known = places.iter();
        known.fold(text.to_owned(), |text, (page, here)| {
            text.replace(here.as_str(), page)
        })
    }

    fn places(&self) -> Vec<(String, String)> {
        let replacement = self.stand_in.map(|stand_in| {
            let page = format!("/path/to/cairn/{REPLACEMENT}");
            (page, &stand_in.directory)
        });
        let others = [
            ("/usr/local/lib".to_owned(), &self.stand.lib),
            ("/usr/local".to_owned(), &self.stand.prefix),
        ];
        let all = replacement.into_iter().chain(others);
        all.map(|(page, here)| (page, here.display().to_string()))
            .collect()
    }
}

/// Builds the programs that the pages need and runs them: `cargo xtask pages [--without NAME]...`.
pub fn alone(root: &Path, words: &[String]) -> Result<(), String> {
    let selection = Selection::parse(words, &["clients"])?;
    crate::commands::cargo(root, &["build", "--locked", "-p", "cairn-cli", "--bins"])?;
    let prefix = target(root).join("pages-installed");
    let place = crate::install::Place {
        prefix: prefix.clone(),
        libdir: "lib".to_owned(),
        staging: None,
        debug: true,
    };
    crate::install::install(root, &place)?;
    let stand = Stand {
        programs: target(root).join("debug"),
        lib: prefix.join("lib"),
        prefix,
    };
    let stand_in = StandIn::write(root, &selection)?;
    run(root, &stand, stand_in.as_ref(), &selection)
}

/// True if the lines of a page match those of an output. The line `...` matches any lines.
fn lines_match(page: &[&str], output: &[&str]) -> bool {
    match page.split_first() {
        None => output.is_empty(),
        Some((&"...", rest)) => (0..=output.len()).any(|skip| lines_match(rest, &output[skip..])),
        Some((line, rest)) => output
            .split_first()
            .is_some_and(|(first, others)| line_matches(line, first) && lines_match(rest, others)),
    }
}

/// True if a line of a page matches one of an output. `...` matches any text.
fn line_matches(page: &str, output: &str) -> bool {
    let Some((before, rest)) = page.split_once("...") else {
        return page == output;
    };
    let Some(output) = output.strip_prefix(before) else {
        return false;
    };
    (0..=output.len())
        .filter(|at| output.is_char_boundary(*at))
        .any(|at| line_matches(rest, &output[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A page\n\nText.\n\n    $ printf 'a\\nb\\n' \\\n        | cat\n    a\n    ...\n    $ true\n\n\
                        ## Files\n\nThe whole of `a/main.c`:\n\n    int main(void)\n\n    {}\n\nText\n    not a block\n";

    #[test]
    fn a_page_has_sessions_and_files() {
        let blocks = blocks(PAGE);
        assert_eq!(blocks.len(), 2);
        assert_eq!((blocks[0].line, blocks[0].section), (5, 1));
        assert_eq!(blocks[1].file.as_deref(), Some("a/main.c"));
        assert_eq!(blocks[1].lines, ["int main(void)", "", "{}"]);
        let steps = session(&blocks[0]);
        assert_eq!(steps[0].command, "printf 'a\\nb\\n' \\\n    | cat");
        assert_eq!(steps[0].expected, ["a", "..."]);
        assert_eq!((steps[1].line, steps[1].command.as_str()), (9, "true"));
        assert!(session(&blocks[1]).is_empty());
    }

    #[test]
    fn dots_match_text_and_lines() {
        assert!(lines_match(&["a", "...", "z"], &["a", "b", "c", "z"]));
        assert!(lines_match(&["...", "took ... ms"], &["took 3 ms"]));
        assert!(!lines_match(&["a"], &["a", "b"]));
        assert!(!line_matches("took ... ms", "took 3 s"));
    }

    #[test]
    fn commands_without_a_prompt_are_reported() {
        let found = misplaced(&blocks("Text\n\n    cairn get x\n"));
        assert_eq!(found.len(), 1);
        let found = misplaced(&blocks("A `main.c`:\n\n    int x;\n\n    $ cc main.c\n"));
        assert_eq!(found.len(), 1);
    }
}
