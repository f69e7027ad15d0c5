//! Repair: restores a database that cannot be opened, or has damaged tables, as far as its files permit, and
//! reports possible losses.
//!
//! [`quarantine`] removes damaged tables from a database whose MANIFEST is intact. [`repair`] does the same,
//! and if the MANIFEST is lost, damaged or cut off it creates a new one from the tables and logs: an opening
//! ignores a torn append at the end, but edits that were durable may be missing there, too. Neither deletes nor
//! overwrites a data file: files that are no longer part of the database are moved to the directory `lost`
//! inside it, and logs are kept there before they are replayed.

mod logged;
mod scan;
mod table_checks;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cairn_format::names::FileName;
use cairn_options::{CompactRangeOptions, DbOptions, FamilyOptions, WalRecoveryMode};
use cairn_platform::{FileSystem, World};
use cairn_types::{Error, FileNumber, KeyOrder, Result, SequenceNumber, Subcode};
use cairn_version::manifest::{self, Contents, FamilyContents, Manifest, Recovered};
use cairn_version::{FileMeta, TreeEdit, Version};

use crate::catalog::family::FamilyDescriptor;
use crate::catalog::file_numbers::is_own;
use crate::files::lost::Lost;
use crate::open::{Dropped, OpenRequest, check_numbers, open_above};

use scan::Found;

/// A table removed from the database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostTable {
    /// Its current path, or the path at which it is missing.
    pub path: PathBuf,
    /// The family it belonged to; empty if unknown.
    pub family: String,
    /// The level it was in.
    pub level: usize,
    /// The first and last user key that it may have contained; `None` if unknown.
    pub keys: Option<(Vec<u8>, Vec<u8>)>,
    /// The reason.
    pub reason: String,
}

/// The report of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// True if a new MANIFEST was created from the tables because the old one was lost, damaged or cut off.
    pub rebuilt: bool,
    /// Tables now in the database.
    pub kept: usize,
    /// Tables no longer in the database. Their data may be lost, and older values and deleted keys may have
    /// reappeared in their key ranges.
    pub lost: Vec<LostTable>,
    /// Files that no family needs, moved to `lost`.
    pub set_aside: Vec<PathBuf>,
    /// Parts of logs that could not be replayed.
    pub dropped: Vec<Dropped>,
    /// The last sequence number now in the database.
    pub last_sequence: SequenceNumber,
}

/// The tables to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Quarantine {
    /// All that are missing or damaged.
    AllDamaged,
    /// The listed ones.
    Tables(Vec<FileNumber>),
}

/// A database under repair, which is not open.
struct Repairer<'a> {
    world: &'a World,
    dir: PathBuf,
    options: &'a DbOptions,
    families: &'a [FamilyDescriptor],
    unknown: &'a FamilyOptions,
    report: RepairReport,
}

/// Removes tables from the database in `path`. Its MANIFEST must be intact; logs are not changed.
///
/// # Errors
///
/// `IoError` if the database is open or a file cannot be read; `Corruption` of the MANIFEST, which requires [`repair`];
/// `InvalidArgument` if a table to be removed is not part of the database.
pub fn quarantine(
    world: &World,
    path: &Path,
    options: &DbOptions,
    families: &[FamilyDescriptor],
    unknown: &FamilyOptions,
    which: &Quarantine,
) -> Result<RepairReport> {
    let mut repairer = Repairer::new(world, path, options, families, unknown)?;
    let _lock = world.fs.lock(&repairer.path_of(FileName::Lock))?;
    let recovered = repairer.whole_manifest()?;
    repairer.take_out(recovered, which)?;
    Ok(repairer.report)
}

/// Repairs the database in `path` as far as its files permit. Families that are not listed get the options
/// `unknown`.
///
/// # Errors
///
/// `IoError` if the database is open or a file cannot be read; `InvalidArgument` if there is none, or a required
/// comparator was not given.
pub fn repair(
    world: &World,
    path: &Path,
    options: &DbOptions,
    families: &[FamilyDescriptor],
    unknown: &FamilyOptions,
) -> Result<RepairReport> {
    let mut repairer = Repairer::new(world, path, options, families, unknown)?;
    let mut floors = BTreeMap::new();
    let mut mixed = Vec::new();
    {
        let _lock = world.fs.lock(&repairer.path_of(FileName::Lock))?;
        repairer.keep_logs()?;
        match repairer.whole_manifest() {
            Ok(recovered) if !repairer.is_cut_off(&recovered)? => {
                repairer.take_out(recovered, &Quarantine::AllDamaged)?;
            }
            Err(error) if !is_lost(&error) => return Err(error),
            _ => {
                let found = Found::look(&mut repairer)?;
                floors = found.floors();
                mixed = found.mixed();
                repairer.rebuild(&found)?;
            }
        }
    }
    repairer.open_and_close(&floors, &mixed)?;
    Ok(repairer.report)
}

