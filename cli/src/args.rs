//! The command line, as a person types it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// A persistent key-value store that reads and writes RocksDB's files.
#[derive(Debug, Parser)]
#[command(
    name = "cairn",
    version,
    max_term_width = 100,
    after_help = "\
First steps:
  cairn load --db stones minerals.csv     fill a database from a file
  cairn scan --db stones                  list what is in it
  cairn get --db stones quartz            look up one key
  cairn verify --db stones                check every checksum
  cairn bench                             measure this machine

A database that RocksDB wrote is opened the same way; nothing has to be converted. Commands that
only read leave the directory as it was, byte for byte.

`cairn help COMMAND` explains a command with examples."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Print the value of a key.
    #[command(after_help = "\
Examples:
  cairn get --db stones quartz
  cairn get --db stones --key-hex 00ff17          a key that is no text
  cairn get --db stones --format hex quartz       a value that is no text

The exit code is 1 if the key has no value.")]
    Get(Get),
    /// Give a key a value.
    #[command(after_help = "\
Examples:
  cairn put --db stones --create quartz SiO2
  cairn put --db stones --key-hex --value-hex 00ff17 cafe
  cairn put --db stones --sync quartz SiO2        survives a power cut, too")]
    Put(Put),
    /// Remove a key, or a range of keys.
    #[command(after_help = "\
Examples:
  cairn delete --db stones quartz
  cairn delete --db stones --range a m            all keys from a up to m, m left out")]
    Delete(Delete),
    /// List keys and values in key order.
    #[command(after_help = "\
Examples:
  cairn scan --db stones --from f --to k          keys from f up to k, k left out
  cairn scan --db stones --prefix gran --keys-only
  cairn scan --db stones --reverse --limit 10     the last ten
  cairn scan --db stones --count
  cairn scan --db stones --all-families --format jsonl
      {\"cf\":\"default\",\"k\":\"67616c656e61\",\"v\":\"506253\"}
  cairn scan --db app --family-options 'events={merge_operator=uint64add}'

Keys and values that are no text are shown with \\x escapes; jsonl shows bytes in hexadecimal.")]
    Scan(Scan),
    /// Fill a database from a file or standard input.
    #[command(after_help = "\
Examples:
  cairn load --db stones minerals.csv             first column key, second value
  cairn load --db stones --header minerals.csv    the first line holds names
  cairn load --db stones events.jsonl             {\"key\":\"a\",\"value\":\"b\"} a line
  sort words | cairn load --db words --format text -
  cairn load --db stones copy.jsonl               what `scan --format jsonl` printed

Formats:
  csv    key,value with \"quotes\" where needed (.csv)
  tsv    key TAB value (.tsv, .tab)
  jsonl  one object a line: {\"key\":..,\"value\":..}, or {\"k\":hex,\"v\":hex} as scan prints (.jsonl, .json, .ndjson)
  text   key, one blank or TAB, the rest of the line is the value (.txt and all others)")]
    Load(Load),
    /// Name the column families of a database.
    #[command(after_help = "\
Examples:
  cairn list-families --db stones
  cairn list-families --db stones --long          with comparators and file counts")]
    ListFamilies(ListFamilies),
    /// Print what the database says of itself.
    #[command(after_help = "\
Examples:
  cairn properties --db stones                    all of them
  cairn properties --db stones rocksdb.estimate-num-keys rocksdb.levelstats")]
    Properties(Properties),
    /// Compact a range of keys, or everything.
    #[command(after_help = "\
Examples:
  cairn compact --db stones
  cairn compact --db stones --from a --to m
  cairn compact --db stones --bottommost          rewrite the last level, too
  cairn compact --db stones --options 'compression=kZSTD' --bottommost")]
    Compact(Compact),
    /// Write what is only in the log to tables.
    #[command(after_help = "\
Example:
  cairn flush --db stones")]
    Flush(Flush),
    /// Make tables that were written elsewhere part of a database.
    #[command(after_help = "\
Examples:
  cairn ingest --db stones new.sst more.sst       copies them; later files are newer
  cairn ingest --db stones --move new.sst         links them and gives their names up
  cairn ingest --db stones --db-files 000012.sst  a table that a database wrote

All files become part of the database, or none. They are newer than what is there. Tables are
written by SstFileWriter (Cairn's or RocksDB's): keys in order, each once.")]
    Ingest(Ingest),
    /// Make a second database with the present state, of links.
    #[command(after_help = "\
Examples:
  cairn checkpoint --db stones --to stones-monday

Costs no space until the two go different ways; on another device the files are copied. The
directory must not exist, and it is there only when it is complete.")]
    Checkpoint(Checkpoint),
    /// Put the tables of a column family into a directory, to be imported elsewhere.
    #[command(after_help = "\
Examples:
  cairn export --db stones --family ores --to ores-export
  cairn import --db other --family ores ores-export")]
    Export(Export),
    /// Create a column family out of exported tables.
    #[command(after_help = "\
Examples:
  cairn import --db other --family ores ores-export
  cairn import --db other --family ores --move ores-export    gives the exported files up")]
    Import(Import),
    /// Make a damaged database whole again.
    #[command(after_help = "\
Examples:
  cairn verify --db stones                                    what is damaged?
  cairn repair --db stones --quarantine all-damaged           take damaged tables out
  cairn repair --db stones --quarantine 000012.sst            take this one out
  cairn repair --db stones                                    also if the MANIFEST is lost

Nothing is deleted: what the database does not use any more is moved to the directory `lost` inside
it. For each table that is taken out the keys are named between which entries may be lost; what was
deleted or overwritten there may have come back. The exit code is 1 if a table was taken out or a
part of a log could not be read.")]
    Repair(Repair),
    /// Delete a database.
    #[command(after_help = "\
Example:
  cairn destroy --db stones --yes

Deletes every file that belongs to the database, and nothing else; the directory goes too if nothing
is left in it. Directories that only the OPTIONS file names are not touched: give them by --options
'wal_dir=...'.")]
    Destroy(Destroy),
    /// Show a file of a database as text.
    #[command(after_help = "\
Examples:
  cairn inspect stones/000012.sst                 footer, properties, blocks
  cairn inspect --entries stones/000012.sst       and every entry
  cairn inspect stones/000013.log                 every record of a WAL
  cairn inspect stones/MANIFEST-000005            the history of the tree
  cairn inspect stones/OPTIONS-000007
  cairn inspect --entries stones/000014.blob

What is damaged is said where it is met, with its offset, and reading goes on where it can.")]
    Inspect(Inspect),
    /// Check every checksum of a database.
    #[command(after_help = "\
Examples:
  cairn verify --db stones
  cairn verify stones/000012.sst                  one file

Reads every file in full: blocks, filters and indexes of tables, records of logs and blob files,
and what the MANIFEST says of them. Each damage is one line with file and offset; the exit code is
then 1.")]
    Verify(Verify),
    /// Measure reads and writes, as RocksDB's db_bench does.
    #[command(after_help = crate::bench::HELP)]
    Bench(Box<crate::bench::Flags>),
}

/// Where the database is and how to open it.
#[derive(Debug, Args)]
pub struct Target {
    /// Directory of the database.
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Options of the database and of all families, in RocksDB's text form.
    #[arg(
        long,
        value_name = "STRING",
        default_value = "",
        hide_default_value = true
    )]
    pub options: String,
    /// Options of one family; may be given several times.
    #[arg(long, value_name = "NAME=STRING")]
    pub family_options: Vec<String>,
    /// Do not start from the options in the database's newest OPTIONS file.
    #[arg(long)]
    pub ignore_options_file: bool,
}

