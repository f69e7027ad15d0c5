import java.io.File;
import java.lang.ref.WeakReference;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import org.rocksdb.*;

/**
 * Behaviour that RocksJava's own tests leave out: exceptions in callbacks, several databases and class loaders in one
 * virtual machine, and an exit with open databases. Run by `cargo xtask jni test Behaviour`.
 */
public final class Behaviour {
  private static Path scratch;

  private interface Case {
    void run(String path) throws Exception;
  }

  private interface Call {
    void run() throws Exception;
  }

  private static void check(final boolean holds, final String what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  /** Runs a call that must throw an exception of the given class, whose text contains `text`. */
  private static <T extends Throwable> T fails(
      final Class<T> kind, final String text, final Call call) throws Exception {
    try {
      call.run();
    } catch (final Throwable thrown) {
      check(kind.isInstance(thrown), "expected " + kind + ", got " + thrown);
      check(String.valueOf(thrown.getMessage()).contains(text), thrown.toString());
      return kind.cast(thrown);
    }
    throw new AssertionError("nothing was thrown; expected " + text);
  }

  private static byte[] bytes(final String text) {
    return text.getBytes();
  }

  /** Throws while it is armed. */
  private static final class Fragile extends AbstractComparator {
    final AtomicBoolean armed = new AtomicBoolean();
    final AtomicInteger calls = new AtomicInteger();

    Fragile(final ComparatorOptions options) {
      super(options);
    }

    @Override
    public String name() {
      return "Fragile";
    }

    @Override
    public int compare(final ByteBuffer a, final ByteBuffer b) {
      calls.incrementAndGet();
      if (armed.get()) {
        throw new IllegalStateException("comparator on purpose");
      }
      return a.compareTo(b);
    }
  }

  private static void comparator(final String path, final ComparatorOptions order)
      throws Exception {
    try (Fragile fragile = new Fragile(order);
         Options options = new Options().setCreateIfMissing(true).setComparator(fragile)) {
      try (RocksDB db = RocksDB.open(options, path)) {
        // The longest ones do not fit into a reused buffer.
        for (int n = 0; n < 50; n++) {
          db.put(bytes("k" + n + "x".repeat(3 * n)), bytes("v" + n));
        }
        for (int n = 0; n < 50; n++) {
          check(Arrays.equals(db.get(bytes("k" + n + "x".repeat(3 * n))), bytes("v" + n)),
              "value " + n);
        }
        fragile.armed.set(true);
        fails(IllegalStateException.class, "comparator on purpose", () -> db.get(bytes("k2")));
        try (RocksIterator iterator = db.newIterator()) {
          fails(IllegalStateException.class, "comparator on purpose",
              () -> iterator.seek(bytes("k3")));
        }
        fragile.armed.set(false);
        check(Arrays.equals(db.get(bytes("k0")), bytes("v0")), "a read after the exception");
        db.put(bytes("before"), bytes("1"));
        fragile.armed.set(true);
        // Single writes are inserted in groups, by the last of them.
        fails(IllegalStateException.class, "comparator on purpose", () -> {
          for (int n = 0; n < 20; n++) {
            db.put(bytes("during" + n), bytes("1"));
          }
        });
        fragile.armed.set(false);
        // The memtable lacks a write that is in the log: no write is accepted until the database is opened again.
        fails(RocksDBException.class, "comparator on purpose",
            () -> db.put(bytes("after"), bytes("1")));
        check(db.get(bytes("before")) != null, "a read after a failed write");
        check(db.get(bytes("after")) == null, "a rejected write");
      }
      try (RocksDB db = RocksDB.open(options, path)) {
        check(Arrays.equals(db.get(bytes("k7" + "x".repeat(21))), bytes("v7")), "after reopening");
        check(db.get(bytes("before")) != null, "after reopening");
        db.put(bytes("after"), bytes("1"));
      }
    }
  }

  private static void exceptionsInComparators(final String path) throws Exception {
    for (final boolean direct : new boolean[] {true, false}) {
      for (final int reused : new int[] {-1, 64}) {
        try (ComparatorOptions order = new ComparatorOptions()
                                           .setUseDirectBuffer(direct)
                                           .setMaxReusedBufferSize(reused)) {
          comparator(path + direct + reused, order);
        }
      }
    }
  }

  private static void exceptionInComparatorOfCompaction(final String path) throws Exception {
    try (ComparatorOptions order = new ComparatorOptions(); Fragile fragile = new Fragile(order);
         Options options = new Options().setCreateIfMissing(true).setComparator(fragile)) {
      try (RocksDB db = RocksDB.open(options, path)) {
        for (int round = 0; round < 2; round++) {
          for (int n = 0; n < 20; n++) {
            db.put(bytes("k" + n), bytes("v" + round));
          }
          db.flush(new FlushOptions());
        }
        fragile.armed.set(true);
        fails(Exception.class, "comparator on purpose", db::compactRange);
        fragile.armed.set(false);
        for (int n = 0; n < 20; n++) {
          check(Arrays.equals(db.get(bytes("k" + n)), bytes("v1")), "value " + n);
        }
      }
      RocksDB.open(options, path).close();
    }
  }

  private static final class FragileFactory
      extends AbstractCompactionFilterFactory<RemoveEmptyValueCompactionFilter> {
    @Override
    public RemoveEmptyValueCompactionFilter createCompactionFilter(
        final AbstractCompactionFilter.Context context) {
      throw new IllegalStateException("factory on purpose");
    }

    @Override
    public String name() {
      return "FragileFactory";
    }
  }

  private static void exceptionInFactoryOfFilters(final String path) throws Exception {
    final AtomicReference<Status> error = new AtomicReference<>();
    final CountDownLatch failed = new CountDownLatch(1);
    try (AbstractEventListener listener = new AbstractEventListener() {
           @Override
           public void onBackgroundError(
               final BackgroundErrorReason reason, final Status status) {
             error.compareAndSet(null, status);
             failed.countDown();
           }
         };
         FragileFactory factory = new FragileFactory();
         Options options = new Options()
                               .setCreateIfMissing(true)
                               .setLevel0FileNumCompactionTrigger(2)
                               .setListeners(Collections.singletonList(listener))
                               .setCompactionFilterFactory(factory)) {
      try (RocksDB db = RocksDB.open(options, path)) {
        for (int round = 0; round < 2; round++) {
          db.put(bytes("a" + round), bytes(""));
          db.put(bytes("b"), bytes("v"));
          // The compaction that follows the second one may fail before its caller returns.
          db.flush(new FlushOptions().setWaitForFlush(round == 0));
        }
        check(failed.await(60, TimeUnit.SECONDS), "no background error");
        check(error.get().getState().contains("factory on purpose"), error.get().getState());
        // Nothing was removed by guess.
        check(db.get(bytes("a0")) != null && db.get(bytes("b")) != null, "an entry is missing");
      }
    }
    try (Options options = new Options(); RocksDB db = RocksDB.open(options, path)) {
      db.compactRange();
      check(db.get(bytes("a1")) != null && db.get(bytes("b")) != null, "an entry is missing");
    }
  }

  private static void exceptionInTableFilter(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         RocksDB db = RocksDB.open(options, path)) {
      db.put(bytes("a"), bytes("1"));
      db.flush(new FlushOptions());
      try (AbstractTableFilter filter = new AbstractTableFilter() {
             @Override
             public boolean filter(final TableProperties properties) {
               throw new IllegalStateException("table filter on purpose");
             }
           };
           ReadOptions read = new ReadOptions().setTableFilter(filter)) {
        fails(IllegalStateException.class, "table filter on purpose", () -> {
          try (RocksIterator iterator = db.newIterator(read)) {
            iterator.seekToFirst();
            iterator.status();
          }
        });
      }
      check(db.get(bytes("a")) != null, "a read after the exception");
    }
  }

  private static void exceptionInHandler(final String path) throws Exception {
    try (WriteBatch batch = new WriteBatch()) {
      batch.put(bytes("a"), bytes("1"));
      try (WriteBatch.Handler handler = new NoHandler()) {
        fails(IllegalStateException.class, "handler on purpose", () -> batch.iterate(handler));
      }
      check(batch.count() == 1, "the batch has changed");
    }
  }

  private static final class NoHandler extends WriteBatch.Handler {
    private static IllegalStateException no() {
      return new IllegalStateException("handler on purpose");
    }

    @Override
    public void put(final int family, final byte[] key, final byte[] value) {
      throw no();
    }

    @Override
    public void put(final byte[] key, final byte[] value) {
      throw no();
    }

    @Override
    public void merge(final int family, final byte[] key, final byte[] value) {}

    @Override
    public void merge(final byte[] key, final byte[] value) {}

    @Override
    public void delete(final int family, final byte[] key) {}

    @Override
    public void delete(final byte[] key) {}

    @Override
    public void singleDelete(final int family, final byte[] key) {}

    @Override
    public void singleDelete(final byte[] key) {}

    @Override
    public void deleteRange(final int family, final byte[] begin, final byte[] end) {}

    @Override
    public void deleteRange(final byte[] begin, final byte[] end) {}

    @Override
    public void logData(final byte[] blob) {}

    @Override
    public void putBlobIndex(final int family, final byte[] key, final byte[] value) {}

    @Override
    public void markBeginPrepare() {}

    @Override
    public void markEndPrepare(final byte[] xid) {}

    @Override
    public void markNoop(final boolean emptyBatch) {}

    @Override
    public void markRollback(final byte[] xid) {}

    @Override
    public void markCommit(final byte[] xid) {}

    @Override
    public void markCommitWithTimestamp(final byte[] xid, final byte[] ts) {}
  }

