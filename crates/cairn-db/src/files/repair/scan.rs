//! The state of a database without a MANIFEST, derived from its files: families from the properties of their
//! tables, the age of tables from the sequence numbers in them.
//!
//! All tables are placed in level 0. A point read there uses the newest table first, but age applies only to
//! whole tables. If the numbers of two tables with common keys are interleaved, the family is compacted
//! afterwards: a compaction considers the number of each entry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_blob::BlobFile;
use cairn_format::blob::{FOOTER_LEN, HEADER_LEN};
use cairn_format::id::UniqueId;
use cairn_format::key;
use cairn_format::names::FileName;
use cairn_format::table::Properties;
use cairn_format::trace::block_cache::CacheCaller;
use cairn_options::FamilyOptions;
use cairn_platform::Io;
use cairn_platform::fs::FileMode;
use cairn_types::{Error, FileNumber, KeyOrder, Result, SequenceNumber};
use cairn_version::manifest::{Recovered, RecoveredFamily};
use cairn_version::{BlobFileMeta, FileMeta, TreeEdit, bounds};

use super::logged::Logged;
use super::{LostTable, Repairer, empty_tree, table_checks};
use crate::files::external::{oldest_blob, sequence_numbers};

/// The id in the properties of tables that belong to no particular family.
const ANY_FAMILY: u64 = 0x7fff_ffff;

/// The files of a database, by family.
pub(super) struct Found<'a> {
    families: BTreeMap<u32, Family<'a>>,
    logged: Logged,
    /// Files to be moved aside, and whose old names are to be removed.
    pub(super) gone: Vec<PathBuf>,
}

struct Family<'a> {
    name: String,
    options: &'a FamilyOptions,
    order: KeyOrder,
    tables: Vec<FileMeta>,
    /// The number of the last logged entry that is in the tables, as far as they show it.
    floor: Option<SequenceNumber>,
    blobs: Vec<BlobFileMeta>,
}

