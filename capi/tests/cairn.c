/* What cairn/c.h has: wide columns, ingestion into several families, background errors, damaged
   tables, pools of a cache, tiers below it, copies of read options. */
#include <cairn/c.h>
#include <signal.h>
#include <sys/resource.h>

#include "check.h"

static const size_t sizes_2[] = {1, 1};

static void entities(rocksdb_t* db, rocksdb_column_family_handle_t* stones, rocksdb_options_t* options,
                     rocksdb_readoptions_t* r, rocksdb_writeoptions_t* w, const char* dir) {
  char* err = NULL;
  size_t len = 0;
  /* In any order; the default column has the empty name. */
  const char* names[] = {"b", ""};
  const size_t name_sizes[] = {1, 0};
  const char* values[] = {"2", "1"};
  cairn_put_entity(db, w, NULL, "e1", 2, 2, names, name_sizes, values, sizes_2, &err);
  CHECK_OK(err);
  cairn_put_entity(db, w, stones, "e1", 2, 1, names, name_sizes, values, sizes_2, &err);
  CHECK_OK(err);
  const char* twice[] = {"b", "b"};
  cairn_put_entity(db, w, NULL, "e9", 2, 2, twice, sizes_2, values, sizes_2, &err);
  CHECK_ERROR(err, "Corruption: ");
  CHECK_GET(db, r, "e1", "1");

  cairn_columns_t* columns = cairn_get_entity(db, r, NULL, "e1", 2, &err);
  CHECK_OK(err);
  CHECK(cairn_columns_count(columns) == 2);
  CHECK(same_at(cairn_columns_name(columns, 0, &len), &len, ""));
  CHECK(same_at(cairn_columns_name(columns, 1, &len), &len, "b"));
  CHECK(same_at(cairn_columns_value(columns, 1, &len), &len, "2"));
  CHECK(same_at(cairn_columns_get(columns, "b", 1, &len), &len, "2"));
  CHECK(cairn_columns_get(columns, "c", 1, &len) == NULL && len == 0);
  cairn_columns_destroy(columns);
  CHECK(cairn_get_entity(db, r, stones, "none", 4, &err) == NULL && err == NULL);

  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  cairn_writebatch_put_entity(batch, NULL, "e2", 2, 2, names, name_sizes, values, sizes_2);
  cairn_writebatch_put_entity(batch, stones, "e2", 2, 1, names, name_sizes, values, sizes_2);
  rocksdb_writebatch_put(batch, "e3", 2, "plain", 5);
  CHECK(rocksdb_writebatch_count(batch) == 3);
  rocksdb_write(db, w, batch, &err);
  CHECK_OK(err);
  rocksdb_writebatch_destroy(batch);

  char* path = below(dir, "entity.sst");
  rocksdb_envoptions_t* env = rocksdb_envoptions_create();
  rocksdb_sstfilewriter_t* writer = rocksdb_sstfilewriter_create(env, options);
  rocksdb_sstfilewriter_open(writer, path, &err);
  CHECK_OK(err);
  cairn_sstfilewriter_put_entity(writer, "e4", 2, 2, names, name_sizes, values, sizes_2, &err);
  CHECK_OK(err);
  rocksdb_sstfilewriter_finish(writer, &err);
  CHECK_OK(err);
  rocksdb_sstfilewriter_destroy(writer);
  rocksdb_envoptions_destroy(env);
  rocksdb_ingestexternalfileoptions_t* in = rocksdb_ingestexternalfileoptions_create();
  const char* list[] = {path};
  rocksdb_ingest_external_file(db, list, 1, in, &err);
  CHECK_OK(err);
  rocksdb_ingestexternalfileoptions_destroy(in);
  free(path);

  const size_t counts[] = {2, 2, 1, 2};
  size_t at = 0;
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, r);
  CHECK(cairn_iter_columns(iter) == NULL);
  for (rocksdb_iter_seek_to_first(iter); rocksdb_iter_valid(iter); rocksdb_iter_next(iter)) {
    columns = cairn_iter_columns(iter);
    CHECK(at < 4 && cairn_columns_count(columns) == counts[at]);
    cairn_columns_destroy(columns);
    at++;
  }
  CHECK(at == 4);
  rocksdb_iter_destroy(iter);

  rocksdb_column_family_handle_t* families[] = {NULL, stones, stones};
  const char* keys[] = {"e1", "e1", "none"};
  const size_t key_sizes[] = {2, 2, 4};
  cairn_columns_t* found[3];
  char* errs[3];
  cairn_multi_get_entity(db, r, families, 3, keys, key_sizes, found, errs);
  CHECK(cairn_columns_count(found[0]) == 2 && cairn_columns_count(found[1]) == 1 && found[2] == NULL);
  CHECK(errs[0] == NULL && errs[1] == NULL && errs[2] == NULL);
  cairn_columns_destroy(found[0]);
  cairn_columns_destroy(found[1]);
  cairn_multi_get_entity(db, r, NULL, 1, keys, key_sizes, found, errs);
  CHECK(cairn_columns_count(found[0]) == 2);
  cairn_columns_destroy(found[0]);
}

