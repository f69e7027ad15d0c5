//! Cutting a family down to a range of keys.
//!
//! Costs no rewriting: two range deletions cover what lies outside, tables that lie there as a whole
//! go at once, and compactions free the space of the rest. The deletions come first, and durably:
//! whatever becomes of the process or the machine, all keys outside are there or none.

use cairn_options::{ReadOptions, WriteOptions};
use cairn_types::{Error, Result};

use crate::batch::WriteBatch;
use crate::handle::Family;

impl Family {
    /// Removes every key before `begin`, and every key from `end` on. Meant for databases that are
    /// split or joined: nothing else should write outside of the range meanwhile, and snapshots may
    /// see its keys go.
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
        let mut batch = WriteBatch::new();
        let mut iter = self.iter_with(&options);
        iter.seek_to_first();
        if iter.valid() && order.compare(iter.key(), begin).is_lt() {
            batch.delete_range_in(self, iter.key(), begin);
        }
        // The next seek forgets why this one found nothing.
        iter.status()?;
        iter.seek_to_last();
        if iter.valid() && order.compare(iter.key(), end).is_ge() {
            // The end of a range is not in it.
            batch.delete_range_in(self, end, iter.key());
            batch.delete_in(self, iter.key());
        }
        iter.status()?;
        drop(iter);
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
}
