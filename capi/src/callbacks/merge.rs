//! Merge operators.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::Arc;

use cairn_types::{MergeInput, MergeMemory, MergeOperator, MergeResult};

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

/// The length of a result below which it is copied and freed at once.
const SHORT: usize = 256;

struct Callbacks {
    name: String,
    full_merge: FullMerge,
    partial_merge: Option<PartialMerge>,
    /// Shared with results, which may outlive the operator.
    owner: Arc<Owner>,
}

/// The owner of results: the program's state, and its function that frees them.
struct Owner {
    state: State,
    delete_value: DeleteValue,
}

/// A result in the memory that the program's function returned.
struct Allocated {
    value: *mut c_char,
    len: usize,
    owner: Arc<Owner>,
}

// SAFETY: the memory is only read and freed, and the interface requires that `delete_value` may be called
// from any thread.
unsafe impl Send for Allocated {}
// SAFETY: as above.
unsafe impl Sync for Allocated {}

impl Drop for Allocated {
    fn drop(&mut self) {
        match self.owner.delete_value {
            // SAFETY: the program's function allocated the value, which is freed once.
            Some(delete) => unsafe { delete(self.owner.state.pointer(), self.value, self.len) },
            // SAFETY: without `delete_value`, the program allocates with `malloc`.
            None => unsafe { libc::free(self.value.cast()) },
        }
    }
}

impl MergeMemory for Allocated {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the program's function returned `len` bytes at `value`, which is null only without bytes.
        unsafe { bytes(self.value.cast_const(), self.len) }
    }

    fn into_malloc(mut self: Box<Self>) -> Result<*mut u8, Box<dyn MergeMemory>> {
        if self.owner.delete_value.is_some() || self.value.is_null() {
            return Err(self);
        }
        // The null pointer that remains is freed, which does nothing.
        Ok(std::mem::replace(&mut self.value, std::ptr::null_mut()).cast())
    }
}

impl Callbacks {
    /// The bytes that the program's function returned, if it succeeded. Otherwise they are freed.
    fn result(&self, value: *mut c_char, len: usize, success: c_uchar) -> Option<Allocated> {
        let owner = Arc::clone(&self.owner);
        let memory = Allocated { value, len, owner };
        (success != 0 && (!value.is_null() || len == 0)).then_some(memory)
    }

    fn merge(&self, input: &MergeInput<'_>) -> Option<Allocated> {
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
                self.owner.state.pointer(),
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
        self.merge(input).map(|memory| memory.bytes().to_vec())
    }

    fn full_merge_for_read(&self, input: &MergeInput<'_>) -> Option<MergeResult> {
        let memory = self.merge(input)?;
        Some(match memory.len < SHORT {
            true => MergeResult::Owned(memory.bytes().to_vec()),
            false => MergeResult::Elsewhere(Box::new(memory)),
        })
    }

    fn partial_merge(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let partial_merge = self.partial_merge?;
        let (pointers, lengths) = lists(operands);
        let (mut success, mut len) = (0, 0);
        // SAFETY: the program's function reads the key and the operands, and stores its success and the
        // length of the result.
        let value = unsafe {
            partial_merge(
                self.owner.state.pointer(),
                c_bytes(key),
                key.len(),
                pointers.as_ptr(),
                lengths.as_ptr(),
                count(operands)?,
                &mut success,
                &mut len,
            )
        };
        let memory = self.result(value, len, success)?;
        Some(memory.bytes().to_vec())
    }
}

c_functions! {
    /// Creates a merge operator. `full_merge` receives the operands oldest first, and a null value
    /// if the key has none. Both functions set `*success`. Their results are freed by
    /// `delete_value`, or by `free` if it is null. The result of a get is not copied: it is freed when
    /// the value is destroyed, on any thread, or is the value that `rocksdb_get` returns if
    /// `delete_value` is null.
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
            full_merge,
            partial_merge,
            owner: Arc::new(Owner {
                state,
                delete_value,
            }),
        }) as Arc<dyn MergeOperator>)
    }
}
