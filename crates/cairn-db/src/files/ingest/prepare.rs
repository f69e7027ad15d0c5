//! The part of an ingestion during which writes proceed: files are examined, and linked or copied under
//! numbers of the database.

use std::path::{Path, PathBuf};

use cairn_format::id::UniqueId;
use cairn_format::key::InternalKey;
use cairn_format::names;
use cairn_format::table::{Properties, meta};
use cairn_format::trace::block_cache::CacheCaller;
use cairn_jobs::checksum;
use cairn_jobs::ingest::{self, Incoming};
use cairn_platform::FileSystem;
use cairn_platform::fs::FileMode;
use cairn_table::Table;
use cairn_types::{Error, FileNumber, KeyOrder, Result, SequenceNumber, Subcode, ValueKind};
use cairn_version::file_meta::{EntryCounts, NO_CHECKSUM_FUNCTION};

use super::{Input, ReplaceRange, abandon};
use crate::catalog::family::FamilyState;
use crate::context::DbContext;
use crate::files::copy;
use crate::files::external::{
    Reader, check_numbers_left, oldest_blob, sequence_numbers, values_in_blob_files,
};
use crate::files::host::Components;
use crate::files::prepared_info::PreparedFileInfo;
use crate::files::sst_writer::SstFileWriter;

/// The files of one family, ready to be placed.
pub(super) struct Prepared {
    pub(super) input: Input,
    pub(crate) files: Vec<PreparedFile>,
    /// The positions of the files, batch by batch; see [`ingest::batches`].
    pub(crate) batches: Vec<Vec<usize>>,
    /// The keys to be replaced.
    pub(super) replaced: Replaced,
    /// The files of that range that leave the tree, with their levels.
    pub(crate) leaving: Vec<(usize, FileNumber)>,
    /// The position in `files` of the range tombstone over the range; `None` if all of its files leave.
    pub(crate) tombstone: Option<usize>,
}

/// The keys of a family that an ingestion replaces.
#[derive(Clone)]
pub(super) enum Replaced {
    Nothing,
    Everything,
    /// The keys within internal bounds, of which the upper one is exclusive.
    Range(Incoming),
}

/// A linked or copied file.
pub(super) struct PreparedFile {
    /// The caller's file.
    pub(crate) outside: PathBuf,
    /// The file in the database's directory.
    pub(crate) inside: PathBuf,
    pub(crate) number: FileNumber,
    pub(crate) path_id: u32,
    pub(crate) size: u64,
    pub(crate) bounds: Incoming,
    pub(crate) tail_size: u64,
    pub(crate) unique_id: Option<[u64; 2]>,
    pub(crate) counts: EntryCounts,
    pub(crate) timestamps: Option<(Vec<u8>, Vec<u8>)>,
    pub(crate) timestamps_persisted: bool,
    /// The sequence numbers in the file, if it keeps them.
    pub(crate) own_seqs: (SequenceNumber, SequenceNumber),
    /// The offset of the global sequence number in the file, if it is to be written there.
    pub(crate) seqno_at: Option<u64>,
    pub(crate) checksum: (Vec<u8>, String),
}

/// Returns the reader of external files for `family`.
fn external_reader<'a>(context: &'a DbContext, family: &'a FamilyState) -> Reader<'a> {
    Reader {
        fs: &*context.world.fs,
        io: &context.io,
        order: family.order(),
        prefix_extractor: family.options().prefix_extractor.clone(),
        options: family.tables().options.clone(),
    }
}

/// Examines the files of `ingestion` and links or copies them. After an error, none of them is left in
/// the database's directory.
pub(super) fn prepare(database: Components<'_>, input: Input) -> Result<Prepared> {
    let mut prepared = Prepared {
        input,
        files: Vec::new(),
        batches: Vec::new(),
        replaced: Replaced::Nothing,
        leaving: Vec::new(),
        tombstone: None,
    };
    let done = examine(database, &mut prepared).and_then(|()| {
        for at in 0..prepared.files.len() {
            bring_in(database, &prepared, at)?;
        }
        sync_table_dirs(database, &prepared)?;
        take_checksums(database, &mut prepared)
    });
    match done {
        Ok(()) => Ok(prepared),
        Err(error) => {
            abandon(database, std::slice::from_ref(&prepared));
            Err(error)
        }
    }
}

