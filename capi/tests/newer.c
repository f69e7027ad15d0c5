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
  ingestion();
  texts_and_choices();
  options_of_11_12();
  with_metadata(db, family);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_close(db);
  rocksdb_file_checksum_gen_factory_destroy(checksums);
  rocksdb_options_destroy(options);
  free(path);
  end_threads();
  return 0;
}
