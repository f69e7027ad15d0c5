/* Opening, reading, writing, scanning, snapshots, batches, families, properties. */
#include "check.h"

static void count_put(void* state, const char* k, size_t klen, const char* v, size_t vlen) {
  (void)k, (void)klen, (void)v, (void)vlen;
  ((int*)state)[0]++;
}

static void count_deleted(void* state, const char* k, size_t klen) {
  (void)k, (void)klen;
  ((int*)state)[1]++;
}

static void points(rocksdb_t* db, rocksdb_readoptions_t* r, rocksdb_writeoptions_t* w) {
  char* err = NULL;
  rocksdb_put(db, w, "a", 1, "one", 3, &err);
  CHECK_OK(err);
  rocksdb_put(db, w, "b", 1, "", 0, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "a", "one");
  CHECK_GET(db, r, "b", "");
  CHECK_GET(db, r, "c", NULL);

  size_t len = 99;
  rocksdb_pinnableslice_t* pinned = rocksdb_get_pinned(db, r, "a", 1, &err);
  CHECK_OK(err);
  CHECK(same_at(rocksdb_pinnableslice_value(pinned, &len), &len, "one"));
  rocksdb_pinnableslice_destroy(pinned);
  CHECK(rocksdb_get_pinned(db, r, "zz", 2, &err) == NULL && err == NULL);

#ifndef HEADER_7
  char buffer[2];
  unsigned char found = 9;
  CHECK(!rocksdb_get_into_buffer(db, r, "a", 1, buffer, sizeof buffer, &len, &found, &err));
  CHECK(found == 1 && len == 3 && err == NULL);
#endif

  const char* keys[] = {"a", "c", "b"};
  size_t sizes[] = {1, 1, 1};
  char* values[3];
  size_t lengths[3];
  char* errs[3];
  rocksdb_multi_get(db, r, 3, keys, sizes, values, lengths, errs);
  CHECK(same(values[0], lengths[0], "one") && values[1] == NULL && lengths[2] == 0);
  for (int i = 0; i < 3; i++) {
    CHECK(errs[i] == NULL);
    rocksdb_free(values[i]);
  }

  rocksdb_delete(db, w, "b", 1, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "b", NULL);
  rocksdb_singledelete(db, w, "a", 1, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "a", NULL);
}

static void batches(rocksdb_t* db, rocksdb_readoptions_t* r, rocksdb_writeoptions_t* w) {
  char* err = NULL;
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "k1", 2, "v1", 2);
  const char* parts[] = {"k", "2"};
  size_t sizes[] = {1, 1};
  rocksdb_writebatch_putv(batch, 2, parts, sizes, 2, parts, sizes);
  rocksdb_writebatch_set_save_point(batch);
  rocksdb_writebatch_delete(batch, "k1", 2);
  rocksdb_writebatch_rollback_to_save_point(batch, &err);
  CHECK_OK(err);
  rocksdb_writebatch_delete(batch, "never", 5);
  CHECK(rocksdb_writebatch_count(batch) == 3);
  rocksdb_writebatch_rollback_to_save_point(batch, &err);
  CHECK_ERROR(err, "NotFound: ");

  int seen[2] = {0, 0};
  rocksdb_writebatch_iterate(batch, seen, count_put, count_deleted);
  CHECK(seen[0] == 2 && seen[1] == 1);
  // Single deletes are passed over, and a range ends the walk.
  rocksdb_writebatch_t* walked = rocksdb_writebatch_create();
  rocksdb_writebatch_put(walked, "a", 1, "1", 1);
  rocksdb_writebatch_singledelete(walked, "b", 1);
  rocksdb_writebatch_delete(walked, "c", 1);
  rocksdb_writebatch_delete_range(walked, "d", 1, "e", 1);
  rocksdb_writebatch_put(walked, "f", 1, "1", 1);
  seen[0] = seen[1] = 0;
  rocksdb_writebatch_iterate(walked, seen, count_put, count_deleted);
  CHECK(seen[0] == 1 && seen[1] == 1);
  rocksdb_writebatch_destroy(walked);

  size_t size = 0;
  const char* data = rocksdb_writebatch_data(batch, &size);
  rocksdb_writebatch_t* copy = rocksdb_writebatch_create_from(data, size);
  rocksdb_write(db, w, copy, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "k1", "v1");
  CHECK_GET(db, r, "k2", "k2");
  rocksdb_writebatch_clear(batch);
  CHECK(rocksdb_writebatch_count(batch) == 0);
  rocksdb_writebatch_destroy(batch);
  rocksdb_writebatch_destroy(copy);

