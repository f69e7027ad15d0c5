//! Environments: files, clocks and background threads.

use std::ffi::{c_char, c_int};

use cairn_platform::{Priority, World};

use crate::error::{path, report};
use crate::handle::{create, of};

/// An environment.
pub struct Env {
    /// Files, clock and threads.
    pub world: World,
}

/// Options of files that a program reads or writes itself.
pub struct EnvOptions;

handles! {
    /// Files, clock and threads.
    rocksdb_env_t = Env;
    /// Options of files.
    rocksdb_envoptions_t = EnvOptions;
}

c_destructors! {
    /// Frees an environment. Databases that use it keep it alive.
    rocksdb_env_destroy(rocksdb_env_t);
    /// Frees options of files.
    rocksdb_envoptions_destroy(rocksdb_envoptions_t);
}

fn set_threads(env: &Env, priority: Priority, threads: c_int) {
    let threads = usize::try_from(threads).unwrap_or(0);
    env.world.executor.set_threads(priority, threads);
}

fn threads(env: &Env, priority: Priority) -> c_int {
    c_int::try_from(env.world.executor.threads(priority)).unwrap_or(c_int::MAX)
}

c_functions! {
    /// The machine: its files, its clock, the threads that all databases of the process share.
    fn rocksdb_create_default_env() -> *mut rocksdb_env_t {
        create(Env { world: World::posix() })
    }
    /// A file system in memory of its own.
    fn rocksdb_create_mem_env() -> *mut rocksdb_env_t {
        create(Env { world: World::in_memory() })
    }
    /// Options of files.
    fn rocksdb_envoptions_create() -> *mut rocksdb_envoptions_t {
        create(EnvOptions)
    }
    /// Makes a directory unless it exists.
    fn rocksdb_create_dir_if_missing(env: *mut rocksdb_env_t, path_name: *const c_char, errptr: *mut *mut c_char) {
        report(errptr, || {
            let env = of(env.cast_const());
            env.world.fs.create_dir_all(&path(path_name))
        });
    }

    /// Threads for compactions.
    fn rocksdb_env_set_background_threads(env: *mut rocksdb_env_t, n: c_int) {
        set_threads(of(env.cast_const()), Priority::Low, n);
    }
    /// Threads for compactions.
    fn rocksdb_env_set_low_priority_background_threads(env: *mut rocksdb_env_t, n: c_int) {
        set_threads(of(env.cast_const()), Priority::Low, n);
    }
    /// Threads for flushes.
    fn rocksdb_env_set_high_priority_background_threads(env: *mut rocksdb_env_t, n: c_int) {
        set_threads(of(env.cast_const()), Priority::High, n);
    }
    /// Threads for compactions into the bottom of the tree.
    fn rocksdb_env_set_bottom_priority_background_threads(env: *mut rocksdb_env_t, n: c_int) {
        set_threads(of(env.cast_const()), Priority::Bottom, n);
    }
    /// Threads for compactions.
    fn rocksdb_env_get_background_threads(env: *mut rocksdb_env_t) -> c_int {
        threads(of(env.cast_const()), Priority::Low)
    }
    /// Threads for compactions.
    fn rocksdb_env_get_low_priority_background_threads(env: *mut rocksdb_env_t) -> c_int {
        threads(of(env.cast_const()), Priority::Low)
    }
    /// Threads for flushes.
    fn rocksdb_env_get_high_priority_background_threads(env: *mut rocksdb_env_t) -> c_int {
        threads(of(env.cast_const()), Priority::High)
    }
    /// Threads for compactions into the bottom of the tree.
    fn rocksdb_env_get_bottom_priority_background_threads(env: *mut rocksdb_env_t) -> c_int {
        threads(of(env.cast_const()), Priority::Bottom)
    }
    /// Waits until the background threads have run what is queued and have ended. Later work starts
    /// new ones.
    fn rocksdb_env_join_all_threads(env: *mut rocksdb_env_t) {
        of(env.cast_const()).world.executor.join_all();
    }
    /// Has the device serve compactions after everything else.
    fn rocksdb_env_lower_thread_pool_io_priority(env: *mut rocksdb_env_t) {
        of(env.cast_const()).world.executor.lower_io_priority(Priority::Low);
    }
    /// Has the device serve flushes after everything else.
    fn rocksdb_env_lower_high_priority_thread_pool_io_priority(env: *mut rocksdb_env_t) {
        of(env.cast_const()).world.executor.lower_io_priority(Priority::High);
    }
    /// Has the processor serve compactions after everything else.
    fn rocksdb_env_lower_thread_pool_cpu_priority(env: *mut rocksdb_env_t) {
        of(env.cast_const()).world.executor.lower_cpu_priority(Priority::Low);
    }
    /// Has the processor serve flushes after everything else.
    fn rocksdb_env_lower_high_priority_thread_pool_cpu_priority(env: *mut rocksdb_env_t) {
        of(env.cast_const()).world.executor.lower_cpu_priority(Priority::High);
    }
}
