//! Listener events: a database of one library with a listener that records every event with all fields.
//!
//! The fields of an event are the getters of its type that both libraries have ([`Library::getters`]),
//! so that none is missed for lack of a list entry. Values that depend on the machine or the engine are
//! normalized: ids of jobs and threads and times are left out, byte counts are reduced to zero or
//! nonzero, and files are numbered in the order of their appearance.
#![expect(
    unsafe_code,
    reason = "every function of the C API is unsafe to call, and callbacks are handed raw memory"
)]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::slice;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::api::{Api, ErrorSlot, Handle};
use super::getters::Library;

/// The types whose getters are the fields of events.
const EVENTS: [&str; 6] = [
    "rocksdb_compactionjobinfo_t",
    "rocksdb_externalfileingestioninfo_t",
    "rocksdb_flushjobinfo_t",
    "rocksdb_memtableinfo_t",
    "rocksdb_subcompactionjobinfo_t",
    "rocksdb_writestallinfo_t",
];

/// Fields that are left out.
const LEFT_OUT: [&str; 3] = ["_job_id", "_thread_id", "_elapsed_micros"];

/// The events that a listener has recorded.
struct Recorder {
    api: Api,
    library: Library,
    /// The fields of each type that both libraries have.
    fields: BTreeMap<&'static str, Vec<String>>,
    folder: String,
    lines: Mutex<Vec<String>>,
    /// If true, the listener suppresses background errors.
    forgives: AtomicBool,
}

/// A database of one library, with a listener.
pub struct RecordingDb {
    recorder: &'static Recorder,
    path: PathBuf,
    options: Handle,
    db: Handle,
    families: Vec<Handle>,
    space: Handle,
}

/// The error of a C call, as text.
fn text_of(from: impl FnOnce(ErrorSlot)) -> Result<(), String> {
    let mut error: *mut c_char = null_mut();
    from(&raw mut error);
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: a library stores null or a null-terminated string.
    Err(unsafe { CStr::from_ptr(error) }
        .to_string_lossy()
        .into_owned())
}

/// `ok`, or an error up to its first colon, or to its second where the first part alone is too general.
fn outcome(result: &Result<(), String>) -> String {
    match result {
        Ok(()) => "ok".to_owned(),
        Err(error) => error.split(':').next().unwrap_or_default().to_owned(),
    }
}

impl Recorder {
    fn note(&self, line: String) {
        let mut lines = self.lines.lock().expect("nobody panics with the lock");
        lines.push(line.replace(&self.folder, "DIR"));
    }

    /// Records an event `name` of the type `object`, and `more`.
    fn event(&self, name: &str, object: &str, info: Handle, more: &str) {
        let mut line = name.to_owned();
        for getter in &self.fields[object] {
            if LEFT_OUT.iter().any(|end| getter.ends_with(end)) {
                continue;
            }
            let prefix = object.trim_end_matches('t');
            let field = getter.trim_start_matches(prefix);
            let mut value = self.library.get(getter, info);
            if field.ends_with("_bytes") && value != "0" {
                "some".clone_into(&mut value);
            }
            line += &format!(" {field}={value}");
        }
        self.note(line + more);
    }

    /// The files of a compaction and its result.
    fn of_compaction(&self, info: Handle) -> String {
        let api = &self.api;
        let mut text = String::new();
        let lists = [
            ("in", "rocksdb_compactionjobinfo_input_files_count"),
            ("out", "rocksdb_compactionjobinfo_output_files_count"),
        ];
        for (name, count) in lists {
            let count: usize = self.library.get(count, info).parse().unwrap_or(0);
            for at in 0..count {
                let mut length = 0;
                let file = match name {
                    "in" => api.rocksdb_compactionjobinfo_input_file_at,
                    _ => api.rocksdb_compactionjobinfo_output_file_at,
                };
                // SAFETY: the index is below the count, and the text has the length that is stored.
                let file = unsafe {
                    let start = file(info, at, &raw mut length);
                    slice::from_raw_parts(start.cast::<u8>(), length)
                };
                text += &format!(" {name}:{}", String::from_utf8_lossy(file));
            }
        }
        // SAFETY: the handle is of this type during the callback.
        let status = text_of(|slot| unsafe { (api.rocksdb_compactionjobinfo_status)(info, slot) });
        format!("{text} status={}", outcome(&status))
    }
}

/// The record behind the state of a callback.
fn recorder<'a>(state: *mut c_void) -> &'a Recorder {
    // SAFETY: the state is the record, which is never freed.
    unsafe { &*state.cast::<Recorder>() }
}