impl<'a> Found<'a> {
    /// Reads every table, and moves damaged ones aside.
    pub(super) fn look(repairer: &mut Repairer<'a>) -> Result<Found<'a>> {
        let dirs = repairer.all_table_dirs();
        let is_table =
            |name: FileName| matches!(name, FileName::Table(_) | FileName::LegacyTable(_));
        let tables = table_checks::files(repairer.fs(), &dirs, is_table)?;
        let is_blob = |name: FileName| matches!(name, FileName::Blob(_));
        let blobs = table_checks::files(repairer.fs(), &dirs, is_blob)?;
        let logs = cairn_wal::list(repairer.fs(), repairer.wal_dir())?;
        if tables.is_empty() && logs.is_empty() {
            return Err(Error::invalid_argument(format!(
                "{} holds no database: neither tables nor logs",
                repairer.dir.display()
            )));
        }
        let mut found = Found {
            families: BTreeMap::new(),
            logged: Logged::read(repairer.fs(), &logs)?,
            gone: Vec::new(),
        };
        let default = repairer.options_of("default");
        let order = default.comparator.clone();
        found.add_family(0, "default", default, order);
        for (name, path) in tables {
            let number = name.number().unwrap_or_default();
            let taken = table_checks::twice(|| found.take_table(repairer, number, &path));
            if let Err(error) = taken {
                if !table_checks::is_damage(&error) {
                    return Err(error);
                }
                let moved = repairer.set_aside(&path)?;
                found.gone.push(path);
                repairer.report.lost.push(LostTable {
                    path: moved,
                    family: String::new(),
                    level: 0,
                    keys: None,
                    reason: error.to_string(),
                });
            }
        }
        for (name, path) in blobs {
            let number = name.number().unwrap_or_default();
            let taken = table_checks::twice(|| found.take_blob(repairer, number, &path));
            if let Err(error) = taken {
                if !table_checks::is_damage(&error) {
                    return Err(error);
                }
                // The logs may refer to its values: the following opening deletes the old name.
                let moved = repairer.set_aside(&path)?;
                repairer.report.set_aside.push(moved);
            }
        }
        Ok(found)
    }

    fn add_family(&mut self, id: u32, name: &str, options: &'a FamilyOptions, order: KeyOrder) {
        self.families.entry(id).or_insert_with(|| Family {
            name: name.to_owned(),
            options,
            order,
            tables: Vec::new(),
            floor: None,
            blobs: Vec::new(),
        });
    }

    /// Reads the table `number` at `path`, and adds it to the family that its properties name.
    fn take_table(
        &mut self,
        repairer: &Repairer<'a>,
        number: FileNumber,
        path: &Path,
    ) -> Result<()> {
        let io = Io::blocking();
        // The comparator is recorded in the file; any of them opens it.
        let properties = table_checks::properties(repairer.world, &repairer.orders(), path, &io)?;
        let (id, name) = family_of(&properties)?;
        let options = repairer.options_of(&name);
        let order = table_checks::order(options, &properties.comparator)?;
        let reader = table_checks::reader(repairer.world, &io, options, &order);
        let external = reader.open(path, None)?;
        external.table.verify_checksums(&io)?;
        let (smallest, largest) = reader
            .bounds(&external.table)?
            .ok_or_else(|| Error::corruption("the table has no entries"))?;
        let properties = external.table.properties();
        let mut meta = FileMeta::new(number, external.size, smallest, largest);
        let mut floor = None;
        note_entries(&mut meta, &external.table, path, &io, |entry| {
            let user = key::strip_timestamp(key::user_key(entry), order.timestamp_size());
            let seq = key::sequence(entry);
            floor = floor.max(self.logged.last_not_after(id, user, seq));
        })?;
        meta.unique_id = UniqueId::of_table(
            &properties.db_id,
            &properties.db_session_id,
            properties.original_file_number,
        )
        .map(|id| id.short());
        meta.timestamps.persisted = order.timestamp_size() == 0 || !properties.timestamps_stripped;
        meta.times.oldest_ancester = properties.creation_time;
        meta.times.file = properties.file_creation_time;
        let dirs = repairer.table_dirs(&name);
        let place = dirs
            .iter()
            .position(|dir| Some(dir.as_path()) == path.parent());
        meta.path_id = place
            .and_then(|place| u32::try_from(place).ok())
            .ok_or_else(|| Error::corruption("the table lies in a directory of another family"))?;
        self.add_family(id, &name, repairer.options_of(&name), order);
        let family = self.families.get_mut(&id).expect("it was just added");
        family.floor = family.floor.max(floor);
        family.tables.push(meta);
        Ok(())
    }

    fn take_blob(
        &mut self,
        repairer: &Repairer<'a>,
        number: FileNumber,
        path: &Path,
    ) -> Result<()> {
        let file = repairer.fs().open(path, FileMode::default())?;
        let file = BlobFile::open(file, number)?;
        let id = file.header().family;
        let family = self
            .families
            .get_mut(&id)
            .ok_or_else(|| Error::corruption("no table of its family is left"))?;
        family.blobs.push(BlobFileMeta::new(
            number,
            file.blob_count(),
            file.file_size()
                .saturating_sub((HEADER_LEN + FOOTER_LEN) as u64),
        ));
        Ok(())
    }

    /// Returns the numbers up to which logs add nothing, by family; see [`logged`](super::logged).
    pub(super) fn floors(&self) -> BTreeMap<u32, SequenceNumber> {
        let families = self.families.iter();
        families
            .filter_map(|(id, family)| Some((*id, family.floor?)))
            .collect()
    }

    /// Returns the families with tables neither of which is older than the other, and those with tables that are newer than
    /// entries that their logs add.
    pub(super) fn mixed(&self) -> Vec<String> {
        let is_mixed = |id: u32, family: &Family<'_>| {
            let largest = family.tables.iter().map(|table| table.seqs.largest).max();
            let floor = family.floor.unwrap_or_default();
            if largest.is_some_and(|largest| self.logged.has_within(id, floor, largest)) {
                return true;
            }
            let mut by_key: Vec<&FileMeta> = family.tables.iter().collect();
            by_key.sort_by(|a, b| {
                key::compare(&family.order, a.smallest.as_bytes(), b.smallest.as_bytes())
            });
            by_key.iter().enumerate().any(|(at, a)| {
                by_key[at + 1..]
                    .iter()
                    .take_while(|b| touch(&family.order, a, b))
                    .any(|b| a.seqs.smallest <= b.seqs.largest && b.seqs.smallest <= a.seqs.largest)
            })
        };
        let families = self.families.iter();
        let mixed = families.filter(|&(id, family)| is_mixed(*id, family));
        mixed.map(|(_, family)| family.name.clone()).collect()
    }

