/* Objects whose methods are functions of this program: they are called, with the right arguments, and
 * their destructors run once. */
#include "check.h"

static int destroyed;

static void destructor(void* state) {
  (void)state;
  destroyed++;
}

static const char* name(void* state) {
  (void)state;
  return "test.callback";
}

/* Longer keys first, then bytewise. */
static int by_length(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  (void)state;
  if (alen != blen) return alen > blen ? -1 : 1;
  return memcmp(a, b, alen);
}

static unsigned char filter(void* state, int level, const char* key, size_t klen, const char* value,
                            size_t vlen, char** new_value, size_t* new_len, unsigned char* changed) {
  (void)state, (void)level, (void)value, (void)vlen;
  static char replaced[] = "replaced";
  if (same(key, klen, "drop")) return 1;
  if (same(key, klen, "change")) {
    *new_value = replaced;
    *new_len = strlen(replaced);
    *changed = 1;
  }
  return 0;
}

static rocksdb_compactionfilter_t* make_filter(void* state, rocksdb_compactionfiltercontext_t* context) {
  *(int*)state += rocksdb_compactionfiltercontext_is_manual_compaction(context);
  return rocksdb_compactionfilter_create(NULL, destructor, filter, name);
}

/* Joins operands with commas. */
static char* join(const char* first, size_t first_len, const char* const* operands,
                  const size_t* lengths, int count, unsigned char* success, size_t* len) {
  size_t size = first_len;
  for (int i = 0; i < count; i++) size += lengths[i] + 1;
  char* out = malloc(size + 1);
  char* end = out;
  if (first != NULL) {
    memcpy(end, first, first_len);
    end += first_len;
  }
  for (int i = 0; i < count; i++) {
    if (end != out) *end++ = ',';
    memcpy(end, operands[i], lengths[i]);
    end += lengths[i];
  }
  *success = 1;
  *len = (size_t)(end - out);
  return out;
}

static char* full_merge(void* state, const char* key, size_t klen, const char* existing, size_t elen,
                        const char* const* operands, const size_t* lengths, int count,
                        unsigned char* success, size_t* len) {
  (void)state, (void)key, (void)klen;
  return join(existing, elen, operands, lengths, count, success, len);
}

static char* partial_merge(void* state, const char* key, size_t klen, const char* const* operands,
                           const size_t* lengths, int count, unsigned char* success, size_t* len) {
  (void)state, (void)key, (void)klen;
  return join(NULL, 0, operands, lengths, count, success, len);
}

/* The number of results of merges that were not freed yet. */
static int results;

static char* counted_merge(void* state, const char* key, size_t klen, const char* existing, size_t elen,
                           const char* const* operands, const size_t* lengths, int count,
                           unsigned char* success, size_t* len) {
  (void)state, (void)key, (void)klen;
  *success = 0;
  *len = 0;
  if (count == 3) return NULL; /* A failure without a result. */
  results++;
  return join(existing, elen, operands, lengths, count, success, len);
}

static void counted_delete(void* state, const char* value, size_t len) {
  (void)state, (void)len;
  results -= value != NULL;
  free((void*)value);
}

static char* no_partial_merge(void* state, const char* key, size_t klen, const char* const* operands,
                              const size_t* lengths, int count, unsigned char* success, size_t* len) {
  (void)state, (void)key, (void)klen, (void)operands, (void)lengths, (void)count;
  *success = 0;
  *len = 0; /* RocksDB copies the result before it looks at `success`. */
  return NULL;
}

