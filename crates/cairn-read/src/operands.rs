//! The merge operands of a key, pinned where they are stored.
//!
//! A lookup gathers operands newest first: those of memtables as slices, with one reference on each memtable,
//! and those of tables as ranges, with one reference on each block. A merge reads them in place. A read of
//! unmerged operands returns all of them in one allocation, [`Operands`], which the last handle frees.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{Deref, Index, Range};
use std::sync::Arc;

use cairn_memtable::{Memtable, PinnedValues};
use cairn_platform::Buffer;
use cairn_types::{Code, Error, Result, Subcode};

use crate::value::{Value, mergeable};
use crate::versions::Stored;

/// The merge operands that a lookup has found, as stored.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    /// The operands in memtables, newest first; all are newer than those in blocks.
    memtables: Vec<PinnedValues>,
    /// The operands in blocks, newest first.
    places: Vec<Place>,
    /// The blocks, in the order of `places`.
    blocks: Vec<Buffer>,
}

/// The place of an operand in one of the blocks.
#[derive(Clone, Copy, Debug)]
struct Place {
    block: u32,
    start: u32,
    end: u32,
}

impl Gathered {
    /// Adds the next older operand.
    #[inline]
    pub(crate) fn push(&mut self, stored: &Stored<'_>) {
        match stored {
            Stored::Memtable(memtable, entry) => {
                debug_assert!(self.places.is_empty(), "memtables are searched first");
                self.values_of(memtable).push(*entry);
            }
            Stored::Block(buffer, range) => {
                if !self.blocks.last().is_some_and(|last| last.is_same(buffer)) {
                    self.blocks.push((*buffer).clone());
                }
                self.places.push(Place {
                    block: offset(self.blocks.len() - 1),
                    start: offset(range.start),
                    end: offset(range.end),
                });
            }
        }
    }

    /// The operands in `memtable`, which is the last memtable searched.
    #[inline]
    pub(crate) fn values_of(&mut self, memtable: &Arc<Memtable>) -> &mut PinnedValues {
        if !self
            .memtables
            .last()
            .is_some_and(|last| last.is_of(memtable))
        {
            self.memtables.push(PinnedValues::new(memtable));
        }
        self.memtables.last_mut().expect("there is one")
    }

    /// The number of operands.
    pub(crate) fn len(&self) -> usize {
        let memtables = self.memtables.iter();
        self.places.len() + memtables.map(|values| values.values().len()).sum::<usize>()
    }

    /// The operands, oldest first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = &[u8]> {
        let blocks = self.places.iter().rev().map(|place| self.in_block(*place));
        let memtables = self.memtables.iter().rev();
        blocks.chain(memtables.flat_map(|values| values.values().iter().rev().copied()))
    }

    /// The operand `at`, counted from the oldest.
    #[inline]
    fn get(&self, at: usize) -> Option<&[u8]> {
        if let Some(nth) = self.places.len().checked_sub(at + 1) {
            return Some(self.in_block(self.places[nth]));
        }
        let mut at = at - self.places.len();
        for values in self.memtables.iter().rev() {
            let values = values.values();
            match values.len().checked_sub(at + 1) {
                Some(nth) => return Some(values[nth]),
                None => at -= values.len(),
            }
        }
        None
    }

    #[inline]
    fn in_block(&self, place: Place) -> &[u8] {
        &self.blocks[place.block as usize][place.start as usize..place.end as usize]
    }

    /// Calls `merge` with the operands, oldest first, each without its TTL timestamp if `dated`. The order of the
    /// operands is changed.
    ///
    /// # Errors
    ///
    /// `Corruption` if a timestamp is missing, and those of `merge`.
    pub(crate) fn with_slices<T>(
        &mut self,
        dated: bool,
        merge: impl FnOnce(&[&[u8]]) -> Result<T>,
    ) -> Result<T> {
        if let ([only], []) = (&mut *self.memtables, &*self.places)
            && !dated
        {
            only.reverse();
            return merge(only.values());
        }
        let mut operands = Vec::with_capacity(self.len());
        for operand in self.oldest_first() {
            operands.push(mergeable(operand, dated)?);
        }
        merge(&operands)
    }
}

