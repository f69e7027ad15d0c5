//! Batches of writes.

use cairn::{Family as RustFamily, Result};
use parking_lot::{Mutex, MutexGuard};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::bytes::Bytes;
use crate::errors::{invalid, raise};
use crate::handle::check_wait;
use crate::space::Space;

/// Writes that take effect together or not at all: `db.write(batch)` applies them.
///
/// A batch made by `db.batch()` is written at the end of its `with`, or emptied if an exception ends it. `family=` names the
/// family of a write, by default that of the database.
#[pyclass(frozen, module = "cairn")]
pub struct WriteBatch {
    inner: Mutex<cairn::WriteBatch>,
    target: Option<Target>,
}

/// The database that `with` writes to.
struct Target {
    db: Py<Space>,
    options: cairn::WriteOptions,
}

/// The columns of an entity as owned pairs.
pub fn columns(given: &Bound<'_, PyDict>) -> PyResult<Vec<(Vec<u8>, Vec<u8>)>> {
    let pairs = given.iter().map(|(name, value)| {
        let (name, value): (Bytes<'_>, Bytes<'_>) = (name.extract()?, value.extract()?);
        Ok((name.to_vec(), value.to_vec()))
    });
    pairs.collect()
}

impl WriteBatch {
    pub fn to_write(db: &Bound<'_, Space>, options: cairn::WriteOptions) -> WriteBatch {
        WriteBatch {
            inner: Mutex::default(),
            target: Some(Target {
                db: db.clone().unbind(),
                options,
            }),
        }
    }

    /// The batch. Threads wait for each other detached. In a callback, which the write of the batch may have called, a
    /// wait is an error.
    pub fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, cairn::WriteBatch>> {
        loop {
            if let Some(guard) = self.inner.try_lock() {
                return Ok(guard);
            }
            check_wait()?;
            py.detach(|| drop(self.inner.lock()));
        }
    }

    /// Adds a write to the family, or to the default one.
    fn add(
        &self,
        py: Python<'_>,
        family: Option<&Bound<'_, Space>>,
        add: impl FnOnce(&mut cairn::WriteBatch, Option<&RustFamily<'_>>),
    ) -> PyResult<()> {
        let mut batch = self.lock(py)?;
        match family {
            Some(family) => add(&mut batch, Some(family.get().cell()?.borrow_dependent())),
            None => add(&mut batch, None),
        }
        Ok(())
    }

    /// Writes the batch to the database of `space`.
    pub fn write(
        &self,
        py: Python<'_>,
        space: &Space,
        options: &cairn::WriteOptions,
    ) -> PyResult<()> {
        let cell = space.cell()?;
        let engine = cell.borrow_owner();
        let batch = self.lock(py)?;
        let batch: &cairn::WriteBatch = &batch;
        let written = py.detach(|| engine.write(batch, options));
        written.map_err(|error| raise(py, error))
    }

    fn change(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut cairn::WriteBatch) -> Result<()>,
    ) -> PyResult<()> {
        change(&mut *self.lock(py)?).map_err(|error| raise(py, error))
    }
}

#[pymethods]
impl WriteBatch {
    /// An empty batch, or the one with these bytes.
    #[new]
    #[pyo3(signature = (data=None))]
    fn new(py: Python<'_>, data: Option<Bytes<'_>>) -> PyResult<WriteBatch> {
        let inner = match data {
            Some(data) => cairn::WriteBatch::from_data(&data).map_err(|error| raise(py, error))?,
            None => cairn::WriteBatch::new(),
        };
        Ok(WriteBatch {
            inner: Mutex::new(inner),
            target: None,
        })
    }