    /// Returns the state described by the files.
    pub(super) fn recovered(&self) -> Result<Recovered> {
        let mut families = Vec::new();
        let mut last = SequenceNumber::ZERO;
        let mut next = FileNumber(1);
        for (id, family) in &self.families {
            let added = family.tables.iter().map(|table| {
                last = last.max(table.seqs.largest);
                next = next.max(FileNumber(table.number.0 + 1));
                (0, Arc::new(table.clone()))
            });
            let edit = TreeEdit {
                added: added.collect(),
                added_blobs: family.blobs.iter().cloned().map(Arc::new).collect(),
                ..TreeEdit::default()
            };
            let version = empty_tree(family.options, family.order.clone()).with_edit(&edit)?;
            families.push(RecoveredFamily {
                id: *id,
                name: family.name.clone(),
                version: version.with_epochs(false),
                log_number: FileNumber(0),
                full_history_ts_low: Vec::new(),
                // The tables know: a caller that repairs may not.
                persist_timestamps: match family.tables.first() {
                    Some(table) if family.order.timestamp_size() > 0 => table.timestamps.persisted,
                    _ => !family.options.strips_timestamps(),
                },
            });
        }
        Ok(Recovered {
            manifest: FileNumber(0),
            manifest_bytes: 0,
            max_family: self.families.keys().copied().max().unwrap_or(0),
            families,
            next_file: next,
            last_sequence: last,
            min_log_to_keep: FileNumber(0),
            db_id: None,
            log_reach: None,
            wals: BTreeMap::new(),
            set_back: Vec::new(),
            unread: None,
            ending: None,
        })
    }
}

/// Returns the id and the name of the family of a table with `properties`.
fn family_of(properties: &Properties) -> Result<(u32, String)> {
    let id = match properties.column_family_id {
        ANY_FAMILY => 0,
        id => u32::try_from(id).map_err(|_| Error::corruption(format!("column family id {id}")))?,
    };
    let name = match (id, properties.column_family_name.is_empty()) {
        (0, _) => "default".to_owned(),
        (id, true) => format!("family-{id}"),
        (_, false) => properties.column_family_name.to_string(),
    };
    Ok((id, name))
}

/// Sets what `meta` has from the entries of `table`: the range of sequence numbers, and the oldest blob file. Passes the key of
/// each entry but range deletions to `visit`.
fn note_entries(
    meta: &mut FileMeta,
    table: &Arc<cairn_table::Table>,
    path: &Path,
    io: &Io,
    mut visit: impl FnMut(&[u8]),
) -> Result<()> {
    let seqs = sequence_numbers(table, io, CacheCaller::Repair, |entry, value| {
        visit(entry);
        let oldest =
            oldest_blob(entry, value).map_err(|malformed| malformed.in_file(path.display(), 0))?;
        meta.oldest_blob = meta.oldest_blob.into_iter().chain(oldest).min();
        Ok(())
    })?;
    (meta.seqs.smallest, meta.seqs.largest) = seqs;
    Ok(())
}

/// True if `b`, which does not begin earlier, overlaps `a`.
fn touch(order: &KeyOrder, a: &FileMeta, b: &FileMeta) -> bool {
    bounds::compare(order, a.largest.as_bytes(), b.smallest.as_bytes()).is_ge()
}