/// Opens the caller's files of `prepared`, and divides them into batches without overlap.
fn examine(database: Components<'_>, prepared: &mut Prepared) -> Result<()> {
    for (at, path) in prepared.input.files.iter().enumerate() {
        prepared.files.push(
            inspect_file(database, &prepared.input, at)
                .map_err(|error| error.context(format_args!("ingesting {}", path.display())))?,
        );
    }
    divide(prepared)?;
    let bounds: Vec<Incoming> = prepared.files.iter().map(|f| f.bounds.clone()).collect();
    prepared.replaced = replaced(&prepared.input, &bounds)?;
    Ok(())
}

/// Divides the files of `prepared` into batches without overlap.
pub(super) fn divide(prepared: &mut Prepared) -> Result<()> {
    let order = prepared.input.family.order();
    let bounds: Vec<Incoming> = prepared.files.iter().map(|f| f.bounds.clone()).collect();
    prepared.batches = ingest::batches(order, &bounds);
    let options = &prepared.input.options;
    if prepared.batches.len() > 1 {
        if options.ingest_behind {
            return Err(Error::not_supported(
                "files that overlap each other cannot be ingested behind",
            ));
        }
        if !options.allow_global_seqno && !options.allow_db_generated_files {
            return Err(Error::invalid_argument(
                "the files overlap each other, so they need sequence numbers, which \
                 allow_global_seqno=false forbids",
            ));
        }
        if order.timestamp_size() > 0 {
            return Err(Error::not_supported(
                "files that overlap each other cannot be ingested into a family whose keys \
                 have timestamps",
            ));
        }
    }
    debug_assert_eq!(
        prepared.batches.iter().flatten().count(),
        prepared.files.len(),
        "each file is in one batch"
    );
    Ok(())
}

/// Returns the keys to be replaced. Rejects files outside of them.
fn replaced(input: &Input, files: &[Incoming]) -> Result<Replaced> {
    let (from, to) = match &input.replace {
        None => return Ok(Replaced::Nothing),
        Some(ReplaceRange::All) => return Ok(Replaced::Everything),
        Some(ReplaceRange::Keys(from, to)) => (from, to),
    };
    let order = input.family.order();
    let stamp = vec![0xff; order.timestamp_size()];
    let key = |user: &[u8]| [user, &stamp].concat();
    if !order
        .compare_without_timestamp(&key(from), &key(to))
        .is_lt()
    {
        return Err(Error::invalid_argument(
            "the range to be replaced is empty: its start must be before its limit",
        ));
    }
    let range = Incoming {
        smallest: ingest::first_of(order, &key(from)),
        largest: InternalKey::new(&key(to), SequenceNumber::MAX, ValueKind::RangeDeletion),
        first_overlap: None,
    };
    match files.iter().all(|file| contains(order, &range, file)) {
        true => Ok(Replaced::Range(range)),
        false => Err(Error::invalid_argument(
            "the range to be replaced does not contain all files that are ingested",
        )),
    }
}

/// The information about a file that determines its place in the tree.
struct Facts {
    size: u64,
    smallest: InternalKey,
    largest: InternalKey,
    /// The sequence numbers in the file, if it keeps them.
    own_seqs: (SequenceNumber, SequenceNumber),
    /// The offset of the global sequence number, if it is to be written.
    seqno_at: Option<u64>,
    properties: Properties,
}

/// Collects the information about the caller's file at position `at`, from its description or from the file.
fn inspect_file(database: Components<'_>, input: &Input, at: usize) -> Result<PreparedFile> {
    let path = &input.files[at];
    let facts = match input.file_infos.get(at) {
        Some(info) => described(database, input, path, info)?,
        None => read(database, input, path)?,
    };
    let number = database.catalog.numbers.take();
    Ok(prepared_file(input, path, number, facts))
}

