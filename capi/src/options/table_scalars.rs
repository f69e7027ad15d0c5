//! Single-valued options of block-based tables.

use std::ffi::{c_char, c_int, c_uchar};

use super::rocksdb_block_based_table_options_t;
use crate::handle::{of, of_mut};

c_setters! { rocksdb_block_based_table_options_t:
    rocksdb_block_based_options_set_block_align(c_uchar) => block_align;
    rocksdb_block_based_options_set_block_restart_interval(c_int) => block_restart_interval;
    rocksdb_block_based_options_set_block_size(usize) => block_size;
    rocksdb_block_based_options_set_block_size_deviation(c_int) => block_size_deviation;
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(c_uchar) => cache_index_and_filter_blocks;
    rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(c_uchar) => cache_index_and_filter_blocks_with_high_priority;
    rocksdb_block_based_options_set_checksum(c_char) => checksum;
    rocksdb_block_based_options_set_data_block_hash_ratio(f64) => data_block_hash_table_util_ratio;
    rocksdb_block_based_options_set_data_block_hash_table_util_ratio(f64) => data_block_hash_table_util_ratio;
    rocksdb_block_based_options_set_data_block_index_type(c_int) => data_block_index_type;
    rocksdb_block_based_options_set_decouple_partitioned_filters(c_uchar) => decouple_partitioned_filters;
    rocksdb_block_based_options_set_detect_filter_construct_corruption(c_uchar) => detect_filter_construct_corruption;
    rocksdb_block_based_options_set_enable_index_compression(c_uchar) => enable_index_compression;
    rocksdb_block_based_options_set_fail_if_no_udi_on_open(c_uchar) => fail_if_no_udi_on_open;
    rocksdb_block_based_options_set_format_version(c_int) => format_version;
    rocksdb_block_based_options_set_index_block_restart_interval(c_int) => index_block_restart_interval;
    rocksdb_block_based_options_set_index_block_search_type(c_int) => index_block_search_type;
    rocksdb_block_based_options_set_index_shortening(c_int) => index_shortening;
    rocksdb_block_based_options_set_index_type(c_int) => index_type;
    rocksdb_block_based_options_set_initial_auto_readahead_size(usize) => initial_auto_readahead_size;
    rocksdb_block_based_options_set_max_auto_readahead_size(usize) => max_auto_readahead_size;
    rocksdb_block_based_options_set_metadata_block_size(u64) => metadata_block_size;
    rocksdb_block_based_options_set_no_block_cache(c_uchar) => no_block_cache;
    rocksdb_block_based_options_set_num_file_reads_for_auto_readahead(u64) => num_file_reads_for_auto_readahead;
    rocksdb_block_based_options_set_optimize_filters_for_memory(c_uchar) => optimize_filters_for_memory;
    rocksdb_block_based_options_set_optimize_key_common_prefix(c_int) => optimize_key_common_prefix;
    rocksdb_block_based_options_set_partition_filters(c_uchar) => partition_filters;
    rocksdb_block_based_options_set_partition_pinning_tier(c_int) => metadata_cache_options.partition_pinning;
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(c_uchar) => pin_l0_filter_and_index_blocks_in_cache;
    rocksdb_block_based_options_set_pin_top_level_index_and_filter(c_uchar) => pin_top_level_index_and_filter;
    rocksdb_block_based_options_set_prepopulate_block_cache(c_int) => prepopulate_block_cache;
    rocksdb_block_based_options_set_read_amp_bytes_per_bit(u32) => read_amp_bytes_per_bit;
    rocksdb_block_based_options_set_separate_key_value_in_data_block(c_uchar) => separate_key_value_in_data_block;
    rocksdb_block_based_options_set_super_block_alignment_size(usize) => super_block_alignment_size;
    rocksdb_block_based_options_set_super_block_alignment_space_overhead_ratio(usize) => super_block_alignment_space_overhead_ratio;
    rocksdb_block_based_options_set_top_level_index_pinning_tier(c_int) => metadata_cache_options.top_level_index_pinning;
    rocksdb_block_based_options_set_uniform_cv_threshold(f64) => uniform_cv_threshold;
    rocksdb_block_based_options_set_unpartitioned_pinning_tier(c_int) => metadata_cache_options.unpartitioned_pinning;
    rocksdb_block_based_options_set_use_delta_encoding(c_uchar) => use_delta_encoding;
    rocksdb_block_based_options_set_use_udi_as_primary_index(c_uchar) => use_udi_as_primary_index;
    rocksdb_block_based_options_set_verify_compression(c_uchar) => verify_compression;
    rocksdb_block_based_options_set_whole_key_filtering(c_uchar) => whole_key_filtering;
}

