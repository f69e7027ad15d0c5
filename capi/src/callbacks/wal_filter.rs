//! WAL filters: they inspect the batches that recovery replays.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uchar, c_ulonglong, c_void};
use std::sync::Arc;

use cairn_db::WriteBatch;
use cairn_options::Plugin;
use cairn_types::{FileNumber, WalDecision, WalFilter};

use super::{Destructor, Name, State};
use crate::batch::rocksdb_writebatch_t;
use crate::constants::{
    rocksdb_wal_filter_continue_processing as CONTINUE,
    rocksdb_wal_filter_ignore_current_record as IGNORE, rocksdb_wal_filter_stop_replay as STOP,
};
use crate::handle::{create, maybe, of_mut, take};
use crate::options::rocksdb_options_t;

handles! {
    /// A WAL filter.
    rocksdb_walfilter_t = Arc<dyn WalFilter>;
}

c_destructors! {
    /// Releases the program's reference to a filter.
    rocksdb_walfilter_destroy(rocksdb_walfilter_t);
}

type Families = unsafe extern "C" fn(
    *mut c_void,
    *const u32,
    *const u64,
    usize,
    *const *const c_char,
    *const usize,
    *const u32,
    usize,
);
type Record = unsafe extern "C" fn(
    *mut c_void,
    c_ulonglong,
    *const c_char,
    usize,
    *const rocksdb_writebatch_t,
    *mut rocksdb_writebatch_t,
    *mut c_uchar,
) -> c_int;

struct ByCallbacks {
    state: State,
    name: String,
    families: Option<Families>,
    record: Option<Record>,
}

impl WalFilter for ByCallbacks {
    fn name(&self) -> &str {
        &self.name
    }

    fn families(&self, log_numbers: &BTreeMap<u32, FileNumber>, ids: &BTreeMap<String, u32>) {
        let Some(families) = self.families else {
            return;
        };
        let logged: Vec<u32> = log_numbers.keys().copied().collect();
        let logs: Vec<u64> = log_numbers.values().map(|log| log.0).collect();
        let names: Vec<*const c_char> = ids.keys().map(|name| name.as_ptr().cast()).collect();
        let lengths: Vec<usize> = ids.keys().map(String::len).collect();
        let named: Vec<u32> = ids.values().copied().collect();
        // SAFETY: the program's function reads the arrays, of these lengths, during the call.
        unsafe {
            families(
                self.state.pointer(),
                logged.as_ptr(),
                logs.as_ptr(),
                logged.len(),
                names.as_ptr(),
                lengths.as_ptr(),
                named.as_ptr(),
                named.len(),
            );
        }
    }

    fn record(&self, log: FileNumber, path: &str, batch: &[u8]) -> WalDecision {
        let Some(record) = self.record else {
            return WalDecision::Continue;
        };
        let Ok(batch) = WriteBatch::from_data(batch) else {
            return WalDecision::Corrupted;
        };
        let old = create::<rocksdb_writebatch_t>(batch);
        let new = create::<rocksdb_writebatch_t>(WriteBatch::new());
        let mut changed: c_uchar = 0;
        // SAFETY: the handles are live during the call, and the program's function keeps no pointer.
        let answer = unsafe {
            record(
                self.state.pointer(),
                log.0,
                path.as_ptr().cast(),
                path.len(),
                old,
                new,
                &raw mut changed,
            )
        };
        // SAFETY: both handles are live, and are not used any more.
        let new = unsafe {
            drop(take(old));
            take(new)
        };
        match answer {
            CONTINUE if changed != 0 => WalDecision::Change(new.data().to_vec()),
            CONTINUE => WalDecision::Continue,
            IGNORE => WalDecision::Ignore,
            STOP => WalDecision::Stop,
            _ => WalDecision::Corrupted,
        }
    }
}

c_functions! {
    /// Creates a filter. `column_family_log_number_map` receives the first log of each family that has unflushed data,
    /// and the ids of families by name; `log_record_found` receives each batch before it is replayed, returns one of
    /// `rocksdb_wal_filter_*`, and may fill `new_batch` to replace the batch. Null for either does nothing.
    fn rocksdb_walfilter_create(
        state: *mut c_void,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
        column_family_log_number_map: Option<unsafe extern "C" fn(
            *mut c_void,
            *const u32,
            *const u64,
            usize,
            *const *const c_char,
            *const usize,
            *const u32,
            usize,
        )>,
        log_record_found: Option<unsafe extern "C" fn(
            *mut c_void,
            c_ulonglong,
            *const c_char,
            usize,
            *const rocksdb_writebatch_t,
            *mut rocksdb_writebatch_t,
            *mut c_uchar,
        ) -> c_int>,
        name: Option<unsafe extern "C" fn(*mut c_void) -> *const c_char>,
    ) -> *mut rocksdb_walfilter_t {
        let (destructor, name): (Destructor, Name) = (destructor, name);
        let state = State::new(state, destructor);
        let name = state.name(name, "");
        create(Arc::new(ByCallbacks {
            name,
            state,
            families: column_family_log_number_map,
            record: log_record_found,
        }) as Arc<dyn WalFilter>)
    }
    /// Sets the filter. The options share it, and the program still destroys its handle; null removes the filter.
    fn rocksdb_options_set_wal_filter(opt: *mut rocksdb_options_t, filter: *mut rocksdb_walfilter_t) {
        let filter = maybe(filter.cast_const()).cloned();
        of_mut(opt).db.wal_filter = filter.map_or(Plugin::None, Plugin::Object);
    }
    /// Removes the filter.
    fn rocksdb_options_clear_wal_filter(opt: *mut rocksdb_options_t) {
        of_mut(opt).db.wal_filter = Plugin::None;
    }
}