/// Returns the file `path`, which is to become table `number`.
fn prepared_file(input: &Input, path: &Path, number: FileNumber, facts: Facts) -> PreparedFile {
    let family = &input.family;
    let properties = &facts.properties;
    let data_end = match properties.tail_start_offset {
        0 => properties.data_size,
        at => at,
    };
    PreparedFile {
        outside: path.to_owned(),
        inside: family.tables().paths[0].join(names::table(number)),
        number,
        path_id: 0,
        size: facts.size,
        bounds: Incoming {
            smallest: facts.smallest,
            largest: facts.largest,
            first_overlap: None,
        },
        tail_size: match data_end {
            0 => 0,
            end => facts.size.saturating_sub(end),
        },
        unique_id: UniqueId::of_table(
            &properties.db_id,
            &properties.db_session_id,
            properties.original_file_number,
        )
        .map(|id| id.short()),
        counts: EntryCounts::of(properties),
        timestamps: properties.timestamps.clone(),
        timestamps_persisted: has_timestamps(input, properties),
        own_seqs: facts.own_seqs,
        seqno_at: facts.seqno_at,
        checksum: (Vec::new(), NO_CHECKSUM_FUNCTION.to_owned()),
    }
}

/// Writes the table `number` with a range tombstone over `range`, into the directory of the family.
pub(super) fn write_tombstone(
    database: Components<'_>,
    input: &Input,
    number: FileNumber,
    range: &Incoming,
) -> Result<PreparedFile> {
    let (context, family) = (database.context, &input.family);
    let settings = database.settings.get();
    let dir = &family.tables().paths[0];
    let path = dir.join(names::table(number));
    let mut writer = SstFileWriter::new(&context.world, &settings, &family.options());
    writer.open(&path)?;
    writer.delete_range(range.smallest.user_key(), range.largest.user_key())?;
    writer.finish()?;
    context.world.fs.sync_dir(dir)?;
    let facts = read(database, input, &path)?;
    let mut file = prepared_file(input, &path, number, facts);
    if let Some(factory) = &settings.file_checksum_gen_factory {
        file.checksum = checksum::of_file(&*context.world.fs, &path, factory.start(&path))?;
    }
    Ok(file)
}

/// Opens the file at `path`, and reads what an ingestion has to know.
fn read(database: Components<'_>, input: &Input, path: &Path) -> Result<Facts> {
    let options = &input.options;
    let reader = external_reader(database.context, &input.family);
    let external = reader.open(path, Some(SequenceNumber::ZERO))?;
    let table = &external.table;
    let properties = table.properties();
    check_properties(properties, input)?;
    if options.verify_checksums_before_ingest {
        table.verify_checksums(&database.context.io)?;
    }
    let (smallest, largest) = reader.bounds(table)?.ok_or_else(no_entries)?;
    let own_seqs = match options.allow_db_generated_files {
        true => sequence_numbers(
            table,
            &database.context.io,
            CacheCaller::Ingestion,
            |entry, value| {
                let blob = oldest_blob(entry, value);
                match blob.map_err(|malformed| malformed.in_file(path.display(), 0))? {
                    None => Ok(()),
                    Some(_) => Err(values_in_blob_files()),
                }
            },
        )?,
        false => {
            check_external(&smallest, &largest, properties.key_largest_seqno)?;
            (SequenceNumber::ZERO, SequenceNumber::ZERO)
        }
    };
    check_numbers_left(own_seqs.1)?;
    let seqno_at = match options.write_global_seqno {
        true => Some(place_of_seqno(&*database.context.world.fs, path, table)?),
        false => None,
    };
    Ok(Facts {
        size: external.size,
        smallest,
        largest,
        own_seqs,
        seqno_at,
        properties: properties.clone(),
    })
}

/// Returns what `info` states about the file at `path`. The file is opened only to verify its checksums.
fn described(
    database: Components<'_>,
    input: &Input,
    path: &Path,
    info: &PreparedFileInfo,
) -> Result<Facts> {
    let (family, options, properties) = (&input.family, &input.options, info.properties());
    check_order(family.order(), properties)?;
    check_properties(properties, input)?;
    let found = database.context.world.fs.status(path)?.len;
    if found != info.file_size() {
        return Err(Error::corruption(format!(
            "length of the file: expected {} as in its description, found {found}",
            info.file_size()
        )));
    }
    if options.verify_checksums_before_ingest {
        let reader = external_reader(database.context, family);
        let external = reader.open(path, Some(SequenceNumber::ZERO))?;
        external.table.verify_checksums(&database.context.io)?;
    }
    let (smallest, largest) = info.bounds(family.order())?;
    let own_seqs = match options.allow_db_generated_files {
        true => info.seqs().ok_or_else(|| {
            Error::corruption("the description of the file has no sequence numbers")
        })?,
        false => {
            let most = info.seqs().map_or(0, |(_, largest)| largest.0);
            check_external(&smallest, &largest, most)?;
            (SequenceNumber::ZERO, SequenceNumber::ZERO)
        }
    };
    check_numbers_left(own_seqs.1)?;
    Ok(Facts {
        size: found,
        smallest,
        largest,
        own_seqs,
        seqno_at: None,
        properties: properties.clone(),
    })
}

