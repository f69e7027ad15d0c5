//! Safe wrappers of the C functions that comparisons need.
//!
//! [`Library::locate`] finds the library, [`Db::open`] opens a database with an option string. Calls
//! are blocking, and errors have RocksDB's text.

mod api;
mod by_level;
mod cache;
mod db;
mod files;
mod library;
mod session;
mod tuning;

pub use by_level::ByLevel;
pub use cache::{Bare, Cache, Shim};
pub use db::{Batch, Db, Family, Iter, OpenMode, Pinned};
pub use files::SstWriter;
pub use library::{Library, families_of_latest_options, list_families};
pub use tuning::Tuning;

/// RocksDB's error text, or the reason why the library could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// The result of a call into RocksDB.
pub type Result<T> = std::result::Result<T, Error>;