/* A read of operands that ends at the operand `stop`, counted from the newest, and calls the database. */
struct ending {
  rocksdb_t* db;
  rocksdb_readoptions_t* r;
  int calls, stop;
  size_t bytes;
};

static unsigned char goes_on(void* state, const char* operand, size_t len) {
  struct ending* ending = state;
  CHECK(len == 0 || operand[0] == '1' + ending->calls);
  ending->bytes += len;
  CHECK_GET(ending->db, ending->r, "none", NULL);
  return ++ending->calls != ending->stop;
}

/* Operands of tables and of the memtable, with a function; one of them outlives the database. */
static void ended_operands(const char* dir) {
  char* err = NULL;
  size_t len = 0, number = 99;
  char* path = below(dir, "operands");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_uint64add_merge_operator(options);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  const char* all[] = {"base", "3.......", "2.......", "1......."};
  rocksdb_put(db, w, "m", 1, all[0], 4, &err);
  for (int i = 1; i < 4; i++) {
    rocksdb_flush(db, f, &err);
    rocksdb_merge(db, w, "m", 1, all[i], 8, &err);
  }
  CHECK_OK(err);
  for (int stop = 0; stop < 5; stop++) {
    struct ending ending = {db, r, 0, stop, 0};
    int some = stop > 0 && stop < 4;
    cairn_operands_t* operands =
        cairn_get_merge_operands_with(db, r, NULL, "m", 1, 9, goes_on, &ending, &number, &err);
    CHECK_OK(err);
    CHECK(ending.calls == (some ? stop : 3) && ending.bytes == 8 * (size_t)ending.calls);
    CHECK(number == (size_t)(some ? stop : 4) && cairn_operands_count(operands) == number);
    for (size_t i = 0; i < number; i++) {
      CHECK(same_at(cairn_operands_get(operands, i, &len), &len, all[4 - number + i]));
    }
    cairn_operands_destroy(operands);
  }
  CHECK(cairn_get_merge_operands_with(db, r, NULL, "m", 1, 0, NULL, NULL, &number, &err) == NULL);
  CHECK_ERROR(err, "Result incomplete: ");
  CHECK(number == 4);
  cairn_operands_t* none = cairn_get_merge_operands_with(db, r, NULL, "none", 4, 0, NULL, NULL, &number, &err);
  CHECK_OK(err);
  CHECK(number == 0 && cairn_operands_count(none) == 0);
  cairn_operands_destroy(none);
  cairn_operands_t* operands = cairn_get_merge_operands_with(db, r, NULL, "m", 1, 4, NULL, NULL, NULL, &err);
  CHECK_OK(err);
  rocksdb_pinnableslice_t* oldest = cairn_operands_pin(operands, 0);
  rocksdb_pinnableslice_t* newest = cairn_operands_pin(operands, 3);
  cairn_operands_destroy(operands);
  rocksdb_close(db);
  CHECK(same_at(rocksdb_pinnableslice_value(oldest, &len), &len, all[0]));
  rocksdb_pinnableslice_destroy(oldest);
  CHECK(same_at(rocksdb_pinnableslice_value(newest, &len), &len, all[3]));
  rocksdb_pinnableslice_destroy(newest);
  rocksdb_flushoptions_destroy(f);
  rocksdb_writeoptions_destroy(w);
  rocksdb_readoptions_destroy(r);
  rocksdb_options_destroy(options);
  free(path);
}

