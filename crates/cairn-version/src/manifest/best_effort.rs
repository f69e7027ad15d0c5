//! Best-efforts recovery of a database that has lost files.
//!
//! The newest MANIFEST is read up to its first damage. Each column family is recovered to the last
//! state in which every table, and every blob file that its tables refer to, exists with its full
//! size; families changed by the same atomic group are recovered together. Of a family that no atomic
//! group changed, only the newest tables of level 0 may be missing, and the blob files to which they
//! alone refer: the state is recovered without them. If a family has no such state, the previous
//! MANIFEST is tried. Later edits are ignored, and so are WALs, which belong to
//! later states. The MANIFEST is read twice: to find the states and to build them. Damage counts
//! only if a second read confirms it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use cairn_format::manifest::{FamilyChange, VersionEdit};
use cairn_format::names::FileName;
use cairn_platform::FileSystem;
use cairn_types::{Error, FileNumber, KeyOrder, Result};

use super::replay::{DEFAULT_FAMILY, Groups, Recovered, Replay, UnreadTail, read_up_to_damage};
use crate::blob_file_meta::BlobGarbage;
use crate::edit::TreeEdit;
use crate::file_meta::FileMeta;
use crate::level::sort_newest_first;

/// Checks whether a file of a family, given by name, exists with its full size.
pub struct FileProbe<'a> {
    /// Checks a table.
    pub table: &'a dyn Fn(&str, &FileMeta) -> Result<bool>,
    /// Checks a blob file.
    pub blob: &'a dyn Fn(&str, FileNumber) -> Result<bool>,
}

/// Recovers the last complete state of each family from the MANIFESTs of `dir`; `None` if there is no
/// MANIFEST. CURRENT is ignored.
///
/// # Errors
///
/// `Corruption` if no MANIFEST has a complete state of each of its families; errors of `order`;
/// `IoError`, including that of a MANIFEST that reads differently the second time.
pub fn replay_best_effort(
    fs: &dyn FileSystem,
    dir: &Path,
    order: &dyn Fn(&str, &str) -> Result<KeyOrder>,
    present: &FileProbe<'_>,
) -> Result<Option<Recovered>> {
    let names = fs.list(dir)?;
    let mut manifests: Vec<FileNumber> = names
        .iter()
        .filter_map(|name| match FileName::parse(name) {
            Some(FileName::Manifest(number)) => Some(number),
            _ => None,
        })
        .collect();
    manifests.sort_unstable_by(|a, b| b.cmp(a));
    let mut refused = None;
    for number in manifests {
        match replay_one(fs, dir, number, order, present) {
            Ok(recovered) => return Ok(Some(recovered)),
            Err(error) if error.is_corruption() => drop(refused.get_or_insert(error)),
            Err(error) => return Err(error),
        }
    }
    refused.map_or(Ok(None), |error| {
        Err(error.context("no MANIFEST has a state whose files all exist"))
    })
}

fn replay_one(
    fs: &dyn FileSystem,
    dir: &Path,
    number: FileNumber,
    order: &dyn Fn(&str, &str) -> Result<KeyOrder>,
    present: &FileProbe<'_>,
) -> Result<Recovered> {
    let path = dir.join(FileName::Manifest(number).to_string());
    let look = || {
        let mut survey = Survey::new(present);
        // An edit that contradicts earlier ones ends the usable part, like damage.
        let mut replay = Replay::new(number);
        let (_, damage) = read_up_to_damage(fs, &path, &mut |edit, _| {
            replay.take(edit.clone())?;
            survey.take(edit)
        })?;
        Ok::<_, Error>((survey, damage))
    };
    let (mut survey, damage) = match look()? {
        whole @ (_, None) => whole,
        // The damage may be a transient read error.
        (first, _) => match look()? {
            (again, _) if again.units < first.units => return Err(inconsistent_reads(&path)),
            again => again,
        },
    };
    survey.settle();
    let states = survey.states(&path)?;
    let units = states.iter().map(|(id, state)| (*id, state.unit)).collect();
    let mut replay = Replay::new(number).up_to(units);
    let (end, _) = read_up_to_damage(fs, &path, &mut |edit, _| match replay.units() {
        units if units == survey.units => Err(Error::corruption("end of the usable part")),
        _ => replay.take(edit),
    })?;
    if replay.units() < survey.units {
        return Err(inconsistent_reads(&path));
    }
    for (id, state) in &states {
        replay.change(*id, &state.without)?;
    }
    let mut recovered = replay.finish(order, end)?;
    debug_assert_eq!(
        recovered.families.len(),
        states.len(),
        "survey and replay agree on the live families"
    );
    recovered.set_back = survey.set_back(&states);
    if let Some((offset, damage)) = damage {
        recovered.unread = Some(UnreadTail {
            offset,
            bytes: fs.status(&path)?.len.saturating_sub(offset),
            reason: damage.text().to_owned(),
        });
    }
    Ok(recovered)
}

