//! The world behind traits: files, time, background threads, randomness.
//!
//! Nothing above this crate touches the operating system. The engine is handed a [`World`] and
//! reaches files, clocks and threads only through it; the simulator hands it another one, and the
//! whole engine runs in that.

pub mod backoff;
mod buffer_pool;
pub mod clock;
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
pub mod sst_file_manager;
pub mod sync;
pub mod thread_pool;
mod timer;
pub mod uri;
pub mod world;
pub mod wrapper;

// For the macros of `fs`.
#[doc(hidden)]
pub use cairn_types;
pub use clock::Clock;
pub use encrypted::{
    BlockCipher, CipherStream, CtrProvider, EncryptedFileSystem, EncryptionProvider,
};
pub use executor::{Executor, Job, Priority};
pub use fs::{FileSystem, RandomAccessFile, WritableFile};
pub use io::{Buffer, Io, ReadRequest};
pub use mem::MemFileSystem;
pub use posix::{PosixFileSystem, Process, SystemClock, SystemRandom, huge, region};
pub use prefetch::prefetch_address;
pub use random::Random;
pub use rate_limited_file::{LimitWatch, LimitedFile, Limits};
pub use rate_limiter::{IoKind, IoPriority, RateLimited, RateLimiter};
pub use sst_file_manager::SstFileManager;
pub use world::World;
