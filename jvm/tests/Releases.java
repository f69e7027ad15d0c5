import java.lang.reflect.Constructor;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.rocksdb.*;

/**
 * What changed between the releases of RocksJava: methods with other parameters, the numbers of statistics and write
 * stalls, and the constructors that native code calls. Uses only methods that all releases have, so that it compiles
 * with each of them. A second argument reads what the first run wrote. Run by `cargo xtask jni releases`.
 */
public final class Releases {
  private static final int RECORDS = 1000;

  private static void equal(final Object found, final Object expected, final String what) {
    if (!expected.equals(found)) {
      throw new AssertionError(what + ": " + found + " instead of " + expected);
    }
  }

  private static void check(final boolean holds, final String what) {
    equal(holds, true, what);
  }

  private static byte[] bytes(final String text) {
    return text.getBytes();
  }

  private static byte[] key(final int number) {
    return bytes(String.format("key%06d", number));
  }

  /** The first of two classes that exists. */
  private static Class<?> either(final String one, final String other)
      throws ClassNotFoundException {
    try {
      return Class.forName(one);
    } catch (final ClassNotFoundException absent) {
      return Class.forName(other);
    }
  }

  private static BlockBasedTableConfig table(final Cache cache) {
    return new BlockBasedTableConfig()
        .setBlockCache(cache)
        .setFilterPolicy(new BloomFilter(10, false))
        .setIndexType(IndexType.kTwoLevelIndexSearch)
        .setPartitionFilters(true)
        .setBlockSize(2048)
        .setFormatVersion(5)
        .setCacheIndexAndFilterBlocks(true);
  }

  private static long count(final RocksIterator entries) throws RocksDBException {
    long number = 0;
    for (entries.seekToFirst(); entries.isValid(); entries.next()) {
      number++;
    }
    entries.status();
    entries.close();
    return number;
  }

  private static void statistics(final String path) throws Exception {
    try (final Cache cache = new LRUCache(8 << 20, 2, false, 0.5);
        final WriteBufferManager buffers = new WriteBufferManager(64 << 20, cache);
        final Statistics statistics = new Statistics();
        final Options options =
            new Options()
                .setCreateIfMissing(true)
                .setStatistics(statistics)
                .setWriteBufferManager(buffers)
                .setTableFormatConfig(table(cache));
        final RocksDB db = RocksDB.open(options, path)) {
      for (int i = 0; i < RECORDS; i++) {
        db.put(key(i), new byte[100]);
      }
      db.flush(new FlushOptions());
      for (int i = 0; i < RECORDS / 2; i++) {
        check(db.get(key(i)) != null, "a key is lost");
      }
      final long[] tickers = {
        statistics.getTickerCount(TickerType.NUMBER_KEYS_WRITTEN),
        statistics.getTickerCount(TickerType.NUMBER_KEYS_READ),
        statistics.getTickerCount(TickerType.BYTES_READ),
        statistics.getTickerCount(TickerType.WRITE_DONE_BY_SELF),
        statistics.getTickerCount(TickerType.BLOB_DB_BLOB_FILE_SYNCED),
      };
      equal(
          Arrays.toString(tickers),
          Arrays.toString(new long[] {RECORDS, RECORDS / 2, RECORDS / 2 * 100, RECORDS, 0}),
          "tickers");
      check(statistics.getTickerCount(TickerType.BYTES_WRITTEN) > RECORDS * 100, "BYTES_WRITTEN");
      check(statistics.getTickerCount(TickerType.BLOCK_CACHE_DATA_MISS) > 0, "cache misses");
      check(statistics.getTickerCount(TickerType.FLUSH_WRITE_BYTES) > 0, "FLUSH_WRITE_BYTES");
      equal(statistics.getHistogramData(HistogramType.DB_GET).getCount(), RECORDS / 2L, "DB_GET");
      equal(statistics.getHistogramData(HistogramType.DB_WRITE).getCount(), (long) RECORDS, "DB_WRITE");
      equal(statistics.getHistogramData(HistogramType.BYTES_PER_READ).getMax(), 100.0, "BYTES_PER_READ");

      final List<LiveFileMetaData> files = db.getLiveFilesMetaData();
      equal(files.size(), 1, "files");
      equal(files.get(0).numEntries(), (long) RECORDS, "entries of the file");
      final List<SstFileMetaData> tables =
          db.getColumnFamilyMetaData(db.getDefaultColumnFamily()).levels().get(0).files();
      equal(new String(tables.get(0).smallestKey()), new String(key(0)), "smallest key");
      final TableProperties properties = db.getPropertiesOfAllTables().values().iterator().next();
      equal(properties.getNumEntries(), (long) RECORDS, "table properties");
      equal(properties.getComparatorName(), "leveldb.BytewiseComparator", "table properties");
    }
  }

