//! The environment of a database: file system, clock, threads and randomness, each behind a trait.
//!
//! [`World::posix`] is the operating system, [`World::in_memory`] keeps files in memory, and
//! [`World::encrypted`] encrypts the files of another world. A program can provide its own
//! implementation of each trait, such as a file system on other storage or a clock for tests. The
//! traits document their contracts; [`wrapper`] has traits for files that forward most calls to
//! others. [`DbBuilder::world`](crate::DbBuilder::world) opens a database in a world.
//! [`World::by_uri`] looks up a world by URI, such as `mem://`, and [`register`] adds URIs for a
//! program's own storage.
//!
//! ```
//! use std::sync::Arc;
//! use cairn::world::{FileSystem, MemFileSystem};
//! use cairn::{Db, World};
//!
//! // Two databases that share a file system in memory, which the program can inspect.
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
    Access, FileLock, FileMode, FileSystem, PathKind, RandomAccessFile, Status, WritableFile,
    read_up_to_end, status_of_each,
};
pub use cairn_platform::io::{BatchRead, FileReads, ReadDriver, ReadQueue};
pub use cairn_platform::uri::register;
pub use cairn_platform::{Clock, Executor, Job, Priority, Random, World};
pub use cairn_platform::{MemFileSystem, PosixFileSystem, RemoteFileSystem, RemoteSettings};
pub use cairn_platform::{derived_reads, no_hints, not_mapped, wrapper};
pub use cairn_types::Veil;
