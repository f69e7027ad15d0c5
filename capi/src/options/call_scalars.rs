//! Single-valued options of operations and of compaction styles.

use std::ffi::{c_int, c_uchar};

use super::{
    rocksdb_compactoptions_t, rocksdb_fifo_compaction_options_t, rocksdb_flushoptions_t,
    rocksdb_readoptions_t, rocksdb_universal_compaction_options_t, rocksdb_writeoptions_t,
};
use crate::handle::{of, of_mut};

c_setters! { rocksdb_readoptions_t:
    rocksdb_readoptions_set_adaptive_readahead(c_uchar) => adaptive_readahead;
    rocksdb_readoptions_set_allow_unprepared_value(c_uchar) => allow_unprepared_value;
    rocksdb_readoptions_set_async_io(c_uchar) => async_io;
    rocksdb_readoptions_set_auto_prefix_mode(c_uchar) => auto_prefix_mode;
    rocksdb_readoptions_set_auto_readahead_size(c_uchar) => auto_readahead_size;
    rocksdb_readoptions_set_auto_refresh_iterator_with_snapshot(c_uchar) => auto_refresh_iterator_with_snapshot;
    rocksdb_readoptions_set_background_purge_on_iterator_cleanup(c_uchar) => background_purge_on_iterator_cleanup;
    rocksdb_readoptions_set_deadline(u64) => deadline;
    rocksdb_readoptions_set_fill_cache(c_uchar) => fill_cache;
    rocksdb_readoptions_set_ignore_range_deletions(c_uchar) => ignore_range_deletions;
    rocksdb_readoptions_set_io_timeout(u64) => io_timeout;
    rocksdb_readoptions_set_max_skippable_internal_keys(u64) => max_skippable_internal_keys;
    rocksdb_readoptions_set_optimize_multiget_for_io(c_uchar) => optimize_multiget_for_io;
    rocksdb_readoptions_set_pin_data(c_uchar) => pin_data;
    rocksdb_readoptions_set_prefix_same_as_start(c_uchar) => prefix_same_as_start;
    rocksdb_readoptions_set_rate_limiter_priority(c_int) => rate_limiter_priority;
    rocksdb_readoptions_set_read_tier(c_int) => read_tier;
    rocksdb_readoptions_set_readahead_size(usize) => readahead_size;
    rocksdb_readoptions_set_tailing(c_uchar) => tailing;
    rocksdb_readoptions_set_total_order_seek(c_uchar) => total_order_seek;
    rocksdb_readoptions_set_value_size_soft_limit(u64) => value_size_soft_limit;
    rocksdb_readoptions_set_verify_checksums(c_uchar) => verify_checksums;
}

c_getters! { rocksdb_readoptions_t:
    rocksdb_readoptions_get_adaptive_readahead(mut) -> c_uchar => adaptive_readahead;
    rocksdb_readoptions_get_allow_unprepared_value(mut) -> c_uchar => allow_unprepared_value;
    rocksdb_readoptions_get_async_io(mut) -> c_uchar => async_io;
    rocksdb_readoptions_get_auto_prefix_mode(mut) -> c_uchar => auto_prefix_mode;
    rocksdb_readoptions_get_auto_readahead_size(mut) -> c_uchar => auto_readahead_size;
    rocksdb_readoptions_get_auto_refresh_iterator_with_snapshot(mut) -> c_uchar => auto_refresh_iterator_with_snapshot;
    rocksdb_readoptions_get_background_purge_on_iterator_cleanup(mut) -> c_uchar => background_purge_on_iterator_cleanup;
    rocksdb_readoptions_get_deadline(mut) -> u64 => deadline;
    rocksdb_readoptions_get_fill_cache(mut) -> c_uchar => fill_cache;
    rocksdb_readoptions_get_ignore_range_deletions(mut) -> c_uchar => ignore_range_deletions;
    rocksdb_readoptions_get_io_timeout(mut) -> u64 => io_timeout;
    rocksdb_readoptions_get_max_skippable_internal_keys(mut) -> u64 => max_skippable_internal_keys;
    rocksdb_readoptions_get_optimize_multiget_for_io(mut) -> c_uchar => optimize_multiget_for_io;
    rocksdb_readoptions_get_pin_data(mut) -> c_uchar => pin_data;
    rocksdb_readoptions_get_prefix_same_as_start(mut) -> c_uchar => prefix_same_as_start;
    rocksdb_readoptions_get_rate_limiter_priority(mut) -> c_int => rate_limiter_priority;
    rocksdb_readoptions_get_read_tier(mut) -> c_int => read_tier;
    rocksdb_readoptions_get_readahead_size(mut) -> usize => readahead_size;
    rocksdb_readoptions_get_tailing(mut) -> c_uchar => tailing;
    rocksdb_readoptions_get_total_order_seek(mut) -> c_uchar => total_order_seek;
    rocksdb_readoptions_get_value_size_soft_limit(mut) -> u64 => value_size_soft_limit;
    rocksdb_readoptions_get_verify_checksums(mut) -> c_uchar => verify_checksums;
}