#ifndef NOT_CAIRN
  /* A damaged batch, perhaps from another machine. After it, RocksDB rejects all writes. */
  char damaged[14] = {0};
  damaged[8] = 1;
  damaged[12] = 100;
  copy = rocksdb_writebatch_create_from(damaged, sizeof damaged);
  rocksdb_write(db, w, copy, &err);
  CHECK_ERROR(err, "Corruption: ");
  rocksdb_writebatch_destroy(copy);
#endif
}

#ifndef HEADER_7
#ifdef NOT_CAIRN
#define CHECK_LOST(err) CHECK_OK(err)
#define UNLESS_LOST(value) (value)
#else
#define CHECK_LOST(err) CHECK_ERROR(err, "Operation aborted")
#define UNLESS_LOST(value) NULL
#endif

/* What a batch has no room for is left out of it. RocksDB writes the rest, and says nothing; Cairn writes none of
 * a batch that has lost a record. */
static void limited(rocksdb_t* db, rocksdb_readoptions_t* r, rocksdb_writeoptions_t* w) {
  char* err = NULL;
  char large[60];
  memset(large, 'x', sizeof large);
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create_with_params(0, 40, 0, 0);
  rocksdb_writebatch_put(batch, "l1", 2, "v1", 2);
  rocksdb_writebatch_put(batch, "l2", 2, large, sizeof large);
  rocksdb_writebatch_put(batch, "l3", 2, "v3", 2);
  CHECK(rocksdb_writebatch_count(batch) == 2);
  rocksdb_write(db, w, batch, &err);
  CHECK_LOST(err);
  rocksdb_writebatch_destroy(batch);

  rocksdb_writebatch_wi_t* indexed = rocksdb_writebatch_wi_create_with_params(NULL, 0, 1, 40, 0);
  rocksdb_writebatch_wi_put(indexed, "l4", 2, "v4", 2);
  rocksdb_writebatch_wi_put(indexed, "l4", 2, large, sizeof large);
  rocksdb_writebatch_wi_put(indexed, "l5", 2, large, sizeof large);
  CHECK(rocksdb_writebatch_wi_count(indexed) == 1);
  rocksdb_write_writebatch_wi(db, w, indexed, &err);
  CHECK_LOST(err);
  rocksdb_writebatch_wi_destroy(indexed);
  CHECK_GET(db, r, "l1", UNLESS_LOST("v1"));
  CHECK_GET(db, r, "l2", NULL);
  CHECK_GET(db, r, "l3", UNLESS_LOST("v3"));
  CHECK_GET(db, r, "l4", UNLESS_LOST("v4"));
  CHECK_GET(db, r, "l5", NULL);

  rocksdb_writebatch_t* checked = rocksdb_writebatch_create_with_params(0, 0, 10, 0);
  rocksdb_writebatch_put(checked, "c1", 2, "v1", 2);
  rocksdb_writebatch_put(checked, "c2", 2, "v2", 2);
  rocksdb_writebatch_delete(checked, "c1", 2);
  rocksdb_write(db, w, checked, &err);
  CHECK_OK(err);
  rocksdb_writebatch_destroy(checked);
  CHECK_GET(db, r, "c1", NULL);
  CHECK_GET(db, r, "c2", "v2");
}
#endif

#if !defined(HEADER_7) && !defined(NOT_CAIRN)
static const char* stamped_name(void* state) {
  (void)state;
  return "stamped";
}

static int stamped_compare(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  (void)state;
  int order = memcmp(a, b, alen < blen ? alen : blen);
  return order != 0 ? order : (alen > blen) - (alen < blen);
}

static int stamped_compare_without(void* state, const char* a, size_t alen, unsigned char a_has, const char* b,
                                   size_t blen, unsigned char b_has) {
  return stamped_compare(state, a, a_has ? alen - 8 : alen, b, b_has ? blen - 8 : blen);
}