  private static void reads(final String path) throws Exception {
    try (final Options options = new Options().setCreateIfMissing(true);
        final RocksDB db = RocksDB.open(options, path);
        final ColumnFamilyHandle family =
            db.createColumnFamily(new ColumnFamilyDescriptor(bytes("other")));
        final ReadOptions reads = new ReadOptions()) {
      db.put(key(1), key(1));
      db.put(family, key(1), key(1));
      db.put(family, key(2), key(2));
      equal(count(db.newIterator()), 1L, "iterator");
      equal(count(db.newIterator(reads)), 1L, "iterator");
      equal(count(db.newIterator(family)), 2L, "iterator");
      equal(count(db.newIterator(family, reads)), 2L, "iterator");
    }
  }

  private static void transactions(final String path) throws Exception {
    try (final Options options =
            new Options().setCreateIfMissing(true).setMergeOperator(new StringAppendOperator());
        final TransactionDBOptions transactions = new TransactionDBOptions();
        final TransactionDB db = TransactionDB.open(options, transactions, path);
        final WriteOptions writes = new WriteOptions();
        final ReadOptions reads = new ReadOptions();
        final Transaction one = db.beginTransaction(writes)) {
      final ColumnFamilyHandle family = db.getDefaultColumnFamily();
      one.put(bytes("a"), bytes("1"));
      one.put(family, bytes("b"), bytes("2"));
      one.merge(bytes("a"), bytes("x"));
      one.merge(family, bytes("b"), bytes("y"));
      one.mergeUntracked(bytes("a"), bytes("z"));
      one.putUntracked(bytes("c"), bytes("3"));
      equal(new String(one.get(reads, bytes("a"))), "1,x,z", "get");
      equal(new String(one.get(family, reads, bytes("b"))), "2,y", "get");
      equal(new String(one.getForUpdate(reads, bytes("c"), true)), "3", "getForUpdate");
      equal(new String(one.getForUpdate(reads, family, bytes("b"), true)), "2,y", "getForUpdate");
      equal(count(one.getIterator(reads)), 3L, "iterator of a transaction");
      equal(count(one.getIterator(reads, family)), 3L, "iterator of a transaction");
      one.commit();
      equal(new String(db.get(bytes("a"))), "1,x,z", "committed");
    }
  }

  /** Options from a file, and a backup; the methods are called by reflection, since their classes changed. */
  private static void files(final String path) throws Exception {
    try (final Cache cache = new LRUCache(1 << 20);
        final Options options =
            new Options()
                .setCreateIfMissing(true)
                .setWriteBufferSize(5 << 20)
                .setTableFormatConfig(table(cache));
        final RocksDB db = RocksDB.open(options, path)) {
      db.put(key(1), key(1));
      final DBOptions loaded = new DBOptions();
      final List<ColumnFamilyDescriptor> families = new ArrayList<>();
      try {
        OptionsUtil.class
            .getMethod("loadLatestOptions", String.class, Env.class, DBOptions.class, List.class)
            .invoke(null, path, Env.getDefault(), loaded, families);
      } catch (final NoSuchMethodException newer) {
        final Class<?> config = Class.forName("org.rocksdb.ConfigOptions");
        OptionsUtil.class
            .getMethod("loadLatestOptions", config, String.class, DBOptions.class, List.class)
            .invoke(null, config.getConstructor().newInstance(), path, loaded, families);
      }
      final ColumnFamilyOptions family = families.get(0).getOptions();
      equal(family.writeBufferSize(), 5L << 20, "options of the file");
      final Object format = family.tableFormatConfig();
      if (format != null) {
        equal(((BlockBasedTableConfig) format).blockSize(), 2048L, "table options of the file");
      }

      final Class<?> kind =
          either("org.rocksdb.BackupEngineOptions", "org.rocksdb.BackupableDBOptions");
      final Constructor<?> create = kind.getConstructor(String.class);
      final String folder = path + ".backup";
      new java.io.File(folder).mkdirs();
      final Object settings = create.newInstance(folder);
      kind.getMethod("setShareTableFiles", boolean.class).invoke(settings, true);
      try (final BackupEngine engine =
          (BackupEngine)
              BackupEngine.class
                  .getMethod("open", Env.class, kind)
                  .invoke(null, Env.getDefault(), settings)) {
        engine.createNewBackup(db, true);
        equal(engine.getBackupInfo().size(), 1, "backups");
      }
    }
  }

