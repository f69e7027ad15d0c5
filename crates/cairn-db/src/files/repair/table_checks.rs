//! Checks of the files that a repair finds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::names::{self, FileName};
use cairn_format::table::Properties;
use cairn_options::FamilyOptions;
use cairn_platform::{FileSystem, Io, World};
use cairn_types::{Code, Error, KeyOrder, Result, Subcode};
use cairn_version::{FileMeta, table_dir};

use crate::catalog::file_numbers::is_own;
use crate::files::external::Reader;

/// The names in `dir`; none if it does not exist.
pub(super) fn list(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<String>> {
    match fs.list(dir) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Ok(Vec::new()),
        names => names,
    }
}

/// Returns the comparator of a family: that of its options if it is the recorded one, or a built-in one.
pub(super) fn order(options: &FamilyOptions, recorded: &str) -> Result<KeyOrder> {
    match options.comparator.name() == recorded {
        true => Ok(options.comparator.clone()),
        false => KeyOrder::from_name(recorded).ok_or_else(|| {
            Error::invalid_argument(format!(
                "a family is ordered by comparator {recorded:?}, which was not given"
            ))
        }),
    }
}

/// Returns the path of `file` in the directories of its family.
pub(super) fn path_in(dirs: &[PathBuf], file: &FileMeta) -> PathBuf {
    let dir = table_dir(dirs, file.path_id);
    let name = names::table(file.number);
    dir.map_or_else(|| PathBuf::from(&name), |dir| dir.join(&name))
}

/// Returns the reader for the tables of a family.
pub(super) fn reader<'a>(
    world: &'a World,
    io: &'a Io,
    options: &FamilyOptions,
    order: &'a KeyOrder,
) -> Reader<'a> {
    Reader {
        fs: &*world.fs,
        io,
        order,
        prefix_extractor: options.prefix_extractor.clone(),
        options: Arc::new(options.table.clone()),
    }
}

/// Returns the damage of a table in the tree, if any.
///
/// # Errors
///
/// The reason why it could not be checked.
pub(super) fn damage(
    world: &World,
    options: &FamilyOptions,
    order: &KeyOrder,
    file: &FileMeta,
    path: &Path,
) -> Result<Option<Error>> {
    let io = Io::blocking();
    let check = || {
        let found = match world.fs.status(path) {
            Err(error) if error.subcode() == Subcode::PathNotFound => {
                return Err(Error::corruption("the file is missing"));
            }
            status => status?.len,
        };
        if found != file.size {
            return Err(Error::corruption(format!(
                "length: expected {}, found {found}",
                file.size
            )));
        }
        let external = reader(world, &io, options, order).open(path, Some(file.seqs.largest))?;
        external.table.verify_checksums(&io)
    };
    match twice(check) {
        Ok(()) => Ok(None),
        Err(error) if is_damage(&error) => Ok(Some(error)),
        Err(error) => Err(error),
    }
}

/// True if `error` is the fault of the file that was read. Otherwise another attempt may read it: the process had no free
/// descriptor, for example, or a comparator was not given.
pub(super) fn is_damage(error: &Error) -> bool {
    error.io_kind().is_none() && error.code() != Code::InvalidArgument
}

/// Returns the outcome of `attempt`, or of a second one if the first finds damage: a bit may have been
/// flipped in transit from the disk.
pub(super) fn twice<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    match attempt() {
        Err(error) if error.io_kind().is_none() => attempt(),
        done => done,
    }
}

/// Returns every file in `dirs` that `wanted` accepts and whose name may be a database's, with its path, in
/// the order of numbers.
pub(super) fn files(
    fs: &dyn FileSystem,
    dirs: &[PathBuf],
    wanted: impl Fn(FileName) -> bool,
) -> Result<Vec<(FileName, PathBuf)>> {
    let mut all = Vec::new();
    for dir in dirs {
        for name in list(fs, dir)? {
            match FileName::parse(&name) {
                Some(kind) if wanted(kind) && kind.number().is_none_or(is_own) => {
                    all.push((kind, dir.join(&name)));
                }
                _ => {}
            }
        }
    }
    all.sort_by_key(|(kind, _)| kind.number());
    Ok(all)
}

/// Returns the properties of the table at `path`, which has one of the comparators `orders`.
pub(super) fn properties(
    world: &World,
    orders: &[KeyOrder],
    path: &Path,
    io: &Io,
) -> Result<Properties> {
    let options = FamilyOptions::default();
    let mut refused = None;
    for order in orders {
        match reader(world, io, &options, order).open(path, None) {
            Ok(external) => return Ok(external.table.properties().clone()),
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| Error::corruption("the table cannot be opened")))
}
