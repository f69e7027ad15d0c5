//! Writes external tables and ingests them together: `ingest put f0 a v:3:1 ; delete f0 b | put default
//! a v:3:2`, with `|` between files. A leading `link` or `move` selects how files are ingested; the
//! default is a copy.

use std::path::PathBuf;

use cairn_db::{Ingestion, PreparedFileInfo, SstFileWriter};
use cairn_options::IngestExternalFileOptions;
use cairn_types::{Code, Error, Result};

use crate::cairn::Cairn;
use crate::engine::Engine;
use crate::external_tables::{ExternalTables, WAYS};
use crate::failure::Failure;
use crate::generator::Generator;
use crate::merge_kind::MergeKind;
use crate::model::Model;
use crate::operation::{Kind, Op, Operation};
use crate::runner::{Promise, Runner};
use crate::write_entry::{Change, Write};

/// The operation kind.
pub const KIND: Kind = Kind {
    name: "ingest",
    words: &["ingest"],
    weight: 3,
    switch: Some("ingest"),
    read: |line| Ok(Op::new(Ingest(ExternalTables::read(line.rest())?))),
    generate: |generator| Some(Op::new(Ingest(generate(generator)))),
};

/// Directory of the external tables.
const DIR: &str = "/ingest";

#[derive(Debug)]
struct Ingest(ExternalTables);

impl Ingest {
    /// Writes and ingests the tables.
    fn carry_out(&self, cairn: &mut Cairn) -> Result<()> {
        let mut all: Vec<Ingestion> = Vec::new();
        let mut paths = Vec::new();
        for one in write_tables(&self.0, cairn, "")? {
            paths.extend(one.files.clone());
            match all
                .iter_mut()
                .find(|all| all.family.id() == one.family.id())
            {
                Some(all) => {
                    all.files.extend(one.files);
                    all.file_infos.extend(one.file_infos);
                }
                None => all.push(one),
            }
        }
        cairn.db.ingest_external_files(&all)?;
        clear(&self.0, cairn, &paths)
    }
}

/// Generates tables.
pub(super) fn generate(generator: &mut Generator) -> ExternalTables {
    let count = 1 + generator.rng.below(3);
    let files = (0..count).map(|_| file(generator)).collect();
    ExternalTables {
        way: WAYS[generator.rng.below(WAYS.len())],
        files,
    }
}

/// Writes `tables`, and returns the ingestion of each.
pub(super) fn write_tables(
    tables: &ExternalTables,
    cairn: &Cairn,
    name: &str,
) -> Result<Vec<Ingestion>> {
    let fs = cairn.world.fs.clone();
    fs.create_dir_all(DIR.as_ref())?;
    let options = IngestExternalFileOptions {
        move_files: tables.moves(),
        link_files: tables.way == "link",
        ..IngestExternalFileOptions::default()
    };
    let mut all: Vec<Ingestion> = Vec::new();
    for (number, writes) in tables.files.iter().enumerate() {
        let Some(first) = writes.first() else {
            continue;
        };
        let family = cairn.family(&first.family)?;
        let path = PathBuf::from(format!("{DIR}/{name}{number}.sst"));
        let mut writer = SstFileWriter::new(&cairn.world, &cairn.db.options(), &family.options());
        writer.open(&path)?;
        let timestamp = match cairn.strips_timestamps() {
            true => Default::default(),
            false => cairn.now(),
        };
        for write in writes {
            match cairn.has_timestamps() {
                true => add_at(&mut writer, write, &timestamp)?,
                false => add(&mut writer, write)?,
            }
        }
        let info = writer.finish()?.prepared_file_info;
        let mut ingestion = Ingestion::new(&family, [path], &options);
        if tables.way == "link" {
            // The files are ingested without being opened.
            let info = info.map(|info| PreparedFileInfo::decode(&info.encode()));
            ingestion.file_infos = info.into_iter().collect::<Result<_>>()?;
        }
        all.push(ingestion);
    }
    Ok(all)
}

