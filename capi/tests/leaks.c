/* Memory of leaked and of released objects.
 *
 * With the name of a kind: opens and closes a database many times, leaves one object of the kind behind in
 * each round, and prints what the later rounds added to the process: its resident memory in KiB and its file
 * descriptors. With "released-" before the kind: creates the given number of objects at once, releases
 * them, and prints the same for what remains after two such rounds. `cargo xtask test capi` compares both
 * with RocksDB's library. */
#include <dirent.h>
#include <malloc.h>
#include <unistd.h>

#include "check.h"

enum { ROWS = 2000, VALUE = 1000, WARM_UP = 20 };

/* Resident memory in KiB. */
static long resident(void) {
  long all = 0, own = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%ld %ld", &all, &own) == 2);
  fclose(file);
  return own * (sysconf(_SC_PAGESIZE) / 1024);
}

static long descriptors(void) {
  long count = 0;
  DIR* dir = opendir("/proc/self/fd");
  CHECK(dir != NULL);
  while (readdir(dir) != NULL) count++;
  closedir(dir);
  return count;
}

static void write_rows(rocksdb_t* db, rocksdb_writeoptions_t* w, int first, int last) {
  char* err = NULL;
  char key[16];
  static char value[VALUE];
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  for (int i = first; i < last; i++) {
    int len = snprintf(key, sizeof key, "%08d", i);
    memset(value, 'a' + i % 26, sizeof value);
    rocksdb_writebatch_put(batch, key, (size_t)len, value, sizeof value);
  }
  rocksdb_write(db, w, batch, &err);
  CHECK_OK(err);
  rocksdb_writebatch_destroy(batch);
}

/* Reads every row, so that the cache holds them. */
static void read_rows(rocksdb_t* db, rocksdb_readoptions_t* r) {
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, r);
  int rows = 0;
  for (rocksdb_iter_seek_to_first(iter); rocksdb_iter_valid(iter); rocksdb_iter_next(iter)) rows++;
  CHECK(rows == ROWS);
  rocksdb_iter_destroy(iter);
}

/* Leaves an object of the kind behind. */
static void leak(const char* kind, rocksdb_t* db, rocksdb_readoptions_t* r, rocksdb_column_family_handle_t* family) {
  char* err = NULL;
  if (strcmp(kind, "none") == 0) {
    rocksdb_column_family_handle_destroy(family);
    return;
  }
  if (strcmp(kind, "opened-family") == 0) return; /* `family` itself */
  if (family != NULL) rocksdb_column_family_handle_destroy(family);
  if (strcmp(kind, "default-family") == 0) {
    rocksdb_get_default_column_family_handle(db);
  } else if (strcmp(kind, "dropped-family") == 0) {
    rocksdb_options_t* o = rocksdb_options_create();
    rocksdb_column_family_handle_t* made = rocksdb_create_column_family(db, o, "made", &err);
    CHECK_OK(err);
    rocksdb_drop_column_family(db, made, &err);
    CHECK_OK(err);
    rocksdb_options_destroy(o);
  } else if (strcmp(kind, "iterator") == 0) {
    rocksdb_iter_seek(rocksdb_create_iterator(db, r), "00001500", 8); /* in a table, with a memtable above it */
  } else if (strcmp(kind, "iterator-nowhere") == 0) {
    rocksdb_create_iterator(db, r);
  } else if (strcmp(kind, "batch-iterator") == 0) {
    rocksdb_writebatch_wi_t* batch = rocksdb_writebatch_wi_create(0, 1);
    rocksdb_writebatch_wi_put(batch, "k", 1, "v", 1);
    rocksdb_iterator_t* iter =
        rocksdb_writebatch_wi_create_iterator_with_base(batch, rocksdb_create_iterator(db, r));
    rocksdb_iter_seek_to_first(iter);
    (void)batch; /* leaked too: the iterator reads it */
  } else if (strcmp(kind, "snapshot") == 0) {
    rocksdb_create_snapshot(db);
  } else if (strcmp(kind, "pinned") == 0) {
    rocksdb_get_pinned(db, r, "00001500", 8, &err); /* in a table */
  } else if (strcmp(kind, "pinned-memtable") == 0) {
    rocksdb_get_pinned(db, r, "00000001", 8, &err);
  } else if (strcmp(kind, "checkpoint") == 0) {
    rocksdb_checkpoint_object_create(db, &err);
  } else if (strcmp(kind, "wal-iterator") == 0) {
    rocksdb_get_updates_since(db, rocksdb_get_latest_sequence_number(db), NULL, &err);
  } else if (strcmp(kind, "live-files") == 0) {
    CHECK(rocksdb_livefiles(db) != NULL);
  } else if (strcmp(kind, "property") == 0) {
    CHECK(rocksdb_property_value(db, "rocksdb.stats") != NULL);
  } else if (strcmp(kind, "consumers") == 0) {
    rocksdb_memory_consumers_add_db(rocksdb_memory_consumers_create(), db);
  } else if (strcmp(kind, "metadata") == 0) {
    CHECK(rocksdb_get_column_family_metadata(db) != NULL);
  } else {
    fprintf(stderr, "no kind %s\n", kind);
    exit(2);
  }
  CHECK_OK(err);
}

