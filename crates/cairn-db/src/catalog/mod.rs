//! The catalog: the families of a database, their views, and the files behind them.

pub(crate) mod family;
pub(crate) mod file_numbers;
pub(crate) mod obsolete_files;
pub(crate) mod snapshot;
pub(crate) mod sst_file_manager;
