//! Export and import of column families: the tables of one are exported as links and imported as a new family of
//! another database, or of the same.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::key::{self, InternalKey};
use cairn_format::names;
use cairn_jobs::checksum;
use cairn_options::{FamilyOptions, ImportColumnFamilyOptions};
use cairn_types::{Error, KeyOrder, Result, SequenceNumber};
use cairn_version::{FileMeta, TreeEdit};

use crate::catalog::create::NewFamily;
use crate::catalog::family::FamilyState;
use crate::db::Db;
use crate::db::handle::Family;
use crate::families::options_of_new_family;
use crate::files::checkpoint::link_or_copy;
use crate::files::copy;
use crate::files::external::{Reader, check_numbers_left, values_in_blob_files};
use crate::files::host::{Components, Host};
use crate::files::kept::keep_files;
use crate::files::live::{ColumnFamilyMetaDataOptions, LiveFileMetaData, family_metadata};
use crate::files::staging::Staging;

/// The description of an export: all information that an import needs besides the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportImportFilesMetaData {
    /// The name of the comparator.
    pub db_comparator_name: String,
    /// The files, with their levels and bounds.
    pub files: Vec<LiveFileMetaData>,
}

impl Family {
    /// Flushes the family and links its tables to `dir`, which must not exist.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `dir` exists; `Busy` if another thread is creating it; `NotSupported` if values are in blob
    /// files, and for a read-only database; `ColumnFamilyDropped`; those of a flush; `IoError`. `dir` does not exist then.
    pub fn export(&self, dir: &Path) -> Result<ExportImportFilesMetaData> {
        export(&self.db.shared, &self.state, dir)
    }
}

/// Exports `family` to `dir`; see [`Family::export`].
fn export<H: Host>(
    host: &Arc<H>,
    family: &Arc<FamilyState>,
    dir: &Path,
) -> Result<ExportImportFilesMetaData> {
    let database = host.components();
    let fs = &*database.context.world.fs;
    if database.context.read_only {
        return Err(Error::not_supported(
            "an export from a read-only database, which cannot flush what the logs have",
        ));
    }
    let staging = Staging::create(fs, dir)?;
    host.flush(std::slice::from_ref(family))?;
    // Memtables of a family that was dropped are not flushed.
    family.check_not_dropped()?;
    let _kept = keep_files(&**host);
    let metadata = family_metadata(&**host, family, &ColumnFamilyMetaDataOptions::default());
    if !metadata.blob_files.is_empty() {
        return Err(Error::not_supported(format!(
            "exporting column family {:?}: its values are in blob files",
            family.name()
        )));
    }
    let mut exported = ExportImportFilesMetaData {
        db_comparator_name: family.order().name().to_owned(),
        files: Vec::with_capacity(metadata.file_count),
    };
    let use_fsync = database.settings.get().use_fsync;
    for mut file in metadata.levels.into_iter().flat_map(|level| level.files) {
        let from = file.directory.join(&file.relative_filename);
        let to = staging.path(&file.relative_filename);
        link_or_copy(fs, &from, &to, use_fsync)?;
        file.directory = dir.to_owned();
        exported.files.push(file);
    }
    staging.publish(&database.context.info)?;
    Ok(exported)
}

impl Db {
    /// Creates the family `name` from exported tables. Several exports must not overlap. After a crash the
    /// family exists with all its tables, or not at all.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the name is empty or in use, the comparators differ, exports overlap or a level
    /// does not exist; `Corruption` of a file. Nothing has changed then.
    pub fn create_family_with_import(
        &self,
        name: &str,
        options: &FamilyOptions,
        import: &ImportColumnFamilyOptions,
        exports: &[ExportImportFilesMetaData],
    ) -> Result<Family> {
        let shared = self.shared();
        let state = create_with_import(shared, name, options, import, exports)?;
        Ok(Family {
            state,
            db: self.handle.clone(),
        })
    }
}

/// An imported file and its source.
struct Imported {
    outside: PathBuf,
    inside: PathBuf,
    level: usize,
    meta: FileMeta,
}

/// Creates a family from exported tables; see [`Db::create_family_with_import`].
fn create_with_import<H: Host>(
    host: &Arc<H>,
    name: &str,
    options: &FamilyOptions,
    import: &ImportColumnFamilyOptions,
    exports: &[ExportImportFilesMetaData],
) -> Result<Arc<FamilyState>> {
    let database = host.components();
    let Components {
        context, catalog, ..
    } = database;
    host.check_writable()?;
    let options = options_of_new_family(context, &database.settings.get(), name, options)?;
    check_exports(&options.comparator, exports)?;
    let mut imported = Vec::new();
    let brought = host.while_open(|| bring_in(database, &options, import, exports, &mut imported));
    let created = brought
        .unwrap_or_else(|| Err(Error::shutdown("the database is closed")))
        .and_then(|tables| {
            let family = NewFamily {
                name: name.to_owned(),
                options,
                tables,
            };
            create_with_tables(host, family, &imported)
        })
        .inspect_err(|_| {
            // Once the directory is released, closing has deleted them.
            let _deleted = host.while_open(|| {
                let staged = imported.iter().map(|file| file.meta.number);
                let paths = staged.filter_map(|number| catalog.staged.take(number));
                paths.for_each(|path| catalog.deletions.delete(&path));
            });
        });
    let (state, recorded) = created?;
    if import.move_files {
        for file in &imported {
            if let Err(error) = context.world.fs.remove(&file.outside) {
                context.info.warn(format_args!(
                    "an imported file keeps its old name too: {error}"
                ));
            }
        }
    }
    host.schedule_due();
    recorded.map(|()| state)
}

