//! Commands that move files: `ingest`, `checkpoint`, `export`, `import`, `repair`, `destroy`.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use cairn::files::{
    ExportImportFilesMetaData, ImportColumnFamilyOptions, IngestExternalFileOptions,
    LiveFileMetaData,
};
use cairn::repair::{Quarantine, RepairReport};
use cairn::{Db, FamilyOptions, SequenceNumber};
use cairn_format::names::FileName;
use cairn_options::{DbOptions, apply_mixed};
use cairn_platform::fs::{FileMode, parent, sync_name, unsynced_name};
use cairn_platform::{FileSystem, PosixFileSystem};
use cairn_types::{Error, FileNumber, Result};
use serde_json::{Value, json};

use crate::args::{Checkpoint, Destroy, Export, Import, Ingest, Repair};
use crate::complain;
use crate::show::{escaped, hex, unhex};
use crate::target::{self, Use};

/// The metadata file of an export.
const EXPORT_FILE: &str = "cairn-export.json";
/// Maximum size of the metadata file.
const MAX_EXPORT_LEN: u64 = 256 << 20;

/// Converts an output error.
fn printed(result: std::io::Result<()>) -> Result<()> {
    result.map_err(|error| Error::io_text(format!("print: {error}")))
}

fn purpose(create: bool) -> Use {
    match create {
        true => Use::Create,
        false => Use::Write,
    }
}

/// Ingests tables.
pub fn ingest(flags: &Ingest) -> Result<()> {
    let db = target::open(&flags.target, purpose(flags.create))?;
    let family = target::family(&db, &flags.family.family)?;
    let options = IngestExternalFileOptions {
        move_files: flags.moved,
        link_files: flags.link,
        ingest_behind: flags.behind,
        allow_db_generated_files: flags.db_files,
        verify_checksums_before_ingest: flags.verify,
        ..IngestExternalFileOptions::default()
    };
    family.ingest_external_file(&flags.files, &options)?;
    drop(family);
    db.close()
}

/// Creates a checkpoint.
pub fn checkpoint(flags: &Checkpoint, out: &mut dyn Write) -> Result<()> {
    let db = target::open(&flags.target, Use::Write)?;
    let last = db.create_checkpoint(&flags.to, 0)?;
    printed(writeln!(
        out,
        "{} has the state after sequence number {last}",
        flags.to.display()
    ))?;
    db.close()
}

/// Exports a family. The directory has its name once it is complete: an interrupted export leaves `.NAME.cairn-export`, which the
/// next one replaces.
pub fn export(flags: &Export, out: &mut dyn Write) -> Result<()> {
    let fs = &PosixFileSystem;
    let db = target::open(&flags.target, Use::Write)?;
    let family = target::family(&db, &flags.family.family)?;
    // Without a slash at its end.
    let to: PathBuf = flags.to.components().collect();
    if fs.exists(&to)? {
        let taken = format!("{} exists", to.display());
        return Err(Error::invalid_argument(taken));
    }
    let name = to.file_name().ok_or_else(|| {
        let text = format!("{} is not the name of a directory", to.display());
        Error::invalid_argument(text)
    })?;
    let mut part = OsString::from(".");
    part.push(name);
    part.push(".cairn-export");
    let part = parent(&to).join(part);
    remove_export(&part)?;
    let export = family.export(&part)?;
    let published = write_metadata(&part, &export).and_then(|()| fs.rename(&part, &to));
    if let Err(error) = published {
        let _removed = remove_export(&part);
        return Err(error);
    }
    if !sync_name(fs, &to)? {
        complain(unsynced_name(&to));
    }
    printed(writeln!(
        out,
        "{} tables in {}",
        export.files.len(),
        flags.to.display()
    ))?;
    drop(family);
    db.close()
}

/// Writes the metadata file of the export in `dir`.
fn write_metadata(dir: &Path, export: &ExportImportFilesMetaData) -> Result<()> {
    let file = PosixFileSystem.create(&dir.join(EXPORT_FILE), FileMode::default())?;
    file.append(to_json(export).to_string().as_bytes())?;
    file.sync(false)?;
    file.close()?;
    PosixFileSystem.sync_dir(dir)
}

