/* What reports of jobs say: of flushes and compactions to listeners, of named compactions to who asked. */
#define _DEFAULT_SOURCE /* usleep */
#include <unistd.h>

#include "check.h"

struct told {
  char table[512];
  int flushes, compactions, parts, ingestions;
  /* A flush does not begin while it is held, but at most 5 seconds later. */
  int held;
};

static void nothing(void* state) { (void)state; }

static void flush_began(void* state, rocksdb_t* db, const rocksdb_flushjobinfo_t* info) {
  (void)db;
  struct told* told = state;
  for (int i = 0; __atomic_load_n(&told->held, __ATOMIC_ACQUIRE); i++) {
    CHECK(i < 5000);
    usleep(1000);
  }
  CHECK(rocksdb_table_properties_num_entries(rocksdb_flushjobinfo_table_properties(info)) == 0);
}

static void flushed(void* state, rocksdb_t* db, const rocksdb_flushjobinfo_t* info) {
  (void)db;
  struct told* told = state;
  size_t len;
  CHECK(rocksdb_flushjobinfo_cf_id(info) == 0 && rocksdb_flushjobinfo_job_id(info) > 0);
  CHECK(rocksdb_flushjobinfo_thread_id(info) > 0 && rocksdb_flushjobinfo_file_number(info) > 0);
  CHECK(rocksdb_flushjobinfo_blob_compression_type(info) == rocksdb_no_compression);
  const rocksdb_table_properties_t* table = rocksdb_flushjobinfo_table_properties(info);
  CHECK(rocksdb_table_properties_orig_file_number(table) == rocksdb_flushjobinfo_file_number(info));
  CHECK(rocksdb_table_properties_num_entries(table) == 2 && rocksdb_table_properties_num_data_blocks(table) == 1);
  CHECK(rocksdb_table_properties_num_data_blocks_compression_bypassed(table) == 1); /* there is no codec */
  CHECK(rocksdb_table_properties_num_data_blocks_compression_rejected(table) == 0);
  CHECK(rocksdb_table_properties_data_size(table) > 0 && rocksdb_table_properties_index_size(table) > 0);
  CHECK(rocksdb_table_properties_num_deletions(table) == (uint64_t)told->flushes);
  CHECK(rocksdb_table_properties_has_key_smallest_seqno(table) && rocksdb_table_properties_has_key_largest_seqno(table));
  CHECK(rocksdb_table_properties_key_smallest_seqno(table) == rocksdb_flushjobinfo_smallest_seqno(info));
  CHECK(rocksdb_table_properties_key_largest_seqno(table) == rocksdb_flushjobinfo_largest_seqno(info));
  CHECK(rocksdb_table_properties_user_defined_timestamps_persisted(table) == 1);
  CHECK(same_at(rocksdb_table_properties_column_family_name(table, &len), &len, "default"));
  CHECK(same_at(rocksdb_table_properties_comparator_name(table, &len), &len, "leveldb.BytewiseComparator"));
  CHECK(rocksdb_table_properties_compression_name(table, &len) != NULL && len > 0);
  CHECK(rocksdb_table_properties_db_id(table, &len) != NULL && len > 0);
  size_t count = rocksdb_table_properties_user_collected_properties_count(table);
  CHECK(rocksdb_table_properties_user_collected_properties_key_at(table, count, &len) == NULL && len == 0);
  CHECK(rocksdb_table_properties_user_collected_properties_value_at(table, count, &len) == NULL && len == 0);

  CHECK(rocksdb_flushjobinfo_blob_file_addition_infos_count(info) == 1);
  const rocksdb_blob_file_addition_info_t* blob = rocksdb_flushjobinfo_blob_file_addition_info_at(info, 0);
  CHECK(rocksdb_blob_file_addition_info_total_blob_count(blob) == 2u - told->flushes);
  CHECK(rocksdb_blob_file_addition_info_total_blob_bytes(blob) > 0);
  uint64_t number = rocksdb_blob_file_addition_info_blob_file_number(blob);
  CHECK(number == rocksdb_flushjobinfo_oldest_blob_file_number(info));
  const char* path = rocksdb_blob_file_addition_info_blob_file_path(blob, &len);
  CHECK(len > 5 && memcmp(path + len - 5, ".blob", 5) == 0);
  __atomic_add_fetch(&told->flushes, 1, __ATOMIC_RELEASE);
}

