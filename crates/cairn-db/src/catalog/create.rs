//! Creating and dropping families.

use std::collections::BTreeMap;
use std::sync::Arc;

use cairn_format::manifest::{FamilyChange, VersionEdit};
use cairn_memtable::Memtable;
use cairn_observe::BackgroundErrorReason;
use cairn_options::FamilyOptions;
use cairn_types::{Error, FileNumber, KeyOrder, Result, SequenceNumber};
use cairn_version::manifest::{Recovered, RecoveredFamily, WriteFailed};
use cairn_version::{TreeEdit, Version};

use super::Catalog;
use super::env::{CatalogEnv, Installed, InstalledKind};
use super::family::{Families, FamilyState};
use super::install::Editor;
use super::invariants::check_version;
use super::sources::Sources;

/// Returns the state of a new database: the empty default family.
pub(crate) fn new_database(order: KeyOrder, persist_timestamps: bool) -> Recovered {
    let default = RecoveredFamily {
        id: 0,
        name: "default".to_owned(),
        version: Version::empty(order, 1),
        log_number: FileNumber(0),
        full_history_ts_low: Vec::new(),
        persist_timestamps,
    };
    Recovered {
        manifest: FileNumber(0),
        manifest_bytes: 0,
        families: vec![default],
        next_file: FileNumber(1),
        last_sequence: SequenceNumber::ZERO,
        min_log_to_keep: FileNumber(0),
        max_family: 0,
        db_id: None,
        wals: BTreeMap::new(),
        log_reach: None,
        set_back: Vec::new(),
        unread: None,
        ending: None,
    }
}

/// A column family to create: validated options, and its initial tables.
pub(crate) struct NewFamily {
    pub(crate) name: String,
    pub(crate) options: FamilyOptions,
    pub(crate) tables: TreeEdit,
}

impl NewFamily {
    /// Returns the MANIFEST records of the family as `id`, whose first log is `log`.
    fn records(&self, id: u32, log: FileNumber) -> Vec<VersionEdit> {
        let mut records = vec![VersionEdit {
            comparator: Some(self.options.comparator.name().to_owned()),
            family_change: Some(FamilyChange::Add {
                name: self.name.clone(),
            }),
            log_number: Some(log),
            max_family: Some(id),
            persist_timestamps: Some(self.options.persist_user_defined_timestamps),
            ..VersionEdit::of_family(id)
        }];
        assert!(
            self.tables.deleted.is_empty(),
            "a new family deletes no table"
        );
        if !self.tables.is_empty() {
            let mut record = self.tables.record(id);
            let added = self.tables.added.iter();
            record.last_sequence = added.map(|(_, file)| file.seqs.largest).max();
            records.push(record);
        }
        records
    }

    /// Returns the state of the family with the number `id`, whose first log is `log`.
    ///
    /// # Errors
    ///
    /// `Corruption` if its tables are inconsistent.
    fn state(
        self,
        sources: &Sources,
        id: u32,
        log: FileNumber,
        memtable: Arc<Memtable>,
    ) -> Result<FamilyState> {
        let NewFamily {
            name,
            options,
            tables,
        } = self;
        let levels = usize::try_from(options.num_levels).unwrap_or(1).max(1);
        let version = Version::empty(options.comparator.clone(), levels).with_edit(&tables)?;
        check_version(&version);
        let recovered = RecoveredFamily {
            id,
            name,
            version: version.clone(),
            log_number: log,
            full_history_ts_low: Vec::new(),
            persist_timestamps: options.persist_user_defined_timestamps,
        };
        Ok(sources.new_family(&recovered, options, version, memtable))
    }
}

impl Catalog {
    /// Makes the families in the MANIFEST live, each with an empty memtable. The largest id ever used is
    /// `max_id`.
    pub(crate) fn recover_families(
        &self,
        recovered: Vec<(&RecoveredFamily, FamilyOptions, Version)>,
        max_id: u32,
        new_memtable: impl Fn(&FamilyOptions) -> Arc<Memtable>,
    ) {
        let mut families = Families::none(max_id);
        for (family, options, version) in recovered {
            assert!(
                family.id <= max_id,
                "family {} has a larger id than the maximum in the MANIFEST, {max_id}",
                family.id
            );
            let memtable = new_memtable(&options);
            families.insert(Arc::new(
                self.sources.new_family(family, options, version, memtable),
            ));
        }
        self.families.store(families);
    }
}

