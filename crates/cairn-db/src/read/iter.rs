//! Iterators of an open database, and the renewal of their views.
//!
//! A [`DbIter`] has a fixed view. An [`Iter`] can get a newer one: by `refresh`, before each seek if it is
//! `tailing`, and whenever the family's view has changed if it reads a snapshot and
//! `auto_refresh_iterator_with_snapshot` is set. Its read options, bounds included, do not change.

mod awaited;
mod multi_scan;

use std::sync::Arc;

use cairn_options::ReadOptions;
use cairn_read::{DbIter, View};
use cairn_types::{Error, Result, SequenceNumber};

use crate::catalog::family::FamilyState;
use crate::catalog::release::check_held;
use crate::catalog::snapshot::Snapshot;
use crate::db::Db;
use crate::db::handle::{Family, foreign};
use crate::read::open_iterators::{HeldView, Listed};
use crate::shared::Shared;
pub use awaited::{AsyncIter, Motion};
pub use multi_scan::MultiScan;

/// The events at which an iterator gets a new view.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Renewal {
    /// On request.
    OnRequest,
    /// Before each seek.
    BeforeSeeks,
    /// When the family has a new view.
    WithTheView,
    /// Never: the iterator was disabled, and its status is the reason.
    Never,
}

/// An iterator over one family. It keeps the files that it reads and the database open.
pub struct Iter {
    /// `None` only while it is dropped.
    inner: Option<Box<DbIter>>,
    family: Family,
    options: Box<ReadOptions>,
    renewal: Renewal,
    listed: Listed,
    /// False for a cursor of another iterator, which records the seeks itself.
    traced: bool,
}

impl Family {
    /// Creates an unpositioned iterator over the family. It shows the current state, regardless of later
    /// writes.
    #[must_use]
    pub fn iter(&self) -> Iter {
        self.iter_with(&ReadOptions::default())
    }

    /// Like [`Family::iter`], with options.
    #[must_use]
    pub fn iter_with(&self, options: &ReadOptions) -> Iter {
        let (view, seq) = self.db.shared.newest(&self.state);
        Iter::new(self, view, seq, options)
    }
}

impl Db {
    /// Creates an iterator over each of `families`, all with the state at the same sequence number.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a family belongs to another database.
    pub fn iterators(&self, families: &[&Family], options: &ReadOptions) -> Result<Vec<Iter>> {
        let each: Vec<_> = families.iter().map(|family| (*family, options)).collect();
        self.iterators_with(&each)
    }

    /// Like [`Db::iterators`], with read options for each family. All must have the same snapshot, or none, and
    /// the same value of `tailing`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if they differ in these options, or if a family belongs to another database.
    pub fn iterators_with(&self, families: &[(&Family, &ReadOptions)]) -> Result<Vec<Iter>> {
        let Some((_, first)) = families.first() else {
            return Ok(Vec::new());
        };
        self.check_families(families.iter().map(|(family, _)| *family))?;
        for (family, options) in families {
            for (differs, name) in [
                (options.snapshot != first.snapshot, "snapshot"),
                (options.tailing != first.tailing, "tailing"),
            ] {
                if differs {
                    return Err(Error::invalid_argument(format!(
                        "{name}: iterators that are created together must have the same value, \
                         but that of column family {:?} differs",
                        family.name()
                    )));
                }
            }
        }
        let states: Vec<&FamilyState> = families.iter().map(|(family, _)| &*family.state).collect();
        let (views, seq) = self.shared().newest_of(&states);
        views.iter().try_for_each(|view| check_held(view))?;
        let families = families.iter().zip(views);
        let iters = families.map(|((family, options), view)| Iter::new(family, view, seq, options));
        Ok(iters.collect())
    }
}

impl Iter {
    fn new(family: &Family, view: Arc<View>, seq: SequenceNumber, options: &ReadOptions) -> Iter {
        let shared = &family.db.shared;
        let options = iterated_options(shared, options);
        let view = shared.limited(view, &options);
        let (inner, seq) = begin(view.clone(), seq, &options);
        Iter::around(family, &view, seq, options, inner)
    }

    /// The iterator over `view` at `seq` that moves `inner`.
    fn around(
        family: &Family,
        view: &View,
        seq: SequenceNumber,
        options: Box<ReadOptions>,
        inner: Box<DbIter>,
    ) -> Iter {
        let renewal = match (options.tailing, options.snapshot) {
            (true, _) => Renewal::BeforeSeeks,
            // A renewal would lose the version at which the iterator is.
            (false, Some(_))
                if options.auto_refresh_iterator_with_snapshot
                    && options.iter_start_ts.is_none() =>
            {
                Renewal::WithTheView
            }
            _ => Renewal::OnRequest,
        };
        let shared = &family.db.shared;
        let held = record_of_view(shared, family.id(), view, seq);
        // In this order: an iterator is listed once it exists.
        Iter {
            inner: Some(inner),
            listed: shared.iterators.add(&held),
            family: family.clone(),
            options,
            renewal,
            traced: true,
        }
    }

