//! Errors, texts and bytes on their way to and from C.

use std::any::Any;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cairn_types::{Error, Result};

use crate::handle::misuse;

/// What becomes of a panic.
#[cold]
#[inline(never)]
fn panicked(panic: &(dyn Any + Send)) -> Error {
    Error::aborted(format!("internal error: {}", panic_text(panic)))
}

/// What a panic said.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Runs `body`; its error, or its panic, goes to `*errptr`, and the value is then `T`'s default.
///
/// # Safety
///
/// `errptr` points to null or to a text from `malloc`, which is replaced.
// What a function has would go through memory to a body that stands elsewhere.
#[inline(always)]
pub unsafe fn report_or<T>(
    errptr: *mut *mut c_char,
    otherwise: T,
    body: impl FnOnce() -> Result<T>,
) -> T {
    let result =
        catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(&*panic)));
    match result {
        Ok(value) => value,
        Err(error) => {
            // SAFETY: the caller's promise.
            unsafe { save(errptr, &error) };
            otherwise
        }
    }
}

/// [`report_or`] with the type's default.
///
/// # Safety
///
/// That of [`report_or`].
#[inline]
pub unsafe fn report<T: Default>(errptr: *mut *mut c_char, body: impl FnOnce() -> Result<T>) -> T {
    // SAFETY: the caller's promise.
    unsafe { report_or(errptr, T::default(), body) }
}

/// [`report_or`] for functions that return a pointer: null with an error.
///
/// # Safety
///
/// That of [`report_or`].
#[inline]
pub unsafe fn report_ptr<T>(
    errptr: *mut *mut c_char,
    body: impl FnOnce() -> Result<*mut T>,
) -> *mut T {
    // SAFETY: the caller's promise.
    unsafe { report_or(errptr, std::ptr::null_mut(), body) }
}

/// Puts the text of `error` into `*errptr`.
///
/// # Safety
///
/// That of [`report_or`].
#[cold]
pub unsafe fn save(errptr: *mut *mut c_char, error: &Error) {
    if errptr.is_null() {
        misuse(&format!("an error has no errptr to go to: {error}"));
    }
    let text = malloc_text(&error.to_string());
    // SAFETY: the caller's promise; a text that was there came from `malloc`.
    unsafe {
        libc::free((*errptr).cast());
        *errptr = text;
    }
}

/// A copy of `bytes` from `malloc`, which the C program frees. Never null, also for no bytes.
#[must_use]
pub fn malloc_bytes(bytes: &[u8]) -> *mut c_char {
    // SAFETY: `malloc` may be called with any size; the copy stays within what it gave.
    unsafe {
        let copy = libc::malloc(bytes.len().max(1)).cast::<u8>();
        if copy.is_null() {
            misuse("out of memory");
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
        copy.cast()
    }
}

/// A copy of `text` from `malloc`, with a zero at its end.
#[must_use]
pub fn malloc_text(text: &str) -> *mut c_char {
    let mut bytes = Vec::with_capacity(text.len() + 1);
    bytes.extend(text.bytes().filter(|&byte| byte != 0));
    bytes.push(0);
    malloc_bytes(&bytes)
}

/// An array of pointers from `malloc`.
pub(crate) fn pointers<T>(items: impl ExactSizeIterator<Item = *mut T>) -> *mut *mut T {
    let items: Vec<*mut T> = items.collect();
    let bytes = std::mem::size_of_val(items.as_slice());
    // SAFETY: an array of pointers is read as the bytes it consists of.
    let bytes = unsafe { std::slice::from_raw_parts(items.as_ptr().cast::<u8>(), bytes) };
    malloc_bytes(bytes).cast()
}

/// `text` with a zero at its end, for an object that keeps it.
pub fn terminated(text: &str) -> CString {
    let bytes: Vec<u8> = text.bytes().filter(|&byte| byte != 0).collect();
    CString::new(bytes).expect("the zeros were left out")
}

/// The bytes of a C argument of `len` bytes; null stands for none.
///
/// # Safety
///
/// `data` is null or points to `len` bytes that stay as they are.
#[inline]
pub unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    if data.is_null() {
        return no_bytes();
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(data.cast(), len) }
}

/// Apart, so that the branch stays one that nobody takes.
#[cold]
#[inline(never)]
fn no_bytes<'a>() -> &'a [u8] {
    &[]
}

/// The bytes of an optional C argument: null is `None`.
///
/// # Safety
///
/// That of [`bytes`].
#[inline]
pub unsafe fn maybe_bytes<'a>(data: *const c_char, len: usize) -> Option<&'a [u8]> {
    // SAFETY: the caller's promise.
    (!data.is_null()).then(|| unsafe { bytes(data, len) })
}

/// A C array of `len` elements; null stands for none.
///
/// # Safety
///
/// `first` is null or points to `len` elements that stay as they are.
#[inline]
pub unsafe fn array<'a, T>(first: *const T, len: usize) -> &'a [T] {
    if first.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(first, len) }
}

/// A C text; null stands for the empty one.
///
/// # Safety
///
/// `text` is null or ends with a zero.
pub unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// A C text as a path.
///
/// # Safety
///
/// That of [`text()`].
pub unsafe fn path(text: *const c_char) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStrExt;
    if text.is_null() {
        return std::path::PathBuf::new();
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    std::ffi::OsStr::from_bytes(text.to_bytes()).into()
}

/// Stores `value` where `place` points, unless it is null.
///
/// # Safety
///
/// `place` is null or may be written to.
#[inline]
pub unsafe fn store<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// The error of a function that is not built.
#[must_use]
#[cold]
pub fn not_built(function: &str, what: &str) -> Error {
    Error::not_supported(format!("{function}: {what}"))
}
