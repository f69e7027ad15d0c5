//! A database from the outside: what was written is read, through flushes, compactions, openings.

mod basic;
mod blobs;
mod buffers;
mod changes;
mod controls;
mod copies;
mod entities;
mod errors;
mod filters;
mod flushes;
mod listeners;
mod logs;
mod memtables;
mod open_files;
mod opening;
mod options;
mod outputs;
mod paths;
mod properties;
mod reads;
mod repair;
mod space;
mod sst;
mod styles;
mod wal;
mod walks;