/// Creates `family` with the imported tables. Returns it with the outcome of [`Host::record_families`].
fn create_with_tables<H: Host>(
    host: &Arc<H>,
    family: NewFamily,
    imported: &[Imported],
) -> Result<(Arc<FamilyState>, Result<()>)> {
    let catalog = host.components().catalog;
    let _lead = host.lead_alone()?;
    // An opening that finds the family after a power failure also finds every earlier write.
    host.flush_wal(true)?;
    // Under the lead, which closing takes before it deletes staged files.
    for file in imported {
        catalog.staged.take(file.meta.number);
    }
    let created = host.create_families_led(vec![family]);
    let mut created = created.inspect_err(|failed| {
        for file in imported {
            match failed.in_doubt {
                // The MANIFEST may have it.
                true => catalog.deletions.keep_in_doubt(file.inside.clone()),
                false => catalog.deletions.delete(&file.inside),
            }
        }
    })?;
    let recorded = host.record_families(&created);
    let state = created.pop().expect("one family was created");
    Ok((state, recorded))
}

/// Links or copies the files, which are staged, and returns the edit that adds them to the tree.
fn bring_in(
    database: Components<'_>,
    options: &FamilyOptions,
    import: &ImportColumnFamilyOptions,
    exports: &[ExportImportFilesMetaData],
    imported: &mut Vec<Imported>,
) -> Result<TreeEdit> {
    let Components {
        context, catalog, ..
    } = database;
    let fs = &*context.world.fs;
    let full = database.settings.get().use_fsync;
    let reader = Reader {
        fs,
        io: &context.io,
        order: &options.comparator,
        prefix_extractor: options.prefix_extractor.clone(),
        options: Arc::new(options.table.clone()),
    };
    catalog.sources.create_dirs(options)?;
    let dir = &catalog.sources.dirs(options)[0];
    for file in exports.iter().flat_map(|export| &export.files) {
        let outside = path_of(file)?;
        let meta = import_meta(database, &reader, file, &outside, options)
            .map_err(|error| error.context(format_args!("importing {}", outside.display())))?;
        let inside = dir.join(names::table(meta.number));
        catalog.staged.add(meta.number, &inside);
        imported.push(Imported {
            outside: outside.clone(),
            inside: inside.clone(),
            level: file.level,
            meta,
        });
        let linked = match import.move_files {
            true => copy::link_synced(fs, &outside, &inside, full),
            false => copy::copy(fs, &outside, &inside, None, full),
        };
        match linked {
            Err(error) if import.move_files && copy::cannot_link(&error) => {
                copy::copy(fs, &outside, &inside, None, full)?;
            }
            linked => linked?,
        }
    }
    debug_assert_eq!(
        imported.len(),
        exports
            .iter()
            .map(|export| export.files.len())
            .sum::<usize>(),
        "each file is imported"
    );
    fs.sync_dir(dir)?;
    // Epochs order files by age only if every file has one.
    let all_have_epochs = imported.iter().all(|file| file.meta.epoch != 0);
    let mut newest_first: Vec<usize> = (0..imported.len()).collect();
    newest_first.sort_by_key(|&at| std::cmp::Reverse(imported[at].meta.seqs.largest));
    if !all_have_epochs {
        for (&at, epoch) in newest_first.iter().rev().zip(1..) {
            imported[at].meta.epoch = epoch;
        }
    }
    Ok(TreeEdit {
        added: imported
            .iter()
            .map(|file| (file.level, Arc::new(file.meta.clone())))
            .collect(),
        ..TreeEdit::default()
    })
}

