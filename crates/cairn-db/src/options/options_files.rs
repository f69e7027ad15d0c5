//! Loading the options with which a database was last opened, and comparing other options with them.

use std::path::{Path, PathBuf};

use cairn_format::names::FileName;
use cairn_format::options_text::from_bytes;
use cairn_options::file::OptionsFile;
use cairn_options::{FamilyOptions, Options};
use cairn_platform::fs::PathKind;
use cairn_platform::{FileSystem, World};
use cairn_types::{Code, Error, Result, Subcode};

use crate::catalog::family::FamilyDescriptor;
use crate::open::read_options;

/// Returns the path of the newest OPTIONS file of the database in `dir`.
///
/// # Errors
///
/// `NotFound` if there is none, or no such directory.
pub fn latest_options_file(dir: &Path, world: &World) -> Result<PathBuf> {
    let names = match world.fs.list(dir) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Vec::new(),
        Err(_)
            if world
                .fs
                .status(dir)
                .is_ok_and(|status| status.kind != PathKind::Directory) =>
        {
            Vec::new()
        }
        names => names?,
    };
    let newest = names
        .iter()
        .filter_map(|name| match FileName::parse(name)? {
            FileName::Options(number) => Some((number, name)),
            _ => None,
        });
    let (_, name) = newest
        .max()
        .ok_or_else(|| not_found(format!("there is no OPTIONS file in {}", dir.display())))?;
    Ok(dir.join(name))
}

/// Returns the options in the newest OPTIONS file of the database in `dir`. With `ignore_unknown`, unknown
/// options of newer releases are skipped.
///
/// Custom objects are found by name if they are registered ([`cairn_options::object_registry`]); the others
/// are listed in [`OptionsFile::unknown`], and must be set by the program. Block caches and the memory of
/// filters are not in the file.
///
/// # Errors
///
/// `NotFound` if there is none; `Corruption` or `InvalidArgument` for its content.
pub fn load_latest_options(dir: &Path, ignore_unknown: bool, world: &World) -> Result<OptionsFile> {
    load_options(&latest_options_file(dir, world)?, ignore_unknown, world)
}

/// Returns the options in the OPTIONS file `path`.
///
/// # Errors
///
/// Those of [`load_latest_options`].
pub fn load_options(path: &Path, ignore_unknown: bool, world: &World) -> Result<OptionsFile> {
    let fs: &dyn FileSystem = &*world.fs;
    let content = read_options(fs, path)?
        .ok_or_else(|| not_found(format!("{} does not exist", path.display())))?;
    OptionsFile::from_text(&from_bytes(&content), ignore_unknown)
        .map_err(|error| error.context(format_args!("options file {}", path.display())))
}

/// Returns an error if the database in `dir`, as described by its newest OPTIONS file, could not be opened
/// with `families`: because a family is missing, or a comparator, merge operator, prefix extractor or table
/// format differs. A database without an OPTIONS file accepts everything.
///
/// # Errors
///
/// `InvalidArgument` with the family and the option; otherwise those of [`load_latest_options`].
pub fn check_options_compatibility(
    dir: &Path,
    families: &[FamilyDescriptor],
    ignore_unknown: bool,
    world: &World,
) -> Result<()> {
    let path = match latest_options_file(dir, world) {
        Err(error) if error.code() == Code::NotFound => return Ok(()),
        path => path?,
    };
    let recorded = load_options(&path, ignore_unknown, world)?;
    for (name, before) in &recorded.families {
        let given = families.iter().find(|given| given.name == *name);
        let given = given
            .ok_or_else(|| Error::invalid_argument(format!("column family {name:?} is missing")))?;
        let named = |option: &str| {
            let mut unknown = recorded.unknown.iter();
            let found = unknown.find(|code| code.family == *name && code.option == option);
            found.map(|code| code.text.clone())
        };
        compare(name, before, named, &given.options)?;
    }
    Ok(())
}

/// Returns an error if an option differs that must not change between openings of a family. `named` has the
/// names of custom objects in the file that are unknown to this release.
fn compare(
    family: &str,
    before: &FamilyOptions,
    named: impl Fn(&str) -> Option<String>,
    given: &FamilyOptions,
) -> Result<()> {
    // A merge operator may be added, since none was needed before.
    let had_operator = before.merge_operator.is_some() || named("merge_operator").is_some();
    let fixed = match had_operator {
        false => &["comparator", "table_factory"][..],
        true => &["comparator", "table_factory", "merge_operator"],
    };
    for name in fixed {
        let old = named(name).map_or_else(|| before.get(name), Ok)?;
        let new = given.get(name)?;
        if old != new {
            return Err(Error::invalid_argument(format!(
                "{name} of column family {family:?}: expected {old} as in its OPTIONS file, found {new}"
            )));
        }
    }
    Ok(())
}

fn not_found(text: String) -> Error {
    Error::new(Code::NotFound, Subcode::None, text)
}
