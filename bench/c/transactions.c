/* Nanoseconds per operation of transactions, through RocksDB's C interface in a library that is loaded at run time:
 *
 *     cc -O2 -o transactions bench/c/transactions.c -ldl
 *     ./transactions LIBRARY DIRECTORY plain|put|pessimistic|optimistic|prepared
 *
 * plain and put write one record, into a plain database and into a transaction database. prepared names a transaction,
 * writes a record, prepares and commits. The others read a record for update, write it and commit. Keys are drawn from a million; four rounds of 200,000 operations by one thread are
 * printed, the first into an empty database. DIRECTORY must not exist. */
#include "library.h"

#include <stdint.h>
#include <string.h>

enum { ROUNDS = 4, OPERATIONS = 200000, KEYS = 1000000 };

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s LIBRARY DIRECTORY plain|put|pessimistic|optimistic|prepared\n", argv[0]);
    return 1;
  }
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
  FUNCTION(void, put, void*, void*, const char*, size_t, const char*, size_t, char**);
  FUNCTION(void, transactiondb_put, void*, void*, const char*, size_t, const char*, size_t, char**);
  FUNCTION(void*, transaction_begin, void*, void*, void*, void*);
  FUNCTION(void*, optimistictransaction_begin, void*, void*, void*, void*);
  FUNCTION(char*, transaction_get_for_update, void*, void*, const char*, size_t, size_t*, unsigned char, char**);
  FUNCTION(void, transaction_put, void*, const char*, size_t, const char*, size_t, char**);
  FUNCTION(void, transaction_set_name, void*, const char*, size_t, char**);
  FUNCTION(void, transaction_prepare, void*, char**);
  FUNCTION(void, transaction_commit, void*, char**);

  int plain = strcmp(argv[3], "plain") == 0, put_only = strcmp(argv[3], "put") == 0;
  int optimistic = strcmp(argv[3], "optimistic") == 0, prepared = strcmp(argv[3], "prepared") == 0;
  if (!plain && !put_only && !optimistic && !prepared && strcmp(argv[3], "pessimistic") != 0) check("no such operation");
  char* err = NULL;
  void* options = options_create();
  options_set_create_if_missing(options, 1);
  void* db = plain        ? open(options, argv[2], &err)
             : optimistic ? optimistictransactiondb_open(options, argv[2], &err)
                          : transactiondb_open(options, transactiondb_options_create(), argv[2], &err);
  check(err);
  void *reads = readoptions_create(), *writes = writeoptions_create(), *transaction = NULL;
  void* kind = optimistic ? optimistictransaction_options_create() : transaction_options_create();
  uint64_t random = 88172645463325252ull;
  char key[32], value[100];
  memset(value, 'v', sizeof value);
  for (int round = 0; round < ROUNDS; round++) {
    double began = nanoseconds();
    for (int i = 0; i < OPERATIONS; i++) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      snprintf(key, sizeof key, "%016d", (int)(random % KEYS));
      if (plain) {
        put(db, writes, key, 16, value, sizeof value, &err);
      } else if (put_only) {
        transactiondb_put(db, writes, key, 16, value, sizeof value, &err);
      } else {
        size_t length;
        char name[24];
        transaction = optimistic ? optimistictransaction_begin(db, writes, kind, transaction)
                                 : transaction_begin(db, writes, kind, transaction);
        if (prepared) {
          transaction_set_name(transaction, name, snprintf(name, sizeof name, "%d.%d", round, i), &err);
        } else {
          free(transaction_get_for_update(transaction, reads, key, 16, &length, 1, &err));
        }
        check(err);
        transaction_put(transaction, key, 16, value, sizeof value, &err);
        if (prepared) {
          transaction_prepare(transaction, &err);
          check(err);
        }
        transaction_commit(transaction, &err);
      }
      check(err);
    }
    printf("%.0f ", (nanoseconds() - began) / OPERATIONS);
    fflush(stdout);
  }
  puts("");
  _Exit(0);
}