impl Editor<'_> {
    /// Creates families whose first log is `log`, durably and atomically.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a name is in use; `NotSupported` if no ids are left; `Corruption` if the tables of one are
    /// inconsistent; `IoError` of the MANIFEST. It may be in doubt whether the families are durable: their tables must then
    /// be kept until the next MANIFEST is in use.
    pub(crate) fn create_families(
        mut self,
        env: &impl CatalogEnv,
        new: Vec<NewFamily>,
        log: FileNumber,
        new_memtable: impl Fn(&FamilyOptions) -> Arc<Memtable>,
    ) -> Result<Vec<Arc<FamilyState>>, WriteFailed> {
        let catalog = self.catalog;
        let mut families = (**catalog.families()).clone();
        // The largest id is never used: an opening rejects a MANIFEST with it.
        if u64::from(families.max_id()) + new.len() as u64 >= u64::from(u32::MAX) {
            return Err(WriteFailed::before(Error::not_supported(format!(
                "no ids of column families are left (the largest was {}); export the families to a new database",
                families.max_id()
            ))));
        }
        let first_id = families.max_id() + 1;
        let tables = new.iter().flat_map(|family| &family.tables.added);
        let largest = tables.map(|(_, file)| file.seqs.largest).max();
        let mut records = Vec::new();
        let mut created = Vec::new();
        for (id, family) in (first_id..u32::MAX).zip(new) {
            if families.named(&family.name).is_some() {
                return Err(WriteFailed::before(Error::invalid_argument(format!(
                    "column family {:?} exists already",
                    family.name
                ))));
            }
            records.extend(family.records(id, log));
            let memtable = new_memtable(&family.options);
            let state = family.state(&catalog.sources, id, log, memtable);
            let state = Arc::new(state.map_err(WriteFailed::before)?);
            assert!(
                families.max_id() < id,
                "the id {id} was never used: the largest is {}",
                families.max_id()
            );
            families.insert(state.clone());
            created.push(state);
        }
        self.log_edits(env, BackgroundErrorReason::ManifestWrite, records)?;
        let installed = Installed {
            kind: InstalledKind::Created(&created, log),
            min_log: None,
            last_sequence: largest,
        };
        env.installed(&installed, || catalog.families.store(families));
        Ok(created)
    }

    /// Drops `family`, durably. Open handles can still read it and keep its files from deletion.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it was already dropped; `IoError` of the MANIFEST.
    pub(crate) fn drop_family(
        mut self,
        env: &impl CatalogEnv,
        family: &Arc<FamilyState>,
    ) -> Result<()> {
        let catalog = self.catalog;
        if family.is_dropped() {
            return Err(Error::invalid_argument(format!(
                "column family {:?} was dropped already",
                family.name()
            )));
        }
        let min_log = env.log_state().first_without(family);
        let mut records = catalog.end_of_logs(Some(min_log));
        records.push(VersionEdit {
            family_change: Some(FamilyChange::Drop),
            min_log_number_to_keep: Some(min_log),
            ..VersionEdit::of_family(family.id())
        });
        self.log_edits(env, BackgroundErrorReason::ManifestWrite, records)?;
        let installed = Installed {
            kind: InstalledKind::Dropped(family),
            min_log: Some(min_log),
            last_sequence: None,
        };
        // Before the lock: writers append to the files.
        let retired = family.direct.close();
        env.installed(&installed, || {
            family.mark_dropped();
            let families = catalog.families.load_full();
            catalog.families.store(families.without(family.id()));
            catalog.families.note_dropped(family);
            let version = family.view().version.clone();
            catalog.deletions.retire(family, &version, None);
            catalog.deletions.retire_direct(family, retired);
        });
        Ok(())
    }
}
