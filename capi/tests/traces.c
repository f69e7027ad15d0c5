/* Traces of queries, their reader, and their replay; traces of the block cache and of I/O. */
#include "check.h"

static char* trace_path;

static void start(rocksdb_t* db, rocksdb_trace_options_t* options) {
  char* err = NULL;
  rocksdb_start_trace(db, NULL, NULL, options, trace_path, &err);
  CHECK_OK(err);
}

static void end(rocksdb_t* db) {
  char* err = NULL;
  rocksdb_end_trace(db, &err);
  CHECK_OK(err);
}

static void trace_options(void) {
  rocksdb_trace_options_t* options = rocksdb_trace_options_create();
  CHECK(rocksdb_trace_options_get_max_trace_file_size(options) == (uint64_t)64 << 30);
  CHECK(rocksdb_trace_options_get_sampling_frequency(options) == 1);
  CHECK(rocksdb_trace_options_get_filter(options) == rocksdb_trace_filter_none);
  CHECK(rocksdb_trace_options_get_preserve_write_order(options) == 0);
  rocksdb_trace_options_set_max_trace_file_size(options, 1 << 20);
  rocksdb_trace_options_set_sampling_frequency(options, 2);
  rocksdb_trace_options_set_filter(options, rocksdb_trace_filter_get | rocksdb_trace_filter_multi_get);
  rocksdb_trace_options_set_preserve_write_order(options, 1);
  CHECK(rocksdb_trace_options_get_max_trace_file_size(options) == 1 << 20);
  CHECK(rocksdb_trace_options_get_sampling_frequency(options) == 2);
  CHECK(rocksdb_trace_options_get_filter(options) == 17);
  CHECK(rocksdb_trace_options_get_preserve_write_order(options) == 1);
  rocksdb_trace_options_destroy(options);
  rocksdb_trace_options_destroy(NULL);

  rocksdb_replay_options_t* replay = rocksdb_replay_options_create();
  CHECK(rocksdb_replay_options_get_num_threads(replay) == 1);
  CHECK(rocksdb_replay_options_get_fast_forward(replay) == 1.0);
  rocksdb_replay_options_set_num_threads(replay, 3);
  rocksdb_replay_options_set_fast_forward(replay, 2.5);
  CHECK(rocksdb_replay_options_get_num_threads(replay) == 3);
  CHECK(rocksdb_replay_options_get_fast_forward(replay) == 2.5);
  rocksdb_replay_options_destroy(replay);
}

/* A write, a get, a seek and a batch of gets of `family`, with a header and an end. */
static void traced(rocksdb_t* db, rocksdb_column_family_handle_t* family) {
  char* err = NULL;
  rocksdb_end_trace(db, &err);
  CHECK_ERROR(err, "IO error: No trace file to close");
  start(db, NULL);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_put_cf(db, w, family, "a", 1, "1", 1, &err);
  CHECK_OK(err);
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  size_t len;
  rocksdb_free(rocksdb_get_cf(db, r, family, "a", 1, &len, &err));
  CHECK_OK(err);
  rocksdb_iterator_t* iter = rocksdb_create_iterator_cf(db, r, family);
  rocksdb_iter_seek(iter, "a", 1);
  CHECK(rocksdb_iter_valid(iter));
  rocksdb_iter_destroy(iter);
  const rocksdb_column_family_handle_t* families[] = {family, family};
  const char* keys[] = {"a", "b"};
  size_t sizes[] = {1, 1}, value_sizes[2];
  char *values[2], *errors[2];
  rocksdb_multi_get_cf(db, r, families, 2, keys, sizes, values, value_sizes, errors);
  CHECK(errors[0] == NULL && errors[1] == NULL && values[1] == NULL);
  rocksdb_free(values[0]);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  end(db);
}