    /// The family that it iterates over.
    #[must_use]
    pub fn family(&self) -> &Family {
        &self.family
    }

    /// Updates the iterator to the current state. It is then not positioned.
    ///
    /// # Errors
    ///
    /// `NotSupported` in a forked child of the process that opened the database for writing.
    pub fn refresh(&mut self) -> Result<()> {
        self.check_enabled()?;
        self.options.snapshot = None;
        if self.renewal == Renewal::WithTheView {
            self.renewal = Renewal::OnRequest;
        }
        self.renew();
        Ok(())
    }

    /// Changes the iterator to the state of `snapshot`. It is then not positioned.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a tailing iterator, which shows the current state, and for a snapshot of another database.
    /// The iterator is then unchanged.
    pub fn refresh_to(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.check_enabled()?;
        let db = &self.family.db;
        if snapshot.database() != db.number {
            return Err(foreign(&db.shared, "the snapshot", snapshot.database()));
        }
        if self.options.tailing {
            return Err(Error::invalid_argument(
                "a tailing iterator shows no snapshot",
            ));
        }
        self.options.snapshot = Some(snapshot.sequence());
        if self.options.auto_refresh_iterator_with_snapshot {
            self.renewal = Renewal::WithTheView;
        }
        self.renew();
        Ok(())
    }

    /// Disables the iterator, for good: it is not valid, and its status is `error`.
    pub fn disable(&mut self, error: Error) {
        self.renewal = Renewal::Never;
        self.inner_mut().refuse(error);
    }

    /// Returns an error if the iterator cannot show another state.
    fn check_enabled(&self) -> Result<()> {
        self.family.db.shared.context.check_reader()?;
        match self.renewal {
            Renewal::Never => self.status(),
            _ => Ok(()),
        }
    }

    fn renew(&mut self) {
        let shared = &self.family.db.shared;
        let (view, seq) = shared.newest(&self.family.state);
        debug_assert!(
            self.view().number <= view.number,
            "the view of an iterator is at {} or later, not at {}",
            self.view().number,
            view.number
        );
        let view = shared.limited(view, &self.options);
        let (inner, seq) = begin(view, seq, &self.options);
        let held = record_of_view(shared, self.family.id(), inner.view(), seq);
        shared.iterators.renew(self.listed, &held);
        let before = self.inner.replace(inner);
        before.into_iter().for_each(DbIter::recycle);
        // Releases files that only the old view kept.
        self.family.db.shared.purge_in_background();
    }

    fn is_outdated(&self) -> bool {
        self.family.state.view().number != self.view().number
    }

    /// Called before a seek: updates the view if necessary. Returns false if the seek is rejected; the error
    /// is then the status.
    #[inline]
    fn before_seek(&mut self) -> bool {
        if let Err(error) = self.family.db.shared.context.check_reader() {
            self.inner_mut().refuse(error);
            return false;
        }
        let renews = match self.renewal {
            Renewal::OnRequest => return true,
            Renewal::Never => return false,
            Renewal::BeforeSeeks | Renewal::WithTheView => self.is_outdated(),
        };
        if renews {
            self.renew();
        }
        true
    }

    /// Called before a step: the same, for iterators that continue from their position.
    #[inline]
    fn before_step(&mut self, back: bool) {
        if self.renewal == Renewal::WithTheView {
            self.renew_where_it_stands(back);
        }
    }

    #[cold]
    fn renew_where_it_stands(&mut self, back: bool) {
        if !self.valid() || !self.is_outdated() {
            return;
        }
        let key = self.key().to_vec();
        self.renew();
        match back {
            true => self.inner_mut().seek_for_prev(&key),
            false => self.inner_mut().seek(&key),
        }
    }

    /// Records a seek, if there is a trace.
    #[inline(always)]
    fn trace_seek(&self, target: &[u8], for_prev: bool) {
        let shared = &self.family.db.shared;
        if shared.trace.is_on() && self.traced {
            shared.trace_seek(self.family.id(), target, &self.options, for_prev);
        }
    }

    /// Records a move to the first key, or to the last one with `back`, if there is a trace.
    #[inline]
    fn trace_seek_to_end(&self, back: bool) {
        let shared = &self.family.db.shared;
        if shared.trace.is_on() && self.traced {
            shared.trace_seek_to_end(self.family.id(), &self.options, back);
        }
    }

    #[inline]
    fn inner_mut(&mut self) -> &mut DbIter {
        self.inner.as_mut().expect("present until dropped")
    }

