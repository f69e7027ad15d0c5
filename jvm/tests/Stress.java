import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.rocksdb.*;

/**
 * Calls the library a given number of times, in both directions, and fails if memory grows. Run by `cargo xtask jni
 * stress` with -Xcheck:jni, whose warnings also fail it.
 *
 * A call is a native method that Java calls, or a method of Java that the library calls.
 */
public final class Stress {
  private static final int KEYS = 50_000;
  private static final int THREADS = 2;
  /** Growth of resident memory between the first quarter and the end of the run that fails it. */
  private static final long GROWTH_LIMIT_MB = 64;

  private static final AtomicLong CALLS = new AtomicLong();

  /** Counts its calls in the fields of the thread, and adds them to the total from time to time. */
  private static final ThreadLocal<long[]> LOCAL = ThreadLocal.withInitial(() -> new long[1]);

  private static void called(final long count) {
    final long[] local = LOCAL.get();
    local[0] += count;
    if (local[0] >= 10_000) {
      CALLS.addAndGet(local[0]);
      local[0] = 0;
    }
  }

  private static byte[] key(final int number) {
    return String.format("key%013d", number).getBytes(StandardCharsets.US_ASCII);
  }

  private static final class Reversed extends AbstractComparator {
    Reversed(final ComparatorOptions options) {
      super(options);
    }

    @Override
    public String name() {
      return "stress.Reversed";
    }

    @Override
    public int compare(final ByteBuffer a, final ByteBuffer b) {
      called(1);
      return b.compareTo(a);
    }
  }

  private static final class Listener extends AbstractEventListener {
    @Override
    public void onFlushCompleted(final RocksDB db, final FlushJobInfo info) {
      called(1);
      try {
        db.get(key(1));
      } catch (final RocksDBException e) {
        throw new IllegalStateException(e);
      }
    }

    @Override
    public void onCompactionCompleted(final RocksDB db, final CompactionJobInfo info) {
      called(1);
      info.inputFiles();
      try (CompactionJobStats stats = info.stats()) {
        stats.numInputRecords();
      }
    }

    @Override
    public void onTableFileCreated(final TableFileCreationInfo info) {
      called(1);
    }
  }

  private static final class Handler extends WriteBatch.Handler {
    @Override
    public void put(final int family, final byte[] key, final byte[] value) {
      called(1);
    }

    @Override
    public void put(final byte[] key, final byte[] value) {
      called(1);
    }

    @Override
    public void merge(final int family, final byte[] key, final byte[] value) {}

    @Override
    public void merge(final byte[] key, final byte[] value) {}

    @Override
    public void delete(final int family, final byte[] key) {}

    @Override
    public void delete(final byte[] key) {
      called(1);
    }

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

  private static void round(final RocksDB db, final ColumnFamilyHandle ordered, final Random random,
      final ByteBuffer keyBuffer, final ByteBuffer valueBuffer, final WriteOptions write,
      final ReadOptions read, final Handler handler) throws RocksDBException {
    final int at = random.nextInt(KEYS);
    final byte[] key = key(at);
    for (int n = 0; n < 20; n++) {
      db.get(key(random.nextInt(KEYS)));
    }
    for (int n = 0; n < 5; n++) {
      db.put(write, key(random.nextInt(KEYS)), new byte[100]);
    }
    keyBuffer.clear();
    keyBuffer.put(key).flip();
    valueBuffer.clear();
    db.get(read, keyBuffer, valueBuffer);
    keyBuffer.rewind();
    valueBuffer.clear();
    valueBuffer.limit(100);
    db.put(write, keyBuffer, valueBuffer);
    called(27);
    try (RocksIterator iterator = db.newIterator(read)) {
      iterator.seek(key);
      int steps = 0;
      while (iterator.isValid() && steps < 10) {
        iterator.key();
        iterator.value();
        iterator.next();
        steps++;
      }
      iterator.status();
      called(5 + 4 * steps);
    }
    final List<byte[]> keys = new ArrayList<>();
    for (int n = 0; n < 8; n++) {
      keys.add(key(random.nextInt(KEYS)));
    }
    db.multiGetAsList(keys);
    called(1);
    try (WriteBatch batch = new WriteBatch()) {
      for (int n = 0; n < 8; n++) {
        batch.put(key(random.nextInt(KEYS)), key);
      }
      batch.delete(key);
      batch.iterate(handler);
      db.write(write, batch);
      called(12);
    }
    db.put(ordered, write, key, key);
    db.get(ordered, key(random.nextInt(KEYS)));
    try (RocksIterator iterator = db.newIterator(ordered)) {
      iterator.seek(key);
      iterator.isValid();
      called(6);
    }
    try (Snapshot snapshot = db.getSnapshot();
         ReadOptions options = new ReadOptions().setSnapshot(snapshot)) {
      db.get(options, key);
      called(6);
      db.releaseSnapshot(snapshot);
    }
    try {
      db.getProperty("no such property");
    } catch (final RocksDBException expected) {
      called(2);
    }
  }

