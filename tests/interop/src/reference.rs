//! Databases read by RocksDB: by its library, and by its tools `ldb` and `sst_dump`.

use std::path::{Path, PathBuf};
use std::process::Command;

use cairn_bench::rocksdb::{Db, Library, OpenMode, list_families};

use crate::content::{Content, Dump, Row, Rows};

/// RocksDB's library.
///
/// # Errors
///
/// The library has not been fetched.
pub fn library() -> Result<Library, String> {
    Library::locate().map_err(|error| error.to_string())
}

/// True if the library supports format version 8 of tables, as RocksDB 11.12 does.
#[must_use]
pub fn has_format_8(library: &Library) -> bool {
    library.has("rocksdb_block_based_options_set_optimize_key_common_prefix")
}

/// Reads everything with RocksDB's library, which recovers the database at `path`: pass a copy.
/// `families` has the options of families that need any. Entities are reduced to their default column.
pub fn dump(library: &Library, path: &Path, options: &str, families: &[(&str, &str)]) -> Dump {
    let names = list_families(library, path).map_err(|error| error.to_string())?;
    let given = |name: &str| {
        families
            .iter()
            .find(|(known, _)| *known == name)
            .map(|found| found.1)
    };
    let all: Vec<_> = names
        .iter()
        .map(|n| (n.as_str(), given(n).unwrap_or("")))
        .collect();
    let db = Db::open(library, path, options, &all, OpenMode::Existing);
    Ok(read(&db.map_err(|error| error.to_string())?))
}

/// Reads everything in an open database.
///
/// # Panics
///
/// Never: every name comes from the database.
#[must_use]
pub fn read(db: &Db) -> Content {
    let mut content = Content::new();
    for name in db.families() {
        let mut rows = Rows::default();
        let mut iter = db.iter(db.family(name).expect("it was opened with this name"));
        iter.seek_to_first();
        while iter.valid() {
            rows.rows.push(Row::of(iter.key(), iter.value()));
            iter.next();
        }
        rows.error = iter.status().err().map(|error| error.to_string());
        content.insert(name.clone(), rows);
    }
    content
}

/// Reads `family` with `ldb`, which takes the options from the database's OPTIONS file.
///
/// # Errors
///
/// The output of `ldb` if it fails.
///
/// # Panics
///
/// If `ldb` cannot be started or its output cannot be parsed.
pub fn ldb(path: &Path, family: &str) -> Result<Rows, String> {
    let mut command = Command::new("ldb");
    command
        .arg(format!("--db={}", path.display()))
        .arg(format!("--column_family={family}"));
    command.args([
        "--try_load_options",
        "--ignore_unknown_options",
        "scan",
        "--hex",
    ]);
    let output = command
        .output()
        .expect("ldb (Debian package rocksdb-tools) is installed");
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let lines = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() || lines.contains("Failed:") {
        return Err(format!("{words} {}", lines.trim()));
    }
    let row = |line: &str| {
        let (key, value) = line.split_once(" : ").expect("ldb prints key and value");
        let bare = |text: &str| text.trim().trim_start_matches("0x").to_lowercase();
        Row {
            key: bare(key),
            value: bare(value),
            columns: None,
            timestamp: None,
        }
    };
    Ok(Rows {
        rows: lines.lines().map(row).collect(),
        error: None,
    })
}

/// Runs `command` of `ldb` on the database at `path`.
///
/// # Errors
///
/// The output of `ldb` if it fails or reports an error.
///
/// # Panics
///
/// If it cannot be started.
pub fn ldb_command(path: &Path, command: &str) -> Result<(), String> {
    let database = format!("--db={}", path.display());
    let output = Command::new("ldb")
        .args([&database, "--ignore_unknown_options", command])
        .output()
        .expect("ldb (Debian package rocksdb-tools) is installed");
    let words = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() && !words.contains("Failed:") && !words.contains("Corruption") {
        return Ok(());
    }
    Err(format!("ldb {command}: {words}"))
}

/// Verifies every block of the table at `path` with `sst_dump`.
///
/// # Errors
///
/// The output of `sst_dump` if it reports an error.
///
/// # Panics
///
/// If it cannot be started.
pub fn sst_dump_verify(path: &Path) -> Result<(), String> {
    let mut command = Command::new("sst_dump");
    command
        .arg(format!("--file={}", path.display()))
        .arg("--command=verify");
    let output = command
        .output()
        .expect("sst_dump (Debian package rocksdb-tools) is installed");
    let words = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() && !words.contains("Corruption") && !words.contains("corrupted") {
        return Ok(());
    }
    Err(words)
}

/// The available RocksDB libraries: the published one, and the newest version if
/// `CAIRN_ROCKSDB_NEWEST_LIB` or `target/rocksdb-newest` has it. Empty without the published one.
#[must_use]
pub fn libraries() -> Vec<PathBuf> {
    let published = Library::path();
    if !published.exists() {
        return Vec::new();
    }
    let newest = std::env::var_os("CAIRN_ROCKSDB_NEWEST_LIB").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/rocksdb-newest/librocksdb.so"),
        PathBuf::from,
    );
    let newest = newest.exists().then_some(newest);
    std::iter::once(published).chain(newest).collect()
}