    /// Sets `key` to `value`.
    #[pyo3(signature = (key, value, family=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        value: Bytes<'_>,
        family: Option<&Bound<'_, Space>>,
    ) -> PyResult<()> {
        self.add(py, family, |batch, family| match family {
            Some(family) => batch.put_in(family, &key, &value),
            None => batch.put(&key, &value),
        })
    }

    fn __setitem__(&self, py: Python<'_>, key: Bytes<'_>, value: Bytes<'_>) -> PyResult<()> {
        self.put(py, key, value, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: Bytes<'_>) -> PyResult<()> {
        self.delete(py, key, None)
    }

    /// Sets `key` to an entity: a dict of columns.
    #[pyo3(signature = (key, columns, family=None))]
    fn put_entity(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        columns: &Bound<'_, PyDict>,
        family: Option<&Bound<'_, Space>>,
    ) -> PyResult<()> {
        let columns = self::columns(columns)?;
        let columns: Vec<_> = columns
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        self.add(py, family, |batch, family| match family {
            Some(family) => batch.put_entity_in(family, &key, &columns),
            None => batch.put_entity(&key, &columns),
        })
    }

    /// Deletes `key`.
    #[pyo3(signature = (key, family=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        family: Option<&Bound<'_, Space>>,
    ) -> PyResult<()> {
        self.add(py, family, |batch, family| match family {
            Some(family) => batch.delete_in(family, &key),
            None => batch.delete(&key),
        })
    }

    /// Deletes `key`, which was put once since it was last deleted.
    #[pyo3(signature = (key, family=None))]
    fn single_delete(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        family: Option<&Bound<'_, Space>>,
    ) -> PyResult<()> {
        self.add(py, family, |batch, family| match family {
            Some(family) => batch.single_delete_in(family, &key),
            None => batch.single_delete(&key),
        })
    }

    /// Deletes the keys from `start` up to, but excluding, `stop`.
    #[pyo3(signature = (start, stop, family=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Bytes<'_>,
        stop: Bytes<'_>,
        family: Option<&Bound<'_, Space>>,
    ) -> PyResult<()> {
        self.add(py, family, |batch, family| match family {
            Some(family) => batch.delete_range_in(family, &start, &stop),
            None => batch.delete_range(&start, &stop),
        })
    }

    /// Adds a merge operand to `key`.
    #[pyo3(signature = (key, operand, family=None))]
    fn merge(
        &self,
        py: Python<'_>,
        key: Bytes<'_>,
        operand: Bytes<'_>,
        family: Option<&Bound<'_, Space>>,
    ) -> PyResult<()> {
        self.add(py, family, |batch, family| match family {
            Some(family) => batch.merge_in(family, &key, &operand),
            None => batch.merge(&key, &operand),
        })
    }

    /// Adds bytes that are recorded in the log but not in the database.
    fn put_log_data(&self, py: Python<'_>, data: Bytes<'_>) -> PyResult<()> {
        self.lock(py)?.put_log_data(&data);
        Ok(())
    }

    /// Removes all writes.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        self.lock(py)?.clear();
        Ok(())
    }

    /// Marks the current end, for `rollback_to_save_point`.
    fn set_save_point(&self, py: Python<'_>) -> PyResult<()> {
        self.lock(py)?.set_save_point();
        Ok(())
    }

    /// Removes the writes since the last mark, and the mark.
    fn rollback_to_save_point(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, cairn::WriteBatch::rollback_to_save_point)
    }

    /// Removes the last mark.
    fn pop_save_point(&self, py: Python<'_>) -> PyResult<()> {
        self.change(py, cairn::WriteBatch::pop_save_point)
    }

    /// The batch as bytes, in RocksDB's format.
    fn data<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, self.lock(py)?.data()))
    }

    /// The number of writes.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.lock(py)?.count() as usize)
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        match slf.get().target {
            Some(_) => Ok(slf),
            None => Err(invalid(
                "a batch without a database: use db.batch(), or db.write(batch)",
            )),
        }
    }

    #[pyo3(signature = (raised, *_rest))]
    fn __exit__(
        &self,
        py: Python<'_>,
        raised: &Bound<'_, PyAny>,
        _rest: &Bound<'_, PyTuple>,
    ) -> PyResult<()> {
        match &self.target {
            Some(target) if raised.is_none() => {
                self.write(py, target.db.bind(py).get(), &target.options)?;
                self.clear(py)
            }
            // The exception of the block takes precedence over a failure to clear.
            Some(_) => {
                let _ = self.clear(py);
                Ok(())
            }
            None => Ok(()),
        }
    }
}
