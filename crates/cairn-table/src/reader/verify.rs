//! Verifies a whole table: the checksum of every block, and its decompression.

use cairn_format::block::{BlockKind, BlockLayout, IndexCursor, IndexForm};
use cairn_format::table::{Handle, meta};
use cairn_memory::CacheRole;
use cairn_platform::{Buffer, Io};
use cairn_types::Result;

use super::block_fetcher::{self, Raw};
use super::table::{MetaBlock, MissingBlock, Table};

impl Table {
    /// Reads and verifies every block that the index and the metaindex refer to, bypassing the cache. A table without
    /// blocks has no checksums: its entries are decoded.
    ///
    /// # Errors
    ///
    /// The first damaged block, with its offset, expected and found values.
    pub fn verify_checksums(&self, io: &Io) -> Result<()> {
        if let Some(image) = &self.image {
            return image.verify(self, io);
        }
        for (name, handle) in self.parts.iter() {
            if name == meta::PROPERTIES {
                let lack = MissingBlock {
                    handle,
                    role: CacheRole::Other,
                };
                let request = self.request(lack, 0);
                let raw = Raw::Whole(io.read_now(&request)?);
                let unpack = |raw: &Raw<'_>| {
                    block_fetcher::properties_of(raw, handle, &self.footer).map(|_| ())
                };
                unpack(&raw)
                    .or_else(|error| block_fetcher::read_again(error, &request, unpack))
                    .map_err(|error| self.bad(error, handle.offset))?;
            } else {
                self.verify_block(handle, CacheRole::Other, io)?;
            }
        }
        if self
            .filter
            .as_ref()
            .is_some_and(|filter| filter.partitioned)
        {
            for handle in self.partition_handles(true, io)? {
                self.verify_block(handle, CacheRole::Filter, io)?;
            }
        }
        let root = self.index.root.handle;
        let root = self.verify_block(root, CacheRole::Index, io)?;
        let form = self.index.form;
        let under = self.handles_in(&root, form, self.index.root.handle)?;
        if !self.index.two_level {
            return self.verify_data(&under, io);
        }
        for partition in under {
            let bytes = self.verify_block(partition, CacheRole::Index, io)?;
            self.verify_data(&self.handles_in(&bytes, form, partition)?, io)?;
        }
        Ok(())
    }

    fn verify_data(&self, handles: &[Handle], io: &Io) -> Result<()> {
        for &handle in handles {
            let bytes = self.verify_block(handle, CacheRole::Data, io)?;
            BlockLayout::parse(&bytes, BlockKind::Data)
                .map_err(|error| self.bad(error, handle.offset))?;
        }
        Ok(())
    }

    fn verify_block(&self, handle: Handle, role: CacheRole, io: &Io) -> Result<Buffer> {
        let fetched = self.fetch(MissingBlock { handle, role }, io, false)?;
        Ok(fetched.block)
    }

    /// Returns the handles in an index block, checked to lie in the file.
    pub(super) fn handles_in(
        &self,
        bytes: &[u8],
        form: IndexForm,
        found_in: Handle,
    ) -> Result<Vec<Handle>> {
        let bad = |error| self.bad(error, found_in.offset);
        let layout = BlockLayout::parse(bytes, BlockKind::Index).map_err(bad)?;
        let mut cursor = IndexCursor::new(form);
        let mut handles = Vec::new();
        cursor.first(bytes, &layout).map_err(bad)?;
        while cursor.valid() {
            let handle = cursor.handle();
            self.check(handle, found_in)?;
            handles.push(handle);
            cursor.next(bytes, &layout).map_err(bad)?;
        }
        Ok(handles)
    }

    /// Returns the handles of the partitions of the index, or of the filter.
    pub(crate) fn partition_handles(&self, of_filter: bool, io: &Io) -> Result<Vec<Handle>> {
        let (part, form, role) = match &self.filter {
            Some(filter) if of_filter => (&filter.root, filter.form, CacheRole::FilterMeta),
            _ => (&self.index.root, self.index.form, CacheRole::Index),
        };
        let MetaBlock { handle, held } = part;
        let root = match held {
            Some(held) => held.clone(),
            None => self.verify_block(*handle, role, io)?,
        };
        self.handles_in(&root, form, *handle)
    }
}
