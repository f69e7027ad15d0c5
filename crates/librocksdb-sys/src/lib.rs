//! RocksDB's C interface for Rust programs, provided by Cairn.
//!
//! A crate with the name, version and features of the one that `rocksdb` depends on. One line moves a
//! program from RocksDB to Cairn:
//!
//! ```toml
//! [patch.crates-io]
//! librocksdb-sys = { path = "path/to/cairn/crates/librocksdb-sys" }
//! ```

pub use cairn_capi::backup::*;
pub use cairn_capi::batch::*;
pub use cairn_capi::cache::*;
pub use cairn_capi::cairn::caches::*;
pub use cairn_capi::cairn::columns::*;
pub use cairn_capi::cairn::damage::*;
pub use cairn_capi::cairn::errors::*;
pub use cairn_capi::cairn::ingest::*;
pub use cairn_capi::callbacks::compaction_filter::*;
pub use cairn_capi::callbacks::compaction_service::*;
pub use cairn_capi::callbacks::comparator::*;
pub use cairn_capi::callbacks::filter_policy::*;
pub use cairn_capi::callbacks::job_info::*;
pub use cairn_capi::callbacks::listener::*;
pub use cairn_capi::callbacks::logger::*;
pub use cairn_capi::callbacks::merge::*;
pub use cairn_capi::callbacks::tables::*;
pub use cairn_capi::callbacks::transform::*;
pub use cairn_capi::callbacks::*;
pub use cairn_capi::compact_files::*;
pub use cairn_capi::constants::*;
pub use cairn_capi::control::*;
pub use cairn_capi::database::*;
pub use cairn_capi::db::*;
pub use cairn_capi::env::*;
pub use cairn_capi::estimates::*;
pub use cairn_capi::families::*;
pub use cairn_capi::files::*;
pub use cairn_capi::flat_tables::*;
pub use cairn_capi::indexed::*;
pub use cairn_capi::iter::*;
pub use cairn_capi::live_files::*;
pub use cairn_capi::memory::*;
pub use cairn_capi::metadata::*;
pub use cairn_capi::metadata_reads::*;
pub use cairn_capi::optimistic::*;
pub use cairn_capi::options::call_scalars::*;
pub use cairn_capi::options::objects::*;
pub use cairn_capi::options::presets::*;
pub use cairn_capi::options::scalars::*;
pub use cairn_capi::options::table_scalars::*;
pub use cairn_capi::options::*;
pub use cairn_capi::perf::*;
pub use cairn_capi::rate_limiter::*;
pub use cairn_capi::reads::*;
pub use cairn_capi::sst_file_manager::*;
pub use cairn_capi::statistics::*;
pub use cairn_capi::table_properties::*;
pub use cairn_capi::timestamps::*;
pub use cairn_capi::transaction::*;
pub use cairn_capi::transaction_db::*;
pub use cairn_capi::writes::*;