#[cold]
fn no_entries() -> Error {
    Error::invalid_argument("the file has no entries")
}

/// True if the keys of a file with these properties have the timestamps of its family, or if they need none.
fn has_timestamps(input: &Input, properties: &Properties) -> bool {
    let order = input.family.order();
    properties.comparator == order.name() && !properties.timestamps_stripped
        || order.timestamp_size() == 0
}

/// Rejects files that the family or the options of `input` do not permit.
fn check_properties(properties: &Properties, input: &Input) -> Result<()> {
    check_origin(properties, input)?;
    let (family, persisted) = (&input.family, has_timestamps(input, properties));
    if persisted != family.persist_timestamps {
        return Err(Error::invalid_argument(format!(
            "timestamps in the file: expected {} as in column family {:?}, found {persisted}",
            family.persist_timestamps,
            family.name()
        )));
    }
    match properties.num_entries == 0 && properties.num_range_deletions == 0 {
        true => Err(no_entries()),
        false => Ok(()),
    }
}

/// Rejects the description of a file with another order than `order`.
fn check_order(order: &KeyOrder, properties: &Properties) -> Result<()> {
    let (ours, theirs) = (order.name(), &properties.comparator[..]);
    let stripped = properties.timestamps_stripped;
    let fits = theirs.is_empty()
        || ours == theirs
        || stripped && ours.strip_suffix(".u64ts") == Some(theirs)
        || stripped && theirs.strip_suffix(".u64ts") == Some(ours);
    match fits {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!(
            "key order of the file: expected {ours}, found {theirs}"
        ))),
    }
}

/// Rejects an external file whose entries have sequence numbers.
fn check_external(smallest: &InternalKey, largest: &InternalKey, most: u64) -> Result<()> {
    // The end of a tombstone is a bound, too, with the largest possible number.
    let zero = smallest.seq() == SequenceNumber::ZERO
        && (largest.is_exclusive_bound() || largest.seq() == SequenceNumber::ZERO);
    match zero && most == 0 {
        true => Ok(()),
        false => Err(Error::corruption(
            "the file is an external one and has entries with sequence numbers",
        )),
    }
}

/// Returns the offset of the global sequence number in the file `path`.
fn place_of_seqno(fs: &dyn FileSystem, path: &Path, table: &Table) -> Result<u64> {
    let missing = || {
        Error::invalid_argument(
            "write_global_seqno: the file has no place for a global sequence number",
        )
    };
    let handle = table.parts().find(meta::PROPERTIES).ok_or_else(missing)?;
    let file = fs.open(path, FileMode::default())?;
    let len = usize::try_from(handle.size).map_err(|_| missing())?;
    let mut block = vec![0; len];
    let got = file.read_at(handle.offset, &mut block)?;
    block.truncate(got);
    let place = Properties::find_global_seqno(&block).ok_or_else(missing)?;
    Ok(handle.offset + place.start as u64)
}

/// Links or copies a file into the database, under a name that no version has yet.
fn bring_in(database: Components<'_>, prepared: &Prepared, at: usize) -> Result<()> {
    let file = &prepared.files[at];
    let options = &prepared.input.options;
    let context = database.context;
    let fs = &*context.world.fs;
    match fs.status(&file.inside) {
        Err(error) if error.subcode() == Subcode::PathNotFound => {}
        Err(error) => return Err(error),
        // Registered, it would be deleted when the ingestion fails.
        Ok(_) => {
            return Err(Error::invalid_argument(format!(
                "ingesting {}: {} exists, and is no file of the database; ingest files from another directory",
                file.outside.display(),
                file.inside.display()
            )));
        }
    }
    database.catalog.staged.add(file.number, &file.inside);
    let full = database.settings.get().use_fsync;
    if options.move_files || options.link_files {
        match copy::link_synced(fs, &file.outside, &file.inside, full) {
            Err(error) if options.failed_move_fall_back_to_copy && copy::cannot_link(&error) => {
                context.info.info(format_args!(
                    "{} is copied because it cannot be linked: {error}",
                    file.outside.display()
                ));
            }
            linked => return linked,
        }
    }
    copy::copy(fs, &file.outside, &file.inside, None, full)
}

