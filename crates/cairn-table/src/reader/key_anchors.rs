//! Keys that divide a table into parts of about the same size, from its index alone.

use cairn_platform::Io;
use cairn_types::Result;

use super::index::{IndexWalk, Landing};
use super::table::{Supplied, Table};

impl Table {
    /// At most `count` user keys, ascending, that divide the data of the table into parts of about
    /// the same size. Not all of them need be keys of the table: an index has keys between blocks.
    ///
    /// # Errors
    ///
    /// Those of reading the index, where it is not in memory.
    pub fn anchors(&self, count: usize, io: &Io) -> Result<Vec<Vec<u8>>> {
        let mut anchors = Vec::new();
        let mut supplied = Supplied::default();
        let mut walk = IndexWalk::new(self);
        let part = (self.data_end() / (count as u64 + 1)).max(1);
        walk.start(Landing::First);
        loop {
            while let Some(lack) = walk.settle(self, &supplied, &[])? {
                supplied.push((lack.handle.offset, self.fetch(lack, io, true)?));
            }
            if !walk.valid() || anchors.len() == count {
                return Ok(anchors);
            }
            // The key of an entry is at or after the last key of its block.
            let handle = walk.handle();
            if handle.offset.saturating_add(handle.size) >= part * (anchors.len() as u64 + 1) {
                anchors.push(walk.user_key(self).to_vec());
            }
            walk.step(self, false)?;
        }
    }
}
