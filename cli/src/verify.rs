//! The command `verify`: verifies all checksums of a database, or of single files.
//!
//! The MANIFEST lists the files of the tree with their metadata; each file is read in full and
//! compared to it. The entries of a table are also compared with each other, its index and its
//! properties. If the MANIFEST is damaged, the files are verified individually. Each damage is
//! reported on one line with file and offset. Finally the database is opened for reading, because
//! intact logs and tables can still be inconsistent with each other.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn::options::load_options;
use cairn_blob::BlobFile;
use cairn_format::batch::BatchRef;
use cairn_format::checksum::crc32c_extend;
use cairn_format::log::{Event, LogReader};
use cairn_format::manifest::VersionEdit;
use cairn_format::names::FileName;
use cairn_options::{DbOptions, FamilyOptions, apply_mixed};
use cairn_platform::fs::FileMode;
use cairn_platform::{FileSystem, Io, PosixFileSystem, RandomAccessFile, World};
use cairn_table::{OpenParams, Table};
use cairn_types::{Code, Error, FileNumber, KeyOrder, Result, Subcode};
use cairn_version::manifest::{self, Recovered};
use cairn_version::{BlobFileMeta, FileMeta};
use cairn_wal::{WalEvent, WalReader};

use crate::args::{Target, Verify};
use crate::progress::Progress;
use crate::{tables, target};

/// Checksum function name of RocksDB's whole-file CRC-32C, in big-endian order.
const CRC32C_FUNCTION: &str = "FileChecksumCrc32c";
/// The number of bytes per read.
const CHUNK: usize = 1 << 20;

/// Results of the verification.
struct Findings<'a> {
    out: &'a mut dyn Write,
    progress: Progress,
    files: u64,
    bytes: u64,
    damages: u64,
}

impl Findings<'_> {
    fn note(&mut self, text: &str) -> Result<()> {
        writeln!(self.out, "{text}").map_err(|error| Error::io_text(format!("print: {error}")))
    }

    fn damage(&mut self, error: &Error) -> Result<()> {
        self.damages += 1;
        self.note(&error.to_string())
    }

    /// Adds the result of verifying a file of `bytes` bytes.
    fn take(&mut self, bytes: u64, result: Result<()>) -> Result<()> {
        self.files += 1;
        self.bytes += bytes;
        self.progress.advance(bytes);
        match result {
            Ok(()) => Ok(()),
            Err(error) => self.damage(&error),
        }
    }
}

/// Verifies the arguments of the command line. Returns true if everything is intact.
pub fn run(flags: &Verify, out: &mut dyn Write) -> Result<bool> {
    let mut found = Findings {
        out,
        progress: Progress::bytes("verify"),
        files: 0,
        bytes: 0,
        damages: 0,
    };
    if let Some(dir) = &flags.db {
        check_database(dir, flags.options.as_deref().unwrap_or(""), &mut found)?;
    }
    for path in &flags.files {
        check_path(path, &mut found)?;
    }
    found.progress.finish();
    let (files, bytes, damages) = (found.files, found.bytes, found.damages);
    let verdict = match damages {
        0 => "no damage".to_owned(),
        1 => "1 damage".to_owned(),
        many => format!("{many} damages"),
    };
    found.note(&format!("{files} files, {bytes} bytes: {verdict}"))?;
    Ok(damages == 0)
}

fn check_database(dir: &Path, options: &str, found: &mut Findings<'_>) -> Result<()> {
    // A writer deletes files that the state read before the listing does not refer to.
    let (number, replayed) = state(dir)?;
    let dirs = directories(dir, options)?;
    let files = files(&dirs, found)?;
    let sizes = files.iter().map(|(path, _)| file_len(path));
    found.progress.set_total(sizes.fold(0, u64::saturating_add));
    let recovered = match replayed {
        Ok(recovered) => Some(recovered),
        Err(error) => {
            found.damage(&error)?;
            None
        }
    };
    if let Some(recovered) = &recovered {
        check_missing(dir, &dirs, &files, recovered, found)?;
    }
    for (path, name) in &files {
        let Some(result) = check_known(path, *name, number, recovered.as_ref(), found) else {
            continue;
        };
        if result.is_ok() || exists(path) || is_needed(&state(dir)?, *name) {
            found.take(file_len(path), result)?;
        }
    }
    match found.damages {
        0 => check_opening(dir, options, found),
        _ => Ok(()),
    }
}

