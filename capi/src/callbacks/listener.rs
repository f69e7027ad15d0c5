//! Event listeners, and what they are told.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::path::Path;

use cairn_observe::listener::{
    CompactionJobInfo, ExternalFileIngestionInfo, FlushJobInfo, MemTableInfo, SubcompactionJobInfo,
    WriteStallInfo,
};
use cairn_observe::{BackgroundErrorReason, EventListener};
use cairn_types::Error;

use super::{State, c_bytes};
use crate::database::{handle_of, rocksdb_t};
use crate::error::{save, store};
use crate::handle::{Handle, create, destroy, of, of_mut, take};
use crate::options::rocksdb_options_t;

handles! {
    /// A listener.
    rocksdb_eventlistener_t = Callbacks;
    /// The report of a flush.
    rocksdb_flushjobinfo_t = FlushJobInfo;
    /// The report of a compaction.
    rocksdb_compactionjobinfo_t = CompactionJobInfo;
    /// The report of a part of a compaction.
    rocksdb_subcompactionjobinfo_t = SubcompactionJobInfo;
    /// The report of an ingestion.
    rocksdb_externalfileingestioninfo_t = ExternalFileIngestionInfo;
    /// How writes are held back.
    rocksdb_writestallinfo_t = Stall;
    /// Which memtable takes no more writes.
    rocksdb_memtableinfo_t = MemTableInfo;
    /// An error that a listener may take back.
    rocksdb_status_ptr_t = Option<Error>;
}

c_destructors! {
    /// Frees a listener that no options own.
    rocksdb_eventlistener_destroy(rocksdb_eventlistener_t);
}

/// How writes are held back: 0 delayed, 1 stopped, 2 not at all.
pub struct rocksdb_writestallcondition_t(());

/// A change of how writes are held back, with the conditions as C reads them.
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
/// Called when a part of a compaction begins.
pub type on_subcompaction_begin_cb =
    Option<unsafe extern "C" fn(*mut c_void, *const rocksdb_subcompactionjobinfo_t)>;
/// Called when a part of a compaction has ended.
pub type on_subcompaction_completed_cb =
    Option<unsafe extern "C" fn(*mut c_void, *const rocksdb_subcompactionjobinfo_t)>;
/// Called when a table was ingested.
pub type on_external_file_ingested_cb = Option<
    unsafe extern "C" fn(*mut c_void, *mut rocksdb_t, *const rocksdb_externalfileingestioninfo_t),
>;
/// Called when background work failed; `rocksdb_reset_status` takes the error back.
pub type on_background_error_cb =
    Option<unsafe extern "C" fn(*mut c_void, u32, *mut rocksdb_status_ptr_t)>;
/// Called when writes are held back, or no longer.
pub type on_stall_conditions_changed_cb =
    Option<unsafe extern "C" fn(*mut c_void, *const rocksdb_writestallinfo_t)>;
/// Called when a memtable takes no more writes.
pub type on_memtable_sealed_cb =
    Option<unsafe extern "C" fn(*mut c_void, *const rocksdb_memtableinfo_t)>;

/// The program's functions.
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

/// Shows `object` to the program for the time of a call.
fn show<H: Handle>(object: H::Object, call: impl FnOnce(*const H)) {
    let handle = create::<H>(object);
    call(handle.cast_const());
    // SAFETY: the handle was made above; the program does not destroy what it is shown.
    unsafe { destroy(handle) };
}

/// The handle of the database in the directory `dir`; null while it is being opened.
fn database(dir: &str) -> *mut rocksdb_t {
    handle_of(Path::new(dir))
}

/// The directory that `file` lies in.
fn directory(file: &str) -> &str {
    let dir = Path::new(file).parent().and_then(Path::to_str);
    dir.unwrap_or_default()
}

