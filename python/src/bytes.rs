//! Keys and values as arguments.

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;

/// The contents of an object with the buffer protocol: borrowed from `bytes`, which cannot change, or else copied.
pub enum Bytes<'a> {
    Borrowed(&'a [u8]),
    Copied(Vec<u8>),
}

impl std::ops::Deref for Bytes<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Borrowed(bytes) => bytes,
            Bytes::Copied(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Bytes<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Bytes<'a> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Bytes<'a>> {
        match object.extract::<&'a [u8]>() {
            Ok(bytes) => Ok(Bytes::Borrowed(bytes)),
            Err(_) => copied(&object).map(Bytes::Copied),
        }
    }
}

fn copied(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let buffer = PyBuffer::<u8>::get(object).map_err(|_| {
        let class = object.get_type();
        pyo3::exceptions::PyTypeError::new_err(format!("expected bytes, found {class}"))
    })?;
    buffer.to_vec(object.py())
}

/// The first key after all that start with `prefix`.
pub fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}