static void operands(rocksdb_t* db, rocksdb_readoptions_t* r, rocksdb_writeoptions_t* w) {
  char* err = NULL;
  size_t len = 0;
  rocksdb_put(db, w, "m", 1, "base", 4, &err);
  rocksdb_merge(db, w, "m", 1, "one", 3, &err);
  CHECK_OK(err);
  cairn_operands_t* operands = cairn_get_merge_operands(db, r, NULL, "m", 1, 2, &err);
  CHECK_OK(err);
  CHECK(cairn_operands_count(operands) == 2);
  CHECK(same_at(cairn_operands_get(operands, 0, &len), &len, "base"));
  CHECK(same_at(cairn_operands_get(operands, 1, &len), &len, "one"));
  cairn_operands_destroy(operands);
  CHECK(cairn_get_merge_operands(db, r, NULL, "m", 1, 1, &err) == NULL);
  CHECK_ERROR(err, "Result incomplete: Insufficient capacity for merge operands");
  rocksdb_delete(db, w, "m", 1, &err);
  CHECK_OK(err);
}

/* A table of `count` keys that begin with `key`, below `dir`. */
static char* table(rocksdb_options_t* options, const char* dir, const char* name, const char* key, int count) {
  char* err = NULL;
  char* path = below(dir, name);
  rocksdb_envoptions_t* env = rocksdb_envoptions_create();
  rocksdb_sstfilewriter_t* writer = rocksdb_sstfilewriter_create(env, options);
  rocksdb_sstfilewriter_open(writer, path, &err);
  CHECK_OK(err);
  for (int i = 0; i < count; i++) {
    char text[32];
    int len = snprintf(text, sizeof text, "%s%03d", key, i);
    rocksdb_sstfilewriter_put(writer, text, (size_t)len, text, (size_t)len, &err);
    CHECK_OK(err);
  }
  rocksdb_sstfilewriter_finish(writer, &err);
  CHECK_OK(err);
  rocksdb_sstfilewriter_destroy(writer);
  rocksdb_envoptions_destroy(env);
  return path;
}

static void several_families(rocksdb_t* db, rocksdb_column_family_handle_t* stones, rocksdb_options_t* options,
                             rocksdb_readoptions_t* r, const char* dir) {
  char* err = NULL;
  char* first = table(options, dir, "first.sst", "f", 2);
  char* second = table(options, dir, "second.sst", "s", 2);
  rocksdb_ingestexternalfileoptions_t* in = rocksdb_ingestexternalfileoptions_create();
  rocksdb_column_family_handle_t* families[] = {NULL, stones};
  const rocksdb_ingestexternalfileoptions_t* each[] = {in, in};
  const char* missing[] = {"/no/such/table.sst"};
  const char* one[] = {first};
  const char* two[] = {second};
  const size_t counts[] = {1, 1};
  const char* const* bad[] = {one, missing};
  cairn_ingest_external_files(db, 2, families, bad, counts, each, &err);
  CHECK_ERROR(err, "IO error: ");
  CHECK_GET(db, r, "f000", NULL);
  const char* const* good[] = {one, two};
  cairn_ingest_external_files(db, 2, families, good, counts, each, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "f000", "f000");
  size_t len;
  char* value = rocksdb_get_cf(db, r, stones, "s001", 4, &len, &err);
  CHECK(same(value, len, "s001"));
  rocksdb_free(value);
  rocksdb_ingestexternalfileoptions_destroy(in);
  free(first);
  free(second);
}

static void caches(rocksdb_t* db, rocksdb_cache_t* cache, rocksdb_readoptions_t* r) {
  CHECK(cairn_cache_get_role_usage(cache, "no such role") == 0);
  /* The table lies in a file: reading it puts a block into the cache. */
  CHECK_GET(db, r, "f001", "f001");
  CHECK(cairn_cache_get_role_usage(cache, "DataBlock") > 0);
  CHECK(cairn_cache_get_role_usage(cache, "DataBlock") <= rocksdb_cache_get_usage(cache));

  rocksdb_readoptions_set_iterate_upper_bound(r, "f001", 4);
  rocksdb_readoptions_t* copy = cairn_readoptions_create_copy(r);
  rocksdb_readoptions_set_iterate_upper_bound(r, NULL, 0);
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, copy);
  rocksdb_iter_seek_to_last(iter);
  size_t len;
  CHECK(same_at(rocksdb_iter_key(iter, &len), &len, "f000"));
  rocksdb_iter_destroy(iter);
  rocksdb_readoptions_destroy(copy);
}

