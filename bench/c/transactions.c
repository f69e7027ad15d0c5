/* Nanoseconds per operation of transactions, through RocksDB's C interface in a library that is loaded at run time:
 *
 *     cc -O2 -pthread -o transactions bench/c/transactions.c -ldl
 *     ./transactions LIBRARY DIRECTORY plain|put|pessimistic|optimistic|prepared [THREADS]
 *
 * plain and put write one record, into a plain database and into a transaction database. prepared names a transaction,
 * writes a record, prepares and commits. The others read a record for update, write it and commit, again if there is a
 * conflict. Keys are drawn from a million; four rounds of 200,000 operations, divided among the threads (1 by default),
 * are printed, the first into an empty database. DIRECTORY must not exist. */
#include "library.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

enum { ROUNDS = 4, OPERATIONS = 200000, KEYS = 1000000, MAX_THREADS = 64 };

static enum { PLAIN, PUT, PESSIMISTIC, OPTIMISTIC, PREPARED } mode;
static const char* const MODES[] = {"plain", "put", "pessimistic", "optimistic", "prepared"};

#define LOAD(name) name = function("rocksdb_" #name)
#define DECLARED(result, name, ...) static result (*name)(__VA_ARGS__)
DECLARED(void, put, void*, void*, const char*, size_t, const char*, size_t, char**);
DECLARED(void, transactiondb_put, void*, void*, const char*, size_t, const char*, size_t, char**);
DECLARED(void*, transaction_begin, void*, void*, void*, void*);
DECLARED(void*, optimistictransaction_begin, void*, void*, void*, void*);
DECLARED(char*, transaction_get_for_update, void*, void*, const char*, size_t, size_t*, unsigned char, char**);
DECLARED(void, transaction_put, void*, const char*, size_t, const char*, size_t, char**);
DECLARED(void, transaction_set_name, void*, const char*, size_t, char**);
DECLARED(void, transaction_prepare, void*, char**);
DECLARED(void, transaction_commit, void*, char**);
DECLARED(void, transaction_rollback, void*, char**);

static void *db, *reads, *writes, *kind;

struct worker {
  pthread_t thread;
  uint64_t random;
  int number, round, operations;
  void* transaction;
};

/* Reads and writes `key` in a transaction. Returns 0 if it was in conflict with another one. */
static int update(struct worker* worker, const char* key, const char* value, size_t len) {
  char* err = NULL;
  size_t found;
  free(transaction_get_for_update(worker->transaction, reads, key, 16, &found, 1, &err));
  if (err == NULL) transaction_put(worker->transaction, key, 16, value, len, &err);
  if (err == NULL) transaction_commit(worker->transaction, &err);
  if (err == NULL) return 1;
  if (strncmp(err, "Resource busy", 13) != 0 && strncmp(err, "Operation timed out", 19) != 0) check(err);
  free(err);
  err = NULL;
  transaction_rollback(worker->transaction, &err);
  check(err);
  return 0;
}

static void* work(void* state) {
  struct worker* worker = state;
  char key[32], value[100];
  memset(value, 'v', sizeof value);
  for (int i = 0; i < worker->operations; i++) {
    uint64_t random = worker->random;
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    worker->random = random;
    snprintf(key, sizeof key, "%016d", (int)(random % KEYS));
    char* err = NULL;
    if (mode == PLAIN) {
      put(db, writes, key, 16, value, sizeof value, &err);
    } else if (mode == PUT) {
      transactiondb_put(db, writes, key, 16, value, sizeof value, &err);
    } else if (mode == PREPARED) {
      char name[48];
      worker->transaction = transaction_begin(db, writes, kind, worker->transaction);
      int len = snprintf(name, sizeof name, "%d.%d.%d", worker->number, worker->round, i);
      transaction_set_name(worker->transaction, name, len, &err);
      check(err);
      transaction_put(worker->transaction, key, 16, value, sizeof value, &err);
      check(err);
      transaction_prepare(worker->transaction, &err);
      check(err);
      transaction_commit(worker->transaction, &err);
    } else {
      do {
        worker->transaction = mode == OPTIMISTIC ? optimistictransaction_begin(db, writes, kind, worker->transaction)
                                                 : transaction_begin(db, writes, kind, worker->transaction);
      } while (!update(worker, key, value, sizeof value));
    }
    check(err);
  }
  return NULL;
}

int main(int argc, char** argv) {
  int known = 0;
  while (argc >= 4 && known < 5 && strcmp(argv[3], MODES[known]) != 0) known++;
  int threads = argc == 5 ? atoi(argv[4]) : 1;
  if (argc < 4 || argc > 5 || known == 5 || threads < 1 || threads > MAX_THREADS) {
    fprintf(stderr, "usage: %s LIBRARY DIRECTORY plain|put|pessimistic|optimistic|prepared [THREADS]\n", argv[0]);
    return 1;
  }
  mode = known;
  library = dlopen(argv[1], RTLD_NOW);
  if (library == NULL) check(dlerror());
  FUNCTION(void*, options_create, void);
  FUNCTION(void, options_set_create_if_missing, void*, unsigned char);
  FUNCTION(void*, open, void*, const char*, char**);
  FUNCTION(void*, transactiondb_options_create, void);
  FUNCTION(void*, transactiondb_open, void*, void*, const char*, char**);
  FUNCTION(void*, optimistictransactiondb_open, void*, const char*, char**);
  FUNCTION(void*, readoptions_create, void);
  FUNCTION(void*, writeoptions_create, void);
  FUNCTION(void*, transaction_options_create, void);
  FUNCTION(void*, optimistictransaction_options_create, void);
  LOAD(put);
  LOAD(transactiondb_put);
  LOAD(transaction_begin);
  LOAD(optimistictransaction_begin);
  LOAD(transaction_get_for_update);
  LOAD(transaction_put);
  LOAD(transaction_set_name);
  LOAD(transaction_prepare);
  LOAD(transaction_commit);
  LOAD(transaction_rollback);

  char* err = NULL;
  void* options = options_create();
  options_set_create_if_missing(options, 1);
  db = mode == PLAIN        ? open(options, argv[2], &err)
       : mode == OPTIMISTIC ? optimistictransactiondb_open(options, argv[2], &err)
                            : transactiondb_open(options, transactiondb_options_create(), argv[2], &err);
  check(err);
  reads = readoptions_create(), writes = writeoptions_create();
  kind = mode == OPTIMISTIC ? optimistictransaction_options_create() : transaction_options_create();
  static struct worker workers[MAX_THREADS];
  for (int round = 0; round < ROUNDS; round++) {
    double began = nanoseconds();
    for (int n = 0; n < threads; n++) {
      struct worker* worker = &workers[n];
      if (round == 0) worker->random = 88172645463325252ull + n * 7919;
      worker->number = n, worker->round = round, worker->operations = OPERATIONS / threads;
      if (pthread_create(&worker->thread, NULL, work, worker) != 0) check("no thread");
    }
    for (int n = 0; n < threads; n++) pthread_join(workers[n].thread, NULL);
    printf("%.0f ", (nanoseconds() - began) / OPERATIONS);
    fflush(stdout);
  }
  puts("");
  _Exit(0);
}