/* What listeners are told of the compaction, and who asked for it. */
static void check_compaction(const rocksdb_compactionjobinfo_t* info, char table[512]) {
  size_t len;
  CHECK(rocksdb_compactionjobinfo_cf_id(info) == 0 && rocksdb_compactionjobinfo_job_id(info) > 0);
  CHECK(rocksdb_compactionjobinfo_thread_id(info) > 0 && !rocksdb_compactionjobinfo_aborted(info));
  CHECK(rocksdb_compactionjobinfo_num_l0_files(info) == 0);
  CHECK(rocksdb_compactionjobinfo_compression(info) == rocksdb_no_compression);
  CHECK(rocksdb_compactionjobinfo_blob_compression_type(info) == rocksdb_no_compression);
  CHECK(rocksdb_compactionjobinfo_input_file_infos_count(info) == 2);
  for (size_t i = 0; i < 2; i++) {
    const rocksdb_compaction_file_info_t* file = rocksdb_compactionjobinfo_input_file_info_at(info, i);
    CHECK(rocksdb_compaction_file_info_level(file) == 0 && rocksdb_compaction_file_info_file_number(file) > 0);
    CHECK(rocksdb_compaction_file_info_oldest_blob_file_number(file) > 0);
  }
  CHECK(rocksdb_compactionjobinfo_output_file_infos_count(info) == 1);
  const rocksdb_compaction_file_info_t* file = rocksdb_compactionjobinfo_output_file_info_at(info, 0);
  CHECK(rocksdb_compaction_file_info_level(file) == 1);

  CHECK(rocksdb_compactionjobinfo_blob_file_addition_infos_count(info) == 0);
  CHECK(rocksdb_compactionjobinfo_blob_file_garbage_infos_count(info) == 1);
  const rocksdb_blob_file_garbage_info_t* garbage = rocksdb_compactionjobinfo_blob_file_garbage_info_at(info, 0);
  CHECK(rocksdb_blob_file_garbage_info_garbage_blob_count(garbage) == 2);
  CHECK(rocksdb_blob_file_garbage_info_garbage_blob_bytes(garbage) > 0);
  CHECK(rocksdb_blob_file_garbage_info_blob_file_number(garbage) > 0);
  const char* blob = rocksdb_blob_file_garbage_info_blob_file_path(garbage, &len);
  CHECK(len > 5 && memcmp(blob + len - 5, ".blob", 5) == 0);

  /* The inputs, and after them the output. */
  CHECK(rocksdb_compactionjobinfo_table_properties_count(info) == 3);
  const char* path = rocksdb_compactionjobinfo_table_properties_key_at(info, 2, &len);
  CHECK(len > 4 && len < 512 && memcmp(path + len - 4, ".sst", 4) == 0);
  const rocksdb_table_properties_t* made = rocksdb_compactionjobinfo_table_properties_for_file(info, path, len);
  CHECK(made != NULL && made == rocksdb_compactionjobinfo_table_properties_value_at(info, 2));
  CHECK(rocksdb_table_properties_num_entries(made) == 1);
  memcpy(table, path, len);
  table[len] = 0;
  CHECK(rocksdb_compactionjobinfo_table_properties_for_file(info, path, len - 1) == NULL);
  CHECK(rocksdb_compactionjobinfo_table_properties_value_at(info, 3) == NULL);
  CHECK(rocksdb_compactionjobinfo_table_properties_key_at(info, 3, &len) == NULL && len == 0);

  const rocksdb_compaction_job_stats_t* stats = rocksdb_compactionjobinfo_stats(info);
  CHECK(rocksdb_compaction_job_stats_elapsed_micros(stats) == rocksdb_compactionjobinfo_elapsed_micros(info));
  CHECK(rocksdb_compaction_job_stats_has_accurate_num_input_records(stats));
  CHECK(rocksdb_compaction_job_stats_num_input_records(stats) == 4);
  CHECK(rocksdb_compaction_job_stats_num_input_deletion_records(stats) == 1);
  CHECK(rocksdb_compaction_job_stats_total_input_raw_key_bytes(stats) == 2 * (10 + 8) + 2 * (1 + 8));
  CHECK(rocksdb_compaction_job_stats_total_input_raw_value_bytes(stats) > 0); /* where the blobs are */
  CHECK(rocksdb_compaction_job_stats_num_blobs_read(stats) == 0);
  CHECK(rocksdb_compaction_job_stats_total_blob_bytes_read(stats) == 0);
  CHECK(rocksdb_compaction_job_stats_num_single_del_fallthru(stats) == 0);
  CHECK(rocksdb_compaction_job_stats_num_single_del_mismatch(stats) == 0);
  CHECK(rocksdb_compaction_job_stats_num_input_files(stats) == 2);
  CHECK(rocksdb_compaction_job_stats_num_input_files_at_output_level(stats) == 0);
  CHECK(rocksdb_compaction_job_stats_num_input_files_trivially_moved(stats) == 0);
  CHECK(rocksdb_compaction_job_stats_num_output_records(stats) == 1);
  CHECK(rocksdb_compaction_job_stats_num_output_files(stats) == 1);
  CHECK(rocksdb_compaction_job_stats_num_output_files_blob(stats) == 0);
  CHECK(rocksdb_compaction_job_stats_total_output_bytes_blob(stats) == 0);
  CHECK(rocksdb_compaction_job_stats_is_full_compaction(stats) && rocksdb_compaction_job_stats_is_manual_compaction(stats));
  CHECK(!rocksdb_compaction_job_stats_is_remote_compaction(stats));
  CHECK(rocksdb_compaction_job_stats_total_input_bytes(stats) > rocksdb_compaction_job_stats_total_output_bytes(stats));
  CHECK(rocksdb_compaction_job_stats_num_records_replaced(stats) == 2);
  CHECK(rocksdb_compaction_job_stats_num_expired_deletion_records(stats) == 1);
  CHECK(rocksdb_compaction_job_stats_num_corrupt_keys(stats) == 0);
  CHECK(same_at(rocksdb_compaction_job_stats_smallest_output_key_prefix(stats, &len), &len, "a long k"));
  CHECK(same_at(rocksdb_compaction_job_stats_largest_output_key_prefix(stats, &len), &len, "a long k"));
}