/* A log that cannot grow stops writes, until the database is resumed. */
static void background_errors(rocksdb_t* db, rocksdb_readoptions_t* r, rocksdb_writeoptions_t* w) {
  char* err = NULL;
  CHECK(cairn_background_error(db) == NULL);
  cairn_resume(db, &err);
  CHECK_OK(err);

  struct rlimit before;
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
  struct rlimit small = before;
  small.rlim_cur = 1 << 16;
  signal(SIGXFSZ, SIG_IGN);
  CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
  char* large = calloc(1, 1 << 18);
  rocksdb_put(db, w, "large", 5, large, 1 << 18, &err);
  CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
  free(large);
  CHECK_ERROR(err, "IO error: ");
  rocksdb_put(db, w, "k", 1, "v", 1, &err);
  CHECK_ERROR(err, "IO error: ");

  cairn_background_error_t* state = cairn_background_error(db);
  CHECK(state != NULL);
  CHECK(cairn_background_error_severity(state) == cairn_severity_hard);
  /* The number that RocksDB's listeners get for an error of a write. */
  CHECK(cairn_background_error_reason(state) == 2);
  CHECK(strncmp(cairn_background_error_text(state), "IO error: ", 10) == 0);
  CHECK_GET(db, r, "f000", "f000");

  cairn_resume(db, &err);
  CHECK_OK(err);
  CHECK(cairn_background_error(db) == NULL);
  rocksdb_put(db, w, "k", 1, "v", 1, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "k", "v");
  /* The description outlives the error. */
  CHECK(cairn_background_error_text(state) != NULL);
  cairn_background_error_destroy(state);
}

/* A table with zeros where its first block was leaves the database, which is whole without it. */
static void damage(const char* dir, rocksdb_options_t* options, rocksdb_readoptions_t* r, rocksdb_writeoptions_t* w) {
  char* err = NULL;
  char* path = below(dir, "damaged");
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_put(db, w, "a", 1, "one", 3, &err);
  rocksdb_put(db, w, "b", 1, "two", 3, &err);
  CHECK_OK(err);
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush(db, f, &err);
  CHECK_OK(err);
  rocksdb_flushoptions_destroy(f);
  cairn_damaged_tables_t* none = cairn_damaged_tables(db);
  CHECK(cairn_damaged_tables_count(none) == 0);
  cairn_damaged_tables_destroy(none);
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  char* name = below(path, rocksdb_livefiles_name(files, 0) + 1);
  rocksdb_livefiles_destroy(files);
  CHECK(cairn_quarantine(options, path, 0, NULL, NULL, &err) == NULL);
  CHECK_ERROR(err, "IO error: ");
  rocksdb_close(db);

  FILE* file = fopen(name, "r+b");
  CHECK(file != NULL);
  const char zeros[16] = {0};
  CHECK(fwrite(zeros, 1, sizeof zeros, file) == sizeof zeros && fclose(file) == 0);
  free(name);

  cairn_damaged_tables_t* lost = cairn_quarantine(options, path, 0, NULL, NULL, &err);
  CHECK_OK(err);
  CHECK(cairn_damaged_tables_count(lost) == 1 && !cairn_damaged_tables_rebuilt(lost));
  CHECK(strstr(cairn_damaged_tables_path(lost, 0), "/lost/") != NULL);
  CHECK(strcmp(cairn_damaged_tables_column_family(lost, 0), "default") == 0);
  CHECK(cairn_damaged_tables_level(lost, 0) == 0);
  CHECK(strlen(cairn_damaged_tables_reason(lost, 0)) > 0);
  size_t len;
  CHECK(same_at(cairn_damaged_tables_smallestkey(lost, 0, &len), &len, "a"));
  CHECK(same_at(cairn_damaged_tables_largestkey(lost, 0, &len), &len, "b"));
  cairn_damaged_tables_destroy(lost);

  lost = cairn_repair(options, path, 0, NULL, NULL, &err);
  CHECK_OK(err);
  CHECK(cairn_damaged_tables_count(lost) == 0);
  cairn_damaged_tables_destroy(lost);
  db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "a", NULL);
  rocksdb_close(db);
  free(path);
}

