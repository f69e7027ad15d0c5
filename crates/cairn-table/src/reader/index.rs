//! Index lookups: a single block, or a top-level block over partitions.

use cairn_format::block::{BlockKind, BlockLayout, IndexCursor, IndexForm, KeyWords};
use cairn_format::table::Handle;
use cairn_memory::{CacheCharge, CacheRole, MemoryUse};
use cairn_platform::Buffer;
use cairn_platform::sync::{AtomicU8, OnceLock, Ordering};
use cairn_types::{KeyOrder, Result};

use super::open::OpenParams;
use super::table::{Blocks, MetaBlock, MissingBlock, SuppliedBlocks, Table};

/// The index of an open table.
pub(crate) struct Index {
    pub form: IndexForm,
    pub two_level: bool,
    pub root: MetaBlock,
    pub words: RootWords,
    /// Partitions held in memory, by offset; usually empty.
    pub partitions: Blocks,
}

/// Key words of the index root, if it is held in memory and keys sort bytewise,
/// apart from timestamps. The second get
/// that searches the root builds them, so that a table that is opened and read once, as many are
/// when a database is first read, does not pay for them.
#[derive(Default)]
pub(crate) struct RootWords {
    laid: OnceLock<Option<ChargedWords>>,
    /// Number of earlier searches of the root.
    searches: AtomicU8,
}

/// Search words, and their charge to the block cache.
struct ChargedWords {
    words: KeyWords,
    _charge: Option<CacheCharge>,
}

/// A get counts one search of the root, even if it has to read the block.
const SEARCHES_OF_A_GET: u8 = 1;

impl RootWords {
    /// Returns the words, if they have been built.
    #[inline]
    pub(crate) fn get(&self) -> Option<&KeyWords> {
        self.laid.get()?.as_ref().map(|laid| &laid.words)
    }
}

impl Index {
    /// Returns the words for a search of the root, in a table of `order` that was opened with `params`.
    #[inline]
    fn words_to_search(&self, order: &KeyOrder, params: &OpenParams) -> Option<&KeyWords> {
        match self.words.laid.get() {
            Some(laid) => laid.as_ref().map(|laid| &laid.words),
            None => self.lay_words(order, params),
        }
    }

    #[cold]
    fn lay_words(&self, order: &KeyOrder, params: &OpenParams) -> Option<&KeyWords> {
        // Entries that are found by words are not read from the block, and not verified.
        if params.block_checksum_len > 0 {
            return None;
        }
        // Relaxed: it does not matter which of several concurrent searches is counted first, nor that
        // the count wraps.
        if self.words.searches.fetch_add(1, Ordering::Relaxed) < SEARCHES_OF_A_GET {
            return None;
        }
        let lay = || {
            let root = self.root.held.as_ref()?;
            let layout = BlockLayout::parse(root, BlockKind::Index).ok()?;
            let words = KeyWords::of_index(root, &layout, self.form, order)?;
            let charge = params.charge(MemoryUse::TableReader, words.memory_usage());
            Some(ChargedWords {
                words,
                _charge: charge,
            })
        };
        let laid = self.words.laid.get_or_init(lay);
        laid.as_ref().map(|laid| &laid.words)
    }

    fn pinned(&self, handle: Handle) -> Option<&Buffer> {
        let at = self
            .partitions
            .binary_search_by_key(&handle.offset, |(offset, _)| *offset)
            .ok()?;
        Some(&self.partitions[at].1)
    }
}

/// The target position of an index walk in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    First,
    Last,
    /// The first entry at or after the target.
    Seek,
    /// The first entry at or after the target, or the last entry if there is none.
    SeekOrLast,
}

/// The position of an [`IndexIter`], as small as it can be stored.
pub(crate) enum SavedPosition {
    /// An entry of a root with key words, by its index.
    ByWords(u32),
    /// Any other position.
    Whole(Box<IndexIter>),
}

/// A cursor over the entries of an index.
///
/// Movements that need a block are only recorded; [`IndexIter::settle`] carries them out as far as
/// blocks are in memory, and is called again after it reported a missing block.
#[derive(Clone, Default)]
pub(crate) struct IndexIter {
    root: IndexCursor,
    leaf: IndexCursor,
    two_level: bool,
    root_todo: Option<Landing>,
    leaf_todo: Option<Landing>,
    /// The root block, unless the table holds it.
    root_block: Option<Buffer>,
    leaf_block: Option<Buffer>,
}

impl IndexIter {
    pub(crate) fn new(table: &Table) -> IndexIter {
        let mut walk = IndexIter::default();
        walk.reset_to(table);
        walk
    }

    /// Resets the cursor to the index of `table`.
    #[inline]
    pub(crate) fn reset_to(&mut self, table: &Table) {
        self.root.reset(table.index.form);
        self.leaf.reset(table.index.form);
        self.two_level = table.index.two_level;
        self.root_todo = None;
        self.leaf_todo = None;
        self.root_block = None;
        self.leaf_block = None;
    }

