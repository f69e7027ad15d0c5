/* Misuse: the cases of capi/MISUSE.md. A case that ends in an error ends with status 0; one that ends
 * the process does it with a message and SIGABRT. */
#include <cairn/c.h>

#include "check.h"

static rocksdb_t* open_db(const char* dir, rocksdb_options_t** options) {
  char* err = NULL;
  char* path = below(dir, "db");
  *options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(*options, 1);
  rocksdb_t* db = rocksdb_open(*options, path, &err);
  CHECK_OK(err);
  free(path);
  return db;
}

/* A destroyed object whose page was returned to the kernel, because all objects around it were destroyed too. */
enum { MANY = 20000 };

static const rocksdb_snapshot_t* released_snapshot(rocksdb_t* db) {
  static const rocksdb_snapshot_t* made[MANY];
  for (int i = 0; i < MANY; i++) made[i] = rocksdb_create_snapshot(db);
  for (int i = 0; i < MANY; i++) rocksdb_release_snapshot(db, made[i]);
  return made[0];
}

static rocksdb_iterator_t* destroyed_iterator(rocksdb_t* db, rocksdb_readoptions_t* r) {
  static rocksdb_iterator_t* made[MANY / 10];
  for (int i = 0; i < MANY / 10; i++) {
    made[i] = rocksdb_create_iterator(db, r);
    rocksdb_iter_seek_to_first(made[i]);
  }
  for (int i = 0; i < MANY / 10; i++) rocksdb_iter_destroy(made[i]);
  return made[0];
}

