/* Cached blocks in memory that core dumps leave out: the address of each value that a read pins is in a mapping whose
   flags in /proc/self/smaps include "dd" exactly if the cache has an allocator. */
#include "check.h"
#include <stdint.h>

enum { KEYS = 800, LARGE = 1000 };
enum kind { LRU, CLOCK, KINDS };

/* True if core dumps leave out the mapping of `address`. */
static int is_undumped(const void* address) {
  FILE* maps = fopen("/proc/self/smaps", "r");
  CHECK(maps != NULL);
  char line[4096];
  int is_in = 0, found = -1;
  while (found < 0 && fgets(line, sizeof line, maps) != NULL) {
    uintptr_t from, to;
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2) is_in = from <= (uintptr_t)address && (uintptr_t)address < to;
    if (is_in && strncmp(line, "VmFlags:", 8) == 0) found = strstr(line, " dd") != NULL;
  }
  fclose(maps);
  CHECK(found >= 0);
  return found;
}

static rocksdb_memory_allocator_t* new_allocator(void) {
  char* err = NULL;
  rocksdb_memory_allocator_t* allocator = rocksdb_jemalloc_nodump_allocator_create(&err);
  CHECK_OK(err);
  CHECK(allocator != NULL);
  return allocator;
}

/* A cache whose allocator, if it is to have one, has been destroyed. */
static rocksdb_cache_t* new_cache(enum kind kind, int undumped) {
  rocksdb_memory_allocator_t* allocator = undumped ? new_allocator() : NULL;
  rocksdb_cache_t* cache;
  if (kind == LRU) {
    rocksdb_lru_cache_options_t* options = rocksdb_lru_cache_options_create();
    rocksdb_lru_cache_options_set_capacity(options, 8 << 20);
    if (undumped) rocksdb_lru_cache_options_set_memory_allocator(options, allocator);
    cache = rocksdb_cache_create_lru_opts(options);
    rocksdb_lru_cache_options_destroy(options);
  } else {
    rocksdb_hyper_clock_cache_options_t* options = rocksdb_hyper_clock_cache_options_create(8 << 20, 0);
    if (undumped) rocksdb_hyper_clock_cache_options_set_memory_allocator(options, allocator);
    cache = rocksdb_cache_create_hyper_clock_opts(options);
    rocksdb_hyper_clock_cache_options_destroy(options);
  }
  if (undumped) rocksdb_memory_allocator_destroy(allocator);
  return cache;
}

/* Every hundredth value is stored in a blob file. */
static size_t fill_value(char* value, int i) {
  memset(value, 'a' + i % 26, LARGE);
  return i % 100 == 0 ? LARGE : 100;
}

static void fill(rocksdb_t* db) {
  char* err = NULL;
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  for (int i = 0; i < KEYS; i++) {
    char key[16], value[LARGE];
    snprintf(key, sizeof key, "key%05d", i);
    size_t len = fill_value(value, i);
    rocksdb_put(db, w, key, 8, value, len, &err);
    CHECK_OK(err);
  }
  rocksdb_flush(db, f, &err);
  CHECK_OK(err);
  rocksdb_flushoptions_destroy(f);
  rocksdb_writeoptions_destroy(w);
}

/* Reads values, each twice: the first read of a block inserts it. */
static void gets(rocksdb_t* db, rocksdb_readoptions_t* r, int undumped) {
  char* err = NULL;
  for (int i = 0; i < 2 * KEYS; i += 50) {
    char key[16], want[LARGE];
    snprintf(key, sizeof key, "key%05d", i % KEYS);
    size_t len, want_len = fill_value(want, i % KEYS);
    rocksdb_pinnableslice_t* pinned = rocksdb_get_pinned(db, r, key, 8, &err);
    CHECK_OK(err);
    const char* value = rocksdb_pinnableslice_value(pinned, &len);
    CHECK(len == want_len && memcmp(value, want, len) == 0);
    CHECK(is_undumped(value) == undumped);
    rocksdb_pinnableslice_destroy(pinned);
  }
}

