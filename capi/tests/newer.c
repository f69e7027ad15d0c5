/* What RocksDB's interface has since 11.1.1: files of a copy, logs, named compactions, checks, estimates,
   batches of reads behind one handle. */
#include "check.h"

/* Two tables of level 0 become one of level 1. */
static void named(rocksdb_t* db) {
  char* err = NULL;
  rocksdb_compaction_options_t* options = rocksdb_compaction_options_create();
  CHECK(rocksdb_compaction_options_get_compression(options) == 0xff);
  CHECK(rocksdb_compaction_options_get_output_file_size_limit(options) == UINT64_MAX);
  rocksdb_compaction_options_set_max_subcompactions(options, 1);
  CHECK(rocksdb_compaction_options_get_max_subcompactions(options) == 1);
  rocksdb_compaction_options_set_compression(options, rocksdb_no_compression);
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  CHECK(rocksdb_livefiles_count(files) == 2);
  const char* names[] = {rocksdb_livefiles_name(files, 0), rocksdb_livefiles_name(files, 1)};

  unsigned char* canceled = rocksdb_compaction_options_canceled_create();
  rocksdb_compaction_options_set_canceled(options, canceled);
  rocksdb_compaction_options_canceled_set(canceled, 1);
  char** made = NULL;
  size_t count = 7;
  rocksdb_compact_files(db, options, names, 2, 1, -1, &made, &count, NULL, &err);
  CHECK_ERROR(err, "Result incomplete: ");
  CHECK(made == NULL);
  rocksdb_compaction_options_canceled_set(canceled, 0);
  rocksdb_compaction_options_canceled_destroy(canceled);

  rocksdb_compact_files(db, options, names, 1, -1, -1, &made, &count, NULL, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  /* The options keep their share of the flag. */
  rocksdb_compact_files_cf(db, NULL, options, names, 2, 1, -1, &made, &count, NULL, &err);
  CHECK_OK(err);
  CHECK(count == 1 && made[0] != NULL && strstr(made[0], ".sst") != NULL);
  rocksdb_compact_files_output_file_names_destroy(made, count);
  rocksdb_livefiles_destroy(files);
  files = rocksdb_livefiles(db);
  CHECK(rocksdb_livefiles_count(files) == 1 && rocksdb_livefiles_level(files, 0) == 1);
  rocksdb_livefiles_destroy(files);
  rocksdb_compaction_options_destroy(options);
}

static void copied(rocksdb_t* db) {
  char* err = NULL;
  rocksdb_livefiles_storage_info_options_t* options = rocksdb_livefiles_storage_info_options_create();
  rocksdb_livefiles_storage_info_options_set_include_checksum_info(options, 1);
  rocksdb_livefiles_storage_info_options_set_wal_size_for_flush(options, UINT64_MAX);
  CHECK(rocksdb_livefiles_storage_info_options_get_include_checksum_info(options));
  CHECK(rocksdb_livefiles_storage_info_options_get_wal_size_for_flush(options) == UINT64_MAX);
  rocksdb_livefiles_storage_info_t* files = rocksdb_get_livefiles_storage_info(db, options, &err);
  CHECK_OK(err);
  int tables = 0, current = 0, logs = 0;
  for (size_t i = 0; i < rocksdb_livefiles_storage_info_count(files); i++) {
    CHECK(strlen(rocksdb_livefiles_storage_info_relative_filename(files, i)) > 0);
    CHECK(rocksdb_livefiles_storage_info_directory(files, i)[0] == '/');
    CHECK(rocksdb_livefiles_storage_info_temperature(files, i) == 0);
    size_t size;
    const char* contents = rocksdb_livefiles_storage_info_replacement_contents(files, i, &size);
    switch (rocksdb_livefiles_storage_info_file_type(files, i)) {
      case 0:
        logs += rocksdb_livefiles_storage_info_size(files, i) > 0;
        CHECK(rocksdb_livefiles_storage_info_trim_to_size(files, i));
        break;
      case 2:
        tables++;
        CHECK(rocksdb_livefiles_storage_info_file_number(files, i) > 0);
        CHECK(strcmp(rocksdb_livefiles_storage_info_file_checksum_func_name(files, i), "FileChecksumCrc32c") == 0);
        CHECK(rocksdb_livefiles_storage_info_file_checksum(files, i) != NULL);
        break;
      case 4:
        current++;
        CHECK(size == rocksdb_livefiles_storage_info_size(files, i) && memcmp(contents, "MANIFEST-", 9) == 0);
        break;
      default:
        break;
    }
  }
  CHECK(tables == 1 && current == 1 && logs == 1);
  rocksdb_livefiles_storage_info_destroy(files);
  rocksdb_livefiles_storage_info_options_set_include_checksum_info(options, 0);
  files = rocksdb_get_livefiles_storage_info(db, options, &err);
  CHECK_OK(err);
  for (size_t i = 0; i < rocksdb_livefiles_storage_info_count(files); i++) {
    CHECK(rocksdb_livefiles_storage_info_file_checksum_func_name(files, i)[0] == 0); /* nobody asked */
  }
  rocksdb_livefiles_storage_info_destroy(files);
  rocksdb_livefiles_storage_info_options_destroy(options);
}

static void logs(rocksdb_t* db) {
  char* err = NULL;
  rocksdb_wal_file_t* current = rocksdb_get_current_wal_file(db, &err);
  CHECK_OK(err);
  CHECK(rocksdb_wal_file_size_file_bytes(current) > 0 && rocksdb_wal_file_type(current) == 1);
  rocksdb_wal_files_t* all = rocksdb_get_sorted_wal_files(db, &err);
  CHECK_OK(err);
  size_t count = rocksdb_wal_files_count(all);
  CHECK(count == 1 && rocksdb_wal_files_get_wal_file(all, count) == NULL);
  const rocksdb_wal_file_t* log = rocksdb_wal_files_get_wal_file(all, count - 1);
  CHECK(rocksdb_wal_file_log_number(log) == rocksdb_wal_file_log_number(current));
  CHECK(strcmp(rocksdb_wal_file_path_name(log), rocksdb_wal_file_path_name(current)) == 0);
  CHECK(rocksdb_wal_file_start_sequence(log) == rocksdb_get_latest_sequence_number(db));
  rocksdb_wal_files_destroy(all);
  rocksdb_wal_file_destroy(current);
}

static void checks(rocksdb_t* db) {
  char* err = NULL;
  rocksdb_verify_checksum(db, &err);
  CHECK_OK(err);
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_verify_checksum_with_options(db, r, &err);
  CHECK_OK(err);
  rocksdb_readoptions_destroy(r);
  rocksdb_verify_file_checksums(db, &err);
  CHECK_OK(err);
  rocksdb_verify_file_checksums_with_options(db, NULL, &err);
  CHECK_OK(err);
  rocksdb_readoptions_t* advice = rocksdb_readoptions_create();
  rocksdb_verify_file_checksums_with_options(db, advice, &err);
  CHECK_OK(err);
  rocksdb_readoptions_set_read_tier(advice, 77);
  rocksdb_verify_file_checksums_with_options(db, advice, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_readoptions_destroy(advice);
  CHECK_OK(err);

  const char* names[] = {"max_open_files"};
  const char* values[] = {"77"};
  rocksdb_set_db_options(db, 1, names, values, &err);
  CHECK_OK(err);
  const char* unknown[] = {"max_doors"};
  rocksdb_set_db_options(db, 1, unknown, values, &err);
  CHECK_ERROR(err, "Invalid argument: ");

  rocksdb_pause_background_work(db, &err);
  CHECK_OK(err);
  rocksdb_continue_background_work(db, &err);
  CHECK_OK(err);
  rocksdb_continue_background_work(db, &err);
  CHECK_ERROR(err, "Invalid argument");

  rocksdb_wait_for_compact_options_t* wait = rocksdb_wait_for_compact_options_create();
  rocksdb_wait_for_compact_options_set_wait_for_purge(wait, 1);
  CHECK(rocksdb_wait_for_compact_options_get_wait_for_purge(wait));
  rocksdb_wait_for_compact(db, wait, &err);
  CHECK_OK(err);
  rocksdb_wait_for_compact_options_destroy(wait);
}

static void sizes(rocksdb_t* db) {
  char* err = NULL;
  rocksdb_size_approximation_options_t* options = rocksdb_size_approximation_options_create();
  CHECK(rocksdb_size_approximation_options_get_include_files(options));
  CHECK(!rocksdb_size_approximation_options_get_include_memtables(options));
  CHECK(rocksdb_size_approximation_options_get_files_size_error_margin(options) == -1.0);
  const char *begin[] = {"a"}, *end[] = {"z"};
  size_t len[] = {1};
  uint64_t files[1], all[1];
  rocksdb_approximate_sizes_with_options(db, NULL, 1, begin, len, end, len, files, &err);
  CHECK_OK(err);
  rocksdb_size_approximation_options_set_include_memtables(options, 1);
  rocksdb_approximate_sizes_with_options(db, options, 1, begin, len, end, len, all, &err);
  CHECK_OK(err);
  CHECK(files[0] > 0 && all[0] > files[0]);
  rocksdb_size_approximation_options_set_include_memtables(options, 0);
  rocksdb_size_approximation_options_set_include_files(options, 0);
  rocksdb_approximate_sizes_with_options(db, options, 1, begin, len, end, len, all, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_size_approximation_options_destroy(options);
}

static void batch(rocksdb_t* db, rocksdb_column_family_handle_t* family) {
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  const rocksdb_slice_t keys[] = {{"a", 1}, {"none", 4}, {"b", 1}};
  rocksdb_pinnable_multi_get_t* found = rocksdb_batched_multi_get_pinned_cf(db, r, family, 3, keys, 0);
  CHECK(rocksdb_pinnable_multi_get_count(found) == 3);
  const char *value, *error;
  size_t len, error_len;
  CHECK(rocksdb_pinnable_multi_get_result(found, 0, &value, &len, &error, &error_len) == rocksdb_pinnable_multi_get_found);
  CHECK(same(value, len, "1") && error == NULL && error_len == 0);
  CHECK(rocksdb_pinnable_multi_get_result(found, 1, &value, &len, &error, &error_len) == rocksdb_pinnable_multi_get_not_found);
  CHECK(value == NULL && len == 0 && error == NULL);
  CHECK(rocksdb_pinnable_multi_get_result(found, 3, &value, &len, &error, &error_len) == rocksdb_pinnable_multi_get_out_of_bounds);
  rocksdb_pinnable_multi_get_destroy(found);

  /* A tier that does not exist is told of by the first call that uses the options: here for every key. */
  rocksdb_readoptions_set_read_tier(r, 99);
  found = rocksdb_batched_multi_get_pinned_cf(db, r, family, 3, keys, 0);
  CHECK(rocksdb_pinnable_multi_get_result(found, 1, &value, &len, &error, &error_len) == rocksdb_pinnable_multi_get_error);
  CHECK(value == NULL && len == 0 && error_len > 18 && memcmp(error, "Invalid argument: ", 18) == 0);
  rocksdb_pinnable_multi_get_destroy(found);
  rocksdb_readoptions_destroy(r);
}

static void ingestion(void) {
  rocksdb_ingestexternalfileoptions_t* in = rocksdb_ingestexternalfileoptions_create();
  CHECK(rocksdb_ingestexternalfileoptions_get_failed_move_fall_back_to_copy(in));
  CHECK(!rocksdb_ingestexternalfileoptions_get_link_files(in));
  rocksdb_ingestexternalfileoptions_set_link_files(in, 1);
  CHECK(rocksdb_ingestexternalfileoptions_get_link_files(in));
  rocksdb_ingestexternalfileoptions_set_verify_checksums_readahead_size(in, 4096);
  CHECK(rocksdb_ingestexternalfileoptions_get_verify_checksums_readahead_size(in) == 4096);
  rocksdb_ingestexternalfileoptions_destroy(in);
}

/* Texts, and choices that RocksDB 11.9 has. */
static void texts_and_choices(void) {
  size_t len;
  rocksdb_options_t* o = rocksdb_options_create();
  CHECK(same_at(rocksdb_options_get_wal_dir(o, &len), &len, ""));
  rocksdb_options_set_wal_dir(o, "/some/logs");
  CHECK(same_at(rocksdb_options_get_wal_dir(o, &len), &len, "/some/logs"));
  rocksdb_options_set_db_log_dir(o, "/some/words");
  CHECK(same_at(rocksdb_options_get_db_log_dir(o, &len), &len, "/some/words"));
  CHECK(same_at(rocksdb_options_get_db_host_id(o, &len), &len, "__hostname__"));
  rocksdb_options_set_db_host_id(o, "here");
  CHECK(same_at(rocksdb_options_get_db_host_id(o, &len), &len, "here"));
  rocksdb_options_set_daily_offpeak_time_utc(o, "01:00-04:30");
  CHECK(same_at(rocksdb_options_get_daily_offpeak_time_utc(o, &len), &len, "01:00-04:30"));
  CHECK(rocksdb_options_get_lowest_used_cache_tier(o) == 2);
  rocksdb_options_set_lowest_used_cache_tier(o, 0);
  CHECK(rocksdb_options_get_lowest_used_cache_tier(o) == 0);
  rocksdb_options_destroy(o);

  rocksdb_block_based_table_options_t* t = rocksdb_block_based_options_create();
  CHECK(rocksdb_block_based_options_get_index_shortening(t) == 1);
  rocksdb_block_based_options_set_index_shortening(t, 2);
  CHECK(rocksdb_block_based_options_get_index_shortening(t) == 2);
  /* A value that does not exist is what is got. */
  rocksdb_block_based_options_set_index_shortening(t, 7);
  CHECK(rocksdb_block_based_options_get_index_shortening(t) == 7);
  rocksdb_block_based_options_destroy(t);

  rocksdb_compactoptions_t* c = rocksdb_compactoptions_create();
  CHECK(rocksdb_compactoptions_get_blob_garbage_collection_policy(c) == 2);
  CHECK(rocksdb_compactoptions_get_blob_garbage_collection_age_cutoff(c) == -1.0);
  rocksdb_compactoptions_set_blob_garbage_collection_policy(c, 0);
  rocksdb_compactoptions_set_blob_garbage_collection_age_cutoff(c, 0.5);
  CHECK(rocksdb_compactoptions_get_blob_garbage_collection_policy(c) == 0);
  CHECK(rocksdb_compactoptions_get_blob_garbage_collection_age_cutoff(c) == 0.5);
  rocksdb_compactoptions_destroy(c);
}

/* Families before an invalid one are created. */
static void several_families(rocksdb_t* db, rocksdb_options_t* options) {
  char* err = NULL;
  const char* names[] = {"ores", "default", "gems"};
  size_t created;
  rocksdb_column_family_handle_t** list =
      rocksdb_create_column_families(db, options, 3, names, &created, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(created == 1);
  rocksdb_drop_column_family(db, list[0], &err);
  CHECK_OK(err);
  rocksdb_column_family_handle_destroy(list[0]);
  rocksdb_create_column_families_destroy(list);
}

/* Logs are handed over, and read back, with options. */
static void options_of_logs(rocksdb_t* db) {
  char* err = NULL;
  rocksdb_flushwaloptions_t* how = rocksdb_flushwaloptions_create();
  CHECK(!rocksdb_flushwaloptions_get_sync(how) && rocksdb_flushwaloptions_get_rate_limiter_priority(how) == 4);
  rocksdb_flush_wal_with_options(db, how, &err);
  CHECK_OK(err);
  rocksdb_flushwaloptions_set_sync(how, 1);
  rocksdb_flushwaloptions_set_rate_limiter_priority(how, 2);
  CHECK(rocksdb_flushwaloptions_get_sync(how) && rocksdb_flushwaloptions_get_rate_limiter_priority(how) == 2);
  rocksdb_flush_wal_with_options(db, how, &err);
  CHECK_OK(err);
  rocksdb_flushwaloptions_destroy(how);
  rocksdb_wal_readoptions_t* options = rocksdb_wal_readoptions_create();
  CHECK(rocksdb_wal_readoptions_get_verify_checksums(options));
  rocksdb_wal_readoptions_set_verify_checksums(options, 0);
  CHECK(!rocksdb_wal_readoptions_get_verify_checksums(options));
  rocksdb_wal_iterator_t* iter = rocksdb_get_updates_since(db, rocksdb_get_latest_sequence_number(db), options, &err);
  CHECK_OK(err);
  rocksdb_wal_readoptions_destroy(options);
  CHECK(rocksdb_wal_iter_valid(iter));
  rocksdb_wal_iter_destroy(iter);
}

/* What 11.12 added: reads that say more, the common prefix of keys, policies of flushes. */
static void with_metadata(rocksdb_t* db, rocksdb_column_family_handle_t* family) {
  char* err = NULL;
  rocksdb_readoptions_t* ro = rocksdb_readoptions_create();
  size_t len = 9, ts_len = 9;
  char* ts = "";
  unsigned char newer = 9;
  char* value = rocksdb_get_with_metadata(db, ro, "a", 1, &len, &ts, &ts_len, &newer, &err);
  CHECK_OK(err);
  CHECK(len == 1 && value[0] == '1' && ts != NULL && ts_len == 0 && newer == 0);
  rocksdb_free(value);
  rocksdb_free(ts);
  value = rocksdb_get_cf_with_metadata(db, ro, family, "none", 4, &len, &ts, &ts_len, NULL, &err);
  CHECK_OK(err);
  CHECK(value == NULL && len == 0 && ts == NULL);

  const rocksdb_snapshot_t* snapshot = rocksdb_create_snapshot(db);
  rocksdb_readoptions_set_snapshot(ro, snapshot);
  value = rocksdb_get_with_metadata(db, ro, "a", 1, &len, NULL, NULL, &newer, &err);
  CHECK(err == NULL && value[0] == '1' && newer == 0);
  rocksdb_free(value);
  rocksdb_writeoptions_t* wo = rocksdb_writeoptions_create();
  put(db, "a", "2");
  rocksdb_writeoptions_set_protection_bytes_per_key(wo, 4);
  rocksdb_delete(db, wo, "b", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_writeoptions_set_protection_bytes_per_key(wo, 8);
  CHECK(rocksdb_writeoptions_get_protection_bytes_per_key(wo) == 8);
  rocksdb_delete(db, wo, "b", 1, &err);
  CHECK_OK(err);
  rocksdb_delete_range_cf(db, wo, family, "c", 1, "d", 1, &err);
  CHECK_OK(err);
  put(db, "new", "3");
  for (int flushed = 0; flushed < 2; flushed++) {
    const char* keys[] = {"a", "b", "c", "new", "", "z"};
    const size_t sizes[] = {1, 1, 1, 3, 0, 1};
    const char* wanted[] = {"1", "2", "3", NULL, NULL, NULL};
    const unsigned char flags[] = {1, 1, 1, 1, 0, 0};
    const rocksdb_column_family_handle_t* families[] = {family, family, family, family, family, family};
    char *values[6], *errs[6], *stamps[6];
    size_t lens[6], stamp_lens[6];
    unsigned char seen[6];
    for (int form = 0; form < 2; form++) {
      if (form == 0)
        rocksdb_multi_get_with_metadata(db, ro, 6, keys, sizes, values, lens, stamps, stamp_lens, seen, errs);
      else
        rocksdb_multi_get_cf_with_metadata(db, ro, families, 6, keys, sizes, values, lens, NULL, NULL, seen, errs);
      for (int i = 0; i < 6; i++) {
        CHECK(errs[i] == NULL && seen[i] == flags[i]);
        CHECK(wanted[i] == NULL ? values[i] == NULL : lens[i] == 1 && values[i][0] == wanted[i][0]);
        if (form == 0) {
          CHECK((stamps[i] == NULL) == (values[i] == NULL) && stamp_lens[i] == 0);
          rocksdb_free(stamps[i]);
        }
        rocksdb_free(values[i]);
      }
    }
    flush(db);
  }
  rocksdb_readoptions_set_snapshot(ro, NULL);
  const char* key[] = {"a"};
  const size_t size[] = {1};
  rocksdb_multi_get_with_metadata(db, ro, 1, key, size, &value, &len, NULL, NULL, &newer, &err);
  CHECK(err == NULL && value[0] == '2' && newer == 0);
  rocksdb_free(value);
  rocksdb_readoptions_set_read_tier(ro, 2);
  value = rocksdb_get_with_metadata(db, ro, "a", 1, &len, NULL, NULL, &newer, &err);
  CHECK_ERROR(err, "Not implemented: ");
  CHECK(value == NULL && newer == 0);
  rocksdb_release_snapshot(db, snapshot);
  rocksdb_readoptions_destroy(ro);
  rocksdb_writeoptions_destroy(wo);
}

/* Several values with timestamps are read together: `value_size_soft_limit` applies to all of them. */
static void stamped_with_metadata(const char* dir) {
  char* err = NULL;
  char* path = below(dir, "stamped");
  rocksdb_options_t* base = rocksdb_options_create();
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_get_options_from_string(base, "create_if_missing=true;comparator=leveldb.BytewiseComparator.u64ts", options,
                                  &err);
  CHECK_OK(err);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_writeoptions_t* wo = rocksdb_writeoptions_create();
  const char first[8] = {5}, second[8] = {6};
  rocksdb_put_with_ts(db, wo, "a", 1, first, 8, "1", 1, &err);
  CHECK_OK(err);
  rocksdb_put_with_ts(db, wo, "b", 1, second, 8, "22", 2, &err);
  CHECK_OK(err);
  rocksdb_readoptions_t* ro = rocksdb_readoptions_create();
  rocksdb_readoptions_set_timestamp(ro, second, 8);
  const char* keys[] = {"b", "a", "z"};
  const size_t sizes[] = {1, 1, 1};
  for (int limited = 0; limited < 2; limited++) {
    char *values[3], *errs[3], *stamps[3];
    size_t lens[3], stamp_lens[3];
    unsigned char newer[3];
    rocksdb_multi_get_with_metadata(db, ro, 3, keys, sizes, values, lens, stamps, stamp_lens, newer, errs);
    CHECK(errs[1] == NULL && lens[1] == 1 && values[1][0] == '1');
    CHECK(stamp_lens[1] == 8 && memcmp(stamps[1], first, 8) == 0);
    CHECK(newer[0] == 0 && newer[1] == 0 && newer[2] == 0);
    CHECK(values[2] == NULL && stamps[2] == NULL);
    if (limited) {
      CHECK(values[0] == NULL && stamps[0] == NULL);
      CHECK_ERROR(errs[0], "Operation aborted: ");
      CHECK_ERROR(errs[2], "Operation aborted: ");
    } else {
      CHECK(errs[0] == NULL && errs[2] == NULL && lens[0] == 2 && memcmp(values[0], "22", 2) == 0);
      CHECK(stamp_lens[0] == 8 && memcmp(stamps[0], second, 8) == 0);
    }
    for (int i = 0; i < 3; i++) {
      rocksdb_free(values[i]);
      rocksdb_free(stamps[i]);
    }
    rocksdb_readoptions_set_value_size_soft_limit(ro, 0);
  }
  rocksdb_readoptions_destroy(ro);
  rocksdb_writeoptions_destroy(wo);
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  rocksdb_options_destroy(base);
  free(path);
}

static void options_of_11_12(void) {
  rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create();
  CHECK(rocksdb_block_based_options_get_optimize_key_common_prefix(table) == 1);
  rocksdb_block_based_options_set_optimize_key_common_prefix(table, 2);
  CHECK(rocksdb_block_based_options_get_optimize_key_common_prefix(table) == 2);
  rocksdb_block_based_options_destroy(table);
  rocksdb_options_t* options = rocksdb_options_create();
  CHECK(rocksdb_options_get_blob_file_writable_file_max_buffer_size(options) == 0);
  rocksdb_options_set_blob_file_writable_file_max_buffer_size(options, 7);
  CHECK(rocksdb_options_get_blob_file_writable_file_max_buffer_size(options) == 7);
  CHECK(rocksdb_options_get_remote_compaction_manifest_floor(options) == 1);
  rocksdb_options_set_remote_compaction_manifest_floor(options, 0);
  CHECK(rocksdb_options_get_remote_compaction_manifest_floor(options) == 0);
  CHECK(rocksdb_options_get_periodic_compaction_phase_recovery_percent(options) == 0);
  rocksdb_options_set_periodic_compaction_phase_recovery_percent(options, 33);
  CHECK(rocksdb_options_get_periodic_compaction_phase_recovery_percent(options) == 33);
  CHECK(rocksdb_options_get_use_session_tmp_dir_for_remote_compaction(options) == 0);
  rocksdb_options_set_use_session_tmp_dir_for_remote_compaction(options, 1);
  CHECK(rocksdb_options_get_use_session_tmp_dir_for_remote_compaction(options) == 1);
  rocksdb_options_destroy(options);

  rocksdb_write_buffer_manager_t* manager =
      rocksdb_write_buffer_manager_create_with_policy(1 << 20, false, rocksdb_write_buffer_manager_flush_policy_largest);
  CHECK(rocksdb_write_buffer_manager_flush_policy(manager) == rocksdb_write_buffer_manager_flush_policy_largest);
  rocksdb_write_buffer_manager_set_flush_policy(manager, rocksdb_write_buffer_manager_flush_policy_oldest);
  CHECK(rocksdb_write_buffer_manager_flush_policy(manager) == rocksdb_write_buffer_manager_flush_policy_oldest);
  rocksdb_write_buffer_manager_set_flush_policy(manager, 7);
  CHECK(rocksdb_write_buffer_manager_flush_policy(manager) == rocksdb_write_buffer_manager_flush_policy_oldest);
  rocksdb_write_buffer_manager_set_flush_policy(manager, rocksdb_write_buffer_manager_flush_policy_largest_across_dbs);
  CHECK(rocksdb_write_buffer_manager_flush_policy(manager) == rocksdb_write_buffer_manager_flush_policy_largest_across_dbs);
  rocksdb_write_buffer_manager_destroy(manager);
  CHECK(rocksdb_write_buffer_manager_create_with_policy(1 << 20, false, 7) == NULL);
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(1 << 20);
  manager = rocksdb_write_buffer_manager_create_with_cache_and_policy(1 << 20, cache, true, 0);
  CHECK(manager != NULL && rocksdb_write_buffer_manager_cost_to_cache(manager));
  rocksdb_write_buffer_manager_destroy(manager);
  rocksdb_cache_destroy(cache);
}

/* A value of 1000 bytes under each of 1000 keys; true as soon as the other database has a table. */
static int fill_until_flushed(rocksdb_t* db, rocksdb_t* other) {
  char* err = NULL;
  static char value[1000];
  char key[16];
  rocksdb_writeoptions_t* wo = rocksdb_writeoptions_create();
  int flushed = 0;
  for (int i = 0; i < 1000 && !flushed; i++) {
    int len = snprintf(key, sizeof key, "%d", i);
    rocksdb_put(db, wo, key, (size_t)len, value, sizeof value, &err);
    CHECK_OK(err);
    char* tables = other == NULL ? NULL : rocksdb_property_value(other, "rocksdb.num-files-at-level0");
    flushed = tables != NULL && strcmp(tables, "0") != 0;
    rocksdb_free(tables);
  }
  rocksdb_writeoptions_destroy(wo);
  return flushed;
}

/* A full manager flushes the memtable of another database, which is larger. */
static void flushed_across_databases(const char* root) {
  char* err = NULL;
  rocksdb_write_buffer_manager_t* manager = rocksdb_write_buffer_manager_create_with_policy(
      3 << 20, false, rocksdb_write_buffer_manager_flush_policy_largest_across_dbs);
  CHECK(manager != NULL);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_arena_block_size(options, 16 << 10);
  rocksdb_options_set_periodic_compaction_phase_recovery_percent(options, 33);
  rocksdb_options_set_write_buffer_manager(options, manager);
  rocksdb_write_buffer_manager_destroy(manager);
  char* paths[] = {below(root, "idle"), below(root, "written")};
  rocksdb_t* dbs[2];
  for (int i = 0; i < 2; i++) {
    dbs[i] = rocksdb_open(options, paths[i], &err);
    CHECK_OK(err);
  }
  fill_until_flushed(dbs[0], NULL);
  fill_until_flushed(dbs[0], NULL);
  int flushed = 0;
  for (int round = 0; round < 20 && !flushed; round++) flushed = fill_until_flushed(dbs[1], dbs[0]);
  CHECK(flushed);
  for (int i = 0; i < 2; i++) {
    rocksdb_close(dbs[i]);
    free(paths[i]);
  }
  rocksdb_options_destroy(options);
}

/* Options that have an effect only in RocksDB are kept, with its defaults. */
static void kept_options(void) {
  rocksdb_readoptions_t* reads = rocksdb_readoptions_create();
  CHECK(rocksdb_readoptions_get_io_activity(reads) == 0x7f);
  CHECK(rocksdb_readoptions_get_rate_limiter_priority(reads) == 4);
  rocksdb_readoptions_set_io_activity(reads, 3);
  rocksdb_readoptions_set_rate_limiter_priority(reads, 1);
  CHECK(rocksdb_readoptions_get_io_activity(reads) == 3);
  CHECK(rocksdb_readoptions_get_rate_limiter_priority(reads) == 1);
  size_t len = 7;
  CHECK(rocksdb_readoptions_get_request_id(reads, &len) == NULL && len == 0);
  rocksdb_readoptions_set_request_id(reads, "slate", 5);
  const char* id = rocksdb_readoptions_get_request_id(reads, &len);
  CHECK(len == 5 && memcmp(id, "slate", 5) == 0);
  rocksdb_readoptions_clear_request_id(reads);
  CHECK(rocksdb_readoptions_get_request_id(reads, NULL) == NULL);
  char* err = NULL;
  rocksdb_readoptions_set_table_index_factory_from_string(reads, "trie_index", 10, &err);
  CHECK_ERROR(err, "Not implemented: ");
  rocksdb_readoptions_set_table_index_factory_from_string(reads, NULL, 0, &err);
  CHECK_OK(err);
  CHECK(rocksdb_readoptions_get_table_index_factory_name(reads, &len) == NULL && len == 0);
  CHECK(!rocksdb_readoptions_get_allow_unprepared_value(reads));
  rocksdb_readoptions_set_allow_unprepared_value(reads, 1);
  CHECK(rocksdb_readoptions_get_allow_unprepared_value(reads));
  rocksdb_readoptions_destroy(reads);

  rocksdb_options_t* options = rocksdb_options_create();
  CHECK(rocksdb_options_calculate_sst_write_lifetime_hint_set_contains(options, rocksdb_level_compaction));
  rocksdb_options_calculate_sst_write_lifetime_hint_set_add(options, rocksdb_universal_compaction);
  CHECK(rocksdb_options_calculate_sst_write_lifetime_hint_set_count(options) == 2);
  rocksdb_options_calculate_sst_write_lifetime_hint_set_remove(options, rocksdb_level_compaction);
  CHECK(rocksdb_options_calculate_sst_write_lifetime_hint_set_count(options) == 1);
  CHECK(rocksdb_options_checksum_handoff_file_types_count(options) == 0);
  rocksdb_options_checksum_handoff_file_types_add(options, 2);
  CHECK(rocksdb_options_checksum_handoff_file_types_contains(options, 2));
  rocksdb_options_checksum_handoff_file_types_clear(options);
  CHECK(!rocksdb_options_checksum_handoff_file_types_contains(options, 2));
  rocksdb_options_set_last_level_temperature(options, 12);
  CHECK(rocksdb_options_get_last_level_temperature(options) == 12);
  rocksdb_options_set_block_protection_bytes_per_key(options, 8);
  CHECK(rocksdb_options_get_block_protection_bytes_per_key(options) == 8);
  rocksdb_options_destroy(options);

  rocksdb_envoptions_t* env = rocksdb_envoptions_create();
  CHECK(rocksdb_envoptions_get_writable_file_max_buffer_size(env) == 1 << 20);
  CHECK(rocksdb_envoptions_get_fd_cloexec(env) && !rocksdb_envoptions_get_use_direct_writes(env));
  rocksdb_envoptions_set_use_direct_writes(env, 1);
  rocksdb_envoptions_set_bytes_per_sync(env, 4096);
  CHECK(rocksdb_envoptions_get_use_direct_writes(env) && rocksdb_envoptions_get_bytes_per_sync(env) == 4096);
  rocksdb_ratelimiter_t* limiter = rocksdb_ratelimiter_create(1 << 20, 100000, 10);
  rocksdb_envoptions_set_rate_limiter(env, limiter);
  rocksdb_ratelimiter_destroy(limiter);
  rocksdb_envoptions_destroy(env);
}

/* What options of flushes, writes and estimates do. */
static void effective_options(rocksdb_t* db) {
  char* err = NULL;
  rocksdb_flushoptions_t* flushes = rocksdb_flushoptions_create();
  CHECK(!rocksdb_flushoptions_get_force_atomic_flush(flushes) && !rocksdb_flushoptions_get_listener_wait(flushes));
  rocksdb_flushoptions_set_force_atomic_flush(flushes, 1);
  rocksdb_flushoptions_set_listener_wait(flushes, 1);
  put(db, "together", "1");
  rocksdb_flush(db, flushes, &err);
  CHECK_OK(err);
  rocksdb_flushoptions_destroy(flushes);

  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  CHECK(rocksdb_writeoptions_get_rate_limiter_priority(writes) == 4);
  rocksdb_writeoptions_set_rate_limiter_priority(writes, 3);
  rocksdb_put(db, writes, "limited", 7, "1", 1, &err);
  CHECK_OK(err);
  rocksdb_writeoptions_set_rate_limiter_priority(writes, 0);
  rocksdb_put(db, writes, "limited", 7, "2", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_writeoptions_destroy(writes);

  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "k", 1, "v", 1);
  rocksdb_writebatch_verify_checksum(batch, &err);
  CHECK_OK(err);
  rocksdb_writebatch_destroy(batch);

  rocksdb_size_approximation_options_t* sizes = rocksdb_size_approximation_options_create();
  rocksdb_size_approximation_options_set_include_blob_files(sizes, 1);
  CHECK(rocksdb_size_approximation_options_get_include_blob_files(sizes));
  rocksdb_size_approximation_options_destroy(sizes);
}

static int filtered_families, filtered_records;

static void see_families(void* state, const uint32_t* ids, const uint64_t* logs, size_t count,
                         const char* const* names, const size_t* lengths, const uint32_t* named, size_t name_count) {
  CHECK(state == &filtered_families && count == 1 && ids[0] == 0 && logs[0] > 0);
  CHECK(name_count == 1 && named[0] == 0 && lengths[0] == 7 && memcmp(names[0], "default", 7) == 0);
  filtered_families++;
}

/* Replaces the first batch, and ignores the others. */
static int see_record(void* state, unsigned long long log, const char* path, size_t path_len,
                      const rocksdb_writebatch_t* batch, rocksdb_writebatch_t* new_batch, unsigned char* changed) {
  CHECK(state == &filtered_families && log > 0 && path_len > 4 && memcmp(path + path_len - 4, ".log", 4) == 0);
  CHECK(rocksdb_writebatch_count((rocksdb_writebatch_t*)batch) == 1);
  if (filtered_records++ > 0) return rocksdb_wal_filter_ignore_current_record;
  rocksdb_writebatch_put(new_batch, "replaced", 8, "3", 1);
  *changed = 1;
  return rocksdb_wal_filter_continue_processing;
}

static const char* filter_name(void* state) {
  (void)state;
  return "filter";
}

/* `want` is NULL for no value. */
static void expect(rocksdb_t* db, const char* key, const char* want) {
  rocksdb_readoptions_t* options = rocksdb_readoptions_create();
  CHECK_GET(db, options, key, want);
  rocksdb_readoptions_destroy(options);
}

static void filtered_logs(const char* root) {
  char* err = NULL;
  char* path = below(root, "filtered");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_avoid_flush_during_shutdown(options, 1);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  put(db, "first", "1");
  put(db, "second", "2");
  rocksdb_close(db);
  rocksdb_walfilter_t* filter =
      rocksdb_walfilter_create(&filtered_families, NULL, see_families, see_record, filter_name);
  rocksdb_options_set_wal_filter(options, filter);
  rocksdb_walfilter_destroy(filter);
  db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  CHECK(filtered_families == 1 && filtered_records == 2);
  expect(db, "first", NULL);
  expect(db, "second", NULL);
  expect(db, "replaced", "3");
  rocksdb_close(db);
  rocksdb_options_clear_wal_filter(options);
  rocksdb_options_destroy(options);
  free(path);
}

static int progressed;

static void see_progress(void* state) {
  CHECK(state == &progressed);
  progressed++;
}

static unsigned char exclude_all(void* state, const char* path, size_t path_len) {
  CHECK(state == &progressed && path_len > 0 && path[0] != '/');
  return 1;
}

/* Backups with options, metadata, excluded files and an end from outside. */
static void chosen_backups(rocksdb_t* db, const char* root) {
  char* err = NULL;
  char* path = below(root, "backups");
  rocksdb_backup_engine_options_t* engines = rocksdb_backup_engine_options_create(path);
  size_t len = 0;
  CHECK(same_at(rocksdb_backup_engine_options_get_backup_dir(engines, &len), &len, path));
  CHECK(rocksdb_backup_engine_options_get_schema_version(engines) == 1);
  rocksdb_backup_engine_options_set_schema_version(engines, 2);
  CHECK(rocksdb_backup_engine_options_get_schema_version(engines) == 2);
  CHECK(rocksdb_backup_engine_options_get_share_files_with_checksum(engines));
  CHECK(rocksdb_backup_engine_options_get_io_buffer_size(engines) == 0);
  rocksdb_backup_engine_options_set_io_buffer_size(engines, 4096);
  rocksdb_backup_engine_options_set_callback_trigger_interval_size(engines, 1);
  CHECK(!rocksdb_backup_engine_options_get_current_temperatures_override_manifest(engines));
  rocksdb_ratelimiter_t* limiter = rocksdb_ratelimiter_create(1 << 28, 100000, 10);
  rocksdb_backup_engine_options_set_backup_rate_limiter(engines, limiter);
  rocksdb_backup_engine_options_set_restore_rate_limiter(engines, limiter);
  rocksdb_ratelimiter_destroy(limiter);
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_backup_engine_t* engine = rocksdb_backup_engine_open_opts(engines, env, &err);
  CHECK_OK(err);

  rocksdb_create_backup_options_t* how = rocksdb_create_backup_options_create();
  CHECK(rocksdb_create_backup_options_get_background_thread_cpu_priority(how) == 2);
  CHECK(!rocksdb_create_backup_options_get_decrease_background_thread_cpu_priority(how));
  CHECK(!rocksdb_create_backup_options_get_flush_before_backup(how));
  rocksdb_create_backup_options_set_flush_before_backup(how, 1);
  rocksdb_create_backup_options_set_atomic_flush(how, 1);
  CHECK(rocksdb_create_backup_options_get_atomic_flush(how));
  rocksdb_create_backup_options_set_progress_callback(how, &progressed, see_progress);
  uint32_t id = 0;
  rocksdb_backup_engine_create_new_backup_with_metadata(engine, db, how, "of quartz", 9, &id, &err);
  CHECK_OK(err);
  CHECK(id == 1 && progressed > 1);
  rocksdb_backup_engine_create_new_backup_with_options(engine, db, NULL, &id, &err);
  CHECK_OK(err);
  CHECK(id == 2);
  const rocksdb_backup_engine_info_t* info = rocksdb_backup_engine_get_backup_info(engine);
  CHECK(same_at(rocksdb_backup_engine_info_app_metadata(info, 0, &len), &len, "of quartz"));
  rocksdb_backup_engine_info_app_metadata(info, 1, &len);
  CHECK(len == 0);
  rocksdb_backup_engine_info_destroy(info);

  rocksdb_restore_options_t* restores = rocksdb_restore_options_create();
  CHECK(rocksdb_restore_options_get_mode(restores) == 0xffff && !rocksdb_restore_options_get_keep_log_files(restores));
  rocksdb_restore_options_set_mode(restores, 2);
  CHECK(rocksdb_restore_options_get_mode(restores) == 2);
  char* restored = below(root, "restored");
  rocksdb_backup_engine_restore_db_from_backup(engine, restored, restored, restores, 1, &err);
  CHECK_OK(err);
  rocksdb_restore_options_destroy(restores);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_t* copy = rocksdb_open(options, restored, &err);
  CHECK_OK(err);
  expect(copy, "together", "1");
  rocksdb_close(copy);
  rocksdb_options_destroy(options);
  free(restored);

  /* A file that no other directory has cannot be restored. */
  put(db, "excluded", "1");
  rocksdb_create_backup_options_set_progress_callback(how, NULL, NULL);
  rocksdb_create_backup_options_set_exclude_files_callback(how, &progressed, exclude_all);
  rocksdb_backup_engine_create_new_backup_with_options(engine, db, how, NULL, &err);
  CHECK_OK(err);
  rocksdb_backup_engine_stop_backup(engine);
  rocksdb_backup_engine_create_new_backup_with_options(engine, db, NULL, NULL, &err);
  CHECK_ERROR(err, "Result incomplete: ");
  rocksdb_create_backup_options_destroy(how);
  rocksdb_backup_engine_close(engine);
  rocksdb_backup_engine_options_destroy(engines);
  rocksdb_env_destroy(env);
  free(path);
}

/* Options of transactions, and locks that optimistic databases share. */
static void chosen_transactions(const char* root) {
  char* err = NULL;
  rocksdb_transaction_options_t* one = rocksdb_transaction_options_create();
  CHECK(rocksdb_transaction_options_get_deadlock_timeout_us(one) == 500);
  rocksdb_transaction_options_set_skip_concurrency_control(one, 1);
  CHECK(rocksdb_transaction_options_get_skip_concurrency_control(one));
  rocksdb_transaction_options_destroy(one);
  rocksdb_transactiondb_options_t* own = rocksdb_transactiondb_options_create();
  CHECK(rocksdb_transactiondb_options_get_max_num_deadlocks(own) == 5);
  CHECK(rocksdb_transactiondb_options_get_write_policy(own) == 0);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  char* path = below(root, "locked");
  rocksdb_transactiondb_t* locked = rocksdb_transactiondb_open(options, own, path, &err);
  CHECK_OK(err);
  rocksdb_writeoptions_t* writes = rocksdb_writeoptions_create();
  rocksdb_transaction_t* txn = rocksdb_transaction_begin(locked, writes, NULL, NULL);
  rocksdb_transaction_put(txn, "k", 1, "v", 1, &err);
  rocksdb_transaction_put_log_data(txn, "note", 4);
  rocksdb_transaction_commit(txn, &err);
  CHECK_OK(err);
  rocksdb_transaction_destroy(txn);
  rocksdb_transactiondb_flush_wal_with_options(locked, NULL, &err);
  CHECK_OK(err);
  rocksdb_transactiondb_close(locked);
  /* With each other write policy, a prepared transaction survives, and only that policy opens it. */
  for (int policy = 1; policy <= 2; policy++) {
    rocksdb_transactiondb_options_set_write_policy(own, policy);
    CHECK(rocksdb_transactiondb_options_get_write_policy(own) == policy);
    locked = rocksdb_transactiondb_open(options, own, path, &err);
    CHECK_OK(err);
    txn = rocksdb_transaction_begin(locked, writes, NULL, NULL);
    rocksdb_transaction_set_name(txn, "t", 1, &err);
    rocksdb_transaction_put(txn, "k", 1, "new", 3, &err);
    rocksdb_transaction_prepare(txn, &err);
    CHECK_OK(err);
    rocksdb_transaction_destroy(txn);
    rocksdb_transactiondb_close(locked);
    rocksdb_transactiondb_options_set_write_policy(own, 0);
    CHECK(rocksdb_transactiondb_open(options, own, path, &err) == NULL);
    CHECK_ERROR(err, "Not implemented: ");
    rocksdb_transactiondb_options_set_write_policy(own, policy);
    locked = rocksdb_transactiondb_open(options, own, path, &err);
    CHECK_OK(err);
    size_t count = 0;
    rocksdb_transaction_t** prepared = rocksdb_transactiondb_get_prepared_transactions(locked, &count);
    CHECK(count == 1);
    rocksdb_transaction_rollback(prepared[0], &err);
    CHECK_OK(err);
    rocksdb_transaction_destroy(prepared[0]);
    rocksdb_free(prepared);
    rocksdb_transactiondb_close(locked);
  }
  rocksdb_transactiondb_options_destroy(own);
  free(path);

  rocksdb_optimistictransactiondb_options_t* checked = rocksdb_optimistictransactiondb_options_create();
  CHECK(rocksdb_optimistictransactiondb_options_get_validate_policy(checked) == 1);
  CHECK(rocksdb_optimistictransactiondb_options_get_occ_lock_buckets(checked) == 1 << 20);
  rocksdb_optimistictransactiondb_options_set_occ_lock_buckets(checked, 64);
  CHECK(rocksdb_optimistictransactiondb_options_get_occ_lock_buckets(checked) == 64);
  rocksdb_optimistictransactiondb_lock_buckets_t* locks = rocksdb_optimistictransactiondb_lock_buckets_create(16, 1);
  CHECK(rocksdb_optimistictransactiondb_lock_buckets_approximate_memory_usage(locks) >= 16 * 64);
  rocksdb_optimistictransactiondb_options_set_shared_lock_buckets(checked, locks);
  rocksdb_optimistictransactiondb_lock_buckets_destroy(locks);
  path = below(root, "optimistic");
  const char* names[] = {"default"};
  const rocksdb_options_t* family_options[] = {options};
  rocksdb_column_family_handle_t* families[1];
  for (int with_families = 0; with_families < 2; with_families++) {
    rocksdb_optimistictransactiondb_t* db =
        with_families ? rocksdb_optimistictransactiondb_open_column_families_with_otxn_db_options(
                            options, checked, path, 1, names, family_options, families, &err)
                      : rocksdb_optimistictransactiondb_open_with_otxn_db_options(options, checked, path, &err);
    CHECK_OK(err);
    txn = rocksdb_optimistictransaction_begin(db, writes, NULL, NULL);
    rocksdb_transaction_put(txn, "k", 1, "v", 1, &err);
    rocksdb_transaction_commit(txn, &err);
    CHECK_OK(err);
    rocksdb_transaction_destroy(txn);
    if (with_families) rocksdb_column_family_handle_destroy(families[0]);
    rocksdb_optimistictransactiondb_close(db);
  }
  rocksdb_optimistictransactiondb_options_destroy(checked);
  rocksdb_writeoptions_destroy(writes);
  rocksdb_options_destroy(options);
  free(path);
}

static void count_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  (void)k, (void)klen, (void)v, (void)vlen;
  ++*(int*)state;
}

static void ignore_delete(void* state, const char* k, size_t klen) { (void)state, (void)k, (void)klen; }

/* Transactions begin each batch in their log with an empty record. */
static void batch_of_a_transaction(void) {
  const char logged[] = "\0\0\0\0\0\0\0\0\1\0\0\0\x0d\1\1a\0011";
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create_from(logged, sizeof logged - 1);
  int puts = 0;
  rocksdb_writebatch_iterate(batch, &puts, count_put, ignore_delete);
  CHECK(puts == 1);
  rocksdb_writebatch_destroy(batch);
}

int main(int argc, char** argv) {
  char* err = NULL;
  char* path = below(argc > 1 ? argv[1] : NULL, "newer");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_disable_auto_compactions(options, 1);
  rocksdb_file_checksum_gen_factory_t* checksums = rocksdb_file_checksum_gen_crc32c_factory_create();
  rocksdb_options_set_file_checksum_gen_factory(options, checksums);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
  put(db, "a", "1");
  flush(db);
  put(db, "b", "2");
  flush(db);
  named(db);
  put(db, "c", "3");
  options_of_logs(db);
  copied(db);
  logs(db);
  checks(db);
  sizes(db);
  batch(db, family);
  batch_of_a_transaction();
  ingestion();
  several_families(db, options);
  texts_and_choices();
  options_of_11_12();
  flushed_across_databases(argc > 1 ? argv[1] : NULL);
  kept_options();
  effective_options(db);
  filtered_logs(argc > 1 ? argv[1] : NULL);
  chosen_backups(db, argc > 1 ? argv[1] : NULL);
  chosen_transactions(argc > 1 ? argv[1] : NULL);
  with_metadata(db, family);
  stamped_with_metadata(argc > 1 ? argv[1] : NULL);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_close(db);
  rocksdb_file_checksum_gen_factory_destroy(checksums);
  rocksdb_options_destroy(options);
  free(path);
  end_threads();
  return 0;
}