/* Results of merges of `size` bytes and two, read in every way; a pinned one outlives the database. */
static void long_results(const char* dir, const char* folder, int deletes, size_t size) {
  char* err = NULL;
  size_t len = 0;
  char* path = below(dir, folder);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_merge_operator(
      options, rocksdb_mergeoperator_create(NULL, destructor, counted_merge, no_partial_merge,
                                            deletes ? counted_delete : NULL, name));
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  char *value = malloc(size + 1), *want = malloc(size + 3);
  memset(value, 'v', size);
  value[size] = 0;
  snprintf(want, size + 3, "%s,b", value);
  rocksdb_put(db, w, "m", 1, value, size, &err);
  rocksdb_merge(db, w, "m", 1, "b", 1, &err);
  rocksdb_put(db, w, "s", 1, "a", 1, &err);
  rocksdb_merge(db, w, "s", 1, "b", 1, &err);
  for (int i = 0; i < 3; i++) rocksdb_merge(db, w, "f", 1, value, size, &err);
  CHECK_OK(err);
  results = 0;
  CHECK_GET(db, r, "m", want);
  CHECK_GET(db, r, "m", want);
  CHECK_GET(db, r, "s", "a,b");
  CHECK(rocksdb_get(db, r, "f", 1, &len, &err) == NULL);
  CHECK_ERROR(err, "Corruption: Merge operator failed");
  const char* keys[] = {"s", "m", "none"};
  const size_t sizes[] = {1, 1, 4};
  char *values[3], *errors[3];
  size_t lengths[3];
  rocksdb_multi_get(db, r, 3, keys, sizes, values, lengths, errors);
  CHECK(same(values[0], lengths[0], "a,b") && same(values[1], lengths[1], want) && values[2] == NULL);
  for (int i = 0; i < 3; i++) {
    CHECK_OK(errors[i]);
    rocksdb_free(values[i]);
  }
  CHECK(results == (deletes ? 0 : 5));
  rocksdb_pinnableslice_t* pinned = rocksdb_get_pinned(db, r, "m", 1, &err);
  CHECK_OK(err);
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, r);
  rocksdb_iter_seek(iter, "m", 1);
  CHECK(same_at(rocksdb_iter_value(iter, &len), &len, want));
  rocksdb_iter_destroy(iter);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(options);
  rocksdb_close(db);
  CHECK(same_at(rocksdb_pinnableslice_value(pinned, &len), &len, want));
  rocksdb_pinnableslice_destroy(pinned);
  CHECK(!deletes || results == 0);
  free(value);
  free(want);
  free(path);
}

static char* first_byte(void* state, const char* key, size_t len, size_t* dst) {
  (void)state, (void)len;
  *dst = 1;
  return (char*)key;
}

static unsigned char not_empty(void* state, const char* key, size_t len) {
  (void)state, (void)key;
  return len > 0;
}

struct told {
  int flushes, compactions, sealed;
};

static void flushed(void* state, rocksdb_t* db, const rocksdb_flushjobinfo_t* info) {
  size_t len;
  (void)db;
  CHECK(same_at(rocksdb_flushjobinfo_cf_name(info, &len), &len, "default"));
  CHECK(rocksdb_flushjobinfo_largest_seqno(info) >= rocksdb_flushjobinfo_smallest_seqno(info));
  ((struct told*)state)->flushes++;
}

static void compacted(void* state, rocksdb_t* db, const rocksdb_compactionjobinfo_t* info) {
  char* err = NULL;
  (void)db;
  rocksdb_compactionjobinfo_status(info, &err);
  CHECK_OK(err);
  CHECK(rocksdb_compactionjobinfo_input_files_count(info) > 0);
  ((struct told*)state)->compactions++;
}

static void sealed(void* state, const rocksdb_memtableinfo_t* info) {
  CHECK(rocksdb_memtableinfo_num_entries(info) > 0);
  ((struct told*)state)->sealed++;
}

static void sealed_elsewhere(void* state, const rocksdb_memtableinfo_t* info) { (void)state, (void)info; }

/* RocksDB calls every function of a listener, also a null one. */
static void began(void* state, rocksdb_t* db, const rocksdb_flushjobinfo_t* info) {
  (void)state, (void)db, (void)info;
}

static void compacts(void* state, rocksdb_t* db, const rocksdb_compactionjobinfo_t* info) {
  (void)state, (void)db, (void)info;
}

static void part(void* state, const rocksdb_subcompactionjobinfo_t* info) { (void)state, (void)info; }

static void ingested(void* state, rocksdb_t* db, const rocksdb_externalfileingestioninfo_t* info) {
  (void)state, (void)db, (void)info;
}

static void failed(void* state, uint32_t reason, rocksdb_status_ptr_t* status) {
  (void)state, (void)reason, (void)status;
}

static void stalled(void* state, const rocksdb_writestallinfo_t* info) { (void)state, (void)info; }

static int lines;

static void logged(void* priv, unsigned level, char* message, size_t len) {
  (void)level;
  CHECK(priv == &lines && strlen(message) == len);
  lines++;
}

/* The handle that a listener gets, and the calls. */
struct asked {
  rocksdb_t* db;
  int calls;
};

static void asks(void* state, rocksdb_t* db, const rocksdb_flushjobinfo_t* info) {
  (void)info;
  struct asked* asked = state;
  uint64_t keys = 0;
  CHECK(rocksdb_property_int(db, "rocksdb.estimate-num-keys", &keys) == 0);
#ifndef NOT_CAIRN
  CHECK(db == asked->db); /* RocksDB makes another handle for the call */
#endif
  asked->calls++;
}