    /// True if a backward move is rejected; the error is then the status.
    fn refuses_back(&mut self) -> bool {
        if self.renewal == Renewal::BeforeSeeks {
            self.inner_mut().refuse(Error::not_supported(
                "a tailing iterator does not go backward",
            ));
            return true;
        }
        false
    }

    /// Moves to the first key at or after `target`.
    #[inline]
    pub fn seek(&mut self, target: &[u8]) {
        if self.before_seek() {
            self.trace_seek(target, false);
            self.inner_mut().seek(target);
        }
    }

    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) {
        if !self.refuses_back() && self.before_seek() {
            self.trace_seek(target, true);
            self.inner_mut().seek_for_prev(target);
        }
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        if self.before_seek() {
            self.trace_seek_to_end(false);
            self.inner_mut().seek_to_first();
        }
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        if !self.refuses_back() && self.before_seek() {
            self.trace_seek_to_end(true);
            self.inner_mut().seek_to_last();
        }
    }

    /// Moves to the next key. Does nothing unless the iterator is valid.
    #[inline]
    pub fn next(&mut self) {
        self.before_step(false);
        self.inner_mut().next();
    }

    /// Like [`Iter::next`], and passes key and value of the next entry to `show`. Returns false if there is
    /// none.
    #[inline]
    pub fn next_shown(&mut self, show: impl FnMut(&[u8], &[u8])) -> bool {
        self.before_step(false);
        self.inner_mut().next_shown(show)
    }

    /// Moves to the previous key. Does nothing unless the iterator is valid.
    #[inline]
    pub fn prev(&mut self) {
        if !self.refuses_back() {
            self.before_step(true);
            self.inner_mut().prev();
        }
    }

    /// Returns a property of the iterator, by RocksDB's names.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an unknown name, or for a property of the current entry if the iterator is not
    /// valid.
    pub fn property(&self, name: &str) -> Result<String> {
        match name {
            // Keys and values are only valid until the iterator moves; `value_pinned` keeps a value.
            "rocksdb.iterator.is-key-pinned" | "rocksdb.iterator.is-value-pinned"
                if self.valid() =>
            {
                Ok("0".to_owned())
            }
            "rocksdb.iterator.super-version-number" => Ok(self.view().number.to_string()),
            "rocksdb.iterator.internal-key" if self.valid() => {
                Ok(String::from_utf8_lossy(self.key()).into_owned())
            }
            _ => Err(Error::invalid_argument(format!(
                "the iterator has no property {name:?} here"
            ))),
        }
    }
}

impl std::ops::Deref for Iter {
    type Target = DbIter;
    #[inline]
    fn deref(&self) -> &DbIter {
        self.inner.as_ref().expect("present until dropped")
    }
}

impl std::ops::DerefMut for Iter {
    #[inline]
    fn deref_mut(&mut self) -> &mut DbIter {
        self.inner_mut()
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        if self.family.db.shared.context.is_forked() {
            // Releasing blocks and files acquires locks.
            std::mem::forget(self.inner.take());
            return;
        }
        if let Some(inner) = self.inner.take() {
            inner.recycle();
        }
        self.family.db.shared.iterators.remove(self.listed);
        // Files that only this iterator kept are deleted by a background thread rather than the reader's.
        self.family.db.shared.purge_in_background();
    }
}

/// Returns the options of an iterator that is created with `options`.
fn iterated_options(shared: &Shared, options: &ReadOptions) -> Box<ReadOptions> {
    let mut options = Box::new(options.clone());
    // A read-only database never changes: the iterator is an ordinary one, as in RocksDB.
    options.tailing &= !shared.context.read_only || shared.context.follows.is_some();
    let opt_in_only = shared.options().prefix_seek_opt_in_only;
    if opt_in_only && !options.prefix_same_as_start && !options.auto_prefix_mode {
        options.total_order_seek = true;
    }
    options
}

/// The record of an iterator on `view` of the family with this id, from now on.
#[inline]
fn record_of_view(shared: &Shared, family: u32, view: &View, seq: SequenceNumber) -> HeldView {
    HeldView {
        since: shared.context.world.clock.coarse_nanos(),
        seq,
        view: view.number,
        family,
    }
}

/// Returns an iterator over `view`, which was taken at `published`, and the sequence number up to which it sees entries.
fn begin(
    view: Arc<View>,
    published: SequenceNumber,
    options: &ReadOptions,
) -> (Box<DbIter>, SequenceNumber) {
    let seq = seen_by(options, published);
    let mut inner = DbIter::new(view, seq, options);
    inner.allow_range_conversion(published);
    (inner, seq)
}

/// Returns the last sequence number visible to an iterator with a view that was taken at `seq`. A tailing one
/// sees all entries that are added to its memtable.
fn seen_by(options: &ReadOptions, seq: SequenceNumber) -> SequenceNumber {
    match options.tailing {
        true => SequenceNumber::MAX,
        false => options.snapshot.unwrap_or(seq),
    }
}