/// Removes the export in `dir`, if there is one. A directory with other files stays.
///
/// # Errors
///
/// `IoError`, also for other files.
fn remove_export(dir: &Path) -> Result<()> {
    let fs = &PosixFileSystem;
    if !fs.exists(dir)? {
        return Ok(());
    }
    for name in fs.list(dir)? {
        let is_table = matches!(FileName::parse(&name), Some(FileName::Table(_)));
        if is_table || name == EXPORT_FILE {
            fs.remove(&dir.join(name))?;
        }
    }
    fs.remove_dir(dir)
}

/// Imports a family.
pub fn import(flags: &Import, out: &mut dyn Write) -> Result<()> {
    let exports: Vec<ExportImportFilesMetaData> = flags
        .exports
        .iter()
        .map(|dir| read_export(dir))
        .collect::<Result<_>>()?;
    let db = target::open(&flags.target, purpose(flags.create))?;
    let mut options = FamilyOptions::default();
    apply_mixed(
        &mut DbOptions::default(),
        &mut options,
        &flags.target.options,
    )?;
    if let Some(order) = exports
        .first()
        .and_then(|export| cairn::KeyOrder::from_name(&export.db_comparator_name))
    {
        options.comparator = order;
    }
    let how = ImportColumnFamilyOptions {
        move_files: flags.moved,
    };
    let family = db.create_family_with_import(&flags.family, &options, &how, &exports)?;
    printed(writeln!(out, "column family {} was created", family.name()))?;
    drop(family);
    db.close()
}

fn to_json(export: &ExportImportFilesMetaData) -> Value {
    let files: Vec<Value> = export
        .files
        .iter()
        .map(|file| {
            json!({
                "name": file.relative_filename,
                "level": file.level,
                "size": file.size,
                "smallest_seqno": file.smallest_seqno.0,
                "largest_seqno": file.largest_seqno.0,
                "smallest_key": hex(&file.smallest_key),
                "largest_key": hex(&file.largest_key),
                "smallest": hex(&file.smallest),
                "largest": hex(&file.largest),
                "epoch": file.epoch_number,
                "oldest_ancester_time": file.oldest_ancester_time,
            })
        })
        .collect();
    json!({ "comparator": export.db_comparator_name, "files": files })
}

/// Reads the metadata file of an export.
fn read_export(dir: &Path) -> Result<ExportImportFilesMetaData> {
    let path = dir.join(EXPORT_FILE);
    let file = PosixFileSystem.open(&path, FileMode::default())?;
    let len = file.len()?.min(MAX_EXPORT_LEN);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    let got = file.read_at(0, &mut bytes)?;
    let wrong = |what: &str| Error::corruption(format!("{what} in {}", path.display()));
    let value: Value = serde_json::from_slice(&bytes[..got])
        .map_err(|error| wrong(&format!("not an export: {error}")))?;
    let mut export = ExportImportFilesMetaData {
        db_comparator_name: value["comparator"]
            .as_str()
            .ok_or_else(|| wrong("no comparator"))?
            .to_owned(),
        files: Vec::new(),
    };
    for file in value["files"].as_array().ok_or_else(|| wrong("no files"))? {
        let number = |name: &str| {
            let found = file[name].as_u64();
            found.ok_or_else(|| wrong(&format!("missing number {name}")))
        };
        let bytes = |name: &str| {
            let found = file[name].as_str();
            unhex(found.ok_or_else(|| wrong(&format!("missing bytes {name}")))?)
        };
        export.files.push(LiveFileMetaData {
            relative_filename: file["name"]
                .as_str()
                .ok_or_else(|| wrong("a file without a name"))?
                .to_owned(),
            directory: dir.to_owned(),
            level: usize::try_from(number("level")?).unwrap_or(usize::MAX),
            size: number("size")?,
            smallest_seqno: SequenceNumber(number("smallest_seqno")?),
            largest_seqno: SequenceNumber(number("largest_seqno")?),
            smallest_key: bytes("smallest_key")?,
            largest_key: bytes("largest_key")?,
            smallest: bytes("smallest")?,
            largest: bytes("largest")?,
            epoch_number: number("epoch")?,
            oldest_ancester_time: number("oldest_ancester_time")?,
            ..LiveFileMetaData::default()
        });
    }
    Ok(export)
}

