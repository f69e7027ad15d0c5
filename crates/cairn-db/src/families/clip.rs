//! Clipping a family to a range of keys.
//!
//! No data is rewritten: two range deletions cover the keys outside, including hidden ones, tables entirely
//! outside are dropped at once, and compactions free the rest of the space. The deletions are written and
//! synced first, so that after a crash either all keys outside are present or none.

use cairn_options::{ReadOptions, WriteOptions};
use cairn_types::{Error, Result};

use crate::db::handle::Family;
use crate::write::batch::WriteBatch;

impl Family {
    /// Deletes every key before `begin`, and every key from `end` on. Intended for databases that are split
    /// or merged: there should be no concurrent writes outside of the range, and snapshots may lose its keys.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if `end` comes before `begin`; `NotSupported` for keys with timestamps;
    /// the error that made the database read-only.
    pub fn clip(&self, begin: &[u8], end: &[u8]) -> Result<()> {
        let order = self.state.order();
        if order.timestamp_size() > 0 {
            return Err(Error::not_supported(
                "a column family whose keys have timestamps cannot be clipped",
            ));
        }
        if order.compare(begin, end).is_gt() {
            return Err(Error::invalid_argument(
                "a column family is clipped to keys from a begin to an end: the end comes first",
            ));
        }
        self.db.shared.flush(std::slice::from_ref(&self.state))?;
        let options = ReadOptions {
            total_order_seek: true,
            fill_cache: false,
            ..ReadOptions::default()
        };
        let [first, last] = self.outermost_keys(&options)?;
        let mut batch = WriteBatch::new();
        if let Some(first) = first.filter(|first| order.compare(first, begin).is_lt()) {
            batch.delete_range_in(self, &first, begin);
        }
        if let Some(last) = last.filter(|last| order.compare(last, end).is_ge()) {
            // The end of a range is exclusive.
            batch.delete_range_in(self, end, &last);
            batch.delete_in(self, &last);
        }
        if batch.is_empty() {
            return Ok(());
        }
        let synced = WriteOptions {
            sync: true,
            ..WriteOptions::default()
        };
        self.db.shared.write(&batch, &synced)?;
        self.delete_files_in_ranges(&[(None, Some(begin)), (Some(end), None)], false)
    }

    /// Returns the smallest and the largest user key that may occur in the family: visible keys and the
    /// bounds of tables. Hidden keys count because the table that hides them may be dropped.
    fn outermost_keys(&self, options: &ReadOptions) -> Result<[Option<Vec<u8>>; 2]> {
        let order = self.state.order();
        let mut iter = self.iter_with(options);
        iter.seek_to_first();
        let first = iter.valid().then(|| iter.key().to_vec());
        // The next seek clears this error.
        iter.status()?;
        iter.seek_to_last();
        let last = iter.valid().then(|| iter.key().to_vec());
        iter.status()?;
        let version = self.state.view().version.clone();
        let files = || version.files().map(|(_, file)| file);
        let smallest = files().map(|file| file.smallest.user_key());
        let smallest = smallest
            .min_by(|a, b| order.compare(a, b))
            .map(<[u8]>::to_vec);
        let largest = files().map(|file| file.largest.user_key());
        let largest = largest
            .max_by(|a, b| order.compare(a, b))
            .map(<[u8]>::to_vec);
        let first = first.into_iter().chain(smallest);
        let last = last.into_iter().chain(largest);
        Ok([
            first.min_by(|a, b| order.compare(a, b)),
            last.max_by(|a, b| order.compare(a, b)),
        ])
    }
}
