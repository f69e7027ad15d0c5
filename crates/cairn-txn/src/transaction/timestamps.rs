//! Timestamps of a transaction, for families whose keys have 64-bit timestamps.
//!
//! The writes of a transaction get its commit timestamp, which is set before the commit. With a read timestamp, a key
//! that it accesses must not have a version with a newer timestamp: then the reads of the transaction at the read
//! timestamp, and its writes, are valid at the commit timestamp.

use std::borrow::Cow;

use cairn_db::Family;
use cairn_options::ReadOptions;
use cairn_types::{Error, Result};

use super::{Policy, Transaction};

/// The timestamps of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Timestamps {
    /// Accessed keys must not have versions after it.
    pub(super) read: Option<u64>,
    /// The timestamp of the writes.
    commit: Option<u64>,
}

/// A timestamp, unless it is the greatest one, which stands for none.
fn some(timestamp: u64) -> Option<u64> {
    (timestamp != u64::MAX).then_some(timestamp)
}

impl Transaction {
    /// True if accesses are checked against the read timestamp.
    ///
    /// # Errors
    ///
    /// `NotSupported` for an optimistic transaction.
    fn validates_timestamps(&self) -> Result<bool> {
        match &self.policy {
            Policy::Optimistic(_) => Err(Error::not_supported("timestamp not supported")),
            Policy::Pessimistic(own) => Ok(own.locking.options().enable_udt_validation),
        }
    }

    /// Sets the timestamp of [`Transaction::get_for_update_in`] in families with timestamps. From now on, a write or a
    /// read for update fails if its key has a version with a newer timestamp. `u64::MAX` stands for none.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it is less than before; `NotSupported` for an optimistic transaction.
    pub fn set_read_timestamp_for_validation(&mut self, timestamp: u64) -> Result<()> {
        self.validates_timestamps()?;
        if self.timestamps.read.is_some_and(|read| timestamp < read) {
            return Err(Error::invalid_argument(
                "Cannot decrease read timestamp for validation",
            ));
        }
        self.timestamps.read = some(timestamp);
        Ok(())
    }

    /// Sets the timestamp of the writes in families with timestamps. `u64::MAX` stands for none.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it is not greater than the read timestamp; `NotSupported` for an optimistic transaction.
    pub fn set_commit_timestamp(&mut self, timestamp: u64) -> Result<()> {
        let validates = self.validates_timestamps()?;
        if validates && self.timestamps.read.is_some_and(|read| timestamp <= read) {
            return Err(Error::invalid_argument(
                "Cannot commit at timestamp smaller than or equal to read timestamp",
            ));
        }
        self.timestamps.commit = some(timestamp);
        Ok(())
    }

    /// Returns the timestamp of the writes, if it is set.
    #[must_use]
    pub fn commit_timestamp(&self) -> Option<u64> {
        self.timestamps.commit
    }

    /// Gives the keys of the batch that have timestamps the commit timestamp. Returns it; `None` if there are no such
    /// keys.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if it is not set, and for a family whose timestamps do not have 8 bytes.
    pub(super) fn stamp(&self) -> Result<Option<u64>> {
        if !self.batch.with_batch(cairn_db::WriteBatch::has_timestamps) {
            return Ok(None);
        }
        let Some(timestamp) = self.timestamps.commit else {
            return Err(Error::invalid_argument("Must assign a commit timestamp"));
        };
        self.batch.stamp(&timestamp.to_le_bytes())?;
        Ok(Some(timestamp))
    }

    /// The options of a read for update: in a family with timestamps, it is at the read timestamp.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for another timestamp in `options`, or any in a family without timestamps (if the transaction is
    /// pessimistic); without a read timestamp, unless validation of timestamps is turned off or the access is not
    /// validated; and for one in these cases.
    pub(super) fn options_for_update<'o>(
        &self,
        family: &Family,
        options: &'o ReadOptions,
        validates: bool,
    ) -> Result<Cow<'o, ReadOptions>> {
        if family.timestamp_size() == 0 {
            // Reported before the key is locked, and for a key of this transaction's own writes as well.
            let is_pessimistic = matches!(self.policy, Policy::Pessimistic(_));
            return match options.timestamp {
                Some(_) if is_pessimistic => Err(Error::invalid_argument(format!(
                    "cannot call this method on column family {} that does not enable timestamp: the read has a timestamp",
                    family.name()
                ))),
                _ => Ok(Cow::Borrowed(options)),
            };
        }
        let read = self.timestamps.read;
        let problem = match (self.validates_timestamps()?, validates, read) {
            (false, _, Some(_)) => {
                "read_timestamp is set but timestamp validation is disabled for the DB"
            }
            (true, false, Some(_)) => {
                "If do_validate is false then GetForUpdate with read_timestamp is not defined."
            }
            (true, true, None) => "read_timestamp must be set for validation",
            _ => "",
        };
        if !problem.is_empty() {
            return Err(Error::invalid_argument(problem));
        }
        let timestamp = read.unwrap_or(u64::MAX).to_le_bytes();
        match &options.timestamp {
            Some(given) if given[..] != timestamp => Err(Error::invalid_argument(
                "Must read from the same read_timestamp",
            )),
            Some(_) => Ok(Cow::Borrowed(options)),
            None => Ok(Cow::Owned(ReadOptions {
                timestamp: Some(timestamp.to_vec()),
                ..options.clone()
            })),
        }
    }
}