/// The presence of a database handle, as a word.
fn given(db: Handle) -> &'static str {
    match db.is_null() {
        true => " db=null",
        false => " db=given",
    }
}

unsafe extern "C" fn nothing(_: *mut c_void) {}

unsafe extern "C" fn flush_begin(state: *mut c_void, db: Handle, info: Handle) {
    recorder(state).event("flush begin", "rocksdb_flushjobinfo_t", info, given(db));
}

unsafe extern "C" fn flush_completed(state: *mut c_void, db: Handle, info: Handle) {
    recorder(state).event("flush completed", "rocksdb_flushjobinfo_t", info, given(db));
}

fn compaction(state: *mut c_void, name: &str, db: Handle, info: Handle) {
    let recorder = recorder(state);
    let more = format!("{}{}", given(db), recorder.of_compaction(info));
    recorder.event(name, "rocksdb_compactionjobinfo_t", info, &more);
}

unsafe extern "C" fn compaction_begin(state: *mut c_void, db: Handle, info: Handle) {
    compaction(state, "compaction begin", db, info);
}

unsafe extern "C" fn compaction_completed(state: *mut c_void, db: Handle, info: Handle) {
    compaction(state, "compaction completed", db, info);
}

fn part(state: *mut c_void, name: &str, info: Handle) {
    let recorder = recorder(state);
    let status = recorder.api.rocksdb_subcompactionjobinfo_status;
    // SAFETY: the handle is of this type during the callback.
    let status = text_of(|slot| unsafe { status(info, slot) });
    let more = format!(" status={}", outcome(&status));
    recorder.event(name, "rocksdb_subcompactionjobinfo_t", info, &more);
}

unsafe extern "C" fn part_begin(state: *mut c_void, info: Handle) {
    part(state, "part begin", info);
}

unsafe extern "C" fn part_completed(state: *mut c_void, info: Handle) {
    part(state, "part completed", info);
}

unsafe extern "C" fn ingested(state: *mut c_void, db: Handle, info: Handle) {
    let object = "rocksdb_externalfileingestioninfo_t";
    recorder(state).event("ingested", object, info, given(db));
}

unsafe extern "C" fn background_error(state: *mut c_void, reason: u32, status: Handle) {
    let recorder = recorder(state);
    // SAFETY: the handle is of this type during the callback.
    let error =
        text_of(|slot| unsafe { (recorder.api.rocksdb_status_ptr_get_error)(status, slot) });
    let forgives = recorder.forgives.load(Ordering::SeqCst);
    let done = if forgives { " forgiven" } else { "" };
    let error = outcome(&error);
    recorder.note(format!("background error reason={reason} {error}{done}"));
    if forgives {
        // SAFETY: as above.
        unsafe { (recorder.api.rocksdb_reset_status)(status) }
    }
}

unsafe extern "C" fn stall(state: *mut c_void, info: Handle) {
    let recorder = recorder(state);
    // SAFETY: the handle is of this type during the callback, and the conditions are numbers.
    let (before, now) = unsafe {
        (
            *(recorder.api.rocksdb_writestallinfo_prev)(info),
            *(recorder.api.rocksdb_writestallinfo_cur)(info),
        )
    };
    let more = format!(" {before} to {now}");
    recorder.event("stall", "rocksdb_writestallinfo_t", info, &more);
}

unsafe extern "C" fn sealed(state: *mut c_void, info: Handle) {
    recorder(state).event("sealed", "rocksdb_memtableinfo_t", info, "");
}

impl RecordingDb {
    /// A database of the library at `library` in the new directory `path`. Events have the fields that
    /// the library at `other` also has.
    ///
    /// # Panics
    ///
    /// If a library cannot be loaded.
    #[must_use]
    pub fn new(library: &Path, other: &Path, path: &Path) -> RecordingDb {
        let loaded = Library::load(library).expect("the library can be loaded");
        let other = Library::load(other).expect("the library can be loaded");
        let fields = EVENTS.map(|object| {
            let getters = loaded.getters(object).into_iter();
            let both = getters.filter(|getter| loaded.has(getter) && other.has(getter));
            (object, both.map(str::to_owned).collect())
        });
        let recorder = Recorder {
            api: Api::load(library).expect("the library has all functions"),
            library: loaded,
            fields: fields.into(),
            folder: path.to_string_lossy().into_owned(),
            lines: Mutex::default(),
            forgives: AtomicBool::new(false),
        };
        RecordingDb {
            // The library's listeners may live until the process ends.
            recorder: Box::leak(Box::new(recorder)),
            path: path.to_owned(),
            options: null_mut(),
            db: null_mut(),
            families: Vec::new(),
            space: null_mut(),
        }
    }

