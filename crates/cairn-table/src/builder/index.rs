//! Input of the table's index: a separator and a handle per data block. They are kept until the
//! table is finished, because only then is it known whether user keys separate all blocks.

use std::cmp::Ordering;
use std::ops::Range;

use cairn_format::coding::put_varint32;
use cairn_format::key::{self, strip_timestamp};
use cairn_format::table::Handle;
use cairn_options::IndexShortening;
use cairn_types::{KeyOrder, PrefixExtractor};

/// The data blocks of a table with their index entries.
pub(crate) struct IndexRows {
    order: KeyOrder,
    shortening: IndexShortening,
    /// Separators (internal keys), concatenated.
    separators: Vec<u8>,
    separator_ends: Vec<usize>,
    /// First internal keys of the blocks, if the index contains them.
    first_keys: Option<(Vec<u8>, Vec<usize>)>,
    handles: Vec<Handle>,
    /// True if the same user key is on both sides of a block boundary.
    needs_internal_keys: bool,
    scratch: Vec<u8>,
}

fn piece(ends: &[usize], at: usize) -> Range<usize> {
    let start = at.checked_sub(1).map_or(0, |before| ends[before]);
    start..ends[at]
}

impl IndexRows {
    pub(crate) fn new(order: KeyOrder, shortening: IndexShortening, first_keys: bool) -> IndexRows {
        IndexRows {
            order,
            shortening,
            separators: Vec::new(),
            separator_ends: Vec::new(),
            first_keys: first_keys.then(Default::default),
            handles: Vec::new(),
            needs_internal_keys: false,
            scratch: Vec::new(),
        }
    }

    /// Records the first key of the current data block.
    pub(crate) fn begin_block(&mut self, first: &[u8]) {
        if let Some((keys, ends)) = &mut self.first_keys {
            keys.extend_from_slice(first);
            ends.push(keys.len());
        }
    }

    /// Ends the data block whose last key is `last`; `next` is the first key of the next block.
    pub(crate) fn end_block(&mut self, last: &[u8], next: Option<&[u8]>) {
        self.scratch.clear();
        self.scratch.extend_from_slice(last);
        match (next, self.shortening) {
            (Some(next), shortening) => {
                let same = self.order.compare(key::user_key(last), key::user_key(next));
                self.needs_internal_keys |= same == Ordering::Equal;
                if shortening != IndexShortening::NoShortening {
                    key::shorten_separator(&self.order, &mut self.scratch, next);
                }
            }
            (None, IndexShortening::ShortenSeparatorsAndSuccessor) => {
                key::shorten_successor(&self.order, &mut self.scratch);
            }
            (None, _) => {}
        }
        self.separators.extend_from_slice(&self.scratch);
        self.separator_ends.push(self.separators.len());
    }

    /// Records the handle of the first block that has none.
    pub(crate) fn place_block(&mut self, handle: Handle) {
        self.handles.push(handle);
    }

    /// Returns the number of blocks that have a handle.
    pub(crate) fn placed(&self) -> usize {
        self.handles.len()
    }

    /// Returns the memory used, in bytes.
    pub(crate) fn memory_usage(&self) -> usize {
        let first_keys = self.first_keys.as_ref();
        let first_keys = first_keys.map_or(0, |(keys, ends)| {
            keys.capacity() + ends.capacity() * size_of::<usize>()
        });
        self.separators.capacity()
            + self.separator_ends.capacity() * size_of::<usize>()
            + self.handles.capacity() * size_of::<Handle>()
            + first_keys
    }

    /// Returns the number of data blocks.
    pub(crate) fn len(&self) -> usize {
        self.separator_ends.len()
    }

    pub(crate) fn needs_internal_keys(&self) -> bool {
        self.needs_internal_keys
    }

    /// Returns the separator after data block `block`, as the index stores it.
    pub(crate) fn separator(&self, block: usize, user_keys: bool) -> &[u8] {
        let internal = &self.separators[piece(&self.separator_ends, block)];
        if user_keys {
            key::user_key(internal)
        } else {
            internal
        }
    }

    pub(crate) fn handle(&self, block: usize) -> Handle {
        self.handles[block]
    }

    pub(crate) fn first_key(&self, block: usize) -> Option<&[u8]> {
        let (keys, ends) = self.first_keys.as_ref()?;
        Some(&keys[piece(ends, block)])
    }
}

/// The two metadata blocks of a hash index: the prefixes, and the data blocks of each.
pub(crate) struct PrefixRows {
    extractor: PrefixExtractor,
    timestamp_size: usize,
    prefixes: Vec<u8>,
    metadata: Vec<u8>,
    /// The current prefix, its first block and its number of blocks.
    open: Option<(Vec<u8>, u32, u32)>,
    /// True if a key has no prefix: the table gets a binary search index.
    incomplete: bool,
}

impl PrefixRows {
    pub(crate) fn new(extractor: PrefixExtractor, timestamp_size: usize) -> PrefixRows {
        PrefixRows {
            extractor,
            timestamp_size,
            prefixes: Vec::new(),
            metadata: Vec::new(),
            open: None,
            incomplete: false,
        }
    }

    /// Adds a key of data block `block`.
    pub(crate) fn add(&mut self, user_key: &[u8], block: u32) {
        let key = strip_timestamp(user_key, self.timestamp_size);
        let Some(prefix) = self.extractor.prefix(key) else {
            self.incomplete = true;
            return;
        };
        match &mut self.open {
            Some((open, first, count)) if open == prefix => *count = block - *first + 1,
            _ => {
                let next = (prefix.to_vec(), block, 1);
                self.close();
                self.open = Some(next);
            }
        }
    }

    fn close(&mut self) {
        if let Some((prefix, first, count)) = self.open.take() {
            put_varint32(&mut self.metadata, prefix.len() as u32);
            put_varint32(&mut self.metadata, first);
            put_varint32(&mut self.metadata, count);
            self.prefixes.extend_from_slice(&prefix);
        }
    }

    /// Returns the prefixes and their metadata, or `None` if a key has no prefix.
    pub(crate) fn finish(mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.close();
        (!self.incomplete).then_some((self.prefixes, self.metadata))
    }
}
