//! Merge operators.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::Arc;

use cairn_types::{MergeInput, MergeOperator};

use super::{State, c_bytes};
use crate::error::bytes;
use crate::handle::{create, misuse};

handles! {
    /// A merge operator.
    rocksdb_mergeoperator_t = Arc<dyn MergeOperator>;
}

c_destructors! {
    /// Frees an operator that is not owned by options.
    rocksdb_mergeoperator_destroy(rocksdb_mergeoperator_t);
}

/// Merges operands into a value; the program allocates the result.
type FullMerge = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    c_int,
    *mut c_uchar,
    *mut usize,
) -> *mut c_char;
/// Merges operands into one; the program allocates the result.
type PartialMerge = unsafe extern "C" fn(
    *mut c_void,
    *const c_char,
    usize,
    *const *const c_char,
    *const usize,
    c_int,
    *mut c_uchar,
    *mut usize,
) -> *mut c_char;
/// Frees a result; `free` is used if it is null.
type DeleteValue = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>;

struct Callbacks {
    state: State,
    name: String,
    full_merge: FullMerge,
    partial_merge: Option<PartialMerge>,
    delete_value: DeleteValue,
}

impl Callbacks {
    /// The bytes that the program's function returned, if it succeeded. They are freed either way.
    fn result(&self, value: *mut c_char, len: usize, success: c_uchar) -> Option<Vec<u8>> {
        let succeeded = success != 0 && (!value.is_null() || len == 0);
        // SAFETY: the program's function returned `len` bytes at `value`.
        let copy = succeeded.then(|| unsafe { bytes(value.cast_const(), len) }.to_vec());
        match self.delete_value {
            // SAFETY: the program's function allocated the value, which is freed once.
            Some(delete) => unsafe { delete(self.state.pointer(), value, len) },
            // SAFETY: without `delete_value`, the program allocates with `malloc`.
            None => unsafe { libc::free(value.cast()) },
        }
        copy
    }
}

/// The operands as the two arrays of the C interface.
fn lists(operands: &[&[u8]]) -> (Vec<*const c_char>, Vec<usize>) {
    let pointers = operands.iter().map(|operand| c_bytes(operand)).collect();
    (pointers, operands.iter().map(|one| one.len()).collect())
}

/// The number of operands as a C integer.
fn count(operands: &[&[u8]]) -> Option<c_int> {
    c_int::try_from(operands.len()).ok()
}

impl MergeOperator for Callbacks {
    fn name(&self) -> &str {
        &self.name
    }

    fn full_merge(&self, input: &MergeInput<'_>) -> Option<Vec<u8>> {
        let (pointers, lengths) = lists(input.operands);
        let (existing, existing_len) = match input.existing {
            Some(value) => (c_bytes(value), value.len()),
            None => (std::ptr::null(), 0),
        };
        let (mut success, mut len) = (0, 0);
        // SAFETY: the program's function reads the key, the value and the operands, and stores its
        // success and the length of the result.
        let value = unsafe {
            (self.full_merge)(
                self.state.pointer(),
                c_bytes(input.key),
                input.key.len(),
                existing,
                existing_len,
                pointers.as_ptr(),
                lengths.as_ptr(),
                count(input.operands)?,
                &mut success,
                &mut len,
            )
        };
        self.result(value, len, success)
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let partial_merge = self.partial_merge?;
        let (pointers, lengths) = lists(operands);
        let (mut success, mut len) = (0, 0);
        // SAFETY: the program's function reads the key and the operands, and stores its success and the
        // length of the result.
        let value = unsafe {
            partial_merge(
                self.state.pointer(),
                c_bytes(key),
                key.len(),
                pointers.as_ptr(),
                lengths.as_ptr(),
                count(operands)?,
                &mut success,
                &mut len,
            )
        };
        self.result(value, len, success)
    }
}

c_functions! {
    /// Creates a merge operator. `full_merge` receives the operands oldest first, and a null value
    /// if the key has none. Both functions set `*success`. Their results are freed by
    /// `delete_value`, or by `free` if it is null.
    fn rocksdb_mergeoperator_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
        full_merge: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize, *const *const c_char, *const usize, c_int, *mut c_uchar, *mut usize) -> *mut c_char>,
        partial_merge: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const *const c_char, *const usize, c_int, *mut c_uchar, *mut usize) -> *mut c_char>,
        delete_value: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
        name: Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>,
    ) -> *mut rocksdb_mergeoperator_t {
        let Some(full_merge) = full_merge else {
            misuse("a merge operator requires a full_merge function");
        };
        let state = State::new(state, destructor);
        create(Arc::new(Callbacks {
            name: state.name(name, "no name"),
            state,
            full_merge,
            partial_merge,
            delete_value,
        }) as Arc<dyn MergeOperator>)
    }
}