    fn api(&self) -> &'static Api {
        &self.recorder.api
    }

    fn say(&self, what: &str, result: &Result<(), String>) {
        self.recorder
            .note(format!("-> {what}: {}", outcome(result)));
    }

    /// Opens the `families` of the database, all with the options of `text`.
    pub fn open(&mut self, text: &str, families: &[&str]) {
        let api = self.api();
        let text = CString::new(text).expect("options have no zero");
        let state = std::ptr::from_ref(self.recorder)
            .cast_mut()
            .cast::<c_void>();
        let path = CString::new(self.path.to_string_lossy().as_bytes()).expect("no zero");
        let names: Vec<CString> = families
            .iter()
            .map(|name| CString::new(*name).expect("names have no zero"))
            .collect();
        let names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let count = i32::try_from(names.len()).expect("few families");
        // SAFETY: handles are live, arrays have `count` elements, strings are null-terminated.
        let result = unsafe {
            let base = (api.rocksdb_options_create)();
            self.options = (api.rocksdb_options_create)();
            let parsed = text_of(|slot| {
                (api.rocksdb_get_options_from_string)(base, text.as_ptr(), self.options, slot);
            });
            parsed.expect("both libraries have the options");
            (api.rocksdb_options_set_create_if_missing)(self.options, 1);
            (api.rocksdb_options_set_create_missing_column_families)(self.options, 1);
            let listener = (api.rocksdb_eventlistener_create)(
                state,
                nothing,
                flush_begin,
                flush_completed,
                compaction_begin,
                compaction_completed,
                part_begin,
                part_completed,
                ingested,
                background_error,
                stall,
                sealed,
            );
            (api.rocksdb_options_add_eventlistener)(self.options, listener);
            let env = (api.rocksdb_create_default_env)();
            self.space = (api.rocksdb_sst_file_manager_create)(env);
            (api.rocksdb_options_set_sst_file_manager)(self.options, self.space);
            let options = vec![self.options.cast_const(); names.len()];
            let options: Vec<Handle> = options.iter().map(|one| one.cast_mut()).collect();
            self.families = vec![null_mut(); names.len()];
            text_of(|slot| {
                self.db = (api.rocksdb_open_column_families)(
                    self.options,
                    path.as_ptr(),
                    count,
                    names.as_ptr(),
                    options.as_ptr(),
                    self.families.as_mut_ptr(),
                    slot,
                );
            })
        };
        self.say("open", &result);
    }

    /// Closes the database.
    pub fn close(&mut self) {
        let api = self.api();
        self.recorder.note("-> close".to_owned());
        // SAFETY: the handles are live and not used again.
        unsafe {
            for family in self.families.drain(..) {
                (api.rocksdb_column_family_handle_destroy)(family);
            }
            (api.rocksdb_close)(self.db);
        }
        self.db = null_mut();
    }

    /// Makes the listener suppress background errors, or no longer.
    pub fn forgive(&self, forgives: bool) {
        self.recorder.forgives.store(forgives, Ordering::SeqCst);
    }

    /// Limits the space of the tables.
    pub fn limit_space(&self, bytes: u64) {
        let limit = self
            .api()
            .rocksdb_sst_file_manager_set_max_allowed_space_usage;
        // SAFETY: the handle lives as long as `self`.
        unsafe { limit(self.space, bytes) }
    }

    /// Writes a value to a family.
    pub fn put(&self, family: usize, key: &str, value: &str) {
        let api = self.api();
        let family = self.families[family];
        // SAFETY: handles are live, and slices outlive the calls.
        let result = unsafe {
            let options = (api.rocksdb_writeoptions_create)();
            let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
            let (k_len, v_len) = (key.len(), value.len());
            let put = api.rocksdb_put_cf;
            let result = text_of(|slot| put(self.db, options, family, k, k_len, v, v_len, slot));
            (api.rocksdb_writeoptions_destroy)(options);
            result
        };
        self.say("put", &result);
    }

    /// Deletes a key of a family.
    pub fn delete(&self, family: usize, key: &str) {
        let api = self.api();
        let family = self.families[family];
        // SAFETY: as above.
        let result = unsafe {
            let options = (api.rocksdb_writeoptions_create)();
            let (k, k_len) = (key.as_ptr().cast(), key.len());
            let result =
                text_of(|slot| (api.rocksdb_delete_cf)(self.db, options, family, k, k_len, slot));
            (api.rocksdb_writeoptions_destroy)(options);
            result
        };
        self.say("delete", &result);
    }

    /// Flushes a family and waits.
    pub fn flush(&self, family: usize) {
        let api = self.api();
        let family = self.families[family];
        // SAFETY: handles are live.
        let result = unsafe {
            let options = (api.rocksdb_flushoptions_create)();
            let result = text_of(|slot| (api.rocksdb_flush_cf)(self.db, options, family, slot));
            (api.rocksdb_flushoptions_destroy)(options);
            result
        };
        self.say("flush", &result);
    }

    /// Compacts all keys of a family.
    pub fn compact(&self, family: usize) {
        let api = self.api();
        self.recorder.note("-> compact".to_owned());
        // SAFETY: handles are live; null stands for no bound.
        unsafe {
            let options = (api.rocksdb_compactoptions_create)();
            let (none, db) = (std::ptr::null(), self.db);
            let family = self.families[family];
            (api.rocksdb_compact_range_cf_opt)(db, family, options, none, 0, none, 0);
            (api.rocksdb_compactoptions_destroy)(options);
        }
    }

    /// Waits for background jobs.
    pub fn wait(&self) {
        let api = self.api();
        // SAFETY: handles are live.
        let result = unsafe {
            let options = (api.rocksdb_wait_for_compact_options_create)();
            let result = text_of(|slot| (api.rocksdb_wait_for_compact)(self.db, options, slot));
            (api.rocksdb_wait_for_compact_options_destroy)(options);
            result
        };
        self.say("wait", &result);
    }

    /// Records a property of a family.
    pub fn property(&self, family: usize, name: &str) {
        let value = self.property_of(family, name);
        self.recorder.note(format!("-> {name} = {value}"));
    }

    /// The value of a property of a family.
    #[must_use]
    pub fn property_of(&self, family: usize, name: &str) -> String {
        let c_name = CString::new(name).expect("names have no zero");
        let property = self.api().rocksdb_property_value_cf;
        // SAFETY: handles are live, and the result is null-terminated.
        unsafe {
            let value = property(self.db, self.families[family], c_name.as_ptr());
            match value.is_null() {
                true => "none".to_owned(),
                false => CStr::from_ptr(value).to_string_lossy().into_owned(),
            }
        }
    }

    /// The bytes of a family's tables, according to its metadata.
    #[must_use]
    pub fn size(&self, family: usize) -> u64 {
        let api = self.api();
        // SAFETY: handles are live.
        unsafe {
            let family = self.families[family];
            let metadata = (api.rocksdb_get_column_family_metadata_cf)(self.db, family);
            let size = (api.rocksdb_column_family_metadata_get_size)(metadata);
            (api.rocksdb_column_family_metadata_destroy)(metadata);
            size
        }
    }

    /// The directory of the database.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The recorded lines, in order: events, and the results of calls. Files are numbered in the order
    /// of their appearance.
    ///
    /// # Panics
    ///
    /// Never: no thread panics while it holds the lock.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let lines = self
            .recorder
            .lines
            .lock()
            .expect("nobody panics with the lock");
        let mut numbers = Vec::new();
        lines
            .iter()
            .map(|line| numbered(line, &mut numbers))
            .collect()
    }
}

