//! Event listeners and the information passed to them.

use std::ffi::{c_char, c_int, c_uchar, c_void};

use cairn_observe::listener::{
    CompactionJobInfo, ExternalFileIngestionInfo, FlushJobInfo, MemTableInfo, SubcompactionJobInfo,
    WriteStallInfo,
};
use cairn_observe::{BackgroundErrorReason, EventListener};
use cairn_types::Error;

use super::{State, c_bytes};
use crate::database::{rocksdb_t, with_handle_of};
use crate::error::{save, store};
use crate::handle::{Handle, create, destroy, of, of_mut, take};
use crate::options::rocksdb_options_t;

handles! {
    /// A listener.
    rocksdb_eventlistener_t = Callbacks;
    /// Information about a flush.
    rocksdb_flushjobinfo_t = FlushJobInfo;
    /// Information about a compaction.
    rocksdb_compactionjobinfo_t = CompactionJobInfo;
    /// Information about a subcompaction.
    rocksdb_subcompactionjobinfo_t = SubcompactionJobInfo;
    /// Information about an ingestion.
    rocksdb_externalfileingestioninfo_t = ExternalFileIngestionInfo;
    /// A change of a write stall condition.
    rocksdb_writestallinfo_t = Stall;
    /// Information about a sealed memtable.
    rocksdb_memtableinfo_t = MemTableInfo;
    /// A background error, which a listener may suppress.
    rocksdb_status_ptr_t = Option<Error>;
}

c_destructors! {
    /// Frees a listener that is not owned by options.
    rocksdb_eventlistener_destroy(rocksdb_eventlistener_t);
}

/// A write stall condition: 0 delayed, 1 stopped, 2 normal.
pub struct rocksdb_writestallcondition_t(());

/// A change of a write stall condition, with the conditions as C integers.
pub struct Stall {
    info: WriteStallInfo,
    current: c_int,
    previous: c_int,
}

/// Called when a flush begins.
pub type on_flush_begin_cb =
    Option<unsafe extern "C" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_flushjobinfo_t)>;
/// Called when a flush has ended.
pub type on_flush_completed_cb =
    Option<unsafe extern "C" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_flushjobinfo_t)>;
/// Called when a compaction begins.
pub type on_compaction_begin_cb =
    Option<unsafe extern "C" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_compactionjobinfo_t)>;
/// Called when a compaction has ended.
pub type on_compaction_completed_cb =
    Option<unsafe extern "C" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_compactionjobinfo_t)>;
/// Called when a subcompaction begins.
pub type on_subcompaction_begin_cb =
    Option<unsafe extern "C" fn(*mut c_void, *const rocksdb_subcompactionjobinfo_t)>;
/// Called when a subcompaction has ended.
pub type on_subcompaction_completed_cb =
    Option<unsafe extern "C" fn(*mut c_void, *const rocksdb_subcompactionjobinfo_t)>;
/// Called after an ingestion.
pub type on_external_file_ingested_cb = Option<
    unsafe extern "C" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_externalfileingestioninfo_t),
>;
/// Called after a background error; `rocksdb_reset_status` suppresses it.
pub type on_background_error_cb =
    Option<unsafe extern "C" fn(*mut c_void, u32, *mut rocksdb_status_ptr_t)>;
/// Called when the write stall condition changes.
pub type on_stall_conditions_changed_cb =
    Option<unsafe extern "C" fn(*mut c_void, *const rocksdb_writestallinfo_t)>;
/// Called when a memtable becomes immutable.
pub type on_memtable_sealed_cb =
    Option<unsafe extern "C" fn(*mut c_void, *const rocksdb_memtableinfo_t)>;

