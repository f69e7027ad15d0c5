//! Getters and setters of the C interface, called with the types in the header.
//!
//! The function that returns a type creates its objects. A getter is any function that takes only the
//! object and returns a number or a string, and a setter any function that takes the object and at most
//! one number. So none is missed for lack of a list entry.
#![expect(
    unsafe_code,
    reason = "functions of a C library are called through the types that its header declares"
)]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::mem::transmute;
use std::path::Path;
use std::slice;

use super::api::Handle;
use super::header::{Function, Type, functions};

/// Types whose objects are global to the process, so that their setters have global effects.
const SHARED: [&str; 1] = ["rocksdb_env_t"];

/// Values of setters that start threads or allocate memory in proportion.
const MODEST: [u64; 2] = [4, 64];

/// Codecs that both libraries support.
const CODECS: &[u64] = &[0, 1, 2, 3, 4, 5, 7];

/// Setters of enumerations, with their valid numbers. RocksDB stores invalid numbers too; with Cairn
/// the open fails. A level out of range makes RocksDB write beyond an array.
const CHOICES: [(&str, &[u64]); 24] = [
    ("rocksdb_block_based_options_set_checksum", &[0, 1, 2, 3, 4]),
    (
        "rocksdb_block_based_options_set_data_block_index_type",
        &[0, 1],
    ),
    (
        "rocksdb_block_based_options_set_index_block_search_type",
        &[0, 1, 2],
    ),
    ("rocksdb_block_based_options_set_index_type", &[0, 1, 2, 3]),
    (
        "rocksdb_block_based_options_set_index_shortening",
        &[0, 1, 2],
    ),
    (
        "rocksdb_block_based_options_set_optimize_key_common_prefix",
        &[0, 1, 2],
    ),
    (
        "rocksdb_block_based_options_set_prepopulate_block_cache",
        &[0, 1, 2],
    ),
    (
        "rocksdb_compaction_options_set_compression",
        &[0, 1, 2, 3, 4, 5, 7, 255],
    ),
    (
        "rocksdb_compactoptions_set_blob_garbage_collection_policy",
        &[0, 1, 2],
    ),
    (
        "rocksdb_compactoptions_set_bottommost_level_compaction",
        &[0, 1, 2, 3],
    ),
    (
        "rocksdb_flushwaloptions_set_rate_limiter_priority",
        &[0, 1, 2, 3, 4],
    ),
    ("rocksdb_options_set_blob_compression_type", CODECS),
    (
        "rocksdb_options_set_bottommost_compression",
        &[0, 1, 2, 3, 4, 5, 7, 255],
    ),
    ("rocksdb_options_set_compaction_pri", &[0, 1, 2, 3, 4]),
    ("rocksdb_options_set_compaction_style", &[0, 1, 2, 3]),
    ("rocksdb_options_set_compression", CODECS),
    ("rocksdb_options_set_info_log_level", &[0, 1, 2, 3, 4, 5]),
    ("rocksdb_options_set_lowest_used_cache_tier", &[0, 1, 2]),
    (
        "rocksdb_options_set_min_level_to_compress",
        &[0, 1, 2, 3, 4, 5, 6],
    ),
    ("rocksdb_options_set_prepopulate_blob_cache", &[0, 1]),
    ("rocksdb_options_set_wal_compression", CODECS),
    ("rocksdb_options_set_wal_recovery_mode", &[0, 1, 2, 3]),
    ("rocksdb_readoptions_set_read_tier", &[0, 1, 2, 3]),
    (
        "rocksdb_universal_compaction_options_set_stop_style",
        &[0, 1],
    ),
];

/// Values of integer setters: small ones, sizes, and the limits of each type.
const NUMBERS: [u64; 18] = [
    0,
    1,
    2,
    3,
    4,
    5,
    7,
    64,
    100,
    255,
    4096,
    1 << 20,
    (1 << 31) - 1,
    1 << 40,
    i64::MAX as u64,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Values of floating-point setters.
const FRACTIONS: [f64; 6] = [0.0, 0.25, 0.5, 1.0, 2.5, -1.0];

/// A library with RocksDB's C interface, and the functions that its header declares.
pub struct Library {
    functions: BTreeMap<String, Function>,
    addresses: BTreeMap<String, *const c_void>,
    /// Last, so that it is dropped last.
    _library: libloading::Library,
}

/// The argument of a setter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// The setter takes only the object.
    None,
    /// An integer, truncated to the type of the argument.
    Number(u64),
    /// A floating-point number.
    Fraction(f64),
}

impl Library {
    /// Loads the library at `path`.
    ///
    /// # Errors
    ///
    /// It cannot be loaded.
    pub fn load(path: &Path) -> Result<Self, libloading::Error> {
        // SAFETY: the constructors of both libraries only initialize their own tables.
        let library = unsafe { libloading::Library::new(path) }?;
        let mut addresses = BTreeMap::new();
        let mut declared = BTreeMap::new();
        for function in functions() {
            // SAFETY: takes an address and calls nothing.
            if let Ok(symbol) = unsafe { library.get::<*const c_void>(function.name.as_bytes()) } {
                addresses.insert(function.name.clone(), *symbol);
            }
            declared.insert(function.name.clone(), function);
        }
        Ok(Library {
            functions: declared,
            addresses,
            _library: library,
        })
    }

