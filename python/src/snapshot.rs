//! Snapshots.

use std::sync::Arc;

use cairn::{SequenceNumber, Snapshot as RustSnapshot};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use self_cell::self_cell;

use crate::errors::invalid;
use crate::handle::{Engine, Reading, Shared, Slot};

self_cell!(
    /// A snapshot and its database.
    pub struct SnapshotCell {
        owner: Arc<Engine>,
        #[covariant]
        dependent: RustSnapshot,
    }
);

/// The state of a database at one point in time: pass it as `snapshot=` to reads.
///
/// Versions that only the snapshot can see stay on disk until it is released, or the end of its `with`.
#[pyclass(frozen, module = "cairn")]
pub struct Snapshot {
    inner: Arc<Slot<SnapshotCell>>,
    shared: Arc<Shared>,
}

impl Snapshot {
    pub fn new(py: Python<'_>, shared: &Arc<Shared>) -> PyResult<Snapshot> {
        let inner = shared.depend(py, |engine| {
            let cell = SnapshotCell::new(engine.clone(), |engine| engine.db().snapshot());
            Ok(Slot::new(cell))
        })?;
        Ok(Snapshot {
            inner,
            shared: shared.clone(),
        })
    }

    /// The snapshot. Raises `InvalidArgument` if it belongs to another database than `of`.
    pub fn cell_of(&self, of: &Arc<Shared>) -> PyResult<Reading<'_, SnapshotCell>> {
        match Arc::ptr_eq(&self.shared, of) {
            true => self.inner.read(),
            false => Err(invalid("the snapshot belongs to another database")),
        }
    }

    /// Its sequence number. Raises `InvalidArgument` if it belongs to another database than `of`.
    pub fn sequence_of(&self, of: &Arc<Shared>) -> PyResult<SequenceNumber> {
        Ok(self.cell_of(of)?.borrow_dependent().sequence())
    }
}

#[pymethods]
impl Snapshot {
    /// The sequence number of the last write that the snapshot shows.
    #[getter]
    fn sequence(&self) -> PyResult<u64> {
        Ok(self.sequence_of(&self.shared)?.0)
    }

    /// Releases the snapshot.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.inner.clear(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.release(py)
    }
}
