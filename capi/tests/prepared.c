/* Leaves prepared transactions in a database, passes them on, or takes over those that it finds: DIR
   leave|die|pass|take. Run with one library after another, it checks that each takes over the transactions of the
   other. */
#include <unistd.h>

#include "check.h"

/* The keys of the last family have timestamps. */
static const char* names[] = {"default", "f", "t"};

static void txn_put(rocksdb_transaction_t* txn, rocksdb_column_family_handle_t* family, const char* key, const char* value) {
  char* err = NULL;
  rocksdb_transaction_put_cf(txn, family, key, strlen(key), value, strlen(value), &err);
  CHECK_OK(err);
}

/* Checks the value of `key` with the read options `r`, which it destroys. */
static void expect_with(rocksdb_readoptions_t* r, rocksdb_transactiondb_t* db, rocksdb_column_family_handle_t* family,
                        const char* key, const char* value) {
  char* err = NULL;
  size_t len = 0;
  char* found = rocksdb_transactiondb_get_cf(db, r, family, key, strlen(key), &len, &err);
  CHECK_OK(err);
  if (value == NULL) {
    CHECK(found == NULL);
  } else {
    CHECK(same(found, len, value));
  }
  rocksdb_free(found);
  rocksdb_readoptions_destroy(r);
}

static void expect(rocksdb_transactiondb_t* db, rocksdb_column_family_handle_t* family, const char* key, const char* value) {
  expect_with(rocksdb_readoptions_create(), db, family, key, value);
}

static void expect_at(rocksdb_transactiondb_t* db, rocksdb_column_family_handle_t* family, const char* key, char timestamp,
                      const char* value) {
  char at[8] = {timestamp};
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_readoptions_set_timestamp(r, at, sizeof(at));
  expect_with(r, db, family, key, value);
}

static rocksdb_transaction_t* prepared(rocksdb_transactiondb_t* db, rocksdb_column_family_handle_t** families,
                                       const char* name, const char* key) {
  char* err = NULL;
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_transaction_options_t* x = rocksdb_transaction_options_create();
  rocksdb_transaction_t* txn = rocksdb_transaction_begin(db, w, x, NULL);
  rocksdb_transaction_set_name(txn, name, strlen(name), &err);
  CHECK_OK(err);
  txn_put(txn, families[0], key, name);
  txn_put(txn, families[1], key, name);
  txn_put(txn, families[2], key, name);
  if (strcmp(name, "first") == 0) {
    rocksdb_transaction_delete(txn, "gone", 4, &err);
    CHECK_OK(err);
  }
  rocksdb_transaction_prepare(txn, &err);
  CHECK_OK(err);
  rocksdb_transaction_options_destroy(x);
  rocksdb_writeoptions_destroy(w);
  return txn;
}

/* Commits a transaction past the memtable, the last commit that the next library finds in the log. RocksDB 11.1's
   library has no function for that. */
static void commit_past(rocksdb_transactiondb_t* db, rocksdb_column_family_handle_t** families) {
  char* err = NULL;
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_transaction_options_t* x = rocksdb_transaction_options_create();
#ifndef NOT_CAIRN
  rocksdb_transaction_options_set_commit_bypass_memtable(x, 1);
#endif
  rocksdb_transaction_t* txn = rocksdb_transaction_begin(db, w, x, NULL);
  rocksdb_transaction_set_name(txn, "past", 4, &err);
  CHECK_OK(err);
  for (int nth = 0; nth < 200; nth++) {
    char key[8];
    snprintf(key, sizeof(key), "p%03d", nth);
    txn_put(txn, families[0], key, "past");
    txn_put(txn, families[1], key, "past");
  }
  txn_put(txn, families[0], "flushed", "3");
  rocksdb_transaction_prepare(txn, &err);
  CHECK_OK(err);
  rocksdb_transaction_commit(txn, &err);
  CHECK_OK(err);
  rocksdb_transaction_destroy(txn);
  rocksdb_transaction_options_destroy(x);
  rocksdb_writeoptions_destroy(w);
}

static void leave(rocksdb_transactiondb_t* db, rocksdb_column_family_handle_t** families, int dies) {
  char* err = NULL;
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_transactiondb_put(db, w, "gone", 4, "1", 1, &err);
  CHECK_OK(err);
  rocksdb_transaction_t* done = prepared(db, families, "committed", "a");
  rocksdb_transaction_set_commit_timestamp(done, 10);
  rocksdb_transaction_commit(done, &err);
  CHECK_OK(err);
  rocksdb_transaction_destroy(done);
  done = prepared(db, families, "rolled back", "b");
  rocksdb_transaction_rollback(done, &err);
  CHECK_OK(err);
  rocksdb_transaction_destroy(done);
  rocksdb_transactiondb_put(db, w, "gone", 4, "2", 1, &err);
  CHECK_OK(err);
  rocksdb_transaction_t* first = prepared(db, families, "first", "c");
  /* The sections are in several logs, and one family has newer tables. */
  rocksdb_transactiondb_put(db, w, "flushed", 7, "1", 1, &err);
  CHECK_OK(err);
  rocksdb_transactiondb_flush_cf(db, f, families[0], &err);
  CHECK_OK(err);
  rocksdb_transaction_t* late = prepared(db, families, "late", "d");
  rocksdb_transactiondb_put(db, w, "flushed", 7, "2", 1, &err);
  CHECK_OK(err);
  rocksdb_transactiondb_flush_cf(db, f, families[0], &err);
  CHECK_OK(err);
  rocksdb_transaction_set_commit_timestamp(late, 12);
  rocksdb_transaction_commit(late, &err);
  CHECK_OK(err);
  rocksdb_transaction_destroy(late);
  rocksdb_transaction_t* second = prepared(db, families, "second", "e");
  rocksdb_transactiondb_flush_cf(db, f, families[0], &err);
  CHECK_OK(err);
  commit_past(db, families);
  if (dies) {
    _exit(0);
  }
  rocksdb_transaction_destroy(first);
  rocksdb_transaction_destroy(second);
  rocksdb_flushoptions_destroy(f);
  rocksdb_writeoptions_destroy(w);
}