c_getters! { rocksdb_block_based_table_options_t:
    rocksdb_block_based_options_get_block_align(mut) -> c_uchar => block_align;
    rocksdb_block_based_options_get_block_restart_interval(mut) -> c_int => block_restart_interval;
    rocksdb_block_based_options_get_block_size(mut) -> u64 => block_size;
    rocksdb_block_based_options_get_block_size_deviation(mut) -> c_int => block_size_deviation;
    rocksdb_block_based_options_get_cache_index_and_filter_blocks(mut) -> c_uchar => cache_index_and_filter_blocks;
    rocksdb_block_based_options_get_cache_index_and_filter_blocks_with_high_priority(mut) -> c_uchar => cache_index_and_filter_blocks_with_high_priority;
    rocksdb_block_based_options_get_checksum(mut) -> c_int => checksum;
    rocksdb_block_based_options_get_data_block_hash_table_util_ratio(mut) -> f64 => data_block_hash_table_util_ratio;
    rocksdb_block_based_options_get_data_block_index_type(mut) -> c_int => data_block_index_type;
    rocksdb_block_based_options_get_decouple_partitioned_filters(mut) -> c_uchar => decouple_partitioned_filters;
    rocksdb_block_based_options_get_detect_filter_construct_corruption(mut) -> c_uchar => detect_filter_construct_corruption;
    rocksdb_block_based_options_get_enable_index_compression(mut) -> c_uchar => enable_index_compression;
    rocksdb_block_based_options_get_fail_if_no_udi_on_open(mut) -> c_uchar => fail_if_no_udi_on_open;
    rocksdb_block_based_options_get_format_version(mut) -> u32 => format_version;
    rocksdb_block_based_options_get_index_block_restart_interval(mut) -> c_int => index_block_restart_interval;
    rocksdb_block_based_options_get_index_block_search_type(mut) -> c_int => index_block_search_type;
    rocksdb_block_based_options_get_index_shortening(mut) -> c_int => index_shortening;
    rocksdb_block_based_options_get_index_type(mut) -> c_int => index_type;
    rocksdb_block_based_options_get_initial_auto_readahead_size(mut) -> usize => initial_auto_readahead_size;
    rocksdb_block_based_options_get_max_auto_readahead_size(mut) -> usize => max_auto_readahead_size;
    rocksdb_block_based_options_get_metadata_block_size(mut) -> u64 => metadata_block_size;
    rocksdb_block_based_options_get_no_block_cache(mut) -> c_uchar => no_block_cache;
    rocksdb_block_based_options_get_num_file_reads_for_auto_readahead(mut) -> u64 => num_file_reads_for_auto_readahead;
    rocksdb_block_based_options_get_optimize_filters_for_memory(mut) -> c_uchar => optimize_filters_for_memory;
    rocksdb_block_based_options_get_optimize_key_common_prefix(mut) -> c_int => optimize_key_common_prefix;
    rocksdb_block_based_options_get_partition_filters(mut) -> c_uchar => partition_filters;
    rocksdb_block_based_options_get_pin_l0_filter_and_index_blocks_in_cache(mut) -> c_uchar => pin_l0_filter_and_index_blocks_in_cache;
    rocksdb_block_based_options_get_pin_top_level_index_and_filter(mut) -> c_uchar => pin_top_level_index_and_filter;
    rocksdb_block_based_options_get_prepopulate_block_cache(mut) -> c_int => prepopulate_block_cache;
    rocksdb_block_based_options_get_read_amp_bytes_per_bit(mut) -> u32 => read_amp_bytes_per_bit;
    rocksdb_block_based_options_get_separate_key_value_in_data_block(mut) -> c_uchar => separate_key_value_in_data_block;
    rocksdb_block_based_options_get_super_block_alignment_size(mut) -> usize => super_block_alignment_size;
    rocksdb_block_based_options_get_super_block_alignment_space_overhead_ratio(mut) -> usize => super_block_alignment_space_overhead_ratio;
    rocksdb_block_based_options_get_uniform_cv_threshold(mut) -> f64 => uniform_cv_threshold;
    rocksdb_block_based_options_get_use_delta_encoding(mut) -> c_uchar => use_delta_encoding;
    rocksdb_block_based_options_get_use_udi_as_primary_index(mut) -> c_uchar => use_udi_as_primary_index;
    rocksdb_block_based_options_get_verify_compression(mut) -> c_uchar => verify_compression;
    rocksdb_block_based_options_get_whole_key_filtering(mut) -> c_uchar => whole_key_filtering;
}