static void compaction_began(void* state, rocksdb_t* db, const rocksdb_compactionjobinfo_t* info) {
  (void)state, (void)db;
  CHECK(rocksdb_compactionjobinfo_output_file_infos_count(info) == 0);
  CHECK(rocksdb_compactionjobinfo_table_properties_count(info) == rocksdb_compactionjobinfo_input_file_infos_count(info));
}

static void compacted(void* state, rocksdb_t* db, const rocksdb_compactionjobinfo_t* info) {
  (void)db;
  struct told* told = state;
  check_compaction(info, told->table);
  told->compactions++;
}

static void part_began(void* state, const rocksdb_subcompactionjobinfo_t* info) { (void)state, (void)info; }

static void part_ended(void* state, const rocksdb_subcompactionjobinfo_t* info) {
  CHECK(rocksdb_subcompactionjobinfo_cf_id(info) == 0 && rocksdb_subcompactionjobinfo_job_id(info) > 0);
  CHECK(rocksdb_subcompactionjobinfo_subcompaction_job_id(info) == 0);
  CHECK(rocksdb_subcompactionjobinfo_compression(info) == rocksdb_no_compression);
  CHECK(rocksdb_subcompactionjobinfo_blob_compression_type(info) == rocksdb_no_compression);
  CHECK(rocksdb_compaction_job_stats_num_output_records(rocksdb_subcompactionjobinfo_stats(info)) == 1);
  ((struct told*)state)->parts++;
}