static void expect_decided(rocksdb_transactiondb_t* db, rocksdb_column_family_handle_t** families, const char* first) {
  for (int f = 0; f < 2; f++) {
    expect(db, families[f], "a", "committed");
    expect(db, families[f], "b", NULL);
    expect(db, families[f], "c", first);
    expect(db, families[f], "d", "late");
    expect(db, families[f], "e", NULL);
    expect(db, families[f], "p000", "past");
    expect(db, families[f], "p199", "past");
  }
  expect_at(db, families[2], "a", 9, NULL);
  expect_at(db, families[2], "a", 10, "committed");
  expect_at(db, families[2], "b", 99, NULL);
  expect_at(db, families[2], "c", 29, NULL);
  expect_at(db, families[2], "c", 30, first);
  expect_at(db, families[2], "d", 11, NULL);
  expect_at(db, families[2], "d", 12, "late");
  expect_at(db, families[2], "e", 99, NULL);
  expect(db, families[0], "flushed", "3");
}

static void take(rocksdb_transactiondb_t* db, rocksdb_column_family_handle_t** families) {
  char* err = NULL;
  size_t count = 0;
  size_t len = 0;
  expect_decided(db, families, NULL);
  rocksdb_transaction_t** left = rocksdb_transactiondb_get_prepared_transactions(db, &count);
  CHECK(count == 2);
  for (size_t at = 0; at < count; at++) {
    char* name = rocksdb_transaction_get_name(left[at], &len);
    int is_first = same(name, len, "first");
    CHECK(is_first || same(name, len, "second"));
    rocksdb_free(name);
    rocksdb_readoptions_t* r = rocksdb_readoptions_create();
    const char* key = is_first ? "c" : "e";
    char* value = rocksdb_transaction_get_cf(left[at], r, families[1], key, 1, &len, &err);
    CHECK_OK(err);
    CHECK(same(value, len, is_first ? "first" : "second"));
    rocksdb_free(value);
    rocksdb_readoptions_destroy(r);
    if (is_first) {
      rocksdb_transaction_set_commit_timestamp(left[at], 30);
      rocksdb_transaction_commit(left[at], &err);
    } else {
      rocksdb_transaction_rollback(left[at], &err);
    }
    CHECK_OK(err);
    rocksdb_transaction_destroy(left[at]);
  }
  rocksdb_free(left);
  expect_decided(db, families, "first");
  expect(db, families[0], "gone", NULL);
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  char* err = NULL;
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_create_missing_column_families(o, 1);
  rocksdb_transactiondb_options_t* to = rocksdb_transactiondb_options_create();
  rocksdb_options_t* with_timestamps = rocksdb_options_create();
  rocksdb_get_options_from_string(o, "comparator=leveldb.BytewiseComparator.u64ts", with_timestamps, &err);
  CHECK_OK(err);
  const rocksdb_options_t* options[] = {o, o, with_timestamps};
  rocksdb_column_family_handle_t* families[3];
  /* The second round finds everything decided. */
  for (int round = 0; round < 2; round++) {
    rocksdb_transactiondb_t* db =
        rocksdb_transactiondb_open_column_families(o, to, argv[1], 3, names, options, families, &err);
    CHECK_OK(err);
    if (strcmp(argv[2], "pass") == 0) {
      expect_decided(db, families, NULL);
    } else if (strcmp(argv[2], "take") != 0) {
      leave(db, families, strcmp(argv[2], "die") == 0);
      round = 2;
    } else if (round == 0) {
      take(db, families);
    } else {
      size_t count = 0;
      CHECK(rocksdb_transactiondb_get_prepared_transactions(db, &count) == NULL && count == 0);
      expect_decided(db, families, "first");
      expect(db, families[0], "gone", NULL);
    }
    rocksdb_column_family_handle_destroy(families[0]);
    rocksdb_column_family_handle_destroy(families[1]);
    rocksdb_column_family_handle_destroy(families[2]);
    rocksdb_transactiondb_close(db);
  }
  rocksdb_transactiondb_options_destroy(to);
  rocksdb_options_destroy(with_timestamps);
  rocksdb_options_destroy(o);
  return 0;
}