/* A listener can use the database that it gets, also during the flush of closing, and with a second instance of the same
   directory. */
static void asks_while_closing(const char* parent) {
  char* err = NULL;
  char* path = below(parent, "asked");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_close(rocksdb_open(options, path, &err));
  CHECK_OK(err);
  rocksdb_t* reader = rocksdb_open_for_read_only(options, path, 0, &err);
  CHECK_OK(err);
  struct asked asked = {NULL, 0};
  rocksdb_options_add_eventlistener(
      options, rocksdb_eventlistener_create(&asked, destructor, began, asks, compacts, compacts, part, part,
                                            ingested, failed, stalled, sealed_elsewhere));
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  asked.db = db;
  rocksdb_writeoptions_t* unlogged = rocksdb_writeoptions_create();
  rocksdb_writeoptions_disable_WAL(unlogged, 1);
  rocksdb_put(db, unlogged, "k", 1, "v", 1, &err);
  CHECK_OK(err);
  rocksdb_close(db);
  CHECK(asked.calls == 1);
  rocksdb_close(reader);
  rocksdb_writeoptions_destroy(unlogged);
  rocksdb_options_destroy(options);
  free(path);
}

#ifndef NOT_CAIRN
static const char* odd_name(void* state) {
  (void)state;
  return "order \xff";
}

/* Names that would be changed are refused. */
static rocksdb_t* compared;
static int reads_refused;

/* Bytewise. Reads the database whose keys it compares, if there is one, which fails while a memtable is locked. */
static int reading(void* state, const char* a, size_t alen, const char* b, size_t blen) {
  (void)state;
  rocksdb_t* db = compared;
  if (db != NULL) {
    compared = NULL;
    rocksdb_readoptions_t* r = rocksdb_readoptions_create();
    rocksdb_key_may_exist(db, r, "k", 1, NULL, NULL, NULL, 0, NULL);
    rocksdb_iterator_t* iter = rocksdb_create_iterator(db, r);
    char* err = NULL;
    rocksdb_iter_get_error(iter, &err);
    if (err != NULL) {
      CHECK_ERROR(err, "Operation aborted: internal error: a comparator may not read");
      reads_refused++;
    }
    rocksdb_iter_destroy(iter);
    rocksdb_readoptions_destroy(r);
    compared = db;
  }
  int order = memcmp(a, b, alen < blen ? alen : blen);
  return order != 0 ? order : alen < blen ? -1 : alen > blen;
}

/* A comparator gets an error from an iterator that it must not create, and the process goes on. */
static void reads_in_a_comparator_fail(const char* parent) {
  char* err = NULL;
  char* path = below(parent, "reading");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_comparator_t* order = rocksdb_comparator_create(NULL, destructor, reading, name);
  rocksdb_options_set_comparator(options, order);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_put(db, w, "k", 1, "v", 1, &err);
  rocksdb_delete_range_cf(db, w, rocksdb_get_default_column_family_handle(db), "a", 1, "c", 1, &err);
  rocksdb_delete_range_cf(db, w, rocksdb_get_default_column_family_handle(db), "b", 1, "d", 1, &err);
  CHECK_OK(err);
  compared = db;
  CHECK_GET(db, r, "k", "v");
  compared = NULL;
  CHECK(reads_refused > 0);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_options_destroy(options);
  rocksdb_close(db);
  rocksdb_comparator_destroy(order);
  free(path);
}

static void names_are_kept(const char* parent) {
  char* err = NULL;
  char* path = below(parent, "names");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_create_column_family(db, options, "\xff", &err);
  CHECK_ERROR(err, "Not implemented: the column family name \\xff is not UTF-8");
  rocksdb_close(db);
  rocksdb_comparator_t* order = rocksdb_comparator_create(NULL, destructor, by_length, odd_name);
  rocksdb_options_set_comparator(options, order);
  CHECK(rocksdb_open(options, path, &err) == NULL);
  CHECK_ERROR(err, "Not implemented: the name of the comparator");
  rocksdb_options_destroy(options);
  rocksdb_comparator_destroy(order);
  free(path);
}
#endif

