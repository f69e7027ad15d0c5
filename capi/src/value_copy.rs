//! Copies of values for the program, of large merged ones in a reused buffer.
//!
//! A merge allocates the value and the copy for the program allocates it again. With both at the end of the heap,
//! `free` returns more memory to the kernel than it keeps, and the next get spends most of its time on page faults.
//! The copy of a large merged value is therefore made to a buffer that the get before has allocated, and the buffer for
//! the next get is allocated in the place of the value. The process keeps one buffer of up to 16 MB, which no memory
//! budget counts: a budget belongs to databases, and a buffer to none.

use std::ffi::c_char;
use std::ptr::NonNull;

use cairn_db::Value;
use cairn_platform::sync::Mutex;

use crate::error::malloc_bytes;
use crate::handle::misuse;

/// The sizes of merged values in bytes that are copied to the spare buffer: `malloc` keeps the memory of smaller ones.
const SIZES: std::ops::RangeInclusive<usize> = (1 << 20)..=(16 << 20);

/// A buffer from `malloc`.
struct Spare {
    bytes: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory has one owner, and any thread may free it.
unsafe impl Send for Spare {}

impl Drop for Spare {
    fn drop(&mut self) {
        // SAFETY: the memory is from `malloc` and freed once.
        unsafe { libc::free(self.bytes.as_ptr().cast()) };
    }
}

impl Spare {
    fn new(len: usize) -> Option<Spare> {
        // SAFETY: `malloc` accepts any size.
        let bytes = NonNull::new(unsafe { libc::malloc(len) }.cast())?;
        Some(Spare { bytes, len })
    }
}

static SPARE: Mutex<Option<Spare>> = Mutex::new(None);

/// The bytes of `value` from `malloc`, to be freed by the program: those that its merge operator returned, or a copy.
pub fn malloc_value(value: Value) -> *mut c_char {
    match value.into_malloc() {
        Ok(bytes) => bytes.cast(),
        Err(value) if value.is_merged() && SIZES.contains(&value.len()) => malloc_merged(value),
        Err(value) => malloc_bytes(&value),
    }
}

/// A copy of a large merged value.
#[cold]
fn malloc_merged(value: Value) -> *mut c_char {
    let len = value.len();
    // Without waiting for the lock: another thread may use the buffer, or have used it when the process was forked.
    let spare = SPARE.try_lock().and_then(|mut spare| spare.take());
    // A program that keeps the value should not keep much more memory than it needs.
    let spare = spare.filter(|spare| (len..=len + len / 4).contains(&spare.len));
    let Some(copy) = spare.or_else(|| Spare::new(len)) else {
        misuse("out of memory");
    };
    // SAFETY: the copy fits into the buffer, which is exclusive to this function.
    unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), copy.bytes.as_ptr(), len) };
    drop(value);
    let next = Spare::new(len);
    let unused = match SPARE.try_lock() {
        Some(mut spare) if spare.is_none() => std::mem::replace(&mut *spare, next),
        _ => next,
    };
    drop(unused);
    std::mem::ManuallyDrop::new(copy).bytes.as_ptr().cast()
}
