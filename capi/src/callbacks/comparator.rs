//! Comparators.

use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::Arc;

use cairn_types::{Comparator, KeyOrder};

use super::{Destructor, Name, State, c_bytes};
use crate::handle::{create, misuse};

handles! {
    /// A comparator.
    rocksdb_comparator_t = KeyOrder;
}

c_destructors! {
    /// Releases the program's reference to a comparator.
    rocksdb_comparator_destroy(rocksdb_comparator_t);
}

/// `int (*)(void*, const char*, size_t, const char*, size_t)`.
type Compare =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int>;
/// The same, with a flag after each key: true if it ends with a timestamp.
type CompareWithoutTs = Option<
    unsafe extern "C" fn(
        *mut c_void,
        *const c_char,
        usize,
        c_uchar,
        *const c_char,
        usize,
        c_uchar,
    ) -> c_int,
>;

struct Callbacks {
    state: State,
    name: String,
    compare: unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int,
    compare_without_ts: CompareWithoutTs,
    timestamp_size: usize,
}

impl Comparator for Callbacks {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        // SAFETY: the program's function only reads the two keys.
        let order = unsafe {
            (self.compare)(
                self.state.pointer(),
                c_bytes(a),
                a.len(),
                c_bytes(b),
                b.len(),
            )
        };
        order.cmp(&0)
    }

    fn timestamp_size(&self) -> usize {
        self.timestamp_size
    }

    fn compare_without_timestamp(
        &self,
        a: &[u8],
        a_has_timestamp: bool,
        b: &[u8],
        b_has_timestamp: bool,
    ) -> Ordering {
        let Some(compare) = self.compare_without_ts else {
            return self.compare(a, b);
        };
        // SAFETY: the program's function only reads the two keys.
        let order = unsafe {
            compare(
                self.state.pointer(),
                c_bytes(a),
                a.len(),
                a_has_timestamp.into(),
                c_bytes(b),
                b.len(),
                b_has_timestamp.into(),
            )
        };
        order.cmp(&0)
    }
}

fn comparator(
    state: State,
    name: Name,
    compare: Compare,
    compare_without_ts: CompareWithoutTs,
    timestamp_size: usize,
) -> *mut rocksdb_comparator_t {
    let Some(compare) = compare else {
        misuse("a comparator requires a compare function");
    };
    create(KeyOrder::Custom(Arc::new(Callbacks {
        name: state.name(name, "no name"),
        state,
        compare,
        compare_without_ts,
        timestamp_size,
    })))
}

c_functions! {
    /// Creates a comparator. `compare` returns a negative number, zero or a positive number.
    fn rocksdb_comparator_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
        compare: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int>,
        name: Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>,
    ) -> *mut rocksdb_comparator_t {
        let destructor: Destructor = destructor;
        comparator(State::new(state, destructor), name, compare, None, 0)
    }
    /// Creates a comparator of keys that end with a timestamp of `timestamp_size` bytes.
    fn rocksdb_comparator_with_ts_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
        compare: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int>,
        _compare_ts: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int>,
        compare_without_ts: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, c_uchar, *const c_char, usize, c_uchar) -> c_int>,
        name: Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>,
        timestamp_size: usize,
    ) -> *mut rocksdb_comparator_t {
        let state = State::new(state, destructor);
        comparator(state, name, compare, compare_without_ts, timestamp_size)
    }
}