/// Reports a MANIFEST that reads differently the second time. Recovering an older state instead
/// would lose data that still exists.
fn inconsistent_reads(path: &Path) -> Error {
    Error::io_text(format!(
        "two reads of {} returned different data; open the database again",
        path.display()
    ))
}

/// A state of a family that can be recovered.
#[derive(Clone, Default)]
struct State {
    /// The unit of its last change.
    unit: usize,
    /// Removes the files that are missing, and not required.
    without: TreeEdit,
}

/// The state of a family during the survey.
#[derive(Default)]
struct Family {
    name: String,
    /// Live tables, with the oldest blob file that each refers to.
    tables: BTreeMap<FileNumber, Option<FileNumber>>,
    /// Those in level 0.
    level_zero: BTreeMap<FileNumber, Arc<FileMeta>>,
    missing: BTreeSet<FileNumber>,
    /// Missing blob files with their live blobs. A file that is all garbage is obsolete and not
    /// required.
    missing_blobs: BTreeMap<FileNumber, BlobGarbage>,
    /// Its last recoverable state.
    whole: Option<State>,
    /// The unit of its last change.
    changed_at: usize,
    /// Families changed by the same unit, including this one.
    group: BTreeSet<u32>,
    /// True if an atomic group has changed it together with others.
    was_grouped: bool,
}

impl Family {
    fn is_whole(&self) -> bool {
        let Some((newest_lost, _)) = self.missing_blobs.last_key_value() else {
            return self.missing.is_empty();
        };
        // Blob files older than every reference are not needed.
        let oldest = self.tables.values().flatten().min();
        self.missing.is_empty() && oldest.is_none_or(|oldest| oldest > newest_lost)
    }

    /// True if nothing is missing but the newest tables of level 0 and blob files to which they alone refer. RocksDB
    /// takes such a state for one of an earlier time, too.
    fn lacks_only_newest(&self) -> bool {
        let mut tables: Vec<_> = self.level_zero.values().cloned().collect();
        sort_newest_first(&mut tables);
        let is_missing = |file: &Arc<FileMeta>| self.missing.contains(&file.number);
        let newest = tables.iter().take_while(|file| is_missing(file)).count();
        if newest < self.missing.len() {
            return false;
        }
        let references = self.tables.iter();
        let kept: BTreeSet<_> = references
            .filter(|(number, _)| !self.missing.contains(number))
            .filter_map(|(_, blob)| *blob)
            .collect();
        let alone: BTreeSet<_> = tables[..newest]
            .iter()
            .filter_map(|file| file.oldest_blob)
            .collect();
        let mut blobs = self.missing_blobs.keys();
        blobs.all(|blob| {
            let is_older = kept.first().is_none_or(|oldest| oldest > blob);
            is_older || alone.contains(blob) && !kept.contains(blob)
        })
    }

    /// Returns the state after the unit `unit`.
    fn state(&self, unit: usize) -> State {
        let missing = self.missing.iter();
        State {
            unit,
            without: TreeEdit {
                deleted: missing.map(|number| (0, *number)).collect(),
                blob_garbage: match self.missing.is_empty() {
                    true => Vec::new(),
                    false => self.missing_blobs.values().copied().collect(),
                },
                ..TreeEdit::default()
            },
        }
    }

    fn is_whole_since(&self, unit: usize) -> bool {
        self.whole.as_ref().is_some_and(|whole| whole.unit >= unit)
    }
}

/// The states that a MANIFEST goes through, reduced to the existence of files.
struct Survey<'a> {
    present: &'a FileProbe<'a>,
    families: BTreeMap<u32, Family>,
    groups: Groups,
    /// Number of edits and whole groups read.
    units: usize,
}

