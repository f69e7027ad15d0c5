//! Merge operators that are functions of Python.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::handle::in_callback;

thread_local! {
    /// The exception of the last function that failed in this thread.
    static FAILURE: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Removes and returns the exception of a function that failed in this thread.
pub fn take_failure() -> Option<PyErr> {
    FAILURE.take()
}

/// A merge operator made of functions.
///
/// `full_merge(key, existing, operands)` returns the value of a key: `existing` is its value or None, `operands` a list
/// of bytes, oldest first. `partial_merge(key, operands)`, if given, returns one operand that is equivalent to several,
/// or None. Both are called by threads of the database, too.
///
/// A read fails with `Corruption` if the function raises, which is then the cause, or does not return bytes.
/// `name` is recorded in the files; a database is opened with an operator of that name again.
#[pyclass(frozen, module = "cairn")]
pub struct MergeOperator(Arc<Functions>);

struct Functions {
    name: String,
    full: Py<PyAny>,
    partial: Option<Py<PyAny>>,
}

#[pymethods]
impl MergeOperator {
    #[new]
    #[pyo3(signature = (name, full_merge, partial_merge=None))]
    fn new(name: String, full_merge: Py<PyAny>, partial_merge: Option<Py<PyAny>>) -> MergeOperator {
        MergeOperator(Arc::new(Functions {
            name,
            full: full_merge,
            partial: partial_merge,
        }))
    }

    /// The name that the files record.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    fn __repr__(&self) -> String {
        format!("MergeOperator({:?})", self.0.name)
    }
}

impl MergeOperator {
    pub fn operator(&self) -> Arc<dyn cairn::MergeOperator> {
        self.0.clone()
    }
}

fn list<'py>(py: Python<'py>, operands: &[&[u8]]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, operands.iter().map(|operand| PyBytes::new(py, operand)))
}

/// The bytes that a function returned, or `None` for None.
fn outcome(returned: PyResult<Bound<'_, PyAny>>) -> PyResult<Option<Vec<u8>>> {
    returned.and_then(|returned| match returned.is_none() {
        true => Ok(None),
        false => Ok(Some(returned.cast::<PyBytes>()?.as_bytes().to_vec())),
    })
}

impl cairn::MergeOperator for Functions {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(&self, input: &cairn::MergeInput<'_>) -> Option<Vec<u8>> {
        // Without an interpreter, at the end of the process, the merge fails.
        Python::try_attach(|py| {
            in_callback(|| {
                let arguments = list(py, input.operands).map(|operands| {
                    let existing = input.existing.map(|value| PyBytes::new(py, value));
                    (PyBytes::new(py, input.key), existing, operands)
                });
                let merged = arguments.and_then(|arguments| self.full.bind(py).call1(arguments));
                outcome(merged).unwrap_or_else(|error| {
                    // The cause of the error that the caller gets.
                    FAILURE.set(Some(error));
                    None
                })
            })
        })
        .flatten()
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let partial = self.partial.as_ref()?;
        Python::try_attach(|py| {
            in_callback(|| {
                let operands = list(py, operands);
                let key = PyBytes::new(py, key);
                let merged = operands.and_then(|operands| partial.bind(py).call1((key, operands)));
                outcome(merged).unwrap_or_else(|error| {
                    // The operands stay as they are, and no call fails.
                    error.write_unraisable(py, Some(partial.bind(py)));
                    None
                })
            })
        })
        .flatten()
    }
}
