//! A database that follows one that another process writes.
//!
//! The follower has the families, tables and entries of the other database (the *leader*) up to some write: a prefix
//! of the leader's writes. [`Intake`] has the next state under construction, and publishes it as a whole:
//!
//! ```text
//! MANIFEST -> prepare: next versions, their files opened
//! logs     -> apply: entries into one memtable per family and log
//!          -> publish: last sequence number, then the views of all families
//! ```
//!
//! Reading the MANIFEST and the logs is the task of the crate above, through [`CatchUp`].
//!
//! Invariants:
//!
//! F1. Entries are added above the published sequence number, or to memtables that no view has: a reader sees the
//!     state before a publication or the one after it.
//! F2. A memtable has the entries of one log. It is dropped when the MANIFEST states that the family needs no entry of
//!     that log, because the published version has them.
//! F3. The files of a published version are open if `max_open_files` is -1: they stay readable when the leader deletes
//!     them.
//! F4. A read of one family loads the view first: an older view with a newer sequence number is still a prefix. A read
//!     of several families takes their views under the lock under which they are published.
//!
//! The cost of a publication is proportional to the number of families and of new files; that of [`Intake::prepare`]
//! to the files of the levels that have changed.

pub(crate) mod catch_up;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Weak};

use cairn_format::batch::HEADER_LEN;
use cairn_format::log::Predecessor;
use cairn_memtable::Memtable;
use cairn_platform::fs::FileLock;
use cairn_read::BlobSource;
use cairn_types::{Error, FileNumber, KeyOrder, Result, SequenceNumber, Subcode, ValueKind};
use cairn_version::Version;
use cairn_version::manifest::Recovered;

use crate::catalog::family::FamilyState;
use crate::catalog::follow::NextState;
use crate::context::Follows;
use crate::db::Db;
use crate::follow::catch_up::CatchUp;
use crate::open::logged_blobs::{HeldBlobs, check_added_blob, check_logged_blob};
use crate::open::replay::{RecordedSizes, Replay, Sink, check_blobs};
use crate::open::secondary::open_empty;
use crate::open::{OpenRequest, order_of};
use crate::shared::Shared;

impl Db {
    /// Brings a secondary instance or a follower up to date with its primary.
    ///
    /// # Errors
    ///
    /// `NotSupported` for any other database; errors of the primary's files, after which the state is the one before,
    /// and a later call tries again.
    pub fn try_catch_up_with_primary(&self) -> Result<()> {
        let shared = self.shared();
        shared.context.check_process()?;
        match shared.leader.get() {
            Some(leader) => leader.catch_up(),
            None => Err(Error::not_supported(
                "the database is not a secondary instance",
            )),
        }
    }

    /// Sets the source of a database that follows another one. Called once, by the opening.
    pub fn set_leader(&self, leader: Arc<dyn CatchUp>) {
        let was_set = self.shared().leader.set(leader).is_err();
        assert!(!was_set, "a database follows one leader");
    }

    /// Returns the numbers of the tables and blob files of the current versions.
    #[must_use]
    pub fn live_file_numbers(&self) -> BTreeSet<FileNumber> {
        let mut live = BTreeSet::new();
        for family in self.shared().catalog.families().iter() {
            let version = &family.view().version;
            live.extend(version.files().map(|(_, file)| file.number));
            live.extend(version.blob_files().keys().copied());
        }
        live
    }

    /// True if the database is a secondary instance or a follower.
    #[must_use]
    pub fn is_follower(&self) -> bool {
        self.shared().context.follows.is_some()
    }
}

/// A request to open a database that follows another one.
pub struct FollowRequest<'a> {
    /// The other database, its options, and the families to open. It is opened read-only.
    pub open: OpenRequest<'a>,
    /// The directory of its own: it has the LOG.
    pub dir: &'a Path,
    /// The relation to the other database.
    pub follows: Follows,
}

impl FollowRequest<'_> {
    /// Returns the comparator of a family with the comparator `recorded`; `None` for families that are not opened.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if another comparator was specified.
    pub fn order_of(&self, family: &str, recorded: &str) -> Result<Option<KeyOrder>> {
        let request = &self.open;
        let is_listed = request.families.iter().any(|given| given.name == family);
        match is_listed || family == "default" || request.others.is_some() {
            true => order_of(request, family, recorded).map(Some),
            false => Ok(None),
        }
    }
}

