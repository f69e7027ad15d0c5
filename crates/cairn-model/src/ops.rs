//! Operations, and the text of them: one a line, and the file is all that a run needs.
//!
//! ```text
//! options merge=uint64add db=[] family=[write_buffer_size=4096;] table=[block_size=256;]
//! put default k0042 v:120:7 sync
//! batch put default k1 u:5 ; delete a k2 ; deleterange a k1 k9 ; sync
//! get a k0042 snap=1
//! scan a back from=k0050 lower=k0010 upper=k0090 limit=7
//! snapshot 1
//! reopen
//! ```
//!
//! A value is `v:LENGTH:SEED`, letters that follow from the seed, or `u:NUMBER`, eight bytes,
//! little-endian.

use std::fmt;
use std::str::FromStr;

use cairn_sim::Rng;
use cairn_types::{Error, Result};

use crate::engine::OptionSet;

/// A value or operand, small as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// So many letters that follow from the seed.
    Text {
        /// How many.
        len: usize,
        /// What they follow from.
        seed: u64,
    },
    /// A number, in eight little-endian bytes.
    Number(u64),
}

impl Value {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Value::Number(number) => number.to_le_bytes().to_vec(),
            Value::Text { len, seed } => {
                let mut rng = Rng::new(*seed);
                (0..*len).map(|_| b'a' + rng.below(26) as u8).collect()
            }
        }
    }
}

/// What a write does to its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Gives it a value.
    Put(Value),
    /// Stacks an operand on it.
    Merge(Value),
    /// Removes it.
    Delete,
    /// Removes it, which was put once.
    SingleDelete,
    /// Removes the keys from it up to, not including, this one.
    DeleteRange(Vec<u8>),
}

/// One entry of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The family's name.
    pub family: String,
    /// The key.
    pub key: Vec<u8>,
    /// What happens to it.
    pub change: Change,
}

/// Which way an iterator goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From `from` (or the first key) towards greater keys.
    #[default]
    Forward,
    /// From `from` (or the last key) towards smaller keys.
    Backward,
}

/// A walk of an iterator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Which way.
    pub direction: Direction,
    /// Where it is positioned first: at or after this key going forward, at or before it going
    /// backward.
    pub from: Option<Vec<u8>>,
    /// The iterator's lower bound.
    pub lower: Option<Vec<u8>>,
    /// The iterator's upper bound, not included.
    pub upper: Option<Vec<u8>>,
    /// After how many entries to stop.
    pub limit: usize,
}

impl Scan {
    /// Everything, in this direction.
    #[must_use]
    pub fn all(direction: Direction) -> Scan {
        Scan {
            direction,
            from: None,
            lower: None,
            upper: None,
            limit: usize::MAX,
        }
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "fields that are named like what they hold")]
pub enum Op {
    /// A batch, of one write or several.
    Write { writes: Vec<Write>, sync: bool },
    /// Reads a key, now or in a snapshot.
    Get {
        family: String,
        key: Vec<u8>,
        snapshot: Option<u64>,
    },
    /// Walks an iterator.
    Scan {
        family: String,
        scan: Scan,
        snapshot: Option<u64>,
    },
    /// Takes a snapshot and calls it by this number.
    Snapshot(u64),
    /// Gives a snapshot back.
    Release(u64),
    /// Flushes a family.
    Flush(String),
    /// Compacts a range of a family.
    Compact {
        family: String,
        start: Option<Vec<u8>>,
        end: Option<Vec<u8>>,
    },
    /// Syncs the WAL.
    SyncWal,
    /// Creates a family.
    CreateFamily(String),
    /// Drops a family.
    DropFamily(String),
    /// Lets up to so many background jobs run.
    Work(usize),
    /// Closes and opens again, with other options if some are given.
    Reopen(Option<OptionSet>),
    /// Compares everything with the model.
    Check,
}

