/* The commit of one large prepared transaction, through RocksDB's C interface in a library that is loaded at run time:
 *
 *     cc -O2 -o large_commit bench/c/large_commit.c -ldl -lpthread
 *     ./large_commit LIBRARY DIRECTORY insert|past [ENTRIES]
 *
 * The transaction puts ENTRIES (a million) distinct keys of 16 bytes in random order, with values of 100 bytes; it is
 * committed by insertion into the memtable or past it. Another thread writes and reads a small record all the time, with
 * pauses of 0.2 ms. Prints the duration of the commit and the CPU time of its thread, then the longest small write and
 * the longest read from the beginning of the commit to two seconds after it, all in milliseconds. DIRECTORY must not
 * exist. */
#include "library.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

typedef void put_function(void*, void*, const char*, size_t, const char*, size_t, char**);
typedef char* get_function(void*, void*, const char*, size_t, size_t*, char**);

struct small {
  put_function* put;
  get_function* get;
  void *db, *reads, *writes;
  atomic_int phase; /* 0 before the commit, 1 from its beginning on, 2 to end */
  double longest_put, longest_get;
};

static double cpu_nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

static void* write_and_read(void* argument) {
  struct small* small = argument;
  struct timespec pause = {0, 200000};
  char* err = NULL;
  size_t length;
  for (int phase; (phase = atomic_load(&small->phase)) < 2;) {
    double began = nanoseconds();
    small->put(small->db, small->writes, "small", 5, "1", 1, &err);
    check(err);
    double written = nanoseconds();
    free(small->get(small->db, small->reads, "small", 5, &length, &err));
    check(err);
    double read = nanoseconds();
    if (phase == 1) {
      if (written - began > small->longest_put) small->longest_put = written - began;
      if (read - written > small->longest_get) small->longest_get = read - written;
    }
    nanosleep(&pause, NULL);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    fprintf(stderr, "usage: %s LIBRARY DIRECTORY insert|past [ENTRIES]\n", argv[0]);
    return 1;
  }
  library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) check(dlerror());
  FUNCTION(void*, options_create, void);
  FUNCTION(void, options_set_create_if_missing, void*, unsigned char);
  FUNCTION(void, options_set_max_write_buffer_number, void*, int);
  FUNCTION(void*, transactiondb_options_create, void);
  FUNCTION(void*, transactiondb_open, void*, void*, const char*, char**);
  FUNCTION(void*, writeoptions_create, void);
  FUNCTION(void*, transaction_options_create, void);
  FUNCTION(void, transaction_options_set_commit_bypass_memtable, void*, unsigned char);
  FUNCTION(void, transactiondb_put, void*, void*, const char*, size_t, const char*, size_t, char**);
  FUNCTION(char*, transactiondb_get, void*, void*, const char*, size_t, size_t*, char**);
  FUNCTION(void*, readoptions_create, void);
  FUNCTION(void*, transaction_begin, void*, void*, void*, void*);
  FUNCTION(void, transaction_put, void*, const char*, size_t, const char*, size_t, char**);
  FUNCTION(void, transaction_set_name, void*, const char*, size_t, char**);
  FUNCTION(void, transaction_prepare, void*, char**);
  FUNCTION(void, transaction_commit, void*, char**);

  int past = strcmp(argv[3], "past") == 0;
  if (!past && strcmp(argv[3], "insert") != 0) check("no such commit");
  uint64_t entries = argc == 5 ? strtoull(argv[4], NULL, 10) : 1000000;
  char* err = NULL;
  void* options = options_create();
  options_set_create_if_missing(options, 1);
  options_set_max_write_buffer_number(options, 6);
  void* db = transactiondb_open(options, transactiondb_options_create(), argv[2], &err);
  check(err);
  void *reads = readoptions_create(), *writes = writeoptions_create(), *kind = transaction_options_create();
  transaction_options_set_commit_bypass_memtable(kind, past);
  void* transaction = transaction_begin(db, writes, kind, NULL);
  transaction_set_name(transaction, "large", 5, &err);
  check(err);
  char key[32], value[100];
  memset(value, 'v', sizeof value);
  for (uint64_t i = 0; i < entries; i++) {
    /* Odd multipliers permute the numbers of 40 bits. */
    snprintf(key, sizeof key, "%016llx", (unsigned long long)(i * 0x9e3779b97f4a7c15ull & 0xffffffffff));
    transaction_put(transaction, key, 16, value, sizeof value, &err);
    check(err);
  }
  transaction_prepare(transaction, &err);
  check(err);

  struct small small = {.put = transactiondb_put, .get = transactiondb_get, .db = db, .reads = reads, .writes = writes};
  pthread_t thread;
  pthread_create(&thread, NULL, write_and_read, &small);
  struct timespec warm = {0, 200000000}, after = {2, 0};
  nanosleep(&warm, NULL);
  atomic_store(&small.phase, 1);
  double began = nanoseconds(), cpu_began = cpu_nanoseconds();
  transaction_commit(transaction, &err);
  check(err);
  double took = nanoseconds() - began, cpu = cpu_nanoseconds() - cpu_began;
  nanosleep(&after, NULL);
  atomic_store(&small.phase, 2);
  pthread_join(thread, NULL);
  printf("%.1f %.1f %.2f %.2f\n", took / 1e6, cpu / 1e6, small.longest_put / 1e6, small.longest_get / 1e6);
  fflush(stdout);
  _Exit(0);
}