c_setters! { rocksdb_writeoptions_t:
    rocksdb_writeoptions_disable_WAL(c_int) => disable_wal;
    rocksdb_writeoptions_set_ignore_missing_column_families(c_uchar) => ignore_missing_column_families;
    rocksdb_writeoptions_set_low_pri(c_uchar) => low_pri;
    rocksdb_writeoptions_set_memtable_insert_hint_per_batch(c_uchar) => memtable_insert_hint_per_batch;
    rocksdb_writeoptions_set_no_slowdown(c_uchar) => no_slowdown;
    rocksdb_writeoptions_set_protection_bytes_per_key(usize) => protection_bytes_per_key;
    rocksdb_writeoptions_set_rate_limiter_priority(c_int) => rate_limiter_priority;
    rocksdb_writeoptions_set_sync(c_uchar) => sync;
}

c_getters! { rocksdb_writeoptions_t:
    rocksdb_writeoptions_get_disable_WAL(mut) -> c_uchar => disable_wal;
    rocksdb_writeoptions_get_ignore_missing_column_families(mut) -> c_uchar => ignore_missing_column_families;
    rocksdb_writeoptions_get_low_pri(mut) -> c_uchar => low_pri;
    rocksdb_writeoptions_get_memtable_insert_hint_per_batch(mut) -> c_uchar => memtable_insert_hint_per_batch;
    rocksdb_writeoptions_get_no_slowdown(mut) -> c_uchar => no_slowdown;
    rocksdb_writeoptions_get_protection_bytes_per_key(mut) -> usize => protection_bytes_per_key;
    rocksdb_writeoptions_get_rate_limiter_priority(mut) -> c_int => rate_limiter_priority;
    rocksdb_writeoptions_get_sync(mut) -> c_uchar => sync;
}

c_setters! { rocksdb_flushoptions_t:
    rocksdb_flushoptions_set_allow_write_stall(c_uchar) => allow_write_stall;
    rocksdb_flushoptions_set_force_atomic_flush(c_uchar) => force_atomic_flush;
    rocksdb_flushoptions_set_listener_wait(c_uchar) => listener_wait;
    rocksdb_flushoptions_set_wait(c_uchar) => wait;
}

c_getters! { rocksdb_flushoptions_t:
    rocksdb_flushoptions_get_allow_write_stall(mut) -> c_uchar => allow_write_stall;
    rocksdb_flushoptions_get_force_atomic_flush(mut) -> c_uchar => force_atomic_flush;
    rocksdb_flushoptions_get_listener_wait(mut) -> c_uchar => listener_wait;
    rocksdb_flushoptions_get_wait(mut) -> c_uchar => wait;
}

c_setters! { rocksdb_compactoptions_t:
    rocksdb_compactoptions_set_blob_garbage_collection_age_cutoff(f64) => blob_garbage_collection_age_cutoff;
    rocksdb_compactoptions_set_blob_garbage_collection_policy(c_int) => blob_garbage_collection_policy;
    rocksdb_compactoptions_set_bottommost_level_compaction(c_uchar) => bottommost_level_compaction;
    rocksdb_compactoptions_set_change_level(c_uchar) => change_level;
    rocksdb_compactoptions_set_allow_write_stall(c_uchar) => allow_write_stall;
    rocksdb_compactoptions_set_exclusive_manual_compaction(c_uchar) => exclusive_manual_compaction;
    rocksdb_compactoptions_set_max_subcompactions(c_int) => max_subcompactions;
    rocksdb_compactoptions_set_target_level(c_int) => target_level;
    rocksdb_compactoptions_set_target_path_id(c_int) => target_path_id;
}

