/* Reads and writes with callbacks: results, callbacks that call the database, and close it. */
#include <cairn/c.h>
#include <pthread.h>

#include "check.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int calls = 0;

static void called(void) {
  pthread_mutex_lock(&lock);
  calls++;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

/* Waits for `count` callbacks in all. */
static void wait_for(int count) {
  pthread_mutex_lock(&lock);
  while (calls < count) pthread_cond_wait(&changed, &lock);
  CHECK(calls == count);
  pthread_mutex_unlock(&lock);
}

static void expects(void* state, const char* value, size_t len, const char* error) {
  CHECK(error == NULL);
  if (state == NULL)
    CHECK(value == NULL && len == 0);
  else
    CHECK(same(value, len, state));
  called();
}

static void expects_error(void* state, const char* value, size_t len, const char* error) {
  CHECK(value == NULL && len == 0 && error != NULL);
  CHECK(strncmp(error, state, strlen(state)) == 0);
  called();
}

static void written(void* state, const char* error) {
  (void)state;
  CHECK(error == NULL);
  called();
}

static void not_written(void* state, const char* error) {
  CHECK(error != NULL && strncmp(error, state, strlen(state)) == 0);
  called();
}

struct nested {
  rocksdb_t* db;
  rocksdb_readoptions_t* r;
  int left;
};

/* Reads again, blocking and with a callback, and writes. */
static void calls_the_database(void* state, const char* value, size_t len, const char* error) {
  struct nested* nested = state;
  CHECK(error == NULL && same(value, len, "value"));
  CHECK_GET(nested->db, nested->r, "key", "value");
  put(nested->db, "other", "value");
  if (--nested->left > 0)
    cairn_get_async(nested->db, nested->r, NULL, "key", 3, calls_the_database, nested);
  called();
}

static void closes(void* state, const char* value, size_t len, const char* error) {
  CHECK(error == NULL && same(value, len, "value"));
  rocksdb_close(state);
  called();
}

static rocksdb_t* opened(const char* path, rocksdb_options_t* options) {
  char* err = NULL;
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  return db;
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  char* path = below(argv[1], "db");
  char* err = NULL;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_no_block_cache(table, 1);
  rocksdb_options_set_block_based_table_factory(options, table);
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_t* db = opened(path, options);

  /* In the memtable: before the call returns. */
  put(db, "key", "value");
  cairn_get_async(db, r, NULL, "key", 3, expects, "value");
  CHECK(calls == 1);
  cairn_get_async(db, r, NULL, "none", 4, expects, NULL);
  CHECK(calls == 2);
  flush(db);
  for (int i = 0; i < 1000; i++) cairn_get_async(db, r, NULL, "key", 3, expects, "value");
  wait_for(1002);

  rocksdb_column_family_handle_t* stones = rocksdb_create_column_family(db, options, "stones", &err);
  CHECK_OK(err);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_put_cf(db, w, stones, "key", 3, "stone", 5, &err);
  CHECK_OK(err);
  cairn_get_async(db, r, stones, "key", 3, expects, "stone");
  wait_for(1003);

  /* Options that are refused. */
  rocksdb_readoptions_t* late = rocksdb_readoptions_create();
  rocksdb_readoptions_set_deadline(late, 1);
  rocksdb_column_family_handle_t* none = NULL;
  cairn_get_async(db, late, none, "key", 3, expects_error, "Operation timed out");
  wait_for(1004);
  rocksdb_readoptions_destroy(late);

  rocksdb_writeoptions_t* synced = rocksdb_writeoptions_create();
  rocksdb_writeoptions_set_sync(synced, 1);
  for (int i = 0; i < 100; i++) {
    rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
    char key[16];
    rocksdb_writebatch_put(batch, key, (size_t)snprintf(key, sizeof key, "k%d", i), "v", 1);
    cairn_write_async(db, synced, batch, written, NULL);
    rocksdb_writebatch_destroy(batch);
  }
  wait_for(1104);
  CHECK_GET(db, r, "k99", "v");
  rocksdb_writeoptions_disable_WAL(synced, 1);
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  cairn_write_async(db, synced, batch, not_written, "Invalid argument");
  wait_for(1105);
  rocksdb_writebatch_destroy(batch);

  /* Callbacks that call the database, in memory and from files: the stack does not grow with their number. */
  struct nested nested = {db, r, 20000};
  cairn_get_async(db, r, NULL, "key", 3, calls_the_database, &nested);
  wait_for(1105 + 20000);

  /* Closed with reads and writes in flight. Each callback is called once. */
  rocksdb_drop_column_family(db, stones, &err);
  CHECK_OK(err);
  rocksdb_column_family_handle_destroy(stones);
  calls = 0;
  cairn_get_async(db, r, NULL, "key", 3, closes, db);
  wait_for(1);
  db = opened(path, options);
  put(db, "key", "value");
  calls = 0;
  cairn_get_async(db, r, NULL, "key", 3, closes, db);
  wait_for(1);

  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_writeoptions_destroy(synced);
  rocksdb_block_based_options_destroy(table);
  rocksdb_options_destroy(options);
  free(path);
  end_threads();
  return 0;
}