  private static void exceptionInWalFilter(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true)) {
      try (RocksDB db = RocksDB.open(options, path)) {
        db.put(bytes("a"), bytes("1"));
      }
      try (AbstractWalFilter filter = new AbstractWalFilter() {
             @Override
             public void columnFamilyLogNumberMap(
                 final Map<Integer, Long> logs, final Map<String, Integer> ids) {
               check(ids.get("default") == 0, "the ids " + ids);
             }

             @Override
             public LogRecordFoundResult logRecordFound(final long number, final String name,
                 final WriteBatch batch, final WriteBatch changed) {
               throw new IllegalStateException("log filter on purpose");
             }

             @Override
             public String name() {
               return "fragile";
             }
           };
           Options filtering = new Options().setWalFilter(filter)) {
        fails(IllegalStateException.class, "log filter on purpose",
            () -> RocksDB.open(filtering, path));
      }
      try (RocksDB db = RocksDB.open(options, path)) {
        check(db.get(bytes("a")) != null, "the write is missing");
      }
    }
  }

  /** A trace writer: the first records succeed, then it throws. */
  private static final class Recorder extends AbstractTraceWriter {
    private final List<byte[]> records = new ArrayList<>();
    private final RuntimeException unchecked;
    private final boolean fails;
    private boolean closed;

    Recorder(final boolean fails, final RuntimeException unchecked) {
      this.fails = fails;
      this.unchecked = unchecked;
    }

    @Override
    public void write(final Slice record) throws RocksDBException {
      records.add(record.data());
      if (records.size() > 1 && unchecked != null) {
        throw unchecked;
      }
      if (records.size() > 1 && fails) {
        throw new RocksDBException("trace", new Status(Status.Code.IOError, Status.SubCode.None, ""));
      }
    }

    @Override
    public void closeWriter() {
      closed = true;
    }

    @Override
    public long getFileSize() {
      return records.size() * 100L;
    }
  }

  /** Traces have their records in order, and a writer that throws fails no operation. */
  private static void traces(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         RocksDB db = RocksDB.open(options, path)) {
      fails(RocksDBException.class, "No trace file to close", db::endTrace);
      try (Recorder recorder = new Recorder(false, null)) {
        db.startTrace(new TraceOptions(), recorder);
        db.put(bytes("a"), bytes("1"));
        check(db.get(bytes("a")) != null, "the write is missing");
        db.endTrace();
        final StringBuilder kinds = new StringBuilder();
        for (final byte[] record : recorder.records) {
          kinds.append(record[8]).append(' ');
        }
        check(kinds.toString().equals("1 3 4 2 "), "the kinds of records are " + kinds);
        check(recorder.closed, "the writer was not closed");
      }
      try (Recorder recorder = new Recorder(false, null)) {
        db.startTrace(new TraceOptions(250), recorder);
        for (int n = 0; n < 10; n++) {
          db.put(bytes("a"), bytes("1"));
        }
        db.endTrace();
        check(recorder.records.size() == 4, "not limited: " + recorder.records.size());
      }
      for (final Recorder failing : new Recorder[] {
          new Recorder(true, null), new Recorder(false, new IllegalStateException("on purpose"))}) {
        try (Recorder recorder = failing) {
          db.startTrace(new TraceOptions(), recorder);
          db.put(bytes("b"), bytes("2"));
          check(db.get(bytes("b")) != null, "the write is missing");
          fails(RocksDBException.class, "the trace writer", db::endTrace);
          check(recorder.records.size() == 2 && recorder.closed, "records after a failure");
        }
      }
    }
  }

  /** Listeners and loggers cannot fail an operation: their exceptions are printed. */
  private static void exceptionsInListenersAndLoggers(final String path) throws Exception {
    final AtomicInteger calls = new AtomicInteger();
    try (AbstractEventListener listener = new AbstractEventListener() {
           @Override
           public void onFlushCompleted(final RocksDB db, final FlushJobInfo info) {
             calls.incrementAndGet();
             throw new IllegalStateException("listener on purpose");
           }
         };
         Logger logger = new Logger(InfoLogLevel.INFO_LEVEL) {
           @Override
           protected void log(final InfoLogLevel level, final String message) {
             calls.incrementAndGet();
             throw new IllegalStateException("logger on purpose");
           }
         };
         Options options = new Options()
                               .setCreateIfMissing(true)
                               .setListeners(Collections.singletonList(listener))
                               .setLogger(logger);
         RocksDB db = RocksDB.open(options, path)) {
      db.put(bytes("a"), bytes("1"));
      db.flush(new FlushOptions());
      check(calls.get() > 1, "nothing was called");
    }
  }

  /** Regression: the threads of the engine kept references to the exceptions of callbacks as long as they ran. */
  private static void exceptionsAreForgotten(final String path) throws Exception {
    final List<WeakReference<Throwable>> thrown = Collections.synchronizedList(new ArrayList<>());
    final Supplier<RuntimeException> fail = () -> {
      final RuntimeException exception = new IllegalStateException("on purpose");
      thrown.add(new WeakReference<>(exception));
      return exception;
    };
    try (AbstractEventListener listener = new AbstractEventListener() {
           @Override
           public void onFlushCompleted(final RocksDB db, final FlushJobInfo info) {
             throw fail.get();
           }
         };
         Logger logger = new Logger(InfoLogLevel.INFO_LEVEL) {
           @Override
           protected void log(final InfoLogLevel level, final String message) {
             throw fail.get();
           }
         };
         Options options = new Options()
                               .setCreateIfMissing(true)
                               .setDisableAutoCompactions(true)
                               .setListeners(Collections.singletonList(listener))
                               .setLogger(logger);
         RocksDB db = RocksDB.open(options, path)) {
      for (int n = 0; n < 5; n++) {
        db.put(bytes("a"), bytes("1"));
        db.flush(new FlushOptions());
      }
      check(thrown.size() > 10, "few exceptions: " + thrown.size());
      for (int n = 0; n < 200 && thrown.stream().anyMatch(one -> one.get() != null); n++) {
        System.gc();
        Thread.sleep(10);
      }
      final long kept = thrown.stream().filter(one -> one.get() != null).count();
      check(kept == 0, kept + " of " + thrown.size() + " exceptions are kept");
    }
  }

  private static void propertiesOfTables(final String path) throws Exception {
    try (Options options =
             new Options().setCreateIfMissing(true).setMergeOperator(new StringAppendOperator());
         RocksDB db = RocksDB.open(options, path)) {
      db.merge(bytes("a"), bytes("1"));
      db.delete(bytes("b"));
      db.flush(new FlushOptions());
      check(db.getPropertiesOfAllTables().size() == 1, "one table");
      for (final TableProperties table : db.getPropertiesOfAllTables().values()) {
        check(table.getFilterPolicyName() == null, "filter: " + table.getFilterPolicyName());
        // Regression: only properties of a program's collectors were returned.
        final Map<String, String> user = table.getUserCollectedProperties();
        check("\u0001".equals(user.get("rocksdb.deleted.keys")), "deletions: " + user);
        check("\u0001".equals(user.get("rocksdb.merge.operands")), "operands: " + user);
        check("".equals(user.get("rocksdb.block.based.table.index.type")), "index: " + user);
        check("1".equals(user.get("rocksdb.block.based.table.whole.key.filtering")),
            "filtering: " + user);
      }
    }
  }

  private static void twoDatabases(final String path) throws Exception {
    final List<String> flushed = Collections.synchronizedList(new ArrayList<>());
    try (AbstractEventListener listener = new AbstractEventListener() {
           @Override
           public void onFlushCompleted(final RocksDB db, final FlushJobInfo info) {
             try {
               flushed.add(new String(db.get(bytes("name"))));
             } catch (final RocksDBException e) {
               throw new IllegalStateException(e);
             }
           }
         };
         Options options = new Options()
                               .setCreateIfMissing(true)
                               .setListeners(Collections.singletonList(listener))) {
      try (RocksDB one = RocksDB.open(options, path + 1);
           RocksDB two = RocksDB.open(options, path + 2)) {
        one.put(bytes("name"), bytes("one"));
        two.put(bytes("name"), bytes("two"));
        two.flush(new FlushOptions());
        one.flush(new FlushOptions());
        check(flushed.equals(List.of("two", "one")), "the handles of listeners: " + flushed);
        fails(RocksDBException.class, "lock", () -> RocksDB.open(options, path + 1));
      }
      try (RocksDB one = RocksDB.open(options, path + 1)) {
        check(Arrays.equals(one.get(bytes("name")), bytes("one")), "the first database");
      }
    }
  }

  /** Flink cannot upload an empty file of a checkpoint; Kafka Streams lists the families of an absent database. */
  private static void checkpointsAndAbsentDatabases(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true)) {
      check(RocksDB.listColumnFamilies(options, path).isEmpty(), "families of an absent database");
      try (RocksDB db = RocksDB.open(options, path);
           WriteOptions unlogged = new WriteOptions().setDisableWAL(true);
           Checkpoint checkpoint = Checkpoint.create(db)) {
        db.put(unlogged, bytes("key"), bytes("unlogged"));
        checkpoint.createCheckpoint(path + ".first");
        db.put(bytes("key"), bytes("logged"));
        checkpoint.createCheckpoint(path + ".second");
      }
      for (final String name : List.of("first", "second")) {
        final String copy = path + "." + name;
        for (final File file : new File(copy).listFiles()) {
          check(file.length() > 0, file + " is empty");
        }
        try (RocksDB db = RocksDB.open(options, copy)) {
          final String expected = name.equals("first") ? "unlogged" : "logged";
          check(Arrays.equals(db.get(bytes("key")), bytes(expected)), "the value in " + name);
        }
      }
    }
  }

  /** Many keys are found in a secondary instance, which has no snapshots, as in its primary. */
  private static void manyKeysOfASecondary(final String path) throws Exception {
    final List<byte[]> keys = new ArrayList<>();
    for (int n = 0; n < 5000; n++) {
      keys.add(bytes("key" + n));
    }
    try (Options options = new Options().setCreateIfMissing(true).setMaxOpenFiles(-1);
         FlushOptions flush = new FlushOptions();
         RocksDB db = RocksDB.open(options, path)) {
      for (final byte[] key : keys) {
        db.put(key, key);
      }
      db.flush(flush);
      try (RocksDB secondary = RocksDB.openAsSecondary(options, path, path + ".secondary")) {
        for (final int count : new int[] {1, 4096, 4097, 5000}) {
          final List<byte[]> wanted = keys.subList(0, count);
          for (final RocksDB read : List.of(db, secondary)) {
            final List<byte[]> found = read.multiGetAsList(wanted);
            check(found.size() == count, "the number of values");
            for (int n = 0; n < count; n++) {
              check(Arrays.equals(found.get(n), wanted.get(n)), "key " + n + " of " + count);
            }
          }
        }
      }
    }
  }

  /** A database that RocksJava created below a path in modified UTF-8 is found. */
  private static void pathsInModifiedUtf8(final String path) throws Exception {
    final String smile = path + "\uD83D\uDE00";
    try (Options options = new Options().setCreateIfMissing(true)) {
      try (RocksDB db = RocksDB.open(options, path)) {
        db.put(bytes("key"), bytes("value"));
      }
      final int failed = new ProcessBuilder("sh", "-c",
          "mv \"$1\" \"$1$(printf '\\355\\240\\275\\355\\270\\200')\"", "sh", path)
                             .inheritIO()
                             .start()
                             .waitFor();
      check(failed == 0, "the directory is renamed");
      check(RocksDB.listColumnFamilies(options, smile).size() == 1, "its column families");
      try (RocksDB db = RocksDB.open(options, smile);
           Checkpoint checkpoint = Checkpoint.create(db)) {
        check(Arrays.equals(db.get(bytes("key")), bytes("value")), "its value");
        check(db.getName().endsWith("\uD83D\uDE00"), "its name");
        checkpoint.createCheckpoint(smile + "/copy");
      }
      try (RocksDB db = RocksDB.openReadOnly(options, smile + "/copy")) {
        check(Arrays.equals(db.get(bytes("key")), bytes("value")), "the value of the copy");
      }
      check(options.setWalDir(smile).walDir().equals(smile), "a directory of logs");
    }
  }

  /** The commit-time batch of a prepared transaction is written with its commit, and is lost with its rollback. */
  private static void commitTimeBatch(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         TransactionDBOptions locking = new TransactionDBOptions();
         WriteOptions write = new WriteOptions()) {
      try (TransactionDB db = TransactionDB.open(options, locking, path)) {
        for (final String name : List.of("commit", "rollback")) {
          try (Transaction txn = db.beginTransaction(write)) {
            txn.setName(name);
            txn.put(bytes("key"), bytes(name));
            txn.getCommitTimeWriteBatch().put(bytes("id"), bytes(name));
            txn.getCommitTimeWriteBatch().put(bytes("key"), bytes("before"));
            check(txn.getCommitTimeWriteBatch().count() == 2, "the batch has the writes");
            check(txn.getWriteBatch().count() == 1, "the transaction does not have them");
            if (name.equals("commit")) {
              fails(RocksDBException.class, "Commit-time batch", txn::commit);
            }
            txn.prepare();
            check(db.get(bytes("id")) == null || name.equals("rollback"), "a prepared write");
            if (name.equals("commit")) {
              txn.commit();
            } else {
              txn.rollback();
            }
            check(txn.getCommitTimeWriteBatch().count() == 0, "the batch after the end");
          }
        }
      }
      try (RocksDB db = RocksDB.open(options, path)) {
        check(Arrays.equals(db.get(bytes("id")), bytes("commit")), "the commit-time write");
        check(Arrays.equals(db.get(bytes("key")), bytes("commit")), "the transaction's write");
      }
    }
  }

  /** The batches and the write options of a transaction remain its own when it is begun again. */
  private static void transactionsBegunAgain(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         TransactionDBOptions locking = new TransactionDBOptions();
         TransactionDB db = TransactionDB.open(options, locking, path);
         WriteOptions write = new WriteOptions();
         WriteOptions synced = new WriteOptions().setSync(true);
         ReadOptions read = new ReadOptions();
         Transaction txn = db.beginTransaction(write)) {
      final WriteBatchWithIndex indexed = txn.getWriteBatch();
      final WriteBatch plain = indexed.getWriteBatch();
      final WriteBatch commitTime = txn.getCommitTimeWriteBatch();
      final WriteOptions current = txn.getWriteOptions();
      txn.put(bytes("a"), bytes("1"));
      commitTime.put(bytes("x"), bytes("1"));
      check(db.beginTransaction(synced, txn) == txn, "the same object");
      check(indexed.count() == 0 && plain.count() == 0, "the batch is empty");
      check(commitTime.count() == 0, "the commit-time batch is empty");
      check(current.sync(), "the new write options");
      txn.put(bytes("b"), bytes("2"));
      indexed.put(bytes("c"), bytes("3"));
      check(indexed.count() == 2 && plain.count() == 2, "the batch has the writes");
      check(Arrays.equals(txn.get(read, bytes("c")), bytes("3")), "the transaction has them");
      commitTime.put(bytes("y"), bytes("1"));
      txn.setName("left");
      txn.prepare();
      // The prepared transaction keeps its writes, which RocksJava discards.
      check(db.beginTransaction(write, txn) == txn, "the same object");
      check(indexed.count() == 0 && commitTime.count() == 0, "the batches after a prepare");
      txn.put(bytes("d"), bytes("4"));
      check(plain.count() == 1, "the batch of the new transaction");
      check(db.getTransactionByName("left") != null, "the prepared transaction");
      txn.commit();
      check(db.get(bytes("d")) != null && db.get(bytes("b")) == null, "the last transaction");
      check(db.get(bytes("a")) == null && db.get(bytes("x")) == null, "a discarded write");
    }
  }

  /** A transaction can be rebuilt from its own batch. */
  private static void rebuiltFromItsOwnBatch(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         TransactionDBOptions locking = new TransactionDBOptions();
         TransactionDB db = TransactionDB.open(options, locking, path);
         WriteOptions write = new WriteOptions();
         Transaction txn = db.beginTransaction(write)) {
      txn.put(bytes("a"), bytes("1"));
      txn.rebuildFromWriteBatch(txn.getWriteBatch().getWriteBatch());
      txn.commit();
      check(Arrays.equals(db.get(bytes("a")), bytes("1")), "the value");
    }
  }

  /** As in RocksJava, the delimiter of an operator is the low byte of a character. */
  private static void delimiters(final String path) throws Exception {
    for (final char delimiter : new char[] {0, 0x80, 0xFF, 0x20AC}) {
      try (StringAppendOperator operator = new StringAppendOperator(delimiter);
           Options options = new Options().setCreateIfMissing(true).setMergeOperator(operator);
           RocksDB db = RocksDB.open(options, path + "-" + (int) delimiter)) {
        db.merge(bytes("k"), bytes("a"));
        db.merge(bytes("k"), bytes("b"));
        check(Arrays.equals(db.get(bytes("k")), new byte[] {'a', (byte) delimiter, 'b'}),
            "the delimiter " + (int) delimiter);
      }
    }
  }

  /** As in RocksJava, strings are stored in modified UTF-8. */
  private static void modifiedUtf8(final String path) throws Exception {
    final String zero = "a\0b";
    final String smile = "\uD83D\uDE00";
    final byte[] zeroBytes = {'a', (byte) 0xC0, (byte) 0x80, 'b'};
    try (Slice slice = new Slice(zero); Slice other = new Slice(smile)) {
      check(Arrays.equals(slice.data(), zeroBytes), "the bytes of a zero");
      check(slice.toString().equals(zero), "the string with a zero");
      check(other.size() == 6 && other.toString().equals(smile), "two surrogates");
    }
    try (StringAppendOperator operator = new StringAppendOperator("\0");
         Options options = new Options().setCreateIfMissing(true).setMergeOperator(operator);
         TransactionDBOptions locking = new TransactionDBOptions();
         TransactionDB db = TransactionDB.open(options, locking, path);
         WriteOptions write = new WriteOptions();
         Transaction txn = db.beginTransaction(write)) {
      db.merge(bytes("k"), bytes("a"));
      db.merge(bytes("k"), bytes("b"));
      check(Arrays.equals(db.get(bytes("k")), zeroBytes), "the delimiter");
      txn.setName(zero + smile);
      check(txn.getName().equals(zero + smile), "the name of a transaction");
      check(db.getTransactionByName(zero + smile) != null, "the transaction of the name");
    }
  }

  /** A sum over column families counts a shared cache once, and wraps around as in RocksDB. */
  private static void aggregatedProperties(final String path) throws Exception {
    final long capacity = 8 << 20;
    try (Cache cache = new LRUCache(capacity);
         Options options = new Options().setCreateIfMissing(true).setTableFormatConfig(
             new BlockBasedTableConfig().setBlockCache(cache));
         ColumnFamilyOptions family = new ColumnFamilyOptions().setTableFormatConfig(
             new BlockBasedTableConfig().setBlockCache(cache));
         RocksDB db = RocksDB.open(options, path);
         ColumnFamilyHandle other =
             db.createColumnFamily(new ColumnFamilyDescriptor(bytes("other"), family))) {
      check(other.getID() == 1, "a second family");
      check(db.getAggregatedLongProperty("rocksdb.block-cache-capacity") == capacity,
          "the capacity of the cache");
      check(db.getAggregatedLongProperty("rocksdb.min-obsolete-sst-number-to-keep") == -2,
          "the sum of two numbers without limit");
      fails(RocksDBException.class, "", () -> db.getAggregatedLongProperty("rocksdb.unknown"));
    }
  }

  /** Properties with named parts are returned as maps; the others are not found. */
  private static void propertiesAsMaps(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         RocksDB db = RocksDB.open(options, path); FlushOptions flush = new FlushOptions()) {
      db.put(bytes("a"), bytes("1"));
      db.flush(flush);
      final Map<String, String> tables =
          db.getMapProperty("rocksdb.aggregated-table-properties");
      check("1".equals(tables.get("num_entries")), "the properties of tables: " + tables);
      final Map<String, String> family = db.getMapProperty("rocksdb.cfstats");
      check(family.containsKey("compaction.L0.NumFiles"), "the statistics: " + family);
      for (final String name : List.of("rocksdb.stats", "rocksdb.num-snapshots", "unknown")) {
        final RocksDBException absent =
            fails(RocksDBException.class, "", () -> db.getMapProperty(name));
        check(absent.getStatus().getCode() == Status.Code.NotFound, name);
      }
    }
  }

  /** The text of a histogram is RocksDB's. */
  private static void textsOfHistograms(final String path) throws Exception {
    try (Statistics statistics = new Statistics();
         Options options = new Options().setCreateIfMissing(true).setStatistics(statistics);
         RocksDB db = RocksDB.open(options, path)) {
      db.put(bytes("a"), bytes("123"));
      db.get(bytes("a"));
      final String text = statistics.getHistogramString(HistogramType.BYTES_PER_READ);
      final String expected =
          "Count: 1 Average: 3.0000  StdDev: 0.00\nMin: 3  Median: 3.0000  Max: 3\n"
          + "Percentiles: P50: 3.00 P75: 3.00 P99: 3.00 P99.9: 3.00 P99.99: 3.00\n"
          + "------------------------------------------------------\n"
          + "(       2,       3 ]        1 100.000% 100.000% ####################\n";
      check(expected.equals(text), text);
    }
  }

  /** Names of unknown operations are null, and every constant of the levels of a log is accepted. */
  private static void namesAndLevels(final String path) {
    check(ThreadStatus.getOperationName(OperationType.OP_UNKNOWN) == null, "an operation");
    check(ThreadStatus.getOperationStageName(OperationStage.STAGE_UNKNOWN) == null, "a stage");
    check(ThreadStatus.getStateName(StateType.STATE_UNKNOWN) == null, "a state");
    check(ThreadStatus.microsToString(0) == null, "no time");
    check("Flush".equals(ThreadStatus.getOperationName(OperationType.OP_FLUSH)), "a flush");
    check("5 us".equals(ThreadStatus.microsToString(5)), "five microseconds");
    try (Options options = new Options()) {
      for (final InfoLogLevel level : InfoLogLevel.values()) {
        options.setInfoLogLevel(level);
        check(level == InfoLogLevel.NUM_INFO_LOG_LEVELS || options.infoLogLevel() == level,
            level.toString());
      }
    }
  }

  private static ByteBuffer direct(final String text) {
    final ByteBuffer buffer = ByteBuffer.allocateDirect(text.length());
    buffer.put(bytes(text)).flip();
    return buffer;
  }

  private static String content(final DirectSlice slice) {
    final ByteBuffer data = slice.data();
    final byte[] copy = new byte[data.remaining()];
    data.get(copy);
    return new String(copy);
  }

  /** The length of a direct slice can be set to any value up to the end of its buffer, also to a larger one. */
  private static void lengthsOfDirectSlices(final String path) throws Exception {
    final ByteBuffer zeroed = ByteBuffer.allocateDirect(8);
    try (DirectSlice slice = new DirectSlice(zeroed)) {
      check(slice.size() == 0 && slice.empty(), "a buffer of zeros");
      zeroed.put(0, (byte) 'a').put(1, (byte) 'b');
      slice.setLength(2);
      check(content(slice).equals("ab"), "the length was set");
    }
    try (DirectSlice slice = new DirectSlice(direct("abcdef"), 4)) {
      slice.setLength(1);
      slice.setLength(6);
      check(content(slice).equals("abcdef"), "shorter and longer: " + content(slice));
      slice.removePrefix(2);
      check(content(slice).equals("cdef"), "without a prefix: " + content(slice));
      slice.setLength(1);
      slice.setLength(3);
      check(content(slice).equals("cde"), "longer after a prefix: " + content(slice));
      slice.setLength(100);
      check(content(slice).equals("cdef"), "not longer than the buffer: " + content(slice));
      slice.removePrefix(100);
      check(slice.empty(), "no more than all is removed");
    }
    try (WriteBatchWithIndex batch = new WriteBatchWithIndex()) {
      batch.put(bytes("abcd"), bytes("1"));
      try (WBWIRocksIterator iterator = batch.newIterator()) {
        iterator.seekToFirst();
        final DirectSlice key = iterator.entry().getKey();
        key.setLength(1);
        key.setLength(3);
        check(content(key).equals("abc"), "the key of a batch: " + content(key));
      }
    }
    try (DirectSlice slice = new DirectSlice(direct("abcd"), 2)) {
      slice.clear();
      slice.setLength(2);
      check(slice.empty(), "a cleared slice");
    }
    fails(ArrayIndexOutOfBoundsException.class, "", () -> new Slice(bytes("a"), Integer.MIN_VALUE));
    final ByteBuffer key = ByteBuffer.allocateDirect(16);
    final ByteBuffer value = ByteBuffer.allocateDirect(16);
    final String file = Files.createDirectories(Paths.get(path)).resolve("table.sst").toString();
    try (Options options = new Options(); EnvOptions env = new EnvOptions();
         SstFileWriter writer = new SstFileWriter(env, options);
         DirectSlice keySlice = new DirectSlice(key);
         DirectSlice valueSlice = new DirectSlice(value)) {
      writer.open(file);
      for (int n = 0; n < 20; n++) {
        final byte[] text = bytes(String.format("key%02d", n) + "x".repeat(n % 5));
        key.clear();
        key.put(text);
        keySlice.setLength(text.length);
        value.clear();
        value.put(bytes("v" + n));
        valueSlice.setLength(value.position());
        writer.put(keySlice, valueSlice);
      }
      writer.finish();
      try (SstFileReader reader = new SstFileReader(options); ReadOptions read = new ReadOptions()) {
        reader.open(file);
        try (SstFileReaderIterator iterator = reader.newIterator(read)) {
          iterator.seekToFirst();
          for (int n = 0; n < 20; n++) {
            final byte[] text = bytes(String.format("key%02d", n) + "x".repeat(n % 5));
            check(Arrays.equals(iterator.key(), text), "key " + n);
            check(Arrays.equals(iterator.value(), bytes("v" + n)), "value " + n);
            iterator.next();
          }
          check(!iterator.isValid(), "the last entry");
        }
      }
    }
  }

  private static String keys(final RocksIterator iterator) throws Exception {
    final StringBuilder keys = new StringBuilder();
    try (RocksIterator closed = iterator) {
      for (closed.seekToFirst(); closed.isValid(); closed.next()) {
        keys.append(new String(closed.key()));
      }
      closed.status();
    }
    return keys.toString();
  }

  /** Sets a bound in a buffer to which nothing else refers. */
  private static WeakReference<ByteBuffer> bounded(final ReadOptions read) {
    final ByteBuffer buffer = direct("b");
    try (DirectSlice slice = new DirectSlice(buffer, 1)) {
      read.setIterateUpperBound(slice);
    }
    return new WeakReference<>(buffer);
  }

  /** A buffer to which nothing else refers. */
  private static WeakReference<ByteBuffer> unreferenced() {
    return new WeakReference<>(direct("b"));
  }

  /** Collects garbage until a reference is cleared. */
  private static void collect(final WeakReference<ByteBuffer> reference) {
    final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
    while (reference.get() != null) {
      check(System.nanoTime() < end, "the buffer is never released");
      System.gc();
    }
  }

  /** An iterator takes its bounds from the content of the slices at the time of its creation. */
  private static void boundsOfReusedSlices(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         TransactionDBOptions locking = new TransactionDBOptions();
         WriteOptions write = new WriteOptions();
         TransactionDB db = TransactionDB.open(options, locking, path);
         Transaction transaction = db.beginTransaction(write);
         WriteBatchWithIndex batch = new WriteBatchWithIndex()) {
      for (final String key : "abcdefg".split("")) {
        db.put(bytes(key), bytes("v"));
      }
      final ColumnFamilyHandle family = db.getDefaultColumnFamily();
      final ByteBuffer buffer = direct("c");
      try (DirectSlice bound = new DirectSlice(buffer, 1);
           ReadOptions read = new ReadOptions().setIterateUpperBound(bound);
           ReadOptions copy = new ReadOptions(read)) {
        for (final String to : List.of("c", "e", "b")) {
          buffer.put(0, (byte) to.charAt(0));
          final String expected = "abcdefg".substring(0, to.charAt(0) - 'a');
          check(keys(db.newIterator(read)).equals(expected), "an iterator to " + to);
          check(keys(db.newIterator(copy)).equals(expected), "copied options to " + to);
          check(keys(db.newIterators(List.of(family), read).get(0)).equals(expected),
              "iterators to " + to);
          check(keys(transaction.getIterator(read)).equals(expected), "a transaction to " + to);
          check(keys(batch.newIteratorWithBase(family, db.newIterator(read), read)).equals(expected),
              "a batch to " + to);
        }
        check(db.get(read, bytes("g")) != null, "a bound of a lookup");
      }
      try (Slice bound = new Slice("xd");
           ReadOptions read = new ReadOptions().setIterateLowerBound(bound)) {
        check(keys(db.newIterator(read)).equals(""), "from xd");
        bound.removePrefix(1);
        check(keys(db.newIterator(read)).equals("defg"), "from d");
        bound.close();
        check(keys(db.newIterator(read)).equals("defg"), "the slice is closed");
      }
      final WeakReference<ByteBuffer> kept;
      try (ReadOptions read = new ReadOptions()) {
        kept = bounded(read);
        collect(unreferenced());
        check(kept.get() != null, "the options keep the buffer");
        check(keys(db.newIterator(read)).equals("a"), "a buffer without other references");
      }
      collect(kept);
    }
  }

  /** Another thread can read the key that a transaction waits for and the ids of the holders of its lock. */
  private static void waitingTransactions(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         TransactionDBOptions locking = new TransactionDBOptions();
         WriteOptions write = new WriteOptions();
         TransactionOptions patient = new TransactionOptions().setLockTimeout(60_000);
         TransactionDB db = TransactionDB.open(options, locking, path);
         Transaction holder = db.beginTransaction(write);
         Transaction waiter = db.beginTransaction(write, patient)) {
      holder.put(bytes("k"), bytes("1"));
      final long id = holder.getID();
      check(waiter.getWaitingTxns().getTransactionIds().length == 0, "it does not wait yet");
      final AtomicReference<Throwable> thrown = new AtomicReference<>();
      final Thread thread = new Thread(() -> {
        try {
          waiter.put(bytes("k"), bytes("2"));
        } catch (final Throwable error) {
          thrown.set(error);
        }
      });
      thread.start();
      final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(50);
      Transaction.WaitingTransactions waits = waiter.getWaitingTxns();
      while (waits.getTransactionIds().length == 0 && System.nanoTime() < end) {
        Thread.onSpinWait();
        waits = waiter.getWaitingTxns();
      }
      final long[] ids = waits.getTransactionIds();
      holder.rollback();
      thread.join();
      check(thrown.get() == null, "the wait ended with " + thrown.get());
      check(Arrays.equals(ids, new long[] {id}), "the holders " + Arrays.toString(ids));
      check(waits.getKey().equals("k") && waits.getColumnFamilyId() == 0, "the key " + waits.getKey());
      check(waiter.getWaitingTxns().getTransactionIds().length == 0, "it has the lock");
      // The lock of the last timeout is still reported.
      for (final long timeout : new long[] {0, 1}) {
        try (Transaction late = db.beginTransaction(write, new TransactionOptions().setLockTimeout(timeout))) {
          fails(RocksDBException.class, "locked by another transaction", () -> late.put(bytes("k"), bytes("3")));
          late.put(bytes("free"), bytes("3"));
          waits = late.getWaitingTxns();
          check(Arrays.equals(waits.getTransactionIds(), new long[] {waiter.getID()}), "the holder in time " + timeout);
          check(waits.getKey().equals("k") && waits.getColumnFamilyId() == 0, "the key " + waits.getKey());
        }
      }
      waiter.rollback();
    }
  }

  private static RocksDB openOfKind(final int kind, final Options options, final String path) throws Exception {
    switch (kind) {
      case 0:
        return RocksDB.open(options, path);
      case 1:
        return OptimisticTransactionDB.open(options, path);
      default:
        try (TransactionDBOptions locking = new TransactionDBOptions()) {
          return TransactionDB.open(options, locking, path);
        }
    }
  }

  /**
   * Regression: a change through a family of another database was accepted, and changed one of the two databases, depending
   * on the method and the kind of database.
   */
  private static void familiesOfAnotherDatabase(final String path) throws Exception {
    for (int kind = 0; kind < 3; kind++) {
      try (StringAppendOperator append = new StringAppendOperator('-');
           Options options = new Options().setCreateIfMissing(true).setMergeOperator(append);
           FlushOptions flush = new FlushOptions();
           CompactionOptions compaction = new CompactionOptions();
           IngestExternalFileOptions ingestion = new IngestExternalFileOptions();
           RocksDB a = openOfKind(kind, options, path + "a" + kind);
           RocksDB b = openOfKind(kind, options, path + "b" + kind)) {
        a.put(bytes("k"), bytes("a"));
        a.flush(flush);
        b.put(bytes("k"), bytes("b"));
        final ColumnFamilyHandle theirs = a.getDefaultColumnFamily();
        final long size = a.getOptions(theirs).writeBufferSize();
        final List<byte[]> all = Arrays.asList(bytes("a"), bytes("z"));
        final List<String> files = Arrays.asList("000008.sst");
        final Map<String, Call> calls = new java.util.LinkedHashMap<>();
        calls.put("put", () -> b.put(theirs, bytes("k"), bytes("x")));
        calls.put("merge", () -> b.merge(theirs, bytes("k"), bytes("x")));
        calls.put("delete", () -> b.delete(theirs, bytes("k")));
        calls.put("singleDelete", () -> b.singleDelete(theirs, bytes("k")));
        calls.put("deleteRange", () -> b.deleteRange(theirs, bytes("a"), bytes("z")));
        calls.put("setOptions", () -> b.setOptions(
            theirs, MutableColumnFamilyOptions.builder().setWriteBufferSize(size / 2).build()));
        calls.put("enableAutoCompaction", () -> b.enableAutoCompaction(Arrays.asList(theirs)));
        calls.put("flush", () -> b.flush(flush, theirs));
        calls.put("compactRange", () -> b.compactRange(theirs));
        calls.put("suggestCompactRange", () -> b.suggestCompactRange(theirs));
        calls.put("promoteL0", () -> b.promoteL0(theirs, 1));
        calls.put("compactFiles", () -> b.compactFiles(compaction, theirs, files, 1, -1, null));
        calls.put("deleteFilesInRanges", () -> b.deleteFilesInRanges(theirs, all, true));
        calls.put("ingestExternalFile", () -> b.ingestExternalFile(theirs, files, ingestion));
        for (final Map.Entry<String, Call> call : calls.entrySet()) {
          final String what = call.getKey() + " in a database of kind " + kind;
          try {
            fails(RocksDBException.class, "belongs to the database", call.getValue());
          } catch (final AssertionError error) {
            throw new AssertionError(what, error);
          }
          check(Arrays.equals(a.get(bytes("k")), bytes("a")), what + " changed the other one");
          check(Arrays.equals(b.get(bytes("k")), bytes("b")), what + " changed it");
        }
        check(a.getProperty("rocksdb.num-files-at-level0").equals("1"), "the table has moved");
        check(a.getOptions(theirs).writeBufferSize() == size, "the option has changed");
      }
    }
  }

  /** A comparator reports the kind of its buffers. */
  private static void kindsOfBuffers(final String path) {
    for (final boolean direct : new boolean[] {false, true}) {
      try (ComparatorOptions options = new ComparatorOptions().setUseDirectBuffer(direct);
           Fragile fragile = new Fragile(options)) {
        check(fragile.usingDirectBuffers() == direct, "the buffers are direct: " + direct);
      }
    }
  }

  /** The plain batch of an indexed one has the same writes. */
  private static void batchOfIndexedBatch(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         RocksDB db = RocksDB.open(options, path);
         WriteOptions write = new WriteOptions();
         ReadOptions read = new ReadOptions();
         WriteBatchWithIndex indexed = new WriteBatchWithIndex()) {
      indexed.put(bytes("a"), bytes("1"));
      final WriteBatch plain = indexed.getWriteBatch();
      check(plain.count() == 1 && plain.hasPut(), "the first write");
      plain.put(bytes("b"), bytes("2"));
      indexed.put(bytes("c"), bytes("3"));
      check(indexed.count() == 3 && plain.count() == 3, "writes of both");
      check(indexed.getFromBatch(new DBOptions(), bytes("b")) == null, "it is not indexed");
      check(Arrays.equals(indexed.getFromBatchAndDB(db, read, bytes("c")), bytes("3")), "c");
      final AtomicInteger puts = new AtomicInteger();
      try (WriteBatch.Handler handler = new PutCounter(puts)) {
        plain.iterate(handler);
      }
      check(puts.get() == 3, "puts: " + puts);
      indexed.getWriteBatch().clear();
      check(indexed.count() == 0, "a cleared batch");
      check(indexed.getFromBatch(new DBOptions(), bytes("a")) == null, "a cleared index");
      plain.put(bytes("d"), bytes("4"));
      db.write(write, plain);
      check(Arrays.equals(db.get(bytes("d")), bytes("4")), "the written batch");
    }
  }

  /** Counts puts. */
  private static class PutCounter extends WriteBatch.Handler {
    private final AtomicInteger puts;

    PutCounter(final AtomicInteger puts) {
      this.puts = puts;
    }

    @Override
    public void put(final int family, final byte[] key, final byte[] value) {
      puts.incrementAndGet();
    }

    @Override
    public void put(final byte[] key, final byte[] value) {
      puts.incrementAndGet();
    }

    @Override
    public void merge(final int family, final byte[] key, final byte[] value) {}

    @Override
    public void merge(final byte[] key, final byte[] value) {}

    @Override
    public void delete(final int family, final byte[] key) {}

    @Override
    public void delete(final byte[] key) {}

    @Override
    public void singleDelete(final int family, final byte[] key) {}

    @Override
    public void singleDelete(final byte[] key) {}

    @Override
    public void deleteRange(final int family, final byte[] begin, final byte[] end) {}

    @Override
    public void deleteRange(final byte[] begin, final byte[] end) {}

    @Override
    public void logData(final byte[] blob) {}

    @Override
    public void putBlobIndex(final int family, final byte[] key, final byte[] value) {}

    @Override
    public void markBeginPrepare() {}

    @Override
    public void markEndPrepare(final byte[] xid) {}

    @Override
    public void markNoop(final boolean emptyBatch) {}

    @Override
    public void markRollback(final byte[] xid) {}

    @Override
    public void markCommit(final byte[] xid) {}

    @Override
    public void markCommitWithTimestamp(final byte[] xid, final byte[] ts) {}
  }

  /** An iterator that cannot be the base of another one stays open, and belongs to its caller. */
  private static void rejectedBaseIterators(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         TransactionDBOptions locking = new TransactionDBOptions();
         TransactionDB db = TransactionDB.open(options, locking, path);
         WriteOptions write = new WriteOptions();
         ReadOptions read = new ReadOptions();
         WriteBatchWithIndex indexed = new WriteBatchWithIndex(true);
         Transaction txn = db.beginTransaction(write)) {
      txn.put(bytes("a"), bytes("1"));
      try (RocksIterator base = txn.getIterator(read)) {
        fails(RocksDBException.class, "must be an iterator of a column family",
            () -> indexed.newIteratorWithBase(db.getDefaultColumnFamily(), base));
        base.seekToFirst();
        check(Arrays.equals(base.key(), bytes("a")), "the rejected iterator");
      }
      db.put(bytes("b"), bytes("2"));
      indexed.put(bytes("c"), bytes("3"));
      try (RocksIterator both =
               indexed.newIteratorWithBase(db.getDefaultColumnFamily(), db.newIterator())) {
        both.seekToFirst();
        check(Arrays.equals(both.key(), bytes("b")), "the entry of the base");
        both.next();
        check(Arrays.equals(both.key(), bytes("c")), "the entry of the batch");
      }
    }
  }

  /** As in RocksJava, the methods with the id of a family are called for the default family, too. */
  private static void handlersGetTheDefaultFamily(final String path) throws Exception {
    final List<String> calls = new ArrayList<>();
    try (WriteBatch batch = new WriteBatch();
         WriteBatch.Handler handler = new PutCounter(new AtomicInteger()) {
           @Override
           public void put(final int family, final byte[] key, final byte[] value) {
             calls.add("put " + family);
           }

           @Override
           public void merge(final int family, final byte[] key, final byte[] value) {
             calls.add("merge " + family);
           }

           @Override
           public void delete(final int family, final byte[] key) {
             calls.add("delete " + family);
           }

           @Override
           public void singleDelete(final int family, final byte[] key) {
             calls.add("singleDelete " + family);
           }

           @Override
           public void deleteRange(final int family, final byte[] begin, final byte[] end) {
             calls.add("deleteRange " + family);
           }
         }) {
      batch.put(bytes("a"), bytes("1"));
      batch.merge(bytes("a"), bytes("2"));
      batch.delete(bytes("a"));
      batch.singleDelete(bytes("b"));
      batch.deleteRange(bytes("c"), bytes("d"));
      batch.iterate(handler);
    }
    check(calls.equals(List.of("put 0", "merge 0", "delete 0", "singleDelete 0", "deleteRange 0")),
        "the calls are " + calls);
  }

  /** As in RocksJava, a handler is asked before each record whether to continue. */
  private static void handlersAreAskedFirst(final String path) throws Exception {
    for (final int wanted : new int[] {0, 1}) {
      final AtomicInteger puts = new AtomicInteger();
      try (WriteBatch batch = new WriteBatch();
           WriteBatch.Handler handler = new PutCounter(puts) {
             @Override
             public boolean shouldContinue() {
               return puts.get() < wanted;
             }
           }) {
        batch.put(bytes("a"), bytes("1"));
        batch.put(bytes("b"), bytes("2"));
        batch.iterate(handler);
        check(puts.get() == wanted, puts + " puts instead of " + wanted);
      }
    }
  }

  /** A checkpoint is in the file system of its database. */
  private static void checkpointInMemory(final String path) throws Exception {
    try (Env memory = new RocksMemEnv(Env.getDefault());
         Options options = new Options().setCreateIfMissing(true).setEnv(memory)) {
      try (RocksDB db = RocksDB.open(options, path);
           Checkpoint checkpoint = Checkpoint.create(db)) {
        db.put(bytes("key"), bytes("value"));
        checkpoint.createCheckpoint(path + ".copy");
      }
      check(!new File(path + ".copy").exists(), "the operating system has no copy");
      try (Options existing = new Options().setEnv(memory);
           RocksDB db = RocksDB.open(existing, path + ".copy")) {
        check(Arrays.equals(db.get(bytes("key")), bytes("value")), "the value in the copy");
      }
    }
  }

  private static long snapshots(final RocksDB db) throws RocksDBException {
    return db.getLongProperty("rocksdb.num-snapshots");
  }

  /** A snapshot of a transaction lives as long as the transaction, or a save point of it, has it. */
  private static void snapshotsOfTransactions(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         TransactionDBOptions locking = new TransactionDBOptions();
         TransactionDB db = TransactionDB.open(options, locking, path);
         WriteOptions write = new WriteOptions();
         ReadOptions read = new ReadOptions()) {
      final AtomicInteger taken = new AtomicInteger();
      try (AbstractTransactionNotifier notifier = new AbstractTransactionNotifier() {
             @Override
             public void snapshotCreated(final Snapshot snapshot) {
               check(snapshot.getSequenceNumber() >= 0, "the snapshot is alive");
               taken.incrementAndGet();
             }
           }) {
        for (int n = 0; n < 5; n++) {
          try (Transaction txn = db.beginTransaction(write)) {
            txn.setSnapshotOnNextOperation(notifier);
            txn.put(bytes("key"), bytes("value" + n));
            check(snapshots(db) == 1, "the snapshot of the transaction");
            txn.commit();
          }
        }
        check(taken.get() == 5, "the notifier was called " + taken + " times");
        check(snapshots(db) == 0, "snapshots after the transactions: " + snapshots(db));
      }
      try (Transaction txn = db.beginTransaction(write)) {
        txn.setSnapshot();
        final Snapshot first = txn.getSnapshot();
        check(txn.getSnapshot().getNativeHandle() == first.getNativeHandle(), "one handle");
        txn.setSavePoint();
        db.put(bytes("other"), bytes("new"));
        txn.setSnapshot();
        check(txn.getSnapshot().getSequenceNumber() > first.getSequenceNumber(), "the second one");
        check(snapshots(db) == 2, "the snapshots of the transaction and of its save point");
        txn.rollbackToSavePoint();
        check(snapshots(db) == 1, "the second one is gone");
        check(db.get(read.setSnapshot(first), bytes("other")) == null, "a read at the first one");
        read.setSnapshot(null);
        txn.setSnapshotOnNextOperation();
        txn.put(bytes("key"), bytes("value"));
        check(snapshots(db) == 1, "the snapshot of the write has replaced the first one");
        txn.getSnapshot();
        txn.clearSnapshot();
        check(snapshots(db) == 0, "snapshots after clearSnapshot: " + snapshots(db));
      }
    }
  }

  private static Properties properties(final String... pairs) {
    final Properties all = new Properties();
    for (int n = 0; n < pairs.length; n += 2) {
      all.setProperty(pairs[n], pairs[n + 1]);
    }
    return all;
  }

  private static String optionsFile(final String path) throws Exception {
    final File[] files = new File(path).listFiles((dir, name) -> name.startsWith("OPTIONS-"));
    return Files.readString(files[files.length - 1].toPath());
  }

  /** Unknown options, and wrong values of known ones, are ignored. Options in braces are set. */
  private static void unknownOptions(final String path) throws Exception {
    try (ConfigOptions config = new ConfigOptions().setIgnoreUnknownOptions(true)) {
      final Properties family = properties("of_the_future", "{a=1;b=2}", "compression_opts",
          "{window_bits=-13;level=7;of_the_future=1;strategy=2}", "write_buffer_size", "1000000");
      try (ColumnFamilyOptions parsed =
               ColumnFamilyOptions.getColumnFamilyOptionsFromProps(config, family);
           DBOptions plain = new DBOptions().setCreateIfMissing(true);
           Options options = new Options(plain, parsed)) {
        check(parsed.writeBufferSize() == 1000000, "a number");
        RocksDB.open(options, path).close();
        // Java has no getter for members that were parsed.
        final String recorded = optionsFile(path);
        final int at = recorded.indexOf("  compression_opts={");
        final String members = recorded.substring(at, recorded.indexOf('}', at));
        check(members.contains("level=7;"), "a member of a structure: " + members);
        check(members.contains("strategy=2;"), "the last member: " + members);
      }
      check(ColumnFamilyOptions.getColumnFamilyOptionsFromProps(family) == null, "not ignored");
      family.setProperty("compression_opts", "{level=seven}");
      try (ColumnFamilyOptions parsed =
               ColumnFamilyOptions.getColumnFamilyOptionsFromProps(config, family)) {
        check(parsed.writeBufferSize() == 1000000, "beside a wrong value");
      }
      check(ColumnFamilyOptions.getColumnFamilyOptionsFromProps(family) == null, "a wrong value");
      final Properties db = properties("of_the_future", "1", "max_open_files", "99");
      try (DBOptions options = DBOptions.getDBOptionsFromProps(config, db)) {
        check(options.maxOpenFiles() == 99, "a number of the database");
      }
      db.setProperty("max_open_files", "many");
      try (DBOptions options = DBOptions.getDBOptionsFromProps(config, db)) {
        check(options.maxOpenFiles() == -1, "a wrong value");
      }
    }
  }

  /** The defaults of EnvOptions are those of the options of databases. */
  private static void defaultsOfFiles(final String path) throws Exception {
    try (EnvOptions plain = new EnvOptions(); DBOptions db = new DBOptions();
         EnvOptions derived = new EnvOptions(db)) {
      for (final EnvOptions options : List.of(plain, derived)) {
        check(!options.useMmapWrites() && !options.useMmapReads(), "memory maps");
        check(options.compactionReadaheadSize() == 2 << 20, "the readahead");
        check(options.allowFallocate() && options.setFdCloexec(), "flags");
        check(options.writableFileMaxBufferSize() == 1 << 20, "the buffer");
      }
      try (EnvOptions changed = new EnvOptions(db.setAllowFAllocate(false))) {
        check(!changed.allowFallocate(), "the flag of the database");
      }
    }
  }

  /** setIncreaseParallelism also sizes the thread pools of the environment. */
  private static void parallelism(final String path) {
    final Env env = Env.getDefault();
    try (Options options = new Options(); DBOptions db = new DBOptions()) {
      env.setBackgroundThreads(3, Priority.HIGH);
      options.setIncreaseParallelism(4);
      check(options.maxBackgroundJobs() == 4, "the jobs of Options");
      check(env.getBackgroundThreads(Priority.LOW) == 4, "compactions");
      check(env.getBackgroundThreads(Priority.HIGH) == 1, "flushes");
      db.setIncreaseParallelism(5);
      check(db.maxBackgroundJobs() == 5, "the jobs of DBOptions");
      check(env.getBackgroundThreads(Priority.LOW) == 5, "compactions of DBOptions");
    }
  }

  /** A limiter of compactions that two databases share. */
  private static void limitedCompactions(final String path) throws Exception {
    try (ConcurrentTaskLimiter limiter = new ConcurrentTaskLimiterImpl("both", 0);
         Options options = new Options().setCreateIfMissing(true)
                               .setLevel0FileNumCompactionTrigger(2)
                               .setCompactionThreadLimiter(limiter)) {
      try (RocksDB one = RocksDB.open(options, path + 1);
           RocksDB two = RocksDB.open(options, path + 2);
           FlushOptions flush = new FlushOptions()) {
        for (final RocksDB db : List.of(one, two)) {
          for (int n = 0; n < 3; n++) {
            db.put(bytes("key"), bytes("value" + n));
            db.flush(flush);
          }
        }
        Thread.sleep(100);
        check(level0(one) == 3 && level0(two) == 3, "no compaction has a token");
        limiter.setMaxOutstandingTask(1);
        final long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
        while (level0(one) > 1 || level0(two) > 1) {
          check(System.nanoTime() < end, "the compactions do not start");
          check(limiter.outstandingTask() <= 1, "the limit");
          Thread.sleep(5);
        }
      }
      check(limiter.outstandingTask() == 0, "no token is left");
    }
  }

  private static int level0(final RocksDB db) throws RocksDBException {
    return Integer.parseInt(db.getProperty("rocksdb.num-files-at-level0"));
  }

  /** Values that the setters accept and an opening rejects, and the log of backups. */
  private static void rejectedCodecsAndBackupLogs(final String path) throws Exception {
    for (final CompressionType kind : List.of(CompressionType.XPRESS_COMPRESSION,
             CompressionType.DISABLE_COMPRESSION_OPTION)) {
      try (Options options = new Options().setCreateIfMissing(true).setCompressionType(kind)) {
        final String name = kind == CompressionType.XPRESS_COMPRESSION ? "pression" : "kDisableCompressionOption";
        fails(RocksDBException.class, name, () -> RocksDB.open(options, path));
      }
    }
    final List<String> lines = Collections.synchronizedList(new ArrayList<>());
    try (Options options = new Options().setCreateIfMissing(true);
         Logger logger = new Logger(InfoLogLevel.INFO_LEVEL) {
           @Override
           protected void log(final InfoLogLevel level, final String message) {
             lines.add(message);
           }
         };
         BackupEngineOptions backups =
             new BackupEngineOptions(Files.createDirectories(Paths.get(path + "-backups")).toString())
                 .setInfoLog(logger);
         RocksDB db = RocksDB.open(options, path);
         BackupEngine engine = BackupEngine.open(Env.getDefault(), backups)) {
      db.put(bytes("key"), bytes("value"));
      engine.createNewBackup(db);
    }
    check(lines.stream().anyMatch(line -> line.contains("the creation of a backup succeeded")),
        "the log of backups: " + lines);
  }

  private static void compactFiles(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true).setDisableAutoCompactions(true);
         RocksDB db = RocksDB.open(options, path);
         FlushOptions flush = new FlushOptions();
         CompactionOptions compaction = new CompactionOptions()) {
      for (int i = 0; i < 3; i++) {
        db.put(bytes("key"), bytes("value" + i));
        db.flush(flush);
      }
      final List<String> files = new ArrayList<>();
      for (final LiveFileMetaData file : db.getLiveFilesMetaData()) {
        files.add(file.fileName());
      }
      check(files.size() == 3, "three files: " + files);
      db.compactFiles(compaction, files, 1, -1, null);
      check(db.getLiveFilesMetaData().size() == 1, "one file remains");
      check(Arrays.equals(db.get(bytes("key")), bytes("value2")), "the newest value");
    }
  }

  private static void informationAboutCompactions(final String path) throws Exception {
    final AtomicReference<String> seen = new AtomicReference<>();
    try (AbstractEventListener listener = new AbstractEventListener() {
           @Override
           public void onCompactionCompleted(final RocksDB db, final CompactionJobInfo info) {
             try (CompactionJobStats stats = info.stats()) {
               seen.set(info.compactionReason() + " " + info.inputFiles().size() + " "
                   + info.outputFiles().size() + " " + stats.numInputRecords() + " "
                   + stats.numOutputRecords() + " " + new String(info.columnFamilyName()) + " "
                   + info.status().getCode() + " " + stats.isManualCompaction());
             }
           }
         };
         Options options = new Options()
                               .setCreateIfMissing(true)
                               .setListeners(Collections.singletonList(listener));
         RocksDB db = RocksDB.open(options, path)) {
      for (int round = 0; round < 2; round++) {
        for (int n = 0; n < 10; n++) {
          db.put(bytes("k" + n), bytes("v"));
        }
        db.flush(new FlushOptions());
      }
      db.compactRange();
      check("kManualCompaction 2 1 20 10 default Ok true".equals(seen.get()), seen.get());
    }
  }

  /** Arguments on which RocksDB's library answers with an error, or has no effect. */
  private static void oddArguments(final String path) throws Exception {
    try (RateLimiter limiter = new RateLimiter(1000)) {
      limiter.request(-5);
      limiter.request(0);
    }
    try (WriteBatch batch = new WriteBatch()) {
      batch.setMaxBytes(20);
      batch.put(bytes("a"), bytes("b"));
      final RocksDBException full = fails(
          RocksDBException.class, "", () -> batch.put(bytes("a"), new byte[50]));
      check(full.getStatus().getSubCode() == Status.SubCode.MemoryLimit,
          "the subcode " + full.getStatus().getSubCode());
      check(batch.count() == 1, "the rejected write");
    }
    try (Options options = new Options().setCreateIfMissing(true);
         RocksDB db = RocksDB.open(options, path)) {
      db.put(bytes("a"), bytes("1"));
      fails(RocksDBException.class, "end key comes before start key",
          () -> db.deleteRange(bytes("b"), bytes("a")));
      db.deleteRange(bytes("a"), bytes("a"));
      check(db.get(bytes("a")) != null, "an empty range");
      // The engine's names are texts: another name is not changed, but rejected.
      fails(RocksDBException.class, "not UTF-8",
          () -> db.createColumnFamily(new ColumnFamilyDescriptor(new byte[] {(byte) 0xff, 1})));
      check(db.getLiveFiles(false).files.get(0).equals("/CURRENT"), "the order of live files");
    }
  }

  /**
   * Statistics forward their counts to the inner ones. getAndResetTickerCount resets the inner ticker too; reset does
   * not. Ignored histograms record no times.
   */
  private static void statisticsThatForward(final String path) throws Exception {
    final EnumSet<HistogramType> ignored = EnumSet.of(HistogramType.DB_GET, HistogramType.BYTES_PER_READ);
    try (Statistics inner = new Statistics();
         Statistics outer = new Statistics(ignored, inner);
         Options options = new Options().setCreateIfMissing(true).setStatistics(outer);
         RocksDB db = RocksDB.open(options, path)) {
      db.put(bytes("a"), bytes("1"));
      db.get(bytes("a"));
      for (final Statistics one : new Statistics[] {outer, inner}) {
        check(one.getTickerCount(TickerType.NUMBER_KEYS_READ) == 1, "a counted read");
        check(one.getHistogramData(HistogramType.DB_GET).getCount() == 0, "ignored times");
        check(one.getHistogramData(HistogramType.BYTES_PER_READ).getCount() == 1, "sizes");
        check(one.getHistogramData(HistogramType.DB_WRITE).getCount() == 1, "other times");
      }
      check(outer.getAndResetTickerCount(TickerType.NUMBER_KEYS_READ) == 1, "the taken count");
      check(inner.getTickerCount(TickerType.NUMBER_KEYS_READ) == 0, "the count taken from the other");
      outer.reset();
      check(outer.getHistogramData(HistogramType.BYTES_PER_READ).getCount() == 0, "a reset");
      check(inner.getHistogramData(HistogramType.BYTES_PER_READ).getCount() == 1, "no reset");
      outer.setStatsLevel(StatsLevel.ALL);
      check(inner.statsLevel() == StatsLevel.EXCEPT_DETAILED_TIMERS, "the level of the other");
    }
  }

  /** The methods of iterators declare no exception. Without an entry, moves have no effect, and key and value are empty. */
  private static void iteratorsWithoutEntry(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         RocksDB db = RocksDB.open(options, path)) {
      db.put(bytes("a"), bytes("1"));
      try (RocksIterator iterator = db.newIterator()) {
        iterator.next();
        iterator.prev();
        check(!iterator.isValid() && iterator.key().length == 0, "before the first seek");
        iterator.seekToLast();
        iterator.next();
        iterator.next();
        iterator.prev();
        final ByteBuffer buffer = ByteBuffer.allocateDirect(4);
        check(!iterator.isValid() && iterator.value().length == 0, "after the end");
        check(iterator.key(buffer) == 0 && buffer.limit() == 0, "the key in a buffer");
        iterator.status();
        iterator.seekToFirst();
        check(Arrays.equals(iterator.key(), bytes("a")), "a seek after the end");
      }
    }
  }

  /** Objects that outlive others, in an order that RocksJava's own tests avoid. */
  private static void closedInAnyOrder(final String path) throws Exception {
    final Options options = new Options().setCreateIfMissing(true).setStatistics(new Statistics());
    final LRUCache cache = new LRUCache(1 << 20);
    options.setTableFormatConfig(new BlockBasedTableConfig().setBlockCache(cache));
    final RocksDB db = RocksDB.open(options, path);
    options.close();
    cache.close();
    db.put(bytes("a"), bytes("1"));
    db.flush(new FlushOptions());
    final ReadOptions read = new ReadOptions();
    final Slice bound = new Slice("b");
    final RocksIterator iterator = db.newIterator(read.setIterateUpperBound(bound));
    read.close();
    bound.close();
    iterator.seekToFirst();
    check(Arrays.equals(iterator.key(), bytes("a")), "an iterator whose options are closed");
    final ColumnFamilyHandle family = db.createColumnFamily(new ColumnFamilyDescriptor(bytes("x")));
    final Snapshot snapshot = db.getSnapshot();
    final RocksIterator open = db.newIterator(family);
    db.dropColumnFamily(family);
    db.close();
    open.close();
    family.close();
    snapshot.close();
    iterator.close();
    try (Options again = new Options(); RocksDB other = RocksDB.open(again, path)) {
      check(other.get(bytes("a")) != null, "after all were closed");
    }
  }

  private static void negativeNumberOfBackups(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         RocksDB db = RocksDB.open(options, path);
         BackupEngineOptions engineOptions =
             new BackupEngineOptions(Files.createDirectories(Paths.get(path + "-backups")).toString());
         BackupEngine engine = BackupEngine.open(Env.getDefault(), engineOptions)) {
      engine.createNewBackup(db);
      engine.createNewBackup(db);
      engine.purgeOldBackups(-1);
      check(engine.getBackupInfo().size() == 2, "a negative number keeps all backups");
      engine.purgeOldBackups(1);
      check(engine.getBackupInfo().size() == 1, "one backup is kept");
    }
  }

  private static void closedWithASnapshot(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true)) {
      final RocksDB db = RocksDB.open(options, path);
      final Snapshot snapshot = db.getSnapshot();
      final RocksDBException aborted = fails(RocksDBException.class, "", db::closeE);
      check(aborted.getStatus().getCode() == Status.Code.Aborted, "an unreleased snapshot");
      snapshot.close();
      RocksDB.open(options, path).closeE();
    }
  }

  /** The resident memory that is not of files, in mebibytes. */
  private static long resident() throws Exception {
    for (final String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
      if (line.startsWith("RssAnon:")) {
        return Long.parseLong(line.replaceAll("[^0-9]", "")) >> 10;
      }
    }
    throw new IllegalStateException("the kernel states no RssAnon");
  }

  /** Fills the cache of a database of its own, and closes both. */
  private static void fillAndClose(final String path, final int cacheMib) throws Exception {
    final byte[] value = new byte[4096];
    try (LRUCache cache = new LRUCache((long) cacheMib << 20);
         Options options = new Options().setCreateIfMissing(true)) {
      options.setTableFormatConfig(new BlockBasedTableConfig().setBlockCache(cache));
      options.setMemTableConfig(new SkipListMemTableConfig());
      options.setCompressionType(CompressionType.NO_COMPRESSION);
      try (RocksDB db = RocksDB.open(options, path); FlushOptions flush = new FlushOptions()) {
        final byte[] key = new byte[2];
        for (int n = 0; n < cacheMib << 8; n++) {
          key[0] = (byte) (n >> 8);
          key[1] = (byte) n;
          db.put(key, value);
        }
        db.flush(flush);
        for (int n = 0; n < cacheMib << 8; n++) {
          key[0] = (byte) (n >> 8);
          key[1] = (byte) n;
          check(db.get(key, value) == value.length, "the length of a value");
        }
        check(cache.getUsage() > (long) cacheMib << 19, "the cache is full");
      }
    }
  }

  /** Nothing keeps the cache of a closed database: neither its options nor the configurations given to them. */
  private static void closedDatabasesFreeTheirCaches(final String path) throws Exception {
    final int cacheMib = 16;
    final int rounds = 6;
    fillAndClose(path, cacheMib);
    fillAndClose(path, cacheMib);
    final long before = resident();
    for (int round = 0; round < rounds; round++) {
      fillAndClose(path, cacheMib);
    }
    final long grown = resident() - before;
    check(grown < cacheMib * rounds / 2, "memory has grown by " + grown + " MiB");
  }

  /** Named transactions are found by their names and, when they are prepared, among all, with an object or without. */
  private static void namedTransactions(final String path) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         TransactionDBOptions locking = new TransactionDBOptions();
         WriteOptions write = new WriteOptions();
         TransactionDB db = TransactionDB.open(options, locking, path)) {
      check(db.getTransactionByName("a") == null, "no transaction yet");
      final Transaction first = db.beginTransaction(write);
      first.setName("a");
      check(db.getTransactionByName("a").getNativeHandle() == first.getNativeHandle(), "the same one");
      check(db.getAllPreparedTransactions().isEmpty(), "it is not prepared");
      first.put(bytes("key"), bytes("value"));
      first.prepare();
      check(db.getAllPreparedTransactions().get(0).getNativeHandle() == first.getNativeHandle(), "prepared");
      try (Transaction second = db.beginTransaction(write)) {
        second.setName("b");
        second.put(bytes("other"), bytes("value"));
        second.prepare();
      }
      final long lent = db.getTransactionByName("b").getNativeHandle();
      check(db.getTransactionByName("b").getNativeHandle() == lent, "lent once");
      check(db.getAllPreparedTransactions().size() == 2, "both");
      first.commit();
      check(db.getTransactionByName("a") == null, "it is committed");
      check(db.getAllPreparedTransactions().size() == 1, "the other one");
      first.close();
      try (Transaction third = db.beginTransaction(write)) {
        third.setName("a");
        check(db.getTransactionByName("a").getNativeHandle() == third.getNativeHandle(), "the name again");
      }
      check(db.getTransactionByName("a") == null, "it is closed");
    }
  }

  /** Prepares transactions in a new database, asks it for one and then for all, and closes it. */
  private static void lendAndClose(final String path, final int count) throws Exception {
    try (Options options = new Options().setCreateIfMissing(true);
         TransactionDBOptions locking = new TransactionDBOptions();
         WriteOptions write = new WriteOptions();
         TransactionDB db = TransactionDB.open(options, locking, path)) {
      for (int n = 0; n < count; n++) {
        try (Transaction txn = db.beginTransaction(write)) {
          txn.setName("lent " + n);
          txn.put(bytes("key " + n), bytes("value"));
          txn.prepare();
        }
      }
      check(db.getTransactionByName("lent 7") != null, "a transaction by its name");
      check(db.getAllPreparedTransactions().size() == count, "all of them");
    }
  }

  /** The transactions that a database lends, which Java does not close, end with the database. */
  private static void lentTransactionsEndWithTheDatabase(final String path) throws Exception {
    final int count = 10_000;
    final int rounds = 5;
    lendAndClose(path + "-a", count);
    lendAndClose(path + "-b", count);
    final long before = resident();
    for (int round = 0; round < rounds; round++) {
      lendAndClose(path + "-" + round, count);
    }
    // A transaction takes more than 3 KB, and the heap of Java grows, too.
    final long grown = resident() - before;
    check(grown < 80, "memory has grown by " + grown + " MiB");
  }

  /** Closed objects as arguments, which RocksJava does not check: the library throws. */
  private static void closedArguments(final String path) throws Exception {
    final WriteOptions write = new WriteOptions();
    final ReadOptions read = new ReadOptions();
    final WriteBatch batch = new WriteBatch();
    final LRUCache cache = new LRUCache(1 << 20);
    try (Options options = new Options().setCreateIfMissing(true);
         RocksDB db = RocksDB.open(options, path)) {
      final ColumnFamilyHandle family =
          db.createColumnFamily(new ColumnFamilyDescriptor(bytes("x")));
      for (final AutoCloseable object : List.of(write, read, batch, cache, family)) {
        object.close();
      }
      final byte[] key = bytes("a");
      fails(RocksDBException.class, "WriteOptions is closed", () -> db.put(write, key, key));
      fails(RocksDBException.class, "ReadOptions is closed", () -> db.get(read, key));
      fails(RocksDBException.class, "ColumnFamilyHandle is closed", () -> db.put(family, key, key));
      fails(RocksDBException.class, "WriteBatch is closed",
          () -> db.write(new WriteOptions(), batch));
      fails(RocksDBException.class, "Cache is closed", () -> {
        final BlockBasedTableConfig config = new BlockBasedTableConfig().setBlockCache(cache);
        try (Options other = new Options().setTableFormatConfig(config)) {
          check(false, "the cache is not used");
        }
      });
    }
  }

  /** Runs in a class loader of its own, which has its own classes of RocksJava. */
  public static final class Tenant {
    public static String use(final String path, final String key) throws Exception {
      RocksDB.loadLibrary();
      final AtomicInteger flushes = new AtomicInteger();
      try (AbstractEventListener listener = new AbstractEventListener() {
             @Override
             public void onFlushCompleted(final RocksDB db, final FlushJobInfo info) {
               flushes.incrementAndGet();
             }
           };
           Options options = new Options()
                                 .setCreateIfMissing(true)
                                 .setListeners(Collections.singletonList(listener));
           RocksDB db = RocksDB.open(options, path)) {
        db.put(bytes(key), bytes("1"));
        // The flush runs on a thread that has no class loader.
        db.flush(new FlushOptions());
        if (flushes.get() == 0) {
          throw new AssertionError("the listener was not called");
        }
        int count = 0;
        try (RocksIterator iterator = db.newIterator()) {
          for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
            count++;
          }
        }
        return Tenant.class.getClassLoader().getClass().getSimpleName() + " " + count;
      }
    }
  }

  private static URL[] classPath(final String... before) throws Exception {
    final List<URL> urls = new ArrayList<>();
    for (final String entry : before) {
      urls.add(new File(entry).toURI().toURL());
    }
    for (final String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
      urls.add(new File(entry).toURI().toURL());
    }
    return urls.toArray(new URL[0]);
  }

  private static ClassLoader platform() {
    return ClassLoader.getSystemClassLoader().getParent();
  }

  private static String tenant(final String path, final String key) throws Exception {
    try (URLClassLoader loader = new URLClassLoader(classPath(), platform())) {
      final Class<?> tenant = loader.loadClass("Behaviour$Tenant");
      final Method use = tenant.getMethod("use", String.class, String.class);
      return (String) use.invoke(null, path, key);
    }
  }

  /** Fails if the library of a jar is loaded, which RocksJava falls back on. */
  private static void checkLibraries() throws Exception {
    final String ours = new File(System.getProperty("java.library.path")).getCanonicalPath();
    for (final String line : Files.readAllLines(Paths.get("/proc/self/maps"))) {
      check(!line.contains("librocksdbjni") || line.contains(ours), line);
    }
  }

  /**
   * This loader has one of the two names of the library, so that each of the others gets the other one only if the loader
   * before it was collected.
   */
  private static void classLoadersThatAreThrownAway(final String path) throws Exception {
    for (int n = 1; n <= 4; n++) {
      check(tenant(path, "key" + n).equals("URLClassLoader " + n), "tenant " + n);
      for (int round = 0; round < 5; round++) {
        System.gc();
        Thread.sleep(20);
      }
      checkLibraries();
    }
  }

  private static void otherVersion(final String path) throws Exception {
    final String other = System.getProperty("other.classes");
    try (URLClassLoader loader = new URLClassLoader(classPath(other), platform())) {
      final Class<?> rocksdb = loader.loadClass("org.rocksdb.RocksDB");
      final Method load = rocksdb.getMethod("loadLibrary");
      fails(IllegalStateException.class, "org.rocksdb:rocksdbjni:6.29 to 11.8", () -> {
        try {
          load.invoke(null);
        } catch (final java.lang.reflect.InvocationTargetException e) {
          throw (Exception) e.getCause();
        }
      });
    }
    System.gc();
    checkLibraries();
  }

  /** The process that exits: it leaves its databases open. */
  private static void exit(final String path, final String how) throws Exception {
    final AbstractEventListener listener = new AbstractEventListener() {
      @Override
      public void onTableFileCreated(final TableFileCreationInfo info) {}
    };
    final Options options = new Options()
                                .setCreateIfMissing(true)
                                .setWriteBufferSize(64 << 10)
                                .setListeners(Collections.singletonList(listener));
    final RocksDB db = RocksDB.open(options, path + "exit1");
    final RocksDB other = RocksDB.open(options, path + "exit2");
    final RocksIterator iterator = other.newIterator();
    for (int n = 0; n < 20_000; n++) {
      db.put(bytes("key" + n), new byte[100]);
    }
    other.put(bytes("last"), bytes("1"));
    iterator.seekToFirst();
    if (how.equals("halt")) {
      Runtime.getRuntime().halt(7);
    }
    System.exit(7);
  }

  private static void exitWithOpenDatabases(final String path) throws Exception {
    for (final String how : new String[] {"exit", "halt"}) {
      final Process child =
          new ProcessBuilder(System.getProperty("java.home") + "/bin/java", "-Xmx200m",
              "-Djava.library.path=" + System.getProperty("java.library.path"), "-cp",
              System.getProperty("java.class.path"), "Behaviour", "child", path + how, how)
              .inheritIO()
              .start();
      check(child.waitFor(120, TimeUnit.SECONDS), "the process hangs");
      check(child.exitValue() == 7, "exit code " + child.exitValue());
      try (Options options = new Options();
           RocksDB db = RocksDB.open(options, path + how + "exit1");
           RocksDB other = RocksDB.open(options, path + how + "exit2")) {
        for (int n = 0; n < 20_000; n++) {
          check(db.get(bytes("key" + n)) != null, "key" + n + " is missing");
        }
        check(other.get(bytes("last")) != null, "a write is missing");
      }
    }
  }

  public static void main(final String[] arguments) throws Exception {
    RocksDB.loadLibrary();
    if (arguments[0].equals("child")) {
      exit(arguments[1], arguments[2]);
    }
    scratch = Paths.get(arguments[0]);
    final Map<String, Case> cases = new java.util.LinkedHashMap<>();
    cases.put("exceptionsInComparators", Behaviour::exceptionsInComparators);
    cases.put("exceptionInComparatorOfCompaction", Behaviour::exceptionInComparatorOfCompaction);
    cases.put("exceptionInFactoryOfFilters", Behaviour::exceptionInFactoryOfFilters);
    cases.put("exceptionInTableFilter", Behaviour::exceptionInTableFilter);
    cases.put("exceptionInHandler", Behaviour::exceptionInHandler);
    cases.put("exceptionInWalFilter", Behaviour::exceptionInWalFilter);
    cases.put("traces", Behaviour::traces);
    cases.put("exceptionsInListenersAndLoggers", Behaviour::exceptionsInListenersAndLoggers);
    cases.put("exceptionsAreForgotten", Behaviour::exceptionsAreForgotten);
    cases.put("propertiesOfTables", Behaviour::propertiesOfTables);
    cases.put("twoDatabases", Behaviour::twoDatabases);
    cases.put("checkpointsAndAbsentDatabases", Behaviour::checkpointsAndAbsentDatabases);
    cases.put("manyKeysOfASecondary", Behaviour::manyKeysOfASecondary);
    cases.put("pathsInModifiedUtf8", Behaviour::pathsInModifiedUtf8);
    cases.put("commitTimeBatch", Behaviour::commitTimeBatch);
    cases.put("transactionsBegunAgain", Behaviour::transactionsBegunAgain);
    cases.put("rebuiltFromItsOwnBatch", Behaviour::rebuiltFromItsOwnBatch);
    cases.put("delimiters", Behaviour::delimiters);
    cases.put("modifiedUtf8", Behaviour::modifiedUtf8);
    cases.put("aggregatedProperties", Behaviour::aggregatedProperties);
    cases.put("propertiesAsMaps", Behaviour::propertiesAsMaps);
    cases.put("textsOfHistograms", Behaviour::textsOfHistograms);
    cases.put("namesAndLevels", Behaviour::namesAndLevels);
    cases.put("lengthsOfDirectSlices", Behaviour::lengthsOfDirectSlices);
    cases.put("boundsOfReusedSlices", Behaviour::boundsOfReusedSlices);
    cases.put("waitingTransactions", Behaviour::waitingTransactions);
    cases.put("familiesOfAnotherDatabase", Behaviour::familiesOfAnotherDatabase);
    cases.put("kindsOfBuffers", Behaviour::kindsOfBuffers);
    cases.put("batchOfIndexedBatch", Behaviour::batchOfIndexedBatch);
    cases.put("rejectedBaseIterators", Behaviour::rejectedBaseIterators);
    cases.put("handlersGetTheDefaultFamily", Behaviour::handlersGetTheDefaultFamily);
    cases.put("handlersAreAskedFirst", Behaviour::handlersAreAskedFirst);
    cases.put("checkpointInMemory", Behaviour::checkpointInMemory);
    cases.put("snapshotsOfTransactions", Behaviour::snapshotsOfTransactions);
    cases.put("unknownOptions", Behaviour::unknownOptions);
    cases.put("defaultsOfFiles", Behaviour::defaultsOfFiles);
    cases.put("parallelism", Behaviour::parallelism);
    cases.put("limitedCompactions", Behaviour::limitedCompactions);
    cases.put("rejectedCodecsAndBackupLogs", Behaviour::rejectedCodecsAndBackupLogs);
    cases.put("compactFiles", Behaviour::compactFiles);
    cases.put("informationAboutCompactions", Behaviour::informationAboutCompactions);
    cases.put("oddArguments", Behaviour::oddArguments);
    cases.put("statisticsThatForward", Behaviour::statisticsThatForward);
    cases.put("iteratorsWithoutEntry", Behaviour::iteratorsWithoutEntry);
    cases.put("closedInAnyOrder", Behaviour::closedInAnyOrder);
    cases.put("negativeNumberOfBackups", Behaviour::negativeNumberOfBackups);
    cases.put("closedWithASnapshot", Behaviour::closedWithASnapshot);
    cases.put("closedDatabasesFreeTheirCaches", Behaviour::closedDatabasesFreeTheirCaches);
    cases.put("namedTransactions", Behaviour::namedTransactions);
    cases.put("lentTransactionsEndWithTheDatabase", Behaviour::lentTransactionsEndWithTheDatabase);
    cases.put("closedArguments", Behaviour::closedArguments);
    cases.put("classLoadersThatAreThrownAway", Behaviour::classLoadersThatAreThrownAway);
    cases.put("otherVersion", Behaviour::otherVersion);
    cases.put("exitWithOpenDatabases", Behaviour::exitWithOpenDatabases);
    int failed = 0;
    for (final Map.Entry<String, Case> entry : cases.entrySet()) {
      try {
        entry.getValue().run(scratch.resolve(entry.getKey()).toString());
      } catch (final Throwable thrown) {
        failed++;
        System.out.println(entry.getKey() + " failed:");
        thrown.printStackTrace(System.out);
      }
    }
    // In the form of JUnit.
    System.out.println(failed == 0 ? "OK (" + cases.size() + " tests)"
                                   : "Tests run: " + cases.size() + ",  Failures: " + failed);
    System.exit(failed == 0 ? 0 : 1);
  }
}
