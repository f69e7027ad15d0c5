//! The way through the index: one block, or a top block over partitions.

use cairn_format::block::{BlockKind, BlockLayout, IndexCursor, IndexForm, KeyWords};
use cairn_format::table::Handle;
use cairn_memory::CacheRole;
use cairn_platform::Buffer;
use cairn_platform::sync::{AtomicU8, OnceLock, Ordering};
use cairn_types::{KeyOrder, Result};

use super::table::{Blocks, Lack, Part, Supplied, Table};

/// The index of an open table.
pub(crate) struct Index {
    pub form: IndexForm,
    pub two_level: bool,
    pub root: Part,
    pub words: RootWords,
    /// Partitions held in memory, by offset; usually none.
    pub partitions: Blocks,
}

/// The words of the root of an index, if it is held in memory and keys are in the order of their bytes. They
/// are laid when a second get searches it: a table that is opened and asked once, as many are by the first
/// read of a database, is not worth them.
#[derive(Default)]
pub(crate) struct RootWords {
    laid: OnceLock<Option<KeyWords>>,
    /// How often the root was searched before.
    searches: AtomicU8,
}

/// A get searches the root once, also if it has to read its block.
const SEARCHES_OF_A_GET: u8 = 1;

impl RootWords {
    /// The words, if they are laid.
    #[inline]
    pub(crate) fn get(&self) -> Option<&KeyWords> {
        self.laid.get()?.as_ref()
    }
}

impl Index {
    /// The words for a search of the root in a table of `order`.
    #[inline]
    fn words_to_search(&self, order: &KeyOrder) -> Option<&KeyWords> {
        match self.words.laid.get() {
            Some(words) => words.as_ref(),
            None => self.lay_words(order),
        }
    }

    #[cold]
    fn lay_words(&self, order: &KeyOrder) -> Option<&KeyWords> {
        // Relaxed: nothing hangs on which of several searches counts first, nor on a count that begins anew.
        if self.words.searches.fetch_add(1, Ordering::Relaxed) < SEARCHES_OF_A_GET {
            return None;
        }
        let lay = || {
            let root = self.root.held.as_ref().filter(|_| order.is_bytewise())?;
            let layout = BlockLayout::parse(root, BlockKind::Index).ok()?;
            KeyWords::of_index(root, &layout, self.form)
        };
        self.words.laid.get_or_init(lay).as_ref()
    }

    fn pinned(&self, handle: Handle) -> Option<&Buffer> {
        let at = self
            .partitions
            .binary_search_by_key(&handle.offset, |(offset, _)| *offset)
            .ok()?;
        Some(&self.partitions[at].1)
    }
}

/// Where in a block a walk should stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    First,
    Last,
    /// At the first entry at or after the target.
    Seek,
    /// At the first entry at or after the target, or at the last one if there is none.
    SeekOrLast,
}

/// A walk through the entries of an index.
///
/// What needs a block only notes what is to be done; [`IndexWalk::settle`] does it, as far as the
/// blocks are in memory, and may be called again after it named one that is not.
#[derive(Default)]
pub(crate) struct IndexWalk {
    root: IndexCursor,
    leaf: IndexCursor,
    two_level: bool,
    root_todo: Option<Landing>,
    leaf_todo: Option<Landing>,
    /// The root, if the table does not hold it.
    root_block: Option<Buffer>,
    leaf_block: Option<Buffer>,
}

impl IndexWalk {
    pub(crate) fn new(table: &Table) -> IndexWalk {
        let mut walk = IndexWalk::default();
        walk.turn_to(table);
        walk
    }

    /// Makes a walk of this one that has not begun, through the index of `table`.
    #[inline]
    pub(crate) fn turn_to(&mut self, table: &Table) {
        self.root.turn_to(table.index.form);
        self.leaf.turn_to(table.index.form);
        self.two_level = table.index.two_level;
        self.root_todo = None;
        self.leaf_todo = None;
        self.root_block = None;
        self.leaf_block = None;
    }

    /// Releases the blocks; the walk is over.
    #[inline]
    pub(crate) fn let_go(&mut self) {
        self.root_block = None;
        self.leaf_block = None;
    }

