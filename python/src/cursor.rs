//! Cursors, which Python moves.

use std::sync::Arc;

use cairn::{Iter as RustIter, ReadOptions};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::bytes::Bytes;
use crate::errors::raise;
use crate::handle::{Exclusive, Shared};
use crate::pinned::Pinned;
use crate::scan::{IterCell, iter_cell};
use crate::snapshot::Snapshot;
use crate::space::FamilyCell;

/// A position in the keys of a family, at the state of its creation. A move returns true if there is an entry.
///
///     cursor = db.cursor()
///     found = cursor.seek(b"granite")
///     while found:
///         print(cursor.key, cursor.value)
///         found = cursor.next()
#[pyclass(frozen, module = "cairn")]
pub struct Cursor {
    iter: Arc<Exclusive<IterCell>>,
    shared: Arc<Shared>,
}

impl Cursor {
    pub fn new(
        py: Python<'_>,
        shared: &Arc<Shared>,
        family: &Arc<FamilyCell>,
        options: ReadOptions,
    ) -> PyResult<Cursor> {
        let iter = shared.depend(py, |_| Ok(Exclusive::new(iter_cell(family, &options))))?;
        Ok(Cursor {
            iter,
            shared: shared.clone(),
        })
    }

    /// Moves, detached, and returns true if there is an entry.
    fn go(&self, py: Python<'_>, go: impl FnOnce(&mut RustIter<'_>) + Send) -> PyResult<bool> {
        let mut guard = self.iter.lock(py)?;
        let cell: &mut IterCell = &mut guard;
        let moved = py.detach(|| {
            cell.with_dependent_mut(|_, iter| {
                go(iter);
                match iter.valid() {
                    true => Ok(true),
                    false => iter.status().map(|()| false),
                }
            })
        });
        moved.map_err(|error| raise(py, error))
    }

    /// The result of `read` for the entry, or `None` without one.
    fn show<T>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&RustIter<'_>, &[u8], &[u8]) -> T,
    ) -> PyResult<Option<T>> {
        let guard = self.iter.lock(py)?;
        let iter = guard.borrow_dependent();
        Ok(iter.entry().map(|(key, value)| read(iter, key, value)))
    }
}

#[pymethods]
impl Cursor {
    /// Moves to the first key at or after `key`.
    fn seek(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        self.go(py, |iter| iter.seek(&key))
    }

    /// Moves to the last key at or before `key`.
    fn seek_for_prev(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<bool> {
        self.go(py, |iter| iter.seek_for_prev(&key))
    }

    /// Moves to the first key.
    fn seek_to_first(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, |iter| iter.seek_to_first())
    }

    /// Moves to the last key.
    fn seek_to_last(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, |iter| iter.seek_to_last())
    }

    /// Moves to the next key.
    fn next(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, |iter| iter.next())
    }

    /// Moves to the previous key.
    fn prev(&self, py: Python<'_>) -> PyResult<bool> {
        self.go(py, |iter| iter.prev())
    }

    /// True if the cursor is on an entry.
    #[getter]
    fn valid(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.show(py, |_, _, _| ())?.is_some())
    }

    /// The key, or None.
    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.show(py, |_, key, _| PyBytes::new(py, key))
    }

    /// The value, or None.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.show(py, |_, _, value| PyBytes::new(py, value))
    }

    /// (key, value), or None.
    #[getter]
    fn item<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        let item = self.show(py, |_, key, value| {
            (PyBytes::new(py, key), PyBytes::new(py, value))
        })?;
        item.map(|item| item.into_pyobject(py)).transpose()
    }

    /// The value in place, or None: an object with the buffer protocol, which stays valid when the cursor moves.
    #[getter]
    fn value_pinned(&self, py: Python<'_>) -> PyResult<Option<Pinned>> {
        self.show(py, |iter, _, _| Pinned(iter.value_pinned()))
    }

    /// Shows the current state of the database, or that of `snapshot`; the cursor is then not positioned.
    #[pyo3(signature = (snapshot=None))]
    fn refresh(&self, py: Python<'_>, snapshot: Option<&Bound<'_, Snapshot>>) -> PyResult<()> {
        let mut guard = self.iter.lock(py)?;
        let cell: &mut IterCell = &mut guard;
        let done = match snapshot {
            None => py.detach(|| cell.with_dependent_mut(|_, iter| iter.refresh())),
            Some(snapshot) => {
                let snapshot = snapshot.get().cell_of(&self.shared)?;
                let snapshot = snapshot.borrow_dependent();
                cell.with_dependent_mut(|_, iter| iter.refresh_to(snapshot))
            }
        };
        done.map_err(|error| raise(py, error))
    }

    /// Frees what the cursor holds.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.iter.clear(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.release(py)
    }
}