/// Opens the database for reading. A crash may tear or lose the end of a log, which is no damage of the file; an open
/// rejects the remaining logs if tables are ahead of them, or if a log is missing.
fn check_opening(dir: &Path, options: &str, found: &mut Findings<'_>) -> Result<()> {
    let target = Target {
        db: dir.to_owned(),
        options: options.to_owned(),
        family_options: Vec::new(),
        ignore_options_file: false,
    };
    match target::open(&target, target::Use::Read) {
        Ok(db) => db.close(),
        Err(error) => match error.code() {
            // The command lacks an option of the database, such as its comparator.
            Code::InvalidArgument | Code::NotSupported => {
                found.note(&format!("note: not opened for reading: {error}"))
            }
            _ => found.damage(&error),
        },
    }
}

/// Verifies the file `name` at `path` of a database in the state `recovered`, whose MANIFEST has this number. Returns
/// `None` if the database does not need the file.
fn check_known(
    path: &Path,
    name: FileName,
    manifest: FileNumber,
    recovered: Option<&Recovered>,
    found: &mut Findings<'_>,
) -> Option<Result<()>> {
    match name {
        // The replay has verified the current MANIFEST; older ones may be torn.
        FileName::Manifest(other) if other != manifest => None,
        FileName::Wal(log) => {
            let oldest = recovered.map_or(FileNumber(0), |all| all.min_log_to_keep);
            (log >= oldest).then(|| check_wal(path, log, found))
        }
        FileName::Table(table) | FileName::LegacyTable(table) => match recovered {
            None => Some(check_table(path, None)),
            Some(all) => Some(check_table(path, Some(&find_table(all, table)?))),
        },
        FileName::Blob(blob) => match recovered {
            None => Some(check_blob(path, None)),
            Some(all) => Some(check_blob(path, Some(find_blob(all, blob)?))),
        },
        _ => Some(check_file(path, name, found)),
    }
}

/// The maximum number of attempts to read the MANIFEST that CURRENT names.
const TRIES: u32 = 10;

/// Returns the number of the MANIFEST that CURRENT names, and the state that it describes.
///
/// # Errors
///
/// `InvalidArgument` if there is no database.
fn state(dir: &Path) -> Result<(FileNumber, Result<Recovered>)> {
    // Key order cannot be verified with an unknown comparator; checksums can.
    let order = |_: &str, name: &str| Ok(tables::order_named(name));
    let mut tries = 0;
    loop {
        let number = manifest::current(&PosixFileSystem, dir)?.ok_or_else(|| {
            Error::invalid_argument(format!(
                "{} is not a database: CURRENT is missing",
                dir.display()
            ))
        })?;
        tries += 1;
        match manifest::replay(&PosixFileSystem, dir, number, &order) {
            // A writer has replaced it since CURRENT was read.
            Err(error) if error.subcode() == Subcode::PathNotFound && tries < TRIES => {}
            replayed => return Ok((number, replayed)),
        }
    }
}

fn exists(path: &Path) -> bool {
    PosixFileSystem.exists(path).unwrap_or(true)
}

/// True if the database needs the file `name` in the state `now`, which is newer than a listing without the file.
fn is_needed(now: &(FileNumber, Result<Recovered>), name: FileName) -> bool {
    let (manifest, Ok(recovered)) = now else {
        return true;
    };
    match name {
        FileName::Manifest(number) => number == *manifest,
        FileName::Wal(number) => number >= recovered.min_log_to_keep,
        FileName::Table(number) | FileName::LegacyTable(number) => {
            find_table(recovered, number).is_some()
        }
        FileName::Blob(number) => find_blob(recovered, number).is_some(),
        _ => false,
    }
}

/// The directories with files of the database in `dir`: this one first, then those of logs and tables in the OPTIONS file
/// and in the option string `text`.
fn directories(dir: &Path, text: &str) -> Result<Vec<PathBuf>> {
    let (mut db, mut family) = (DbOptions::default(), FamilyOptions::default());
    if let Some(file) = target::newest_options(dir)? {
        db = file.db;
    }
    apply_mixed(&mut db, &mut family, text)?;
    let paths = db.db_paths.iter().chain(&family.cf_paths);
    let others = std::iter::once(db.wal_dir_of(dir)).chain(paths.map(|it| &*it.path));
    let canonical = |dir: &Path| {
        PosixFileSystem
            .canonical(dir)
            .unwrap_or_else(|_| dir.into())
    };
    let (mut all, mut known) = (vec![dir.to_owned()], vec![canonical(dir)]);
    for other in others {
        if !known.contains(&canonical(other)) {
            all.push(other.to_owned());
            known.push(canonical(other));
        }
    }
    Ok(all)
}

