// A C++ exception that leaves a callback ends the process with a message and SIGABRT, wherever the callback was
// called from, so that no thread waits for one that it unwound.
#include <rocksdb/c.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

namespace {

[[noreturn]] void fail() { throw std::runtime_error("a callback's own error"); }

void nothing(void*) {}
const char* name(void*) { return "throws"; }

char* full_merge(void*, const char*, size_t, const char*, size_t, const char* const*, const size_t*, int,
                 unsigned char*, size_t*) {
  fail();
}
char* partial_merge(void*, const char*, size_t, const char* const*, const size_t*, int, unsigned char*, size_t*) {
  fail();
}
int compare(void*, const char*, size_t, const char*, size_t) { fail(); }
unsigned char filter(void*, int, const char*, size_t, const char*, size_t, char**, size_t*, unsigned char*) {
  fail();
}
void flush_begins(void*, rocksdb_t*, const rocksdb_flushjobinfo_t*) { fail(); }

void check(char* err) {
  if (err != nullptr) {
    std::fprintf(stderr, "%s\n", err);
    std::exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  // A hang ends with SIGALRM, which is no abort.
  alarm(60);
  const std::string which = argv[2];
  const std::string path = std::string(argv[1]) + "/db";
  char* err = nullptr;
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  if (which == "merge" || which == "merge-in-flush") {
    rocksdb_options_set_merge_operator(
        options, rocksdb_mergeoperator_create(nullptr, nothing, full_merge, partial_merge, nullptr, name));
  } else if (which == "comparator") {
    rocksdb_options_set_comparator(options, rocksdb_comparator_create(nullptr, nothing, compare, name));
  } else if (which == "filter") {
    rocksdb_options_set_compaction_filter(options, rocksdb_compactionfilter_create(nullptr, nothing, filter, name));
  } else if (which == "listener") {
    rocksdb_options_add_eventlistener(
        options, rocksdb_eventlistener_create(nullptr, nothing, flush_begins, nullptr, nullptr, nullptr, nullptr,
                                              nullptr, nullptr, nullptr, nullptr, nullptr));
  }
  rocksdb_t* db = rocksdb_open(options, path.c_str(), &err);
  check(err);
  rocksdb_writeoptions_t* write = rocksdb_writeoptions_create();
  for (const char* key : {"a", "b"}) {
    if (which.rfind("merge", 0) == 0) {
      rocksdb_put(db, write, key, 1, "v", 1, &err);
      check(err);
      rocksdb_merge(db, write, key, 1, "v", 1, &err);
    } else {
      rocksdb_put(db, write, key, 1, "v", 1, &err);
    }
    check(err);
  }
  if (which == "merge") {
    rocksdb_readoptions_t* read = rocksdb_readoptions_create();
    size_t len;
    std::free(rocksdb_get(db, read, "a", 1, &len, &err));
  }
  rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
  rocksdb_flush(db, flush, &err);
  check(err);
  rocksdb_compact_range(db, nullptr, 0, nullptr, 0);
  rocksdb_close(db);
  return 0;
}
