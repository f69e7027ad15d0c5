/* CPU time per record of loads and compactions, through RocksDB's C interface in a library that is loaded at run time:
 *
 *     cc -O2 -o loads bench/c/loads.c -ldl
 *     ./loads LIBRARY DIRECTORY sequential|batch|bulk|compact|universal|blob none|lz4|zstd [RECORDS]
 *
 * Keys have 20 bytes, values 400, of which the second half repeats the first. sequential puts records in key order
 * without log; batch writes batches of 100 records in key order; bulk writes files of 500,000 records with
 * SstFileWriter and ingests them; compact puts records in random order, without log and compactions, and measures the
 * compaction of the whole database; universal and blob put records in random order without log, with universal
 * compaction, and with values in blob files. Each row ends with a flush, and the last two when no compaction is due.
 * The time is that of all threads of the process, without the creation of records. DIRECTORY must not exist. */
#include "library.h"

#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

enum { KEY = 20, VALUE = 400, BATCH = 100, FILE_RECORDS = 500000, POOL = 1 << 20 };

static double cpu(void) {
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  return use.ru_utime.tv_sec + use.ru_stime.tv_sec + (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1e6;
}

static char pool[POOL + VALUE];

static const char* value(uint64_t n) { return pool + n * VALUE % POOL; }

static void key(char* out, uint64_t n) {
  for (int at = KEY - 1; at >= 0; at--, n /= 10) out[at] = '0' + n % 10;
}

static uint64_t scattered(uint64_t n, uint64_t records) { return n * 7368787 % records; }

int main(int argc, char** argv) {
  if (argc < 5) {
    fprintf(stderr, "usage: %s LIBRARY DIRECTORY ROW none|lz4|zstd [RECORDS]\n", argv[0]);
    return 1;
  }
  const char *row = argv[3], *codec = argv[4];
  const uint64_t records = argc > 5 ? strtoull(argv[5], NULL, 10) : 1500000;
  library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) check(dlerror());
  FUNCTION(void*, options_create, void);
  FUNCTION(void, options_set_create_if_missing, void*, unsigned char);
  FUNCTION(void, options_set_compression, void*, int);
  FUNCTION(void, options_set_max_background_jobs, void*, int);
  FUNCTION(void, options_set_disable_auto_compactions, void*, int);
  FUNCTION(void, options_set_level0_slowdown_writes_trigger, void*, int);
  FUNCTION(void, options_set_level0_stop_writes_trigger, void*, int);
  FUNCTION(void, options_set_compaction_style, void*, int);
  FUNCTION(void, options_set_enable_blob_files, void*, unsigned char);
  FUNCTION(void, options_set_min_blob_size, void*, uint64_t);
  FUNCTION(void, options_set_blob_compression_type, void*, int);
  FUNCTION(void, options_set_block_based_table_factory, void*, void*);
  FUNCTION(void*, block_based_options_create, void);
  FUNCTION(void, block_based_options_set_filter_policy, void*, void*);
  FUNCTION(void*, filterpolicy_create_bloom_full, double);
  FUNCTION(void*, open, void*, const char*, char**);
  FUNCTION(void, close, void*);
  FUNCTION(void*, writeoptions_create, void);
  FUNCTION(void, writeoptions_disable_WAL, void*, int);
  FUNCTION(void, put, void*, void*, const char*, size_t, const char*, size_t, char**);
  FUNCTION(void*, writebatch_create, void);
  FUNCTION(void, writebatch_clear, void*);
  FUNCTION(void, writebatch_put, void*, const char*, size_t, const char*, size_t);
  FUNCTION(void, write, void*, void*, void*, char**);
  FUNCTION(void*, flushoptions_create, void);
  FUNCTION(void, flush, void*, void*, char**);
  FUNCTION(void, compact_range, void*, const char*, size_t, const char*, size_t);
  FUNCTION(void*, wait_for_compact_options_create, void);
  FUNCTION(void, wait_for_compact, void*, void*, char**);
  FUNCTION(void*, envoptions_create, void);
  FUNCTION(void*, sstfilewriter_create, void*, void*);
  FUNCTION(void, sstfilewriter_open, void*, const char*, char**);
  FUNCTION(void, sstfilewriter_put, void*, const char*, size_t, const char*, size_t, char**);
  FUNCTION(void, sstfilewriter_finish, void*, char**);
  FUNCTION(void*, ingestexternalfileoptions_create, void);
  FUNCTION(void, ingestexternalfileoptions_set_move_files, void*, unsigned char);
  FUNCTION(void, ingest_external_file, void*, const char* const*, size_t, void*, char**);

  const int compression = strcmp(codec, "lz4") == 0 ? 4 : strcmp(codec, "zstd") == 0 ? 7 : 0;
  const int compacts = strcmp(row, "compact") == 0, waits = row[0] == 'u' || strcmp(row, "blob") == 0;
  void* options = options_create();
  options_set_create_if_missing(options, 1);
  options_set_compression(options, compression);
  options_set_max_background_jobs(options, 2);
  if (compacts) {
    options_set_disable_auto_compactions(options, 1);
    options_set_level0_slowdown_writes_trigger(options, 1000);
    options_set_level0_stop_writes_trigger(options, 1000);
  }
  if (row[0] == 'u') options_set_compaction_style(options, 1);
  if (strcmp(row, "blob") == 0) {
    options_set_enable_blob_files(options, 1);
    options_set_min_blob_size(options, 100);
    options_set_blob_compression_type(options, compression);
  }
  void* table = block_based_options_create();
  block_based_options_set_filter_policy(table, filterpolicy_create_bloom_full(10));
  options_set_block_based_table_factory(options, table);

  uint64_t state = 1;
  for (size_t at = 0; at < POOL; at += VALUE) {
    for (int byte = 0; byte < VALUE / 2; byte++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      pool[at + byte] = (char)(state >> 56);
    }
    memcpy(pool + at + VALUE / 2, pool + at, VALUE / 2);
  }

  char* err = NULL;
  void* db = open(options, argv[2], &err);
  check(err);
  void* writes = writeoptions_create();
  void* flushes = flushoptions_create();
  const int logged = strcmp(row, "batch") == 0;
  writeoptions_disable_WAL(writes, !logged);
  double began = cpu(), clock = nanoseconds();
  char k[KEY];
  if (logged) {
    void* batch = writebatch_create();
    for (uint64_t n = 0; n < records; n++) {
      key(k, n);
      writebatch_put(batch, k, KEY, value(n), VALUE);
      if (n % BATCH == BATCH - 1) {
        write(db, writes, batch, &err);
        check(err);
        writebatch_clear(batch);
      }
    }
  } else if (strcmp(row, "bulk") == 0) {
    void* writer = sstfilewriter_create(envoptions_create(), options);
    void* moves = ingestexternalfileoptions_create();
    ingestexternalfileoptions_set_move_files(moves, 1);
    char path[4096];
    for (uint64_t n = 0; n < records; n++) {
      if (n % FILE_RECORDS == 0) {
        snprintf(path, sizeof path, "%s/%llu.external", argv[2], (unsigned long long)n);
        sstfilewriter_open(writer, path, &err);
        check(err);
      }
      key(k, n);
      sstfilewriter_put(writer, k, KEY, value(n), VALUE, &err);
      check(err);
      if (n % FILE_RECORDS == FILE_RECORDS - 1 || n == records - 1) {
        sstfilewriter_finish(writer, &err);
        check(err);
        const char* files[] = {path};
        ingest_external_file(db, files, 1, moves, &err);
        check(err);
      }
    }
  } else {
    const int ordered = strcmp(row, "sequential") == 0;
    for (uint64_t n = 0; n < records; n++) {
      key(k, ordered ? n : scattered(n, records));
      put(db, writes, k, KEY, value(n), VALUE, &err);
      check(err);
    }
  }
  flush(db, flushes, &err);
  check(err);
  if (waits) wait_for_compact(db, wait_for_compact_options_create(), &err);
  check(err);
  if (compacts) {
    began = cpu();
    clock = nanoseconds();
    compact_range(db, NULL, 0, NULL, 0);
  }
  printf("%s %s: %.1f ns CPU per record, %.2f s\n", row, codec, (cpu() - began) * 1e9 / records, (nanoseconds() - clock) / 1e9);
  close(db);
  return 0;
}
