//! Objects that are implemented by callbacks of a C program.
//!
//! Each holds the program's `state`, and calls the `destructor` with it when the last reference is
//! dropped. Callbacks are called from any thread and concurrently, as in RocksDB.

use std::ffi::{CStr, c_char, c_void};

pub mod compaction_filter;
pub mod compaction_service;
pub mod comparator;
pub mod filter_policy;
pub mod job_info;
pub mod listener;
pub mod logger;
pub mod merge;
pub mod tables;
pub mod transform;
pub mod wal_filter;

/// Destroys the state of a callback object.
pub type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;
/// `const char* (*)(void*)`.
pub type Name = Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>;

/// The program's state of a callback object.
pub struct State {
    pointer: *mut c_void,
    destructor: Destructor,
}

// SAFETY: the interface requires that callbacks may be called with this state from any thread.
unsafe impl Send for State {}
// SAFETY: as above, from several threads at once.
unsafe impl Sync for State {}

impl State {
    pub(crate) fn new(pointer: *mut c_void, destructor: Destructor) -> State {
        State {
            pointer,
            destructor,
        }
    }

    pub(crate) fn pointer(&self) -> *mut c_void {
        self.pointer
    }

    /// The name that the program gives the object, or `otherwise` if it gives none.
    pub(crate) fn name(&self, name: Name, otherwise: &str) -> String {
        let Some(name) = name else {
            return otherwise.to_owned();
        };
        // SAFETY: the program's function returns null or a null-terminated string.
        unsafe {
            let text = name(self.pointer);
            match text.is_null() {
                true => otherwise.to_owned(),
                false => CStr::from_ptr(text).to_string_lossy().into_owned(),
            }
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: this is the last reference to the state, and it is destroyed once.
            unsafe { destructor(self.pointer) };
        }
    }
}

/// A pointer to bytes for a C function.
pub(crate) fn c_bytes(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}
