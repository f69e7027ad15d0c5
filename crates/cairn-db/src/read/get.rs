//! Point reads of an open family.

use std::borrow::Cow;
use std::sync::Arc;

use cairn_format::key::LookupKey;
use cairn_options::enums::IoCharge;
use cairn_options::{ReadOptions, ReadTier};
use cairn_platform::{IoKind, IoPriority, Limits};
use cairn_read::timestamp_of_read;
use cairn_read::{
    Columns, Found, GetScratch, Value, View, get, get_in, get_with_timestamp, is_written_since,
};
use cairn_types::{Error, Result, SequenceNumber};

use crate::catalog::family::FamilyState;
use crate::catalog::release::check_held;
use crate::db::handle::Family;
use crate::db::timestamps::TimestampedValue;
use crate::shared::Shared;

impl Shared {
    /// Returns the limits of the reads of files by a read with `options`, if there are any.
    #[inline]
    pub(crate) fn limits_of_read(&self, options: &ReadOptions) -> Option<Limits> {
        match options.rate_limiter_priority {
            IoCharge::Uncharged => None,
            charge => self.limits_at(charge),
        }
    }

    #[cold]
    fn limits_at(&self, charge: IoCharge) -> Option<Limits> {
        let limiter = self.options().rate_limiter.clone()?;
        let priority = match charge {
            IoCharge::Low => IoPriority::Low,
            IoCharge::Mid => IoPriority::Mid,
            IoCharge::High => IoPriority::High,
            _ => IoPriority::User,
        };
        limiter.limits(IoKind::Read).then(|| Limits {
            limiter,
            clock: self.context.world.clock.clone(),
            priority,
            watch: Some(Arc::new(self.telemetry.meter())),
        })
    }

    /// Returns `view`, or one with the limits of a read with `options`.
    pub(crate) fn limited(&self, view: Arc<View>, options: &ReadOptions) -> Arc<View> {
        match self.limits_of_read(options) {
            None => view,
            Some(limits) => Arc::new(view.limited(limits)),
        }
    }

    /// Returns the view and sequence number of a read without a snapshot. The view is taken first: a version
    /// that a compaction drops afterwards is still in the view, and one that it dropped before was hidden by
    /// an entry that is already published.
    pub(crate) fn newest(&self, family: &FamilyState) -> (Arc<View>, SequenceNumber) {
        let view = family.view_full();
        let seq = self.published();
        (view, seq)
    }
}

/// Returns `options` with the current meaning of `kPersistedTier`: memtables are skipped only while they have
/// entries that are in no log.
pub(crate) fn tier_of<'o>(shared: &Shared, options: &'o ReadOptions) -> Cow<'o, ReadOptions> {
    let unlogged = || shared.signals.has_unlogged();
    if options.read_tier != ReadTier::Persisted || unlogged() {
        return Cow::Borrowed(options);
    }
    Cow::Owned(ReadOptions {
        read_tier: ReadTier::All,
        ..options.clone()
    })
}

/// Returns the lookup key of `key` for a read of `view`. If keys have timestamps, it ends with that of the read.
#[inline]
pub(crate) fn lookup(
    view: &View,
    key: &[u8],
    seq: SequenceNumber,
    options: &ReadOptions,
) -> Result<LookupKey> {
    if view.family.order.timestamp_size() == 0 && options.timestamp.is_none() {
        return Ok(LookupKey::new(key, seq));
    }
    let timestamp = timestamp_of_read(view, options)?;
    Ok(LookupKey::with_timestamp(key, timestamp, seq))
}

