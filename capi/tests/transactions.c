/* Transactions, optimistic and pessimistic. Runs with RocksDB's library as well. */
#include "check.h"

/* `txn` reads `want` for `key`; null for nothing. */
static void check_txn_get(rocksdb_transaction_t* txn, const char* key, const char* want) {
  char* err = NULL;
  size_t len = 0;
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  char* value = rocksdb_transaction_get(txn, r, key, strlen(key), &len, &err);
  CHECK_OK(err);
  if (want == NULL)
    CHECK(value == NULL);
  else
    CHECK(same(value, len, want));
  rocksdb_free(value);
  rocksdb_pinnableslice_t* pinned = rocksdb_transaction_get_pinned(txn, r, key, strlen(key), &err);
  CHECK_OK(err);
  CHECK((pinned == NULL) == (want == NULL));
  if (pinned != NULL) {
    CHECK(same_at(rocksdb_pinnableslice_value(pinned, &len), &len, want));
    rocksdb_pinnableslice_destroy(pinned);
  }
  rocksdb_readoptions_destroy(r);
}

static void txn_put(rocksdb_transaction_t* txn, const char* key, const char* value) {
  char* err = NULL;
  rocksdb_transaction_put(txn, key, strlen(key), value, strlen(value), &err);
  CHECK_OK(err);
}

static void commit(rocksdb_transaction_t* txn) {
  char* err = NULL;
  rocksdb_transaction_commit(txn, &err);
  CHECK_OK(err);
}