static void ingested(void* state, rocksdb_t* db, const rocksdb_externalfileingestioninfo_t* info) {
  (void)db;
  size_t len;
  const char* path = rocksdb_externalfileingestioninfo_external_file_path(info, &len);
  CHECK(len > 4 && memcmp(path + len - 4, ".ext", 4) == 0);
  CHECK(rocksdb_externalfileingestioninfo_global_seqno(info) > 0);
  CHECK(rocksdb_table_properties_num_entries(rocksdb_externalfileingestioninfo_table_properties(info)) == 1);
  ((struct told*)state)->ingestions++;
}

static void failed(void* state, uint32_t reason, rocksdb_status_ptr_t* status) {
  (void)state, (void)reason, (void)status;
}

static void stalled(void* state, const rocksdb_writestallinfo_t* info) { (void)state, (void)info; }

static void sealed(void* state, const rocksdb_memtableinfo_t* info) {
  (void)state;
  size_t len = 7;
  rocksdb_memtableinfo_newest_udt(info, &len);
  CHECK(len == 0);
}

static int destroyed;

static void filter_ends(void* state) {
  CHECK(state == &destroyed);
  destroyed++;
}

static unsigned char with_one_entry(void* state, const rocksdb_table_properties_t* table) {
  CHECK(state == &destroyed);
  return rocksdb_table_properties_num_entries(table) == 1;
}

static int entries(rocksdb_t* db, const rocksdb_readoptions_t* r) {
  int count = 0;
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, r);
  for (rocksdb_iter_seek_to_first(iter); rocksdb_iter_valid(iter); rocksdb_iter_next(iter)) count++;
  rocksdb_iter_destroy(iter);
  return count;
}

/* Tables are chosen by their properties. */
static void chosen(rocksdb_t* db) {
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  CHECK(!rocksdb_readoptions_has_table_filter(r) && entries(db, r) == 2);
  rocksdb_readoptions_set_table_filter(r, &destroyed, filter_ends, with_one_entry);
  CHECK(rocksdb_readoptions_has_table_filter(r) && entries(db, r) == 0);
  rocksdb_readoptions_clear_table_filter(r);
  CHECK(!rocksdb_readoptions_has_table_filter(r) && destroyed == 1 && entries(db, r) == 2);
  rocksdb_readoptions_set_table_filter(r, &destroyed, filter_ends, with_one_entry);
  rocksdb_readoptions_destroy(r);
  CHECK(destroyed == 2);
}

static size_t tables(rocksdb_t* db, const rocksdb_column_family_metadata_options_t* which) {
  rocksdb_column_family_metadata_t* found = rocksdb_get_column_family_metadata_with_options(db, which);
  if (which != NULL) {
    size_t levels = rocksdb_column_family_metadata_get_level_count(found);
    CHECK(levels == (rocksdb_column_family_metadata_get_file_count(found) > 0)); /* none that is empty */
  }
  size_t count = rocksdb_column_family_metadata_get_file_count(found);
  rocksdb_column_family_metadata_destroy(found);
  return count;
}