/// Opens the database of `request` with the families of `recovered`, without tables or entries until the first
/// [`Intake::publish`]. It holds `lock`, the one of its own directory, until it is closed.
///
/// # Errors
///
/// `InvalidArgument` if both databases have the same directory, if a family is missing, or for invalid options;
/// `IoError`.
pub fn open_following(
    request: &FollowRequest<'_>,
    lock: Option<Box<dyn FileLock>>,
    recovered: &Recovered,
) -> Result<(Db, Intake)> {
    let FollowRequest { open, dir, follows } = request;
    let shared = open_empty(open, dir, *follows, lock, recovered)?;
    let intake = Intake::new(&shared);
    Ok((Db::new(shared)?, intake))
}

/// The next state of a database that follows another one.
pub struct Intake {
    shared: Weak<Shared>,
    replay: Replay,
    families: BTreeMap<u32, Arrivals>,
    /// The last sequence number in the MANIFEST and in tables.
    in_files: SequenceNumber,
    /// The last sequence number that was published.
    published: SequenceNumber,
    /// True if the MANIFEST was prepared.
    is_prepared: bool,
}

/// What has arrived for one family.
struct Arrivals {
    family: Arc<FamilyState>,
    /// The next version; `None` if it is the current one.
    version: Option<Arc<Version>>,
    /// The first log with entries that are not in tables.
    log_number: FileNumber,
    /// Memtables by log, oldest first.
    memtables: Vec<OfLog>,
    /// Blob files that the memtables refer to.
    blobs: HeldBlobs,
    /// The source of the blob files of the next view; `None` if it is the current one.
    next_blobs: Option<Arc<BlobSource>>,
    is_dropped: bool,
}

/// The memtable of the entries of one log.
struct OfLog {
    log: FileNumber,
    memtable: Arc<Memtable>,
    /// True once a view has it.
    is_shown: bool,
}

impl Intake {
    pub(crate) fn new(shared: &Arc<Shared>) -> Intake {
        let families = shared.catalog.families();
        let arrivals = families.iter().map(|family| {
            let arrivals = Arrivals {
                family: family.clone(),
                version: None,
                log_number: FileNumber(0),
                memtables: Vec::new(),
                blobs: HeldBlobs::default(),
                next_blobs: None,
                is_dropped: false,
            };
            (family.id(), arrivals)
        });
        Intake {
            shared: Arc::downgrade(shared),
            replay: Replay::new(SequenceNumber::ZERO),
            families: arrivals.collect(),
            in_files: SequenceNumber::ZERO,
            published: SequenceNumber::ZERO,
            is_prepared: false,
        }
    }

    fn shared(&self) -> Result<Arc<Shared>> {
        let shared = self.shared.upgrade();
        shared.ok_or_else(|| Error::shutdown("the database is closed"))
    }

    /// Returns a function that writes a line to the database's LOG. The caller can release its locks before it calls the
    /// function: a sink of the LOG may need them.
    pub fn line_writer(&self) -> impl Fn(&str) + use<> {
        let shared = self.shared.clone();
        move |line| {
            if let Some(shared) = shared.upgrade() {
                shared.context.info.warn(format_args!("{line}"));
            }
        }
    }

    /// Forgets all entries of logs, which are read again from their beginning. The published state stays until the
    /// next publication.
    pub fn begin_anew(&mut self) {
        self.replay = Replay::new(SequenceNumber::ZERO);
        self.in_files = SequenceNumber::ZERO;
        for arrivals in self.families.values_mut() {
            arrivals.memtables.clear();
        }
    }

    /// Forgets all open and cached blob files: those of the next state may be other files with the same numbers, such as
    /// after a backup was restored. The published state keeps its files. [`Intake::begin_anew`] has to be called, too.
    ///
    /// # Errors
    ///
    /// `ShutdownInProgress` if the database is closed.
    pub fn renew_blobs(&mut self) -> Result<()> {
        let shared = self.shared()?;
        for arrivals in self.families.values_mut() {
            arrivals.next_blobs = Some(shared.catalog.sources.new_blobs(&arrivals.family));
            arrivals.blobs = HeldBlobs::default();
        }
        Ok(())
    }

