//! Custom info loggers.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use cairn_observe::{Level, LogSink};

use super::State;
use crate::error::text;
use crate::handle::{create, of, of_mut};
use crate::options::rocksdb_options_t;

handles! {
    /// The destination of a database's info log; empty for the file LOG.
    rocksdb_logger_t = Option<Arc<dyn LogSink>>;
}

c_destructors! {
    /// Releases the program's reference to a logger.
    rocksdb_logger_destroy(rocksdb_logger_t);
}

/// `void (*)(void*, unsigned level, char* message, size_t length)`.
type Callback = unsafe extern "C" fn(*mut c_void, c_uint, *mut c_char, usize);

/// The level with this number in C; a number out of range means the header level.
fn level(number: c_int) -> Level {
    const LEVELS: [Level; 6] = [
        Level::Debug,
        Level::Info,
        Level::Warn,
        Level::Error,
        Level::Fatal,
        Level::Header,
    ];
    let found = usize::try_from(number).ok().and_then(|at| LEVELS.get(at));
    found.copied().unwrap_or(Level::Header)
}

struct ToProgram {
    state: State,
    callback: Callback,
    level: Level,
}

impl LogSink for ToProgram {
    fn log(&self, level: Level, message: &str) {
        let mut bytes = message.as_bytes().to_vec();
        let len = bytes.len();
        bytes.push(0);
        // SAFETY: the program's function reads the null-terminated message and keeps no pointer to it.
        unsafe {
            (self.callback)(
                self.state.pointer(),
                level as c_uint,
                bytes.as_mut_ptr().cast(),
                len,
            );
        }
    }

    fn level(&self) -> Level {
        self.level
    }
}

struct ToStderr {
    prefix: String,
    level: Level,
}

impl LogSink for ToStderr {
    fn log(&self, _level: Level, message: &str) {
        eprintln!("{} {message}", self.prefix);
    }

    fn level(&self) -> Level {
        self.level
    }
}

c_functions! {
    /// Creates a logger that calls `log` from any thread. The function must not call into the database.
    fn rocksdb_logger_create_callback_logger(
        log_level: c_int,
        callback: Option<unsafe extern "C" fn(*mut c_void, c_uint, *mut c_char, usize)>,
        priv_: *mut c_void,
    ) -> *mut rocksdb_logger_t {
        let sink = callback.map(|callback| {
            Arc::new(ToProgram { state: State::new(priv_, None), callback, level: level(log_level) })
                as Arc<dyn LogSink>
        });
        create(sink)
    }
    /// Creates a logger that writes to stderr.
    fn rocksdb_logger_create_stderr_logger(log_level: c_int, prefix: *const c_char) -> *mut rocksdb_logger_t {
        create(Some(Arc::new(ToStderr { prefix: text(prefix), level: level(log_level) }) as Arc<dyn LogSink>))
    }
    /// Sets the logger. The options share it, and the program still destroys its handle. Null is ignored.
    fn rocksdb_options_set_info_log(opt: *mut rocksdb_options_t, logger: *mut rocksdb_logger_t) {
        if let Some(logger) = crate::handle::maybe(logger.cast_const()) {
            of_mut(opt).db.info_log = logger.clone();
        }
    }
    /// Returns a new handle of the options' logger, to be destroyed by the program.
    fn rocksdb_options_get_info_log(opt: *mut rocksdb_options_t) -> *mut rocksdb_logger_t {
        create(of(opt.cast_const()).db.info_log.clone())
    }
}