/// The program's functions. They get the handle of the database. Until the program has it, they get another one, which is
/// valid during the call.
pub struct Callbacks {
    state: State,
    flush_begin: on_flush_begin_cb,
    flush_completed: on_flush_completed_cb,
    compaction_begin: on_compaction_begin_cb,
    compaction_completed: on_compaction_completed_cb,
    subcompaction_begin: on_subcompaction_begin_cb,
    subcompaction_completed: on_subcompaction_completed_cb,
    external_file_ingested: on_external_file_ingested_cb,
    background_error: on_background_error_cb,
    stall_conditions_changed: on_stall_conditions_changed_cb,
    memtable_sealed: on_memtable_sealed_cb,
}

/// Passes `object` to the program for the duration of a call.
fn show<H: Handle>(object: H::Object, call: impl FnOnce(*const H)) {
    let handle = create::<H>(object);
    call(handle.cast_const());
    // SAFETY: the handle was created above, and the program does not destroy it.
    unsafe { destroy(handle) };
}

/// [`show`], with the handle of the database with this session.
fn show_with<H: Handle>(
    session_id: &str,
    object: H::Object,
    call: impl FnOnce(*mut rocksdb_t, *const H),
) {
    with_handle_of(session_id, |db| show(object, |shown| call(db, shown)));
}

impl EventListener for Callbacks {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        if let Some(call) = self.flush_begin {
            // SAFETY: the program's function only reads the object, during the call.
            show_with(&info.session_id, info.clone(), |db, shown| unsafe {
                call(self.state.pointer(), db, shown);
            });
        }
    }

    fn on_flush_completed(&self, info: &FlushJobInfo) {
        if let Some(call) = self.flush_completed {
            // SAFETY: as above.
            show_with(&info.session_id, info.clone(), |db, shown| unsafe {
                call(self.state.pointer(), db, shown);
            });
        }
    }

    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        if let Some(call) = self.compaction_begin {
            // SAFETY: as above.
            show_with(&info.session_id, info.clone(), |db, shown| unsafe {
                call(self.state.pointer(), db, shown);
            });
        }
    }

    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        if let Some(call) = self.compaction_completed {
            // SAFETY: as above.
            show_with(&info.session_id, info.clone(), |db, shown| unsafe {
                call(self.state.pointer(), db, shown);
            });
        }
    }

    fn on_subcompaction_begin(&self, info: &SubcompactionJobInfo) {
        if let Some(call) = self.subcompaction_begin {
            // SAFETY: as above.
            show(info.clone(), |shown| unsafe {
                call(self.state.pointer(), shown)
            });
        }
    }

    fn on_subcompaction_completed(&self, info: &SubcompactionJobInfo) {
        if let Some(call) = self.subcompaction_completed {
            // SAFETY: as above.
            show(info.clone(), |shown| unsafe {
                call(self.state.pointer(), shown)
            });
        }
    }

    fn on_external_file_ingested(&self, info: &ExternalFileIngestionInfo) {
        if let Some(call) = self.external_file_ingested {
            // SAFETY: as above.
            show_with(&info.session_id, info.clone(), |db, shown| unsafe {
                call(self.state.pointer(), db, shown);
            });
        }
    }

    fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {
        if let Some(call) = self.background_error {
            let shown = create::<rocksdb_status_ptr_t>(error.clone());
            // SAFETY: the program's function may change the error behind the handle and does not
            // destroy the handle.
            unsafe {
                call(self.state.pointer(), reason as u32, shown);
                *error = take(shown);
            }
        }
    }

    fn on_stall_conditions_changed(&self, info: &WriteStallInfo) {
        if let Some(call) = self.stall_conditions_changed {
            let stall = Stall {
                current: info.current as c_int,
                previous: info.previous as c_int,
                info: info.clone(),
            };
            // SAFETY: as above.
            show(stall, |shown| unsafe { call(self.state.pointer(), shown) });
        }
    }

    fn on_memtable_sealed(&self, info: &MemTableInfo) {
        if let Some(call) = self.memtable_sealed {
            // SAFETY: as above.
            show(info.clone(), |shown| unsafe {
                call(self.state.pointer(), shown)
            });
        }
    }
}

