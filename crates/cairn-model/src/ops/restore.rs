//! Restores the content of a copy of the database and compares it with the current state: `rescue
//! repair` repairs a database without a MANIFEST, `rescue lost` opens one without CURRENT, and
//! `rescue export default` exports a family and imports it into another database. The first two
//! must not delete a data file (R8).

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use cairn_db::FamilyDescriptor;
use cairn_format::names::FileName;
use cairn_options::{DbOptions, ImportColumnFamilyOptions, Options};
use cairn_platform::FileSystem;
use cairn_platform::fs::PathKind;
use cairn_platform::sync::AtomicU64;
use cairn_sim::SimFs;
use cairn_types::{Code, Result};

use crate::cairn::Cairn;
use crate::cairn_factory::{CairnFactory, count_background_errors};
use crate::compare::content;
use crate::engine::Factory;
use crate::failure::Failure;
use crate::line::wrong;
use crate::model::DEFAULT;
use crate::operation::{Kind, Op, Operation};
use crate::options::OptionSet;
use crate::runner::{Content, Promise, Runner, current_content};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "rescue",
    words: &["rescue"],
    weight: 1,
    switch: Some("rescue"),
    read: |line| {
        Ok(Op::new(match line.word(0)? {
            "repair" => Rescue::Repair,
            "lost" => Rescue::Lost,
            "export" => Rescue::Export(line.word(1)?.to_owned()),
            other => return Err(wrong("expected repair, lost or export", other)),
        }))
    },
    generate: |generator| {
        Some(Op::new(match generator.rng.below(3) {
            // Only the MANIFEST records the sequence number of an ingested file.
            0 if !generator.is_on("ingest") => Rescue::Repair,
            0 | 1 => Rescue::Lost,
            _ => Rescue::Export(generator.family()),
        }))
    },
};

/// Directories of the copy and of an exported family.
const DIR: &str = "/rescue";
const EXPORTED: &str = "/exported";
/// The name of an imported family.
const IMPORTED: &str = "imported";

#[derive(Debug)]
enum Rescue {
    Repair,
    Lost,
    Export(String),
}

impl Operation for Rescue {
    fn line(&self) -> String {
        match self {
            Rescue::Repair => "rescue repair".to_owned(),
            Rescue::Lost => "rescue lost".to_owned(),
            Rescue::Export(family) => format!("rescue export {family}"),
        }
    }

    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure> {
        let mut options = runner.options().clone();
        let disk = runner.sim.fs.clone();
        let wrong_reads = disk.wrong_reads();
        let known = runner.model().clone();
        let engine = runner.engine()?;
        let families = engine.families();
        let Some(cairn) = engine.cairn() else {
            return Ok(Promise::Nothing);
        };
        clean(cairn)?;
        let mut data = BTreeSet::new();
        let mut errors = None;
        let (promise, only) = match self {
            Rescue::Export(family) => {
                errors = export(cairn, &options, family)?;
                if errors.is_none() {
                    return Ok(Promise::Nothing);
                }
                (Promise::Flushed(vec![family.clone()]), Some(family))
            }
            _ => {
                cairn.db.create_checkpoint(Path::new(DIR), 0)?;
                data = data_files(&disk);
                match self {
                    Rescue::Repair => errors = Some(repair(cairn, &options)?),
                    _ => {
                        let current = Path::new(DIR).join(FileName::Current.to_string());
                        cairn.world.fs.remove(&current)?;
                        // A compaction would delete files.
                        let quiet = "disable_auto_compactions=true";
                        options.override_with("best_efforts_recovery=true", quiet, "");
                    }
                }
                (Promise::Flushed(families), None)
            }
        };
        let world = cairn.world.clone();
        let mut copy = CairnFactory.open(&world, Path::new(DIR), &options)?;
        errors
            .into_iter()
            .for_each(|errors| runner.add_error_counter(errors));
        runner.add_error_counter(copy.background_errors());
        let mut found = content(&mut *copy, &known)?;
        copy.close()?;
        if matches!(self, Rescue::Lost) {
            let left = data_files(&disk);
            if let Some((name, len)) = data.difference(&left).next() {
                return Err(Failure::wrong(format!(
                    "{name} ({len} bytes) is neither in use nor in lost"
                )));
            }
            let same = |model: &crate::model::Model| current_content(model) == found;
            let damaged = disk.wrong_reads() > wrong_reads || disk.wrong_writes() > 0;
            if damaged && !runner.models().iter().any(same) {
                // Unreadable parts of the MANIFEST are ignored and kept.
                return match found.values().all(|content| known.ever_had(content)) {
                    true => Ok(promise),
                    false => Err(Failure::wrong(
                        "the restored content was never the content of the family",
                    )),
                };
            }
        }
        if let Some(family) = only {
            let imported = found.remove(IMPORTED).unwrap_or_default();
            found = Content::from([(family.clone(), imported)]);
        }
        // A repair finds families through their tables, so families without tables are lost.
        let expected = |model: &crate::model::Model| {
            let mut expected = current_content(model);
            expected.retain(|family, _| only.is_none_or(|only| only == family));
            expected.retain(|family, entries| {
                found.contains_key(family) || !entries.is_empty() || family == DEFAULT
            });
            expected
        };
        runner.agree(&found, expected, |expected, found| {
            let count = |all: &Content| all.values().map(Vec::len).sum::<usize>();
            format!(
                "wrong restored content: {} entries, expected {}",
                count(found),
                count(expected)
            )
        })?;
        let engine = runner.engine()?;
        if let Some(cairn) = engine.cairn() {
            clean(cairn)?;
        }
        Ok(promise)
    }
}