/* Tables are asked about by their keys and level. */
static void asked(rocksdb_t* db) {
  size_t len;
  rocksdb_column_family_metadata_options_t* which = rocksdb_column_family_metadata_options_create();
  CHECK(rocksdb_column_family_metadata_options_get_start_key(which, &len) == NULL && len == 0);
  CHECK(rocksdb_column_family_metadata_options_get_end_key(which, &len) == NULL && len == 0);
  CHECK(rocksdb_column_family_metadata_options_get_level(which) == -1);
  CHECK(tables(db, which) == 2 && tables(db, NULL) == 2);
  rocksdb_column_family_metadata_options_set_level(which, 1);
  CHECK(rocksdb_column_family_metadata_options_get_level(which) == 1 && tables(db, which) == 0);
  rocksdb_column_family_metadata_options_set_level(which, -1);
  rocksdb_column_family_metadata_options_set_start_key(which, "c", 1);
  CHECK(same_at(rocksdb_column_family_metadata_options_get_start_key(which, &len), &len, "c"));
  CHECK(tables(db, which) == 0);
  rocksdb_column_family_metadata_options_set_start_key(which, NULL, 0);
  rocksdb_column_family_metadata_options_set_end_key(which, "a", 1);
  CHECK(same_at(rocksdb_column_family_metadata_options_get_end_key(which, &len), &len, "a"));
  rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
  rocksdb_column_family_metadata_t* found = rocksdb_get_column_family_metadata_cf_with_options(db, family, which);
  CHECK(rocksdb_column_family_metadata_get_file_count(found) == 0);
  rocksdb_column_family_metadata_destroy(found);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_column_family_metadata_options_destroy(which);
}

static void single_delete(rocksdb_t* db, const char* key) {
  char* err = NULL;
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_singledelete(db, w, key, strlen(key), &err);
  CHECK_OK(err);
  rocksdb_writeoptions_destroy(w);
}

/* Compacts all tables into a level, and returns the report, which the caller frees. */
static rocksdb_compactionjobinfo_t* compact(rocksdb_t* db, int level) {
  char* err = NULL;
  const char* names[8];
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  int count = rocksdb_livefiles_count(files);
  CHECK(count <= 8);
  for (int i = 0; i < count; i++) names[i] = rocksdb_livefiles_name(files, i);
  rocksdb_compaction_options_t* how = rocksdb_compaction_options_create();
  rocksdb_compactionjobinfo_t* did = rocksdb_compactionjobinfo_create();
  rocksdb_compact_files(db, how, names, (size_t)count, level, -1, NULL, NULL, did, &err);
  CHECK_OK(err);
  rocksdb_compaction_options_destroy(how);
  rocksdb_livefiles_destroy(files);
  return did;
}

