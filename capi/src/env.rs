//! Environments: files, clocks and background threads.

use std::ffi::{c_char, c_int, c_uchar};

use cairn_platform::{Priority, World};

use crate::error::{path, report};
use crate::handle::{create, of, of_mut};
use crate::options::Checked;
use crate::rate_limiter::rocksdb_ratelimiter_t;

/// An environment.
pub struct Env {
    /// The file system, clock and threads.
    pub world: World,
}

/// Options of files that a program writes with a writer of tables.
pub struct EnvOptions {
    /// The option of databases with this name.
    pub bytes_per_sync: u64,
    /// The option `is_fd_close_on_exec` of databases.
    pub set_fd_cloexec: bool,
}

impl Default for EnvOptions {
    fn default() -> EnvOptions {
        EnvOptions {
            bytes_per_sync: 0,
            set_fd_cloexec: true,
        }
    }
}

handles! {
    /// An environment: file system, clock and threads.
    rocksdb_env_t = Env;
    /// Options of files.
    rocksdb_envoptions_t = Checked<EnvOptions>;
}

c_destructors! {
    /// Frees an environment. Databases that use it keep it alive.
    rocksdb_env_destroy(rocksdb_env_t);
    /// Frees options of files.
    rocksdb_envoptions_destroy(rocksdb_envoptions_t);
}

c_setters! { rocksdb_envoptions_t:
    rocksdb_envoptions_set_bytes_per_sync(u64) => bytes_per_sync;
    rocksdb_envoptions_set_fd_cloexec(c_uchar) => set_fd_cloexec;
}

c_getters! { rocksdb_envoptions_t:
    rocksdb_envoptions_get_bytes_per_sync(mut) -> u64 => bytes_per_sync;
    rocksdb_envoptions_get_fd_cloexec(mut) -> c_uchar => set_fd_cloexec;
}

fn set_threads(env: &Env, priority: Priority, threads: c_int) {
    let threads = usize::try_from(threads).unwrap_or(0);
    env.world.executor.set_threads(priority, threads);
}

fn threads(env: &Env, priority: Priority) -> c_int {
    c_int::try_from(env.world.executor.threads(priority)).unwrap_or(c_int::MAX)
}

c_functions! {
    /// Creates the default environment: the system's files and clock, and threads shared by all
    /// databases of the process.
    fn rocksdb_create_default_env() -> *mut rocksdb_env_t {
        create(Env { world: World::posix() })
    }
    /// Creates an environment with an in-memory file system.
    fn rocksdb_create_mem_env() -> *mut rocksdb_env_t {
        create(Env { world: World::in_memory() })
    }
    /// Creates options of files.
    fn rocksdb_envoptions_create() -> *mut rocksdb_envoptions_t {
        create(Checked::new(EnvOptions::default()))
    }
    /// Does nothing: a writer of tables takes no bytes from a rate limiter.
    fn rocksdb_envoptions_set_rate_limiter(opt: *mut rocksdb_envoptions_t, _rate_limiter: *mut rocksdb_ratelimiter_t) {
        let _ = of_mut(opt);
    }
    /// Creates a directory unless it exists.
    fn rocksdb_create_dir_if_missing(env: *mut rocksdb_env_t, path_name: *const c_char, errptr: *mut *mut c_char) {
        report(errptr, || {
            let env = of(env.cast_const());
            env.world.fs.create_dir_all(&path(path_name))
        });
    }

    /// Sets the number of threads for compactions.
    fn rocksdb_env_set_background_threads(env: *mut rocksdb_env_t, n: c_int) {
        set_threads(of(env.cast_const()), Priority::Low, n);
    }
    /// Sets the number of threads for compactions.
    fn rocksdb_env_set_low_priority_background_threads(env: *mut rocksdb_env_t, n: c_int) {
        set_threads(of(env.cast_const()), Priority::Low, n);
    }
    /// Sets the number of threads for flushes.
    fn rocksdb_env_set_high_priority_background_threads(env: *mut rocksdb_env_t, n: c_int) {
        set_threads(of(env.cast_const()), Priority::High, n);
    }
    /// Sets the number of threads for compactions into the bottommost level.
    fn rocksdb_env_set_bottom_priority_background_threads(env: *mut rocksdb_env_t, n: c_int) {
        set_threads(of(env.cast_const()), Priority::Bottom, n);
    }
    /// Returns the number of threads for compactions.
    fn rocksdb_env_get_background_threads(env: *mut rocksdb_env_t) -> c_int {
        threads(of(env.cast_const()), Priority::Low)
    }
    /// Returns the number of threads for compactions.
    fn rocksdb_env_get_low_priority_background_threads(env: *mut rocksdb_env_t) -> c_int {
        threads(of(env.cast_const()), Priority::Low)
    }
    /// Returns the number of threads for flushes.
    fn rocksdb_env_get_high_priority_background_threads(env: *mut rocksdb_env_t) -> c_int {
        threads(of(env.cast_const()), Priority::High)
    }
    /// Returns the number of threads for compactions into the bottommost level.
    fn rocksdb_env_get_bottom_priority_background_threads(env: *mut rocksdb_env_t) -> c_int {
        threads(of(env.cast_const()), Priority::Bottom)
    }
    /// Waits until the background threads have run all queued work and have ended. Later work starts
    /// new threads.
    fn rocksdb_env_join_all_threads(env: *mut rocksdb_env_t) {
        of(env.cast_const()).world.executor.join_all();
    }
    /// Gives compactions the lowest I/O priority.
    fn rocksdb_env_lower_thread_pool_io_priority(env: *mut rocksdb_env_t) {
        of(env.cast_const()).world.executor.lower_io_priority(Priority::Low);
    }
    /// Gives flushes the lowest I/O priority.
    fn rocksdb_env_lower_high_priority_thread_pool_io_priority(env: *mut rocksdb_env_t) {
        of(env.cast_const()).world.executor.lower_io_priority(Priority::High);
    }
    /// Gives compactions the lowest CPU priority.
    fn rocksdb_env_lower_thread_pool_cpu_priority(env: *mut rocksdb_env_t) {
        of(env.cast_const()).world.executor.lower_cpu_priority(Priority::Low);
    }
    /// Gives flushes the lowest CPU priority.
    fn rocksdb_env_lower_high_priority_thread_pool_cpu_priority(env: *mut rocksdb_env_t) {
        of(env.cast_const()).world.executor.lower_cpu_priority(Priority::High);
    }
}