/// Returns the names and lengths of the tables, blob files and non-empty logs of the copy, both in
/// use and in `lost`.
fn data_files(disk: &SimFs) -> BTreeSet<(String, usize)> {
    let image = disk.image();
    let in_copy = image.files().filter(|(path, _)| path.starts_with(DIR));
    let data = in_copy.filter_map(|(path, bytes)| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let is_data = match FileName::parse(&name)? {
            FileName::Table(_) | FileName::LegacyTable(_) | FileName::Blob(_) => true,
            FileName::Wal(_) => !bytes.is_empty(),
            _ => false,
        };
        is_data.then_some((name, bytes.len()))
    });
    data.collect()
}

/// Removes files left by a failed attempt.
fn clean(cairn: &Cairn) -> Result<()> {
    [DIR, EXPORTED]
        .into_iter()
        .try_for_each(|dir| remove(&*cairn.world.fs, Path::new(dir)))
}

/// Removes a directory with its contents, including files that a repair moved to `lost`.
fn remove(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    if !fs.exists(dir)? {
        return Ok(());
    }
    for name in fs.list(dir)? {
        let path = dir.join(name);
        match fs.status(&path)?.kind {
            PathKind::Directory => remove(fs, &path)?,
            _ => fs.remove(&path)?,
        }
    }
    fs.remove_dir(dir)
}

/// Removes the MANIFEST of the copy and repairs it. Returns the counter of background errors.
fn repair(cairn: &Cairn, options: &OptionSet) -> Result<Arc<AtomicU64>> {
    let (fs, dir) = (&*cairn.world.fs, Path::new(DIR));
    for name in fs.list(dir)? {
        let parsed = FileName::parse(&name);
        if matches!(parsed, Some(FileName::Manifest(_) | FileName::Current)) {
            fs.remove(&dir.join(name))?;
        }
    }
    let mut db = DbOptions::from_text(&options.db)?;
    let errors = count_background_errors(&mut db);
    let family = [FamilyDescriptor::new(DEFAULT, cairn.family.clone())];
    cairn_db::repair(&cairn.world, dir, &db, &family, &cairn.family)?;
    Ok(errors)
}

/// Moves a family to a new database and returns its counter of background errors; `None` if the
/// family has blobs or no tables, so it cannot be moved.
fn export(cairn: &Cairn, options: &OptionSet, name: &str) -> Result<Option<Arc<AtomicU64>>> {
    let exported = match cairn.family(name)?.export(Path::new(EXPORTED)) {
        Err(error) if error.code() == Code::NotSupported => return Ok(None),
        exported => exported?,
    };
    if exported.files.is_empty() {
        // As in RocksDB, a family without tables cannot be imported.
        return Ok(None);
    }
    let mut other = CairnFactory.open(&cairn.world, Path::new(DIR), options)?;
    let errors = other.background_errors();
    if let Some(other) = other.cairn() {
        let import = ImportColumnFamilyOptions { move_files: true };
        other
            .db
            .create_family_with_import(IMPORTED, &cairn.family, &import, &[exported])?;
    }
    other.close()?;
    Ok(Some(errors))
}