/* Leaves one object of each kind behind that a name stands for, or of the kind itself. */
static void leak_all(const char* name, rocksdb_t* db, rocksdb_readoptions_t* r, rocksdb_column_family_handle_t* family) {
  static const char* handles[] = {"default-family", "dropped-family", "snapshot",  "pinned",   "checkpoint",
                                  "live-files",     "property",       "consumers", "metadata", NULL};
  static const char* walks[] = {"iterator", "iterator-nowhere", "batch-iterator", "wal-iterator", NULL};
  const char** kinds = strcmp(name, "handles") == 0 ? handles : strcmp(name, "walks") == 0 ? walks : NULL;
  leak(kinds == NULL ? name : "opened-family", db, r, family);
  for (; kinds != NULL && *kinds != NULL; kinds++) leak(*kinds, db, r, NULL);
}

static void one_round(const char* path, const char* kind) {
  char* err = NULL;
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_block_based_table_options_t* t = rocksdb_block_based_options_create();
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(8 << 20);
  rocksdb_block_based_options_set_block_cache(t, cache);
  rocksdb_options_set_block_based_table_factory(o, t);
  rocksdb_options_set_create_if_missing(o, 1);
  const char* names[] = {"default"};
  const rocksdb_options_t* options[] = {o};
  rocksdb_column_family_handle_t* family = NULL;
  rocksdb_t* db = rocksdb_open_column_families(o, path, 1, names, options, &family, &err);
  CHECK_OK(err);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  if (rocksdb_get_latest_sequence_number(db) == 0) {
    write_rows(db, w, 0, ROWS);
    flush(db);
  }
  write_rows(db, w, 0, ROWS / 10); /* the memtable's */
  read_rows(db, r);
  leak_all(kind, db, r, family);
  rocksdb_close(db);
  rocksdb_writeoptions_destroy(w);
  rocksdb_readoptions_destroy(r);
  rocksdb_cache_destroy(cache);
  rocksdb_block_based_options_destroy(t);
  rocksdb_options_destroy(o);
}

/* An open database, and options to read it. */
struct open_db {
  rocksdb_t* db;
  rocksdb_readoptions_t* r;
};

static void* make(const char* kind, struct open_db* open, int number) {
  char* err = NULL;
  void* made = NULL;
  if (strcmp(kind, "snapshot") == 0) {
    if (number % 1000 == 0) put(open->db, "00000001", "v"); /* for another sequence number */
    made = (void*)rocksdb_create_snapshot(open->db);
  } else if (strcmp(kind, "iterator") == 0) {
    made = rocksdb_create_iterator(open->db, open->r);
    rocksdb_iter_seek_to_first(made);
  } else if (strcmp(kind, "pinned") == 0) {
    made = rocksdb_get_pinned(open->db, open->r, "00001500", 8, &err);
  } else if (strcmp(kind, "batch") == 0) {
    made = rocksdb_writebatch_create();
    rocksdb_writebatch_put(made, "k", 1, "v", 1);
  } else if (strcmp(kind, "options") == 0) {
    made = rocksdb_readoptions_create();
  }
  CHECK_OK(err);
  CHECK(made != NULL);
  return made;
}

static void release(const char* kind, struct open_db* open, void* made) {
  if (strcmp(kind, "snapshot") == 0) rocksdb_release_snapshot(open->db, made);
  if (strcmp(kind, "iterator") == 0) rocksdb_iter_destroy(made);
  if (strcmp(kind, "pinned") == 0) rocksdb_pinnableslice_destroy(made);
  if (strcmp(kind, "batch") == 0) rocksdb_writebatch_destroy(made);
  if (strcmp(kind, "options") == 0) rocksdb_readoptions_destroy(made);
}

/* Creates `count` objects, and releases them in another order. */
static void create_and_release(const char* kind, struct open_db* open, void** made, int count) {
  for (int i = 0; i < count; i++) made[i] = make(kind, open, i);
  /* 7919 is prime and divides no count: each number comes once. */
  for (int i = 0, at = 0; i < count; i++, at = (at + 7919) % count) release(kind, open, made[at]);
}

static void released(const char* path, const char* kind, int count) {
  char* err = NULL;
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  struct open_db open = {rocksdb_open(o, path, &err), rocksdb_readoptions_create()};
  CHECK_OK(err);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  write_rows(open.db, w, 0, ROWS);
  flush(open.db);
  void** made = malloc(sizeof *made * (size_t)count);
  memset(made, 1, sizeof *made * (size_t)count);
  create_and_release(kind, &open, made, 1000);
  malloc_trim(0);
  long memory = resident(), files = descriptors();
  for (int round = 0; round < 2; round++) create_and_release(kind, &open, made, count);
  malloc_trim(0);
  printf("%ld %ld\n", resident() - memory, descriptors() - files);
  free(made);
  rocksdb_close(open.db);
  rocksdb_writeoptions_destroy(w);
  rocksdb_readoptions_destroy(open.r);
  rocksdb_options_destroy(o);
}

int main(int argc, char** argv) {
  CHECK(argc == 4);
  char* path = below(argv[1], "db");
  static const char prefix[] = "released-";
  int count = atoi(argv[3]);
  if (strncmp(argv[2], prefix, sizeof prefix - 1) == 0) {
    released(path, argv[2] + sizeof prefix - 1, count);
    free(path);
    return 0;
  }
  for (int i = 0; i < WARM_UP; i++) one_round(path, argv[2]);
  long memory = resident(), files = descriptors();
  for (int i = 0; i < count; i++) one_round(path, argv[2]);
  printf("%ld %ld\n", resident() - memory, descriptors() - files);
  free(path);
  return 0;
}
