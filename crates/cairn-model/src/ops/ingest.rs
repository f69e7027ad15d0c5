//! Writes external tables and ingests them together: `ingest put f0 a v:3:1 ; delete f0 b | put default
//! a v:3:2`, with `|` between files. A leading `link` or `move` selects how files are ingested; the
//! default is a copy.

use std::path::PathBuf;

use cairn_db::{Ingestion, SstFileWriter};
use cairn_options::IngestExternalFileOptions;
use cairn_types::{Code, Error, Result};

use crate::cairn::Cairn;
use crate::failure::Failure;
use crate::generator::Generator;
use crate::line::wrong;
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
    read: |line| Ok(Op::new(Ingest::read(line.rest())?)),
    generate: |generator| Some(Op::new(Ingest::generate(generator))),
};

/// Directory of the external tables.
const DIR: &str = "/ingest";

/// Ingestion modes.
const WAYS: [&str; 3] = ["copy", "link", "move"];

/// Tables and the way in which they are ingested.
#[derive(Clone, Debug)]
pub struct Ingest {
    way: &'static str,
    /// The writes of each file, all of one family: range deletions, then one write per key in key
    /// order.
    files: Vec<Vec<Write>>,
}

impl Ingest {
    pub(super) fn read(text: &str) -> Result<Ingest> {
        let (way, rest) = text.split_once(' ').unwrap_or((text, ""));
        let way = WAYS.into_iter().find(|known| *known == way);
        let files = rest.split(" | ").map(|file| {
            let writes: Result<Vec<Write>> = file.split(" ; ").map(str::parse).collect();
            writes
        });
        Ok(Ingest {
            way: way.ok_or_else(|| wrong("missing ingestion mode", text))?,
            files: files.collect::<Result<_>>()?,
        })
    }

    pub(super) fn generate(generator: &mut Generator) -> Ingest {
        let count = 1 + generator.rng.below(3);
        let files = (0..count).map(|_| file(generator)).collect();
        Ingest {
            way: WAYS[generator.rng.below(WAYS.len())],
            files,
        }
    }

    /// The writes of all files.
    pub(super) fn writes(&self) -> Vec<Write> {
        self.files.iter().flatten().cloned().collect()
    }

    /// True if the files are moved.
    pub(super) fn moves(&self) -> bool {
        self.way == "move"
    }

    /// The text that [`Ingest::read`] parses.
    pub(super) fn text(&self) -> String {
        let files = self.files.iter().map(|writes| {
            let writes: Vec<String> = writes.iter().map(Write::to_string).collect();
            writes.join(" ; ")
        });
        let files: Vec<String> = files.collect();
        format!("{} {}", self.way, files.join(" | "))
    }

    /// Writes the tables, and returns the ingestion of each.
    pub(super) fn tables(&self, cairn: &Cairn, name: &str) -> Result<Vec<Ingestion>> {
        let fs = cairn.world.fs.clone();
        fs.create_dir_all(DIR.as_ref())?;
        let options = IngestExternalFileOptions {
            move_files: self.way == "move",
            link_files: self.way == "link",
            ..IngestExternalFileOptions::default()
        };
        let mut all: Vec<Ingestion> = Vec::new();
        for (number, writes) in self.files.iter().enumerate() {
            let Some(first) = writes.first() else {
                continue;
            };
            let family = cairn.family(&first.family)?;
            let path = PathBuf::from(format!("{DIR}/{name}{number}.sst"));
            let mut writer =
                SstFileWriter::new(&cairn.world, &cairn.db.options(), &family.options());
            writer.open(&path)?;
            for write in writes {
                match cairn.has_timestamps() {
                    true => add_at(&mut writer, write, &cairn.now())?,
                    false => add(&mut writer, write)?,
                }
            }
            writer.finish()?;
            all.push(Ingestion::new(&family, [path], &options));
        }
        Ok(all)
    }

    /// Writes and ingests the tables.
    fn carry_out(&self, cairn: &mut Cairn) -> Result<()> {
        let mut all: Vec<Ingestion> = Vec::new();
        let mut paths = Vec::new();
        for one in self.tables(cairn, "")? {
            paths.extend(one.files.clone());
            match all
                .iter_mut()
                .find(|all| all.family.id() == one.family.id())
            {
                Some(all) => all.files.extend(one.files),
                None => all.push(one),
            }
        }
        cairn.db.ingest_external_files(&all)?;
        self.clear(cairn, &paths)
    }

    /// Deletes the tables at `paths`; those that were moved must be gone.
    pub(super) fn clear(&self, cairn: &Cairn, paths: &[PathBuf]) -> Result<()> {
        let fs = &cairn.world.fs;
        for path in paths {
            if !self.moves() {
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
}

/// Generates the writes of a file.
fn file(generator: &mut Generator) -> Vec<Write> {
    let family = generator.family();
    let mut writes: Vec<Write> = Vec::new();
    if generator.is_on("deleterange") && generator.rng.chance(1, 3) {
        let (key, change) = Change::generate("deleterange", &family, true, generator);
        writes.push(Write {
            family: family.clone(),
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
        let (key, change) = Change::generate(word, &family, false, generator);
        let place = writes[ranges..].binary_search_by(|write| write.key.cmp(&key));
        if let Err(at) = place {
            let family = family.clone();
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
        format!("ingest {}", self.text())
    }

    fn apply(&self, model: &mut Model) {
        model.write(&self.writes());
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
        let is_one = self.files.len() == 1
            && !self
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
        match ingested {
            true => {}
            false => {
                engine.write(&self.writes(), true)?;
                if unlogged {
                    engine.flush(&families)?;
                }
            }
        }
        Ok(match unlogged {
            true => Promise::Flushed(families),
            false => Promise::Synced,
        })
    }
}