/* A family whose keys have timestamps beside one whose keys have none. */
static void stamped(rocksdb_t* db, rocksdb_readoptions_t* r, rocksdb_writeoptions_t* w) {
  char* err = NULL;
  rocksdb_options_t* o = rocksdb_options_create();
  rocksdb_comparator_t* order = rocksdb_comparator_with_ts_create(NULL, NULL, stamped_compare, stamped_compare,
                                                                  stamped_compare_without, stamped_name, 8);
  rocksdb_options_set_comparator(o, order);
  rocksdb_column_family_handle_t* family = rocksdb_create_column_family(db, o, "stamped", &err);
  CHECK_OK(err);
  rocksdb_writebatch_t* batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "beside", 6, "v", 1);
  rocksdb_writebatch_put_cf_with_ts(batch, family, "k", 1, "12345678", 8, "v1", 2);
  rocksdb_writebatch_put_cf_with_ts(batch, family, "l", 1, "12345678", 8, "v", 1);
  rocksdb_writebatch_delete_cf_with_ts(batch, family, "l", 1, "22345678", 8);
  rocksdb_write(db, w, batch, &err);
  CHECK_OK(err);
  rocksdb_writebatch_destroy(batch);
  CHECK_GET(db, r, "beside", "v");
  rocksdb_put_cf_with_ts(db, w, family, "k", 1, "22345678", 8, "v2", 2, &err);
  CHECK_OK(err);
  const char* const times[] = {"12345678", "22345678"};
  for (int at = 0; at < 2; at++) {
    rocksdb_readoptions_t* then = rocksdb_readoptions_create();
    rocksdb_readoptions_set_timestamp(then, times[at], 8);
    size_t len = 0, ts_len = 0;
    char* ts = NULL;
    char* value = rocksdb_get_cf_with_ts(db, then, family, "k", 1, &len, &ts, &ts_len, &err);
    CHECK_OK(err);
    CHECK(same(value, len, at == 0 ? "v1" : "v2") && same(ts, ts_len, times[at]));
    rocksdb_free(value);
    rocksdb_free(ts);
    value = rocksdb_get_cf(db, then, family, "l", 1, &len, &err);
    CHECK_OK(err);
    CHECK((value != NULL) == (at == 0));
    rocksdb_free(value);
    rocksdb_readoptions_destroy(then);
  }
  /* Calls with a timestamp too few or too many. */
  rocksdb_put_cf(db, w, family, "key-and-12345678", 16, "v", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_delete_cf(db, w, family, "key-and-12345678", 16, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_put_with_ts(db, w, "k", 1, "12345678", 8, "v", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_put_cf_with_ts(db, w, family, "k", 1, "1234", 4, "v", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  batch = rocksdb_writebatch_create();
  rocksdb_writebatch_put(batch, "beside2", 7, "v", 1);
  rocksdb_writebatch_put_cf(batch, family, "key-and-12345678", 16, "v", 1);
  rocksdb_write(db, w, batch, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  CHECK_GET(db, r, "beside2", NULL);
  rocksdb_writebatch_destroy(batch);

  rocksdb_writebatch_wi_t* indexed = rocksdb_writebatch_wi_create(0, 1);
  rocksdb_writebatch_wi_put(indexed, "beside3", 7, "v", 1);
  rocksdb_writebatch_wi_delete_range(indexed, "a", 1, "b", 1);
  rocksdb_write_writebatch_wi(db, w, indexed, &err);
  CHECK_ERROR(err, "Not implemented: rocksdb_writebatch_wi_delete_range");
  CHECK_GET(db, r, "beside3", NULL);
  rocksdb_writebatch_wi_destroy(indexed);
  rocksdb_drop_column_family(db, family, &err);
  CHECK_OK(err);
  rocksdb_column_family_handle_destroy(family);
  rocksdb_options_destroy(o);
  rocksdb_comparator_destroy(order);
}
#endif

static void scans(rocksdb_t* db, rocksdb_writeoptions_t* w) {
  char* err = NULL;
  char key[3];
  for (char c = 'a'; c <= 'e'; c++) {
    snprintf(key, sizeof key, "s%c", c);
    rocksdb_put(db, w, key, 2, key, 2, &err);
    CHECK_OK(err);
  }
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  const rocksdb_snapshot_t* snapshot = rocksdb_create_snapshot(db);
  rocksdb_readoptions_set_snapshot(r, snapshot);
  rocksdb_readoptions_set_iterate_lower_bound(r, "sb", 2);
  rocksdb_readoptions_set_iterate_upper_bound(r, "se", 2);
  rocksdb_put(db, w, "sbb", 3, "late", 4, &err);
  CHECK_OK(err);
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, r);
  CHECK(!rocksdb_iter_valid(iter));
  size_t len;
  const char* want[] = {"sb", "sc", "sd"};
  int at = 0;
  for (rocksdb_iter_seek_to_first(iter); rocksdb_iter_valid(iter); rocksdb_iter_next(iter)) {
    CHECK(at < 3 && same_at(rocksdb_iter_key(iter, &len), &len, want[at]));
    CHECK(same_at(rocksdb_iter_value(iter, &len), &len, want[at]));
    at++;
  }
  CHECK(at == 3);
  rocksdb_iter_get_error(iter, &err);
  CHECK_OK(err);
  rocksdb_iter_seek_to_last(iter);
  rocksdb_iter_prev(iter);
  CHECK(same_at(rocksdb_iter_key(iter, &len), &len, "sc"));
  rocksdb_iter_seek_for_prev(iter, "scz", 3);
  CHECK(same_at(rocksdb_iter_key(iter, &len), &len, "sc"));
#ifndef HEADER_7
  rocksdb_slice_t slice = rocksdb_iter_key_slice(iter);
  CHECK(same(slice.data, slice.size, "sc"));
#endif
  rocksdb_iter_seek(iter, "zz", 2);
  CHECK(!rocksdb_iter_valid(iter));
#ifndef NOT_CAIRN
  /* Nobody may ask for the key then; RocksDB shows any bytes. */
  CHECK(rocksdb_iter_key(iter, &len) == NULL);
#endif
  rocksdb_iter_destroy(iter);
  rocksdb_release_snapshot(db, snapshot);
  rocksdb_readoptions_destroy(r);
}

static void indexed(rocksdb_t* db, rocksdb_readoptions_t* r, rocksdb_writeoptions_t* w) {
  char* err = NULL;
  size_t len;
  rocksdb_put(db, w, "i1", 2, "old", 3, &err);
  rocksdb_put(db, w, "i3", 2, "base", 4, &err);
  CHECK_OK(err);
  rocksdb_writebatch_wi_t* batch = rocksdb_writebatch_wi_create(0, 1);
  rocksdb_writebatch_wi_put(batch, "i1", 2, "new", 3);
  rocksdb_writebatch_wi_put(batch, "i2", 2, "mine", 4);
  rocksdb_writebatch_wi_set_save_point(batch);
  rocksdb_writebatch_wi_delete(batch, "i3", 2);
  char* value = rocksdb_writebatch_wi_get_from_batch_and_db(batch, db, r, "i1", 2, &len, &err);
  CHECK(same_at(value, &len, "new"));
  rocksdb_free(value);
  CHECK(rocksdb_writebatch_wi_get_from_batch_and_db(batch, db, r, "i3", 2, &len, &err) == NULL);
  rocksdb_writebatch_wi_rollback_to_save_point(batch, &err);
  CHECK_OK(err);
  rocksdb_iterator_t* iter =
      rocksdb_writebatch_wi_create_iterator_with_base(batch, rocksdb_create_iterator(db, r));
  rocksdb_iter_seek(iter, "i", 1);
  CHECK(same_at(rocksdb_iter_value(iter, &len), &len, "new"));
  rocksdb_iter_next(iter);
  CHECK(same_at(rocksdb_iter_value(iter, &len), &len, "mine"));
  rocksdb_iter_next(iter);
  CHECK(same_at(rocksdb_iter_value(iter, &len), &len, "base"));
  rocksdb_iter_destroy(iter);
  CHECK_GET(db, r, "i1", "old");
  rocksdb_write_writebatch_wi(db, w, batch, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "i1", "new");
  rocksdb_writebatch_wi_destroy(batch);
}

#ifndef HEADER_7
/* An iterator over a base iterator without a family has the writes to the default family, whatever the base's. */
static void over_another_family(rocksdb_t* db, rocksdb_column_family_handle_t* family, rocksdb_readoptions_t* r) {
  size_t len;
  rocksdb_writebatch_wi_t* batch = rocksdb_writebatch_wi_create(0, 1);
  rocksdb_writebatch_wi_put(batch, "a", 1, "in default", 10);
  rocksdb_writebatch_wi_put_cf(batch, family, "b", 1, "in family", 9);
  for (int with_options = 0; with_options < 2; with_options++) {
    rocksdb_iterator_t* base = rocksdb_create_iterator_cf(db, r, family);
    rocksdb_iterator_t* iter = with_options
                                   ? rocksdb_writebatch_wi_create_iterator_with_base_readopts(batch, base, r)
                                   : rocksdb_writebatch_wi_create_iterator_with_base(batch, base);
    rocksdb_iter_seek_to_first(iter);
    CHECK(same_at(rocksdb_iter_key(iter, &len), &len, "a"));
    CHECK(same_at(rocksdb_iter_value(iter, &len), &len, "in default"));
    rocksdb_iter_next(iter);
    CHECK(same_at(rocksdb_iter_key(iter, &len), &len, "k"));
    rocksdb_iter_next(iter);
    CHECK(!rocksdb_iter_valid(iter));
    rocksdb_iter_destroy(iter);
  }
  rocksdb_iterator_t* iter = rocksdb_writebatch_wi_create_iterator_with_base_cf(
      batch, rocksdb_create_iterator_cf(db, r, family), family);
  rocksdb_iter_seek_to_first(iter);
  CHECK(same_at(rocksdb_iter_key(iter, &len), &len, "b"));
  rocksdb_iter_destroy(iter);
  rocksdb_writebatch_wi_destroy(batch);
}
#endif

#ifndef NOT_CAIRN
/* A family of another database is rejected. RocksDB writes to the family with the same number. */
static void foreign(rocksdb_t* db, rocksdb_column_family_handle_t* own, const char* path, rocksdb_options_t* options) {
  char* err = NULL;
  char* other_path = below(path, "other");
  rocksdb_t* other = rocksdb_open(options, other_path, &err);
  CHECK_OK(err);
  rocksdb_column_family_handle_t* theirs = rocksdb_create_column_family(other, options, "stones", &err);
  CHECK_OK(err);
  CHECK(rocksdb_column_family_handle_get_id(own) == rocksdb_column_family_handle_get_id(theirs));
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_put_cf(db, w, theirs, "k", 1, "v", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_delete_cf(db, w, theirs, "k", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_delete_range_cf(db, w, theirs, "a", 1, "z", 1, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush_cf(db, f, theirs, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_flushoptions_destroy(f);
  rocksdb_drop_column_family(db, theirs, &err);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_put_cf(other, w, theirs, "k", 1, "v", 1, &err);
  CHECK_OK(err);
  rocksdb_flushoptions_t* now = rocksdb_flushoptions_create();
  rocksdb_flush_cf(other, now, theirs, &err);
  CHECK_OK(err);
  rocksdb_flushoptions_destroy(now);
  /* Without errptr, nothing is done. */
  rocksdb_compact_range_cf(db, theirs, NULL, 0, NULL, 0);
  rocksdb_compactoptions_t* c = rocksdb_compactoptions_create();
  rocksdb_compact_range_cf_opt(db, theirs, c, NULL, 0, NULL, 0);
  rocksdb_compactoptions_destroy(c);
#ifndef HEADER_7
  const rocksdb_livefiles_t* files = rocksdb_livefiles(other);
  CHECK(rocksdb_livefiles_count(files) == 1);
  const char* names[] = {rocksdb_livefiles_name(files, 0)};
  char** made = NULL;
  size_t count = 0;
  rocksdb_compact_files_cf(db, theirs, NULL, names, 1, 1, -1, &made, &count, NULL, &err);
  CHECK_ERROR(err, "Invalid argument: column family \"stones\" belongs to ");
  CHECK(made == NULL);
  rocksdb_livefiles_destroy(files);
  rocksdb_increase_full_history_ts_low(db, theirs, "t", 1, &err);
  CHECK_ERROR(err, "Invalid argument: column family \"stones\" belongs to ");
#endif
  char* tables = rocksdb_property_value_cf(other, theirs, "rocksdb.num-files-at-level0");
  CHECK(tables != NULL && strcmp(tables, "1") == 0);
  rocksdb_free(tables);
  rocksdb_writeoptions_destroy(w);
  rocksdb_column_family_handle_destroy(theirs);
  rocksdb_close(other);
  rocksdb_destroy_db(options, other_path, &err);
  CHECK_OK(err);
  free(other_path);
}
#endif

static void families(const char* path, rocksdb_options_t* options) {
  char* err = NULL;
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_column_family_handle_t* made = rocksdb_create_column_family(db, options, "stones", &err);
  CHECK_OK(err);
  size_t len;
  char* name = rocksdb_column_family_handle_get_name(made, &len);
  CHECK(same(name, len, "stones") && rocksdb_column_family_handle_get_id(made) == 1);
  rocksdb_free(name);
  CHECK(rocksdb_create_column_family(db, options, "stones", &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_column_family_handle_destroy(made);
  rocksdb_close(db);

  CHECK(rocksdb_open(options, path, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");

  size_t count;
  char** names = rocksdb_list_column_families(options, path, &count, &err);
  CHECK_OK(err);
  CHECK(count == 2 && strcmp(names[1], "stones") == 0);
  const rocksdb_options_t* each[] = {options, options};
  rocksdb_column_family_handle_t* handles[2];
  db = rocksdb_open_column_families(options, path, 2, (const char* const*)names, each, handles, &err);
  CHECK_OK(err);
  rocksdb_list_column_families_destroy(names, count);

  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_put_cf(db, w, handles[1], "k", 1, "in stones", 9, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "k", NULL);
  char* value = rocksdb_get_cf(db, r, handles[1], "k", 1, &len, &err);
  CHECK(same(value, len, "in stones"));
  rocksdb_free(value);
#ifndef HEADER_7
  over_another_family(db, handles[1], r);
#endif
#ifndef NOT_CAIRN
  foreign(db, handles[1], path, options);
#endif
  rocksdb_delete_range_cf(db, w, handles[1], "a", 1, "z", 1, &err);
  CHECK_OK(err);
  CHECK(rocksdb_get_cf(db, r, handles[1], "k", 1, &len, &err) == NULL && err == NULL);
  rocksdb_drop_column_family(db, handles[1], &err);
  CHECK_OK(err);
  rocksdb_column_family_handle_destroy(handles[0]);
  rocksdb_column_family_handle_destroy(handles[1]);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_close(db);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  char* err = NULL;
  char* path = below(argv[1], "db");
  rocksdb_options_t* options = rocksdb_options_create();
  CHECK(rocksdb_open(options, path, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  CHECK(rocksdb_open(options, path, &err) == NULL);
  CHECK_ERROR(err, "IO error: ");

  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  points(db, r, w);
  batches(db, r, w);
#ifndef HEADER_7
  limited(db, r, w);
#endif
  scans(db, w);
  indexed(db, r, w);

  uint64_t number = 0;
  CHECK(rocksdb_property_int(db, "rocksdb.estimate-num-keys", &number) == 0 && number > 0);
  CHECK(rocksdb_property_int(db, "rocksdb.no-such-thing", &number) == -1);
  char* text = rocksdb_property_value(db, "rocksdb.num-files-at-level0");
  CHECK(text != NULL && strcmp(text, "0") == 0);
  rocksdb_free(text);
  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush(db, f, &err);
  CHECK_OK(err);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  CHECK_GET(db, r, "k1", "v1");
  CHECK(rocksdb_get_latest_sequence_number(db) > 8);
  rocksdb_close(db);

  db = rocksdb_open_for_read_only(options, path, 0, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "k1", "v1");
  rocksdb_put(db, w, "k1", 2, "x", 1, &err);
  CHECK_ERROR(err, "Not implemented: ");
  rocksdb_close(db);

  families(path, options);
  rocksdb_destroy_db(options, path, &err);
  CHECK_OK(err);
#if !defined(HEADER_7) && !defined(NOT_CAIRN)
  db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  stamped(db, r, w);
  rocksdb_close(db);
#endif
  rocksdb_flushoptions_destroy(f);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(options);
  free(path);
  end_threads();
  return 0;
}
