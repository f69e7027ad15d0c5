//! Command line arguments.

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
    /// The command.
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
  cairn get --db stones --key-hex 00ff17          a binary key
  cairn get --db stones --format hex quartz       a binary value

The exit code is 1 if the key does not exist.")]
    Get(Get),
    /// Set the value of a key.
    #[command(after_help = "\
Examples:
  cairn put --db stones --create quartz SiO2
  cairn put --db stones --key-hex --value-hex 00ff17 cafe
  cairn put --db stones --sync quartz SiO2        also survives a power failure")]
    Put(Put),
    /// Delete a key or a range of keys.
    #[command(after_help = "\
Examples:
  cairn delete --db stones quartz
  cairn delete --db stones --range a m            all keys from a up to, but excluding, m")]
    Delete(Delete),
    /// List keys and values in key order.
    #[command(after_help = "\
Examples:
  cairn scan --db stones --from f --to k          keys from f up to, but excluding, k
  cairn scan --db stones --prefix gran --keys-only
  cairn scan --db stones --reverse --limit 10     the last ten
  cairn scan --db stones --count
  cairn scan --db stones --all-families --format jsonl
      {\"cf\":\"default\",\"k\":\"67616c656e61\",\"v\":\"506253\"}
  cairn scan --db app --family-options 'events={merge_operator=uint64add}'

Bytes that are not text are shown as \\x escapes; jsonl prints all bytes in hexadecimal.")]
    Scan(Scan),
    /// Load entries from a file or standard input.
    #[command(after_help = "\
Examples:
  cairn load --db stones minerals.csv             first column is the key, second the value
  cairn load --db stones --header minerals.csv    the first line has the column names
  cairn load --db stones events.jsonl             one {\"key\":\"a\",\"value\":\"b\"} per line
  sort words | cairn load --db words --format text -
  cairn load --db stones copy.jsonl               output of `scan --format jsonl`

Formats:
  csv    key,value with \"quotes\" where needed (.csv)
  tsv    key TAB value (.tsv, .tab)
  jsonl  one object per line: {\"key\":..,\"value\":..}, or {\"k\":hex,\"v\":hex} as scan prints (.jsonl, .json, .ndjson)
  text   key, a space or TAB, and the value up to the end of the line (.txt and all others)")]
    Load(Load),
    /// List the column families of a database.
    #[command(after_help = "\
Examples:
  cairn list-families --db stones
  cairn list-families --db stones --long          with comparators and file counts")]
    ListFamilies(ListFamilies),
    /// Print properties of a database.
    #[command(after_help = "\
Examples:
  cairn properties --db stones                    all of them
  cairn properties --db stones rocksdb.estimate-num-keys rocksdb.levelstats")]
    Properties(Properties),
    /// Show the memory that a database takes with every table open.
    #[command(after_help = "\
Examples:
  cairn memory --db stones
  cairn memory --db stones --json                 the property cairn.memory
  cairn memory --db stones --options 'block_based_table_factory={cache_index_and_filter_blocks=true}'

The database is opened read-only by this process. A program that has it open reads the property
cairn.memory, which has its own memtables, caches, iterators and snapshots.")]
    Memory(Memory),
    /// Compact a range of keys, or all keys.
    #[command(after_help = "\
Examples:
  cairn compact --db stones
  cairn compact --db stones --from a --to m
  cairn compact --db stones --bottommost          also rewrite the last level
  cairn compact --db stones --options 'compression=kZSTD' --bottommost")]
    Compact(Compact),
    /// Flush memtables to tables.
    #[command(after_help = "\
Example:
  cairn flush --db stones")]
    Flush(Flush),
    /// Ingest external tables into a database.
    #[command(after_help = "\
Examples:
  cairn ingest --db stones new.sst more.sst       copies the files; later ones are newer
  cairn ingest --db stones --move new.sst         links the files and removes the old names
  cairn ingest --db stones --db-files 000012.sst  a table written by a database

The files are ingested atomically, and their entries are newer than all existing data. Tables are
written by SstFileWriter (Cairn's or RocksDB's): keys in order, each once.")]
    Ingest(Ingest),
    /// Create a checkpoint: a second database with hard links to the current files.
    #[command(after_help = "\
Examples:
  cairn checkpoint --db stones --to stones-monday

Takes no space until the two databases diverge; on another device the files are copied. The directory
must not exist, and it appears only once it is complete.")]
    Checkpoint(Checkpoint),
    /// Create, list, verify, restore and delete backups.
    #[command(
        subcommand,
        after_help = "\
Examples:
  cairn backup create --db stones --backups stones-backups
  cairn backup list --backups stones-backups
  cairn backup verify --backups stones-backups
  cairn backup restore --backups stones-backups --db stones          the newest one
  cairn backup restore --backups stones-backups --db old --id 3
  cairn backup delete --backups stones-backups --keep 7

A backup copies the tables that no earlier backup in the directory has. The directory has the format
of RocksDB's BackupEngine, which can restore the backups and add others."
    )]
    Backup(Backup),
    /// Export the tables of a column family to a directory.
    #[command(after_help = "\
Examples:
  cairn export --db stones --family ores --to ores-export
  cairn import --db other --family ores ores-export")]
    Export(Export),
    /// Create a column family from exported tables.
    #[command(after_help = "\
Examples:
  cairn import --db other --family ores ores-export
  cairn import --db other --family ores --move ores-export    removes the exported files")]
    Import(Import),
    /// Repair a damaged database.
    #[command(after_help = "\
Examples:
  cairn verify --db stones                                    lists the damage
  cairn repair --db stones --quarantine all-damaged           removes damaged tables
  cairn repair --db stones --quarantine 000012.sst            removes this table
  cairn repair --db stones                                    also rebuilds a lost MANIFEST

Nothing is deleted: files that are removed from the database are moved to its subdirectory `lost`. For
each removed table, the key range in which entries may be lost is printed; entries that were deleted
or overwritten in it may reappear. The exit code is 1 if a table was removed or part of a log could
not be read.")]
    Repair(Repair),
    /// Delete a database.
    #[command(after_help = "\
Example:
  cairn destroy --db stones --yes

Deletes all files that belong to the database and nothing else, and the directory if it is then empty.
Directories that are named only in the OPTIONS file are not touched: pass them with --options
'wal_dir=...'.")]
    Destroy(Destroy),
    /// Show a file of a database as text.
    #[command(after_help = "\
Examples:
  cairn inspect stones/000012.sst                 footer, properties, blocks
  cairn inspect --entries stones/000012.sst       also every entry
  cairn inspect stones/000013.log                 every record of a WAL
  cairn inspect stones/MANIFEST-000005            the history of the tree
  cairn inspect stones/OPTIONS-000007
  cairn inspect --entries stones/000014.blob

Damage is reported where it is found, with its offset, and reading continues if possible.")]
    Inspect(Inspect),
    /// Check every checksum of a database.
    #[command(after_help = "\
Examples:
  cairn verify --db stones
  cairn verify stones/000012.sst                  one file
  cairn verify --db stones --options 'db_paths=/a,1000000000:/b,9000000000'

Reads every file in full: blocks, filters and indexes of tables, records of logs and blob files,
and compares them to the MANIFEST. Each damage is reported on one line with file and offset; the exit
code is then 1. The directory of the logs is that in the OPTIONS file; those of the tables are not recorded.")]
    Verify(Verify),
    /// Show a dump of a block cache by role, family, level and age.
    #[command(after_help = "\
Examples:
  cairn cache stones.cache                        entries by role, family and level
  cairn cache --db stones stones.cache            with the names of the families
  cairn cache --json stones.cache
  cairn bench --benchmarks fillrandom,readrandom --cache_dump bench.cache

A program writes a dump by Db::dump_cache, and loads it by Db::load_cache after a restart. Every
block is verified. Ages are in seconds, at the time of the dump. The cache of a running database is
the property cairn.cache.")]
    Cache(Cache),
    /// Show a trace of queries, block-cache lookups or file operations.
    #[command(after_help = "\
Examples:
  cairn trace lookups.trace                       hit ratios by block, family, level and caller
  cairn trace --json io.trace                     counts, bytes and times by operation
  cairn trace --records queries.trace             each operation on a line

A program writes a trace by Db::start_trace, Db::start_block_cache_trace or Db::start_io_trace, or by
RocksDB's functions for them. The traces of RocksDB and Cairn have the same format. Times of records
are in microseconds since 1970; those of file operations in nanoseconds of a monotonic clock.")]
    Trace(Trace),
    /// Measure reads and writes, like RocksDB's db_bench.
    #[command(after_help = crate::bench::HELP)]
    Bench(Box<crate::bench::Flags>),
    /// Write manual pages and shell completions.
    #[command(hide = true)]
    Generate(crate::manual::Generate),
}