/// Deletes the tables at `paths`; those that were moved must be gone.
pub(super) fn clear(tables: &ExternalTables, cairn: &Cairn, paths: &[PathBuf]) -> Result<()> {
    let fs = &cairn.world.fs;
    for path in paths {
        if !tables.moves() {
            fs.remove(path)?;
        } else if fs.exists(path)? {
            return Err(Error::aborted(format!(
                "{} was moved but still exists",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Writes `writes`, which cannot be ingested.
pub(super) fn write_instead(
    writes: &[Write],
    engine: &mut dyn Engine,
    unlogged: bool,
) -> Result<()> {
    engine.write(writes, true)?;
    match unlogged {
        true => engine.flush(&engine.families()),
        false => Ok(()),
    }
}

/// Generates the writes of a file.
fn file(generator: &mut Generator) -> Vec<Write> {
    let family = generator.family();
    file_of(generator, &family)
}

/// Generates the writes of a file for `family`.
pub(super) fn file_of(generator: &mut Generator, family: &str) -> Vec<Write> {
    let mut writes: Vec<Write> = Vec::new();
    if generator.is_on("deleterange") && generator.rng.chance(1, 3) {
        let (key, change) = Change::generate("deleterange", family, true, generator);
        writes.push(Write {
            family: family.to_owned(),
            key,
            change,
        });
    }
    let ranges = writes.len();
    for _ in 0..1 + generator.rng.below(8) {
        let word = match generator.rng.below(4) {
            0 if generator.is_on("delete") => "delete",
            1 if generator.options.merge != MergeKind::None => "merge",
            _ => "put",
        };
        let (key, change) = Change::generate(word, family, false, generator);
        let place = writes[ranges..].binary_search_by(|write| write.key.cmp(&key));
        if let Err(at) = place {
            let family = family.to_owned();
            writes.insert(
                ranges + at,
                Write {
                    family,
                    key,
                    change,
                },
            );
        }
    }
    writes
}

fn add(writer: &mut SstFileWriter, write: &Write) -> Result<()> {
    match &write.change {
        Change::Put(value) => writer.put(&write.key, &value.bytes()),
        Change::Merge(operand) => writer.merge(&write.key, &operand.bytes()),
        Change::Delete => writer.delete(&write.key),
        Change::DeleteRange(end) => writer.delete_range(&write.key, end),
        other => Err(Error::invalid_argument(format!(
            "an external table cannot have {other:?}"
        ))),
    }
}

/// Adds a write at `timestamp`.
fn add_at(writer: &mut SstFileWriter, write: &Write, timestamp: &[u8]) -> Result<()> {
    let key = &write.key;
    match &write.change {
        Change::Put(value) => writer.put_with_timestamp(key, timestamp, &value.bytes()),
        Change::Delete => writer.delete_with_timestamp(key, timestamp),
        Change::DeleteRange(end) => writer.delete_range_with_timestamp(key, end, timestamp),
        other => Err(Error::invalid_argument(format!(
            "an external table with timestamps cannot have {other:?}"
        ))),
    }
}

impl Operation for Ingest {
    fn line(&self) -> String {
        format!("ingest {}", self.0.text())
    }

    fn apply(&self, model: &mut Model) {
        model.write_external(&self.0.writes());
    }

    fn run(&self, runner: &mut Runner<'_>) -> std::result::Result<Promise, Failure> {
        let unlogged = runner.options().unlogged;
        let engine = runner.engine()?;
        let families = engine.families();
        if unlogged {
            // Unlogged data must be flushed first: after a crash it would be missing below newer,
            // ingested data.
            engine.flush(&families)?;
        }
        // With timestamps, a file overlaps neither memtables nor other files.
        let is_one = self.0.files.len() == 1
            && !self
                .0
                .writes()
                .iter()
                .any(|write| matches!(write.change, Change::Merge(_)));
        let has_timestamps = engine.cairn().is_some_and(|cairn| cairn.has_timestamps());
        if has_timestamps && is_one {
            engine.flush(&families)?;
        }
        let ingested = match engine.cairn() {
            Some(cairn) if is_one || !has_timestamps => match self.carry_out(cairn) {
                // With timestamps, a file overlaps no other keys either.
                Err(error) if has_timestamps && error.code() == Code::InvalidArgument => false,
                ingested => ingested.map(|()| true)?,
            },
            _ => false,
        };
        if !ingested {
            write_instead(&self.0.writes(), engine, unlogged)?;
        }
        Ok(Promise::of_synced(unlogged, families))
    }
}
