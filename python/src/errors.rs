//! Errors of Rust as exceptions of Python. The classes are defined in `cairn/_errors.py`.

use cairn::{Code, Error, Subcode};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The names of the classes, by code.
fn class_of(code: Code, subcode: Subcode) -> &'static str {
    match (code, subcode) {
        (Code::IoError, Subcode::NoSpace | Subcode::SpaceLimit) => "NoSpace",
        (Code::IoError, Subcode::PathNotFound) => "PathNotFound",
        (Code::Busy, Subcode::Deadlock) => "Deadlock",
        (Code::TimedOut, Subcode::LockTimeout | Subcode::MutexTimeout) => "LockTimeout",
        (code, _) => match code {
            Code::NotFound => "NotFound",
            Code::Corruption => "Corruption",
            Code::NotSupported => "NotSupported",
            Code::InvalidArgument => "InvalidArgument",
            Code::IoError => "IoError",
            Code::MergeInProgress => "MergeInProgress",
            Code::Incomplete => "Incomplete",
            Code::ShutdownInProgress => "ShutdownInProgress",
            Code::TimedOut => "TimedOut",
            Code::Aborted => "Aborted",
            Code::Busy => "Busy",
            Code::Expired => "Expired",
            Code::TryAgain => "TryAgain",
            Code::CompactionTooLarge => "CompactionTooLarge",
            Code::ColumnFamilyDropped => "ColumnFamilyDropped",
            _ => "Error",
        },
    }
}

/// An exception of the class `name` with a message and the number of its sub-code.
fn new(py: Python<'_>, name: &str, text: &str, subcode: i32) -> PyErr {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let made = MODULE
        .get_or_try_init(py, || py.import("cairn._errors").map(Bound::unbind))
        .and_then(|module| module.bind(py).getattr(name))
        .and_then(|class| class.call1((text, subcode)));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// The exception for `error`. That of a failed merge has the exception of the function as its cause.
pub fn raise(py: Python<'_>, error: Error) -> PyErr {
    let subcode = error.subcode();
    let class = class_of(error.code(), subcode);
    let raised = new(py, class, &error.to_string(), subcode as i32);
    // It may be left over from a call that raised nothing: a write keeps an operand that it cannot merge.
    let failure = crate::merge::take_failure();
    if subcode == Subcode::MergeOperatorFailed && failure.is_some() {
        raised.set_cause(py, failure);
    }
    raised
}

fn with(name: &str, text: &str) -> PyErr {
    match Python::try_attach(|py| new(py, name, text, 0)) {
        Some(error) => error,
        None => pyo3::exceptions::PyRuntimeError::new_err(text.to_owned()),
    }
}

/// The error of a use after closing.
pub fn closed() -> PyErr {
    with("Closed", "the database, or the object, is closed")
}

/// The error of a use in a forked child.
pub fn forked() -> PyErr {
    with(
        "Forked",
        "the database was opened by the parent of this process; open it again here",
    )
}

/// The error of a call that would wait for itself.
pub fn busy(text: &str) -> PyErr {
    with("Busy", text)
}

/// The error of an argument.
pub fn invalid(text: &str) -> PyErr {
    with("InvalidArgument", text)
}
