//! The database directory of a run: location, marker file, size.
//!
//! Only directories created by `bench` are erased.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use cairn::{Error, Result};
use cairn_format::names::FileName;

use crate::flags::Flags;
use crate::lmdb;

/// Marker file of a directory created by `bench`.
const MARK: &str = "CAIRN_BENCH";

/// The file of every database in RocksDB's format, and the data file of an LMDB environment.
const DATABASE_FILES: [&str; 2] = ["CURRENT", lmdb::DATA_FILE];

/// Returns the directory of the database.
#[must_use]
pub fn directory(flags: &Flags) -> PathBuf {
    flags.db.clone().unwrap_or_else(|| {
        let base = std::env::var_os("TEST_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
        base.join("cairn-bench")
    })
}

/// Returns the directories of `databases` databases of the run in `dir`.
#[must_use]
pub fn directories(dir: &Path, databases: u64) -> Vec<PathBuf> {
    match databases {
        0 | 1 => vec![dir.to_owned()],
        several => (0..several).map(|at| dir.join(at.to_string())).collect(),
    }
}

/// The content of a database, as far as values can be verified from their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Values of numbered keys.
    Plain,
    /// Values of numbered keys with varying lengths.
    AnyLength,
    /// LinkBench's nodes and links.
    Graph,
    /// Unknown.
    Unknown,
}

impl Content {
    const ALL: [Content; 4] = [
        Content::Plain,
        Content::AnyLength,
        Content::Graph,
        Content::Unknown,
    ];

    fn word(self) -> &'static str {
        match self {
            Content::Plain => "values",
            Content::AnyLength => "values of all lengths",
            Content::Graph => "a graph",
            Content::Unknown => "anything",
        }
    }
}

/// Returns the text of the marker file, which describes the values: they are verifiable only by runs
/// with equal flags.
fn mark_text(flags: &Flags, content: Content) -> String {
    let word = content.word();
    format!(
        "made by cairn bench: key_size={} value_size={} compression_ratio={} prefix_size={} \
         keys_per_prefix={} node_datasize={} link_datasize={} holds {word}\n",
        flags.key_size,
        flags.value_size,
        flags.compression_ratio,
        flags.prefix_size,
        flags.keys_per_prefix,
        flags.node_datasize,
        flags.link_datasize
    )
}

/// Returns the content of the directory, as far as a run with these flags can verify it.
#[must_use]
pub fn content(dir: &Path, flags: &Flags) -> Content {
    let found = std::fs::read_to_string(dir.join(MARK)).unwrap_or_default();
    let mut all = Content::ALL.into_iter();
    all.find(|content| found == mark_text(flags, *content))
        .unwrap_or(Content::Unknown)
}

/// Updates the marker file of the database in `dir`, if there is one.
///
/// # Errors
///
/// The file cannot be written.
pub fn note_content(dir: &Path, flags: &Flags, content: Content) -> Result<()> {
    let mark = dir.join(MARK);
    if !mark.exists() {
        return Ok(());
    }
    std::fs::write(&mark, mark_text(flags, content)).map_err(|error| Error::io("mark", dir, error))
}

/// Makes `dir` an empty directory with a marker file, and erases the database of an earlier run.
///
/// # Errors
///
/// `InvalidArgument` if there is a database without a marker file.
pub fn make_fresh(dir: &Path, flags: &Flags) -> Result<()> {
    let io = |doing: &'static str| move |error| Error::io(doing, dir, error);
    std::fs::create_dir_all(dir).map_err(io("create"))?;
    let names = names(dir).map_err(io("list"))?;
    let has_database = names.iter().any(|name| DATABASE_FILES.contains(&&**name));
    if has_database && !names.iter().any(|name| name == MARK) {
        return Err(Error::invalid_argument(format!(
            "{} holds a database that cairn bench did not make; it is not erased. \
             Choose another --db, or --use_existing_db",
            dir.display()
        )));
    }
    for name in names
        .iter()
        .filter(|name| is_of_database(name) || *name == MARK)
    {
        std::fs::remove_file(dir.join(name)).map_err(io("clear"))?;
    }
    std::fs::write(dir.join(MARK), mark_text(flags, Content::Plain)).map_err(io("mark"))
}

