/* Options: what is set is what is got, texts, presets, files, values that do not exist. */
#include "check.h"

int main(int argc, char** argv) {
  CHECK(argc == 2);
  char* err = NULL;
  char* path = below(argv[1], "db");
  rocksdb_options_t* o = rocksdb_options_create();
  CHECK(rocksdb_options_get_write_buffer_size(o) == (64 << 20));
  CHECK(rocksdb_options_get_max_open_files(o) == -1);
  CHECK(rocksdb_options_get_bottommost_compression(o) == 255);
  rocksdb_options_set_write_buffer_size(o, 1 << 20);
  rocksdb_options_set_compression(o, rocksdb_zstd_compression);
  rocksdb_options_set_compaction_pri(o, rocksdb_k_round_robin_compaction_pri);
  rocksdb_options_set_wal_recovery_mode(o, rocksdb_absolute_consistency_recovery);
  rocksdb_options_set_max_bytes_for_level_multiplier(o, 8.5);
  CHECK(rocksdb_options_get_write_buffer_size(o) == (1 << 20));
  CHECK(rocksdb_options_get_compression(o) == rocksdb_zstd_compression);
  CHECK(rocksdb_options_get_compaction_pri(o) == rocksdb_k_round_robin_compaction_pri);
  CHECK(rocksdb_options_get_wal_recovery_mode(o) == rocksdb_absolute_consistency_recovery);
  CHECK(rocksdb_options_get_max_bytes_for_level_multiplier(o) == 8.5);
  rocksdb_options_t* copy = rocksdb_options_create_copy(o);
  rocksdb_options_set_write_buffer_size(o, 2 << 20);
  CHECK(rocksdb_options_get_write_buffer_size(copy) == (1 << 20));

  rocksdb_get_options_from_string(
      o, "max_open_files=77;write_buffer_size=3M;block_based_table_factory={filter_policy=bloomfilter:10:false}",
      copy, &err);
  CHECK_OK(err);
  CHECK(rocksdb_options_get_write_buffer_size(copy) == (3 << 20));
  CHECK(rocksdb_options_get_compression(copy) == rocksdb_zstd_compression);
  rocksdb_get_options_from_string(o, "no_such_option=1", copy, &err);
  CHECK_ERROR(err, "Invalid argument: ");

  rocksdb_block_based_table_options_t* t = rocksdb_block_based_options_create();
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(8 << 20);
  rocksdb_block_based_options_set_block_cache(t, cache);
  rocksdb_block_based_options_set_filter_policy(t, rocksdb_filterpolicy_create_ribbon_hybrid(10, 1));
  rocksdb_block_based_options_set_block_size(t, 8192);
  rocksdb_options_set_block_based_table_factory(o, t);
  rocksdb_block_based_options_destroy(t);
  CHECK(rocksdb_cache_get_capacity(cache) == (8 << 20));
  rocksdb_cache_destroy(cache);

  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_compression(o, 99);
  CHECK(rocksdb_open(o, path, &err) == NULL);
#ifdef NOT_CAIRN
  CHECK_ERROR(err, "Invalid argument: ");
#else
  CHECK_ERROR(err, "Invalid argument: rocksdb_options_set_compression(99)");
#endif
  /* A value that does not exist is what is got, until another value is set. */
  CHECK(rocksdb_options_get_compression(o) == 99);
  rocksdb_options_set_compression(o, rocksdb_lz4_compression);
  CHECK(rocksdb_options_get_compression(o) == rocksdb_lz4_compression);
  rocksdb_t* corrected = rocksdb_open(o, path, &err);
  CHECK_OK(err);
  rocksdb_close(corrected);
  rocksdb_options_destroy(o);

  o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_optimize_for_point_lookup(o, 8);
  rocksdb_options_increase_parallelism(o, 4);
  rocksdb_ratelimiter_destroy(rocksdb_ratelimiter_create(1 << 20, 100000, 10));
#ifndef NOT_CAIRN
  /* RocksDB divides by zero. */
  rocksdb_ratelimiter_destroy(rocksdb_ratelimiter_create_auto_tuned(0, -1, 0));
#endif
  rocksdb_ratelimiter_t* limiter = rocksdb_ratelimiter_create_with_mode(64 << 20, 1000, 10, 2, true);
  rocksdb_options_set_ratelimiter(o, limiter);
  rocksdb_ratelimiter_destroy(limiter);
  CHECK(rocksdb_options_get_max_background_jobs(o) == 4);
  rocksdb_t* db = rocksdb_open(o, path, &err);
  CHECK_OK(err);
  const char* names[] = {"write_buffer_size", "disable_auto_compactions"};
  const char* values[] = {"131072", "true"};
  rocksdb_set_options(db, 2, names, values, &err);
  CHECK_OK(err);
  const char* fixed[] = {"num_levels"};
  const char* three[] = {"3"};
  rocksdb_set_options(db, 1, fixed, three, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_close(db);

#ifndef HEADER_7
  /* Statistics: none, then those of the options, by RocksDB's numbers. */
  rocksdb_options_t* counted = rocksdb_options_create();
  rocksdb_statistics_histogram_data_t* data = rocksdb_statistics_histogram_data_create();
  CHECK(rocksdb_options_statistics_get_string(counted) == NULL);
  CHECK(rocksdb_options_statistics_get_ticker_count(counted, 1) == 0);
  CHECK(rocksdb_options_get_statistics_level(counted) == rocksdb_statistics_level_disable_all);
  rocksdb_options_set_create_if_missing(counted, 1);
  rocksdb_options_enable_statistics(counted);
  CHECK(rocksdb_options_get_statistics_level(counted) == rocksdb_statistics_level_except_detailed_timers);
  rocksdb_options_set_statistics_level(counted, 77);
  CHECK(rocksdb_options_get_statistics_level(counted) == rocksdb_statistics_level_all);
  char* counted_path = below(path, "counted");
  db = rocksdb_open(counted, counted_path, &err);
  CHECK_OK(err);
  rocksdb_writeoptions_t* counted_write = rocksdb_writeoptions_create();
  for (int at = 0; at < 10; at++) {
    rocksdb_put(db, counted_write, "key", 3, "value", 5, &err);
    CHECK_OK(err);
  }
  /* A batch of one record: 12 bytes, the kind, and key and value with their lengths. */
  char* counted_text = rocksdb_options_statistics_get_string(counted);
  CHECK(strstr(counted_text, "rocksdb.number.keys.written COUNT : 10\n") != NULL);
  CHECK(strstr(counted_text, "rocksdb.bytes.per.write P50 : 23.000000 ") != NULL);
  rocksdb_free(counted_text);
  /* rocksdb.db.write.micros. */
  rocksdb_options_statistics_get_histogram_data(counted, 1, data);
  CHECK(rocksdb_statistics_histogram_data_get_count(data) == 10);
  CHECK(rocksdb_statistics_histogram_data_get_p99(data) >= rocksdb_statistics_histogram_data_get_median(data));
  CHECK(rocksdb_statistics_histogram_data_get_max(data) >= rocksdb_statistics_histogram_data_get_min(data));
  /* Counters of this thread, which count what its reads did. */
  rocksdb_set_perf_level(rocksdb_enable_count);
  rocksdb_perfcontext_t* perf = rocksdb_perfcontext_create();
  rocksdb_perfcontext_reset(perf);
  rocksdb_readoptions_t* counted_read = rocksdb_readoptions_create();
#ifndef NOT_CAIRN
  CHECK(rocksdb_readoptions_has_merge_operand_count_threshold(counted_read) == 0);
  CHECK(rocksdb_readoptions_get_merge_operand_count_threshold(counted_read) == 0);
  rocksdb_readoptions_set_merge_operand_count_threshold(counted_read, 0);
  CHECK(rocksdb_readoptions_has_merge_operand_count_threshold(counted_read) == 1);
  rocksdb_readoptions_set_merge_operand_count_threshold(counted_read, 456);
  CHECK(rocksdb_readoptions_get_merge_operand_count_threshold(counted_read) == 456);
  rocksdb_readoptions_clear_merge_operand_count_threshold(counted_read);
  CHECK(rocksdb_readoptions_has_merge_operand_count_threshold(counted_read) == 0);
  rocksdb_readoptions_set_merge_operand_count_threshold(counted_read, 1);
#endif
  size_t counted_len = 0;
  rocksdb_free(rocksdb_get(db, counted_read, "key", 3, &counted_len, &err));
  CHECK_OK(err);
  rocksdb_iterator_t* counted_iter = rocksdb_create_iterator(db, counted_read);
  rocksdb_iter_seek_to_first(counted_iter);
  CHECK(rocksdb_iter_valid(counted_iter));
  rocksdb_iter_destroy(counted_iter);
  CHECK(rocksdb_perfcontext_metric(perf, rocksdb_get_read_bytes) == 5);
  CHECK(rocksdb_perfcontext_metric(perf, rocksdb_get_from_memtable_count) == 1);
  CHECK(rocksdb_perfcontext_metric(perf, rocksdb_iter_read_bytes) == 8);
  CHECK(rocksdb_perfcontext_metric(perf, 1000) == 0);
  char* counters = rocksdb_perfcontext_report(perf, 1);
  CHECK(strstr(counters, "get_read_bytes = 5") != NULL && strstr(counters, "blob_read_count") == NULL);
  rocksdb_free(counters);
  rocksdb_set_perf_level(rocksdb_disable);
  rocksdb_perfcontext_reset(perf);
  rocksdb_free(rocksdb_get(db, counted_read, "key", 3, &counted_len, &err));
  CHECK_OK(err);
  CHECK(rocksdb_perfcontext_metric(perf, rocksdb_get_read_bytes) == 0);
  rocksdb_perfcontext_destroy(perf);
  rocksdb_readoptions_destroy(counted_read);
  rocksdb_close(db);
  rocksdb_writeoptions_destroy(counted_write);
  rocksdb_statistics_histogram_data_destroy(data);
  rocksdb_options_destroy(counted);
  free(counted_path);
#endif

  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_env_set_background_threads(env, 3);
  CHECK(rocksdb_env_get_background_threads(env) == 3);
  rocksdb_env_set_background_threads(env, 2);
  CHECK(rocksdb_env_get_background_threads(env) == 2);
  rocksdb_env_lower_thread_pool_io_priority(env);
  rocksdb_env_lower_thread_pool_cpu_priority(env);
  rocksdb_options_t* db_options = NULL;
  rocksdb_options_t** family_options = NULL;
  char** family_names = NULL;
  size_t count = 0;
  rocksdb_cache_t* loaded_cache = rocksdb_cache_create_lru(1 << 20);
  rocksdb_load_latest_options(path, env, false, loaded_cache, &db_options, &count, &family_names,
                              &family_options, &err);
  CHECK_OK(err);
  CHECK(count == 1 && strcmp(family_names[0], "default") == 0);
  CHECK(rocksdb_options_get_write_buffer_size(family_options[0]) == 131072);
  CHECK(rocksdb_options_get_disable_auto_compactions(family_options[0]) == 1);
  rocksdb_load_latest_options_destroy(db_options, family_names, family_options, count);
  rocksdb_cache_destroy(loaded_cache);
  rocksdb_env_destroy(env);
  rocksdb_options_destroy(copy);
  rocksdb_options_destroy(o);
  free(path);
  end_threads();
  return 0;
}