int main(int argc, char** argv) {
  CHECK(argc == 2);
  asks_while_closing(argv[1]);
#ifndef NOT_CAIRN
  names_are_kept(argv[1]);
  reads_in_a_comparator_fail(argv[1]);
#endif
  destroyed = 0;
  char* err = NULL;
  char* path = below(argv[1], "db");
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_comparator_t* order = rocksdb_comparator_create(NULL, destructor, by_length, name);
  rocksdb_options_set_comparator(options, order);
  int manual = 0;
  rocksdb_options_set_compaction_filter_factory(
      options, rocksdb_compactionfilterfactory_create(&manual, destructor, make_filter, name));
  rocksdb_options_set_merge_operator(
      options, rocksdb_mergeoperator_create(NULL, destructor, full_merge, partial_merge, NULL, name));
  rocksdb_options_set_prefix_extractor(
      options, rocksdb_slicetransform_create(NULL, destructor, first_byte, not_empty, name));
  struct told told = {0, 0, 0};
  rocksdb_options_add_eventlistener(
      options, rocksdb_eventlistener_create(&told, destructor, began, flushed, compacts, compacted, part,
                                            part, ingested, failed, stalled, sealed));
  rocksdb_logger_t* logger = rocksdb_logger_create_callback_logger(1, logged, &lines);
  rocksdb_options_set_info_log(options, logger);

  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_readoptions_set_total_order_seek(r, 1);
  rocksdb_put(db, w, "drop", 4, "x", 1, &err);
  rocksdb_put(db, w, "change", 6, "x", 1, &err);
  rocksdb_put(db, w, "m", 1, "a", 1, &err);
  rocksdb_merge(db, w, "m", 1, "b", 1, &err);
  rocksdb_merge(db, w, "m", 1, "c", 1, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "m", "a,b,c");

  size_t len;
  rocksdb_iterator_t* iter = rocksdb_create_iterator(db, r);
  rocksdb_iter_seek_to_first(iter);
  CHECK(same_at(rocksdb_iter_key(iter, &len), &len, "change"));
  rocksdb_iter_seek_to_last(iter);
  CHECK(same_at(rocksdb_iter_key(iter, &len), &len, "m"));
  rocksdb_iter_destroy(iter);

  rocksdb_flushoptions_t* f = rocksdb_flushoptions_create();
  rocksdb_flush(db, f, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "drop", "x");
  rocksdb_compactoptions_t* c = rocksdb_compactoptions_create();
  rocksdb_compactoptions_set_bottommost_level_compaction(c, 2);
  rocksdb_compact_range_opt(db, c, NULL, 0, NULL, 0);
  CHECK_GET(db, r, "drop", NULL);
  CHECK_GET(db, r, "change", "replaced");
  CHECK_GET(db, r, "m", "a,b,c");
  CHECK(manual > 0 && lines > 0);
  CHECK(told.flushes == 1 && told.compactions > 0 && told.sealed == 1);

  rocksdb_close(db);

  /* The options file names code that only this program has: it is for the program to set. */
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_cache_t* cache = rocksdb_cache_create_lru(1 << 20);
  rocksdb_options_t* loaded = NULL;
  rocksdb_options_t** loaded_family = NULL;
  char** family_names = NULL;
  size_t count = 0;
  rocksdb_load_latest_options(path, env, false, cache, &loaded, &count, &family_names, &loaded_family, &err);
  CHECK_OK(err);
  CHECK(count == 1);
  rocksdb_column_family_handle_t* handle = NULL;
  const rocksdb_options_t* each[] = {loaded_family[0]};
  CHECK(rocksdb_open_column_families(loaded, path, 1, (const char* const*)family_names, each, &handle, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: leveldb.BytewiseComparator: does not match existing comparator ");
  rocksdb_options_set_comparator(loaded_family[0], order);
  db = rocksdb_open_column_families(loaded, path, 1, (const char* const*)family_names, each, &handle, &err);
  CHECK_OK(err);
  CHECK_GET(db, r, "change", "replaced");
  rocksdb_column_family_handle_destroy(handle);
  rocksdb_close(db);
  rocksdb_load_latest_options_destroy(loaded, family_names, loaded_family, count);
  rocksdb_cache_destroy(cache);
  rocksdb_env_destroy(env);

  long_results(argv[1], "freed", 0, 3000);
  long_results(argv[1], "deleted", 1, 3000);
  long_results(argv[1], "freed-large", 0, 2 << 20);
  long_results(argv[1], "deleted-large", 1, 2 << 20);
  rocksdb_compactoptions_destroy(c);
  rocksdb_flushoptions_destroy(f);
  rocksdb_readoptions_destroy(r);
  rocksdb_writeoptions_destroy(w);
  rocksdb_logger_destroy(logger);
  rocksdb_options_destroy(options);
  rocksdb_comparator_destroy(order);
  /* The comparator, the factory and its filters, the operator, the extractor, the listener. */
  CHECK(destroyed >= 6);
  free(path);
  end_threads();
  return 0;
}
