/* A program that exits with live objects. Under LeakSanitizer it reports no leak: the objects are reachable through
 * their handles. */
#include "check.h"

static rocksdb_t* db;
static rocksdb_options_t* options;
static rocksdb_writeoptions_t* writing;
static rocksdb_readoptions_t* reading;
static rocksdb_iterator_t* iter;
static const rocksdb_snapshot_t* snapshot;

int main(int argc, char** argv) {
  CHECK(argc == 2);
  char* err = NULL;
  char* path = below(argv[1], "db");
  options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  free(path);
  writing = rocksdb_writeoptions_create();
  reading = rocksdb_readoptions_create();
  rocksdb_put(db, writing, "k", 1, "v", 1, &err);
  CHECK_OK(err);
  snapshot = rocksdb_create_snapshot(db);
  iter = rocksdb_create_iterator(db, reading);
  rocksdb_iter_seek_to_first(iter);
  CHECK(rocksdb_iter_valid(iter));
  end_threads();
  return 0;
}