    /// Releases the blocks and makes the cursor invalid.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.root_block = None;
        self.leaf_block = None;
    }

    /// Moves the position out of the cursor, which has to be reset before it is used again.
    pub(crate) fn save(&mut self) -> SavedPosition {
        match self.root.entry_by_words() {
            Some(entry) if !self.two_level && self.is_settled() => SavedPosition::ByWords(entry),
            _ => SavedPosition::Whole(Box::new(std::mem::take(self))),
        }
    }

    /// Returns to a position in the index of `table`.
    pub(crate) fn restore(&mut self, table: &Table, saved: SavedPosition) {
        let entry = match saved {
            SavedPosition::ByWords(entry) => entry,
            SavedPosition::Whole(cursor) => {
                *self = *cursor;
                return;
            }
        };
        self.reset_to(table);
        let words = table.index.words.get();
        let moved = words.is_some_and(|words| self.root.move_by_words(words, entry));
        debug_assert!(moved, "a table keeps its key words");
    }

    /// The memory that the cursor keeps for later movements.
    pub(crate) fn memory_usage(&self) -> usize {
        self.root.memory_usage() + self.leaf.memory_usage()
    }

    /// True if no movement is pending.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.root_todo.is_none() && self.leaf_todo.is_none()
    }

    /// True if the cursor, which must be settled, is at an entry.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.root.valid() && (!self.two_level || self.leaf.valid())
    }

    /// Returns the handle of the current data block.
    #[inline]
    pub(crate) fn handle(&self) -> Handle {
        if self.two_level {
            self.leaf.handle()
        } else {
            self.root.handle()
        }
    }

    /// Returns the handle of the index block of the current entry, for error messages.
    pub(crate) fn found_in(&self, table: &Table) -> Handle {
        if self.two_level {
            self.root.handle()
        } else {
            table.index.root.handle
        }
    }

    /// Returns the handle of the next data block, or of the previous one if `back`, if it is in the
    /// current index block.
    #[inline]
    pub(crate) fn neighbour(&self, table: &Table, back: bool) -> Option<Handle> {
        let words = table.index.words.get().filter(|_| !self.two_level)?;
        words.handle(self.root.neighbour_by_words(back)?)
    }

    /// Returns the user key of the separator after the current data block.
    #[inline]
    pub(crate) fn user_key<'a>(&'a self, table: &'a Table) -> &'a [u8] {
        if self.two_level {
            self.leaf
                .user_key(self.leaf_block.as_deref().unwrap_or_default())
        } else {
            self.root.user_key(root_bytes(&self.root_block, table))
        }
    }

    /// Starts a new movement from the root.
    pub(crate) fn start(&mut self, landing: Landing) {
        self.root.clear();
        self.leaf.clear();
        self.root_todo = Some(landing);
        self.leaf_todo = None;
    }

    /// Carries out pending movements. Returns the missing block if there is one.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        table: &Table,
        supplied: &SuppliedBlocks,
        target: &[u8],
    ) -> Result<Option<MissingBlock>> {
        if let Some(landing) = self.root_todo
            && let Some(lack) = self.settle_root(table, supplied, target, landing)?
        {
            return Ok(Some(lack));
        }
        if self.two_level {
            return self.settle_leaf(table, supplied, target);
        }
        Ok(None)
    }

    #[inline]
    fn settle_root(
        &mut self,
        table: &Table,
        supplied: &SuppliedBlocks,
        target: &[u8],
        landing: Landing,
    ) -> Result<Option<MissingBlock>> {
        let part = &table.index.root;
        if part.held.is_none() && self.root_block.is_none() {
            let lack = MissingBlock {
                handle: part.handle,
                role: CacheRole::Index,
            };
            match table.find(lack, supplied) {
                Some(block) => self.root_block = Some(block),
                None => return Ok(Some(lack)),
            }
        }
        let bytes = root_bytes(&self.root_block, table);
        // A scan is no search: it uses words, but does not need them.
        let words = match landing {
            Landing::First | Landing::Last => table.index.words.get(),
            Landing::Seek | Landing::SeekOrLast => {
                table.index.words_to_search(&table.order, &table.params)
            }
        };
        let place = (part.handle, words);
        let landed = land(&mut self.root, bytes, table, target, landing, place)?;
        if table.guards() {
            self.verify_root(table)?;
        }
        self.root_todo = None;
        if self.two_level && self.root.valid() {
            self.leaf_todo = Some(landed);
        }
        Ok(None)
    }

    fn settle_leaf(
        &mut self,
        table: &Table,
        supplied: &SuppliedBlocks,
        target: &[u8],
    ) -> Result<Option<MissingBlock>> {
        while let Some(landing) = self.leaf_todo {
            if !self.root.valid() {
                self.leaf_todo = None;
                break;
            }
            let handle = self.root.handle();
            table.check(handle, table.index.root.handle)?;
            let block = match table.index.pinned(handle) {
                Some(pinned) => pinned.clone(),
                None => {
                    let lack = MissingBlock {
                        handle,
                        role: CacheRole::Index,
                    };
                    match table.find(lack, supplied) {
                        Some(block) => block,
                        None => return Ok(Some(lack)),
                    }
                }
            };
            let place = (handle, None);
            let landed = land(&mut self.leaf, &block, table, target, landing, place)?;
            self.leaf_block = Some(block);
            if table.guards() {
                self.verify_leaf(table)?;
            }
            self.leaf_todo = None;
            if !self.leaf.valid() {
                // An empty partition or, in a damaged file, one that ends before its separator.
                self.step_root(table, landed == Landing::Last)?;
            }
        }
        Ok(None)
    }

    /// Moves to the first entry of the next partition, or to the last of the previous one if `back`.
    fn step_root(&mut self, table: &Table, back: bool) -> Result<()> {
        let bytes = root_bytes(&self.root_block, table);
        step(&mut self.root, bytes, table, back, table.index.root.handle)?;
        if table.guards() {
            self.verify_root(table)?;
        }
        self.leaf_todo = Some(if back { Landing::Last } else { Landing::First });
        Ok(())
    }

    /// Moves to the next entry, or to the previous one if `back`. The cursor is settled before and
    /// after.
    pub(crate) fn step(&mut self, table: &Table, back: bool) -> Result<()> {
        if !self.two_level {
            if let Some(words) = table.index.words.get()
                && let Some(i) = self.root.neighbour_by_words(back)
                && self.root.move_by_words(words, i)
            {
                return Ok(());
            }
            let bytes = root_bytes(&self.root_block, table);
            step(&mut self.root, bytes, table, back, table.index.root.handle)?;
            return match table.guards() {
                true => self.verify_root(table),
                false => Ok(()),
            };
        }
        let handle = self.root.handle();
        let bytes = self.leaf_block.as_deref().unwrap_or_default();
        step(&mut self.leaf, bytes, table, back, handle)?;
        if table.guards() {
            self.verify_leaf(table)?;
        }
        if !self.leaf.valid() {
            self.step_root(table, back)?;
        }
        Ok(())
    }

    /// Verifies the entry of the root block.
    #[cold]
    fn verify_root(&self, table: &Table) -> Result<()> {
        let block = root_block(&self.root_block, table);
        verify(&self.root, block, table, table.index.root.handle)
    }

    /// Verifies the entry of the partition.
    #[cold]
    fn verify_leaf(&self, table: &Table) -> Result<()> {
        let block = self.leaf_block.as_ref();
        verify(&self.leaf, block, table, self.root.handle())
    }
}