/* One number for the memory of two databases. */
static void budgets(const char* dir) {
  char* err = NULL;
  CHECK(cairn_memory_budget_create(1000, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: a memory budget of 1000 bytes is too small; the smallest is ");
  size_t smallest = cairn_memory_budget_get_smallest();
  cairn_memory_budget_t* budget = cairn_memory_budget_create(2 * smallest, &err);
  CHECK_OK(err);
  CHECK(cairn_memory_budget_get_bytes(budget) == 2 * smallest);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  cairn_options_set_memory_budget(options, budget);
  rocksdb_t* dbs[2];
  for (int n = 0; n < 2; n++) {
    char* path = below(dir, n == 0 ? "budget0" : "budget1");
    dbs[n] = rocksdb_open(options, path, &err);
    CHECK_OK(err);
    free(path);
  }
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_put(dbs[0], w, "key", 3, "value", 5, &err);
  CHECK_OK(err);
  rocksdb_put(dbs[1], w, "key", 3, "value", 5, &err);
  CHECK_OK(err);
  rocksdb_cache_t* cache = cairn_memory_budget_get_cache(budget);
  CHECK(rocksdb_cache_get_capacity(cache) < 2 * smallest);
  rocksdb_write_buffer_manager_t* buffers = cairn_memory_budget_get_write_buffer_manager(budget);
  CHECK(rocksdb_write_buffer_manager_memory_usage(buffers) > 0);
  CHECK(rocksdb_write_buffer_manager_buffer_size(buffers) < rocksdb_cache_get_capacity(cache));
  cairn_memory_budget_set_bytes(budget, smallest, &err);
  CHECK_OK(err);
  CHECK(rocksdb_cache_get_capacity(cache) < smallest);
  cairn_memory_budget_set_bytes(budget, smallest - 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_cache_destroy(cache);
  rocksdb_write_buffer_manager_destroy(buffers);
  cairn_memory_budget_destroy(budget);
  rocksdb_close(dbs[0]);
  rocksdb_close(dbs[1]);
  rocksdb_writeoptions_destroy(w);
  cairn_options_set_memory_budget(options, NULL);
  rocksdb_options_destroy(options);
  budget = cairn_memory_budget_create_automatic(&err);
  CHECK_OK(err);
  CHECK(cairn_memory_budget_get_bytes(budget) >= smallest);
  cairn_memory_budget_destroy(budget);
}

/* A cache of 16 KiB above compressed memory, above flash, for a database of 400 KiB. */
static void tiers(const char* dir, rocksdb_readoptions_t* r, rocksdb_writeoptions_t* w) {
  char* err = NULL;
  char* path = below(dir, "tiered");
  char* flash_path = below(dir, "flash");
  rocksdb_env_t* env = rocksdb_create_default_env();
  CHECK(cairn_cache_tier_open_flash(env, flash_path, 1, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: capacity of the flash cache");
  CHECK(cairn_cache_tier_create_compressed(1 << 20, 99, NULL, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: 99 is not the number of a codec");
  cairn_cache_tier_t* flash = cairn_cache_tier_open_flash(env, flash_path, 16 << 20, &err);
  CHECK_OK(err);
  cairn_cache_tier_t* compressed =
      cairn_cache_tier_create_compressed(1 << 20, rocksdb_no_compression, flash, &err);
  CHECK_OK(err);
  cairn_cache_tier_destroy(compressed);
  compressed = cairn_cache_tier_create_compressed(1 << 20, rocksdb_no_compression, NULL, &err);
  CHECK_OK(err);
  CHECK(cairn_cache_tier_get_capacity(compressed) == 1 << 20);
  rocksdb_lru_cache_options_t* caching = rocksdb_lru_cache_options_create();
  rocksdb_lru_cache_options_set_capacity(caching, 16 << 10);
  rocksdb_lru_cache_options_set_num_shard_bits(caching, 0);
  cairn_lru_cache_options_set_tier(caching, compressed);
  rocksdb_cache_t* cache = rocksdb_cache_create_lru_opts(caching);
  rocksdb_lru_cache_options_destroy(caching);
  cairn_cache_set_compressed_secondary_ratio(cache, 0.5, &err);
  CHECK_ERROR(err, "Invalid argument: the cache shares its capacity with no compressed tier");

  rocksdb_block_based_table_options_t* tables = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_cache(tables, cache);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_block_based_table_factory(options, tables);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  char key[16], value[200];
  memset(value, 'v', sizeof value);
  for (int n = 0; n < 2000; n++) {
    snprintf(key, sizeof key, "k%06d", n);
    rocksdb_put(db, w, key, 7, value, sizeof value, &err);
    CHECK_OK(err);
  }
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &err);
  CHECK_OK(err);
  rocksdb_flushoptions_destroy(flush);
  for (int round = 0; round < 4; round++) {
    for (int n = 0; n < 2000; n++) {
      snprintf(key, sizeof key, "k%06d", n);
      size_t len = 0;
      char* found = rocksdb_get(db, r, key, 7, &len, &err);
      CHECK_OK(err);
      CHECK(found != NULL && len == sizeof value);
      rocksdb_free(found);
    }
  }
  CHECK(cairn_cache_tier_get_hits(compressed) > 0);
  CHECK(cairn_cache_tier_get_occupancy_count(compressed) > 0);
  CHECK(cairn_cache_tier_get_usage(compressed) <= 1 << 20);
  cairn_cache_tier_set_capacity(compressed, 0);
  CHECK(cairn_cache_tier_get_occupancy_count(compressed) == 0);
  rocksdb_close(db);
  rocksdb_cache_destroy(cache);

  /* One capacity for both. */
  rocksdb_hyper_clock_cache_options_t* clock = rocksdb_hyper_clock_cache_options_create(8 << 20, 0);
  cairn_hyper_clock_cache_options_set_tier(clock, compressed);
  cairn_hyper_clock_cache_options_set_compressed_secondary_ratio(clock, 0.25);
  cache = rocksdb_cache_create_hyper_clock_opts(clock);
  rocksdb_hyper_clock_cache_options_destroy(clock);
  CHECK(cairn_cache_tier_get_capacity(compressed) == 2 << 20);
  cairn_cache_set_compressed_secondary_ratio(cache, 0.5, &err);
  CHECK_OK(err);
  CHECK(cairn_cache_tier_get_capacity(compressed) == 4 << 20);

  rocksdb_options_destroy(options);
  rocksdb_block_based_options_destroy(tables);
  rocksdb_cache_destroy(cache);
  cairn_cache_tier_destroy(compressed);
  cairn_cache_tier_destroy(flash);
  rocksdb_env_destroy(env);
  free(flash_path);
  free(path);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  char* err = NULL;
  char* path = below(argv[1], "db");
  rocksdb_lru_cache_options_t* pools = rocksdb_lru_cache_options_create();
  rocksdb_lru_cache_options_set_capacity(pools, 1 << 20);
  cairn_lru_cache_options_set_high_pri_pool_ratio(pools, 0.25);
  cairn_lru_cache_options_set_low_pri_pool_ratio(pools, 0.5);
  cairn_lru_cache_options_set_strict_capacity_limit(pools, 0);
  rocksdb_cache_t* cache = rocksdb_cache_create_lru_opts(pools);
  rocksdb_lru_cache_options_destroy(pools);
  rocksdb_block_based_table_options_t* tables = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_block_cache(tables, cache);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_block_based_table_factory(options, tables);
  rocksdb_options_set_uint64add_merge_operator(options);
  /* No way out of an error but the program's. */
  rocksdb_options_set_max_bgerror_resume_count(options, 0);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_column_family_handle_t* stones = rocksdb_create_column_family(db, options, "stones", &err);
  CHECK_OK(err);
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();

  entities(db, stones, options, r, w, argv[1]);
  operands(db, r, w);
  ended_operands(argv[1]);
  several_families(db, stones, options, r, argv[1]);
  caches(db, cache, r);
  budgets(argv[1]);
  background_errors(db, r, w);
  rocksdb_column_family_handle_destroy(stones);
  rocksdb_close(db);
  damage(argv[1], options, r, w);
  tiers(argv[1], r, w);

  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_block_based_options_destroy(tables);
  rocksdb_cache_destroy(cache);
  rocksdb_options_destroy(options);
  free(path);
  end_threads();
  return 0;
}