/* What compactions count of single deletions, and of blobs that they move. */
static void counted(const char* dir) {
  char* err = NULL;
  char* path = below(dir, "counted");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_disable_auto_compactions(options, 1);
  rocksdb_options_set_compression(options, rocksdb_no_compression);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  single_delete(db, "alone");
  single_delete(db, "twice");
  put(db, "kept", "a large value");
  flush(db);
  single_delete(db, "twice");
  put(db, "gone", NULL);
  flush(db);
  rocksdb_compactionjobinfo_t* did = compact(db, 1);
  const rocksdb_compaction_job_stats_t* stats = rocksdb_compactionjobinfo_stats(did);
  CHECK(rocksdb_compaction_job_stats_num_input_records(stats) == 5);
  CHECK(rocksdb_compaction_job_stats_num_input_deletion_records(stats) == 4);
  CHECK(rocksdb_compaction_job_stats_total_input_raw_key_bytes(stats) == 5 + 5 + 4 + 5 + 4 + 5 * 8);
  CHECK(rocksdb_compaction_job_stats_total_input_raw_value_bytes(stats) == 13);
  CHECK(rocksdb_compaction_job_stats_num_single_del_mismatch(stats) == 1);
  CHECK(rocksdb_compaction_job_stats_num_single_del_fallthru(stats) == 2);
  CHECK(rocksdb_compaction_job_stats_num_expired_deletion_records(stats) == 4);
  CHECK(rocksdb_compaction_job_stats_num_blobs_read(stats) == 0);
  CHECK(rocksdb_compaction_job_stats_file_write_nanos(stats) == 0);
  CHECK(rocksdb_compaction_job_stats_file_fsync_nanos(stats) == 0);
  rocksdb_compactionjobinfo_destroy(did);
  rocksdb_close(db);

  rocksdb_options_set_report_bg_io_stats(options, 1);
  rocksdb_options_set_enable_blob_files(options, 1);
  rocksdb_options_set_enable_blob_gc(options, 1);
  rocksdb_options_set_blob_gc_age_cutoff(options, 1.0);
  db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  put(db, "new", "also large");
  flush(db);
  did = compact(db, 2);
  stats = rocksdb_compactionjobinfo_stats(did);
  CHECK(rocksdb_compaction_job_stats_num_blobs_read(stats) == 1);
  /* A record has a header of 32 bytes. */
  CHECK(rocksdb_compaction_job_stats_total_blob_bytes_read(stats) == 32 + 3 + 10);
  CHECK(rocksdb_compaction_job_stats_file_write_nanos(stats) > 0);
  CHECK(rocksdb_compaction_job_stats_file_fsync_nanos(stats) > 0);
  CHECK(rocksdb_compaction_job_stats_file_range_sync_nanos(stats) == 0); /* nobody asked for it */
  CHECK(rocksdb_compaction_job_stats_file_prepare_write_nanos(stats) < 60ull * 1000 * 1000 * 1000);
  rocksdb_compactionjobinfo_destroy(did);
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  free(path);
}

static int began_early;

static void begins_early(void* state, rocksdb_t* db, const rocksdb_compactionjobinfo_t* info) {
  (void)state, (void)info;
  uint64_t running = 0;
  CHECK(db != NULL && rocksdb_property_int(db, "rocksdb.num-running-compactions", &running) == 0);
  CHECK(running == 1);
  __atomic_store_n(&began_early, 1, __ATOMIC_RELEASE);
}

/* The last line of the opening waits for the compaction, a second at most. */
static void delays_opening(void* state, unsigned level, char* line, size_t len) {
  (void)state, (void)level, (void)len;
  if (strstr(line, "DB pointer") == NULL) {
    return;
  }
  for (int i = 0; i < 1000 && !__atomic_load_n(&began_early, __ATOMIC_ACQUIRE); i++) {
    usleep(1000);
  }
}

