/* Backups: each run of the program restores and verifies the backups of earlier runs and adds some. Runs with different
   libraries may alternate on the same directory. */
#include "check.h"

/* The number of backups that a run creates. */
#define ROUNDS 3

/* Options with their defaults and with other values. */
static void check_options(void) {
  rocksdb_backup_engine_options_t* o = rocksdb_backup_engine_options_create("nowhere");
  CHECK(rocksdb_backup_engine_options_get_backup_log_files(o) == 1);
  CHECK(rocksdb_backup_engine_options_get_backup_rate_limit(o) == 0);
  CHECK(rocksdb_backup_engine_options_get_callback_trigger_interval_size(o) == 4 << 20);
  CHECK(rocksdb_backup_engine_options_get_destroy_old_data(o) == 0);
  CHECK(rocksdb_backup_engine_options_get_max_background_operations(o) == 1);
  CHECK(rocksdb_backup_engine_options_get_max_valid_backups_to_open(o) == 0x7fffffff);
  CHECK(rocksdb_backup_engine_options_get_restore_rate_limit(o) == 0);
  CHECK((unsigned)rocksdb_backup_engine_options_get_share_files_with_checksum_naming(o) == 0x80000002u);
  CHECK(rocksdb_backup_engine_options_get_share_table_files(o) == 1);
  CHECK(rocksdb_backup_engine_options_get_sync(o) == 1);
  rocksdb_backup_engine_options_set_backup_log_files(o, 0);
  rocksdb_backup_engine_options_set_backup_rate_limit(o, 5);
  rocksdb_backup_engine_options_set_callback_trigger_interval_size(o, 6);
  rocksdb_backup_engine_options_set_destroy_old_data(o, 1);
  rocksdb_backup_engine_options_set_max_background_operations(o, -2);
  rocksdb_backup_engine_options_set_max_valid_backups_to_open(o, -3);
  CHECK(rocksdb_backup_engine_options_get_max_background_operations(o) == -2);
  CHECK(rocksdb_backup_engine_options_get_max_valid_backups_to_open(o) == -3);
  rocksdb_backup_engine_options_set_max_background_operations(o, 7);
  rocksdb_backup_engine_options_set_max_valid_backups_to_open(o, 8);
  rocksdb_backup_engine_options_set_restore_rate_limit(o, 9);
  rocksdb_backup_engine_options_set_share_files_with_checksum_naming(o, 1);
  rocksdb_backup_engine_options_set_share_table_files(o, 0);
  rocksdb_backup_engine_options_set_sync(o, 0);
  rocksdb_backup_engine_options_set_env(o, NULL);
  CHECK(rocksdb_backup_engine_options_get_backup_log_files(o) == 0);
  CHECK(rocksdb_backup_engine_options_get_backup_rate_limit(o) == 5);
  CHECK(rocksdb_backup_engine_options_get_callback_trigger_interval_size(o) == 6);
  CHECK(rocksdb_backup_engine_options_get_destroy_old_data(o) == 1);
  CHECK(rocksdb_backup_engine_options_get_max_background_operations(o) == 7);
  CHECK(rocksdb_backup_engine_options_get_max_valid_backups_to_open(o) == 8);
  CHECK(rocksdb_backup_engine_options_get_restore_rate_limit(o) == 9);
  CHECK(rocksdb_backup_engine_options_get_share_files_with_checksum_naming(o) == 1);
  CHECK(rocksdb_backup_engine_options_get_share_table_files(o) == 0);
  CHECK(rocksdb_backup_engine_options_get_sync(o) == 0);
  rocksdb_backup_engine_options_destroy(o);
}

/* The value of the key `key` in the backup `id`. */
static const char* value_of(unsigned id, int key, char* value, size_t size) {
  snprintf(value, size, "value %u of key %d, long enough to become a blob in some of the tables", id, key);
  return value;
}

/* Restores the backup `id` and checks what it has. */
static void check_backup(rocksdb_backup_engine_t* engine, const rocksdb_options_t* options, const char* dir,
                         unsigned id, int latest) {
  char* err = NULL;
  char value[100];
  rocksdb_restore_options_t* how = rocksdb_restore_options_create();
  rocksdb_restore_options_set_keep_log_files(how, 0);
  rocksdb_backup_engine_verify_backup(engine, id, &err);
  CHECK_OK(err);
  if (latest)
    rocksdb_backup_engine_restore_db_from_latest_backup(engine, dir, dir, how, &err);
  else
    rocksdb_backup_engine_restore_db_from_backup(engine, dir, dir, how, id, &err);
  CHECK_OK(err);
  rocksdb_restore_options_destroy(how);

  rocksdb_readoptions_t* r = rocksdb_readoptions_create();
  rocksdb_t* db = rocksdb_open(options, dir, &err);
  CHECK_OK(err);
  for (int key = 0; key < 20; key++) {
    char name[20];
    snprintf(name, sizeof name, "key%d", key);
    CHECK_GET(db, r, name, value_of(id, key, value, sizeof value));
  }
  snprintf(value, sizeof value, "in the log of %u", id);
  CHECK_GET(db, r, "last", value);
  rocksdb_close(db);
  rocksdb_readoptions_destroy(r);
}

