/* Processes that are forked from one with an open database: whatever they do, the parent's files are its own. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cairn/c.h"
#include "check.h"

#define ROUNDS 16
#define WRITES 3000

static const char* const RULE = "Not implemented: ";

static rocksdb_t* database;
static rocksdb_writeoptions_t* w;
static rocksdb_readoptions_t* r;

static void put_number(rocksdb_t* db, int number, char** err) {
  char key[16], value[64];
  snprintf(key, sizeof key, "%08d", number);
  snprintf(value, sizeof value, "the value of %d, which is not short", number);
  rocksdb_put(db, w, key, strlen(key), value, strlen(value), err);
}

static void check_number(rocksdb_t* db, int number) {
  char key[16], value[64];
  snprintf(key, sizeof key, "%08d", number);
  snprintf(value, sizeof value, "the value of %d, which is not short", number);
  CHECK_GET(db, r, key, value);
}

/* In a child the memory of the parent's threads looks lost to tools. */
static int in_child;
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return in_child; }

static void close_at_exit(void) { rocksdb_close(database); }

/* The child writes, flushes and reads, and learns why it must not. */
static void try_everything(rocksdb_t* db) {
  char* err = NULL;
  size_t len = 0;
  put_number(db, 1, &err);
  CHECK_ERROR(err, RULE);
  rocksdb_delete(db, w, "a", 1, &err);
  CHECK_ERROR(err, RULE);
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush(db, f, &err);
  CHECK_ERROR(err, RULE);
  rocksdb_flush_wal(db, 1, &err);
  CHECK_ERROR(err, RULE);
  CHECK(rocksdb_get(db, r, "00000001", 8, &len, &err) == NULL);
  CHECK_ERROR(err, RULE);
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(iter);
  CHECK(!rocksdb_iter_valid(iter));
  rocksdb_iter_get_error(iter, &err);
  CHECK_ERROR(err, RULE);
  rocksdb_iter_destroy(iter);
  CHECK(rocksdb_property_value(db, "rocksdb.stats") == NULL);
  rocksdb_disable_file_deletions(db, &err);
  CHECK_ERROR(err, RULE);
  rocksdb_checkpoint_t* checkpoint = rocksdb_checkpoint_object_create(db, &err);
  if (err == NULL) {
    rocksdb_checkpoint_create(checkpoint, "never-made", 0, &err);
    rocksdb_checkpoint_object_destroy(checkpoint);
  }
  CHECK_ERROR(err, RULE);
  CHECK(access("never-made", F_OK) != 0);
  rocksdb_flushoptions_destroy(f);
}

/* A scan over the numbers that end with 0 to 4, whose reads are in flight in the background. */
static cairn_multi_scan_t* scan_numbers(rocksdb_t* db, int number) {
  char* err = NULL;
  cairn_multi_scan_args_t* args = cairn_multi_scan_args_create();
  for (int i = 0; i + 10 <= number; i += 10) {
    char from[16], to[16];
    snprintf(from, sizeof from, "%08d", i);
    snprintf(to, sizeof to, "%08d", i + 5);
    cairn_multi_scan_args_add(args, from, 8, to, 8);
  }
  cairn_multi_scan_args_set_use_async_io(args, 1);
  cairn_multi_scan_t* scan = cairn_multi_scan_create(db, r, NULL, args, &err);
  CHECK_OK(err);
  cairn_multi_scan_args_destroy(args);
  return scan;
}

/* Enters the next range, and returns the number of its entries. */
static int entries_of_next_range(cairn_multi_scan_t* scan) {
  char* err = NULL;
  size_t at = 0;
  int entries = 0;
  if (!cairn_multi_scan_next_range(scan, &at)) return -1;
  for (; cairn_multi_scan_valid(scan); cairn_multi_scan_next(scan)) entries++;
  cairn_multi_scan_get_error(scan, &err);
  CHECK_OK(err);
  return entries;
}

/* The child moves a scan, which it must not, and destroys it. */
static void try_scan(int round, cairn_multi_scan_t* scan) {
  char* err = NULL;
  size_t at = 0;
  if (round % 2 == 0) {
    cairn_multi_scan_next_range(scan, &at);
    CHECK(!cairn_multi_scan_valid(scan));
    cairn_multi_scan_get_error(scan, &err);
    CHECK_ERROR(err, RULE);
  }
  cairn_multi_scan_destroy(scan);
}