/// The files of a database in `dirs`, by directory and name: all in the first one, and logs, tables and blob files in others.
fn files(dirs: &[PathBuf], found: &mut Findings<'_>) -> Result<Vec<(PathBuf, FileName)>> {
    let mut files = Vec::new();
    for dir in dirs {
        let mut names = match PosixFileSystem.list(dir) {
            Ok(names) => names,
            Err(error) if *dir == dirs[0] => return Err(error),
            Err(error) => {
                found.note(&format!("note: {error}"))?;
                continue;
            }
        };
        names.sort();
        for name in names {
            let Some(kind) = FileName::parse(&name) else {
                continue;
            };
            let has_data = matches!(
                kind,
                FileName::Wal(_)
                    | FileName::Table(_)
                    | FileName::LegacyTable(_)
                    | FileName::Blob(_)
            );
            if has_data || *dir == dirs[0] {
                files.push((dir.join(name), kind));
            }
        }
    }
    Ok(files)
}

/// Reports missing files that the MANIFEST refers to.
fn check_missing(
    dir: &Path,
    dirs: &[PathBuf],
    files: &[(PathBuf, FileName)],
    recovered: &Recovered,
    found: &mut Findings<'_>,
) -> Result<()> {
    let names: BTreeSet<FileName> = files.iter().map(|(_, name)| *name).collect();
    let is_listed = |file: &FileName| names.contains(file);
    let mut missing = Vec::new();
    for family in &recovered.families {
        let tables = family.version.files().map(|(_, file)| file.number);
        missing.extend(
            tables
                .filter(|number| !is_listed(&FileName::LegacyTable(*number)))
                .map(FileName::Table),
        );
        missing.extend(
            family
                .version
                .blob_files()
                .keys()
                .copied()
                .map(FileName::Blob),
        );
    }
    missing.retain(|file| !is_listed(file));
    if missing.is_empty() {
        return Ok(());
    }
    let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    let now = state(dir)?;
    for file in missing.into_iter().filter(|file| is_needed(&now, *file)) {
        found.damage(&Error::corruption(format!(
            "the MANIFEST refers to {file}, which is missing from {}",
            dirs.join(", ")
        )))?;
    }
    Ok(())
}

/// A table of the tree with its key order.
struct KnownTable {
    meta: Arc<FileMeta>,
    level: usize,
    order: KeyOrder,
}

fn find_table(recovered: &Recovered, number: FileNumber) -> Option<KnownTable> {
    recovered.families.iter().find_map(|family| {
        let mut files = family.version.files();
        let (level, meta) = files.find(|(_, meta)| meta.number == number)?;
        let order = family.version.order().clone();
        Some(KnownTable {
            meta: meta.clone(),
            level,
            order,
        })
    })
}

fn find_blob(recovered: &Recovered, number: FileNumber) -> Option<Arc<BlobFileMeta>> {
    let mut families = recovered.families.iter();
    families.find_map(|family| family.version.blob_files().get(&number).cloned())
}

/// Verifies one file according to the type that its name indicates.
fn check_path(path: &Path, found: &mut Findings<'_>) -> Result<()> {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let result = match name.as_deref().and_then(FileName::parse) {
        Some(name) => check_file(path, name, found),
        None => Err(Error::invalid_argument(format!(
            "{} does not have the name of a database file",
            path.display()
        ))),
    };
    found.take(file_len(path), result)
}

/// Verifies a file called `name` on its own, without metadata from a MANIFEST.
fn check_file(path: &Path, name: FileName, found: &mut Findings<'_>) -> Result<()> {
    match name {
        FileName::Table(_) | FileName::LegacyTable(_) => check_table(path, None),
        FileName::Wal(number) => check_wal(path, number, found),
        FileName::Manifest(number) => check_manifest(path, number, found),
        FileName::Blob(_) => check_blob(path, None),
        FileName::Options(_) => check_options(path, found),
        _ => Ok(()),
    }
}

fn open(path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
    PosixFileSystem.open(path, FileMode::default())
}

fn file_len(path: &Path) -> u64 {
    PosixFileSystem.status(path).map_or(0, |status| status.len)
}

fn number_of(path: &Path) -> FileNumber {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let parsed = name.as_deref().and_then(FileName::parse);
    parsed.and_then(FileName::number).unwrap_or_default()
}

fn check_table(path: &Path, known: Option<&KnownTable>) -> Result<()> {
    let io = Io::blocking();
    let table = match known {
        Some(known) => open_known(path, known, &io)?,
        None => tables::open(path, &io)?,
    };
    // The order of a program is not known here: another one has its name.
    let is_ordered = !matches!(table.order(), KeyOrder::Custom(_));
    table.verify_entries(&io, is_ordered)
}

/// Opens a table and compares it with its metadata.
fn open_known(path: &Path, known: &KnownTable, io: &Io) -> Result<Arc<Table>> {
    let file = open(path)?;
    let len = file.len()?;
    check_len(path, known.meta.size, len)?;
    check_whole(
        path,
        &*file,
        &known.meta.checksum.function,
        &known.meta.checksum.value,
    )?;
    let params = OpenParams {
        number: known.meta.number,
        level: Some(known.level),
        order: known.order.clone(),
        expected_unique_id: known.meta.unique_id,
        largest_seq: Some(known.meta.seqs.largest),
        ..OpenParams::default()
    };
    Table::open(file, len, params, io)
}

