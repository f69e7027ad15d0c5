//! The environment of the engine, RocksDB's `Env`, and its implementations in this crate.

use std::sync::Arc;

use crate::clock::Clock;
use crate::encrypted::{EncryptedFileSystem, EncryptionProvider};
use crate::executor::Executor;
use crate::fs::FileSystem;
use crate::mem::MemFileSystem;
use crate::posix::{PosixFileSystem, SystemClock, SystemRandom};
use crate::random::Random;
use crate::remote::{RemoteFileSystem, RemoteSettings};
use crate::thread_pool::ThreadPool;

/// Everything that the engine uses of its environment.
#[derive(Clone)]
pub struct World {
    /// The file system.
    pub fs: Arc<dyn FileSystem>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The executor of background work.
    pub executor: Arc<dyn Executor>,
    /// The random number generator.
    pub random: Arc<dyn Random>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    /// The operating system: its files, its clocks, and the thread pool shared by all databases in the
    /// process.
    #[must_use]
    pub fn posix() -> World {
        World {
            fs: Arc::new(PosixFileSystem),
            clock: Arc::new(SystemClock),
            executor: ThreadPool::process_wide(),
            random: Arc::new(SystemRandom::new()),
        }
    }

    /// This environment with files encrypted by `provider`.
    #[must_use]
    pub fn encrypted(self, provider: Arc<dyn EncryptionProvider>) -> World {
        World {
            fs: Arc::new(EncryptedFileSystem::new(self.fs, provider)),
            ..self
        }
    }

    /// This environment with reads delayed as on remote storage.
    #[must_use]
    pub fn remote(self, settings: RemoteSettings) -> World {
        World {
            fs: Arc::new(RemoteFileSystem::new(self.fs, self.clock.clone(), settings)),
            ..self
        }
    }

    /// An in-memory file system, with everything else as in [`World::posix`]: for tests and transient
    /// databases.
    #[must_use]
    pub fn in_memory() -> World {
        World {
            fs: Arc::new(MemFileSystem::new()),
            ..World::posix()
        }
    }
}
