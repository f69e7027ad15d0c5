//! Checksums of the entries of blocks in memory (`block_protection_bytes_per_key`): computed when a block is loaded, and
//! verified for each entry that a read comes to.
//!
//! A block has either checksums or search words as its tail, so a table with checksums is searched without words. A block
//! whose entries had no checksums when it was cached, because another opening of the file or the writer of the table
//! inserted it, gets them when it is first found.

use cairn_format::block::{
    BlockChecksums, BlockKind, BlockLayout, DataCursor, IndexCursor, IndexForm,
};
use cairn_memory::CacheRole;
use cairn_platform::Buffer;
use cairn_types::Decoded;

use super::open::OpenParams;
use super::table::{MissingBlock, Table};

/// Returns the checksums for the entries of a block of this role; `None` for one without entries, and for a damaged one.
fn checksums(block: &Buffer, role: CacheRole, form: IndexForm, len: u8) -> Option<Vec<u8>> {
    let layout = |kind| BlockLayout::parse(block, kind).ok();
    match role {
        CacheRole::Data => Some(BlockChecksums::of_data(
            block,
            &layout(BlockKind::Data)?,
            len,
        )),
        CacheRole::Index => Some(BlockChecksums::of_index(
            block,
            &layout(BlockKind::Index)?,
            form,
            len,
        )),
        _ => None,
    }
}

/// Returns `block`, an index block that a table opened with `params` holds, with checksums if it needs them.
pub(crate) fn guarded_index(block: Buffer, form: IndexForm, params: &OpenParams) -> Buffer {
    if params.block_checksum_len == 0 {
        return block;
    }
    match checksums(&block, CacheRole::Index, form, params.block_checksum_len) {
        Some(tail) => block.with_tail(&tail),
        None => block,
    }
}

impl Table {
    /// True if the entries of blocks have checksums.
    #[inline]
    pub(crate) fn guards(&self) -> bool {
        self.params.block_checksum_len > 0
    }

    /// Returns `block`, with checksums of its entries if it needs them.
    #[inline]
    pub(crate) fn guarded(&self, lack: MissingBlock, block: Buffer) -> Buffer {
        match self.guards() {
            true => self.with_checksums(lack, block),
            false => block,
        }
    }

    /// Returns `block`, which has just been read, with checksums of its entries if it needs them.
    #[inline]
    pub(crate) fn guarded_on_load(&self, lack: MissingBlock, block: Buffer) -> Buffer {
        match self.guards() {
            true => self.laid(lack.role, block),
            false => block,
        }
    }

    /// Returns a copy of `block` with checksums.
    #[cold]
    fn laid(&self, role: CacheRole, block: Buffer) -> Buffer {
        match checksums(
            &block,
            role,
            self.index.form,
            self.params.block_checksum_len,
        ) {
            Some(tail) => block.with_tail(&tail),
            None => block,
        }
    }

    #[cold]
    fn with_checksums(&self, lack: MissingBlock, block: Buffer) -> Buffer {
        if BlockChecksums::parse(block.tail()).is_some() {
            return block;
        }
        let len = self.params.block_checksum_len;
        if let Some(cache) = self
            .params
            .cache
            .as_ref()
            .filter(|_| block.tail().is_empty())
            && let Some(tail) = checksums(&block, lack.role, self.index.form, len)
        {
            return cache.lay_tail(&self.cache_key(lack.handle), block, &tail);
        }
        self.laid(lack.role, block)
    }

    /// Verifies the checksum of the entry of a data block at `cursor`, if the table has checksums.
    #[inline]
    pub(crate) fn verify_entry(&self, cursor: &DataCursor, block: &Buffer) -> Decoded<()> {
        match self.guards() {
            true => verify_entry(cursor, block),
            false => Ok(()),
        }
    }

    /// Verifies the checksum of the entry of an index block at `cursor`, if the table has checksums.
    #[inline]
    pub(crate) fn verify_index(&self, cursor: &IndexCursor, block: &Buffer) -> Decoded<()> {
        match self.guards() && cursor.valid() {
            true => verify_index(cursor, block),
            false => Ok(()),
        }
    }
}

#[cold]
fn verify_entry(cursor: &DataCursor, block: &Buffer) -> Decoded<()> {
    match BlockChecksums::parse(block.tail()) {
        Some(sums) => sums.verify(cursor.at(), cursor.checksum(block)),
        None => Ok(()),
    }
}

#[cold]
fn verify_index(cursor: &IndexCursor, block: &Buffer) -> Decoded<()> {
    match BlockChecksums::parse(block.tail()) {
        Some(sums) => sums.verify(cursor.at(), cursor.checksum(block)),
        None => Ok(()),
    }
}
