//! Values that Python reads in place.

use std::ffi::c_int;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A value in the memory of the database, without a copy. `memoryview(value)` reads it in place.
///
/// It keeps its block in memory until it is released, also after the database is closed.
#[pyclass(frozen, module = "cairn")]
pub struct Pinned(pub cairn::Value);

#[pymethods]
impl Pinned {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        if let Ok(other) = other.cast::<Pinned>() {
            return *self.0 == *other.get().0;
        }
        match other.cast::<PyBytes>() {
            Ok(other) => *self.0 == *other.as_bytes(),
            Err(_) => false,
        }
    }

    fn __hash__(&self) -> PyResult<isize> {
        Err(pyo3::exceptions::PyTypeError::new_err(
            "unhashable type: 'Pinned'",
        ))
    }

    fn __repr__(&self) -> String {
        format!("<Pinned, {} bytes>", self.0.len())
    }

    #[allow(unsafe_code, reason = "the buffer protocol is one of pointers")]
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no place for the view"));
        }
        let value: &[u8] = &slf.get().0;
        let (start, len) = (value.as_ptr().cast_mut().cast(), value.len());
        // SAFETY: `view` points to a `Py_buffer` of the caller. It gets a reference to the object, whose value is
        // neither moved nor changed as long as the object lives, and is marked read-only, so nothing writes to it.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, len as ffi::Py_ssize_t, 1, flags)
        };
        match filled {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