fn check_len(path: &Path, expected: u64, len: u64) -> Result<()> {
    match expected == len {
        true => Ok(()),
        false => Err(Error::corruption(format!(
            "length of {}: {expected} bytes in the MANIFEST, {len} on disk",
            path.display()
        ))),
    }
}

/// Verifies the whole-file checksum, if the MANIFEST has one of a known function.
fn check_whole(
    path: &Path,
    file: &dyn RandomAccessFile,
    function: &str,
    expected: &[u8],
) -> Result<()> {
    if function != CRC32C_FUNCTION {
        return Ok(());
    }
    let mut chunk = vec![0; CHUNK];
    let (mut at, mut crc) = (0, 0);
    loop {
        let got = file.read_at(at, &mut chunk)?;
        crc = crc32c_extend(crc, &chunk[..got]);
        at += got as u64;
        if got < chunk.len() {
            break;
        }
    }
    match crc.to_be_bytes()[..] == *expected {
        true => Ok(()),
        false => Err(Error::corruption(format!(
            "whole-file checksum of {}: expected {}, found {crc:08x}",
            path.display(),
            crate::show::hex(expected)
        ))),
    }
}

fn check_blob(path: &Path, known: Option<Arc<BlobFileMeta>>) -> Result<()> {
    let file = open(path)?;
    if let Some(known) = known {
        check_whole(path, &*file, &known.checksum_method, &known.checksum_value)?;
    }
    BlobFile::open(file, number_of(path))?
        .verify(&Io::blocking())
        .map(|_| ())
}

/// Verifies a log. A torn end was being written when the process died, and recovery handles it: it
/// is reported as a note, not as damage. A recycled log ends with the rest of its previous content.
fn check_wal(path: &Path, number: FileNumber, found: &mut Findings<'_>) -> Result<()> {
    let mut reader = WalReader::new(open(path)?, number);
    let mut result = Ok(());
    loop {
        reader.advance()?;
        let recycled = reader.is_recycled();
        match reader.event() {
            WalEvent::Record { offset, payload } => {
                let batch = BatchRef::parse(payload).and_then(|batch| batch.check());
                if let Err(malformed) = batch {
                    result = Err(malformed.in_file(path.display(), offset));
                }
            }
            WalEvent::Dropped(dropped) if dropped.reason.is_torn() => {
                found.note(&format!(
                    "note: {} at offset {} of {}: interrupted write",
                    dropped.reason,
                    dropped.offset,
                    path.display()
                ))?;
            }
            WalEvent::Dropped(_) if recycled => {}
            WalEvent::Dropped(dropped) => {
                result = Err(Error::corruption(format!(
                    "{} at offset {} of {}",
                    dropped.reason,
                    dropped.offset,
                    path.display()
                )));
            }
            WalEvent::TimestampSizes(_) | WalEvent::Predecessor(_) => {}
            WalEvent::End(_) => break,
        }
    }
    result
}

/// Verifies a MANIFEST. A torn tail is an interrupted append and only noted; it is damage if complete records
/// follow.
fn check_manifest(path: &Path, number: FileNumber, found: &mut Findings<'_>) -> Result<()> {
    let file = open(path)?;
    let mut reader = LogReader::new(|at: u64, buf: &mut [u8]| file.read_at(at, buf), 0);
    loop {
        match reader.next()? {
            Event::Record { offset, payload } => {
                VersionEdit::decode(payload)
                    .map_err(|malformed| malformed.in_file(path.display(), offset))?;
            }
            Event::Dropped(dropped) => {
                let dir = path.parent().unwrap_or(Path::new(""));
                if manifest::families(&PosixFileSystem, dir, number).is_ok() {
                    return found.note(&format!(
                        "note: {} at offset {} of {}: interrupted write",
                        dropped.reason,
                        dropped.offset,
                        path.display()
                    ));
                }
                return Err(Error::corruption(format!(
                    "{} at offset {} of {}",
                    dropped.reason,
                    dropped.offset,
                    path.display()
                )));
            }
            Event::End(_) => return Ok(()),
            Event::Compression(_) | Event::TimestampSizes(_) | Event::Predecessor(_) => {}
        }
    }
}

fn check_options(path: &Path, found: &mut Findings<'_>) -> Result<()> {
    let options = load_options(path, true, &World::posix())?;
    for option in &options.passed_over {
        found.note(&format!(
            "{}: {option} is unknown and ignored",
            path.display()
        ))?;
    }
    Ok(())
}