/// Converts an offset in a block, or the number of a block, to its stored form.
#[inline]
fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("a block is less than 4 GiB")
}

/// The base value of a key, if it has one, and its merge operands, oldest first, pinned where they are stored: in
/// memtables and in blocks, without a copy. All of them share one allocation, and stay readable until the last
/// [`Operands`] and [`Operand`] of the call is dropped, whatever happens to the database. Cloning is cheap.
///
/// Pinned memory is not freed: that of whole memtables and blocks, however small the operands. To keep a few small
/// operands for long, copy them.
#[derive(Clone, Default)]
pub struct Operands(Option<Arc<Pinned>>);

/// The operands of one read.
struct Pinned {
    base: Option<Value>,
    operands: Gathered,
    /// The number of operands, including the base value.
    len: usize,
    /// The length of the TTL timestamp at the end of each operand.
    suffix: usize,
}

impl Pinned {
    #[inline]
    fn get(&self, at: usize) -> Option<&[u8]> {
        let nth = match &self.base {
            Some(base) if at == 0 => return Some(base),
            Some(_) => at - 1,
            None => at,
        };
        let stored = self.operands.get(nth)?;
        Some(&stored[..stored.len() - self.suffix])
    }
}

impl Operands {
    /// `base` in the form that the merge operator receives, and `operands`, without their TTL timestamps if `dated`.
    ///
    /// # Errors
    ///
    /// `Corruption` if a timestamp is missing.
    pub(crate) fn new(base: Option<Value>, operands: Gathered, dated: bool) -> Result<Operands> {
        let len = operands.len() + usize::from(base.is_some());
        if len == 0 {
            return Ok(Operands(None));
        }
        let mut suffix = 0;
        if dated {
            for operand in operands.oldest_first() {
                suffix = operand.len() - mergeable(operand, true)?.len();
            }
        }
        Ok(Operands(Some(Arc::new(Pinned {
            base,
            operands,
            len,
            suffix,
        }))))
    }

    /// The number of operands, including the base value.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |pinned| pinned.len)
    }

    /// True if the key does not exist.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The bytes of operand `at`, counted from the oldest; `None` if there are no more than `at`.
    #[inline]
    #[must_use]
    pub fn bytes(&self, at: usize) -> Option<&[u8]> {
        self.0.as_ref()?.get(at)
    }

    /// Operand `at`, counted from the oldest, as an independent handle; `None` if there are no more than `at`.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<Operand> {
        let pinned = self.0.as_ref().filter(|pinned| at < pinned.len)?;
        Some(Operand {
            pinned: Arc::clone(pinned),
            at,
        })
    }

    /// The operands, oldest first.
    #[must_use]
    pub fn iter(&self) -> OperandsIter<'_> {
        OperandsIter {
            operands: self,
            range: 0..self.len(),
        }
    }
}

impl Index<usize> for Operands {
    type Output = [u8];

    /// The operand `at`, counted from the oldest.
    ///
    /// # Panics
    ///
    /// If there are no more than `at`.
    fn index(&self, at: usize) -> &[u8] {
        let operand = self.bytes(at);
        operand.unwrap_or_else(|| panic!("operand {at} of {}", self.len()))
    }
}

impl fmt::Debug for Operands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operands({})", self.len())
    }
}

/// A merge operand or the base value of operands. It pins all operands that were read with it; see [`Operands`].
#[derive(Clone)]
pub struct Operand {
    pinned: Arc<Pinned>,
    at: usize,
}

impl Deref for Operand {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let operand = self.pinned.get(self.at);
        operand.expect("handles are made for existing operands")
    }
}

impl AsRef<[u8]> for Operand {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Operand({} bytes)", self.len())
    }
}

/// An iterator over [`Operands`], oldest first.
#[derive(Clone, Debug)]
pub struct OperandsIter<'o> {
    operands: &'o Operands,
    range: Range<usize>,
}

