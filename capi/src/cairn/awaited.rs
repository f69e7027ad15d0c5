//! Reads and writes that call a function of the program when they are done.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use cairn_db::Value;
use cairn_platform::io::run_soon;
use cairn_platform::sync::Mutex;
use cairn_types::Result;

use super::family;
use crate::batch::rocksdb_writebatch_t;
use crate::callbacks::State;
use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{bytes, terminated};
use crate::handle::{misuse, of};
use crate::options::{rocksdb_readoptions_t, rocksdb_writeoptions_t};

/// Receives the result of `cairn_get_async`: the value, or null if there is none; and the text of the error, or
/// null. Both are valid until the function returns.
pub type cairn_get_callback_t = Option<
    unsafe extern "C" fn(
        state: *mut c_void,
        value: *const c_char,
        vallen: usize,
        error: *const c_char,
    ),
>;

/// Receives the result of `cairn_write_async`: the text of the error, or null.
pub type cairn_write_callback_t =
    Option<unsafe extern "C" fn(state: *mut c_void, error: *const c_char)>;

thread_local! {
    /// True while a callback runs on this thread.
    static CALLING: Cell<bool> = const { Cell::new(false) };
}

/// The callback of a task.
type Call<T> = Box<dyn FnOnce(Result<T>) + Send>;
type Work<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// Runs a callback, on another thread if this one is running a callback.
fn call_back<T: Send + 'static>(call: impl FnOnce(Result<T>) + Send + 'static, result: Result<T>) {
    // A callback may start further reads. If their callbacks ran on this thread, too, its stack would grow with each.
    if CALLING.get() {
        return run_soon(Box::new(move || call_back(call, result)));
    }
    CALLING.set(true);
    call(result);
    CALLING.set(false);
}

/// Work in progress, and the callback for its end.
struct Task<T>(Mutex<Option<(Work<T>, Call<T>)>>);

impl<T: Send + 'static> Task<T> {
    fn start(work: Work<T>, call: Call<T>) {
        Arc::new(Task(Mutex::new(Some((work, call))))).run();
    }

    /// Polls the work. A thread that wakes it meanwhile waits, and polls it again.
    fn run(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut task = self.0.lock();
        let Some((work, _)) = &mut *task else {
            return;
        };
        let Poll::Ready(result) = work.as_mut().poll(&mut Context::from_waker(&waker)) else {
            return;
        };
        let ended = task.take();
        drop(task);
        if let Some((work, call)) = ended {
            // Before the callback, which may close the database: the work holds a handle of it.
            drop(work);
            call_back(call, result);
        }
    }
}

impl<T: Send + 'static> Wake for Task<T> {
    fn wake(self: Arc<Self>) {
        run_soon(Box::new(move || self.run()));
    }
}

fn text(error: &cairn_types::Error) -> CString {
    terminated(error.to_string())
}

/// The callback of a read.
fn get_call(
    callback: unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char),
    state: State,
) -> impl FnOnce(Result<Option<Value>>) + Send + 'static {
    move |found: Result<Option<Value>>| {
        let none = std::ptr::null();
        let error = found.as_ref().err().map(text);
        let error = error.as_ref().map_or(none, |error| error.as_ptr());
        let (value, len) = match &found {
            Ok(Some(value)) => (value.as_ptr().cast(), value.len()),
            Ok(None) | Err(_) => (none, 0),
        };
        // SAFETY: the interface requires a function that may be called on any thread; value and text live until
        // it returns.
        unsafe { callback(state.pointer(), value, len, error) }
    }
}

c_functions! {
    /// Reads `key` of a column family, or of the default family for null, without blocking the calling thread, and
    /// calls `callback` once with `state` and the result. Options and key may be destroyed when this function
    /// returns, a snapshot of the options not before the callback.
    ///
    /// A value in memory is passed to the callback before this function returns, unless this function is called by
    /// a callback. Otherwise, the callback runs on a thread of the library, which has up to 64 for callbacks. A
    /// callback may call any function, also those that read, write or close the database. It should not wait for
    /// another callback: once all threads do, none can be called.
    ///
    /// If the database is closed meanwhile, the callback receives the value or an error.
    fn cairn_get_async(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        callback: cairn_get_callback_t,
        state: *mut c_void,
    ) {
        let Some(callback) = callback else {
            misuse("cairn_get_async: the callback is null");
        };
        let call = get_call(callback, State::new(state, None));
        let family = family(db, column_family);
        let key = bytes(key, keylen);
        let options = match of(options).checked() {
            Ok(options) => options,
            Err(error) => return call_back(call, Err(error)),
        };
        match family.get_in_memory(key, options) {
            Ok(None) => {}
            Ok(Some(found)) => return call_back(call, Ok(found)),
            Err(error) => return call_back(call, Err(error)),
        }
        let (family, key, options) = (family.clone(), key.to_vec(), options.clone());
        Task::start(Box::pin(async move { family.get_async(&key, &options).await }), Box::new(call));
    }

    /// Writes a copy of `batch` atomically on another thread, and calls `callback` once with `state` and the
    /// error, or null. Writes with `sync` that wait at the same time share syncs. The rules for the callback are
    /// those of `cairn_get_async`. If the database is closed first, the callback receives an error.
    fn cairn_write_async(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        batch: *const rocksdb_writebatch_t,
        callback: cairn_write_callback_t,
        state: *mut c_void,
    ) {
        let Some(callback) = callback else {
            misuse("cairn_write_async: the callback is null");
        };
        let state = State::new(state, None);
        let call = move |written: Result<()>| {
            let error = written.err().as_ref().map(text);
            let error = error.as_ref().map_or(std::ptr::null(), |error| error.as_ptr());
            // SAFETY: as for reads.
            unsafe { callback(state.pointer(), error) }
        };
        let options = match of(options).checked() {
            Ok(options) => options.clone(),
            Err(error) => return call_back(call, Err(error)),
        };
        let (db, batch) = (of(db.cast_const()).db.clone(), of(batch).clone());
        Task::start(Box::pin(async move { db.write_async(batch, &options).await }), Box::new(call));
    }
}