/// Location and options of the database.
#[derive(Debug, Args)]
pub struct Target {
    /// Directory of the database.
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Options of the database and all families, as a RocksDB option string.
    #[arg(
        long,
        value_name = "STRING",
        default_value = "",
        hide_default_value = true
    )]
    pub options: String,
    /// Options of one family; may be repeated.
    #[arg(long, value_name = "NAME=STRING")]
    pub family_options: Vec<String>,
    /// Ignore the database's newest OPTIONS file.
    #[arg(long)]
    pub ignore_options_file: bool,
}

/// A column family argument.
#[derive(Debug, Args)]
pub struct FamilyName {
    /// Column family.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub family: String,
}

/// Encoding of keys on the command line.
#[derive(Clone, Copy, Debug, Args)]
pub struct KeyForm {
    /// Keys are hexadecimal.
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
    /// Output format of the value.
    #[arg(long, default_value = "text")]
    pub format: ValueFormat,
}

/// Output format of a single value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ValueFormat {
    /// Text with escapes for other bytes, and a newline.
    Text,
    /// Hexadecimal, and a newline.
    Hex,
    /// The raw bytes.
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
    /// The value is hexadecimal.
    #[arg(long)]
    pub value_hex: bool,
    /// Create the database if it does not exist.
    #[arg(long)]
    pub create: bool,
    /// Sync the WAL before returning.
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
    /// Delete all keys from KEY to END, exclusive.
    #[arg(long, requires = "end")]
    pub range: bool,
    /// Sync the WAL before returning.
    #[arg(long)]
    pub sync: bool,
    /// The key.
    pub key: String,
    /// The exclusive end of the range.
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
    /// Scan all families in the order of their creation.
    #[arg(long, conflicts_with = "family")]
    pub all_families: bool,
    /// The first key.
    #[arg(long, value_name = "KEY")]
    pub from: Option<String>,
    /// The exclusive upper bound.
    #[arg(long, value_name = "KEY")]
    pub to: Option<String>,
    /// Only keys with this prefix.
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"])]
    pub prefix: Option<String>,
    /// Scan backwards.
    #[arg(long)]
    pub reverse: bool,
    /// Maximum number of entries per family.
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Print keys only.
    #[arg(long)]
    pub keys_only: bool,
    /// Print only the number of entries.
    #[arg(long)]
    pub count: bool,
    /// Output format of entries.
    #[arg(long, default_value = "text")]
    pub format: EntryFormat,
}

