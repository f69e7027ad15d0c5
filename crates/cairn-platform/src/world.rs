//! The bundle of everything outside the engine that it touches, and the worlds that this crate offers.

use std::sync::Arc;

use crate::clock::Clock;
use crate::encrypted::{EncryptedFileSystem, EncryptionProvider};
use crate::executor::Executor;
use crate::fs::FileSystem;
use crate::mem::MemFileSystem;
use crate::posix::{PosixFileSystem, SystemClock, SystemRandom};
use crate::random::Random;
use crate::thread_pool::ThreadPool;

/// Everything outside the engine that it touches.
#[derive(Clone)]
pub struct World {
    /// Files.
    pub fs: Arc<dyn FileSystem>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Background threads.
    pub executor: Arc<dyn Executor>,
    /// Randomness.
    pub random: Arc<dyn Random>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    /// The machine: its files, its clocks, the threads that all databases of this process share.
    #[must_use]
    pub fn posix() -> World {
        World {
            fs: Arc::new(PosixFileSystem),
            clock: Arc::new(SystemClock),
            executor: ThreadPool::process_wide(),
            random: Arc::new(SystemRandom::new()),
        }
    }

    /// This world with its files encrypted as `provider` says.
    #[must_use]
    pub fn encrypted(self, provider: Arc<dyn EncryptionProvider>) -> World {
        World {
            fs: Arc::new(EncryptedFileSystem::new(self.fs, provider)),
            ..self
        }
    }

    /// Files in memory, everything else as in [`World::posix`]: for tests, and for databases that end
    /// with the process.
    #[must_use]
    pub fn in_memory() -> World {
        World {
            fs: Arc::new(MemFileSystem::new()),
            ..World::posix()
        }
    }
}
