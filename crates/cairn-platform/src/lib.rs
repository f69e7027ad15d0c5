//! The environment of the engine: files, time, background threads and randomness, as traits with their
//! implementations.
//!
//! No other crate accesses the operating system. The engine receives a [`World`] (RocksDB's `Env`) and uses
//! files, clocks and threads through it only. The simulator provides another implementation, in which the
//! whole engine can run.

pub mod backoff;
mod buffer;
pub mod clock;
pub mod concurrent_task_limiter;
pub mod cores;
pub mod encrypted;
pub mod executor;
pub mod fs;
pub mod io;
pub mod mem;
pub mod rate_limiter;

pub mod posix;
mod prefetch;
pub mod random;
pub mod rate_limited_file;
pub mod read_queue;
pub mod remote;
pub mod sst_file_manager;
pub mod sync;
pub mod thread_pool;
mod timer;
pub mod uri;
pub mod world;
pub mod wrapper;

// Used by the macros of `fs`.
pub use buffer::{Allocation, Buffer, BufferMemory, Entry, EntryNote, PrefetchHint, buffer_memory};
#[doc(hidden)]
pub use cairn_types;
pub use clock::Clock;
pub use concurrent_task_limiter::{ConcurrentTaskLimiter, TaskToken, TaskWaiter};
pub use encrypted::{
    BlockCipher, CipherStream, CtrProvider, EncryptedFileSystem, EncryptionProvider,
};
pub use executor::{Executor, Job, Priority};
pub use fs::{FileSystem, RandomAccessFile, WritableFile};
pub use io::{Io, ReadDriver, ReadRequest};
pub use mem::MemFileSystem;
pub use posix::memory_kind::MemoryKind;
pub use posix::{
    PosixFileSystem, Process, SystemClock, SystemRandom, huge, memory_limit, pages, region,
};
pub use prefetch::prefetch_address;
pub use random::Random;
pub use rate_limited_file::{LimitWatch, LimitedFile, Limits};
pub use rate_limiter::{IoKind, IoPriority, RateLimited, RateLimiter};
pub use remote::{RemoteFileSystem, RemoteSettings};
pub use sst_file_manager::SstFileManager;
pub use world::World;