/// A string for C, which is not null-terminated.
///
/// # Safety
///
/// `size` is null or may be written to.
unsafe fn words(text: &str, size: *mut usize) -> *const c_char {
    // SAFETY: guaranteed by the caller.
    unsafe { store(size, text.len()) };
    c_bytes(text.as_bytes())
}

/// Stores an error in `*errptr`.
///
/// # Safety
///
/// `errptr` is valid as `c.h` requires.
unsafe fn status(error: Option<&Error>, errptr: *mut *mut c_char) {
    if let Some(error) = error {
        // SAFETY: guaranteed by the caller.
        unsafe { save(errptr, error) };
    }
}

fn level(level: usize) -> c_int {
    c_int::try_from(level).unwrap_or(c_int::MAX)
}

c_functions! {
    /// Creates a listener. Null functions are not called. The others may be called from any thread,
    /// with arguments that are valid until they return.
    fn rocksdb_eventlistener_create(
        state_: *mut c_void,
        destructor_: Option<unsafe extern "C" fn(*mut c_void)>,
        on_flush_begin: on_flush_begin_cb,
        on_flush_completed: on_flush_completed_cb,
        on_compaction_begin: on_compaction_begin_cb,
        on_compaction_completed: on_compaction_completed_cb,
        on_subcompaction_begin: on_subcompaction_begin_cb,
        on_subcompaction_completed: on_subcompaction_completed_cb,
        on_external_file_ingested: on_external_file_ingested_cb,
        on_background_error: on_background_error_cb,
        on_stall_conditions_changed: on_stall_conditions_changed_cb,
        on_memtable_sealed: on_memtable_sealed_cb,
    ) -> *mut rocksdb_eventlistener_t {
        create(Callbacks {
            state: State::new(state_, destructor_),
            flush_begin: on_flush_begin,
            flush_completed: on_flush_completed,
            compaction_begin: on_compaction_begin,
            compaction_completed: on_compaction_completed,
            subcompaction_begin: on_subcompaction_begin,
            subcompaction_completed: on_subcompaction_completed,
            external_file_ingested: on_external_file_ingested,
            background_error: on_background_error,
            stall_conditions_changed: on_stall_conditions_changed,
            memtable_sealed: on_memtable_sealed,
        })
    }
    /// Adds a listener. The options take ownership.
    fn rocksdb_options_add_eventlistener(opt: *mut rocksdb_options_t, listener: *mut rocksdb_eventlistener_t) {
        of_mut(opt).db.listeners.push(std::sync::Arc::new(take(listener)));
    }

    /// The name of the flushed family.
    fn rocksdb_flushjobinfo_cf_name(info: *const rocksdb_flushjobinfo_t, size: *mut usize) -> *const c_char {
        words(&of(info).family_name, size)
    }
    /// The path of the table.
    fn rocksdb_flushjobinfo_file_path(info: *const rocksdb_flushjobinfo_t, size: *mut usize) -> *const c_char {
        words(&of(info).file_path, size)
    }
    /// True if the flush makes level 0 slow writes down.
    fn rocksdb_flushjobinfo_triggered_writes_slowdown(info: *const rocksdb_flushjobinfo_t) -> c_uchar {
        of(info).triggered_writes_slowdown.into()
    }
    /// True if the flush makes level 0 stop writes.
    fn rocksdb_flushjobinfo_triggered_writes_stop(info: *const rocksdb_flushjobinfo_t) -> c_uchar {
        of(info).triggered_writes_stop.into()
    }
    /// The largest sequence number in the table.
    fn rocksdb_flushjobinfo_largest_seqno(info: *const rocksdb_flushjobinfo_t) -> u64 {
        of(info).largest_seqno.0
    }
    /// The smallest sequence number in the table.
    fn rocksdb_flushjobinfo_smallest_seqno(info: *const rocksdb_flushjobinfo_t) -> u64 {
        of(info).smallest_seqno.0
    }
    /// The reason for the flush.
    fn rocksdb_flushjobinfo_flush_reason(info: *const rocksdb_flushjobinfo_t) -> u32 {
        of(info).flush_reason as u32
    }

    /// Stores the result of the compaction in `*errptr`.
    fn rocksdb_compactionjobinfo_status(info: *const rocksdb_compactionjobinfo_t, errptr: *mut *mut c_char) {
        status(of(info).status.as_ref(), errptr);
    }
    /// The name of the compacted family.
    fn rocksdb_compactionjobinfo_cf_name(info: *const rocksdb_compactionjobinfo_t, size: *mut usize) -> *const c_char {
        words(&of(info).family_name, size)
    }
    /// The number of input tables.
    fn rocksdb_compactionjobinfo_input_files_count(info: *const rocksdb_compactionjobinfo_t) -> usize {
        of(info).input_files.len()
    }
    /// The path of an input table; null beyond the last.
    fn rocksdb_compactionjobinfo_input_file_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
        size: *mut usize,
    ) -> *const c_char {
        of(info).input_files.get(pos).map_or(std::ptr::null(), |file| words(file, size))
    }
    /// The number of output tables.
    fn rocksdb_compactionjobinfo_output_files_count(info: *const rocksdb_compactionjobinfo_t) -> usize {
        of(info).output_files.len()
    }
    /// The path of an output table; null beyond the last.
    fn rocksdb_compactionjobinfo_output_file_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
        size: *mut usize,
    ) -> *const c_char {
        of(info).output_files.get(pos).map_or(std::ptr::null(), |file| words(file, size))
    }
    /// The duration in microseconds.
    fn rocksdb_compactionjobinfo_elapsed_micros(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).stats.elapsed_micros
    }
    /// The number of corrupt keys.
    fn rocksdb_compactionjobinfo_num_corrupt_keys(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).stats.num_corrupt_keys
    }
    /// The base input level.
    fn rocksdb_compactionjobinfo_base_input_level(info: *const rocksdb_compactionjobinfo_t) -> c_int {
        level(of(info).base_input_level)
    }
    /// The output level.
    fn rocksdb_compactionjobinfo_output_level(info: *const rocksdb_compactionjobinfo_t) -> c_int {
        level(of(info).output_level)
    }
    /// The number of input entries.
    fn rocksdb_compactionjobinfo_input_records(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).stats.num_input_records
    }
    /// The number of output entries.
    fn rocksdb_compactionjobinfo_output_records(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).stats.num_output_records
    }
    /// The total size of the input tables in bytes.
    fn rocksdb_compactionjobinfo_total_input_bytes(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).stats.total_input_bytes
    }
    /// The total size of the output tables in bytes.
    fn rocksdb_compactionjobinfo_total_output_bytes(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).stats.total_output_bytes
    }
    /// The reason for the compaction.
    fn rocksdb_compactionjobinfo_compaction_reason(info: *const rocksdb_compactionjobinfo_t) -> u32 {
        of(info).compaction_reason as u32
    }
    /// The number of input tables.
    fn rocksdb_compactionjobinfo_num_input_files(info: *const rocksdb_compactionjobinfo_t) -> usize {
        usize::try_from(of(info).stats.num_input_files).unwrap_or(usize::MAX)
    }
    /// The number of input tables in the output level.
    fn rocksdb_compactionjobinfo_num_input_files_at_output_level(info: *const rocksdb_compactionjobinfo_t) -> usize {
        usize::try_from(of(info).stats.num_input_files_at_output_level).unwrap_or(usize::MAX)
    }

    /// Stores the result of the subcompaction in `*errptr`.
    fn rocksdb_subcompactionjobinfo_status(info: *const rocksdb_subcompactionjobinfo_t, errptr: *mut *mut c_char) {
        status(of(info).status.as_ref(), errptr);
    }
    /// The name of the compacted family.
    fn rocksdb_subcompactionjobinfo_cf_name(info: *const rocksdb_subcompactionjobinfo_t, size: *mut usize) -> *const c_char {
        words(&of(info).family_name, size)
    }
    /// The id of the thread.
    fn rocksdb_subcompactionjobinfo_thread_id(info: *const rocksdb_subcompactionjobinfo_t) -> u64 {
        of(info).thread_id
    }
    /// The base input level.
    fn rocksdb_subcompactionjobinfo_base_input_level(info: *const rocksdb_subcompactionjobinfo_t) -> c_int {
        level(of(info).base_input_level)
    }
    /// The output level.
    fn rocksdb_subcompactionjobinfo_output_level(info: *const rocksdb_subcompactionjobinfo_t) -> c_int {
        level(of(info).output_level)
    }
    /// The reason for the compaction.
    fn rocksdb_subcompactionjobinfo_compaction_reason(info: *const rocksdb_subcompactionjobinfo_t) -> u32 {
        of(info).compaction_reason as u32
    }

    /// The name of the family that the table was ingested into.
    fn rocksdb_externalfileingestioninfo_cf_name(
        info: *const rocksdb_externalfileingestioninfo_t,
        size: *mut usize,
    ) -> *const c_char {
        words(&of(info).family_name, size)
    }
    /// The path of the table in the database.
    fn rocksdb_externalfileingestioninfo_internal_file_path(
        info: *const rocksdb_externalfileingestioninfo_t,
        size: *mut usize,
    ) -> *const c_char {
        words(&of(info).internal_file_path, size)
    }

    /// The name of the family.
    fn rocksdb_writestallinfo_cf_name(info: *const rocksdb_writestallinfo_t, size: *mut usize) -> *const c_char {
        words(&of(info).info.family_name, size)
    }
    /// The current condition: a pointer to an int, 0 delayed, 1 stopped, 2 normal.
    fn rocksdb_writestallinfo_cur(info: *const rocksdb_writestallinfo_t) -> *const rocksdb_writestallcondition_t {
        (&raw const of(info).current).cast()
    }
    /// The previous condition.
    fn rocksdb_writestallinfo_prev(info: *const rocksdb_writestallinfo_t) -> *const rocksdb_writestallcondition_t {
        (&raw const of(info).previous).cast()
    }

    /// The name of the memtable's family.
    fn rocksdb_memtableinfo_cf_name(info: *const rocksdb_memtableinfo_t, size: *mut usize) -> *const c_char {
        words(&of(info).family_name, size)
    }
    /// The sequence number of its first entry.
    fn rocksdb_memtableinfo_first_seqno(info: *const rocksdb_memtableinfo_t) -> u64 {
        of(info).first_seqno.0
    }
    /// A sequence number at or before its first entry.
    fn rocksdb_memtableinfo_earliest_seqno(info: *const rocksdb_memtableinfo_t) -> u64 {
        of(info).earliest_seqno.0
    }
    /// The number of entries.
    fn rocksdb_memtableinfo_num_entries(info: *const rocksdb_memtableinfo_t) -> u64 {
        of(info).num_entries
    }
    /// The number of deletions.
    fn rocksdb_memtableinfo_num_deletes(info: *const rocksdb_memtableinfo_t) -> u64 {
        of(info).num_deletes
    }

    /// Stores the error in `*errptr`.
    fn rocksdb_status_ptr_get_error(status_ptr: *mut rocksdb_status_ptr_t, errptr: *mut *mut c_char) {
        status(of(status_ptr.cast_const()).as_ref(), errptr);
    }
    /// Suppresses the error: the database continues as if it had not occurred.
    fn rocksdb_reset_status(status_ptr: *mut rocksdb_status_ptr_t) {
        *of_mut(status_ptr) = None;
    }
}