  /** Options that later releases removed: without effect and kept, or rejected. */
  private static void removed() throws Exception {
    try (final Options options = new Options()) {
      // Release 8 has neither, release 7 only the first.
      try {
        final BlockBasedTableConfig table = new BlockBasedTableConfig();
        BlockBasedTableConfig.class
            .getMethod("setBlockCacheCompressedSize", long.class)
            .invoke(table, 1L << 20);
        rejected("compressed blocks", () -> options.setTableFormatConfig(table));
        Options.class.getMethod("setBaseBackgroundCompactions", int.class).invoke(options, 3);
        Options.class.getMethod("setPreserveDeletes", boolean.class).invoke(options, false);
      } catch (final NoSuchMethodException newer) {
        return;
      }
      equal(Options.class.getMethod("baseBackgroundCompactions").invoke(options), 3, "kept");
      rejected("preserve_deletes", () ->
          Options.class.getMethod("setPreserveDeletes", boolean.class).invoke(options, true));
    }
  }

  private static void rejected(final String text, final java.util.concurrent.Callable<?> call) {
    try {
      call.call();
    } catch (final Exception thrown) {
      final Throwable cause = thrown.getCause() == null ? thrown : thrown.getCause();
      check(String.valueOf(cause.getMessage()).contains(text), text + ": " + cause);
      return;
    }
    throw new AssertionError(text + " is accepted");
  }

  private static void stalls(final String path) throws Exception {
    final List<String> seen = new CopyOnWriteArrayList<>();
    final AbstractEventListener listener =
        new AbstractEventListener(
            AbstractEventListener.EnabledEventCallback.ON_STALL_CONDITIONS_CHANGED) {
          @Override
          public void onStallConditionsChanged(final WriteStallInfo info) {
            seen.add(info.getPreviousCondition() + " to " + info.getCurrentCondition());
          }
        };
    try (final Options options =
            new Options()
                .setCreateIfMissing(true)
                .setLevel0FileNumCompactionTrigger(2)
                .setLevel0SlowdownWritesTrigger(2)
                .setListeners(Collections.<AbstractEventListener>singletonList(listener));
        final RocksDB db = RocksDB.open(options, path);
        final FlushOptions flush = new FlushOptions()) {
      for (int i = 0; i < 2; i++) {
        db.put(key(1), key(i));
        db.flush(flush);
      }
      for (int i = 0; i < 1000 && seen.size() < 2; i++) {
        Thread.sleep(10);
      }
    }
    // The threads that report them race in RocksDB.
    Collections.sort(seen);
    equal(seen.toString(), "[DELAYED to NORMAL, NORMAL to DELAYED]", "stalls");
  }

  /** Whether the loaded library is Cairn's, which has a property that RocksDB does not know. */
  private static boolean isCairn(final RocksDB db) {
    try {
      return db.getProperty("cairn.memory") != null;
    } catch (final RocksDBException unknown) {
      return false;
    }
  }

  /** Reads the databases, which another library wrote. */
  private static void reread(final Path scratch) throws Exception {
    final StringBuilder found = new StringBuilder();
    for (final String name : new String[] {"statistics", "reads", "transactions", "files", "stalls"}) {
      final String path = scratch.resolve(name).toString();
      final List<ColumnFamilyDescriptor> families = new ArrayList<>();
      final List<ColumnFamilyHandle> handles = new ArrayList<>();
      try (final Options options = new Options();
          final DBOptions all = new DBOptions();
          final ColumnFamilyOptions each =
              new ColumnFamilyOptions().setMergeOperator(new StringAppendOperator())) {
        for (final byte[] family : RocksDB.listColumnFamilies(options, path)) {
          families.add(new ColumnFamilyDescriptor(family, each));
        }
        try (final RocksDB db = RocksDB.open(all, path, families, handles)) {
          equal(isCairn(db), false, "the library of the second run");
          long records = 0;
          for (final ColumnFamilyHandle handle : handles) {
            records += count(db.newIterator(handle));
            handle.close();
          }
          found.append(name).append(' ').append(records).append(' ');
        }
      }
    }
    equal(found.toString(), "statistics 1000 reads 3 transactions 3 files 1 stalls 1 ", "records");
  }

  public static void main(final String[] arguments) throws Exception {
    final Path scratch = Paths.get(arguments[0]);
    RocksDB.loadLibrary();
    if (arguments.length > 1) {
      reread(scratch);
      System.out.println("passed");
      return;
    }
    statistics(scratch.resolve("statistics").toString());
    reads(scratch.resolve("reads").toString());
    transactions(scratch.resolve("transactions").toString());
    files(scratch.resolve("files").toString());
    stalls(scratch.resolve("stalls").toString());
    removed();
    System.out.println("passed");
  }
}