    /// True if the library exports `name`.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.addresses.contains_key(name)
    }

    fn required(&self, name: &str) -> *const c_void {
        let address = self.addresses.get(name);
        *address.unwrap_or_else(|| panic!("{name} is not exported"))
    }

    /// The types of which both this library and `other` can create objects without arguments.
    #[must_use]
    pub fn types(&self, other: &Library) -> Vec<String> {
        let objects = self.functions.values().filter_map(|function| {
            let Type::Object(object) = &function.result else {
                return None;
            };
            let created = function.name.ends_with("_create") && function.arguments.is_empty();
            (created && self.has(&function.name) && other.has(&function.name))
                .then(|| object.clone())
        });
        let mut all: Vec<String> = objects.collect();
        let given = [
            "rocksdb_cache_t",
            "rocksdb_env_t",
            "rocksdb_hyper_clock_cache_options_t",
            "rocksdb_sst_file_manager_t",
            "rocksdb_write_buffer_manager_t",
            "rocksdb_writebatch_wi_t",
        ];
        all.extend(given.map(str::to_owned));
        all.sort();
        all.dedup();
        all
    }

    /// A new object of type `object`; null if the library cannot create one.
    #[must_use]
    pub fn create(&self, object: &str) -> Handle {
        // SAFETY: the functions have these types in c.h.
        unsafe {
            match object {
                "rocksdb_cache_t" => {
                    let create = self.required("rocksdb_cache_create_lru");
                    transmute::<*const c_void, extern "C" fn(usize) -> Handle>(create)(8 << 20)
                }
                "rocksdb_env_t" => self.created("rocksdb_create_default_env"),
                "rocksdb_hyper_clock_cache_options_t" => {
                    let create = self.required("rocksdb_hyper_clock_cache_options_create");
                    transmute::<*const c_void, extern "C" fn(usize, usize) -> Handle>(create)(
                        8 << 20,
                        0,
                    )
                }
                "rocksdb_sst_file_manager_t" => {
                    let create = self.required("rocksdb_sst_file_manager_create");
                    transmute::<*const c_void, extern "C" fn(Handle) -> Handle>(create)(
                        self.create("rocksdb_env_t"),
                    )
                }
                "rocksdb_write_buffer_manager_t" => {
                    let create = self.required("rocksdb_write_buffer_manager_create");
                    transmute::<*const c_void, extern "C" fn(usize, bool) -> Handle>(create)(
                        1 << 20,
                        true,
                    )
                }
                "rocksdb_writebatch_wi_t" => {
                    let create = self.required("rocksdb_writebatch_wi_create");
                    transmute::<*const c_void, extern "C" fn(usize, u8) -> Handle>(create)(0, 1)
                }
                _ => {
                    let create = self.functions.values().find(|function| {
                        function.name.ends_with("_create")
                            && function.arguments.is_empty()
                            && function.result == Type::Object(object.to_owned())
                    });
                    self.created(&create.expect("the type has a creator").name)
                }
            }
        }
    }

    /// Calls a creator without arguments.
    fn created(&self, name: &str) -> Handle {
        let create = self.required(name);
        // SAFETY: the header declares it without arguments and with a handle for a result.
        unsafe { transmute::<*const c_void, extern "C" fn() -> Handle>(create)() }
    }

    /// Destroys an object of type `object`, if there is a function for it.
    pub fn destroy(&self, object: &str, handle: Handle) {
        let wanted = [Type::Object(object.to_owned())];
        let destroy = self.functions.values().find(|function| {
            function.name.ends_with("_destroy")
                && function.arguments == wanted
                && self.has(&function.name)
        });
        if let Some(destroy) = destroy {
            let destroy = self.required(&destroy.name);
            // SAFETY: the handle is of this type, and is not used again.
            unsafe { transmute::<*const c_void, extern "C" fn(Handle)>(destroy)(handle) }
        }
    }

    /// The getters of objects of type `object`.
    #[must_use]
    pub fn getters(&self, object: &str) -> Vec<&str> {
        let own = Type::Object(object.to_owned());
        let getter = |function: &&Function| {
            let text = [own.clone(), Type::Length];
            let scalar = !matches!(
                function.result,
                Type::Void | Type::Length | Type::Object(_) | Type::Other(_)
            );
            scalar && function.arguments == [own.clone()]
                || function.result == Type::Text && function.arguments == text
        };
        let found = self.functions.values().filter(getter);
        found.map(|function| function.name.as_str()).collect()
    }

    /// The setters of objects of type `object`, each with the values that it is called with.
    #[must_use]
    pub fn setters(&self, object: &str) -> Vec<(&str, Vec<Value>)> {
        if SHARED.contains(&object) {
            return Vec::new();
        }
        let own = Type::Object(object.to_owned());
        let values = |function: &Function| {
            if function.result != Type::Void || function.name.ends_with("_destroy") {
                return None;
            }
            let modest = !function.name.contains("_set_");
            let choices = CHOICES.iter().find(|(setter, _)| *setter == function.name);
            let numbers: &[u64] = match choices {
                Some((_, choices)) => choices,
                None if modest => &MODEST,
                None => &NUMBERS,
            };
            match function.arguments.as_slice() {
                [first] if *first == own => Some(vec![Value::None]),
                [first, Type::F64] if *first == own => {
                    Some(FRACTIONS.map(Value::Fraction).to_vec())
                }
                [first, number] if *first == own && is_number(number) => {
                    Some(numbers.iter().copied().map(Value::Number).collect())
                }
                _ => None,
            }
        };
        let all = self.functions.values();
        all.filter_map(|function| Some((function.name.as_str(), values(function)?)))
            .collect()
    }

    /// The result of a getter.
    #[must_use]
    pub fn get(&self, getter: &str, handle: Handle) -> String {
        let function = &self.functions[getter];
        let get = self.required(getter);
        macro_rules! call {
            ($result:ty) => {
                // SAFETY: the header declares this result and a handle of this type for the argument.
                unsafe { transmute::<*const c_void, extern "C" fn(Handle) -> $result>(get)(handle) }
                    .to_string()
            };
        }
        match (&function.result, function.arguments.len()) {
            (Type::U8, _) => call!(u8),
            (Type::I8, _) => call!(i8),
            (Type::I32, _) => call!(i32),
            (Type::U32, _) => call!(u32),
            (Type::I64, _) => call!(i64),
            (Type::U64, _) => call!(u64),
            (Type::F64, _) => call!(f64),
            (Type::Text, 1) => {
                // SAFETY: as above; the string is null-terminated.
                unsafe {
                    let text = transmute::<*const c_void, extern "C" fn(Handle) -> *const c_char>(
                        get,
                    )(handle);
                    if text.is_null() {
                        return "null".to_owned();
                    }
                    format!("{:?}", CStr::from_ptr(text))
                }
            }
            (Type::Text, 2) => {
                let mut length = 0_usize;
                // SAFETY: as above; the string has the stored length.
                unsafe {
                    type Get = extern "C" fn(Handle, *mut usize) -> *const c_char;
                    let text = transmute::<*const c_void, Get>(get)(handle, &raw mut length);
                    if text.is_null() {
                        return format!("null of {length} bytes");
                    }
                    let text = slice::from_raw_parts(text.cast::<u8>(), length);
                    format!("{:?}", String::from_utf8_lossy(text))
                }
            }
            (other, _) => unreachable!("{getter} is no getter: {other:?}"),
        }
    }

    /// Calls a setter.
    pub fn set(&self, setter: &str, handle: Handle, value: Value) {
        let set = self.required(setter);
        macro_rules! call {
            ($argument:ty, $value:expr) => {
                // SAFETY: the header declares this argument after a handle of this type.
                unsafe {
                    transmute::<*const c_void, extern "C" fn(Handle, $argument)>(set)(
                        handle, $value,
                    )
                }
            };
        }
        match (self.functions[setter].arguments.get(1), value) {
            (None, Value::None) => {
                // SAFETY: the header declares a handle of this type as its only argument.
                unsafe { transmute::<*const c_void, extern "C" fn(Handle)>(set)(handle) }
            }
            (Some(Type::F64), Value::Fraction(value)) => call!(f64, value),
            (Some(Type::U8 | Type::I8), Value::Number(value)) => call!(u8, value as u8),
            (Some(Type::I32 | Type::U32), Value::Number(value)) => call!(u32, value as u32),
            (Some(Type::I64 | Type::U64), Value::Number(value)) => call!(u64, value),
            (argument, value) => unreachable!("{setter}: {value:?} for {argument:?}"),
        }
    }

    /// Functions with names like getters of objects that can be created, but classified as neither
    /// getters nor setters.
    #[must_use]
    pub fn overlooked(&self, objects: &[String]) -> Vec<&str> {
        let looks = |name: &str| {
            ["_get_", "_is_", "_has_"]
                .iter()
                .any(|part| name.contains(part))
        };
        let all = self.functions.values().filter(|function| {
            let Some(Type::Object(object)) = function.arguments.first() else {
                return false;
            };
            looks(&function.name)
                && function.result != Type::Void
                && objects.contains(object)
                && !self.getters(object).contains(&function.name.as_str())
        });
        all.map(|function| function.name.as_str()).collect()
    }
}

fn is_number(argument: &Type) -> bool {
    matches!(
        argument,
        Type::U8 | Type::I8 | Type::I32 | Type::U32 | Type::I64 | Type::U64
    )
}
