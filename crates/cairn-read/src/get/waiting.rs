//! A lookup that waits for a table or a block.

use std::sync::Arc;

use cairn_observe::traces::block_cache::is_in_use as is_traced;
use cairn_options::ReadTier;
use cairn_platform::{Buffer, ReadRequest};
use cairn_table::TableGet;
use cairn_types::{Error, Result};
use cairn_version::{FileMeta, TableRef};

use super::{Pending, PointGet};
use crate::level::storage_forbidden;
use crate::operands::OnOperand;

impl<'a, H: OnOperand> PointGet<'a, H> {
    /// True if the lookup waits for a table or a block.
    pub(crate) fn is_blocked(&self) -> bool {
        self.pending.is_some()
    }

    /// True if only cached data may be read.
    pub(crate) fn is_cache_only(&self) -> bool {
        self.read_options.read_tier == ReadTier::BlockCache
    }

    /// True if the lookup waits for storage although only cached data may be read. The device of a cache tier is not
    /// storage.
    pub(crate) fn lacks_storage(&self) -> bool {
        let is_on_device =
            matches!(self.pending, Some(Pending::Block)) && self.state.lacks_only_device();
        self.is_cache_only() && !is_on_device
    }

    /// The error of a lookup that waits for storage although only cached data may be read.
    #[cold]
    pub(crate) fn refuse_storage(&self) -> Error {
        if is_traced()
            && let Some(table) = &self.table
        {
            self.state.trace_refused(table);
        }
        storage_forbidden()
    }

    /// The table that has to be opened, and its level.
    pub(crate) fn pending_table(&self) -> Option<(&'a Arc<FileMeta>, usize)> {
        match self.pending {
            Some(Pending::Table(file, level)) => Some((file, level)),
            _ => None,
        }
    }

    /// The tables to be opened after the current one, as far as the lookup may need them, and their levels. None
    /// if it does not wait for a table.
    pub(crate) fn tables_ahead(&mut self) -> Vec<(&'a Arc<FileMeta>, usize)> {
        let mut ahead = Vec::new();
        if self.pending_table().is_some() {
            let stage = self.stage;
            while let Some((file, level)) = self.next_file() {
                if file.table.get().is_none() {
                    ahead.push((file, level));
                }
            }
            self.stage = stage;
        }
        ahead
    }

    /// Opens the table that the lookup waits for, or returns the read of the block that it waits
    /// for.
    pub(crate) fn next_request(&mut self) -> Result<Option<ReadRequest>> {
        if self.lacks_storage() {
            return Err(self.refuse_storage());
        }
        match self.pending.take() {
            None => Ok(None),
            Some(Pending::Block) => Ok(self.request()),
            Some(Pending::Table(file, level)) => {
                self.read_deadline().check(&self.view.family)?;
                let family = &self.view.family;
                let table = family.tables.open(file, level, &family.io)?;
                self.enter(table, file)?;
                Ok(None)
            }
        }
    }

    /// If the lookup waits for a filter, starts to bring the filters of the open tables after the current one,
    /// which it may need next. Each is then supplied, and reaches its get through the cache.
    pub(crate) fn look_ahead(&mut self) -> Vec<(TableRef<'a>, TableGet)> {
        let mut ahead = Vec::new();
        if self.is_cache_only() || !self.state.lacks_filter() {
            return ahead;
        }
        let stage = self.stage;
        while let Some((file, _)) = self.next_file() {
            let mut state = TableGet::new();
            if is_traced() {
                state.trace_like(&self.state);
            }
            if let Some(table) = file.table.get()
                && table.lacks_filter_ahead(self.lookup, &self.options, &mut state)
            {
                ahead.push((table, state));
            }
        }
        self.stage = stage;
        ahead
    }

    /// The request for the missing block of the current table.
    pub(super) fn request(&self) -> Option<ReadRequest> {
        let table = self.table.as_ref()?;
        Some(self.state.request(table))
    }

    /// Supplies the missing block.
    pub(crate) fn supply(&mut self, bytes: Result<Buffer>) -> Result<()> {
        match &self.table {
            Some(table) => self.state.supply(table, bytes),
            None => bytes.map(|_| ()),
        }
    }

    /// True if `other` waits for the same block.
    pub(crate) fn needs_same_block(&self, other: &PointGet<'_>) -> bool {
        let same_table = match (&self.table, &other.table) {
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => false,
        };
        same_table && self.state.lacking_at() == other.state.lacking_at()
    }

    /// Supplies the missing block from `other`, which was waiting for the same one.
    pub(crate) fn supply_from(&mut self, other: &PointGet<'_>) {
        if !self.state.supply_from(&other.state) {
            // `other` has found the block in the cache or is done with it: request it again.
            self.pending = Some(Pending::Block);
        }
    }
}
