//! The world that a database lives in: files, time, threads, randomness, each behind a trait.
//!
//! [`World::posix`] is the machine, [`World::in_memory`] keeps files in memory, [`World::encrypted`] encrypts
//! those of another world. A program can bring its own of any of the four: files on other storage, say, or a
//! clock for tests. What an implementor promises stands at the traits; [`wrapper`] has those of files that
//! pass calls on to others. [`DbBuilder::world`](crate::DbBuilder::world) opens a
//! database in a world. [`World::by_uri`] finds a world by a text, such as `mem://`, and [`register`] adds those of
//! a program's own storage.
//!
//! ```
//! use std::sync::Arc;
//! use cairn::world::{FileSystem, MemFileSystem};
//! use cairn::{Db, World};
//!
//! // Two databases that share files in memory, which the program can look at.
//! let files = MemFileSystem::new();
//! let world = World { fs: Arc::new(files.clone()), ..World::posix() };
//! let one = Db::builder("/one").world(world.clone()).create_if_missing(true).open()?;
//! let two = Db::builder("/two").world(world).create_if_missing(true).open()?;
//! assert!(files.list("/one".as_ref())?.contains(&"CURRENT".to_owned()));
//! # one.close()?;
//! # two.close()?;
//! # Ok::<(), cairn::Error>(())
//! ```

pub use cairn_platform::fs::{
    Access, FileLock, FileMode, FileSystem, PathKind, RandomAccessFile, ReadAt, Status,
    WritableFile, read_up_to_end, status_of_each,
};
pub use cairn_platform::uri::register;
pub use cairn_platform::{Clock, Executor, Job, Priority, Random, World};
pub use cairn_platform::{MemFileSystem, PosixFileSystem};
pub use cairn_platform::{derived_reads, no_hints, not_mapped, wrapper};
pub use cairn_types::Veil;