impl<'o> Iterator for OperandsIter<'o> {
    type Item = &'o [u8];

    #[inline]
    fn next(&mut self) -> Option<&'o [u8]> {
        self.operands.bytes(self.range.next()?)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.range.size_hint()
    }
}

impl DoubleEndedIterator for OperandsIter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        self.operands.bytes(self.range.next_back()?)
    }
}

impl ExactSizeIterator for OperandsIter<'_> {}

impl FusedIterator for OperandsIter<'_> {}

impl<'o> IntoIterator for &'o Operands {
    type Item = &'o [u8];
    type IntoIter = OperandsIter<'o>;

    fn into_iter(self) -> OperandsIter<'o> {
        self.iter()
    }
}

/// A function that is called with a merge operand and returns false to end the read.
pub type ContinueCallback<'a> = &'a mut (dyn FnMut(&[u8]) -> bool + 'a);

/// The limits of a read of merge operands.
pub struct GetMergeOperandsOptions<'a> {
    /// Maximum number of operands, including the base value: a read that finds more returns none of them. Default:
    /// no limit.
    pub expected_max_number_of_operands: usize,
    /// A function that is called with each operand, newest first, and returns false to end the read: older operands
    /// and the base value are then not returned. It is not called with the base value. It may call the database. A
    /// panic ends the read and is passed on.
    pub continue_cb: Option<ContinueCallback<'a>>,
    /// The number of operands that the read found, also if they are too many. Set by the read.
    pub number_of_operands: usize,
}

impl Default for GetMergeOperandsOptions<'_> {
    fn default() -> Self {
        GetMergeOperandsOptions {
            expected_max_number_of_operands: usize::MAX,
            continue_cb: None,
            number_of_operands: 0,
        }
    }
}

impl fmt::Debug for GetMergeOperandsOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetMergeOperandsOptions")
            .field(
                "expected_max_number_of_operands",
                &self.expected_max_number_of_operands,
            )
            .field("continue_cb", &self.continue_cb.is_some())
            .field("number_of_operands", &self.number_of_operands)
            .finish()
    }
}

impl GetMergeOperandsOptions<'_> {
    /// Checks the number of operands found.
    ///
    /// # Errors
    ///
    /// `Incomplete` if there are too many.
    pub(crate) fn check(&self) -> Result<()> {
        let (max, found) = (
            self.expected_max_number_of_operands,
            self.number_of_operands,
        );
        match found > max {
            true => Err(Error::new(
                Code::Incomplete,
                Subcode::MergeOperandsInsufficientCapacity,
                format!("expected at most {max}, found {found}"),
            )),
            false => Ok(()),
        }
    }
}

/// A callback for each merge operand that a lookup finds.
pub(crate) trait OnOperand {
    /// Called with each operand as stored, newest first. Returns false to end the lookup with it.
    fn found(&mut self, operand: &[u8]) -> bool;
    /// True if the operand is needed.
    fn keeps(&self) -> bool;
}

/// A lookup that merges all operands.
impl OnOperand for () {
    #[inline]
    fn found(&mut self, _operand: &[u8]) -> bool {
        true
    }

    #[inline]
    fn keeps(&self) -> bool {
        true
    }
}

/// A read of unmerged operands: counts them, and gathers no more than are expected.
pub(crate) struct Counting<'r, 'a> {
    pub(crate) request: &'r mut GetMergeOperandsOptions<'a>,
    /// True if operands end with a TTL timestamp.
    pub(crate) dated: bool,
}

impl OnOperand for Counting<'_, '_> {
    #[inline]
    fn found(&mut self, operand: &[u8]) -> bool {
        self.request.number_of_operands += 1;
        match &mut self.request.continue_cb {
            None => true,
            // The read fails at an operand without its timestamp once it is over.
            Some(goes_on) => mergeable(operand, self.dated).is_ok_and(goes_on),
        }
    }

    #[inline]
    fn keeps(&self) -> bool {
        self.request.number_of_operands <= self.request.expected_max_number_of_operands
    }
}
