/* Options: what is set is what is got, texts, presets, files, values that do not exist. */
#include <unistd.h>

#include "check.h"

/* The usage of the block cache of a database in bytes. */
static unsigned long long cached(rocksdb_t* db) {
  char* text = rocksdb_property_value(db, "rocksdb.block-cache-usage");
  CHECK(text != NULL);
  unsigned long long bytes = strtoull(text, NULL, 10);
  rocksdb_free(text);
  return bytes;
}

static rocksdb_options_t* creating(void) {
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  return o;
}

/* Databases that are opened with one options object, or with a copy of it, share a block cache if no other is set. A
   table factory has a new one. */
static void check_default_caches(const char* dir) {
  static const char* const NAMES[] = {"one", "two", "copied", "other", "changed"};
  char* err = NULL;
  rocksdb_options_t* o = creating();
  rocksdb_options_t* copy = rocksdb_options_create_copy(o);
  rocksdb_options_t* other = creating();
  rocksdb_options_t* changed = rocksdb_options_create_copy(o);
  rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create();
  rocksdb_options_set_block_based_table_factory(changed, table);
  rocksdb_block_based_options_destroy(table);
  rocksdb_options_t* options[] = {o, o, copy, other, changed};
  rocksdb_t* dbs[5];
  for (int at = 0; at < 5; at++) {
    char* path = below(dir, NAMES[at]);
    dbs[at] = rocksdb_open(options[at], path, &err);
    CHECK_OK(err);
    free(path);
  }
  unsigned long long before = cached(dbs[3]);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  static char value[100000];
  rocksdb_put(dbs[0], w, "k", 1, value, sizeof value, &err);
  CHECK_OK(err);
  flush(dbs[0]);
  size_t len = 0;
  rocksdb_free(rocksdb_get(dbs[0], r, "k", 1, &len, &err));
  CHECK_OK(err);
  CHECK(len == sizeof value);
  CHECK(cached(dbs[0]) >= before + sizeof value);
  CHECK(cached(dbs[1]) == cached(dbs[0]) && cached(dbs[2]) == cached(dbs[0]));
  CHECK(cached(dbs[3]) == before && cached(dbs[4]) == before);
  rocksdb_options_destroy(o);
  rocksdb_close(dbs[0]);
  CHECK(cached(dbs[1]) == cached(dbs[2]));
  for (int at = 1; at < 5; at++) {
    rocksdb_close(dbs[at]);
  }
  rocksdb_options_destroy(copy);
  rocksdb_options_destroy(other);
  rocksdb_options_destroy(changed);
  rocksdb_writeoptions_destroy(w);
  rocksdb_readoptions_destroy(r);
}

/* A database is opened with families of which one is the default family. */
static void check_default_family(const char* dir) {
  char* err = NULL;
  char* path = below(dir, "families");
  rocksdb_options_t* o = creating();
  rocksdb_options_set_create_missing_column_families(o, 1);
  const char* names[] = {"default", "stones"};
  const rocksdb_options_t* options[] = {o, o};
  rocksdb_column_family_handle_t* handles[2];
  rocksdb_t* db = rocksdb_open_column_families(o, path, 2, names, options, handles, &err);
  CHECK_OK(err);
  rocksdb_column_family_handle_destroy(handles[0]);
  rocksdb_column_family_handle_destroy(handles[1]);
  rocksdb_close(db);
  const char* refused = "Invalid argument: Default column family not specified";
  int ttls[] = {0};
  CHECK(rocksdb_open_column_families(o, path, 1, names + 1, options, handles, &err) == NULL);
  CHECK_ERROR(err, refused);
  CHECK(rocksdb_open_column_families(o, path, 0, names, options, handles, &err) == NULL);
  CHECK_ERROR(err, refused);
  CHECK(rocksdb_open_column_families_with_ttl(o, path, 1, names + 1, options, handles, ttls, &err) == NULL);
  CHECK_ERROR(err, refused);
  CHECK(rocksdb_open_for_read_only_column_families(o, path, 1, names + 1, options, handles, 0, &err) == NULL);
  CHECK_ERROR(err, refused);
  rocksdb_transactiondb_options_t* to = rocksdb_transactiondb_options_create();
  CHECK(rocksdb_transactiondb_open_column_families(o, to, path, 1, names + 1, options, handles, &err) == NULL);
  CHECK_ERROR(err, refused);
  rocksdb_transactiondb_options_destroy(to);
  CHECK(rocksdb_optimistictransactiondb_open_column_families(o, path, 1, names + 1, options, handles, &err) == NULL);
  CHECK_ERROR(err, refused);
  rocksdb_options_destroy(o);
  free(path);
}