static void pessimistic(const char* dir) {
  char* err = NULL;
  size_t len = 0;
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_transactiondb_options_t* to = rocksdb_transactiondb_options_create();
  rocksdb_transactiondb_options_set_max_num_locks(to, 100);
  rocksdb_transactiondb_options_set_num_stripes(to, 3);
  rocksdb_transactiondb_options_set_transaction_lock_timeout(to, 2);
  rocksdb_transactiondb_options_set_default_lock_timeout(to, 1);
  rocksdb_transaction_options_t* x = rocksdb_transaction_options_create();
  rocksdb_transaction_options_set_deadlock_detect(x, 1);
  rocksdb_transaction_options_set_deadlock_detect_depth(x, 10);
  rocksdb_transaction_options_set_lock_timeout(x, 1);
  rocksdb_transaction_options_set_max_write_batch_size(x, 1000);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_transactiondb_t* db = rocksdb_transactiondb_open(o, to, dir, &err);
  CHECK_OK(err);

  rocksdb_transactiondb_put(db, w, "a", 1, "0", 1, &err);
  CHECK_OK(err);
  rocksdb_transaction_t* txn = rocksdb_transaction_begin(db, w, x, NULL);
  rocksdb_transaction_t* other = rocksdb_transaction_begin(db, w, x, NULL);
  txn_put(txn, "a", "1");
  check_txn_get(txn, "a", "1");
  check_txn_get(other, "a", "0");
  rocksdb_transaction_put(other, "a", 1, "2", 1, &err);
  CHECK_ERROR(err, "Operation timed out: Timeout waiting to lock key");
  rocksdb_transactiondb_put(db, w, "a", 1, "2", 1, &err);
  CHECK_ERROR(err, "Operation timed out: Timeout waiting to lock key");
  rocksdb_transactiondb_delete(db, w, "a", 1, &err);
  CHECK_ERROR(err, "Operation timed out: Timeout waiting to lock key");
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "a", 1, "2", 1);
  rocksdb_transactiondb_write(db, w, batch, &err);
  CHECK_ERROR(err, "Operation timed out: Timeout waiting to lock key");

  /* Save points, an iterator over both, reads for update. */
  rocksdb_transaction_set_savepoint(txn);
  txn_put(txn, "b", "1");
  rocksdb_transaction_rollback_to_savepoint(txn, &err);
  CHECK_OK(err);
  rocksdb_transaction_rollback_to_savepoint(txn, &err);
  CHECK_ERROR(err, "NotFound: ");
  txn_put(other, "b", "3");
  txn_put(txn, "c", "1");
  rocksdb_iterator_t* iter = rocksdb_transaction_create_iterator(txn, r);
  rocksdb_iter_seek_to_first(iter);
  CHECK(rocksdb_iter_valid(iter) && same_at(rocksdb_iter_value(iter, &len), &len, "1"));
  rocksdb_iter_next(iter);
  CHECK(rocksdb_iter_valid(iter) && same_at(rocksdb_iter_key(iter, &len), &len, "c"));
  rocksdb_iter_next(iter);
  CHECK(!rocksdb_iter_valid(iter));
  rocksdb_iter_destroy(iter);
  char* value = rocksdb_transaction_get_for_update(txn, r, "s", 1, &len, 0, &err);
  CHECK_OK(err);
  CHECK(value == NULL);
  value = rocksdb_transaction_get_for_update(other, r, "s", 1, &len, 0, &err);
  CHECK_OK(err);
  rocksdb_pinnableslice_t* pinned = rocksdb_transaction_get_pinned_for_update(other, r, "s", 1, 1, &err);
  CHECK(pinned == NULL);
  CHECK_ERROR(err, "Operation timed out: Timeout waiting to lock key");

  const char* keys[] = {"b", "x"};
  size_t sizes[] = {1, 1};
  char* values[2];
  size_t lens[2];
  char* errs[2];
  rocksdb_transaction_multi_get(other, r, 2, keys, sizes, values, lens, errs);
  CHECK(errs[0] == NULL && errs[1] == NULL && same(values[0], lens[0], "3") && values[1] == NULL);
  rocksdb_free(values[0]);
  rocksdb_transaction_multi_get_for_update(txn, r, 2, keys, sizes, values, lens, errs);
  for (int at = 0; at < 2; ++at) {
    CHECK(values[at] == NULL);
    CHECK_ERROR(errs[at], "Operation timed out: Timeout waiting to lock key");
  }

  /* The batch and the snapshot of a transaction are freed by the program. */
  rocksdb_writebatch_wi_t* wi = rocksdb_transaction_get_writebatch_wi(txn);
  CHECK(rocksdb_writebatch_wi_count(wi) == 2);
  rocksdb_free(wi);
  wi = rocksdb_writebatch_wi_create(0, 1);
  rocksdb_writebatch_wi_put(wi, "c", 1, "4", 1);
  rocksdb_transaction_rebuild_from_writebatch_wi(other, wi, &err);
  CHECK_ERROR(err, "Operation timed out: Timeout waiting to lock key");
  rocksdb_writebatch_wi_destroy(wi);
  commit(txn);
  rocksdb_transaction_commit(txn, &err);
  CHECK_ERROR(err, "Invalid argument: Transaction has already been committed.");
  rocksdb_transaction_rollback(other, &err);
  CHECK_OK(err);
  rocksdb_transaction_destroy(txn);
  txn = other;

  rocksdb_transaction_options_set_set_snapshot(x, 1);
  CHECK(rocksdb_transaction_begin(db, w, x, txn) == txn);
  rocksdb_transactiondb_put(db, w, "a", 1, "5", 1, &err);
  CHECK_OK(err);
  const rocksdb_snapshot_t* snapshot = rocksdb_transaction_get_snapshot(txn);
  rocksdb_readoptions_t* at_snapshot = rocksdb_readoptions_create();
  rocksdb_readoptions_set_snapshot(at_snapshot, snapshot);
  value = rocksdb_transaction_get(txn, at_snapshot, "a", 1, &len, &err);
  CHECK_OK(err);
  CHECK(same(value, len, "1"));
  rocksdb_free(value);
  rocksdb_free((void*)snapshot);
  rocksdb_readoptions_set_snapshot(at_snapshot, NULL);
  value = rocksdb_transaction_get_for_update(txn, r, "a", 1, &len, 1, &err);
  CHECK(value == NULL);
  CHECK_ERROR(err, "Resource busy: ");
  rocksdb_transaction_put(txn, "a", 1, "6", 1, &err);
  CHECK_ERROR(err, "Resource busy: ");
  char* long_value = calloc(1, 2000);
  rocksdb_transaction_put(txn, "l", 1, long_value, 2000, &err);
  CHECK_ERROR(err, "Operation aborted: Memory limit reached");
  free(long_value);
  rocksdb_transaction_set_name(txn, "name", 4, &err);
  CHECK_OK(err);
  char* name = rocksdb_transaction_get_name(txn, &len);
  CHECK(same(name, len, "name"));
  rocksdb_free(name);
  rocksdb_transaction_destroy(txn);

  /* A transaction without a snapshot has one that reads the latest state. */
  rocksdb_transaction_options_set_set_snapshot(x, 0);
  txn = rocksdb_transaction_begin(db, w, x, NULL);
  snapshot = rocksdb_transaction_get_snapshot(txn);
  rocksdb_readoptions_set_snapshot(at_snapshot, snapshot);
  rocksdb_transactiondb_put(db, w, "a", 1, "7", 1, &err);
  CHECK_OK(err);
