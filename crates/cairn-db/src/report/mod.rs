//! Reports of an open database: properties, tables of statistics, the header of its LOG.
//!
//! | module | owns |
//! |---|---|
//! | `properties`, `table_properties` | properties by name; properties of tables |
//! | `stats`, `stats_text` | the tables of statistics and their number formats |
//! | `family_stats`, `blob_stats` | the numbers in them: jobs of a family by level, and its blob files |
//! | `persisted_stats`, `stats_family` | the history of statistics in a column family |
//! | `header` | the header of the LOG |
//! | `json` | objects and arrays of properties that are JSON |
//!
//! Invariant: names, layouts and units of what RocksDB reports are RocksDB's, because programs parse them.

pub(crate) mod blob_stats;
pub(crate) mod family_stats;
pub(crate) mod header;
pub(crate) mod json;
pub(crate) mod persisted_stats;
pub(crate) mod properties;
pub(crate) mod stats;
pub(crate) mod stats_family;
pub(crate) mod stats_text;
pub(crate) mod table_properties;