/// Operations, and the options of the first open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// What the database is opened with.
    pub options: OptionSet,
    /// What happens then.
    pub ops: Vec<Op>,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text { len, seed } => write!(f, "v:{len}:{seed}"),
            Value::Number(number) => write!(f, "u:{number}"),
        }
    }
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Write {
            family,
            key,
            change,
        } = self;
        let key = text(key);
        match change {
            Change::Put(value) => write!(f, "put {family} {key} {value}"),
            Change::Merge(value) => write!(f, "merge {family} {key} {value}"),
            Change::Delete => write!(f, "delete {family} {key}"),
            Change::SingleDelete => write!(f, "singledelete {family} {key}"),
            Change::DeleteRange(end) => write!(f, "deleterange {family} {key} {}", text(end)),
        }
    }
}

impl fmt::Display for OptionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OptionSet {
            db,
            family,
            table,
            merge,
            unlogged,
        } = self;
        let unlogged = if *unlogged { " unlogged" } else { "" };
        write!(
            f,
            "merge={merge}{unlogged} db=[{db}] family=[{family}] table=[{table}]"
        )
    }
}

/// ` name=value` for each that is given.
struct Named<'n>(&'n [(&'n str, Option<String>)]);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in self.0 {
            if let Some(value) = value {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |key: &Option<Vec<u8>>| key.as_deref().map(text);
        let named = |snapshot: &Option<u64>| snapshot.map(|number| number.to_string());
        match self {
            Op::Write { writes, sync } => {
                let sync = if *sync { " sync" } else { "" };
                match writes.as_slice() {
                    [one] => write!(f, "{one}{sync}"),
                    writes => {
                        let parts: Vec<String> = writes.iter().map(Write::to_string).collect();
                        let sync = if sync.is_empty() { "" } else { " ; sync" };
                        write!(f, "batch {}{sync}", parts.join(" ; "))
                    }
                }
            }
            Op::Get {
                family,
                key,
                snapshot,
            } => write!(
                f,
                "get {family} {}{}",
                text(key),
                Named(&[("snap", named(snapshot))])
            ),
            Op::Scan {
                family,
                scan,
                snapshot,
            } => {
                let back = match scan.direction {
                    Direction::Forward => "",
                    Direction::Backward => " back",
                };
                let limit = (scan.limit != usize::MAX).then(|| scan.limit.to_string());
                let options = [
                    ("from", shown(&scan.from)),
                    ("lower", shown(&scan.lower)),
                    ("upper", shown(&scan.upper)),
                    ("limit", limit),
                    ("snap", named(snapshot)),
                ];
                write!(f, "scan {family}{back}{}", Named(&options))
            }
            Op::Snapshot(number) => write!(f, "snapshot {number}"),
            Op::Release(number) => write!(f, "release {number}"),
            Op::Flush(family) => write!(f, "flush {family}"),
            Op::Compact { family, start, end } => {
                let bounds = [("start", shown(start)), ("end", shown(end))];
                write!(f, "compact {family}{}", Named(&bounds))
            }
            Op::SyncWal => f.write_str("syncwal"),
            Op::CreateFamily(family) => write!(f, "createfamily {family}"),
            Op::DropFamily(family) => write!(f, "dropfamily {family}"),
            Op::Work(jobs) => write!(f, "work {jobs}"),
            Op::Reopen(None) => f.write_str("reopen"),
            Op::Reopen(Some(options)) => write!(f, "reopen {options}"),
            Op::Check => f.write_str("check"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "options {}", self.options)?;
        self.ops.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}

fn wrong(what: &str, line: &str) -> Error {
    Error::invalid_argument(format!("{what} in {line:?}"))
}

impl FromStr for Value {
    type Err = Error;

    fn from_str(text: &str) -> Result<Value> {
        let number = |part: Option<&str>| {
            let parsed = part.and_then(|part| part.parse::<u64>().ok());
            parsed.ok_or_else(|| wrong("no number", text))
        };
        let mut parts = text.split(':');
        match parts.next() {
            Some("u") => Ok(Value::Number(number(parts.next())?)),
            Some("v") => Ok(Value::Text {
                len: number(parts.next())?.min(1 << 24) as usize,
                seed: number(parts.next())?,
            }),
            _ => Err(wrong("no value", text)),
        }
    }
}

impl FromStr for Write {
    type Err = Error;

    fn from_str(text: &str) -> Result<Write> {
        let mut words = text.split_whitespace();
        let mut word = || words.next().ok_or_else(|| wrong("a word is missing", text));
        let kind = word()?;
        let (family, key) = (word()?.to_owned(), word()?.as_bytes().to_vec());
        let change = match kind {
            "put" => Change::Put(word()?.parse()?),
            "merge" => Change::Merge(word()?.parse()?),
            "delete" => Change::Delete,
            "singledelete" => Change::SingleDelete,
            "deleterange" => Change::DeleteRange(word()?.as_bytes().to_vec()),
            _ => return Err(wrong("an unknown operation", text)),
        };
        Ok(Write {
            family,
            key,
            change,
        })
    }
}

impl FromStr for OptionSet {
    type Err = Error;

    fn from_str(text: &str) -> Result<OptionSet> {
        let part = |name: &str| {
            let rest = text.split_once(&format!("{name}=["))?.1;
            Some(rest.split_once(']')?.0.to_owned())
        };
        let group = |name| part(name).ok_or_else(|| wrong("options are missing", text));
        let merge = text
            .split_whitespace()
            .find_map(|word| word.strip_prefix("merge="))
            .ok_or_else(|| wrong("no merge operator", text))?;
        Ok(OptionSet {
            db: group("db")?,
            family: group("family")?,
            table: group("table")?,
            merge: merge.parse()?,
            unlogged: text.split_whitespace().any(|word| word == "unlogged"),
        })
    }
}

impl FromStr for Op {
    type Err = Error;

    fn from_str(line: &str) -> Result<Op> {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = rest.split_whitespace();
        let first = words.next().map(str::to_owned);
        let first = || {
            first
                .clone()
                .ok_or_else(|| wrong("a word is missing", line))
        };
        let option = |name: &str| {
            let mut all = rest.split_whitespace();
            all.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let key = |name: &str| option(name).map(|text| text.as_bytes().to_vec());
        let parsed = |text: &str| text.parse().map_err(|_| wrong("no number", line));
        let snapshot = option("snap").map(parsed).transpose()?;
        Ok(match kind {
            "put" | "merge" | "delete" | "singledelete" | "deleterange" => Op::Write {
                writes: vec![line.strip_suffix(" sync").unwrap_or(line).parse()?],
                sync: line.ends_with(" sync"),
            },
            "batch" => {
                let body = rest.strip_suffix(" ; sync");
                let parts = body.unwrap_or(rest).split(" ; ");
                Op::Write {
                    writes: parts.map(str::parse).collect::<Result<_>>()?,
                    sync: body.is_some(),
                }
            }
            "get" => Op::Get {
                family: first()?,
                key: words
                    .next()
                    .ok_or_else(|| wrong("no key", line))?
                    .as_bytes()
                    .to_vec(),
                snapshot,
            },
            "scan" => Op::Scan {
                family: first()?,
                scan: Scan {
                    direction: match words.any(|word| word == "back") {
                        true => Direction::Backward,
                        false => Direction::Forward,
                    },
                    from: key("from"),
                    lower: key("lower"),
                    upper: key("upper"),
                    limit: match option("limit") {
                        Some(text) => parsed(text)? as usize,
                        None => usize::MAX,
                    },
                },
                snapshot,
            },
            "snapshot" => Op::Snapshot(parsed(&first()?)?),
            "release" => Op::Release(parsed(&first()?)?),
            "flush" => Op::Flush(first()?),
            "compact" => Op::Compact {
                family: first()?,
                start: key("start"),
                end: key("end"),
            },
            "syncwal" => Op::SyncWal,
            "createfamily" => Op::CreateFamily(first()?),
            "dropfamily" => Op::DropFamily(first()?),
            "work" => Op::Work(parsed(&first()?)? as usize),
            "reopen" if rest.is_empty() => Op::Reopen(None),
            "reopen" => Op::Reopen(Some(rest.parse()?)),
            "check" => Op::Check,
            _ => return Err(wrong("an unknown operation", line)),
        })
    }
}

impl FromStr for Script {
    type Err = Error;

    fn from_str(text: &str) -> Result<Script> {
        let mut script = Script::default();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.strip_prefix("options ") {
                Some(options) => script.options = options.parse()?,
                None => script.ops.push(line.parse()?),
            }
        }
        Ok(script)
    }
}