/// One column family.
#[derive(Debug, Args)]
pub struct FamilyName {
    /// Column family.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub family: String,
}

/// How keys on the command line are written.
#[derive(Clone, Copy, Debug, Args)]
pub struct KeyForm {
    /// Keys are given in hexadecimal.
    #[arg(long)]
    pub key_hex: bool,
}

/// `get`.
#[derive(Debug, Args)]
pub struct Get {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub family: FamilyName,
    #[command(flatten)]
    pub keys: KeyForm,
    /// The key.
    pub key: String,
    /// How the value is printed.
    #[arg(long, default_value = "text")]
    pub format: ValueFormat,
}

/// How a single value is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ValueFormat {
    /// With escapes for what is no text, and a line end.
    Text,
    /// In hexadecimal, and a line end.
    Hex,
    /// Its bytes and nothing else.
    Raw,
}

/// `put`.
#[derive(Debug, Args)]
pub struct Put {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub family: FamilyName,
    #[command(flatten)]
    pub keys: KeyForm,
    /// The value is given in hexadecimal.
    #[arg(long)]
    pub value_hex: bool,
    /// Create the database if it does not exist.
    #[arg(long)]
    pub create: bool,
    /// Return only when the write is on the device.
    #[arg(long)]
    pub sync: bool,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
}

/// `delete`.
#[derive(Debug, Args)]
pub struct Delete {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub family: FamilyName,
    #[command(flatten)]
    pub keys: KeyForm,
    /// Remove all keys from KEY up to END, which stays.
    #[arg(long, requires = "end")]
    pub range: bool,
    /// Return only when the write is on the device.
    #[arg(long)]
    pub sync: bool,
    /// The key.
    pub key: String,
    /// The end of the range.
    #[arg(requires = "range")]
    pub end: Option<String>,
}

/// `scan`.
#[derive(Debug, Args)]
pub struct Scan {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub family: FamilyName,
    #[command(flatten)]
    pub keys: KeyForm,
    /// All families, one after the other, in the order of their creation.
    #[arg(long, conflicts_with = "family")]
    pub all_families: bool,
    /// The first key.
    #[arg(long, value_name = "KEY")]
    pub from: Option<String>,
    /// The key to end before.
    #[arg(long, value_name = "KEY")]
    pub to: Option<String>,
    /// Only keys that begin so.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    pub prefix: Option<String>,
    /// From the last key to the first.
    #[arg(long)]
    pub reverse: bool,
    /// At most so many entries of each family.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// No values.
    #[arg(long)]
    pub keys_only: bool,
    /// Only how many there are.
    #[arg(long)]
    pub count: bool,
    /// How entries are printed.
    #[arg(long, default_value = "text")]
    pub format: EntryFormat,
}