/// Makes the names of the files in the database's directories durable.
fn sync_table_dirs(database: Components<'_>, prepared: &Prepared) -> Result<()> {
    let mut dirs: Vec<&Path> = prepared
        .files
        .iter()
        .filter_map(|file| file.inside.parent())
        .collect();
    dirs.sort();
    dirs.dedup();
    dirs.into_iter()
        .try_for_each(|dir| database.context.world.fs.sync_dir(dir))
}

/// Computes the checksums of whole files, if the database keeps them, and compares them with those of the
/// caller.
fn take_checksums(database: Components<'_>, prepared: &mut Prepared) -> Result<()> {
    let settings = database.settings.get();
    let Some(factory) = &settings.file_checksum_gen_factory else {
        return Ok(());
    };
    let input = &prepared.input;
    let given = (&input.checksums, &input.checksum_functions);
    let count = input.files.len();
    let complete = given.0.len() == count && given.1.len() == count;
    let any = !given.0.is_empty() || !given.1.is_empty();
    if any && !complete {
        return Err(Error::invalid_argument(format!(
            "checksums of {count} files: found {} checksums and {} function names",
            given.0.len(),
            given.1.len()
        )));
    }
    for (at, file) in prepared.files.iter_mut().enumerate() {
        let given = complete.then(|| (&given.0[at], &given.1[at]));
        let running = match given {
            Some((_, function)) => factory.start_requested(&file.inside, function)?,
            None => factory.start(&file.inside),
        };
        let trusted = given.filter(|_| !input.options.verify_file_checksum);
        file.checksum = match trusted {
            Some((checksum, function)) => (checksum.clone(), function.clone()),
            None => checksum::of_file(&*database.context.world.fs, &file.inside, running)?,
        };
        if let Some((expected, _)) = given
            && *expected != file.checksum.0
        {
            return Err(Error::corruption(format!(
                "checksum of {}: expected {expected:02x?}, found {:02x?}",
                file.outside.display(),
                file.checksum.0
            )));
        }
    }
    Ok(())
}

/// True if `file` is entirely within `range`, whose end is exclusive.
pub(super) fn contains(order: &cairn_types::KeyOrder, range: &Incoming, file: &Incoming) -> bool {
    let compare = |a: &[u8], b: &[u8]| order.compare_without_timestamp(a, b);
    let end = compare(file.largest.user_key(), range.largest.user_key());
    compare(range.smallest.user_key(), file.smallest.user_key()).is_le()
        && (end.is_lt() || end.is_eq() && file.largest.is_exclusive_bound())
}

/// Rejects files not written by an SST writer, and files written for another family, unless the options
/// permit them.
fn check_origin(properties: &Properties, input: &Input) -> Result<()> {
    /// The id of files that were written for no particular family.
    const ANY_FAMILY: u64 = 0x7fff_ffff;
    let options = &input.options;
    let foreign = properties.column_family_id != ANY_FAMILY
        && properties.column_family_id != u64::from(input.family.id());
    if foreign && !options.allow_db_generated_files {
        return Err(Error::invalid_argument(format!(
            "column family of the file: expected {} ({:?}), found {} ({:?})",
            input.family.id(),
            input.family.name(),
            properties.column_family_id,
            properties.column_family_name
        )));
    }
    match properties.external_version {
        Some(2) if properties.global_seqno.is_none() => Err(Error::corruption(
            "the file is an external one without a global sequence number",
        )),
        Some(2) => Ok(()),
        Some(1) if options.allow_blocking_flush || options.allow_global_seqno => {
            Err(Error::invalid_argument(
                "the file is an external one of version 1, which can get no sequence number: set \
                 allow_blocking_flush and allow_global_seqno to false",
            ))
        }
        Some(1) => Ok(()),
        None if options.allow_db_generated_files => Ok(()),
        None => Err(Error::corruption(
            "the file was not made by an SST writer (it has no property \
             rocksdb.external_sst_file.version); allow_db_generated_files takes it as it is",
        )),
        Some(version) => Err(Error::invalid_argument(format!(
            "version of the external file: expected 1 or 2, found {version}"
        ))),
    }
}
