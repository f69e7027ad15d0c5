//! Verifies a whole table: the checksum of every block, its decompression and, on request, its entries.

use cairn_format::block::{BlockKind, BlockLayout, IndexCursor, IndexForm};
use cairn_format::table::{Handle, meta};
use cairn_memory::CacheRole;
use cairn_platform::{Buffer, Io};
use cairn_types::Result;

use super::block_fetcher::{self, Raw};
use super::entry_check::EntryCheck;
use super::table::{MetaBlock, MissingBlock, Table};

impl Table {
    /// Reads and verifies every block that the index and the metaindex refer to, bypassing the cache. A table without
    /// blocks has no checksums: its entries are decoded.
    ///
    /// # Errors
    ///
    /// The first damaged block, with its offset, expected and found values.
    pub fn verify_checksums(&self, io: &Io) -> Result<()> {
        self.verify(io, &mut None)
    }

    /// Like [`Table::verify_checksums`], and decodes every entry: blocks with correct checksums may still contradict
    /// each other, the index, or the properties. `is_ordered` is false if the order that the table was opened with is
    /// not that of its keys; then neither their order nor the index is verified.
    ///
    /// # Errors
    ///
    /// The first damaged block, with its offset, expected and found values, or the first contradiction.
    pub fn verify_entries(&self, io: &Io, is_ordered: bool) -> Result<()> {
        let mut entries = Some(EntryCheck::new(self, is_ordered));
        self.verify(io, &mut entries)?;
        match entries {
            // An image has compared the number of its entries.
            Some(entries) if self.image.is_none() => entries.finish(io),
            _ => Ok(()),
        }
    }

    /// Verifies all blocks, and the entries of data blocks with `entries`.
    fn verify(&self, io: &Io, entries: &mut Option<EntryCheck<'_>>) -> Result<()> {
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
        let bytes = self.verify_block(root, CacheRole::Index, io)?;
        self.verify_under((&bytes, root), self.index.two_level, io, entries)
    }

    /// Verifies the blocks under an index block: partitions of the index if it `has_partitions`, or data blocks.
    fn verify_under(
        &self,
        (bytes, found_in): (&[u8], Handle),
        has_partitions: bool,
        io: &Io,
        entries: &mut Option<EntryCheck<'_>>,
    ) -> Result<()> {
        self.visit_index(bytes, self.index.form, found_in, |separator, handle| {
            if has_partitions {
                let partition = self.verify_block(handle, CacheRole::Index, io)?;
                self.verify_under((&partition, handle), false, io, entries)?;
            } else {
                let block = self.verify_block(handle, CacheRole::Data, io)?;
                let verified = match entries {
                    Some(entries) => entries.verify_block(&block),
                    None => BlockLayout::parse(&block, BlockKind::Data).map(|_| ()),
                };
                verified.map_err(|error| self.bad(error, handle.offset))?;
            }
            match entries {
                Some(entries) => entries
                    .verify_separator(separator)
                    .map_err(|error| self.bad(error, found_in.offset)),
                None => Ok(()),
            }
        })
    }

    pub(super) fn verify_block(&self, handle: Handle, role: CacheRole, io: &Io) -> Result<Buffer> {
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
        let mut handles = Vec::new();
        self.visit_index(bytes, form, found_in, |_, handle| {
            handles.push(handle);
            Ok(())
        })?;
        Ok(handles)
    }

    /// Calls `visit` with the separators and the handles in an index block, which are checked to lie in the file.
    fn visit_index(
        &self,
        bytes: &[u8],
        form: IndexForm,
        found_in: Handle,
        mut visit: impl FnMut(&[u8], Handle) -> Result<()>,
    ) -> Result<()> {
        let bad = |error| self.bad(error, found_in.offset);
        let layout = BlockLayout::parse(bytes, BlockKind::Index).map_err(bad)?;
        let mut cursor = IndexCursor::new(form);
        cursor.first(bytes, &layout).map_err(bad)?;
        while cursor.valid() {
            let handle = cursor.handle();
            self.check(handle, found_in)?;
            visit(cursor.key(bytes), handle)?;
            cursor.next(bytes, &layout).map_err(bad)?;
        }
        Ok(())
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
