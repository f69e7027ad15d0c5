//! Prefix extractors.

use std::ffi::{c_char, c_uchar, c_void};
use std::sync::Arc;

use cairn_types::{PrefixExtractor, SliceTransform};

use super::{State, c_bytes};
use crate::handle::{create, misuse};

handles! {
    /// A prefix extractor.
    rocksdb_slicetransform_t = PrefixExtractor;
}

c_destructors! {
    /// Frees an extractor that is not owned by options.
    rocksdb_slicetransform_destroy(rocksdb_slicetransform_t);
}

/// Returns the prefix of a key and stores its length.
type Transform = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *mut usize) -> *mut c_char;
/// True if a key has a prefix.
type InDomain = unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> c_uchar;

struct Callbacks {
    state: State,
    name: String,
    transform: Transform,
    in_domain: InDomain,
}

impl SliceTransform for Callbacks {
    fn name(&self) -> &str {
        &self.name
    }

    fn in_domain(&self, key: &[u8]) -> bool {
        // SAFETY: the program's function reads the key.
        unsafe { (self.in_domain)(self.state.pointer(), c_bytes(key), key.len()) != 0 }
    }

    fn prefix_len(&self, key: &[u8]) -> usize {
        let mut len = 0;
        // SAFETY: the program's function reads the key and writes the length of its prefix.
        unsafe { (self.transform)(self.state.pointer(), c_bytes(key), key.len(), &mut len) };
        // Only the length is used: a prefix starts where the key starts.
        len.min(key.len())
    }
}

c_functions! {
    /// Creates an extractor. `transform` returns a prefix of the key and stores its length in
    /// `*dst_length`.
    fn rocksdb_slicetransform_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
        transform: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *mut usize) -> *mut c_char>,
        in_domain: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> c_uchar>,
        name: Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>,
    ) -> *mut rocksdb_slicetransform_t {
        let (Some(transform), Some(in_domain)) = (transform, in_domain) else {
            misuse("a slice transform requires the functions transform and in_domain");
        };
        let state = State::new(state, destructor);
        create(PrefixExtractor::Custom(Arc::new(Callbacks {
            name: state.name(name, "no name"),
            state,
            transform,
            in_domain,
        })))
    }
    /// Creates an extractor of the first `prefixLen` bytes; shorter keys have no prefix.
    fn rocksdb_slicetransform_create_fixed_prefix(prefix_len: usize) -> *mut rocksdb_slicetransform_t {
        create(PrefixExtractor::Fixed(prefix_len))
    }
    /// Creates an extractor whose prefix is the whole key.
    fn rocksdb_slicetransform_create_noop() -> *mut rocksdb_slicetransform_t {
        create(PrefixExtractor::Noop)
    }
}