    /// True if a log whose entries are in the tables of `recovered` had later entries than these: it was another log, which
    /// the files of a restored backup have replaced. [`Intake::begin_anew`] has to be called then.
    #[must_use]
    pub fn has_later_entries(&self, recovered: &Recovered) -> bool {
        let mut families = recovered.families.iter();
        families.any(|found| {
            let held = self.families.get(&found.id);
            let held = held.filter(|held| held.family.name() == found.name);
            let memtables = held.into_iter().flat_map(|held| &held.memtables);
            let mut flushed = memtables.filter(|held| held.log < found.log_number);
            flushed.any(|held| held.memtable.largest_seq() > recovered.last_sequence)
        })
    }

    /// Takes the state of the MANIFEST, and opens the files in it.
    ///
    /// # Errors
    ///
    /// `IoError` with the subcode `PathNotFound` if a file was deleted since the MANIFEST was read; `Corruption`.
    /// The published state stays.
    pub fn prepare(&mut self, recovered: &Recovered) -> Result<()> {
        let shared = self.shared()?;
        shared.lifecycle.check_open()?;
        self.in_files = recovered.last_sequence;
        self.is_prepared = true;
        for (id, arrivals) in &mut self.families {
            let found = recovered.families.iter().find(|family| family.id == *id);
            let found = found.filter(|found| found.name == arrivals.family.name());
            let Some(found) = found.filter(|_| !arrivals.is_dropped) else {
                arrivals.is_dropped = true;
                continue;
            };
            let current = arrivals.family.view().version.clone();
            let levels = current
                .num_levels()
                .max(found.version.num_non_empty_levels());
            let version = found.version.with_num_levels(levels)?;
            arrivals.log_number = found.log_number;
            let largest = version.files().map(|(_, file)| file.seqs.largest).max();
            self.in_files = self.in_files.max(largest.unwrap_or_default());
            // Damage is an error of the reads that encounter it.
            let fails =
                |error: &Error| error.subcode() == Subcode::PathNotFound || !error.is_corruption();
            let view = arrivals.family.view();
            let blobs = arrivals.next_blobs.as_ref().unwrap_or(&view.family.blobs);
            shared.hold_files(&arrivals.family, &version, blobs, &fails)?;
            arrivals.version = Some(Arc::new(version));
        }
        Ok(())
    }

    /// Adds the batch `payload` of the log `log`, which recorded these sizes of timestamps by family. Entries that are
    /// in tables, and those of families that are not open, are ignored.
    ///
    /// # Errors
    ///
    /// `Corruption` of the batch; `NotSupported` for transactions of another policy. [`Intake::begin_anew`] has to be
    /// called then.
    pub fn apply(&mut self, log: FileNumber, payload: &[u8], sizes: &RecordedSizes) -> Result<()> {
        let shared = self.shared()?;
        if Predecessor::from_batch(payload).is_some() {
            return Ok(());
        }
        if payload.len() < HEADER_LEN {
            return Err(Error::corruption(format!(
                "length of a record of {log}.log: expected at least {HEADER_LEN}, found {}",
                payload.len()
            )));
        }
        let mut sink = Arriving {
            shared: &shared,
            families: &mut self.families,
            published: self.published,
            log,
        };
        check_blobs(payload, log, &mut sink)?;
        self.replay.apply(payload, log, sizes, &mut sink)
    }

    /// True if a batch that begins at `first` continues the previous one without a gap.
    #[must_use]
    pub fn continues(&self, first: SequenceNumber) -> bool {
        self.replay.continues(first)
    }

    /// Returns the last sequence number that is about to be published.
    #[must_use]
    pub fn last(&self) -> SequenceNumber {
        self.replay.last.max(self.in_files)
    }

    /// Publishes the state, after [`Intake::prepare`].
    ///
    /// # Errors
    ///
    /// `ShutdownInProgress` if the database is closed.
    pub fn publish(&mut self) -> Result<()> {
        assert!(
            self.is_prepared,
            "a state is prepared before it is published"
        );
        let shared = self.shared()?;
        shared.lifecycle.check_open()?;
        let last = self.last().max(self.published);
        let tree = shared.tree.lock();
        // The number first: see F4.
        shared.writes.commits.skip_to(last);
        self.published = last;
        for arrivals in self.families.values_mut() {
            if arrivals.is_dropped {
                shared.catalog.follow_drop(&arrivals.family);
                continue;
            }
            let next = arrivals.next(&shared);
            shared.catalog.follow(next);
        }
        drop(tree);
        self.families.retain(|_, arrivals| !arrivals.is_dropped);
        shared.purge();
        Ok(())
    }
}

