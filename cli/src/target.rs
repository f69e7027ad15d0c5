//! Opens the database of a command with its options.
//!
//! Options come from three sources, later ones taking precedence: the newest OPTIONS file, if it is
//! usable; `--options`; `--family-options`. Comparators and built-in merge operators recorded in the
//! files need not be given.

use std::path::Path;

use cairn::options::load_options;
use cairn::{Db, Family, FamilyDescriptor};
use cairn_format::names::FileName;
use cairn_options::file::OptionsFile;
use cairn_options::{DbOptions, FamilyOptions, Options, apply_mixed};
use cairn_platform::{FileSystem, PosixFileSystem, World};
use cairn_types::{Error, FileNumber, Result};

use crate::args::Target;
use crate::complain;

/// The access that a command needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Read-only.
    Read,
    /// Read and write.
    Write,
    /// Read and write, creating a missing database.
    Create,
}

/// Opens the database of `target`.
///
/// # Errors
///
/// Option parse errors, and those of [`Db::open`].
pub fn open(target: &Target, purpose: Use) -> Result<Db> {
    let exists = PosixFileSystem.exists(&target.db.join("CURRENT"))?;
    let names = match exists {
        true => Db::list_families(&target.db)?,
        false => vec!["default".to_owned()],
    };
    let base = match exists && !target.ignore_options_file {
        true => newest_options(&target.db)?,
        false => None,
    };
    let mut settings = Settings::new(base, &target.options)?;
    settings.db.create_if_missing = purpose == Use::Create;
    let families = settings.families(&names, &target.family_options)?;
    let options = cairn::Options {
        db: settings.db,
        family: FamilyOptions::default(),
    };
    Db::builder(&target.db)
        .options(options)
        .families(families)
        .read_only(purpose == Use::Read)
        .open()
}

/// Returns the options for the database of `target` without reading its MANIFEST, which may be missing.
///
/// # Errors
///
/// Option parse errors.
pub fn settings(target: &Target) -> Result<(cairn::Options, Vec<FamilyDescriptor>)> {
    let base = match target.ignore_options_file {
        true => None,
        false => newest_options(&target.db)?,
    };
    let mut names: Vec<String> = base
        .iter()
        .flat_map(|file| file.families.iter().map(|(name, _)| name.clone()))
        .collect();
    for text in &target.family_options {
        let name = text.split('=').next().unwrap_or_default();
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    let settings = Settings::new(base, &target.options)?;
    let families = settings.families(&names, &target.family_options)?;
    let mut unknown = FamilyOptions::default();
    apply_mixed(&mut DbOptions::default(), &mut unknown, &target.options)?;
    let options = cairn::Options {
        db: settings.db,
        family: unknown,
    };
    Ok((options, families))
}

/// Options before they are assigned to families.
struct Settings<'a> {
    db: DbOptions,
    base: Option<OptionsFile>,
    /// Option string of the database and all families.
    text: &'a str,
}

impl<'a> Settings<'a> {
    fn new(base: Option<OptionsFile>, text: &'a str) -> Result<Settings<'a>> {
        let mut db = base
            .as_ref()
            .map_or_else(DbOptions::default, |file| file.db.clone());
        // These options describe the last open, not the database.
        db.error_if_exists = false;
        db.create_missing_column_families = false;
        db.best_efforts_recovery = false;
        apply_mixed(&mut db, &mut FamilyOptions::default(), text)?;
        Ok(Settings { db, base, text })
    }

    /// Returns the families `names` with their options; `own` has texts of the form `NAME=STRING`.
    fn families(&self, names: &[String], own: &[String]) -> Result<Vec<FamilyDescriptor>> {
        let mut families = Vec::new();
        for name in names {
            let recorded = self
                .base
                .as_ref()
                .and_then(|file| file.family(name))
                .cloned();
            let mut options = recorded.unwrap_or_default();
            apply_mixed(&mut DbOptions::default(), &mut options, self.text)?;
            families.push(FamilyDescriptor::new(name.clone(), options));
        }
        for text in own {
            let (name, text) = text.split_once('=').ok_or_else(|| {
                Error::invalid_argument(format!("--family-options {text}: expected NAME=STRING"))
            })?;
            let family = families.iter_mut().find(|family| family.name == name);
            let family = family.ok_or_else(|| {
                Error::invalid_argument(format!("--family-options: no family {name:?}"))
            })?;
            family.options.update_from(text)?;
        }
        Ok(families)
    }
}

/// Returns the newest OPTIONS file of the database in `dir`. An unusable file is reported and
/// ignored, because it is not part of the data.
///
/// # Errors
///
/// Those of listing the directory.
pub fn newest_options(dir: &Path) -> Result<Option<OptionsFile>> {
    let mut numbers: Vec<FileNumber> = Vec::new();
    for name in PosixFileSystem.list(dir)? {
        if let Some(FileName::Options(number)) = FileName::parse(&name) {
            numbers.push(number);
        }
    }
    let Some(newest) = numbers.into_iter().max() else {
        return Ok(None);
    };
    let name = FileName::Options(newest).to_string();
    match load_options(&dir.join(&name), true, &World::posix()) {
        Ok(file) => {
            for code in &file.unknown {
                let (family, option, text) = (&code.family, &code.option, &code.text);
                complain(format_args!(
                    "{name}: {option}={text} of family {family:?} is not registered, or lacks its parameters, and is left out"
                ));
            }
            for option in &file.passed_over {
                complain(format_args!("{name}: {option} is unknown and ignored"));
            }
            Ok(Some(file))
        }
        Err(error) => {
            complain(format_args!("{name} is ignored: {error}"));
            Ok(None)
        }
    }
}

/// Returns the family `name`.
///
/// # Errors
///
/// `InvalidArgument` if it does not exist.
pub fn family<'db>(db: &'db Db, name: &str) -> Result<Family<'db>> {
    db.family(name).ok_or_else(|| {
        let names: Vec<String> = db
            .families()
            .iter()
            .map(|it| it.name().to_owned())
            .collect();
        Error::invalid_argument(format!(
            "no column family {name:?}; the database has {}",
            names.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_texts_override_earlier_ones() {
        let mut file = OptionsFile::default();
        for name in ["default", "other"] {
            let options = FamilyOptions::from_text("num_levels=4;merge_operator=max").unwrap();
            file.families.push((name.to_owned(), options));
        }
        file.db.create_missing_column_families = true;
        let settings = Settings::new(Some(file), "num_levels=5;max_open_files=9").unwrap();
        assert_eq!(settings.db.max_open_files, 9);
        assert!(!settings.db.create_missing_column_families);
        let names = ["default".to_owned(), "other".to_owned(), "new".to_owned()];
        let families = settings
            .families(&names, &["other=num_levels=6".to_owned()])
            .unwrap();
        let levels: Vec<i32> = families
            .iter()
            .map(|family| family.options.num_levels)
            .collect();
        assert_eq!(levels, [5, 6, 5]);
        assert!(families[1].options.merge_operator.is_some());
        assert!(families[2].options.merge_operator.is_none());
        assert!(settings.families(&names, &["nosuch=".to_owned()]).is_err());
        assert!(settings.families(&names, &["nonsense".to_owned()]).is_err());
    }
}