/// How entries are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EntryFormat {
    /// `key : value`, with escapes for what is no text.
    Text,
    /// `key : value` in hexadecimal.
    Hex,
    /// One JSON object a line, bytes in hexadecimal.
    Jsonl,
}

/// `load`.
#[derive(Debug, Args)]
pub struct Load {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub family: FamilyName,
    /// The file; `-` for standard input.
    pub file: PathBuf,
    /// What the file holds; taken from its name if not given.
    #[arg(long)]
    pub format: Option<crate::load::Format>,
    /// The first line of a CSV or TSV file holds names.
    #[arg(long)]
    pub header: bool,
    /// Entries written at once.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub batch: usize,
    /// Do not log: faster, and lost if the machine stops before the end.
    #[arg(long)]
    pub disable_wal: bool,
}

/// `list-families`.
#[derive(Debug, Args)]
pub struct ListFamilies {
    /// Directory of the database.
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// With ids, comparators, and the number and bytes of tables.
    #[arg(long)]
    pub long: bool,
}

/// `properties`.
#[derive(Debug, Args)]
pub struct Properties {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub family: FamilyName,
    /// Names; all that have an answer if none is given.
    pub names: Vec<String>,
}

/// `compact`.
#[derive(Debug, Args)]
pub struct Compact {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub family: FamilyName,
    #[command(flatten)]
    pub keys: KeyForm,
    /// All families.
    #[arg(long, conflicts_with = "family")]
    pub all_families: bool,
    /// The first key.
    #[arg(long, value_name = "KEY")]
    pub from: Option<String>,
    /// The last key.
    #[arg(long, value_name = "KEY")]
    pub to: Option<String>,
    /// Rewrite the bottommost level, too.
    #[arg(long)]
    pub bottommost: bool,
}

/// `flush`.
#[derive(Debug, Args)]
pub struct Flush {
    #[command(flatten)]
    pub target: Target,
}

/// `ingest`.
#[derive(Debug, Args)]
pub struct Ingest {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub family: FamilyName,
    /// Link the files and give their names up.
    #[arg(long = "move", conflicts_with = "link")]
    pub moved: bool,
    /// Link the files and leave their names.
    #[arg(long)]
    pub link: bool,
    /// Put them below everything: keys that exist keep their values.
    #[arg(long)]
    pub behind: bool,
    /// Take tables that a database wrote, with the sequence numbers they have.
    #[arg(long)]
    pub db_files: bool,
    /// Check every block first.
    #[arg(long)]
    pub verify: bool,
    /// Create the database if it does not exist.
    #[arg(long)]
    pub create: bool,
    /// The tables.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

/// `checkpoint`.
#[derive(Debug, Args)]
pub struct Checkpoint {
    #[command(flatten)]
    pub target: Target,
    /// Directory of the copy; it must not exist.
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
}

/// `export`.
#[derive(Debug, Args)]
pub struct Export {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub family: FamilyName,
    /// Directory for the tables; it must not exist.
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
}

/// `import`.
#[derive(Debug, Args)]
pub struct Import {
    #[command(flatten)]
    pub target: Target,
    /// Column family to create.
    #[arg(long, value_name = "NAME")]
    pub family: String,
    /// Link the files and give their names up.
    #[arg(long = "move")]
    pub moved: bool,
    /// Create the database if it does not exist.
    #[arg(long)]
    pub create: bool,
    /// Directories that `cairn export` has made.
    #[arg(required = true)]
    pub exports: Vec<PathBuf>,
}

/// `repair`.
#[derive(Debug, Args)]
pub struct Repair {
    #[command(flatten)]
    pub target: Target,
    /// Only take tables out: `all-damaged`, or the name of a table. May be given several times.
    #[arg(long, value_name = "FILE|all-damaged")]
    pub quarantine: Vec<String>,
}

/// `destroy`.
#[derive(Debug, Args)]
pub struct Destroy {
    /// Directory of the database.
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Options that say where else its files lie, in RocksDB's text form.
    #[arg(
        long,
        value_name = "STRING",
        default_value = "",
        hide_default_value = true
    )]
    pub options: String,
    /// Do it.
    #[arg(long)]
    pub yes: bool,
}

/// `inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// The file; its name says what it is.
    pub file: PathBuf,
    /// Show every entry of tables and blob files.
    #[arg(long)]
    pub entries: bool,
    /// Show keys and values in hexadecimal.
    #[arg(long)]
    pub hex: bool,
    /// Bytes shown of each key and value.
    #[arg(long, value_name = "BYTES", default_value_t = 80)]
    pub width: usize,
}

/// `verify`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true).args(["db", "files"]))]
pub struct Verify {
    /// Directory of the database.
    #[arg(long, value_name = "DIR")]
    pub db: Option<PathBuf>,
    /// Files.
    pub files: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_commands_are_consistent() {
        Cli::command().debug_assert();
    }
}
