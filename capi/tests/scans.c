/* Scans over many ranges, and the executor of reads. */
#include <cairn/c.h>

#include "check.h"

static cairn_multi_scan_args_t* ranges(int reverse) {
  cairn_multi_scan_args_t* args = cairn_multi_scan_args_create();
  cairn_multi_scan_args_add(args, "b", 1, "d", 1);
  cairn_multi_scan_args_add(args, "d5", 2, "d6", 2);
  cairn_multi_scan_args_add(args, "e", 1, reverse ? "z" : NULL, reverse);
  cairn_multi_scan_args_set_io_coalesce_threshold(args, 4096);
  cairn_multi_scan_args_set_max_prefetch_size(args, 100000);
  cairn_multi_scan_args_set_use_async_io(args, 1);
  cairn_multi_scan_args_set_reverse(args, (unsigned char)reverse);
  return args;
}

/* Scans all ranges, and compares the keys with `expected`, in which a comma ends a range. */
static void scan_all(rocksdb_t* db, rocksdb_readoptions_t* r, rocksdb_column_family_handle_t* family, int reverse,
                     const char* expected) {
  char* err = NULL;
  cairn_multi_scan_args_t* args = ranges(reverse);
  cairn_multi_scan_t* scan = cairn_multi_scan_create(db, r, family, args, &err);
  CHECK_OK(err);
  cairn_multi_scan_args_destroy(args);
  CHECK(!cairn_multi_scan_valid(scan));
  size_t len = 1;
  CHECK(cairn_multi_scan_key(scan, &len) == NULL && len == 0);
  cairn_multi_scan_next(scan);
  char found[64] = "";
  size_t range = 9;
  size_t count = 0;
  while (cairn_multi_scan_next_range(scan, &range)) {
    CHECK(range == (reverse ? 2 - count : count));
    count++;
    while (cairn_multi_scan_valid(scan)) {
      const char* key = cairn_multi_scan_key(scan, &len);
      strncat(found, key, len);
      const char* value = cairn_multi_scan_value(scan, &len);
      CHECK(same(value, len, "value"));
      cairn_multi_scan_next(scan);
    }
    cairn_multi_scan_get_error(scan, &err);
    CHECK_OK(err);
    strcat(found, ",");
  }
  CHECK(count == 3 && !cairn_multi_scan_next_range(scan, NULL));
  CHECK(strcmp(found, expected) == 0);
  cairn_multi_scan_destroy(scan);
}

static void refused(rocksdb_t* db, rocksdb_readoptions_t* r, const char* start, const char* limit) {
  char* err = NULL;
  cairn_multi_scan_args_t* args = cairn_multi_scan_args_create();
  CHECK(cairn_multi_scan_create(db, r, NULL, args, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  cairn_multi_scan_args_add(args, "b", 1, "d", 1);
  cairn_multi_scan_args_add(args, start, 1, limit, 1);
  CHECK(cairn_multi_scan_create(db, r, NULL, args, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
  cairn_multi_scan_args_destroy(args);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  char* path = below(argv[1], "db");
  const int modes[] = {cairn_io_mode_auto, cairn_io_mode_uring, cairn_io_mode_threads, cairn_io_mode_blocking};
  for (int at = 0; at < 4; at++) {
    char* err = NULL;
    rocksdb_options_t* options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    CHECK(cairn_options_get_io_mode(options) == cairn_io_mode_auto);
    cairn_options_set_io_mode(options, modes[at]);
    CHECK(cairn_options_get_io_mode(options) == modes[at]);
    rocksdb_t* db = rocksdb_open(options, path, &err);
    CHECK_OK(err);
    char* driver = rocksdb_property_value(db, "cairn.io");
    if (modes[at] == cairn_io_mode_threads) CHECK(strcmp(driver, "threads") == 0);
    if (modes[at] == cairn_io_mode_blocking) CHECK(strcmp(driver, "blocking") == 0);
    rocksdb_free(driver);
    const char* keys[] = {"a", "b", "c", "d", "e", "f"};
    for (int key = 0; key < 6; key++) put(db, keys[key], "value");
    rocksdb_flushoptions_t* flush = rocksdb_flushoptions_create();
    rocksdb_flush(db, flush, &err);
    CHECK_OK(err);
    rocksdb_flushoptions_destroy(flush);
    rocksdb_readoptions_t* r = rocksdb_readoptions_create();
    rocksdb_column_family_handle_t* family = rocksdb_get_default_column_family_handle(db);
    scan_all(db, r, NULL, 0, "bc,,ef,");
    scan_all(db, r, family, 1, "fe,,cb,");
    refused(db, r, "c", "e");
    refused(db, r, "a", "b");
    refused(db, r, "e", "e");
    rocksdb_column_family_handle_destroy(family);
    /* A scan that is left when the database is closed. */
    cairn_multi_scan_args_t* args = ranges(0);
    cairn_multi_scan_t* scan = cairn_multi_scan_create(db, r, NULL, args, &err);
    CHECK_OK(err);
    CHECK(cairn_multi_scan_next_range(scan, NULL) && cairn_multi_scan_valid(scan));
    rocksdb_close(db);
    CHECK(!cairn_multi_scan_valid(scan) && !cairn_multi_scan_next_range(scan, NULL));
    cairn_multi_scan_next(scan);
    cairn_multi_scan_get_error(scan, &err);
    CHECK_ERROR(err, "Shutdown in progress");
    cairn_multi_scan_destroy(scan);
    cairn_multi_scan_args_destroy(args);
    rocksdb_readoptions_destroy(r);
    /* A mode that does not exist. */
    cairn_options_set_io_mode(options, 4);
    CHECK(rocksdb_open(options, path, &err) == NULL);
    CHECK_ERROR(err, "Invalid argument: ");
    rocksdb_options_destroy(options);
  }
  free(path);
  return 0;
}
