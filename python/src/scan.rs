//! Iterators of Python over a range.
//!
//! A scan reads a chunk of entries detached from the interpreter and then hands them out one by one. It shows one
//! point in time, so reading ahead changes nothing that it returns. The first chunks are small.

use std::sync::Arc;

use cairn::{Error, Iter as RustIter, ReadOptions, Result};
use parking_lot::MappedMutexGuard;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use self_cell::self_cell;

use crate::bytes::{Bytes, end_of_prefix};
use crate::errors::raise;
use crate::handle::{Exclusive, Shared};
use crate::space::FamilyCell;

self_cell!(
    /// An iterator, its family and its database.
    pub struct IterCell {
        owner: Arc<FamilyCell>,
        #[covariant]
        dependent: RustIter,
    }
);

pub fn iter_cell(family: &Arc<FamilyCell>, options: &ReadOptions) -> IterCell {
    IterCell::new(family.clone(), |family| {
        family.borrow_dependent().iter_with(options)
    })
}

/// Restricts `options` to the keys from `start` up to `stop` that begin with `prefix`.
pub fn bounds(
    options: &mut ReadOptions,
    start: Option<Bytes<'_>>,
    stop: Option<Bytes<'_>>,
    prefix: Option<Bytes<'_>>,
) {
    let mut lower = start.map(|start| start.to_vec());
    let mut upper = stop.map(|stop| stop.to_vec());
    if let Some(prefix) = prefix {
        // `None` is before every lower bound.
        lower = lower.max(Some(prefix.to_vec()));
        upper = match (upper, end_of_prefix(&prefix)) {
            (Some(upper), Some(end)) => Some(upper.min(end)),
            (upper, end) => upper.or(end),
        };
    }
    if lower.is_some() {
        options.iterate_lower_bound = lower;
    }
    if upper.is_some() {
        options.iterate_upper_bound = upper;
    }
}

/// The part of an entry that a scan returns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Keys,
    Values,
    Items,
}

/// The most bytes of a chunk, beyond its last entry, and the most entries.
const CHUNK_BYTES: usize = 256 << 10;
const CHUNK_ENTRIES: usize = 512;

/// Entries that are read but not returned.
#[derive(Default)]
pub struct Chunk {
    bytes: Vec<u8>,
    /// The ends of the key and the value of each entry in `bytes`.
    ends: Vec<(usize, usize)>,
    /// The number of entries returned, and their bytes.
    returned: usize,
    start: usize,
}

impl Chunk {
    pub fn push(&mut self, part: Part, key: &[u8], value: &[u8]) {
        if part != Part::Values {
            self.bytes.extend_from_slice(key);
        }
        let key_end = self.bytes.len();
        if part != Part::Keys {
            self.bytes.extend_from_slice(value);
        }
        self.ends.push((key_end, self.bytes.len()));
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        (self.returned, self.start) = (0, 0);
    }

    /// True if a chunk of at most `limit` entries is complete.
    pub fn is_full(&self, limit: usize) -> bool {
        self.ends.len() >= limit || self.bytes.len() >= CHUNK_BYTES
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    #[inline]
    fn is_returned(&self) -> bool {
        self.returned == self.ends.len()
    }

    #[inline]
    fn pop(&mut self) -> Option<(&[u8], &[u8])> {
        let (key_end, value_end) = *self.ends.get(self.returned)?;
        let start = std::mem::replace(&mut self.start, value_end);
        self.returned += 1;
        Some((&self.bytes[start..key_end], &self.bytes[key_end..value_end]))
    }

    /// The remaining entries, as pairs.
    pub fn into_list<'py>(mut self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        while let Some((key, value)) = self.pop() {
            list.append((PyBytes::new(py, key), PyBytes::new(py, value)))?;
        }
        Ok(list)
    }
}

/// A source of entries.
pub trait Source: Send {
    /// Reads entries into `chunk` until it is full, and returns false after the last.
    fn fill(&mut self, chunk: &mut Chunk, part: Part, limit: usize) -> Result<bool>;
}

/// An iterator in one direction.
struct Ordered {
    iter: IterCell,
    reverse: bool,
    is_positioned: bool,
}