/// Returns the metadata of an exported file for the tree.
fn import_meta(
    database: Components<'_>,
    reader: &Reader<'_>,
    file: &LiveFileMetaData,
    path: &Path,
    options: &FamilyOptions,
) -> Result<FileMeta> {
    let levels = usize::try_from(options.num_levels).unwrap_or(1).max(1);
    if file.level >= levels {
        return Err(Error::invalid_argument(format!(
            "level of the file: expected less than num_levels={levels}, found {}",
            file.level
        )));
    }
    let external = reader.open(path, Some(file.largest_seqno))?;
    if external.size != file.size {
        return Err(Error::corruption(format!(
            "length: expected {}, found {}",
            file.size, external.size
        )));
    }
    if file.oldest_blob_file_number != 0 {
        return Err(values_in_blob_files());
    }
    let (smallest, largest) = match file.smallest.is_empty() || file.largest.is_empty() {
        true => reader
            .bounds(&external.table)?
            .ok_or_else(|| Error::invalid_argument("the file has no entries"))?,
        false => (bound(&file.smallest)?, bound(&file.largest)?),
    };
    if key::compare(reader.order, smallest.as_bytes(), largest.as_bytes()).is_gt() {
        return Err(Error::corruption(
            "the smallest key is larger than the largest",
        ));
    }
    let properties = external.table.properties();
    let mut meta = FileMeta::new(
        database.catalog.numbers.take(),
        external.size,
        smallest,
        largest,
    );
    (meta.seqs.smallest, meta.seqs.largest) = (file.smallest_seqno, file.largest_seqno);
    if meta.seqs.smallest > meta.seqs.largest || meta.seqs.largest > SequenceNumber::MAX {
        return Err(Error::corruption(format!(
            "sequence numbers from {} to {}",
            meta.seqs.smallest, meta.seqs.largest
        )));
    }
    check_numbers_left(meta.seqs.largest)?;
    if file.epoch_number >= u64::MAX / 2 {
        return Err(Error::corruption(format!(
            "epoch {} leaves too few for later tables",
            file.epoch_number
        )));
    }
    meta.epoch = file.epoch_number;
    let now = database.context.world.clock.wall_seconds();
    meta.times.oldest_ancester = match file.oldest_ancester_time {
        0 => now,
        time => time,
    };
    meta.times.file = now;
    meta.temperature = file.temperature;
    if let Some(factory) = &database.settings.get().file_checksum_gen_factory {
        let (value, function) = checksum::of_file(reader.fs, path, factory.start(path))?;
        (meta.checksum.value, meta.checksum.function) = (value, function.into());
    }
    meta.unique_id = cairn_format::id::UniqueId::of_table(
        &properties.db_id,
        &properties.db_session_id,
        properties.original_file_number,
    )
    .map(|id| id.short());
    let persisted = reader.order.timestamp_size() == 0 || !properties.timestamps_stripped;
    meta.timestamps.persisted = persisted;
    if let Some((least, most)) = &properties.timestamps {
        (meta.timestamps.min, meta.timestamps.max) = (least.clone(), most.clone());
    }
    Ok(meta)
}

fn bound(bytes: &[u8]) -> Result<InternalKey> {
    InternalKey::decode(bytes).map_err(|malformed| malformed.in_file("the export's metadata", 0))
}

/// Returns the path of an exported file. Its name is one path component.
fn path_of(file: &LiveFileMetaData) -> Result<PathBuf> {
    let name = file.relative_filename.trim_start_matches('/');
    let single =
        !name.is_empty() && !name.contains(['/', '\\', '\0']) && name != "." && name != "..";
    match single {
        true => Ok(file.directory.join(name)),
        false => Err(Error::invalid_argument(format!(
            "name of an exported file: expected one path component, found {name:?}"
        ))),
    }
}

/// Returns an error for exports with another comparator, without files, or that overlap each other.
fn check_exports(order: &KeyOrder, exports: &[ExportImportFilesMetaData]) -> Result<()> {
    let mut ranges: Vec<(&[u8], &[u8])> = Vec::new();
    for export in exports {
        if export.db_comparator_name != order.name() {
            return Err(Error::invalid_argument(format!(
                "comparator of the export: expected {}, found {}",
                order.name(),
                export.db_comparator_name
            )));
        }
        let size = order.timestamp_size();
        if let Some(short) = export
            .files
            .iter()
            .find(|file| file.smallest_key.len() < size || file.largest_key.len() < size)
        {
            return Err(Error::invalid_argument(format!(
                "bounds of {}: expected keys of at least {size} bytes",
                short.relative_filename
            )));
        }
        let compare = |a: &&[u8], b: &&[u8]| order.compare_without_timestamp(a, b);
        let from = export
            .files
            .iter()
            .map(|file| &file.smallest_key[..])
            .min_by(compare);
        let to = export
            .files
            .iter()
            .map(|file| &file.largest_key[..])
            .max_by(compare);
        ranges.extend(from.zip(to));
    }
    if ranges.is_empty() {
        return Err(Error::invalid_argument("the list of files is empty"));
    }
    ranges.sort_by(|a, b| order.compare_without_timestamp(a.0, b.0));
    let touch = ranges.windows(2).any(|pair| {
        order
            .compare_without_timestamp(pair[0].1, pair[1].0)
            .is_ge()
    });
    match touch {
        true => Err(Error::invalid_argument("the exports overlap each other")),
        false => Ok(()),
    }
}