/* Writes the state of the backup `id`, whose last key is not flushed. */
static void write_state(rocksdb_t* db, unsigned id) {
  char value[100];
  for (int key = 0; key < 20; key++) {
    char name[20];
    snprintf(name, sizeof name, "key%d", key);
    put(db, name, value_of(id, key, value, sizeof value));
  }
  flush(db);
  snprintf(value, sizeof value, "in the log of %u", id);
  put(db, "last", value);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  char* err = NULL;
  check_options();
  char* path = below(argv[1], "db");
  char* restored = below(argv[1], "restored");
  char* backups = below(argv[1], "backups");

  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_enable_blob_files(options, 1);
  rocksdb_options_set_min_blob_size(options, 72);
  rocksdb_backup_engine_t* engine = rocksdb_backup_engine_open(options, backups, &err);
  CHECK_OK(err);

  const rocksdb_backup_engine_info_t* info = rocksdb_backup_engine_get_backup_info(engine);
  int count = rocksdb_backup_engine_info_count(info);
  unsigned last = 0;
  for (int at = 0; at < count; at++) {
    unsigned id = rocksdb_backup_engine_info_backup_id(info, at);
    CHECK(id > last);
    CHECK(rocksdb_backup_engine_info_number_files(info, at) >= 4);
    CHECK(rocksdb_backup_engine_info_size(info, at) > 1000);
    CHECK(rocksdb_backup_engine_info_timestamp(info, at) > 1600000000);
    last = id;
    check_backup(engine, options, restored, id, at == count - 1);
  }
  rocksdb_backup_engine_info_destroy(info);

  rocksdb_t* db = rocksdb_open(options, path, &err);
  CHECK_OK(err);
  for (unsigned round = 1; round <= ROUNDS; round++) {
    write_state(db, last + round);
    if (round == 1)
      rocksdb_backup_engine_create_new_backup(engine, db, &err);
    else
      rocksdb_backup_engine_create_new_backup_flush(engine, db, round == 2, &err);
    CHECK_OK(err);
  }
  for (unsigned round = 1; round <= ROUNDS; round++)
    check_backup(engine, options, restored, last + round, round == ROUNDS);

  /* Another engine, with several threads, sees the same. */
  rocksdb_env_t* env = rocksdb_create_default_env();
  rocksdb_backup_engine_options_t* more = rocksdb_backup_engine_options_create("elsewhere");
  rocksdb_backup_engine_options_set_backup_dir(more, backups);
  rocksdb_backup_engine_options_set_env(more, env);
  rocksdb_backup_engine_options_set_max_background_operations(more, 3);
  rocksdb_backup_engine_close(engine);
  engine = rocksdb_backup_engine_open_opts(more, env, &err);
  CHECK_OK(err);
  rocksdb_backup_engine_purge_old_backups(engine, 4, &err);
  CHECK_OK(err);
  info = rocksdb_backup_engine_get_backup_info(engine);
  count = rocksdb_backup_engine_info_count(info);
  CHECK(count == (last == 0 ? ROUNDS : 4));
  CHECK(rocksdb_backup_engine_info_backup_id(info, count - 1) == last + ROUNDS);
  for (int at = 0; at < count; at++)
    check_backup(engine, options, restored, rocksdb_backup_engine_info_backup_id(info, at), 0);
  rocksdb_backup_engine_info_destroy(info);

  rocksdb_backup_engine_verify_backup(engine, 1000, &err);
  CHECK_ERROR(err, "NotFound: ");
  rocksdb_restore_options_t* how = rocksdb_restore_options_create();
  rocksdb_backup_engine_restore_db_from_backup(engine, restored, restored, how, 1000, &err);
  CHECK_ERROR(err, "NotFound: ");
  rocksdb_restore_options_destroy(how);

#ifndef NOT_CAIRN
  /* Cairn keeps an open database. */
  how = rocksdb_restore_options_create();
  rocksdb_backup_engine_restore_db_from_latest_backup(engine, path, path, how, &err);
  CHECK_ERROR(err, "IO error: ");
  rocksdb_restore_options_destroy(how);
  rocksdb_backup_engine_options_set_max_background_operations(more, 0);
  CHECK(rocksdb_backup_engine_open_opts(more, env, &err) == NULL);
  CHECK_ERROR(err, "Invalid argument: ");
#endif
  rocksdb_close(db);
  rocksdb_backup_engine_close(engine);
  rocksdb_backup_engine_options_destroy(more);
  rocksdb_env_destroy(env);
  rocksdb_options_destroy(options);
  free(path);
  free(restored);
  free(backups);
  end_threads();
  return 0;
}