/// Output format of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EntryFormat {
    /// `key : value`, with escapes for non-text bytes.
    Text,
    /// `key : value` in hexadecimal.
    Hex,
    /// One JSON object per line, bytes in hexadecimal.
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
    /// Format of the file; derived from its name if omitted.
    #[arg(long)]
    pub format: Option<crate::load::Format>,
    /// The first line of a CSV or TSV file is a header.
    #[arg(long)]
    pub header: bool,
    /// Entries per write batch.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub batch: usize,
    /// Bypass the WAL: faster, but the data is lost if the process dies before the end.
    #[arg(long)]
    pub disable_wal: bool,
}

/// `list-families`.
#[derive(Debug, Args)]
pub struct ListFamilies {
    /// Directory of the database.
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Include ids, comparators, and the number and size of tables.
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
    /// Property names; all available ones if omitted.
    pub names: Vec<String>,
}

/// `memory`.
#[derive(Debug, Args)]
pub struct Memory {
    #[command(flatten)]
    pub target: Target,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
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
    /// The first key, inclusive.
    #[arg(long, value_name = "KEY")]
    pub from: Option<String>,
    /// The last key, inclusive.
    #[arg(long, value_name = "KEY")]
    pub to: Option<String>,
    /// Rewrite the bottommost level.
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
    /// Move the files: link them, then unlink the old paths.
    #[arg(long = "move", conflicts_with = "link")]
    pub moved: bool,
    /// Link the files and keep the old paths.
    #[arg(long)]
    pub link: bool,
    /// Ingest behind all existing data: existing keys keep their values.
    #[arg(long)]
    pub behind: bool,
    /// Accept tables written by a database, with their sequence numbers.
    #[arg(long)]
    pub db_files: bool,
    /// Verify every block first.
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

/// `backup`.
#[derive(Debug, Subcommand)]
pub enum Backup {
    /// Add a backup of a database to a directory.
    Create(BackupCreate),
    /// List the backups in a directory. The exit code is 1 if one is damaged.
    List(BackupList),
    /// Verify backups. The exit code is 1 if one is damaged.
    Verify(BackupVerify),
    /// Replace a database by the state in a backup.
    Restore(BackupRestore),
    /// Delete backups.
    Delete(BackupDelete),
}

/// `backup create`.
#[derive(Debug, Args)]
pub struct BackupCreate {
    #[command(flatten)]
    pub target: Target,
    /// Directory of the backups; created if it is missing.
    #[arg(long, value_name = "DIR")]
    pub backups: PathBuf,
    /// Flush the memtables first, instead of copying the logs.
    #[arg(long)]
    pub flush: bool,
    /// Text stored with the backup.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub metadata: String,
    /// Delete the oldest backups afterwards, so that N remain.
    #[arg(long, value_name = "N")]
    pub keep: Option<usize>,
    /// Maximum number of files copied at the same time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Maximum bytes per second; 0 for no limit.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub rate_limit: u64,
}

/// `backup list`.
#[derive(Debug, Args)]
pub struct BackupList {
    /// Directory of the backups.
    #[arg(long, value_name = "DIR")]
    pub backups: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `backup verify`.
#[derive(Debug, Args)]
pub struct BackupVerify {
    /// Directory of the backups.
    #[arg(long, value_name = "DIR")]
    pub backups: PathBuf,
    /// Ids of the backups; all if omitted.
    pub ids: Vec<u32>,
    /// Check only that the files exist and have their lengths.
    #[arg(long)]
    pub quick: bool,
    /// Maximum number of files read at the same time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
}

/// `backup restore`.
#[derive(Debug, Args)]
pub struct BackupRestore {
    /// Directory of the backups.
    #[arg(long, value_name = "DIR")]
    pub backups: PathBuf,
    /// Directory of the database, which must not be open.
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Directory of the logs; that of the database if omitted.
    #[arg(long, value_name = "DIR")]
    pub wal_dir: Option<PathBuf>,
    /// Id of the backup; the newest one if omitted.
    #[arg(long, value_name = "N")]
    pub id: Option<u32>,
    /// Keep the logs in the directory, so that later writes are recovered from them.
    #[arg(long)]
    pub keep_logs: bool,
    /// Files in the directory that are kept.
    #[arg(long, default_value = "nothing")]
    pub keep: RestoreKeep,
    /// Maximum number of files copied at the same time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: usize,
    /// Maximum bytes per second; 0 for no limit.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub rate_limit: u64,
}

/// Files that a restore keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RestoreKeep {
    /// None.
    Nothing,
    /// Tables with the number, session id and size of a file of the backup.
    SameSession,
    /// Tables and blob files with the checksum of a file of the backup.
    SameChecksum,
}

/// `backup delete`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("which").required(true).multiple(true).args(["ids", "keep"]))]
pub struct BackupDelete {
    /// Directory of the backups.
    #[arg(long, value_name = "DIR")]
    pub backups: PathBuf,
    /// Ids of the backups.
    pub ids: Vec<u32>,
    /// Delete the oldest backups, so that N remain.
    #[arg(long, value_name = "N")]
    pub keep: Option<usize>,
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
    /// Move the files: link them, then unlink the old paths.
    #[arg(long = "move")]
    pub moved: bool,
    /// Create the database if it does not exist.
    #[arg(long)]
    pub create: bool,
    /// Directories created by `cairn export`.
    #[arg(required = true)]
    pub exports: Vec<PathBuf>,
}

/// `repair`.
#[derive(Debug, Args)]
pub struct Repair {
    #[command(flatten)]
    pub target: Target,
    /// Only quarantine tables: `all-damaged`, or the name of a table. May be repeated.
    #[arg(long, value_name = "FILE|all-damaged")]
    pub quarantine: Vec<String>,
}

/// `destroy`.
#[derive(Debug, Args)]
pub struct Destroy {
    /// Directory of the database.
    #[arg(long, value_name = "DIR")]
    pub db: PathBuf,
    /// Options of the database and all families, with the directories of other files, as a RocksDB option string.
    #[arg(
        long,
        value_name = "STRING",
        default_value = "",
        hide_default_value = true
    )]
    pub options: String,
    /// Confirm the deletion.
    #[arg(long)]
    pub yes: bool,
}

/// `inspect`.
#[derive(Debug, Args)]
pub struct Inspect {
    /// The file, whose name determines its type.
    pub file: PathBuf,
    /// Show every entry of tables and blob files.
    #[arg(long)]
    pub entries: bool,
    /// Print keys and values in hexadecimal.
    #[arg(long)]
    pub hex: bool,
    /// Maximum bytes printed of each key and value.
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
    /// Options of the database and all families, with the directories of other files, as a RocksDB option string.
    #[arg(long, value_name = "STRING", requires = "db")]
    pub options: Option<String>,
    /// Single files.
    pub files: Vec<PathBuf>,
}

/// `trace`.
#[derive(Debug, Args)]
pub struct Trace {
    /// The trace.
    pub file: PathBuf,
    /// Print each record instead of a summary.
    #[arg(long)]
    pub records: bool,
    /// Print JSON; of records, one object per line.
    #[arg(long)]
    pub json: bool,
}

/// `cache`.
#[derive(Debug, Args)]
pub struct Cache {
    /// The dump.
    pub file: PathBuf,
    /// Directory of the database, for the names of its families.
    #[arg(long, value_name = "DIR")]
    pub db: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
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