c_getters! { rocksdb_compactoptions_t:
    rocksdb_compactoptions_get_allow_write_stall(mut) -> c_uchar => allow_write_stall;
    rocksdb_compactoptions_get_blob_garbage_collection_age_cutoff(mut) -> f64 => blob_garbage_collection_age_cutoff;
    rocksdb_compactoptions_get_blob_garbage_collection_policy(mut) -> c_int => blob_garbage_collection_policy;
    rocksdb_compactoptions_get_bottommost_level_compaction(mut) -> c_uchar => bottommost_level_compaction;
    rocksdb_compactoptions_get_change_level(mut) -> c_uchar => change_level;
    rocksdb_compactoptions_get_exclusive_manual_compaction(mut) -> c_uchar => exclusive_manual_compaction;
    rocksdb_compactoptions_get_max_subcompactions(mut) -> c_int => max_subcompactions;
    rocksdb_compactoptions_get_target_level(mut) -> c_int => target_level;
    rocksdb_compactoptions_get_target_path_id(mut) -> c_int => target_path_id;
}

c_setters! { rocksdb_universal_compaction_options_t:
    rocksdb_universal_compaction_options_set_allow_trivial_move(c_uchar) => allow_trivial_move;
    rocksdb_universal_compaction_options_set_compression_size_percent(c_int) => compression_size_percent;
    rocksdb_universal_compaction_options_set_incremental(c_uchar) => incremental;
    rocksdb_universal_compaction_options_set_max_merge_width(c_int) => max_merge_width;
    rocksdb_universal_compaction_options_set_max_read_amp(c_int) => max_read_amp;
    rocksdb_universal_compaction_options_set_max_size_amplification_percent(c_int) => max_size_amplification_percent;
    rocksdb_universal_compaction_options_set_min_merge_width(c_int) => min_merge_width;
    rocksdb_universal_compaction_options_set_reduce_file_locking(c_uchar) => reduce_file_locking;
    rocksdb_universal_compaction_options_set_size_ratio(c_int) => size_ratio;
    rocksdb_universal_compaction_options_set_stop_style(c_int) => stop_style;
}

c_getters! { rocksdb_universal_compaction_options_t:
    rocksdb_universal_compaction_options_get_allow_trivial_move(mut) -> c_uchar => allow_trivial_move;
    rocksdb_universal_compaction_options_get_compression_size_percent(mut) -> c_int => compression_size_percent;
    rocksdb_universal_compaction_options_get_incremental(mut) -> c_uchar => incremental;
    rocksdb_universal_compaction_options_get_max_merge_width(mut) -> c_int => max_merge_width;
    rocksdb_universal_compaction_options_get_max_read_amp(mut) -> c_int => max_read_amp;
    rocksdb_universal_compaction_options_get_max_size_amplification_percent(mut) -> c_int => max_size_amplification_percent;
    rocksdb_universal_compaction_options_get_min_merge_width(mut) -> c_int => min_merge_width;
    rocksdb_universal_compaction_options_get_reduce_file_locking(mut) -> c_uchar => reduce_file_locking;
    rocksdb_universal_compaction_options_get_size_ratio(mut) -> c_int => size_ratio;
    rocksdb_universal_compaction_options_get_stop_style(mut) -> c_int => stop_style;
}

c_setters! { rocksdb_fifo_compaction_options_t:
    rocksdb_fifo_compaction_options_set_age_for_warm(u64) => age_for_warm;
    rocksdb_fifo_compaction_options_set_allow_compaction(c_uchar) => allow_compaction;
    rocksdb_fifo_compaction_options_set_allow_trivial_copy_when_change_temperature(c_uchar) => allow_trivial_copy_when_change_temperature;
    rocksdb_fifo_compaction_options_set_max_data_files_size(u64) => max_data_files_size;
    rocksdb_fifo_compaction_options_set_max_table_files_size(u64) => max_table_files_size;
    rocksdb_fifo_compaction_options_set_trivial_copy_buffer_size(u64) => trivial_copy_buffer_size;
    rocksdb_fifo_compaction_options_set_use_kv_ratio_compaction(c_uchar) => use_kv_ratio_compaction;
}

c_getters! { rocksdb_fifo_compaction_options_t:
    rocksdb_fifo_compaction_options_get_age_for_warm(mut) -> u64 => age_for_warm;
    rocksdb_fifo_compaction_options_get_allow_compaction(mut) -> c_uchar => allow_compaction;
    rocksdb_fifo_compaction_options_get_allow_trivial_copy_when_change_temperature(mut) -> c_uchar => allow_trivial_copy_when_change_temperature;
    rocksdb_fifo_compaction_options_get_max_data_files_size(mut) -> u64 => max_data_files_size;
    rocksdb_fifo_compaction_options_get_max_table_files_size(mut) -> u64 => max_table_files_size;
    rocksdb_fifo_compaction_options_get_trivial_copy_buffer_size(mut) -> u64 => trivial_copy_buffer_size;
    rocksdb_fifo_compaction_options_get_use_kv_ratio_compaction(mut) -> c_uchar => use_kv_ratio_compaction;
}
