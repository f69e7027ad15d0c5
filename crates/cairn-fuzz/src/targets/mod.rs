//! The fuzz targets, one per file, each with `pub fn run(data: &[u8])`.

pub mod backup_meta;
pub mod blob_file;
pub mod block;
pub mod cache_dump;
pub mod cache_segment;
pub mod compaction_service;
pub mod dated_values;
pub mod db_dir;
pub mod decompress;
pub mod filter;
pub mod flat_table;
pub mod footer_meta_props;
pub mod manifest;
pub mod names;
pub mod options_text;
pub mod prepared_file;
pub mod range_del;
pub mod table_whole;
pub mod trace;
pub mod varint_key;
pub mod wal;
pub mod wide_columns;
pub mod write_batch;