impl<'a> Repairer<'a> {
    fn new(
        world: &'a World,
        path: &Path,
        options: &'a DbOptions,
        families: &'a [FamilyDescriptor],
        unknown: &'a FamilyOptions,
    ) -> Result<Repairer<'a>> {
        let dir = world
            .fs
            .canonical(path)
            .map_err(|error| match error.subcode() {
                Subcode::PathNotFound => {
                    Error::invalid_argument(format!("{} does not exist", path.display()))
                }
                _ => error,
            })?;
        Ok(Repairer {
            world,
            dir,
            options,
            families,
            unknown,
            report: RepairReport::default(),
        })
    }

    fn fs(&self) -> &'a dyn FileSystem {
        &*self.world.fs
    }

    fn path_of(&self, name: FileName) -> PathBuf {
        self.dir.join(name.to_string())
    }

    fn wal_dir(&self) -> &Path {
        self.options.wal_dir_of(&self.dir)
    }

    /// Returns the options of a family.
    fn options_of(&self, name: &str) -> &'a FamilyOptions {
        let given = self.families.iter().find(|given| given.name == name);
        given.map_or(self.unknown, |given| &given.options)
    }

    /// Returns every possible comparator of keys.
    fn orders(&self) -> Vec<KeyOrder> {
        let given = self.families.iter().map(|given| &given.options);
        let given = given
            .chain([self.unknown])
            .map(|options| &options.comparator);
        let built_in = [
            KeyOrder::Bytewise,
            KeyOrder::ReverseBytewise,
            KeyOrder::BytewiseU64Ts,
            KeyOrder::ReverseBytewiseU64Ts,
        ];
        built_in.into_iter().chain(given.cloned()).collect()
    }

    /// Returns the state described by the MANIFEST, if it is intact.
    fn whole_manifest(&self) -> Result<Recovered> {
        let number = manifest::current(self.fs(), &self.dir)?
            .ok_or_else(|| Error::corruption(format!("{} has no CURRENT", self.dir.display())))?;
        let order =
            |name: &str, recorded: &str| table_checks::order(self.options_of(name), recorded);
        let recovered = manifest::replay(self.fs(), &self.dir, number, &order)?;
        check_numbers(&recovered)?;
        Ok(recovered)
    }

    /// True if the MANIFEST has more bytes than the edits of `recovered`.
    fn is_cut_off(&self, recovered: &Recovered) -> Result<bool> {
        let path = self.path_of(FileName::Manifest(recovered.manifest));
        Ok(self.fs().status(&path)?.len > recovered.manifest_bytes)
    }

    /// Returns the directories of tables, by path id.
    fn table_dirs(&self, family: &str) -> Vec<PathBuf> {
        let own = &self.options_of(family).cf_paths;
        let paths = if own.is_empty() {
            &self.options.db_paths
        } else {
            own
        };
        match paths.is_empty() {
            true => vec![self.dir.clone()],
            false => paths.iter().map(|place| place.path.clone()).collect(),
        }
    }

    /// Returns every directory that may have tables.
    fn all_table_dirs(&self) -> Vec<PathBuf> {
        let names = self.families.iter().map(|given| given.name.as_str());
        let mut dirs: Vec<PathBuf> = names
            .chain(["default"])
            .flat_map(|name| self.table_dirs(name))
            .collect();
        dirs.push(self.dir.clone());
        dirs.sort();
        dirs.dedup();
        dirs
    }

    fn lost(&self) -> Lost<'_> {
        Lost::of(self.fs(), &self.dir, self.options.use_fsync)
    }

    /// Links `path` in `lost`, and returns the new path. The old name is kept until
    /// [`Repairer::remove_old_names`].
    fn set_aside(&self, path: &Path) -> Result<PathBuf> {
        self.lost().keep(path)
    }

    /// Makes the names in `lost` durable.
    fn sync_lost(&self) -> Result<()> {
        self.lost().sync()
    }

    /// Removes the old names of files linked in `lost`, which the current MANIFEST does not have.
    fn remove_old_names(&self, paths: &[PathBuf]) {
        for path in paths {
            // The next opening removes a name that is left: an error would hide the report of a database that is repaired.
            let _ = self.fs().remove(path);
        }
    }

    /// Keeps a second name of every log: the following opening replays and deletes them.
    fn keep_logs(&mut self) -> Result<()> {
        for log in cairn_wal::list(self.fs(), self.wal_dir())? {
            if self.fs().status(&log.path)?.len > 0 {
                let kept = self.set_aside(&log.path)?;
                self.report.set_aside.push(kept);
            }
        }
        self.sync_lost()
    }

    /// Removes the tables selected by `which` from the tree of `recovered`.
    fn take_out(&mut self, mut recovered: Recovered, which: &Quarantine) -> Result<()> {
        let mut gone = Vec::new();
        let mut named = match which {
            Quarantine::AllDamaged => Vec::new(),
            Quarantine::Tables(numbers) => numbers.clone(),
        };
        for family in &mut recovered.families {
            let dirs = self.table_dirs(&family.name);
            let options = self.options_of(&family.name);
            let mut edit = TreeEdit::default();
            let files: Vec<_> = family
                .version
                .files()
                .map(|(l, f)| (l, f.clone()))
                .collect();
            for (level, file) in files {
                let path = table_checks::path_in(&dirs, &file);
                let asked = named.iter().position(|number| *number == file.number);
                let reason = match (which, asked) {
                    (Quarantine::Tables(_), None) => None,
                    (Quarantine::Tables(_), Some(at)) => {
                        named.swap_remove(at);
                        Some("it was to be removed".to_owned())
                    }
                    (Quarantine::AllDamaged, _) => {
                        let order = family.version.order();
                        table_checks::damage(self.world, options, order, &file, &path)?
                            .map(|error| error.to_string())
                    }
                };
                let Some(reason) = reason else {
                    self.report.kept += 1;
                    continue;
                };
                edit.deleted.push((level, file.number));
                let moved = match self.fs().exists(&path)? {
                    true => self.set_aside(&path)?,
                    false => path.clone(),
                };
                gone.push(path);
                self.report.lost.push(LostTable {
                    path: moved,
                    family: family.name.clone(),
                    level,
                    keys: Some(keys_of(&file)),
                    reason,
                });
            }
            family.version = family.version.with_edit(&edit)?;
        }
        if let Some(number) = named.first() {
            return Err(Error::invalid_argument(format!(
                "table {number} is not part of the database"
            )));
        }
        self.report.last_sequence = recovered.last_sequence;
        self.set_aside_unknown(&recovered, &mut gone)?;
        if gone.is_empty() {
            return Ok(());
        }
        self.sync_lost()?;
        if !self.report.lost.is_empty() {
            self.write_manifest(&recovered)?;
        }
        self.remove_old_names(&gone);
        Ok(())
    }

    /// Moves tables and blob files aside that are not in the MANIFEST, since the next opening would delete
    /// them. Blob files keep their name as well: the logs may refer to their values.
    fn set_aside_unknown(&mut self, recovered: &Recovered, gone: &mut Vec<PathBuf>) -> Result<()> {
        let known = |number: FileNumber| {
            recovered.families.iter().any(|family| {
                family.version.blob_files().contains_key(&number)
                    || family
                        .version
                        .files()
                        .any(|(_, file)| file.number == number)
            })
        };
        for dir in self.all_table_dirs() {
            for name in table_checks::list(self.fs(), &dir)? {
                let (number, is_blob) = match FileName::parse(&name) {
                    Some(FileName::Table(n) | FileName::LegacyTable(n)) => (n, false),
                    Some(FileName::Blob(n)) => (n, true),
                    _ => continue,
                };
                let path = dir.join(&name);
                if !known(number) && !gone.contains(&path) {
                    let kept = self.set_aside(&path)?;
                    self.report.set_aside.push(kept);
                    match is_blob {
                        true => self.sync_lost()?,
                        false => gone.push(path),
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes a MANIFEST of `found` the current one. All other files are moved aside.
    fn rebuild(&mut self, found: &Found) -> Result<()> {
        self.report.rebuilt = true;
        let mut gone = found.gone.clone();
        for name in table_checks::list(self.fs(), &self.dir)? {
            if let Some(FileName::Manifest(_)) = FileName::parse(&name) {
                let path = self.dir.join(&name);
                let kept = self.set_aside(&path)?;
                self.report.set_aside.push(kept);
                gone.push(path);
            }
        }
        self.sync_lost()?;
        let mut recovered = found.recovered()?;
        // A missing predecessor of the first log is accepted: it is not known whether it was needed.
        let logs = cairn_wal::list(self.fs(), self.wal_dir())?;
        recovered.min_log_to_keep = logs.first().map_or(FileNumber(0), |log| log.number);
        self.report.kept = recovered
            .families
            .iter()
            .map(|family| family.version.files().count())
            .sum();
        let number = self.write_manifest(&recovered)?;
        gone.retain(|path| *path != self.path_of(FileName::Manifest(number)));
        self.remove_old_names(&gone);
        Ok(())
    }

    /// Writes the state to a new MANIFEST that becomes the current one.
    fn write_manifest(&self, recovered: &Recovered) -> Result<FileNumber> {
        let fs = self.fs();
        let mut largest = recovered.next_file.0;
        for dir in self
            .all_table_dirs()
            .iter()
            .map(PathBuf::as_path)
            .chain([self.wal_dir()])
        {
            for name in table_checks::list(fs, dir)? {
                let number = FileName::parse(&name).and_then(FileName::number);
                let number = number.filter(|number| is_own(*number));
                largest = largest.max(number.map_or(0, |number| number.0 + 1));
            }
        }
        let number = FileNumber(largest);
        let files = recovered
            .families
            .iter()
            .flat_map(|family| family.version.files());
        assert!(
            files.map(|(_, file)| file.number).max() < Some(number),
            "MANIFEST {number} is newer than the tables that it names"
        );
        let contents = Contents {
            db_id: recovered.db_id.as_deref(),
            next_file: FileNumber(largest + 1),
            last_sequence: recovered.last_sequence,
            min_log_to_keep: recovered.min_log_to_keep,
            max_family: recovered.max_family,
            wals: &recovered.wals,
            // Losses of the logs are reported, and the tables are kept.
            log_reach: None,
            families: recovered
                .families
                .iter()
                .map(|family| FamilyContents {
                    id: family.id,
                    name: &family.name,
                    version: &family.version,
                    log_number: family.log_number,
                    full_history_ts_low: &family.full_history_ts_low,
                    persist_timestamps: family.persist_timestamps,
                })
                .collect(),
        };
        let manifest = Manifest::create(fs, &self.dir, number, &contents, &[])?;
        manifest.close()?;
        Ok(number)
    }

    /// Opens the database once: logs are replayed as far as they can be read, and flushed to tables. The
    /// families in `mixed` are compacted.
    fn open_and_close(
        &mut self,
        floors: &BTreeMap<u32, SequenceNumber>,
        mixed: &[String],
    ) -> Result<()> {
        let options = DbOptions {
            create_if_missing: false,
            error_if_exists: false,
            create_missing_column_families: false,
            wal_recovery_mode: WalRecoveryMode::SkipAnyCorruptedRecords,
            avoid_flush_during_recovery: false,
            // A recycled log would change the copy in `lost`, which is a link.
            recycle_log_file_num: 0,
            track_and_verify_wals_in_manifest: false,
            track_and_verify_wals: false,
            // It would leave the logs out.
            best_efforts_recovery: false,
            ..self.options.clone()
        };
        let known = crate::open::list_families(&self.dir, self.world)?;
        let families: Vec<FamilyDescriptor> = self
            .families
            .iter()
            .filter(|given| known.contains(&given.name))
            .cloned()
            .collect();
        let request = OpenRequest {
            path: &self.dir,
            options: &options,
            families: &families,
            others: Some(self.unknown),
            read_only: false,
            world: self.world.clone(),
        };
        let db = open_above(&request, floors)?;
        self.report.dropped = db.dropped_at_recovery();
        self.report.last_sequence = db.latest_sequence();
        for name in mixed {
            if let Some(family) = db.family(name) {
                family.compact_range(None, None, &CompactRangeOptions::default())?;
            }
        }
        db.close()
    }
}

/// True if a MANIFEST that is read with `error` is damaged or missing. Another attempt may succeed after any other error.
fn is_lost(error: &Error) -> bool {
    error.is_corruption() || error.subcode() == Subcode::PathNotFound
}

/// Returns the range of user keys that a table may contain.
fn keys_of(file: &FileMeta) -> (Vec<u8>, Vec<u8>) {
    (
        file.smallest.user_key().to_vec(),
        file.largest.user_key().to_vec(),
    )
}

/// Returns an empty tree with `options`.
fn empty_tree(options: &FamilyOptions, order: KeyOrder) -> Version {
    let levels = usize::try_from(options.num_levels).unwrap_or(1).max(1);
    Version::empty(order, levels)
}