#ifndef NOT_CAIRN
  /* RocksDB's library dereferences a null pointer. */
  CHECK(rocksdb_snapshot_get_sequence_number(snapshot) == 0);
#endif
  value = rocksdb_transaction_get(txn, at_snapshot, "a", 1, &len, &err);
  CHECK(same(value, len, "7"));
  rocksdb_free(value);
  rocksdb_free((void*)snapshot);
  rocksdb_transaction_rebuild_from_writebatch(txn, batch, &err);
  CHECK_OK(err);
  check_txn_get(txn, "a", "2");
  rocksdb_transaction_delete(txn, "a", 1, &err);
  CHECK_OK(err);
  check_txn_get(txn, "a", NULL);
  commit(txn);
  rocksdb_transaction_destroy(txn);
  value = rocksdb_transactiondb_get(db, r, "a", 1, &len, &err);
  CHECK_OK(err);
  CHECK(value == NULL);

  /* The parts of the database. */
  rocksdb_t* base = rocksdb_transactiondb_get_base_db(db);
  CHECK_GET(base, r, "c", "1");
  rocksdb_transactiondb_close_base_db(base);
  const rocksdb_snapshot_t* own = rocksdb_transactiondb_create_snapshot(db);
  rocksdb_transactiondb_release_snapshot(db, own);
  rocksdb_column_family_handle_t* family = rocksdb_transactiondb_create_column_family(db, o, "f", &err);
  CHECK_OK(err);
  rocksdb_transactiondb_put_cf(db, w, family, "k", 1, "1", 1, &err);
  CHECK_OK(err);
  txn = rocksdb_transaction_begin(db, w, x, NULL);
  rocksdb_transaction_put_cf(txn, family, "k", 1, "2", 1, &err);
  CHECK_OK(err);
  iter = rocksdb_transaction_create_iterator_cf(txn, r, family);
  rocksdb_iter_seek_to_first(iter);
  CHECK(same_at(rocksdb_iter_value(iter, &len), &len, "2"));
  rocksdb_iter_destroy(iter);
  rocksdb_transactiondb_delete_cf(db, w, family, "k", 1, &err);
  CHECK_ERROR(err, "Operation timed out: Timeout waiting to lock key");
  commit(txn);
  rocksdb_transaction_destroy(txn);
  value = rocksdb_transactiondb_get_cf(db, r, family, "k", 1, &len, &err);
  CHECK_OK(err);
  CHECK(same(value, len, "2"));
  rocksdb_free(value);
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_transactiondb_flush_cf(db, f, family, &err);
  CHECK_OK(err);
  rocksdb_transactiondb_flush(db, f, &err);
  CHECK_OK(err);
  rocksdb_transactiondb_flush_wal(db, 1, &err);
  CHECK_OK(err);
  rocksdb_flushoptions_destroy(f);
  uint64_t number = 0;
  CHECK(rocksdb_transactiondb_property_int(db, "rocksdb.num-snapshots", &number) == 0 && number == 0);
  char* text = rocksdb_transactiondb_property_value(db, "rocksdb.num-snapshots");
  CHECK(strcmp(text, "0") == 0);
  rocksdb_free(text);
  iter = rocksdb_transactiondb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(iter);
  CHECK(rocksdb_iter_valid(iter));
  rocksdb_iter_destroy(iter);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_transactiondb_close(db);

  const char* names[] = {"default", "f"};
  const rocksdb_options_t* options[] = {o, o};
  rocksdb_column_family_handle_t* families[2];
  db = rocksdb_transactiondb_open_column_families(o, to, dir, 2, names, options, families, &err);
  CHECK_OK(err);
  value = rocksdb_transactiondb_get_cf(db, r, families[1], "k", 1, &len, &err);
  CHECK_OK(err);
  CHECK(same(value, len, "2"));
  rocksdb_free(value);
  /* Two-phase commit: one transaction is committed, one is left to the next opening. */
  txn = rocksdb_transaction_begin(db, w, x, NULL);
  txn_put(txn, "p", "1");
  rocksdb_transaction_prepare(txn, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_transaction_set_name(txn, "first", 5, &err);
  CHECK_OK(err);
  rocksdb_transaction_prepare(txn, &err);
  CHECK_OK(err);
  rocksdb_transaction_prepare(txn, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_transaction_commit(txn, &err);
  CHECK_OK(err);
  rocksdb_transaction_destroy(txn);
  txn = rocksdb_transaction_begin(db, w, x, NULL);
  rocksdb_transaction_set_name(txn, "second", 6, &err);
  CHECK_OK(err);
  txn_put(txn, "q", "1");
  rocksdb_transaction_prepare(txn, &err);
  CHECK_OK(err);
  rocksdb_transaction_destroy(txn);
  rocksdb_column_family_handle_destroy(families[0]);
  rocksdb_column_family_handle_destroy(families[1]);
  rocksdb_transactiondb_close(db);
  db = rocksdb_transactiondb_open_column_families(o, to, dir, 2, names, options, families, &err);
  CHECK_OK(err);
  {
    size_t count = 7;
    rocksdb_transaction_t** left = rocksdb_transactiondb_get_prepared_transactions(db, &count);
    CHECK(count == 1);
    char* name = rocksdb_transaction_get_name(left[0], &len);
    CHECK(same(name, len, "second"));
    rocksdb_free(name);
    value = rocksdb_transaction_get(left[0], r, "q", 1, &len, &err);
    CHECK_OK(err);
    CHECK(same(value, len, "1"));
    rocksdb_free(value);
    value = rocksdb_transactiondb_get(db, r, "q", 1, &len, &err);
    CHECK_OK(err);
    CHECK(value == NULL);
    rocksdb_transaction_rollback(left[0], &err);
    CHECK_OK(err);
    rocksdb_transaction_destroy(left[0]);
    rocksdb_free(left);
    left = rocksdb_transactiondb_get_prepared_transactions(db, &count);
    CHECK(count == 0 && left == NULL);
    value = rocksdb_transactiondb_get(db, r, "p", 1, &len, &err);
    CHECK_OK(err);
    CHECK(same(value, len, "1"));
    rocksdb_free(value);
  }
#ifndef NOT_CAIRN
  txn = rocksdb_transaction_begin(db, w, x, NULL);
  /* A transaction, its iterator and its snapshot outlive the database. */
  iter = rocksdb_transaction_create_iterator(txn, r);
  rocksdb_iter_seek_to_first(iter);
  CHECK(rocksdb_iter_valid(iter));
  rocksdb_transactiondb_close(db);
  CHECK(!rocksdb_iter_valid(iter));
  rocksdb_iter_destroy(iter);
  rocksdb_transaction_get(txn, r, "c", 1, &len, &err);
  CHECK_ERROR(err, "Shutdown in progress");
  rocksdb_transaction_destroy(txn);
#endif
  rocksdb_column_family_handle_destroy(families[0]);
  rocksdb_column_family_handle_destroy(families[1]);
#ifdef NOT_CAIRN
  rocksdb_transactiondb_close(db);
#endif

  rocksdb_writebatch_destroy(batch);
  rocksdb_readoptions_destroy(at_snapshot);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_transaction_options_destroy(x);
  rocksdb_transactiondb_options_destroy(to);
  rocksdb_destroy_db(o, dir, &err);
  CHECK_OK(err);
  rocksdb_options_destroy(o);
}

/* Checks that both families have the keys of the first `transactions` ones. */
static void check_large(rocksdb_transactiondb_t* db, rocksdb_column_family_handle_t** families, int transactions) {
  char* err = NULL;
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  for (int f = 0; f < 2; f++) {
    int found = 0;
    rocksdb_iterator_t* iter = rocksdb_transactiondb_create_iterator_cf(db, r, families[f]);
    for (rocksdb_iter_seek(iter, "t", 1); rocksdb_iter_valid(iter); rocksdb_iter_next(iter)) {
      found++;
    }
    rocksdb_iter_get_error(iter, &err);
    CHECK_OK(err);
    CHECK(found == transactions * 500);
    rocksdb_iter_destroy(iter);
  }
  size_t len = 0;
  char* value = rocksdb_transactiondb_get_cf(db, r, families[1], "t0-499", 6, &len, &err);
  CHECK_OK(err);
  CHECK(transactions == 0 ? value == NULL : same(value, len, "499"));
  rocksdb_free(value);
  value = rocksdb_transactiondb_get(db, r, "shared", 6, &len, &err);
  CHECK_OK(err);
  char last[2] = {(char)('0' + transactions), 0};
  CHECK(transactions == 0 ? value == NULL : same(value, len, last));
  rocksdb_free(value);
  rocksdb_readoptions_destroy(r);
}

/* Prepared transactions are committed past the memtable, because of each of the three options. */
static void large(const char* dir) {
  char* err = NULL;
  const char* names[] = {"default", "f"};
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_options_set_create_missing_column_families(o, 1);
  rocksdb_options_enable_statistics(o);
  const rocksdb_options_t* options[] = {o, o};
  rocksdb_column_family_handle_t* families[2];
  rocksdb_transactiondb_options_t* to = rocksdb_transactiondb_options_create();
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_transactiondb_t* db = rocksdb_transactiondb_open_column_families(o, to, dir, 2, names, options, families, &err);
  CHECK_OK(err);
  for (int nth = 0; nth < 3; nth++) {
    rocksdb_transaction_options_t* x = rocksdb_transaction_options_create();
    CHECK(rocksdb_transaction_options_get_commit_bypass_memtable(x) == 0);
    CHECK(rocksdb_transaction_options_get_large_txn_commit_optimize_threshold(x) == 0);
    CHECK(rocksdb_transaction_options_get_large_txn_commit_optimize_byte_threshold(x) == 0);
    switch (nth) {
      case 0:
        rocksdb_transaction_options_set_commit_bypass_memtable(x, 1);
        break;
      case 1:
        rocksdb_transaction_options_set_large_txn_commit_optimize_threshold(x, 1001);
        break;
      case 2:
        rocksdb_transaction_options_set_large_txn_commit_optimize_byte_threshold(x, 10000);
        break;
    }
    rocksdb_transaction_t* txn = rocksdb_transaction_begin(db, w, x, NULL);
    char name[2] = {(char)('1' + nth), 0};
    rocksdb_transaction_set_name(txn, name, 1, &err);
    CHECK_OK(err);
    for (int at = 0; at < 500; at++) {
      char key[16], value[16];
      int key_len = snprintf(key, sizeof(key), "t%d-%03d", nth, at);
      int value_len = snprintf(value, sizeof(value), "%d", at);
      for (int f = 0; f < 2; f++) {
        rocksdb_transaction_put_cf(txn, families[f], key, (size_t)key_len, value, (size_t)value_len, &err);
        CHECK_OK(err);
      }
    }
    txn_put(txn, "shared", name);
    rocksdb_transaction_prepare(txn, &err);
    CHECK_OK(err);
    check_txn_get(txn, "shared", name);
    check_large(db, families, nth);
    commit(txn);
    check_large(db, families, nth + 1);
    rocksdb_transactiondb_put(db, w, "between", 7, name, 1, &err);
    CHECK_OK(err);
    rocksdb_transaction_destroy(txn);
    rocksdb_transaction_options_destroy(x);
  }
  char* statistics = rocksdb_options_statistics_get_string(o);
  CHECK(strstr(statistics, "rocksdb.number.wbwi.ingest COUNT : 3\n") != NULL);
  rocksdb_free(statistics);
  for (int round = 0; round < 2; round++) {
    rocksdb_column_family_handle_destroy(families[0]);
    rocksdb_column_family_handle_destroy(families[1]);
    rocksdb_transactiondb_close(db);
    if (round == 0) {
      db = rocksdb_transactiondb_open_column_families(o, to, dir, 2, names, options, families, &err);
      CHECK_OK(err);
      check_large(db, families, 3);
    }
  }
  rocksdb_writeoptions_destroy(w);
  rocksdb_transactiondb_options_destroy(to);
  rocksdb_destroy_db(o, dir, &err);
  CHECK_OK(err);
  rocksdb_options_destroy(o);
}

static void check_db_get(rocksdb_transactiondb_t* db, const char* key, const char* want) {
  char* err = NULL;
  size_t len = 0;
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  char* value = rocksdb_transactiondb_get(db, r, key, strlen(key), &len, &err);
  CHECK_OK(err);
  CHECK(want == NULL ? value == NULL : same(value, len, want));
  rocksdb_free(value);
  rocksdb_readoptions_destroy(r);
}

/* A handle of the batch of a transaction remains valid when the transaction is begun again. */
static void begun_again(const char* dir) {
  char* err = NULL;
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_transactiondb_options_t* to = rocksdb_transactiondb_options_create();
  rocksdb_transaction_options_t* x = rocksdb_transaction_options_create();
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_transactiondb_t* db = rocksdb_transactiondb_open(o, to, dir, &err);
  CHECK_OK(err);
  rocksdb_transaction_t* txn = rocksdb_transaction_begin(db, w, x, NULL);
  rocksdb_writebatch_wi_t* wi = rocksdb_transaction_get_writebatch_wi(txn);
  txn_put(txn, "a", "1");
  CHECK(rocksdb_writebatch_wi_count(wi) == 1);
  rocksdb_transaction_options_set_max_write_batch_size(x, 100);
  CHECK(rocksdb_transaction_begin(db, w, x, txn) == txn);
  CHECK(rocksdb_writebatch_wi_count(wi) == 0);
  check_txn_get(txn, "a", NULL);
  txn_put(txn, "b", "2");
  rocksdb_writebatch_wi_put(wi, "c", 1, "3", 1);
  CHECK(rocksdb_writebatch_wi_count(wi) == 2);
  check_txn_get(txn, "c", "3");
  char large[100] = {0};
  rocksdb_transaction_put(txn, "d", 1, large, sizeof large, &err);
  CHECK_ERROR(err, "Operation aborted: Memory limit reached");
  commit(txn);
  CHECK(rocksdb_writebatch_wi_count(wi) == 0);
  check_db_get(db, "a", NULL);
  check_db_get(db, "b", "2");
  check_db_get(db, "c", "3");
#ifndef NOT_CAIRN
  /* A prepared transaction keeps its writes, which RocksDB discards. */
  CHECK(rocksdb_transaction_begin(db, w, x, txn) == txn);
  rocksdb_transaction_set_name(txn, "left", 4, &err);
  CHECK_OK(err);
  txn_put(txn, "e", "5");
  rocksdb_transaction_prepare(txn, &err);
  CHECK_OK(err);
  CHECK(rocksdb_transaction_begin(db, w, x, txn) == txn);
  CHECK(rocksdb_writebatch_wi_count(wi) == 0);
  txn_put(txn, "f", "6");
  CHECK(rocksdb_writebatch_wi_count(wi) == 1);
  size_t count = 0;
  rocksdb_transaction_t** left = rocksdb_transactiondb_get_prepared_transactions(db, &count);
  CHECK(count == 1);
  commit(left[0]);
  rocksdb_transaction_destroy(left[0]);
  rocksdb_free(left);
  commit(txn);
  check_db_get(db, "e", "5");
  check_db_get(db, "f", "6");
#endif
  rocksdb_free(wi);
  rocksdb_transaction_destroy(txn);
  rocksdb_transactiondb_close(db);
  rocksdb_writeoptions_destroy(w);
  rocksdb_transaction_options_destroy(x);
  rocksdb_transactiondb_options_destroy(to);
  rocksdb_options_destroy(o);
}

static void optimistic(const char* dir) {
  char* err = NULL;
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(o, 1);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_optimistictransaction_options_t* x = rocksdb_optimistictransaction_options_create();
  rocksdb_optimistictransactiondb_t* db = rocksdb_optimistictransactiondb_open(o, dir, &err);
  CHECK_OK(err);
  rocksdb_t* base = rocksdb_optimistictransactiondb_get_base_db(db);
  rocksdb_transaction_t* txn = rocksdb_optimistictransaction_begin(db, w, x, NULL);
  rocksdb_transaction_t* other = rocksdb_optimistictransaction_begin(db, w, x, NULL);
  txn_put(txn, "a", "1");
  txn_put(other, "a", "2");
  CHECK_GET(base, r, "a", NULL);
  commit(txn);
  CHECK_GET(base, r, "a", "1");
  rocksdb_transaction_commit(other, &err);
  CHECK_ERROR(err, "Resource busy: ");
  rocksdb_transaction_rollback(other, &err);
  CHECK_OK(err);
  txn_put(other, "a", "3");
  commit(other);
  CHECK_GET(base, r, "a", "3");
  rocksdb_transaction_set_name(other, "name", 4, &err);
  CHECK_ERROR(err, "Invalid argument: Optimistic transactions cannot be named.");

  rocksdb_optimistictransaction_options_set_set_snapshot(x, 1);
  rocksdb_writebatch_wi_t* wi = rocksdb_transaction_get_writebatch_wi(txn);
  CHECK(rocksdb_optimistictransaction_begin(db, w, x, txn) == txn);
  rocksdb_put(base, w, "b", 1, "1", 1, &err);
  CHECK_OK(err);
  txn_put(txn, "b", "2");
  CHECK(rocksdb_writebatch_wi_count(wi) == 1);
  rocksdb_free(wi);
  rocksdb_transaction_commit(txn, &err);
  CHECK_ERROR(err, "Resource busy: ");
  rocksdb_transaction_destroy(txn);
  rocksdb_transaction_destroy(other);

  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "c", 1, "1", 1);
  rocksdb_optimistictransactiondb_write(db, w, batch, &err);
  CHECK_OK(err);
  CHECK_GET(base, r, "c", "1");
  rocksdb_writebatch_destroy(batch);
  rocksdb_optimistictransactiondb_close_base_db(base);
  rocksdb_optimistictransactiondb_close(db);

  const char* names[] = {"default"};
  const rocksdb_options_t* options[] = {o};
  rocksdb_column_family_handle_t* families[1];
  db = rocksdb_optimistictransactiondb_open_column_families(o, dir, 1, names, options, families, &err);
  CHECK_OK(err);
  txn = rocksdb_optimistictransaction_begin(db, w, x, NULL);
  rocksdb_transaction_put_cf(txn, families[0], "d", 1, "1", 1, &err);
  CHECK_OK(err);
  commit(txn);
  rocksdb_transaction_destroy(txn);
  rocksdb_column_family_handle_destroy(families[0]);
  rocksdb_optimistictransactiondb_close(db);
  rocksdb_optimistictransaction_options_destroy(x);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(o);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  char dir[4096];
  snprintf(dir, sizeof dir, "%s/pessimistic", argv[1]);
  pessimistic(dir);
  snprintf(dir, sizeof dir, "%s/large", argv[1]);
  large(dir);
  snprintf(dir, sizeof dir, "%s/begun_again", argv[1]);
  begun_again(dir);
  snprintf(dir, sizeof dir, "%s/optimistic", argv[1]);
  optimistic(dir);
  return 0;
}