impl Arrivals {
    /// Returns the state to publish.
    fn next(&mut self, shared: &Shared) -> NextState {
        let first = self.log_number;
        self.memtables.retain(|held| held.log >= first);
        let view = self.family.view_full();
        let version = self.version.take().unwrap_or_else(|| view.version.clone());
        if self.memtables.is_empty() && !(view.memtable.is_empty() && view.immutables.is_empty()) {
            let options = self.family.options();
            self.memtables.push(OfLog {
                log: FileNumber(u64::MAX),
                memtable: shared.new_memtable(&options, SequenceNumber::ZERO),
                is_shown: true,
            });
        }
        self.memtables
            .iter_mut()
            .for_each(|held| held.is_shown = true);
        let memtables: Vec<_> = self
            .memtables
            .iter()
            .map(|held| held.memtable.clone())
            .collect();
        self.memtables.retain(|held| held.log.0 != u64::MAX);
        let blobs = self.next_blobs.take();
        self.blobs
            .release(blobs.as_ref().unwrap_or(&view.family.blobs));
        NextState {
            family: self.family.clone(),
            version,
            memtables,
            blobs,
        }
    }
}

/// The destination of entries of the log `log`.
struct Arriving<'a> {
    shared: &'a Arc<Shared>,
    families: &'a mut BTreeMap<u32, Arrivals>,
    published: SequenceNumber,
    log: FileNumber,
}

impl Arriving<'_> {
    /// Returns the memtable of an entry of `family` at `seq`; `None` if an older memtable has the entry: the content of
    /// a deleted log at the end of another one.
    fn memtable(&mut self, family: u32, seq: SequenceNumber) -> Option<&Arc<Memtable>> {
        let arrivals = self.families.get_mut(&family)?;
        let held = &mut arrivals.memtables;
        let fits = held
            .last()
            .is_some_and(|last| last.log == self.log && (seq > self.published || !last.is_shown));
        if !fits {
            let older = held.iter().map(|held| held.memtable.largest_seq()).max();
            if older.is_some_and(|older| seq <= older) {
                return None;
            }
            let options = arrivals.family.options();
            held.push(OfLog {
                log: self.log,
                memtable: self.shared.new_memtable(&options, seq),
                is_shown: false,
            });
        }
        held.last().map(|held| &held.memtable)
    }
}

impl Sink for Arriving<'_> {
    fn order(&self, family: u32) -> Option<KeyOrder> {
        let arrivals = self.families.get(&family)?;
        (!arrivals.is_dropped).then(|| arrivals.family.order().clone())
    }

    fn log_number(&self, family: u32) -> FileNumber {
        let arrivals = self.families.get(&family);
        arrivals.map_or(FileNumber(0), |arrivals| arrivals.log_number)
    }

    fn check_blob(
        &mut self,
        family: u32,
        _seq: SequenceNumber,
        key: &[u8],
        index: &[u8],
    ) -> Result<()> {
        let Some(arrivals) = self.families.get_mut(&family).filter(|it| !it.is_dropped) else {
            return Ok(());
        };
        let view = arrivals.family.view();
        let version = arrivals.version.as_ref().unwrap_or(&view.version);
        if self.shared.context.follows == Some(Follows::Copies) {
            return check_added_blob(version, index);
        }
        let blobs = arrivals.next_blobs.as_ref().unwrap_or(&view.family.blobs);
        let number = check_logged_blob(blobs, version, key, index, true)?;
        if !version.blob_files().contains_key(&number) {
            arrivals.blobs.opened(number);
        }
        Ok(())
    }

    fn check_takes_writes(&self, family: u32, _seq: Option<SequenceNumber>) -> Result<()> {
        let arrivals = self.families.get(&family);
        arrivals.map_or(Ok(()), |arrivals| arrivals.family.check_takes_writes())
    }

    fn add(&mut self, family: u32, seq: SequenceNumber, kind: ValueKind, key: &[u8], value: &[u8]) {
        if let Some(memtable) = self.memtable(family, seq) {
            memtable.add(seq, kind, key, value);
            if kind == ValueKind::BlobIndex {
                let memtable = memtable.clone();
                let arrivals = self.families.get_mut(&family);
                arrivals
                    .into_iter()
                    .for_each(|it| it.blobs.refers(value, &memtable));
            }
        }
    }

    fn batch_done(&mut self) -> Result<()> {
        Ok(())
    }
}
