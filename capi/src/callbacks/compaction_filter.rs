//! Compaction filters and their factories.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cairn_options::Plugin;
use cairn_types::{
    CompactionFilter, CompactionFilterFactory, FilterContext, FilterDecision, FilterValue,
};

use super::{State, c_bytes};
use crate::error::bytes;
use crate::handle::{create, destroy, misuse, of, of_mut, take};
use crate::options::rocksdb_options_t;

handles! {
    /// A compaction filter.
    rocksdb_compactionfilter_t = Arc<Filter>;
    /// A factory of compaction filters.
    rocksdb_compactionfilterfactory_t = Arc<dyn CompactionFilterFactory>;
    /// The context of a compaction, which is passed to a filter factory.
    rocksdb_compactionfiltercontext_t = FilterContext;
}

c_destructors! {
    /// Releases the program's reference to a filter.
    rocksdb_compactionfilter_destroy(rocksdb_compactionfilter_t);
    /// Frees a factory that is not owned by options.
    rocksdb_compactionfilterfactory_destroy(rocksdb_compactionfilterfactory_t);
}

/// Returns true to remove the entry. A changed value is stored through the pointer and still
/// belongs to the program.
type Callback = unsafe extern "C" fn(
    *mut c_void,
    c_int,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *mut *mut c_char,
    *mut usize,
    *mut c_uchar,
) -> c_uchar;
/// Creates a filter, which the engine owns.
type CreateFilter = unsafe extern "C" fn(
    *mut c_void,
    *mut rocksdb_compactionfiltercontext_t,
) -> *mut rocksdb_compactionfilter_t;

/// A filter implemented by the program.
pub struct Filter {
    state: State,
    name: String,
    filter: Callback,
    ignore_snapshots: AtomicBool,
}

impl CompactionFilter for Filter {
    fn name(&self) -> &str {
        &self.name
    }

    fn filter(&self, level: usize, key: &[u8], value: FilterValue<'_>) -> FilterDecision {
        // RocksDB's C interface filters plain values only.
        let FilterValue::Value(value) = value else {
            return FilterDecision::Keep;
        };
        let level = c_int::try_from(level).unwrap_or(c_int::MAX);
        let (mut new_value, mut new_len, mut changed) = (std::ptr::null_mut(), 0, 0);
        // SAFETY: the program's function reads key and value and may store a pointer to a new
        // value, which stays readable until the next call.
        unsafe {
            let goes = (self.filter)(
                self.state.pointer(),
                level,
                c_bytes(key),
                key.len(),
                c_bytes(value),
                value.len(),
                &mut new_value,
                &mut new_len,
                &mut changed,
            );
            match (goes != 0, changed != 0) {
                (true, _) => FilterDecision::Remove,
                (false, true) => {
                    FilterDecision::ChangeValue(bytes(new_value.cast_const(), new_len).to_vec())
                }
                (false, false) => FilterDecision::Keep,
            }
        }
    }

    fn ignore_snapshots(&self) -> bool {
        self.ignore_snapshots.load(Ordering::Relaxed)
    }
}

struct Factory {
    state: State,
    name: String,
    create: CreateFilter,
}

impl CompactionFilterFactory for Factory {
    fn name(&self) -> &str {
        &self.name
    }

    fn create(&self, context: &FilterContext) -> Option<Arc<dyn CompactionFilter>> {
        let context = create::<rocksdb_compactionfiltercontext_t>(context.clone());
        // SAFETY: the program's function reads the context and returns null or a filter, whose
        // ownership passes to the engine.
        unsafe {
            let filter = (self.create)(self.state.pointer(), context);
            destroy(context);
            (!filter.is_null()).then(|| take(filter) as Arc<dyn CompactionFilter>)
        }
    }
}

c_functions! {
    /// Creates a filter. `filter` returns 1 to remove an entry. To change a value, it sets
    /// `*value_changed` and stores a pointer to its own memory in `*new_value`.
    fn rocksdb_compactionfilter_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
        filter: Option<unsafe extern "C" fn(*mut c_void, c_int, *const c_char, usize, *const c_char, usize, *mut *mut c_char, *mut usize, *mut c_uchar) -> c_uchar>,
        name: Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>,
    ) -> *mut rocksdb_compactionfilter_t {
        let Some(filter) = filter else {
            misuse("a compaction filter requires a filter function");
        };
        let state = State::new(state, destructor);
        create(Arc::new(Filter {
            name: state.name(name, "no name"),
            state,
            filter,
            ignore_snapshots: AtomicBool::new(true),
        }))
    }
    /// If true, the filter is also called for entries that snapshots can see.
    fn rocksdb_compactionfilter_set_ignore_snapshots(filter: *mut rocksdb_compactionfilter_t, ignore: c_uchar) {
        of(filter.cast_const()).ignore_snapshots.store(ignore != 0, Ordering::Relaxed);
    }
    /// Creates a factory. `create_compaction_filter` returns a filter that the engine owns.
    fn rocksdb_compactionfilterfactory_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
        create_compaction_filter: Option<unsafe extern "C" fn(*mut c_void, *mut rocksdb_compactionfiltercontext_t) -> *mut rocksdb_compactionfilter_t>,
        name: Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>,
    ) -> *mut rocksdb_compactionfilterfactory_t {
        let Some(make) = create_compaction_filter else {
            misuse("a compaction filter factory requires a create_compaction_filter function");
        };
        let state = State::new(state, destructor);
        create(Arc::new(Factory { name: state.name(name, "no name"), state, create: make })
            as Arc<dyn CompactionFilterFactory>)
    }
    /// True if all tables of the family are inputs.
    fn rocksdb_compactionfiltercontext_is_full_compaction(context: *mut rocksdb_compactionfiltercontext_t) -> c_uchar {
        of(context.cast_const()).is_full_compaction.into()
    }
    /// True if it is a manual compaction.
    fn rocksdb_compactionfiltercontext_is_manual_compaction(context: *mut rocksdb_compactionfiltercontext_t) -> c_uchar {
        of(context.cast_const()).is_manual_compaction.into()
    }
    /// Sets the filter of all compactions. The options share it, and the program still destroys its
    /// handle.
    fn rocksdb_options_set_compaction_filter(opt: *mut rocksdb_options_t, filter: *mut rocksdb_compactionfilter_t) {
        of_mut(opt).family.compaction_filter = match filter.is_null() {
            true => Plugin::None,
            false => Plugin::Object(of(filter.cast_const()).clone()),
        };
    }
    /// Sets the factory that creates a filter for each compaction. The options take ownership.
    fn rocksdb_options_set_compaction_filter_factory(
        opt: *mut rocksdb_options_t,
        factory: *mut rocksdb_compactionfilterfactory_t,
    ) {
        of_mut(opt).family.compaction_filter_factory = match factory.is_null() {
            true => Plugin::None,
            false => Plugin::Object(take(factory)),
        };
    }
}