/// Repairs a database. Returns true if nothing was lost.
pub fn repair(flags: &Repair, out: &mut dyn Write) -> Result<bool> {
    let (options, families) = target::settings(&flags.target)?;
    let path = &flags.target.db;
    let report = match flags.quarantine.as_slice() {
        [] => Db::repair(path, &options, &families)?,
        named => Db::quarantine(path, &options, &families, &which(named)?)?,
    };
    print_report(&report, out)?;
    Ok(report.lost.is_empty() && report.dropped.is_empty())
}

fn which(named: &[String]) -> Result<Quarantine> {
    if named.iter().any(|name| name == "all-damaged") {
        return Ok(Quarantine::AllDamaged);
    }
    let numbers = named.iter().map(|name| -> Result<FileNumber> {
        let file = Path::new(name).file_name().unwrap_or_default();
        match FileName::parse(&file.to_string_lossy()) {
            Some(FileName::Table(number) | FileName::LegacyTable(number)) => Ok(number),
            _ => Err(Error::invalid_argument(format!(
                "--quarantine: expected all-damaged or the name of a table, found {name}"
            ))),
        }
    });
    Ok(Quarantine::Tables(numbers.collect::<Result<_>>()?))
}

fn print_report(report: &RepairReport, out: &mut dyn Write) -> Result<()> {
    let mut line = |text: String| printed(writeln!(out, "{text}"));
    if report.rebuilt {
        line("the MANIFEST is missing or damaged: a new one was built from the tables".to_owned())?;
    }
    for table in &report.lost {
        line(format!(
            "{}: removed: {}",
            table.path.display(),
            table.reason
        ))?;
        match &table.keys {
            Some((from, to)) => line(format!(
                "  entries of column family {} between {} and {} (level {}) may be lost",
                table.family,
                escaped(from),
                escaped(to),
                table.level
            ))?,
            None => line("  its content is unknown".to_owned())?,
        }
    }
    for part in &report.dropped {
        line(format!(
            "{}: {} bytes at offset {} were skipped: {}",
            part.file.display(),
            part.bytes,
            part.offset,
            part.reason
        ))?;
    }
    for path in &report.set_aside {
        line(format!("{}: moved to lost", path.display()))?;
    }
    line(format!(
        "{} tables, last sequence number {}",
        report.kept, report.last_sequence
    ))
}

/// Deletes a database.
pub fn destroy(flags: &Destroy) -> Result<()> {
    if !flags.yes {
        return Err(Error::invalid_argument(format!(
            "destroy deletes {} permanently; confirm with --yes",
            flags.db.display()
        )));
    }
    let mut options = cairn::Options::default();
    apply_mixed(&mut options.db, &mut options.family, &flags.options)?;
    Db::destroy(&flags.db, &options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_round_trips() {
        let dir = tempfile::tempdir().unwrap();
        let export = ExportImportFilesMetaData {
            db_comparator_name: "leveldb.BytewiseComparator".to_owned(),
            files: vec![LiveFileMetaData {
                relative_filename: "000012.sst".to_owned(),
                directory: dir.path().to_owned(),
                level: 3,
                size: 4711,
                smallest_seqno: SequenceNumber(5),
                largest_seqno: SequenceNumber(9),
                smallest_key: vec![0, 0xff],
                largest_key: b"z".to_vec(),
                epoch_number: 2,
                ..LiveFileMetaData::default()
            }],
        };
        let path = dir.path().join(EXPORT_FILE);
        std::fs::write(&path, to_json(&export).to_string()).unwrap();
        assert_eq!(read_export(dir.path()).unwrap(), export);
        std::fs::write(&path, "{\"comparator\":\"x\",\"files\":[{}]}").unwrap();
        assert!(read_export(dir.path()).unwrap_err().is_corruption());
    }

    #[test]
    fn quarantined_tables_are_given_by_name() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let one = which(&names(&["db/000012.sst"])).unwrap();
        assert_eq!(one, Quarantine::Tables(vec![FileNumber(12)]));
        assert_eq!(
            which(&names(&["all-damaged"])).unwrap(),
            Quarantine::AllDamaged
        );
        assert!(which(&names(&["MANIFEST-000001"])).is_err());
    }
}