#[inline]
fn root_block<'a>(own: &'a Option<Buffer>, table: &'a Table) -> Option<&'a Buffer> {
    table.index.root.held.as_ref().or(own.as_ref())
}

#[inline]
fn root_bytes<'a>(own: &'a Option<Buffer>, table: &'a Table) -> &'a [u8] {
    root_block(own, table).map_or(&[], |block| block)
}

/// Verifies the checksum of the entry at `cursor` in `block`.
fn verify(
    cursor: &IndexCursor,
    block: Option<&Buffer>,
    table: &Table,
    handle: Handle,
) -> Result<()> {
    let verified = block.map_or(Ok(()), |block| table.verify_index(cursor, block));
    verified.map_err(|error| table.bad(error, handle.offset))
}

/// Moves `cursor` by one.
fn step(
    cursor: &mut IndexCursor,
    bytes: &[u8],
    table: &Table,
    back: bool,
    handle: Handle,
) -> Result<()> {
    let moved = BlockLayout::parse(bytes, BlockKind::Index).and_then(|layout| {
        if back {
            cursor.prev(bytes, &layout)
        } else {
            cursor.next(bytes, &layout)
        }
    });
    moved.map_err(|error| table.bad(error, handle.offset))
}

/// Positions `cursor` in the block, with its key words if it has any, and returns the target
/// position for the next lower block.
#[inline]
fn land(
    cursor: &mut IndexCursor,
    bytes: &[u8],
    table: &Table,
    target: &[u8],
    landing: Landing,
    (handle, words): (Handle, Option<&KeyWords>),
) -> Result<Landing> {
    let mut go = || {
        let layout = BlockLayout::parse(bytes, BlockKind::Index)?;
        let by_words =
            |cursor: &mut IndexCursor, i| words.is_some_and(|words| cursor.move_by_words(words, i));
        match landing {
            Landing::First if by_words(cursor, 0) => {}
            Landing::First => cursor.first(bytes, &layout)?,
            Landing::Last if by_words(cursor, layout.restarts() - 1) => {}
            Landing::Last => cursor.last(bytes, &layout)?,
            Landing::Seek | Landing::SeekOrLast => {
                match words {
                    Some(words) => cursor.seek_with(words, bytes, &layout, &table.order, target)?,
                    None => cursor.seek(bytes, &layout, &table.order, target)?,
                }
                if landing == Landing::SeekOrLast && !cursor.valid() {
                    cursor.last(bytes, &layout)?;
                    return Ok(Landing::Last);
                }
            }
        }
        Ok(landing)
    };
    go().map_err(|error| table.bad(error, handle.offset))
}