impl Source for Ordered {
    fn fill(&mut self, chunk: &mut Chunk, part: Part, limit: usize) -> Result<bool> {
        let (reverse, is_positioned) = (self.reverse, &mut self.is_positioned);
        self.iter.with_dependent_mut(|_, iter| {
            // The position is the last entry returned.
            if !std::mem::replace(is_positioned, true) {
                match reverse {
                    false => iter.seek_to_first(),
                    true => iter.seek_to_last(),
                }
                if let Some((key, value)) = iter.entry() {
                    chunk.push(part, key, value);
                }
            }
            while iter.valid() {
                if chunk.is_full(limit) {
                    return Ok(true);
                }
                if reverse {
                    iter.prev();
                    if let Some((key, value)) = iter.entry() {
                        chunk.push(part, key, value);
                    }
                } else {
                    iter.next_shown(|key, value| chunk.push(part, key, value));
                }
            }
            iter.status().map(|()| false)
        })
    }
}

/// A scan in progress.
pub struct Walk {
    /// `None` after the last entry.
    source: Option<Box<dyn Source>>,
    chunk: Chunk,
    part: Part,
    limit: usize,
    /// The error after the entries of the chunk.
    failure: Option<Error>,
}

impl Walk {
    /// Reads the next chunk. It stays empty at the end.
    fn refill(&mut self) {
        self.chunk.clear();
        let Some(source) = &mut self.source else {
            return;
        };
        match source.fill(&mut self.chunk, self.part, self.limit) {
            Ok(true) => {}
            Ok(false) => self.source = None,
            Err(error) => (self.source, self.failure) = (None, Some(error)),
        }
        self.limit = (self.limit * 4).min(CHUNK_ENTRIES);
    }
}

/// An iterator over keys, values or (key, value), at the state of its creation. It holds memory and disk space of the
/// database until its end, or until it is released.
#[pyclass(frozen, module = "cairn")]
pub struct Scan {
    walk: Arc<Exclusive<Walk>>,
    #[expect(dead_code, reason = "keeps the database open")]
    shared: Option<Arc<Shared>>,
}

impl Walk {
    fn new(source: Box<dyn Source>, part: Part) -> Walk {
        Walk {
            source: Some(source),
            chunk: Chunk::default(),
            part,
            limit: 16,
            failure: None,
        }
    }
}

impl Scan {
    /// A scan that depends on no database.
    pub fn alone(part: Part, source: Box<dyn Source>) -> Scan {
        Scan {
            walk: Arc::new(Exclusive::new(Walk::new(source, part))),
            shared: None,
        }
    }

    pub fn new(
        py: Python<'_>,
        shared: &Arc<Shared>,
        part: Part,
        source: impl FnOnce() -> Result<Box<dyn Source>>,
    ) -> PyResult<Scan> {
        // An iterator that is not positioned has read nothing, so its creation does not wait.
        let _engine = shared.engine()?;
        let source = source().map_err(|error| raise(py, error))?;
        let walk = Arc::new(Exclusive::new(Walk::new(source, part)));
        shared.register(&walk);
        Ok(Scan {
            walk,
            shared: Some(shared.clone()),
        })
    }

    /// A scan of a family.
    pub fn over(
        py: Python<'_>,
        shared: &Arc<Shared>,
        family: &Arc<FamilyCell>,
        mut options: ReadOptions,
        part: Part,
        reverse: bool,
    ) -> PyResult<Scan> {
        // Values that are not returned need not be read from blob files.
        options.allow_unprepared_value = part == Part::Keys;
        Scan::new(py, shared, part, || {
            Ok(Box::new(Ordered {
                iter: iter_cell(family, &options),
                reverse,
                is_positioned: false,
            }))
        })
    }
}

#[pymethods]
impl Scan {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut guard: MappedMutexGuard<'_, Walk> = self.walk.lock(py)?;
        let walk: &mut Walk = &mut guard;
        if walk.chunk.is_returned() && walk.failure.is_none() && walk.source.is_some() {
            py.detach(|| walk.refill());
        }
        let part = walk.part;
        let Some((key, value)) = walk.chunk.pop() else {
            return match walk.failure.take() {
                Some(error) => Err(raise(py, error)),
                None => Ok(None),
            };
        };
        Ok(Some(match part {
            Part::Keys => PyBytes::new(py, key).into_any(),
            Part::Values => PyBytes::new(py, value).into_any(),
            Part::Items => (PyBytes::new(py, key), PyBytes::new(py, value))
                .into_pyobject(py)?
                .into_any(),
        }))
    }

    /// Ends the scan and frees what it holds.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.walk.clear(py)
    }
}
