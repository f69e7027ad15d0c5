//! Key anchors: keys that divide a table into parts of similar size, determined from its index
//! alone.

use cairn_format::trace::block_cache::CacheCaller;
use cairn_platform::Io;
use cairn_types::Result;

use super::index::{IndexIter, Landing};
use super::table::{SuppliedBlocks, Table};

impl Table {
    /// Returns at most `count` user keys, ascending, that divide the data of the table into parts of
    /// similar size. They need not be keys of the table, because index separators may be shortened.
    ///
    /// # Errors
    ///
    /// Read errors of the index.
    pub fn anchors(&self, count: usize, io: &Io) -> Result<Vec<Vec<u8>>> {
        let mut anchors = Vec::new();
        let mut supplied = SuppliedBlocks::of_reader(CacheCaller::Compaction, true);
        let mut walk = IndexIter::new(self);
        let part = (self.data_end() / (count as u64 + 1)).max(1);
        walk.start(Landing::First);
        loop {
            while let Some(lack) = walk.settle(self, &supplied, &[])? {
                let fetched = self.fetch(lack, io, true)?;
                self.trace_miss(lack, &fetched.block, &supplied);
                supplied.push(fetched);
            }
            if !walk.valid() || anchors.len() == count {
                return Ok(anchors);
            }
            // The key of an index entry is at or after the last key of its block.
            let handle = walk.handle();
            if handle.offset.saturating_add(handle.size) >= part * (anchors.len() as u64 + 1) {
                anchors.push(walk.user_key(self).to_vec());
            }
            walk.step(self, false)?;
        }
    }
}