static void batch(rocksdb_t* db, rocksdb_readoptions_t* r, int undumped) {
  enum { COUNT = 40 };
  char text[COUNT][16];
  const char* keys[COUNT];
  size_t lens[COUNT];
  rocksdb_pinnableslice_t* pinned[COUNT];
  char* errs[COUNT];
  for (int i = 0; i < COUNT; i++) {
    snprintf(text[i], sizeof text[i], "key%05d", i * (KEYS / COUNT));
    keys[i] = text[i];
    lens[i] = 8;
  }
  rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
  rocksdb_batched_multi_get_cf(db, r, family, COUNT, keys, lens, pinned, errs, 1);
  for (int i = 0; i < COUNT; i++) {
    CHECK_OK(errs[i]);
    size_t len;
    CHECK(is_undumped(rocksdb_pinnableslice_value(pinned[i], &len)) == undumped);
    rocksdb_pinnableslice_destroy(pinned[i]);
  }
  rocksdb_column_family_handle_destroy(family);
}

static void scan(rocksdb_t* db, rocksdb_readoptions_t* r, int undumped) {
  char* err = NULL;
  int i = 0;
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, r);
  for (rocksdb_iter_seek_to_first(iter); rocksdb_iter_valid(iter); rocksdb_iter_next(iter), i++) {
    size_t len;
    const char* value = rocksdb_iter_value(iter, &len);
    if (i % 50 == 0) CHECK(is_undumped(value) == undumped);
  }
  rocksdb_iter_get_error(iter, &err);
  CHECK_OK(err);
  CHECK(i == KEYS);
  rocksdb_iter_destroy(iter);
}

/* The ways of reading, each with a cache that has no block, or all of them because a flush inserted them. */
static void keep_and_read(char* path, enum kind kind, int compression, int warm, int undumped) {
  static void (*const reads[])(rocksdb_t*, rocksdb_readoptions_t*, int) = {gets, batch, scan};
  char* err = NULL;
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  for (size_t read = 0; read < sizeof reads / sizeof *reads; read++) {
    rocksdb_cache_t* cache = new_cache(kind, undumped);
    rocksdb_cache_t* blobs = new_cache(kind, undumped);
    rocksdb_options_t* options = rocksdb_options_create();
    rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(table, cache);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
    rocksdb_block_based_options_set_prepopulate_block_cache(table, warm);
    rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom(10));
    rocksdb_options_set_block_based_table_factory(options, table);
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_compression(options, compression);
    rocksdb_options_set_enable_blob_files(options, 1);
    rocksdb_options_set_min_blob_size(options, LARGE);
    rocksdb_options_set_blob_compression_type(options, compression);
    rocksdb_options_set_blob_cache(options, blobs);
    rocksdb_options_set_prepopulate_blob_cache(options, warm);
    rocksdb_t* db = rocksdb_open(options, path, &err);
    CHECK_OK(err);
    fill(db);
    if (!warm) {
      rocksdb_close(db);
      db = rocksdb_open(options, path, &err);
      CHECK_OK(err);
    }
    reads[read](db, r, undumped);
    CHECK(rocksdb_cache_get_usage(cache) > 0);
    CHECK(rocksdb_cache_get_usage(blobs) > 0);
    rocksdb_close(db);
    rocksdb_destroy_db(options, path, &err);
    CHECK_OK(err);
    rocksdb_options_destroy(options);
    rocksdb_block_based_options_destroy(table);
    rocksdb_cache_destroy(blobs);
    rocksdb_cache_destroy(cache);
  }
  rocksdb_readoptions_destroy(r);
  free(path);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  rocksdb_lru_cache_options_t* options = rocksdb_lru_cache_options_create();
  rocksdb_memory_allocator_t* unused = new_allocator();
  rocksdb_lru_cache_options_set_memory_allocator(options, unused);
  rocksdb_lru_cache_options_set_memory_allocator(options, NULL);
  rocksdb_memory_allocator_destroy(unused);
  rocksdb_lru_cache_options_destroy(options);
  for (enum kind kind = LRU; kind < KINDS; kind++) {
    for (int undumped = 0; undumped < 2; undumped++) {
      for (int warm = 0; warm < 2; warm++) {
        keep_and_read(below(argv[1], "plain"), kind, rocksdb_no_compression, warm, undumped);
        keep_and_read(below(argv[1], "lz4"), kind, rocksdb_lz4_compression, warm, undumped);
      }
    }
  }
  end_threads();
  return 0;
}