/// `line` with the numbers of tables, in names and fields, replaced by their indexes in `numbers`; 0
/// stays. Releases differ in the file numbers that an open allocates.
fn numbered(line: &str, numbers: &mut Vec<u64>) -> String {
    const FIELD: &str = "file_number=";
    let mut text = String::new();
    let mut rest = line;
    loop {
        let name = rest.find(".sst").map(|end| (end.saturating_sub(6), end, 4));
        let field = rest.find(FIELD).map(|at| {
            let from = at + FIELD.len();
            let digits = rest[from..].bytes().take_while(u8::is_ascii_digit).count();
            (from, from + digits, 0)
        });
        let Some((from, to, suffix)) = name.into_iter().chain(field).min() else {
            return text + rest;
        };
        text += &rest[..from];
        match rest[from..to].parse() {
            Ok(0) | Err(_) => text += &rest[from..to + suffix],
            Ok(number) => {
                let known = numbers.iter().position(|one| *one == number);
                let place = known.unwrap_or_else(|| {
                    numbers.push(number);
                    numbers.len() - 1
                });
                text += &format!("table {}", place + 1);
            }
        }
        rest = &rest[to + suffix..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_numbered_in_order_of_appearance() {
        let mut numbers = Vec::new();
        let mut of = |line| numbered(line, &mut numbers);
        assert_eq!(
            of("a file_number=9 b/000009.sst c"),
            "a file_number=table 1 b/table 1 c"
        );
        assert_eq!(of("000012.sst, 000009.sst"), "table 2, table 1");
        assert_eq!(of("file_number=0 000000.sst"), "file_number=0 000000.sst");
        assert_eq!(of("no number"), "no number");
    }
}
