/* What the C tests share: checks that end the program with the place, and a fresh directory.

   Defined where the tests show that headers and libraries of both engines can be exchanged: NOT_CAIRN
   for a run with RocksDB's library, HEADER_7 for RocksDB 7.8's header, which knows less. */
#ifndef CAIRN_CHECK_H
#define CAIRN_CHECK_H

#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what)                                                          \
  do {                                                                       \
    if (!(what)) {                                                           \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);     \
      exit(1);                                                               \
    }                                                                        \
  } while (0)

/* No error; else its text. */
#define CHECK_OK(err)                                                        \
  do {                                                                       \
    if ((err) != NULL) {                                                     \
      fprintf(stderr, "%s:%d: error: %s\n", __FILE__, __LINE__, (err));      \
      exit(1);                                                               \
    }                                                                        \
  } while (0)

/* An error whose text begins with `start`; it is freed. */
#define CHECK_ERROR(err, start)                                              \
  do {                                                                       \
    if ((err) == NULL || strncmp((err), (start), strlen(start)) != 0) {      \
      fprintf(stderr, "%s:%d: expected an error \"%s...\", found %s\n",      \
              __FILE__, __LINE__, (start), (err) ? (err) : "none");          \
      exit(1);                                                               \
    }                                                                        \
    rocksdb_free(err);                                                       \
    (err) = NULL;                                                            \
  } while (0)

/* The bytes `data` of length `len` are the text `want`. */
static inline int same(const char* data, size_t len, const char* want) {
  return data != NULL && len == strlen(want) && memcmp(data, want, len) == 0;
}

/* The same where a call that stores the length is the first argument. */
static inline int same_at(const char* data, const size_t* len, const char* want) {
  return same(data, *len, want);
}

/* `key` has the value `want`, or none if `want` is null. */
#define CHECK_GET(db, readoptions, key, want)                                \
  do {                                                                       \
    char* get_err = NULL;                                                    \
    size_t get_len = 0;                                                      \
    const char* get_want = (want);                                           \
    char* get_value = rocksdb_get((db), (readoptions), (key), strlen(key),   \
                                  &get_len, &get_err);                       \
    CHECK_OK(get_err);                                                       \
    if (get_want == NULL) {                                                  \
      CHECK(get_value == NULL);                                              \
    } else {                                                                 \
      CHECK(same(get_value, get_len, get_want));                             \
    }                                                                        \
    rocksdb_free(get_value);                                                 \
  } while (0)

/* Ends the threads of the process, so that tools that look for lost memory find none of theirs. */
static inline void end_threads(void) {
#ifndef NOT_CAIRN
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_env_join_all_threads(env);
  rocksdb_env_destroy(env);
#endif
}

/* A path below the directory that the test was given. */
static inline char* below(const char* dir, const char* name) {
  size_t size = strlen(dir) + strlen(name) + 2;
  char* path = malloc(size);
  snprintf(path, size, "%s/%s", dir, name);
  return path;
}

/* Writes one key; deletes it if `value` is null. */
static inline void put(rocksdb_t* db, const char* key, const char* value) {
  char* err = NULL;
  rocksdb_writeoptions_t* w = rocksdb_writeoptions_create();
  if (value == NULL)
    rocksdb_delete(db, w, key, strlen(key), &err);
  else
    rocksdb_put(db, w, key, strlen(key), value, strlen(value), &err);
  CHECK_OK(err);
  rocksdb_writeoptions_destroy(w);
}

static inline void flush(rocksdb_t* db) {
  char* err = NULL;
  rocksdb_flushoptions_t* options = rocksdb_flushoptions_create();
  rocksdb_flush(db, options, &err);
  CHECK_OK(err);
  rocksdb_flushoptions_destroy(options);
}

#endif
