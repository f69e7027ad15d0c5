//! Tables outside of a database.

use std::path::PathBuf;
use std::sync::Arc;

use cairn::{KeyOrder, Result, SstIter as RustIter, World};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use self_cell::self_cell;

use crate::bytes::Bytes;
use crate::errors::raise;
use crate::handle::Exclusive;
use crate::options;
use crate::scan::{Chunk, Part, Scan, Source, bounds};
use crate::space::check_prefix_order;

/// Writes a table for `ingest`. Keys are added in order, each once; `with` finishes the table.
#[pyclass(frozen, module = "cairn")]
pub struct SstFileWriter {
    inner: Exclusive<cairn::SstFileWriter>,
}

impl SstFileWriter {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut cairn::SstFileWriter) -> Result<T> + Send,
    ) -> PyResult<T> {
        let mut guard = self.inner.lock(py)?;
        let writer: &mut cairn::SstFileWriter = &mut guard;
        let done = py.detach(|| work(writer));
        done.map_err(|error| raise(py, error))
    }
}

#[pymethods]
impl SstFileWriter {
    /// Starts the table `path`, replacing an existing file. Keywords are options of families and tables.
    #[new]
    #[pyo3(signature = (path, **options))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<SstFileWriter> {
        let options = options::open_options(options)?;
        let opened = py.detach(|| {
            let mut writer =
                cairn::SstFileWriter::new(&World::posix(), &options.db, &options.family);
            writer.open(path).map(|()| writer)
        });
        let writer = opened.map_err(|error| raise(py, error))?;
        Ok(SstFileWriter {
            inner: Exclusive::new(writer),
        })
    }

    /// Adds a value.
    fn put(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.with(py, |writer| writer.put(&key, &value))
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.put(py, key, value)
    }

    /// Adds a merge operand.
    fn merge(&self, py: Python<'_>, key: Bytes<'_>, operand: Bytes<'_>) -> PyResult<()> {
        self.with(py, |writer| writer.merge(&key, &operand))
    }

    /// Adds a deletion.
    fn delete(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<()> {
        self.with(py, |writer| writer.delete(&key))
    }

    /// Adds a deletion of the keys from `start` up to, but excluding, `stop`, which may be added in any order.
    fn delete_range(&self, py: Python<'_>, start: Bytes<'_>, stop: Bytes<'_>) -> PyResult<()> {
        self.with(py, |writer| writer.delete_range(&start, &stop))
    }

    /// Finishes the table and returns the number of its entries.
    fn finish(&self, py: Python<'_>) -> PyResult<u64> {
        let entries = self.with(py, |writer| Ok(writer.finish()?.num_entries))?;
        self.inner.clear(py)?;
        Ok(entries)
    }

    /// The size of the table so far, in bytes.
    #[getter]
    fn file_size(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |writer| Ok(writer.file_size()))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (raised, *_rest))]
    fn __exit__(
        &self,
        py: Python<'_>,
        raised: &Bound<'_, PyAny>,
        _rest: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        match raised.is_none() {
            true => self.finish(py).map(|_| ()),
            false => self.inner.clear(py),
        }
    }
}

self_cell!(
    struct TableIter {
        owner: Arc<cairn::SstFileReader>,
        #[covariant]
        dependent: RustIter,
    }
);

/// Reads a table outside of a database.
#[pyclass(frozen, module = "cairn")]
pub struct SstFileReader {
    reader: Arc<cairn::SstFileReader>,
    order: KeyOrder,
}

#[pymethods]
impl SstFileReader {
    /// Opens the table `path`. Keywords are options of families and tables.
    #[new]
    #[pyo3(signature = (path, **options))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<SstFileReader> {
        let options = options::open_options(options)?;
        let opened =
            py.detach(|| cairn::SstFileReader::open(&World::posix(), path, &options.family));
        let reader = opened.map_err(|error| raise(py, error))?;
        Ok(SstFileReader {
            reader: Arc::new(reader),
            order: options.family.comparator,
        })
    }

    /// The value of `key`, or `default`.
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Bytes<'_>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = py
            .detach(|| self.reader.get(&key))
            .map_err(|error| raise(py, error))?;
        Ok(match found {
            Some(value) => Some(PyBytes::new(py, &value).into_any()),
            None => default,
        })
    }

    /// An iterator over (key, value).
    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false))]
    fn items(
        &self,
        start: Option<Bytes<'_>>,
        stop: Option<Bytes<'_>>,
        prefix: Option<Bytes<'_>>,
        reverse: bool,
    ) -> PyResult<Scan> {
        if prefix.is_some() {
            check_prefix_order(&self.order)?;
        }
        let mut options = cairn::ReadOptions::default();
        bounds(&mut options, start, stop, prefix);
        Ok(Scan::alone(
            Part::Items,
            Box::new(TableSource {
                iter: TableIter::new(self.reader.clone(), |reader| reader.iter(&options)),
                reverse,
                is_positioned: false,
            }),
        ))
    }

    /// Reads the whole table and verifies every block.
    fn verify_checksum(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.reader.verify_checksum())
            .map_err(|error| raise(py, error))
    }
}

/// The entries of a table.
struct TableSource {
    iter: TableIter,
    reverse: bool,
    is_positioned: bool,
}

impl Source for TableSource {
    fn fill(&mut self, chunk: &mut Chunk, part: Part, limit: usize) -> Result<bool> {
        let (reverse, is_positioned) = (self.reverse, &mut self.is_positioned);
        self.iter.with_dependent_mut(|_, iter| {
            if !std::mem::replace(is_positioned, true) {
                match reverse {
                    false => iter.seek_to_first(),
                    true => iter.seek_to_last(),
                }
            }
            while let Some((key, value)) = iter.entry() {
                chunk.push(part, key, value);
                match reverse {
                    false => iter.next(),
                    true => iter.prev(),
                }
                if chunk.is_full(limit) {
                    return Ok(true);
                }
            }
            iter.status().map(|()| false)
        })
    }
}