int main(int argc, char** argv) {
  CHECK(argc == 3);
  char* err = NULL;
  size_t len;
  const char* which = argv[2];
  rocksdb_options_t* o;
  rocksdb_t* db = open_db(argv[1], &o);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();

  if (strcmp(which, "null-db") == 0) {
    rocksdb_put(NULL, w, "k", 1, "v", 1, &err);
  } else if (strcmp(which, "null-options") == 0) {
    rocksdb_put(db, NULL, "k", 1, "v", 1, &err);
  } else if (strcmp(which, "null-errptr") == 0) {
    rocksdb_singledelete(db, w, "k", 1, NULL); /* no error: nothing to store */
    CHECK(rocksdb_open(o, "/dev/null/db", NULL) == NULL);
  } else if (strcmp(which, "after-close") == 0) {
    rocksdb_close(db);
    rocksdb_put(db, w, "k", 1, "v", 1, &err);
  } else if (strcmp(which, "close-twice") == 0) {
    rocksdb_close(db);
    rocksdb_close(db);
  } else if (strcmp(which, "options-destroyed") == 0) {
    rocksdb_writeoptions_destroy(w);
    rocksdb_put(db, w, "k", 1, "v", 1, &err);
  } else if (strcmp(which, "iterator-destroyed") == 0) {
    rocksdb_iterator_t* iter = rocksdb_create_iterator(db, r);
    rocksdb_iter_destroy(iter);
    rocksdb_iter_seek_to_first(iter);
  } else if (strcmp(which, "entry-destroyed") == 0 || strcmp(which, "entry-destroyed-twice") == 0) {
    rocksdb_put(db, w, "k", 1, "v", 1, &err);
    CHECK_OK(err);
    rocksdb_iterator_t* iter = rocksdb_create_iterator(db, r);
    rocksdb_iter_seek_to_first(iter);
    CHECK(same_at(rocksdb_iter_value(iter, &len), &len, "v"));
    rocksdb_iter_destroy(iter);
    if (strcmp(which, "entry-destroyed") == 0) {
      rocksdb_iter_key(iter, &len); /* where the entry was is noted no more */
    } else {
      rocksdb_iter_destroy(iter);
    }
  } else if (strcmp(which, "snapshot-gone") == 0) {
    rocksdb_snapshot_get_sequence_number(released_snapshot(db));
  } else if (strcmp(which, "snapshot-gone-twice") == 0) {
    rocksdb_release_snapshot(db, released_snapshot(db));
  } else if (strcmp(which, "iterator-gone") == 0) {
    rocksdb_iter_next(destroyed_iterator(db, r));
  } else if (strcmp(which, "entry-gone") == 0) {
    rocksdb_put(db, w, "k", 1, "v", 1, &err);
    CHECK_OK(err);
    rocksdb_iter_value(destroyed_iterator(db, r), &len);
  } else if (strcmp(which, "list-end") == 0) {
    cairn_damaged_tables_path(cairn_damaged_tables(db), 0);
  } else if (strcmp(which, "null-part") == 0) {
    rocksdb_compaction_job_stats_elapsed_micros(NULL);
  } else if (strcmp(which, "null-properties") == 0) {
    rocksdb_table_properties_num_entries(NULL);
  } else if (strcmp(which, "report-end") == 0) {
    rocksdb_compactionjobinfo_input_file_info_at(rocksdb_compactionjobinfo_create(), 0); /* nothing happened yet */
  } else if (strcmp(which, "null-data") == 0) {
    rocksdb_put(db, w, NULL, 0, NULL, 0, &err); /* the empty key and value */
    CHECK_OK(err);
    CHECK_GET(db, r, "", "");
    rocksdb_close(db);
    rocksdb_writeoptions_destroy(w);
    rocksdb_readoptions_destroy(r);
    rocksdb_options_destroy(o);
    return 0;
  } else if (strcmp(which, "transaction-destroyed") == 0 || strcmp(which, "transactions-destroyed") == 0) {
    char other[4096];
    snprintf(other, sizeof other, "%s-transactions", argv[1]);
    rocksdb_transactiondb_options_t* to = rocksdb_transactiondb_options_create();
    rocksdb_transactiondb_t* tdb = rocksdb_transactiondb_open(o, to, other, &err);
    CHECK_OK(err);
    rocksdb_transaction_t* txn = rocksdb_transaction_begin(tdb, w, NULL, NULL);
    if (which[strlen("transaction")] == 's') {
      rocksdb_transactiondb_close(tdb);
      rocksdb_transaction_begin(tdb, w, NULL, NULL);
    } else {
      rocksdb_transaction_destroy(txn);
      rocksdb_transaction_put(txn, "k", 1, "v", 1, &err);
    }
  } else if (strcmp(which, "close-with-readers") == 0) {
    rocksdb_put(db, w, "k", 1, "v", 1, &err);
    rocksdb_iterator_t* iter = rocksdb_create_iterator(db, r);
    rocksdb_iter_seek_to_first(iter);
    const rocksdb_snapshot_t* snapshot = rocksdb_create_snapshot(db);
    rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
    rocksdb_pinnableslice_t* pinned = rocksdb_get_pinned(db, r, "k", 1, &err);
    rocksdb_wal_iterator_t* stream = rocksdb_get_updates_since(db, 1, NULL, &err);
    CHECK_OK(err);
    rocksdb_close(db);
    CHECK(same_at(rocksdb_pinnableslice_value(pinned, &len), &len, "v"));
    /* The walk is over, and says why; the family is not read any more. */
    CHECK(!rocksdb_iter_valid(iter));
    CHECK(rocksdb_iter_key(iter, &len) == NULL && rocksdb_iter_value(iter, &len) == NULL);
    rocksdb_iter_next(iter);
    rocksdb_iter_seek_to_first(iter);
    CHECK(!rocksdb_iter_valid(iter));
    rocksdb_iter_get_error(iter, &err);
    CHECK_ERROR(err, "Shutdown in progress");
    rocksdb_iter_refresh(iter, &err);
    CHECK_ERROR(err, "Shutdown in progress");
    rocksdb_get_cf(NULL, r, family, "k", 1, &len, &err);
    CHECK_ERROR(err, "Shutdown in progress");
    rocksdb_put_cf(NULL, w, family, "k", 1, "v", 1, &err);
    CHECK_ERROR(err, "Shutdown in progress");
    rocksdb_iterator_t* late = rocksdb_create_iterator_cf(NULL, r, family);
    rocksdb_iter_seek_to_first(late);
    CHECK(!rocksdb_iter_valid(late));
    rocksdb_iter_get_error(late, &err);
    CHECK_ERROR(err, "Shutdown in progress");
    rocksdb_iter_destroy(late);
    rocksdb_wal_iter_next(stream);
    CHECK(!rocksdb_wal_iter_valid(stream));
    rocksdb_wal_iter_status(stream, &err);
    CHECK_ERROR(err, "Shutdown in progress");
    rocksdb_wal_iter_destroy(stream);
    rocksdb_iter_destroy(iter);
    rocksdb_release_snapshot(NULL, snapshot);
    rocksdb_pinnableslice_destroy(pinned);
    rocksdb_column_family_handle_destroy(family);
    rocksdb_writeoptions_destroy(w);
    rocksdb_readoptions_destroy(r);
    rocksdb_options_destroy(o);
    return 0;
  } else {
    fprintf(stderr, "no case %s\n", which);
    return 2;
  }
  /* The cases that end in an abort do not come here. */
  return 3;
}
