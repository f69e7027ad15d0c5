//! Conversion of errors, strings and bytes between Rust and C.

use std::any::Any;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use cairn_format::options_text::from_bytes;
use cairn_types::{Error, Result};

use crate::handle::misuse;

/// The error that reports a panic.
#[cold]
#[inline(never)]
fn panicked(panic: &(dyn Any + Send)) -> Error {
    Error::aborted(format!("internal error: {}", panic_text(panic)))
}

/// The message of a panic.
fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// Runs `body`. Stores its error or panic in `*errptr`, and then returns `otherwise`.
///
/// # Safety
///
/// `errptr` points to null or to a string from `malloc`, which is replaced.
// Inlined, because captured variables would be passed to an outlined body through memory.
#[inline(always)]
pub unsafe fn report_or<T>(
    errptr: *mut *mut c_char,
    otherwise: T,
    body: impl FnOnce() -> Result<T>,
) -> T {
    match caught(body) {
        Ok(value) => value,
        Err(error) => {
            // SAFETY: guaranteed by the caller.
            unsafe { save(errptr, &error) };
            otherwise
        }
    }
}

/// Runs `body`. A panic becomes an error.
// Inlined for the same reason as `report_or`.
#[inline(always)]
pub(crate) fn caught<T>(body: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// [`report_or`] that returns the type's default on an error.
///
/// # Safety
///
/// That of [`report_or`].
#[inline]
pub unsafe fn report<T: Default>(errptr: *mut *mut c_char, body: impl FnOnce() -> Result<T>) -> T {
    // SAFETY: guaranteed by the caller.
    unsafe { report_or(errptr, T::default(), body) }
}

/// [`report_or`] for functions that return a pointer: null on an error.
///
/// # Safety
///
/// That of [`report_or`].
#[inline]
pub unsafe fn report_ptr<T>(
    errptr: *mut *mut c_char,
    body: impl FnOnce() -> Result<*mut T>,
) -> *mut T {
    // SAFETY: guaranteed by the caller.
    unsafe { report_or(errptr, std::ptr::null_mut(), body) }
}

/// Stores the text of `error` in `*errptr`.
///
/// # Safety
///
/// That of [`report_or`].
#[cold]
pub unsafe fn save(errptr: *mut *mut c_char, error: &Error) {
    if errptr.is_null() {
        misuse(&format!("errptr is null; the error is: {error}"));
    }
    let text = malloc_text(error.to_string());
    // SAFETY: guaranteed by the caller; an earlier text came from `malloc`.
    unsafe {
        libc::free((*errptr).cast());
        *errptr = text;
    }
}

/// A copy of `bytes` from `malloc`, to be freed by the C program. Never null, even if empty.
#[must_use]
pub fn malloc_bytes(bytes: &[u8]) -> *mut c_char {
    // SAFETY: `malloc` accepts any size; the copy fits into the allocation.
    unsafe {
        let copy = libc::malloc(bytes.len().max(1)).cast::<u8>();
        if copy.is_null() {
            misuse("out of memory");
        }
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len());
        copy.cast()
    }
}

/// A null-terminated copy of `text` from `malloc`.
#[must_use]
pub fn malloc_text(text: impl AsRef<[u8]>) -> *mut c_char {
    let text = text.as_ref();
    let mut bytes = Vec::with_capacity(text.len() + 1);
    bytes.extend(text.iter().filter(|&&byte| byte != 0));
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

/// `text` as a null-terminated string.
pub fn terminated(text: impl AsRef<[u8]>) -> CString {
    let text = text.as_ref().iter().copied();
    let bytes: Vec<u8> = text.filter(|&byte| byte != 0).collect();
    CString::new(bytes).expect("zero bytes were removed")
}

/// The `len` bytes at `data`; null means none.
///
/// # Safety
///
/// `data` is null or points to `len` bytes that do not change.
#[inline]
pub unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    if data.is_null() {
        return no_bytes();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(data.cast(), len) }
}

/// Separate, so that the compiler keeps this case a cold branch.
#[cold]
#[inline(never)]
fn no_bytes<'a>() -> &'a [u8] {
    &[]
}

/// The bytes of an optional C argument; `None` for null.
///
/// # Safety
///
/// That of [`bytes`].
#[inline]
pub unsafe fn maybe_bytes<'a>(data: *const c_char, len: usize) -> Option<&'a [u8]> {
    // SAFETY: guaranteed by the caller.
    (!data.is_null()).then(|| unsafe { bytes(data, len) })
}

/// A C array of `len` elements; null means none.
///
/// # Safety
///
/// `first` is null or points to `len` elements that do not change.
#[inline]
pub unsafe fn array<'a, T>(first: *const T, len: usize) -> &'a [T] {
    if first.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(first, len) }
}

/// A C string; null means the empty string.
///
/// # Safety
///
/// `text` is null or null-terminated.
pub unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// Options in a C string, in which paths need not be UTF-8; null means the empty string.
///
/// # Safety
///
/// That of [`text()`].
pub unsafe fn options_text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(text) };
    from_bytes(text.to_bytes()).into_owned()
}

/// The name of a column family. Names that the engine would change are rejected.
///
/// # Safety
///
/// That of [`text()`].
pub unsafe fn family_name(name: *const c_char) -> Result<String> {
    if name.is_null() {
        return Ok(String::new());
    }
    // SAFETY: guaranteed by the caller.
    let name = unsafe { CStr::from_ptr(name) };
    let valid = name.to_str().map(str::to_owned);
    valid.map_err(|_| {
        let name = name.to_bytes().escape_ascii();
        Error::not_supported(format!("the column family name {name} is not UTF-8"))
    })
}

/// A C string as a path.
///
/// # Safety
///
/// That of [`text()`].
pub unsafe fn path(text: *const c_char) -> std::path::PathBuf {
    use std::os::unix::ffi::OsStrExt;
    if text.is_null() {
        return std::path::PathBuf::new();
    }
    // SAFETY: guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(text) };
    std::ffi::OsStr::from_bytes(text.to_bytes()).into()
}

/// Writes `value` to `place`, unless it is null.
///
/// # Safety
///
/// `place` is null or may be written to.
#[inline]
pub unsafe fn store<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: guaranteed by the caller.
        unsafe { place.write(value) };
    }
}

/// The error of an unsupported function.
#[must_use]
#[cold]
pub fn not_built(function: &str, what: &str) -> Error {
    Error::not_supported(format!("{function}: {what}"))
}