/* A job that begins before the program has a handle of the database shows a handle that works. */
static void shown_early(const char* dir) {
  char* err = NULL;
  char* path = below(dir, "early");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_disable_auto_compactions(options, 1);
  rocksdb_options_set_level0_file_num_compaction_trigger(options, 2);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  for (int i = 0; i < 3; i++) {
    put(db, "a", "value");
    flush(db);
  }
  rocksdb_close(db);
  rocksdb_options_set_disable_auto_compactions(options, 0);
  rocksdb_options_add_eventlistener(options, rocksdb_eventlistener_create(NULL, nothing, NULL, NULL, begins_early, NULL,
                                                                          NULL, NULL, NULL, NULL, NULL, NULL));
  rocksdb_logger_t* logger = rocksdb_logger_create_callback_logger(0, delays_opening, NULL);
  rocksdb_options_set_info_log(options, logger);
  db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  for (int i = 0; !__atomic_load_n(&began_early, __ATOMIC_ACQUIRE); i++) {
    CHECK(i < 5000);
    usleep(1000);
  }
  rocksdb_close(db);
  rocksdb_logger_destroy(logger);
  rocksdb_options_destroy(options);
  free(path);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  shown_early(argv[1]);
  char* err = NULL;
  char* path = below(argv[1], "jobs");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_disable_auto_compactions(options, 1);
  rocksdb_options_set_compression(options, rocksdb_no_compression);
  rocksdb_options_set_enable_blob_files(options, 1);
  rocksdb_options_set_min_blob_size(options, 8);
  struct told told;
  memset(&told, 0, sizeof(told));
  rocksdb_options_add_eventlistener(
      options, rocksdb_eventlistener_create(&told, nothing, flush_began, flushed, compaction_began, compacted,
                                            part_began, part_ended, ingested, failed, stalled, sealed));
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  put(db, "a long key", "the first value");
  put(db, "b", "another value");
  flush(db);
  chosen(db);
  put(db, "a long key", "the second value");
  put(db, "b", NULL);
  /* A flush that need not wait once did nevertheless. */
  told.held = 1;
  rocksdb_flushoptions_t* at_once = rocksdb_flushoptions_create();
  rocksdb_flushoptions_set_wait(at_once, 0);
  rocksdb_flush(db, at_once, &err);
  CHECK_OK(err);
  CHECK(__atomic_load_n(&told.flushes, __ATOMIC_ACQUIRE) == 1);
  __atomic_store_n(&told.held, 0, __ATOMIC_RELEASE);
  rocksdb_flushoptions_destroy(at_once);
  for (int i = 0; __atomic_load_n(&told.flushes, __ATOMIC_ACQUIRE) < 2; i++) {
    CHECK(i < 5000);
    usleep(1000);
  }
  asked(db);

  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  CHECK(rocksdb_livefiles_count(files) == 2);
  const char* names[] = {rocksdb_livefiles_name(files, 0), rocksdb_livefiles_name(files, 1)};
  rocksdb_compaction_options_t* how = rocksdb_compaction_options_create();
  rocksdb_compactionjobinfo_t* did = rocksdb_compactionjobinfo_create();
  CHECK(rocksdb_compactionjobinfo_job_id(did) == 0 && rocksdb_compactionjobinfo_input_file_infos_count(did) == 0);
  const char* missing[] = {"999999.sst"};
  rocksdb_compact_files(db, how, missing, 1, 1, -1, NULL, NULL, did, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK(rocksdb_compactionjobinfo_job_id(did) == 0);
  char** made = NULL;
  size_t count = 0;
  rocksdb_compact_files(db, how, names, 2, 1, -1, &made, &count, did, &err);
  CHECK_OK(err);
  char table[512];
  check_compaction(did, table);
  CHECK(count == 1 && strcmp(made[0], table) == 0 && strcmp(told.table, table) == 0);
  rocksdb_compact_files_output_file_names_destroy(made, count);
  rocksdb_compactionjobinfo_destroy(did);
  rocksdb_compactionjobinfo_destroy(NULL);
  rocksdb_compaction_options_destroy(how);
  rocksdb_livefiles_destroy(files);

  char* outside = below(argv[1], "outside.ext");
  rocksdb_envoptions_t* env = rocksdb_envoptions_create();
  rocksdb_sstfilewriter_t* writer = rocksdb_sstfilewriter_create(env, options);
  rocksdb_sstfilewriter_open(writer, outside, &err);
  CHECK_OK(err);
  rocksdb_sstfilewriter_put(writer, "a long key", 10, "3", 1, &err);
  CHECK_OK(err);
  rocksdb_sstfilewriter_finish(writer, &err);
  CHECK_OK(err);
  rocksdb_sstfilewriter_destroy(writer);
  rocksdb_envoptions_destroy(env);
  const char* list[] = {outside};
  rocksdb_ingestexternalfileoptions_t* in = rocksdb_ingestexternalfileoptions_create();
  rocksdb_ingest_external_file(db, list, 1, in, &err);
  CHECK_OK(err);
  rocksdb_ingestexternalfileoptions_destroy(in);
  CHECK(told.flushes == 2 && told.compactions == 1 && told.parts == 1 && told.ingestions == 1);

  rocksdb_close(db);
  rocksdb_options_destroy(options);
  counted(argv[1]);
  free(outside);
  free(path);
  end_threads();
  return 0;
}
