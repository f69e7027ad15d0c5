/* Databases whose values have a time to live. */
#include <unistd.h>

#include "check.h"

static const char* const NAMES[] = {"default", "stones"};

/* Drops what is left of the `len` bytes `value` but the value `want`. */
static void check_value(char* value, size_t len, const char* want) {
  CHECK(same(value, len, want));
  rocksdb_free(value);
}

/* Every way to read `key` of `family` shows `want`; null for nothing. */
static void check_reads(rocksdb_t* db, rocksdb_column_family_handle_t* family, const char* key, const char* want) {
  char* err = NULL;
  size_t len = 0;
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();

  char* value = rocksdb_get_cf(db, r, family, key, strlen(key), &len, &err);
  CHECK_OK(err);
  if (want == NULL)
    CHECK(value == NULL);
  else
    check_value(value, len, want);

  rocksdb_pinnableslice_t* pinned = rocksdb_get_pinned_cf(db, r, family, key, strlen(key), &err);
  CHECK_OK(err);
  CHECK((pinned == NULL) == (want == NULL));
  if (pinned != NULL) {
    const char* bytes = rocksdb_pinnableslice_value(pinned, &len);
    CHECK(same(bytes, len, want));
    rocksdb_pinnableslice_destroy(pinned);
  }

  const rocksdb_column_family_handle_t* families[] = {family};
  const char* keys[] = {key};
  size_t sizes[] = {strlen(key)};
  char* values[1];
  size_t lens[1];
  char* errs[1];
  rocksdb_multi_get_cf(db, r, families, 1, keys, sizes, values, lens, errs);
  CHECK_OK(errs[0]);
  CHECK((values[0] == NULL) == (want == NULL));
  if (want != NULL) check_value(values[0], lens[0], want);

  rocksdb_iterator_t* iter = rocksdb_create_iterator_cf(db, r, family);
  rocksdb_iter_seek(iter, key, strlen(key));
  int there = rocksdb_iter_valid(iter) && same_at(rocksdb_iter_key(iter, &len), &len, key);
  CHECK(there == (want != NULL));
  if (there) CHECK(same_at(rocksdb_iter_value(iter, &len), &len, want));
  rocksdb_iter_destroy(iter);
  rocksdb_readoptions_destroy(r);
}

/* How many bytes are stored for `key`, as an opening without a time to live shows it. */
static size_t stored(const char* path, const rocksdb_options_t* options, const char* key) {
  char* err = NULL;
  size_t len = 0;
  const rocksdb_options_t* both[] = {options, options};
  rocksdb_column_family_handle_t* families[2];
  rocksdb_t* db = rocksdb_open_column_families(options, path, 2, NAMES, both, families, &err);
  CHECK_OK(err);
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  char* value = rocksdb_get(db, r, key, strlen(key), &len, &err);
  CHECK_OK(err);
  CHECK(value != NULL);
  rocksdb_free(value);
  /* Too short for a time. */
  put(db, "damaged", "abc");
  rocksdb_readoptions_destroy(r);
  for (int i = 0; i < 2; i++) rocksdb_column_family_handle_destroy(families[i]);
  rocksdb_close(db);
  return len;
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  char* err = NULL;
  char* path = below(argv[1], "ttl");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_uint64add_merge_operator(options);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();

  /* One family, and others that are created. */
  rocksdb_t* db = rocksdb_open_with_ttl(options, path, 1000, &err);
  CHECK_OK(err);
  rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
  put(db, "granite", "igneous");
  check_reads(db, family, "granite", "igneous");
  check_reads(db, family, "slate", NULL);
  rocksdb_column_family_handle_t* stones = rocksdb_create_column_family_with_ttl(db, options, "stones", 1, &err);
  CHECK_OK(err);
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "slate", 5, "metamorphic", 11);
  rocksdb_writebatch_put_cf(batch, stones, "chalk", 5, "", 0);
  rocksdb_writebatch_merge(batch, "sum", 3, "aaaaaaaa", 8);
  rocksdb_writebatch_merge(batch, "sum", 3, "\0\0\0\0\0\0\0\0", 8);
  rocksdb_write(db, w, batch, &err);
  CHECK_OK(err);
  rocksdb_writebatch_destroy(batch);
  check_reads(db, family, "slate", "metamorphic");
  check_reads(db, stones, "chalk", "");
  check_reads(db, family, "sum", "aaaaaaaa");
  flush(db);
  check_reads(db, family, "sum", "aaaaaaaa");
  rocksdb_column_family_handle_destroy(family);
  rocksdb_column_family_handle_destroy(stones);
  rocksdb_close(db);

  CHECK(stored(path, options, "granite") == strlen("igneous") + 4);

  /* Some families, with a time for each. */
  const rocksdb_options_t* both[] = {options, options};
  rocksdb_column_family_handle_t* families[2];
  const int ttls[] = {0, 1};
  db = rocksdb_open_column_families_with_ttl(options, path, 2, NAMES, both, families, ttls, &err);
  CHECK_OK(err);
  check_reads(db, families[0], "granite", "igneous");
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  size_t len = 0;
  CHECK(rocksdb_get(db, r, "damaged", 7, &len, &err) == NULL);
  CHECK_ERROR(err, "Corruption: ");
  rocksdb_readoptions_destroy(r);
  put(db, "damaged", NULL);
  rocksdb_put_cf(db, w, families[1], "flint", 5, "hard", 4, &err);
  CHECK_OK(err);
  sleep(3);
  for (int i = 0; i < 2; i++) {
    check_reads(db, families[i], i ? "flint" : "granite", i ? "hard" : "igneous");
    rocksdb_compact_range_cf(db, families[i], NULL, 0, NULL, 0);
  }
  check_reads(db, families[0], "granite", "igneous");
  check_reads(db, families[1], "chalk", NULL);
  check_reads(db, families[1], "flint", NULL);

  /* A family that nobody gave a time has values for ever. */
  rocksdb_column_family_handle_t* later = rocksdb_create_column_family(db, options, "later", &err);
  CHECK_OK(err);
  rocksdb_put_cf(db, w, later, "k", 1, "v", 1, &err);
  CHECK_OK(err);
  check_reads(db, later, "k", "v");
  rocksdb_column_family_handle_destroy(later);
  for (int i = 0; i < 2; i++) rocksdb_column_family_handle_destroy(families[i]);
  rocksdb_close(db);

#ifndef NOT_CAIRN
  /* Not in a database without times. RocksDB takes the database for one that has them. */
  char* other = below(argv[1], "plain");
  db = rocksdb_open(options, other, &err);
  CHECK_OK(err);
  CHECK(rocksdb_create_column_family_with_ttl(db, options, "stones", 1, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_close(db);
  free(other);
#endif

  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(options);
  free(path);
  end_threads();
  return 0;
}