fn is_of_database(name: &str) -> bool {
    FileName::parse(name).is_some() || lmdb::FILES.contains(&name)
}

fn names(dir: &Path) -> std::io::Result<Vec<String>> {
    std::fs::read_dir(dir)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect()
}

/// True if there is a database.
#[must_use]
pub fn has_database(dir: &Path) -> bool {
    DATABASE_FILES.iter().any(|name| dir.join(name).exists())
}

/// Syncs the files in `dir` and drops them from the page cache, as after a reboot.
///
/// # Errors
///
/// A file cannot be opened or synced.
pub fn drop_cached(dir: &Path) -> Result<()> {
    if !has_database(dir) {
        return Ok(());
    }
    let failed = |error: std::io::Error| Error::io("drop from the page cache", dir, error);
    for name in names(dir).map_err(failed)? {
        let file = std::fs::File::open(dir.join(name)).map_err(failed)?;
        // Dirty pages cannot be dropped.
        file.sync_all().map_err(failed)?;
        let advice = rustix::fs::Advice::DontNeed;
        rustix::fs::fadvise(&file, 0, None, advice).map_err(|error| failed(error.into()))?;
    }
    Ok(())
}

/// Space used by a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Size of tables and blob files, or of LMDB's data file, in bytes.
    pub tables: u64,
    /// Allocated size of all files on the device, in bytes.
    pub occupied: u64,
}

/// Returns the space used by `dirs`. Files deleted during the call are not counted.
#[must_use]
pub fn space(dirs: &[PathBuf]) -> Space {
    let mut space = Space::default();
    for dir in dirs {
        for name in names(dir).unwrap_or_default() {
            let Ok(status) = std::fs::metadata(dir.join(&name)) else {
                continue;
            };
            space.occupied += status.blocks() * 512;
            if name.ends_with(".sst") || name.ends_with(".blob") || name == lmdb::DATA_FILE {
                space.tables += status.len();
            }
        }
    }
    space
}

/// Returns the text of the newest OPTIONS file.
#[must_use]
pub fn newest_options(dir: &Path) -> String {
    let number = |name: &String| name.strip_prefix("OPTIONS-")?.parse::<u64>().ok();
    let newest = names(dir).unwrap_or_default();
    let newest = newest.iter().filter_map(number).max();
    newest
        .and_then(|number| std::fs::read_to_string(dir.join(format!("OPTIONS-{number:06}"))).ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_file_describes_the_content() {
        use clap::Parser;

        #[derive(Parser)]
        struct Cli {
            #[command(flatten)]
            flags: Flags,
        }
        let flags = |text: &str| Cli::try_parse_from(["x", text]).unwrap().flags;
        let (dir, usual) = (tempfile::tempdir().unwrap(), flags("--num=5"));
        note_content(dir.path(), &usual, Content::Graph).unwrap();
        assert_eq!(content(dir.path(), &usual), Content::Unknown);
        make_fresh(dir.path(), &usual).unwrap();
        for known in [Content::Graph, Content::AnyLength, Content::Plain] {
            note_content(dir.path(), &usual, known).unwrap();
            assert_eq!(content(dir.path(), &usual), known);
            let other = flags("--value_size=7");
            assert_eq!(content(dir.path(), &other), Content::Unknown);
        }
    }

    #[test]
    fn space_counts_tables_and_all_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("000007.sst"), [1; 5000]).unwrap();
        std::fs::write(dir.path().join("LOG"), [1; 5000]).unwrap();
        let dirs = [dir.path().to_owned()];
        let space = space(&dirs);
        assert_eq!(space.tables, 5000);
        assert!(space.occupied >= 10_000, "{space:?}");
        assert_eq!(newest_options(dir.path()), "");
        std::fs::write(dir.path().join("OPTIONS-000009"), "old").unwrap();
        std::fs::write(dir.path().join("OPTIONS-000012"), "new").unwrap();
        assert_eq!(newest_options(dir.path()), "new");
        // Without a database nothing changes; with one, every file can be dropped.
        drop_cached(dir.path()).unwrap();
        std::fs::write(dir.path().join("CURRENT"), "").unwrap();
        drop_cached(dir.path()).unwrap();
        assert_eq!(super::space(&dirs).tables, 5000);
    }
}