impl EventListener for Callbacks {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        if let Some(call) = self.flush_begin {
            // SAFETY: the program's function reads what it is shown, during the call.
            show(info.clone(), |shown| unsafe {
                call(self.state.pointer(), database(&info.db_name), shown);
            });
        }
    }

    fn on_flush_completed(&self, info: &FlushJobInfo) {
        if let Some(call) = self.flush_completed {
            // SAFETY: as above.
            show(info.clone(), |shown| unsafe {
                call(self.state.pointer(), database(&info.db_name), shown);
            });
        }
    }

    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        if let Some(call) = self.compaction_begin {
            // SAFETY: as above.
            show(info.clone(), |shown| unsafe {
                call(self.state.pointer(), database(&info.db_name), shown);
            });
        }
    }

    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        if let Some(call) = self.compaction_completed {
            // SAFETY: as above.
            show(info.clone(), |shown| unsafe {
                call(self.state.pointer(), database(&info.db_name), shown);
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
            show(info.clone(), |shown| unsafe {
                call(
                    self.state.pointer(),
                    database(directory(&info.internal_file_path)),
                    shown,
                );
            });
        }
    }

    fn on_background_error(&self, reason: BackgroundErrorReason, error: &mut Option<Error>) {
        if let Some(call) = self.background_error {
            let shown = create::<rocksdb_status_ptr_t>(error.clone());
            // SAFETY: the program's function may change the error behind the handle, and does not
            // destroy it.
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

/// A text for C: its bytes, which end with its length and not with a zero.
///
/// # Safety
///
/// `size` is null or may be written to.
unsafe fn words(text: &str, size: *mut usize) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { store(size, text.len()) };
    c_bytes(text.as_bytes())
}

/// Puts an error where the program wants it.
///
/// # Safety
///
/// `errptr` is what `c.h` says.
unsafe fn status(error: Option<&Error>, errptr: *mut *mut c_char) {
    if let Some(error) = error {
        // SAFETY: the caller's promise.
        unsafe { save(errptr, error) };
    }
}

fn level(level: usize) -> c_int {
    c_int::try_from(level).unwrap_or(c_int::MAX)
}

c_functions! {
    /// A listener. Null functions are not called; the others are, from any thread, with what they may
    /// look at until they return.
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
    /// Adds a listener, which the options own from now on.
    fn rocksdb_options_add_eventlistener(opt: *mut rocksdb_options_t, listener: *mut rocksdb_eventlistener_t) {
        of_mut(opt).db.listeners.push(std::sync::Arc::new(take(listener)));
    }

    /// The family that was flushed.
    fn rocksdb_flushjobinfo_cf_name(info: *const rocksdb_flushjobinfo_t, size: *mut usize) -> *const c_char {
        words(&of(info).family_name, size)
    }
    /// The table that was written.
    fn rocksdb_flushjobinfo_file_path(info: *const rocksdb_flushjobinfo_t, size: *mut usize) -> *const c_char {
        words(&of(info).file_path, size)
    }
    /// True if writes are slowed down by it.
    fn rocksdb_flushjobinfo_triggered_writes_slowdown(info: *const rocksdb_flushjobinfo_t) -> c_uchar {
        of(info).triggered_writes_slowdown.into()
    }
    /// True if writes are stopped by it.
    fn rocksdb_flushjobinfo_triggered_writes_stop(info: *const rocksdb_flushjobinfo_t) -> c_uchar {
        of(info).triggered_writes_stop.into()
    }
    /// The newest entry.
    fn rocksdb_flushjobinfo_largest_seqno(info: *const rocksdb_flushjobinfo_t) -> u64 {
        of(info).largest_seqno.0
    }
    /// The oldest entry.
    fn rocksdb_flushjobinfo_smallest_seqno(info: *const rocksdb_flushjobinfo_t) -> u64 {
        of(info).smallest_seqno.0
    }
    /// Why it was flushed.
    fn rocksdb_flushjobinfo_flush_reason(info: *const rocksdb_flushjobinfo_t) -> u32 {
        of(info).flush_reason as u32
    }

    /// How it ended.
    fn rocksdb_compactionjobinfo_status(info: *const rocksdb_compactionjobinfo_t, errptr: *mut *mut c_char) {
        status(of(info).status.as_ref(), errptr);
    }
    /// The family that was compacted.
    fn rocksdb_compactionjobinfo_cf_name(info: *const rocksdb_compactionjobinfo_t, size: *mut usize) -> *const c_char {
        words(&of(info).family_name, size)
    }
    /// How many tables were read.
    fn rocksdb_compactionjobinfo_input_files_count(info: *const rocksdb_compactionjobinfo_t) -> usize {
        of(info).input_files.len()
    }
    /// A table that was read; null beyond the last.
    fn rocksdb_compactionjobinfo_input_file_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
        size: *mut usize,
    ) -> *const c_char {
        of(info).input_files.get(pos).map_or(std::ptr::null(), |file| words(file, size))
    }
    /// How many tables were written.
    fn rocksdb_compactionjobinfo_output_files_count(info: *const rocksdb_compactionjobinfo_t) -> usize {
        of(info).output_files.len()
    }
    /// A table that was written; null beyond the last.
    fn rocksdb_compactionjobinfo_output_file_at(
        info: *const rocksdb_compactionjobinfo_t,
        pos: usize,
        size: *mut usize,
    ) -> *const c_char {
        of(info).output_files.get(pos).map_or(std::ptr::null(), |file| words(file, size))
    }
    /// Microseconds it took.
    fn rocksdb_compactionjobinfo_elapsed_micros(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).stats.elapsed_micros
    }
    /// Damaged keys it met.
    fn rocksdb_compactionjobinfo_num_corrupt_keys(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).stats.num_corrupt_keys
    }
    /// The level it started from.
    fn rocksdb_compactionjobinfo_base_input_level(info: *const rocksdb_compactionjobinfo_t) -> c_int {
        level(of(info).base_input_level)
    }
    /// The level it wrote to.
    fn rocksdb_compactionjobinfo_output_level(info: *const rocksdb_compactionjobinfo_t) -> c_int {
        level(of(info).output_level)
    }
    /// Entries read.
    fn rocksdb_compactionjobinfo_input_records(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).stats.num_input_records
    }
    /// Entries written.
    fn rocksdb_compactionjobinfo_output_records(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).stats.num_output_records
    }
    /// Bytes read.
    fn rocksdb_compactionjobinfo_total_input_bytes(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).stats.total_input_bytes
    }
    /// Bytes written.
    fn rocksdb_compactionjobinfo_total_output_bytes(info: *const rocksdb_compactionjobinfo_t) -> u64 {
        of(info).stats.total_output_bytes
    }
    /// Why it was compacted.
    fn rocksdb_compactionjobinfo_compaction_reason(info: *const rocksdb_compactionjobinfo_t) -> u32 {
        of(info).compaction_reason as u32
    }
    /// Tables read.
    fn rocksdb_compactionjobinfo_num_input_files(info: *const rocksdb_compactionjobinfo_t) -> usize {
        usize::try_from(of(info).stats.num_input_files).unwrap_or(usize::MAX)
    }
    /// Of these, those of the level that was written to.
    fn rocksdb_compactionjobinfo_num_input_files_at_output_level(info: *const rocksdb_compactionjobinfo_t) -> usize {
        usize::try_from(of(info).stats.num_input_files_at_output_level).unwrap_or(usize::MAX)
    }

    /// How it ended.
    fn rocksdb_subcompactionjobinfo_status(info: *const rocksdb_subcompactionjobinfo_t, errptr: *mut *mut c_char) {
        status(of(info).status.as_ref(), errptr);
    }
    /// The family that was compacted.
    fn rocksdb_subcompactionjobinfo_cf_name(info: *const rocksdb_subcompactionjobinfo_t, size: *mut usize) -> *const c_char {
        words(&of(info).family_name, size)
    }
    /// The thread that did it.
    fn rocksdb_subcompactionjobinfo_thread_id(info: *const rocksdb_subcompactionjobinfo_t) -> u64 {
        of(info).thread_id
    }
    /// The level it started from.
    fn rocksdb_subcompactionjobinfo_base_input_level(info: *const rocksdb_subcompactionjobinfo_t) -> c_int {
        level(of(info).base_input_level)
    }
    /// The level it wrote to.
    fn rocksdb_subcompactionjobinfo_output_level(info: *const rocksdb_subcompactionjobinfo_t) -> c_int {
        level(of(info).output_level)
    }
    /// Why it was compacted.
    fn rocksdb_subcompactionjobinfo_compaction_reason(info: *const rocksdb_subcompactionjobinfo_t) -> u32 {
        of(info).compaction_reason as u32
    }

    /// The family that got the table.
    fn rocksdb_externalfileingestioninfo_cf_name(
        info: *const rocksdb_externalfileingestioninfo_t,
        size: *mut usize,
    ) -> *const c_char {
        words(&of(info).family_name, size)
    }
    /// The table, where it lies now.
    fn rocksdb_externalfileingestioninfo_internal_file_path(
        info: *const rocksdb_externalfileingestioninfo_t,
        size: *mut usize,
    ) -> *const c_char {
        words(&of(info).internal_file_path, size)
    }

    /// The family whose writes are held back.
    fn rocksdb_writestallinfo_cf_name(info: *const rocksdb_writestallinfo_t, size: *mut usize) -> *const c_char {
        words(&of(info).info.family_name, size)
    }
    /// How they are held back now: a pointer to an int, 0 delayed, 1 stopped, 2 not at all.
    fn rocksdb_writestallinfo_cur(info: *const rocksdb_writestallinfo_t) -> *const rocksdb_writestallcondition_t {
        (&raw const of(info).current).cast()
    }
    /// How they were held back before.
    fn rocksdb_writestallinfo_prev(info: *const rocksdb_writestallinfo_t) -> *const rocksdb_writestallcondition_t {
        (&raw const of(info).previous).cast()
    }

    /// The family of the memtable.
    fn rocksdb_memtableinfo_cf_name(info: *const rocksdb_memtableinfo_t, size: *mut usize) -> *const c_char {
        words(&of(info).family_name, size)
    }
    /// Its first entry.
    fn rocksdb_memtableinfo_first_seqno(info: *const rocksdb_memtableinfo_t) -> u64 {
        of(info).first_seqno.0
    }
    /// A sequence number at or before its first entry.
    fn rocksdb_memtableinfo_earliest_seqno(info: *const rocksdb_memtableinfo_t) -> u64 {
        of(info).earliest_seqno.0
    }
    /// Its entries.
    fn rocksdb_memtableinfo_num_entries(info: *const rocksdb_memtableinfo_t) -> u64 {
        of(info).num_entries
    }
    /// Of these, deletions.
    fn rocksdb_memtableinfo_num_deletes(info: *const rocksdb_memtableinfo_t) -> u64 {
        of(info).num_deletes
    }

    /// The error that a listener is shown.
    fn rocksdb_status_ptr_get_error(status_ptr: *mut rocksdb_status_ptr_t, errptr: *mut *mut c_char) {
        status(of(status_ptr.cast_const()).as_ref(), errptr);
    }
    /// Takes the error back: the database goes on as if it had not happened.
    fn rocksdb_reset_status(status_ptr: *mut rocksdb_status_ptr_t) {
        *of_mut(status_ptr) = None;
    }
}