static void read_records(void) {
  char* err = NULL;
  CHECK(rocksdb_trace_reader_create(NULL, NULL, trace_path, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: env must not be null");
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_trace_reader_t* reader = rocksdb_trace_reader_create(env, NULL, trace_path, &err);
  CHECK_OK(err);
  const unsigned char kinds[] = {1, 3, 4, 5, 13, 2};
  for (int round = 0; round < 2; round++) {
    size_t size;
    for (size_t i = 0; i < sizeof kinds; i++) {
      char* record = rocksdb_trace_reader_read(reader, &size, &err);
      CHECK_OK(err);
      CHECK(size >= 13 && (unsigned char)record[8] == kinds[i]);
      if (i == 0) {
        CHECK(memcmp(record + 13, "feedcafedeadbeef\tTrace Version: 0.2\t", 36) == 0);
      }
      rocksdb_free(record);
    }
    CHECK(rocksdb_trace_reader_read(reader, &size, &err) == NULL && size == 0);
    CHECK_OK(err);
    rocksdb_trace_reader_reset(reader, &err);
    CHECK_OK(err);
  }
  rocksdb_trace_reader_close(reader, &err);
  CHECK_OK(err);
  rocksdb_trace_reader_reset(reader, &err);
  CHECK_ERROR(err, "IO error: TraceReader is closed.");
  rocksdb_trace_reader_destroy(reader);
  rocksdb_env_destroy(env);
}

/* Replays the trace on `db` with a handle of `family`, or without one if it is null. */
static void replayed(rocksdb_t* db, rocksdb_column_family_handle_t* family, uint32_t threads, char** err) {
  rocksdb_replayer_t* replayer =
      rocksdb_new_default_replayer(db, family ? &family : NULL, family ? 1 : 0, NULL, NULL, trace_path, err);
  CHECK_OK(*err);
  rocksdb_replay_options_t* options = rocksdb_replay_options_create();
  rocksdb_replayer_replay(replayer, options, err);
  CHECK_ERROR(*err, "Result incomplete: ");
  CHECK(rocksdb_replayer_get_header_timestamp(replayer) == 0);
  rocksdb_replayer_prepare(replayer, err);
  CHECK_OK(*err);
  CHECK(rocksdb_replayer_get_header_timestamp(replayer) > 0);
  rocksdb_replay_options_set_fast_forward(options, 0);
  rocksdb_replayer_replay(replayer, options, err);
  CHECK_ERROR(*err, "Invalid argument: ");
  rocksdb_replay_options_set_fast_forward(options, 1e6);
  rocksdb_replay_options_set_num_threads(options, threads);
  rocksdb_replayer_replay(replayer, options, err);
  rocksdb_replay_options_destroy(options);
  rocksdb_replayer_destroy(replayer);
}

static rocksdb_t* open_copy(const char* path, rocksdb_column_family_handle_t** family) {
  char* err = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  *family = rocksdb_create_column_family(db, options, "other", &err);
  CHECK_OK(err);
  rocksdb_options_destroy(options);
  return db;
}

static uint64_t number(const unsigned char* bytes, int size) {
  uint64_t number = 0;
  for (int i = 0; i < size; i++) number |= (uint64_t)bytes[i] << 8 * i;
  return number;
}

/* The records of the trace after the header, each of which has a kind from `first` to `last`. */
static int count_records(unsigned char first, unsigned char last) {
  char* err = NULL;
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_trace_reader_t* reader = rocksdb_trace_reader_create(env, NULL, trace_path, &err);
  CHECK_OK(err);
  size_t size;
  unsigned char* header = (unsigned char*)rocksdb_trace_reader_read(reader, &size, &err);
  CHECK_OK(err);
  CHECK(size == 13 + 25 && header[8] == 1);
  CHECK(memcmp(header + 13, "\x10" "feedcafedeadbeef\x0b\0\0\0\x0c\0\0\0", 25) == 0);
  rocksdb_free(header);
  int count = 0;
  for (;;) {
    unsigned char* record = (unsigned char*)rocksdb_trace_reader_read(reader, &size, &err);
    CHECK_OK(err);
    if (record == NULL) break;
    CHECK(record[8] >= first && record[8] <= last);
    CHECK(number(record + 9, 4) == size - 13);
    rocksdb_free(record);
    count++;
  }
  rocksdb_trace_reader_destroy(reader);
  rocksdb_env_destroy(env);
  return count;
}

static void trace_lookup_options(void) {
  rocksdb_block_cache_trace_options_t* options = rocksdb_block_cache_trace_options_create();
  CHECK(rocksdb_block_cache_trace_options_get_sampling_frequency(options) == 1);
  rocksdb_block_cache_trace_options_set_sampling_frequency(options, 3);
  CHECK(rocksdb_block_cache_trace_options_get_sampling_frequency(options) == 3);
  rocksdb_block_cache_trace_options_destroy(options);
  rocksdb_block_cache_trace_options_destroy(NULL);
  rocksdb_block_cache_trace_writer_options_t* writer = rocksdb_block_cache_trace_writer_options_create();
  CHECK(rocksdb_block_cache_trace_writer_options_get_max_trace_file_size(writer) == (uint64_t)64 << 30);
  rocksdb_block_cache_trace_writer_options_set_max_trace_file_size(writer, 5);
  CHECK(rocksdb_block_cache_trace_writer_options_get_max_trace_file_size(writer) == 5);
  rocksdb_block_cache_trace_writer_options_destroy(writer);
  rocksdb_block_cache_trace_writer_options_destroy(NULL);
}

/* Reads the key "k" of a table `times` times. */
static void read_table(rocksdb_t* db, int times) {
  char* err = NULL;
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  for (int i = 0; i < times; i++) {
    size_t len;
    rocksdb_free(rocksdb_get(db, r, "k", 1, &len, &err));
    CHECK_OK(err);
    CHECK(len == 1);
  }
  rocksdb_readoptions_destroy(r);
}

static void lookups(rocksdb_t* db) {
  char* err = NULL;
  rocksdb_end_block_cache_trace(db, &err);
  CHECK_OK(err);
  rocksdb_start_block_cache_trace(db, NULL, NULL, NULL, trace_path, &err);
  CHECK_OK(err);
  rocksdb_start_block_cache_trace(db, NULL, NULL, NULL, trace_path, &err);
  CHECK_ERROR(err, "Resource busy: ");
  rocksdb_start_block_cache_trace_with_options(db, NULL, NULL, NULL, NULL, trace_path, &err);
  CHECK_ERROR(err, "Resource busy: ");
  read_table(db, 7);
  rocksdb_end_block_cache_trace(db, &err);
  CHECK_OK(err);
  read_table(db, 1);
  CHECK(count_records(7, 11) == 7);

  /* The header alone exceeds the limit. */
  rocksdb_block_cache_trace_writer_options_t* writer = rocksdb_block_cache_trace_writer_options_create();
  rocksdb_block_cache_trace_writer_options_set_max_trace_file_size(writer, 5);
  rocksdb_start_block_cache_trace_with_options(db, NULL, NULL, NULL, writer, trace_path, &err);
  CHECK_OK(err);
  read_table(db, 7);
  rocksdb_end_block_cache_trace(db, &err);
  CHECK_OK(err);
  CHECK(count_records(7, 11) == 0);
  rocksdb_block_cache_trace_writer_options_destroy(writer);

  /* All lookups of the block, or none. */
  rocksdb_block_cache_trace_options_t* options = rocksdb_block_cache_trace_options_create();
  rocksdb_block_cache_trace_options_set_sampling_frequency(options, 2);
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_start_block_cache_trace_with_options(db, env, NULL, options, NULL, trace_path, &err);
  CHECK_OK(err);
  read_table(db, 7);
  rocksdb_end_block_cache_trace(db, &err);
  CHECK_OK(err);
  int count = count_records(7, 11);
  CHECK(count == 0 || count == 7);
  rocksdb_env_destroy(env);
  rocksdb_block_cache_trace_options_destroy(options);
}

static void file_operations(rocksdb_t* db) {
  char* err = NULL;
  rocksdb_end_io_trace(db, &err);
  CHECK_OK(err);
  rocksdb_start_io_trace(db, NULL, NULL, NULL, trace_path, &err);
  CHECK_OK(err);
  rocksdb_start_io_trace(db, NULL, NULL, NULL, trace_path, &err);
  CHECK_ERROR(err, "Resource busy: ");
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_put(db, w, "x", 1, "1", 1, &err);
  CHECK_OK(err);
  rocksdb_end_io_trace(db, &err);
  CHECK_OK(err);
  CHECK(count_records(12, 12) >= 1);

  rocksdb_trace_options_t* options = rocksdb_trace_options_create();
  rocksdb_trace_options_set_sampling_frequency(options, 1000);
  rocksdb_start_io_trace(db, NULL, NULL, options, trace_path, &err);
  CHECK_OK(err);
  for (int i = 0; i < 10; i++) {
    rocksdb_put(db, w, "x", 1, "1", 1, &err);
    CHECK_OK(err);
  }
  rocksdb_end_io_trace(db, &err);
  CHECK_OK(err);
  CHECK(count_records(12, 12) == 0);
  rocksdb_trace_options_destroy(options);
  rocksdb_start_io_trace(db, NULL, NULL, NULL, "/nowhere/io.trace", &err);
  CHECK_ERROR(err, "IO error: ");
  rocksdb_writeoptions_destroy(w);
}

/* Traces of a database with one table, which are ended when it is closed. */
static void lookups_and_file_operations(const char* path) {
  char* err = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_put(db, w, "k", 1, "v", 1, &err);
  CHECK_OK(err);
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &err);
  CHECK_OK(err);
  lookups(db);
  file_operations(db);
  rocksdb_start_block_cache_trace(db, NULL, NULL, NULL, trace_path, &err);
  CHECK_OK(err);
  read_table(db, 4);
  rocksdb_flushoptions_destroy(flush);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(options);
  rocksdb_close(db);
  CHECK(count_records(7, 11) == 4);
}

int main(int argc, char** argv) {
  char* err = NULL;
  const char* dir = argc > 1 ? argv[1] : NULL;
  trace_path = below(dir, "queries.trace");
  char* path = below(dir, "traces");
  char* copy_path = below(dir, "traces_copy");
  trace_options();
  trace_lookup_options();
  char* lookup_path = below(dir, "traces_lookups");
  lookups_and_file_operations(lookup_path);
  free(lookup_path);
  rocksdb_column_family_handle_t *family, *copied;
  rocksdb_t* db = open_copy(path, &family);
  rocksdb_t* copy = open_copy(copy_path, &copied);
  traced(db, family);
  read_records();
  for (uint32_t threads = 0; threads < 3; threads++) {
    replayed(copy, copied, threads, &err);
    CHECK_OK(err);
    rocksdb_readoptions_t* r = rocksdb_readoptions_create();
    size_t len;
    char* value = rocksdb_get_cf(copy, r, copied, "a", 1, &len, &err);
    CHECK_OK(err);
    CHECK(same(value, len, "1"));
    rocksdb_free(value);
    rocksdb_readoptions_destroy(r);
    /* The get is of a family without a handle. */
    replayed(copy, NULL, threads, &err);
    CHECK_ERROR(err, "Corruption: Invalid Column Family ID.");
  }
  CHECK(rocksdb_new_default_replayer(copy, NULL, 1, NULL, NULL, trace_path, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: column_families must not be null");
  CHECK(rocksdb_new_default_replayer(copy, NULL, 0, NULL, NULL, copy_path, &err) == NULL);
  CHECK_ERROR(err, "IO error: ");
  /* A trace that is not ended is ended when the database is closed. */
  start(db, NULL);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_close(db);
  replayed(copy, copied, 1, &err);
  CHECK_OK(err);
  rocksdb_column_family_handle_destroy(copied);
  rocksdb_close(copy);
  free(trace_path);
  free(path);
  free(copy_path);
  end_threads();
  return 0;
}