impl<'a> Survey<'a> {
    fn new(present: &'a FileProbe<'a>) -> Survey<'a> {
        let default = Family {
            name: DEFAULT_FAMILY.to_owned(),
            ..Family::default()
        };
        Survey {
            present,
            families: BTreeMap::from([(0, default)]),
            groups: Groups::default(),
            units: 0,
        }
    }

    fn take(&mut self, edit: VersionEdit) -> Result<()> {
        let Some(unit) = self.groups.complete(edit)? else {
            return Ok(());
        };
        self.units += 1;
        let mut touched = BTreeSet::new();
        for edit in unit {
            self.apply(&edit)?;
            touched.insert(edit.family);
        }
        let together = touched
            .iter()
            .filter_map(|id| self.families.get(id))
            .all(Family::is_whole);
        for id in &touched {
            if let Some(family) = self.families.get_mut(id) {
                family.changed_at = self.units;
                family.group.clone_from(&touched);
                family.was_grouped |= touched.len() > 1;
                if together || !family.was_grouped && family.lacks_only_newest() {
                    family.whole = Some(family.state(self.units));
                }
            }
        }
        Ok(())
    }

    fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        match &edit.family_change {
            Some(FamilyChange::Add { name }) => {
                let family = self.families.entry(edit.family).or_default();
                family.name.clone_from(name);
            }
            Some(FamilyChange::Drop) => drop(self.families.remove(&edit.family)),
            None => {}
        }
        let Some(family) = self.families.get_mut(&edit.family) else {
            return Ok(());
        };
        let tree = TreeEdit::from(edit.tree.clone());
        for (_, number) in &tree.deleted {
            family.tables.remove(number);
            family.level_zero.remove(number);
            family.missing.remove(number);
        }
        for (level, file) in &tree.added {
            family.tables.insert(file.number, file.oldest_blob);
            if *level == 0 {
                family.level_zero.insert(file.number, file.clone());
            }
            if !(self.present.table)(&family.name, file)? {
                family.missing.insert(file.number);
            }
        }
        for blob in &tree.added_blobs {
            if !(self.present.blob)(&family.name, blob.number)? {
                let live = BlobGarbage {
                    number: blob.number,
                    count: blob.total_count.saturating_sub(blob.garbage_count),
                    bytes: blob.total_bytes.saturating_sub(blob.garbage_bytes),
                };
                family.missing_blobs.insert(blob.number, live);
            }
        }
        for garbage in &tree.blob_garbage {
            if let Some(live) = family.missing_blobs.get_mut(&garbage.number) {
                live.count = live.count.saturating_sub(garbage.count);
                live.bytes = live.bytes.saturating_sub(garbage.bytes);
            }
        }
        family.missing_blobs.retain(|_, live| live.count > 0);
        Ok(())
    }

    /// Accepts the last state of a family even if other families of the same group became complete
    /// only later, because a later complete state contains the earlier one. Complete families that
    /// changed together may vouch for each other.
    fn settle(&mut self) {
        let is_candidate =
            |family: &Family| family.is_whole() && !family.is_whole_since(family.changed_at);
        let candidates = self.families.iter().filter(|(_, f)| is_candidate(f));
        let mut candidates: BTreeSet<u32> = candidates.map(|(id, _)| *id).collect();
        loop {
            let settled = |id: &u32, unit: usize| {
                let mate = self.families.get(id);
                candidates.contains(id) || mate.is_none_or(|mate| mate.is_whole_since(unit))
            };
            let holds = |id: &u32| {
                let family = self.families.get(id);
                family.is_some_and(|family| {
                    let mut group = family.group.iter();
                    group.all(|mate| settled(mate, family.changed_at))
                })
            };
            let kept: BTreeSet<u32> = candidates.iter().copied().filter(holds).collect();
            if kept.len() == candidates.len() {
                break;
            }
            candidates = kept;
        }
        for (_, family) in self
            .families
            .iter_mut()
            .filter(|(id, _)| candidates.contains(id))
        {
            family.whole = Some(family.state(family.changed_at));
        }
    }

    /// Returns the unit of the last complete state of each family.
    fn states(&self, path: &Path) -> Result<BTreeMap<u32, State>> {
        let mut states = BTreeMap::new();
        for (id, family) in &self.families {
            let Some(state) = &family.whole else {
                let lost = family.missing.first();
                let lost = lost.or(family
                    .missing_blobs
                    .first_key_value()
                    .map(|(number, _)| number));
                let lost = lost.map_or_else(
                    || "it has no files".to_owned(),
                    |n| format!("{n} is missing"),
                );
                return Err(Error::corruption(format!(
                    "column family {:?} is never complete in {}: {lost}",
                    family.name,
                    path.display()
                )));
            };
            debug_assert!(
                state.unit <= family.changed_at,
                "a complete state ends with a change"
            );
            debug_assert!(family.changed_at <= self.units);
            states.insert(*id, state.clone());
        }
        Ok(states)
    }

    /// Returns the families whose recovered state lacks changes.
    fn set_back(&self, states: &BTreeMap<u32, State>) -> Vec<String> {
        let later = |id: &u32, family: &Family| {
            let state = states.get(id);
            state.is_none_or(|state| state.unit != family.changed_at || !state.without.is_empty())
        };
        let set_back = self
            .families
            .iter()
            .filter(|(id, family)| later(id, family));
        set_back.map(|(_, family)| family.name.clone()).collect()
    }
}