    /// True if nothing is to be done.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.root_todo.is_none() && self.leaf_todo.is_none()
    }

    /// True if the walk stands on an entry, when it is settled.
    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.root.valid() && (!self.two_level || self.leaf.valid())
    }

    /// The handle of the data block at which the walk stands.
    #[inline]
    pub(crate) fn handle(&self) -> Handle {
        if self.two_level {
            self.leaf.handle()
        } else {
            self.root.handle()
        }
    }

    /// Where the index block that has this entry lies; for messages.
    pub(crate) fn found_in(&self, table: &Table) -> Handle {
        if self.two_level {
            self.root.handle()
        } else {
            table.index.root.handle
        }
    }

    /// The handle of the data block behind the one at which the walk stands, or of the one before if
    /// `back`, if it is at hand.
    #[inline]
    pub(crate) fn neighbour(&self, table: &Table, back: bool) -> Option<Handle> {
        let words = table.index.words.get().filter(|_| !self.two_level)?;
        words.handle(self.root.neighbour_by_words(back)?)
    }

    /// The user key of the separator behind the data block at which the walk stands.
    #[inline]
    pub(crate) fn user_key<'a>(&'a self, table: &'a Table) -> &'a [u8] {
        if self.two_level {
            self.leaf
                .user_key(self.leaf_block.as_deref().unwrap_or_default())
        } else {
            self.root.user_key(root_bytes(&self.root_block, table))
        }
    }

    /// Begins anew.
    pub(crate) fn start(&mut self, landing: Landing) {
        self.root.clear();
        self.leaf.clear();
        self.root_todo = Some(landing);
        self.leaf_todo = None;
    }

    /// Does what is to be done. Returns the block that is not in memory, if that stops it.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        table: &Table,
        supplied: &Supplied,
        target: &[u8],
    ) -> Result<Option<Lack>> {
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
        supplied: &Supplied,
        target: &[u8],
        landing: Landing,
    ) -> Result<Option<Lack>> {
        let part = &table.index.root;
        if part.held.is_none() && self.root_block.is_none() {
            let lack = Lack {
                handle: part.handle,
                role: CacheRole::Index,
            };
            match table.find(lack, supplied) {
                Some(block) => self.root_block = Some(block),
                None => return Ok(Some(lack)),
            }
        }
        let bytes = root_bytes(&self.root_block, table);
        let words = table.index.words_to_search(&table.order);
        let place = (part.handle, words);
        let landed = land(&mut self.root, bytes, table, target, landing, place)?;
        self.root_todo = None;
        if self.two_level && self.root.valid() {
            self.leaf_todo = Some(landed);
        }
        Ok(None)
    }

    fn settle_leaf(
        &mut self,
        table: &Table,
        supplied: &Supplied,
        target: &[u8],
    ) -> Result<Option<Lack>> {
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
                    let lack = Lack {
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
            self.leaf_todo = None;
            if !self.leaf.valid() {
                // An empty partition, or (in a damaged file) one that ends before its separator.
                self.step_root(table, landed == Landing::Last)?;
            }
        }
        Ok(None)
    }

    /// Goes to the following (or preceding) partition, whose first (last) entry is then wanted.
    fn step_root(&mut self, table: &Table, back: bool) -> Result<()> {
        let bytes = root_bytes(&self.root_block, table);
        step(&mut self.root, bytes, table, back, table.index.root.handle)?;
        self.leaf_todo = Some(if back { Landing::Last } else { Landing::First });
        Ok(())
    }

    /// Goes to the following entry, or to the preceding one. Settled before and after.
    pub(crate) fn step(&mut self, table: &Table, back: bool) -> Result<()> {
        if !self.two_level {
            if let Some(words) = table.index.words.get()
                && let Some(i) = self.root.neighbour_by_words(back)
                && self.root.stand_by_words(words, i)
            {
                return Ok(());
            }
            let bytes = root_bytes(&self.root_block, table);
            return step(&mut self.root, bytes, table, back, table.index.root.handle);
        }
        let handle = self.root.handle();
        let bytes = self.leaf_block.as_deref().unwrap_or_default();
        step(&mut self.leaf, bytes, table, back, handle)?;
        if !self.leaf.valid() {
            self.step_root(table, back)?;
        }
        Ok(())
    }
}

#[inline]
fn root_bytes<'a>(own: &'a Option<Buffer>, table: &'a Table) -> &'a [u8] {
    table
        .index
        .root
        .held
        .as_deref()
        .or(own.as_deref())
        .unwrap_or_default()
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

/// Lands `cursor` in the block at a place, by its words if it has any, and returns how a block below is to be landed in.
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
        let by_words = |cursor: &mut IndexCursor, i| {
            words.is_some_and(|words| cursor.stand_by_words(words, i))
        };
        match landing {
            Landing::First if by_words(cursor, 0) => {}
            Landing::First => cursor.first(bytes, &layout)?,
            Landing::Last if by_words(cursor, layout.restarts() - 1) => {}
            Landing::Last => cursor.last(bytes, &layout)?,
            Landing::Seek | Landing::SeekOrLast => {
                match words {
                    Some(words) => cursor.seek_with(words, bytes, &layout, target)?,
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