/* A database opens with these options, which are then freed. */
static void opens(rocksdb_options_t* o, const char* dir, const char* name) {
  char* err = NULL;
  char* path = below(dir, name);
  rocksdb_t* db = rocksdb_open(o, path, &err);
  CHECK_OK(err);
  rocksdb_close(db);
  rocksdb_options_destroy(o);
  free(path);
}

/* Presets and texts replace values that do not exist. */
static void check_replaced_values(const char* dir) {
  char* err = NULL;
  rocksdb_block_based_table_options_t* t = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_index_type(t, 77);
  rocksdb_options_t* o = creating();
  rocksdb_options_set_block_based_table_factory(o, t);
  rocksdb_options_t* from_text = rocksdb_options_create();
  rocksdb_get_options_from_string(o, "block_based_table_factory={index_type=kBinarySearch}", from_text, &err);
  CHECK_OK(err);
  opens(from_text, dir, "table-text");
  rocksdb_options_optimize_for_point_lookup(o, 8);
  opens(o, dir, "point-lookup");
  rocksdb_block_based_options_destroy(t);

  o = creating();
  rocksdb_options_set_compaction_style(o, 77);
  rocksdb_options_optimize_level_style_compaction(o, 64 << 20);
  CHECK(rocksdb_options_get_compaction_style(o) == rocksdb_level_compaction);
  opens(o, dir, "level-style");
  o = creating();
  rocksdb_options_set_compaction_style(o, 77);
  rocksdb_options_optimize_universal_style_compaction(o, 64 << 20);
  CHECK(rocksdb_options_get_compaction_style(o) == rocksdb_universal_compaction);
  opens(o, dir, "universal-style");

  const int kinds[] = {rocksdb_no_compression, 99};
  o = creating();
  rocksdb_options_set_compression_per_level(o, kinds, 2);
  rocksdb_options_optimize_level_style_compaction(o, 64 << 20);
  opens(o, dir, "compression-level-style");
  o = creating();
  rocksdb_options_set_compression_per_level(o, kinds, 2);
  rocksdb_options_set_min_level_to_compress(o, -1);
  char* path = below(dir, "compression-from");
  CHECK(rocksdb_open(o, path, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  free(path);
  rocksdb_options_set_min_level_to_compress(o, 2);
  opens(o, dir, "compression-from");

  o = creating();
  rocksdb_options_set_wal_recovery_mode(o, 77);
  from_text = rocksdb_options_create();
  rocksdb_get_options_from_string(o, "max_open_files=-1;wal_recovery_mode=kPointInTimeRecovery", from_text, &err);
  CHECK_OK(err);
  CHECK(rocksdb_options_get_wal_recovery_mode(from_text) == rocksdb_point_in_time_recovery);
  rocksdb_options_destroy(o);
  opens(from_text, dir, "recovery-text");
}

#ifndef NOT_CAIRN
/* RocksDB takes any number. */

/* A database does not open with these options, because a setter was given a value that does not exist. */
static void fails(rocksdb_options_t* o, const char* dir, const char* setter) {
  char* err = NULL;
  char* path = below(dir, "refused");
  CHECK(rocksdb_open(o, path, &err) == NULL);
  CHECK_ERROR(err, setter);
  free(path);
}

/* A text replaces the values of a struct that it names; the others still do not exist. */
static void check_replaced_members(const char* dir) {
  char* err = NULL;
  rocksdb_block_based_table_options_t* t = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_index_type(t, 77);
  rocksdb_options_t* o = creating();
  rocksdb_options_set_block_based_table_factory(o, t);
  rocksdb_block_based_options_destroy(t);
  rocksdb_options_t* from_text = rocksdb_options_create();
  const char* const kept[] = {
      "block_based_table_factory={block_size=4096}", "block_based_table_factory.block_size=4096",
      "table_factory.block_size=4096", "table_factory=BlockBasedTable"};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    rocksdb_get_options_from_string(o, kept[i], from_text, &err);
    CHECK_OK(err);
    fails(from_text, dir, "Invalid argument: rocksdb_block_based_options_set_index_type(77): no such value");
  }
  const char* const replaced[] = {
      "block_based_table_factory={block_size=4096;index_type=kBinarySearch}",
      "block_based_table_factory.index_type=kBinarySearch", "table_factory.index_type=kBinarySearch",
      "table_factory={id=BlockBasedTable;block_size=4096}"};
  for (size_t i = 0; i < sizeof replaced / sizeof *replaced; i++) {
    rocksdb_get_options_from_string(o, replaced[i], from_text, &err);
    CHECK_OK(err);
    opens(rocksdb_options_create_copy(from_text), dir, "members");
  }

  rocksdb_universal_compaction_options_t* universal = rocksdb_universal_compaction_options_create();
  rocksdb_universal_compaction_options_set_stop_style(universal, 77);
  rocksdb_options_set_universal_compaction_options(o, universal);
  rocksdb_universal_compaction_options_destroy(universal);
  const char* text = "table_factory={id=BlockBasedTable};compaction_options_universal={size_ratio=2}";
  rocksdb_get_options_from_string(o, text, from_text, &err);
  CHECK_OK(err);
  fails(from_text, dir, "Invalid argument: rocksdb_universal_compaction_options_set_stop_style(77): no such value");
  rocksdb_options_destroy(o);
  text = "compaction_options_universal={stop_style=kCompactionStopStyleSimilarSize}";
  rocksdb_get_options_from_string(from_text, text, from_text, &err);
  CHECK_OK(err);
  opens(from_text, dir, "universal-member");
}
#endif

/* A preset of block-based tables replaces tables of another kind. */
static void check_replaced_tables(const char* dir) {
  char* err = NULL;
  char* path = below(dir, "cuckoo");
  rocksdb_options_t* o = creating();
  rocksdb_cuckoo_table_options_t* cuckoo = rocksdb_cuckoo_options_create();
  rocksdb_options_set_cuckoo_table_factory(o, cuckoo);
  rocksdb_cuckoo_options_destroy(cuckoo);
  rocksdb_options_optimize_for_point_lookup(o, 8);
  rocksdb_t* db = rocksdb_open(o, path, &err);
  CHECK_OK(err);
  put(db, "a", "1");
  flush(db);
  unsigned long long before = cached(db);
  rocksdb_readoptions_t* read = rocksdb_readoptions_create();
  CHECK_GET(db, read, "a", "1");
  CHECK(cached(db) > before);
  rocksdb_readoptions_destroy(read);
  rocksdb_close(db);
  rocksdb_options_destroy(o);
  free(path);
}

static int lines = 0;

static void count_line(void* state, unsigned level, char* line, size_t len) {
  (void)state, (void)level, (void)line, (void)len;
  lines++;
}

/* Setters that ignore null in RocksDB ignore it here. */
static void check_ignored_nulls(const char* dir) {
  char* err = NULL;
  char* path = below(dir, "nulls");
  rocksdb_options_t* o = creating();
  rocksdb_cache_t* blocks = rocksdb_cache_create_lru(8 << 20);
  rocksdb_cache_t* rows = rocksdb_cache_create_lru(8 << 20);
  rocksdb_block_based_table_options_t* t = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_cache(t, blocks);
  rocksdb_block_based_options_set_block_cache(t, NULL);
  rocksdb_options_set_block_based_table_factory(o, t);
  rocksdb_block_based_options_destroy(t);
  rocksdb_options_set_row_cache(o, rows);
  rocksdb_options_set_row_cache(o, NULL);
  rocksdb_logger_t* logger = rocksdb_logger_create_callback_logger(1, count_line, NULL);
  rocksdb_options_set_info_log(o, logger);
  rocksdb_options_set_info_log(o, NULL);
  rocksdb_logger_destroy(logger);
  rocksdb_sst_partitioner_factory_t* parts = rocksdb_sst_partitioner_fixed_prefix_factory_create(1);
  rocksdb_options_set_sst_partitioner_factory(o, parts);
  rocksdb_options_set_sst_partitioner_factory(o, NULL);
  rocksdb_sst_partitioner_factory_destroy(parts);
  rocksdb_ratelimiter_t* limiter = rocksdb_ratelimiter_create(64 << 20, 100000, 10);
  rocksdb_options_set_ratelimiter(o, limiter);
  rocksdb_options_set_ratelimiter(o, NULL);
  rocksdb_ratelimiter_destroy(limiter);
  rocksdb_options_add_table_properties_collector_factory(o, NULL);
  rocksdb_t* db = rocksdb_open(o, path, &err);
  CHECK_OK(err);
  CHECK(lines > 0);
  for (int round = 0; round < 2; round++) {
    put(db, "a", "1");
    put(db, "b", "2");
    flush(db);
  }
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  CHECK(rocksdb_livefiles_count(files) == 2);
  rocksdb_livefiles_destroy(files);
  size_t no_blocks = rocksdb_cache_get_usage(blocks), no_rows = rocksdb_cache_get_usage(rows);
  rocksdb_readoptions_t* read = rocksdb_readoptions_create();
  CHECK_GET(db, read, "a", "1");
  CHECK(rocksdb_cache_get_usage(blocks) > no_blocks && rocksdb_cache_get_usage(rows) > no_rows);
  rocksdb_readoptions_destroy(read);
  rocksdb_close(db);
  rocksdb_options_destroy(o);
  rocksdb_cache_destroy(blocks);
  rocksdb_cache_destroy(rows);
  free(path);
}

/* The description of a file has the level and the name that the program sets. */
static void check_described_files(void) {
  rocksdb_livefiles_t* files = rocksdb_livefiles_create();
  for (int level = -1; level < 2; level++) {
    rocksdb_livefile_t* file = rocksdb_livefile_create();
    rocksdb_livefile_set_level(file, level);
    rocksdb_livefile_set_name(file, level < 0 ? "000007.sst" : "/000007.sst");
    rocksdb_livefiles_add(files, file);
  }
  for (int at = 0; at < 3; at++) {
    CHECK(rocksdb_livefiles_level(files, at) == at - 1);
    CHECK(strcmp(rocksdb_livefiles_name(files, at), at == 0 ? "000007.sst" : "/000007.sst") == 0);
  }
  rocksdb_livefiles_destroy(files);
}

/* Only a hash index in data blocks needs a `data_block_hash_table_util_ratio` above 0. */
static void check_hash_ratio(const char* dir) {
  char* err = NULL;
  char* path = below(dir, "hash-ratio");
  rocksdb_block_based_table_options_t* t = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_data_block_hash_ratio(t, 0);
  rocksdb_options_t* o = creating();
  rocksdb_options_set_block_based_table_factory(o, t);
  rocksdb_block_based_options_destroy(t);
  rocksdb_t* db = rocksdb_open(o, path, &err);
  CHECK_OK(err);
  rocksdb_close(db);
  rocksdb_options_destroy(o);
  free(path);
}

/* An empty path is not the current directory. */
static void check_empty_path(const char* dir) {
  char* err = NULL;
  char* path = below(dir, "current");
  opens(creating(), dir, "current");
  CHECK(chdir(path) == 0);
  rocksdb_options_t* o = creating();
  size_t count = 9;
  char** names = rocksdb_list_column_families(o, "", &count, &err);
  CHECK(count == 0);
  if (names != NULL) {
    rocksdb_list_column_families_destroy(names, count);
  }
  CHECK_ERROR(err, "IO error: No such file or directory: ");
  CHECK(rocksdb_open(o, "", &err) == NULL);
  CHECK_ERROR(err, "IO error: No such file or directory: ");
  rocksdb_options_destroy(o);
  free(path);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  char* err = NULL;
  check_default_caches(argv[1]);
  check_default_family(argv[1]);
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
  rocksdb_get_options_from_string(o, "max_open_files=5;no_such_option=1", copy, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  /* A text with an error leaves the base options. */
  CHECK(rocksdb_options_get_write_buffer_size(copy) == (2 << 20));
  CHECK(rocksdb_options_get_max_open_files(copy) == -1);

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
  rocksdb_env_t* shared_env = rocksdb_create_default_env();
  rocksdb_env_set_high_priority_background_threads(shared_env, 3);
  rocksdb_options_increase_parallelism(o, 4);
  CHECK(rocksdb_env_get_background_threads(shared_env) == 4);
  CHECK(rocksdb_env_get_high_priority_background_threads(shared_env) == 1);
  rocksdb_env_destroy(shared_env);
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
  check_replaced_values(path);
#ifndef NOT_CAIRN
  check_replaced_members(path);
#endif
  check_replaced_tables(path);
  check_ignored_nulls(path);
  check_described_files();
  check_hash_ratio(argv[1]);
  rocksdb_options_destroy(copy);
  rocksdb_options_destroy(o);
  free(path);
  check_empty_path(argv[1]);
  end_threads();
  return 0;
}