/* What the child of a round does. */
static void child(int round, rocksdb_t* db, rocksdb_iterator_t* iter, const rocksdb_snapshot_t* snapshot,
                  rocksdb_column_family_handle_t* family, rocksdb_sstfilewriter_t* table,
                  cairn_multi_scan_t* scan) {
  alarm(60);
  in_child = 1;
  try_scan(round, scan);
  switch (round % 8) {
    case 0:
      rocksdb_close(db);
      break;
    case 1:
      rocksdb_iter_destroy(iter);
      rocksdb_release_snapshot(db, snapshot);
      rocksdb_column_family_handle_destroy(family);
      rocksdb_close(db);
      break;
    case 2:
      exit(0); /* closes the database by `atexit` */
    case 3:
      try_everything(db);
      break;
    case 4:
      try_everything(db);
      rocksdb_close(db);
      break;
    case 5:
      rocksdb_iter_seek(iter, "0", 1);
      CHECK(!rocksdb_iter_valid(iter));
      rocksdb_close(db);
      break;
    case 6:
      rocksdb_sstfilewriter_destroy(table);
      rocksdb_close(db);
      break;
    case 7: { /* a child of the child */
      pid_t below = fork();
      if (below == 0) {
        try_everything(db);
        rocksdb_close(db);
        _exit(0);
      }
      int status = 0;
      CHECK(waitpid(below, &status, 0) == below && status == 0);
      rocksdb_close(db);
      break;
    }
  }
  _exit(0);
}

/* Writes, forks, writes on while the child does what it does; ends without closing, as if killed. */
static void parent(const char* dir, const char* path, rocksdb_options_t* options) {
  char* err = NULL;
  database = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  atexit(close_at_exit);
  rocksdb_envoptions_t* env = rocksdb_envoptions_create();
  rocksdb_sstfilewriter_t* table = rocksdb_sstfilewriter_create(env, options);
  char* file = below(dir, "table.sst");
  rocksdb_sstfilewriter_open(table, file, &err);
  CHECK_OK(err);
  rocksdb_sstfilewriter_put(table, "a", 1, "1", 1, &err);
  CHECK_OK(err);
  int number = 0;
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < WRITES; i++) {
      put_number(database, number++, &err);
      CHECK_OK(err);
    }
    rocksdb_iterator_t* iter = rocksdb_create_iterator(database, r);
    rocksdb_iter_seek_to_first(iter);
    const rocksdb_snapshot_t* snapshot = rocksdb_create_snapshot(database);
    rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(database);
    cairn_multi_scan_t* scan = scan_numbers(database, number);
    CHECK(entries_of_next_range(scan) == 5);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) child(round, database, iter, snapshot, family, table, scan);
    for (int i = 0; i < WRITES; i++) {
      put_number(database, number++, &err);
      CHECK_OK(err);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    if (status != 0) fprintf(stderr, "round %d: the child ended with %x\n", round, status);
    CHECK(status == 0);
    put_number(database, number++, &err);
    CHECK_OK(err);
    for (int entries = 5; entries >= 0; entries = entries_of_next_range(scan)) CHECK(entries == 5);
    cairn_multi_scan_destroy(scan);
    rocksdb_iter_destroy(iter);
    rocksdb_release_snapshot(database, snapshot);
    rocksdb_column_family_handle_destroy(family);
  }
  for (int i = 0; i < number; i += 97) check_number(database, i);
  CHECK(access(file, F_OK) == 0);
  rocksdb_sstfilewriter_finish(table, &err);
  CHECK_OK(err);
  _exit(0);
}

/* A database that was opened read-only is read in a child, and closed there. */
static void read_only(const char* path, rocksdb_options_t* options) {
  char* err = NULL;
  rocksdb_t* db = rocksdb_open_for_read_only(options, path, 0, &err);
  CHECK_OK(err);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    alarm(60);
    check_number(db, 11);
    rocksdb_close(db);
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid && status == 0);
  check_number(db, 12);
  rocksdb_close(db);
}

int main(int argc, char** argv) {
  CHECK(argc > 1);
  char* path = below(argv[1], "db");
  char* err = NULL;
  w = rocksdb_writeoptions_create();
  r = rocksdb_readoptions_create();
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_write_buffer_size(options, 8 << 20);

  fflush(NULL);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) parent(argv[1], path, options);
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid);
  if (status != 0) fprintf(stderr, "the parent ended with %x\n", status);
  CHECK(status == 0);

  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  for (int i = 0; i < ROUNDS * (2 * WRITES + 1); i++) check_number(db, i);
  rocksdb_close(db);
  read_only(path, options);

  rocksdb_options_destroy(options);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  free(path);
  end_threads();
  return 0;
}