impl Family {
    /// Returns the value of `key`, or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// `IoError` or `Corruption` of a file that was read.
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.get_with(key, &ReadOptions::default())
    }

    /// Like [`Family::get`], with options. The value of a wide-column entity is that of its default column.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get`]; `Incomplete` if `read_tier` does not permit the necessary reads.
    #[inline]
    pub fn get_with(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Value>> {
        self.find(key, options)?.into_value()
    }

    /// Like [`Family::get_with`], and true if the key was written after the snapshot of `options`, by any
    /// kind of write, even if it has no value in the snapshot. Without a snapshot it is false.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_with`]; `NotSupported` with [`ReadTier::Persisted`], which does not read all
    /// writes.
    pub fn get_with_newer(
        &self,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<(Option<Value>, bool)> {
        let (found, newer) = self.found_with_newer(key, options, get)?;
        Ok((found.into_value()?, newer))
    }

    /// [`Family::get_with_newer`], with the timestamp of the version that is returned.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_with_newer`].
    pub fn get_with_newer_and_timestamp(
        &self,
        key: &[u8],
        options: &ReadOptions,
    ) -> Result<(Option<TimestampedValue>, bool)> {
        let ((found, timestamp), newer) =
            self.found_with_newer(key, options, get_with_timestamp)?;
        Ok((found.into_value()?.map(|value| (value, timestamp)), newer))
    }

    /// Returns the result of `get`, and true if `key` was written after the snapshot.
    fn found_with_newer<T>(
        &self,
        key: &[u8],
        options: &ReadOptions,
        get: impl FnOnce(&View, &LookupKey, &ReadOptions) -> Result<T>,
    ) -> Result<(T, bool)> {
        if options.read_tier == ReadTier::Persisted {
            return Err(Error::not_supported(
                "reads of the persisted tier do not tell whether there is a newer version",
            ));
        }
        self.found_by(key, options, |view, at_snapshot, options| {
            let found = get(view, at_snapshot, options)?;
            let now = self.db.shared.published();
            let newer = match options.snapshot {
                Some(since) if since < now => {
                    let lookup = lookup(view, key, now, options)?;
                    is_written_since(view, &lookup, since, options)?
                }
                _ => false,
            };
            Ok((found, newer))
        })
    }

    /// Returns the columns of `key`, or `None` if it does not exist. A plain value is one column without a
    /// name.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_with`].
    pub fn get_entity(&self, key: &[u8], options: &ReadOptions) -> Result<Option<Columns>> {
        self.find(key, options)?.into_columns()
    }

    /// Returns the value of `key`: [`Family::get_with`], but distinguishing plain values and entities.
    ///
    /// # Errors
    ///
    /// Those of [`Family::get_with`].
    #[inline(always)]
    pub fn find(&self, key: &[u8], options: &ReadOptions) -> Result<Found> {
        self.found_by(key, options, get)
    }

    /// Like [`Family::find`], with memory that the caller retains for its next read.
    ///
    /// # Errors
    ///
    /// Those of [`Family::find`].
    #[inline(always)]
    pub fn find_in(
        &self,
        key: &[u8],
        options: &ReadOptions,
        scratch: &GetScratch,
    ) -> Result<Found> {
        self.found_by(key, options, |view, lookup, options| {
            get_in(view, lookup, options, scratch)
        })
    }

    // Inlined: the result is large, and returning it from a separate function would move it once more.
    #[inline(always)]
    pub(crate) fn found_by<T>(
        &self,
        key: &[u8],
        options: &ReadOptions,
        get: impl FnOnce(&View, &LookupKey, &ReadOptions) -> Result<T>,
    ) -> Result<T> {
        let shared = &self.db.shared;
        if shared.trace.is_on() {
            shared.trace_get(self.id(), key);
        }
        self.found_untraced(key, options, get)
    }

    /// [`Family::found_by`] without a record of it in a trace.
    #[inline(always)]
    pub(crate) fn found_untraced<T>(
        &self,
        key: &[u8],
        options: &ReadOptions,
        get: impl FnOnce(&View, &LookupKey, &ReadOptions) -> Result<T>,
    ) -> Result<T> {
        let shared = &self.db.shared;
        shared.context.check_reader()?;
        let view = self.state.view();
        check_held(&view)?;
        let seq = match options.snapshot {
            Some(snapshot) => {
                shared.context.check_snapshot(options.snapshot)?;
                snapshot
            }
            None => shared.published(),
        };
        let lookup = lookup(&view, key, seq, options)?;
        if let Some(limits) = shared.limits_of_read(options) {
            return get(&view.limited(limits), &lookup, &tier_of(shared, options));
        }
        get(&view, &lookup, &tier_of(shared, options))
    }
}
