/* A library with RocksDB's C interface that is loaded at run time, its errors, and a clock. Included first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void* library;

static void* function(const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return found;
}

#define FUNCTION(result, name, ...) result (*name)(__VA_ARGS__) = function("rocksdb_" #name)

static void check(const char* err) {
  if (err != NULL) {
    fprintf(stderr, "%s\n", err);
    exit(1);
  }
}

static double nanoseconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}