  private static long residentMb() throws Exception {
    for (final String line : Files.readAllLines(Paths.get("/proc/self/status"))) {
      if (line.startsWith("VmRSS:")) {
        return Long.parseLong(line.replaceAll("[^0-9]", "")) / 1024;
      }
    }
    throw new IllegalStateException("no VmRSS");
  }

  private static void work(final RocksDB db, final ColumnFamilyHandle ordered, final int seed,
      final long goal) throws RocksDBException {
    final Random random = new Random(seed);
    final ByteBuffer keyBuffer = ByteBuffer.allocateDirect(64);
    final ByteBuffer valueBuffer = ByteBuffer.allocateDirect(200);
    try (WriteOptions write = new WriteOptions(); ReadOptions read = new ReadOptions();
         Handler handler = new Handler()) {
      while (CALLS.get() < goal) {
        for (int n = 0; n < 100; n++) {
          round(db, ordered, random, keyBuffer, valueBuffer, write, read, handler);
        }
      }
    }
  }

  public static void main(final String[] arguments) throws Exception {
    final Path path = Paths.get(arguments[0]);
    final long goal = Long.parseLong(arguments[1]);
    final long seconds = Long.parseLong(arguments[2]);
    RocksDB.loadLibrary();
    final AtomicReference<Throwable> failure = new AtomicReference<>();
    final long start = System.nanoTime();
    long early = 0;
    long last = 0;
    try (Listener listener = new Listener(); ComparatorOptions order = new ComparatorOptions();
         Reversed reversed = new Reversed(order);
         DBOptions options = new DBOptions()
                                 .setCreateIfMissing(true)
                                 .setCreateMissingColumnFamilies(true)
                                 .setListeners(Collections.singletonList(listener));
         ColumnFamilyOptions plain = new ColumnFamilyOptions().setWriteBufferSize(4 << 20);
         ColumnFamilyOptions custom =
             new ColumnFamilyOptions().setWriteBufferSize(1 << 20).setComparator(reversed)) {
      final List<ColumnFamilyHandle> families = new ArrayList<>();
      try (RocksDB db = RocksDB.open(options, path.toString(),
               List.of(new ColumnFamilyDescriptor(RocksDB.DEFAULT_COLUMN_FAMILY, plain),
                   new ColumnFamilyDescriptor("ordered".getBytes(), custom)),
               families)) {
        final List<Thread> threads = new ArrayList<>();
        for (int n = 0; n < THREADS; n++) {
          final int seed = n;
          final Thread thread = new Thread(() -> {
            try {
              work(db, families.get(1), seed, goal);
            } catch (final Throwable thrown) {
              failure.set(thrown);
            }
          });
          thread.start();
          threads.add(thread);
        }
        long shown = 0;
        while (threads.stream().anyMatch(Thread::isAlive)) {
          Thread.sleep(1_000);
          final long calls = CALLS.get();
          last = residentMb();
          final long elapsed = (System.nanoTime() - start) / 1_000_000_000L;
          if (calls <= goal / 4 && elapsed <= seconds / 4) {
            early = Math.max(early, last);
          }
          if (elapsed >= shown + 20) {
            shown = elapsed;
            System.out.println(elapsed + " s: " + calls + " calls, " + last + " MB");
          }
          if (elapsed >= seconds) {
            // The threads see the goal as reached.
            CALLS.addAndGet(goal);
            for (final Thread thread : threads) {
              thread.join();
            }
            CALLS.addAndGet(-goal);
          }
        }
        for (final ColumnFamilyHandle family : families) {
          family.close();
        }
      }
    }
    final long elapsed = (System.nanoTime() - start) / 1_000_000_000L;
    System.out.println(CALLS.get() + " calls in " + elapsed + " s; resident memory: " + early
        + " MB in the first quarter, " + last + " MB at the end");
    if (failure.get() != null) {
      failure.get().printStackTrace();
      System.exit(1);
    }
    if (early > 0 && last > early + GROWTH_LIMIT_MB) {
      System.out.println("resident memory grows");
      System.exit(1);
    }
  }
}
