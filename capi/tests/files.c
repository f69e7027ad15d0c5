/* Files in and out: external tables, checkpoints, exports, lists of files, the stream of changes. */
#include "check.h"

static void external(rocksdb_t* db, rocksdb_options_t* options, rocksdb_readoptions_t* r, const char* dir) {
  char* err = NULL;
  char* path = below(dir, "external.sst");
  rocksdb_envoptions_t* env = rocksdb_envoptions_create();
  rocksdb_sstfilewriter_t* writer = rocksdb_sstfilewriter_create(env, options);
  rocksdb_sstfilewriter_open(writer, path, &err);
  CHECK_OK(err);
  rocksdb_sstfilewriter_put(writer, "x1", 2, "one", 3, &err);
  rocksdb_sstfilewriter_put(writer, "x2", 2, "two", 3, &err);
  CHECK_OK(err);
  rocksdb_sstfilewriter_put(writer, "x1", 2, "late", 4, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_sstfilewriter_delete(writer, "x3", 2, &err);
  CHECK_OK(err);
  rocksdb_sstfilewriter_finish(writer, &err);
  CHECK_OK(err);
  rocksdb_sstfilewriter_destroy(writer);
  rocksdb_envoptions_destroy(env);

  rocksdb_ingestexternalfileoptions_t* in = rocksdb_ingestexternalfileoptions_create();
  const char* list[] = {path};
  rocksdb_ingest_external_file(db, list, 1, in, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "x1", "one");
  CHECK_GET(db, r, "x3", NULL);
  rocksdb_ingestexternalfileoptions_destroy(in);
  free(path);
}

static void changes(rocksdb_t* db, uint64_t from) {
  char* err = NULL;
  rocksdb_wal_iterator_t* iter = rocksdb_get_updates_since(db, from, NULL, &err);
  CHECK_OK(err);
  CHECK(rocksdb_wal_iter_valid(iter));
  uint64_t seq = 0;
  rocksdb_writebatch_t* batch = rocksdb_wal_iter_get_batch(iter, &seq);
  CHECK(seq == from && rocksdb_writebatch_count(batch) == 1);
  rocksdb_writebatch_destroy(batch);
  rocksdb_wal_iter_next(iter);
  rocksdb_wal_iter_status(iter, &err);
  CHECK_OK(err);
  rocksdb_wal_iter_destroy(iter);
}

static void lists(rocksdb_t* db) {
  const rocksdb_livefiles_t* files = rocksdb_livefiles(db);
  CHECK(rocksdb_livefiles_count(files) > 0);
  CHECK(rocksdb_livefiles_name(files, 0)[0] == '/');
  CHECK(strcmp(rocksdb_livefiles_column_family_name(files, 0), "default") == 0);
  CHECK(rocksdb_livefiles_size(files, 0) > 0 && rocksdb_livefiles_entries(files, 0) > 0);
  rocksdb_livefiles_destroy(files);

  rocksdb_column_family_metadata_t* meta = rocksdb_get_column_family_metadata(db);
  CHECK(rocksdb_column_family_metadata_get_level_count(meta) == 7);
  size_t tables = 0;
  for (size_t i = 0; i < 7; i++) {
    rocksdb_level_metadata_t* level = rocksdb_column_family_metadata_get_level_metadata(meta, i);
    for (size_t j = 0; j < rocksdb_level_metadata_get_file_count(level); j++) {
      rocksdb_sst_file_metadata_t* table = rocksdb_level_metadata_get_sst_file_metadata(level, j);
      size_t len;
      char* key = rocksdb_sst_file_metadata_get_smallestkey(table, &len);
      CHECK(len > 0);
      rocksdb_free(key);
      rocksdb_sst_file_metadata_destroy(table);
      tables++;
    }
    rocksdb_level_metadata_destroy(level);
  }
  CHECK(tables == rocksdb_column_family_metadata_get_file_count(meta));
  rocksdb_column_family_metadata_destroy(meta);
}

#ifndef HEADER_7
/* What is known of a key without reading files: that it was deleted is known, and so is its value. */
static void known(rocksdb_t* db, rocksdb_writeoptions_t* w, rocksdb_readoptions_t* r) {
  char* err = NULL;
  char* value = NULL;
  size_t len = 1;
  unsigned char found = 0;
  rocksdb_put(db, w, "known", 5, "so", 2, &err);
  CHECK_OK(err);
  CHECK(rocksdb_key_may_exist(db, r, "known", 5, &value, &len, NULL, 0, &found));
  CHECK(found && same(value, len, "so"));
  rocksdb_free(value);
  rocksdb_delete(db, w, "known", 5, &err);
  CHECK_OK(err);
  found = 0;
  CHECK(!rocksdb_key_may_exist(db, r, "known", 5, &value, &len, NULL, 0, &found));
  CHECK(found && len == 0);
  rocksdb_free(value);

  /* Allowing what was not forbidden makes up for the next ban. */
  rocksdb_enable_manual_compaction(db);
  rocksdb_disable_manual_compaction(db);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  char* at_zero = rocksdb_property_value(db, "rocksdb.num-files-at-level0");
  CHECK(strcmp(at_zero, "0") == 0);
  rocksdb_free(at_zero);
}

/* A blob that was read lies in the cache that the program gave. */
static void blobs(const char* dir) {
  char* err = NULL;
  char* path = below(dir, "blobs");
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(1 << 20);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_enable_blob_files(options, 1);
  rocksdb_options_set_blob_cache(options, cache);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  static const char blob[10000];
  rocksdb_put(db, w, "k", 1, blob, sizeof blob, &err);
  CHECK_OK(err);
  rocksdb_flush(db, flush, &err);
  CHECK_OK(err);
  CHECK(rocksdb_cache_get_usage(cache) < sizeof blob);
  size_t len = 0;
  rocksdb_free(rocksdb_get(db, r, "k", 1, &len, &err));
  CHECK_OK(err);
  CHECK(len == sizeof blob);
  CHECK(rocksdb_cache_get_usage(cache) >= sizeof blob);
  rocksdb_flushoptions_destroy(flush);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  rocksdb_cache_destroy(cache);
  free(path);
}

/* A row cache of the program: a get fills it, the next takes its row, and a range deletion is seen. */
static void rows(const char* dir) {
  char* err = NULL;
  char* path = below(dir, "rows");
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(1 << 20);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_row_cache(options, cache);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_put(db, w, "k", 1, "v", 1, &err);
  CHECK_OK(err);
  rocksdb_flush(db, flush, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "k", "v");
  CHECK(rocksdb_cache_get_usage(cache) > 0);
  size_t usage = rocksdb_cache_get_usage(cache);
  CHECK_GET(db, r, "k", "v");
  CHECK(rocksdb_cache_get_usage(cache) == usage);
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_delete_range(batch, "k", 1, "l", 1);
  rocksdb_write(db, w, batch, &err);
#ifdef NOT_CAIRN
  CHECK_ERROR(err, "Not implemented: ");
#else
  CHECK_OK(err);
  CHECK_GET(db, r, "k", NULL);
#endif
  rocksdb_writebatch_destroy(batch);
  rocksdb_flushoptions_destroy(flush);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_close(db);
  rocksdb_options_destroy(options);
  rocksdb_cache_destroy(cache);
  free(path);
}
#endif

/* A database in an environment in memory: it outlives its handle, and no disk sees it. */
static void in_memory(const char* dir) {
  char* err = NULL;
  char* path = below(dir, "memory");
  rocksdb_env_t* env = rocksdb_create_mem_env();
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_env(options, env);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();

  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_put(db, w, "a", 1, "one", 3, &err);
  CHECK_OK(err);
  rocksdb_flush(db, f, &err);
  CHECK_OK(err);
  rocksdb_put(db, w, "b", 1, "two", 3, &err);
  CHECK_OK(err);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  rocksdb_close(db);

  size_t families = 0;
  char** names = rocksdb_list_column_families(options, path, &families, &err);
  CHECK_OK(err);
  CHECK(families == 1 && strcmp(names[0], "default") == 0);
  rocksdb_list_column_families_destroy(names, families);
  CHECK(fopen(path, "r") == NULL);

  db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "a", "one");
  CHECK_GET(db, r, "b", "two");
  rocksdb_close(db);
  rocksdb_destroy_db(options, path, &err);
  CHECK_OK(err);
  rocksdb_options_set_create_if_missing(options, 0);
  CHECK(rocksdb_open(options, path, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");

  rocksdb_flushoptions_destroy(f);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(options);
  rocksdb_env_destroy(env);
  free(path);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  char* err = NULL;
  char* path = below(argv[1], "db");
  char* copy = below(argv[1], "copy");
  char* export_dir = below(argv[1], "export");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_put(db, w, "a", 1, "1", 1, &err);
  rocksdb_put(db, w, "b", 1, "2", 1, &err);
  CHECK_OK(err);
  changes(db, 2);
  external(db, options, r, argv[1]);
  lists(db);
#ifndef HEADER_7
  blobs(argv[1]);
  rows(argv[1]);
  known(db, w, r);
#endif

  rocksdb_checkpoint_t* checkpoint = rocksdb_checkpoint_object_create(db, &err);
  CHECK_OK(err);
  rocksdb_checkpoint_create(checkpoint, copy, 0, &err);
  CHECK_OK(err);
  rocksdb_checkpoint_create(checkpoint, copy, 0, &err);
  CHECK_ERROR(err, "Invalid argument: ");
#ifndef HEADER_7
  rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
  rocksdb_export_import_files_metadata_t* exported =
      rocksdb_checkpoint_export_column_family(checkpoint, family, export_dir, &err);
  CHECK_OK(err);
  rocksdb_livefiles_t* tables = rocksdb_export_import_files_metadata_get_files(exported);
  CHECK(rocksdb_livefiles_count(tables) > 0);
  CHECK(rocksdb_livefiles_size(tables, 0) > 0);
  CHECK(strcmp(rocksdb_livefiles_column_family_name(tables, 0), "") == 0);
  CHECK(rocksdb_livefiles_entries(tables, 0) == 0 && rocksdb_livefiles_deletions(tables, 0) == 0);
  rocksdb_livefiles_destroy(tables);
  rocksdb_import_column_family_options_t* import = rocksdb_import_column_family_options_create();
  rocksdb_column_family_handle_t* imported =
      rocksdb_create_column_family_with_import(db, options, "imported", import, exported, &err);
  CHECK_OK(err);
  size_t len;
  char* value = rocksdb_get_cf(db, r, imported, "x2", 2, &len, &err);
  CHECK(same(value, len, "two"));
  rocksdb_free(value);
  rocksdb_column_family_handle_destroy(imported);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_import_column_family_options_destroy(import);
  rocksdb_export_import_files_metadata_destroy(exported);
#endif
  rocksdb_checkpoint_object_destroy(checkpoint);
  rocksdb_close(db);

  rocksdb_options_set_create_if_missing(options, 0);
  db = rocksdb_open(options, copy, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "b", "2");
  CHECK_GET(db, r, "x2", "two");
  rocksdb_close(db);

  in_memory(argv[1]);

  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(options);
  free(path);
  free(copy);
  free(export_dir);
  end_threads();
  return 0;
}
