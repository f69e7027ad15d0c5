package cairn.bench;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.infra.Blackhole;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.BloomFilter;
import org.rocksdb.FlushOptions;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.ReadOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksDBException;
import org.rocksdb.RocksIterator;
import org.rocksdb.WriteBatch;
import org.rocksdb.WriteOptions;

/** Operations of RocksJava on a database of 16-byte keys and 100-byte values, whose blocks are cached. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Operations {
    private static final int KEYS = 200_000;
    private static final int VALUE_BYTES = 100;
    private static final int BATCH = 100;
    private static final int MULTI_GET = 32;
    private static final int SCAN = 10_000;

    private final SplittableRandom random = new SplittableRandom(7);
    private final byte[] key = new byte[16];
    private final byte[] into = new byte[VALUE_BYTES];
    private final byte[] value = new byte[VALUE_BYTES];
    private final ByteBuffer directKey = ByteBuffer.allocateDirect(16);
    private final ByteBuffer directValue = ByteBuffer.allocateDirect(VALUE_BYTES);
    private final List<byte[]> keys = new ArrayList<>();
    private Path folder;
    private Options options;
    private ReadOptions readOptions;
    private WriteOptions writeOptions;
    private WriteBatch batch;
    private RocksDB db;
    private RocksDB empty;
    private RocksIterator iterator;

    @Setup(Level.Trial)
    public void open() throws IOException, RocksDBException {
        RocksDB.loadLibrary();
        folder = Files.createTempDirectory("jvm-bench");
        BlockBasedTableConfig table = new BlockBasedTableConfig()
                .setBlockCache(new LRUCache(256 << 20)).setFilterPolicy(new BloomFilter(10));
        options = new Options().setCreateIfMissing(true).setTableFormatConfig(table);
        readOptions = new ReadOptions();
        writeOptions = new WriteOptions();
        batch = new WriteBatch();
        db = RocksDB.open(options, folder.toString());
        empty = RocksDB.open(options, folder.resolve("empty").toString());
        for (int at = 0; at < MULTI_GET; at++) {
            keys.add(new byte[16]);
        }
        random.nextBytes(value);
        for (int number = 0; number < KEYS; number += BATCH) {
            batch.clear();
            for (int at = number; at < number + BATCH; at++) {
                fill(key, at);
                batch.put(key, value);
            }
            db.write(writeOptions, batch);
        }
        db.flush(new FlushOptions());
        db.compactRange();
        iterator = db.newIterator(readOptions);
        // Every block is in the cache afterwards.
        for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
            if (iterator.value().length != VALUE_BYTES) {
                throw new IllegalStateException("a value has another length");
            }
        }
    }

    @TearDown(Level.Trial)
    public void close() throws IOException {
        iterator.close();
        db.close();
        empty.close();
        batch.close();
        readOptions.close();
        writeOptions.close();
        options.close();
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        }
    }

    private static void fill(byte[] key, long number) {
        ByteBuffer.wrap(key).putLong(number).putLong(number * 0x9e3779b97f4a7c15L);
    }

    private byte[] next() {
        fill(key, random.nextInt(KEYS));
        return key;
    }

    /** A native method that reads a field: the cost of the call itself. */
    @Benchmark
    public boolean emptyCall() {
        return readOptions.verifyChecksums();
    }

    /** A call with a key, for which the engine does next to nothing. */
    @Benchmark
    public byte[] getFromEmpty() throws RocksDBException {
        return empty.get(next());
    }

    @Benchmark
    public byte[] get() throws RocksDBException {
        return db.get(next());
    }

    @Benchmark
    public int getIntoArray() throws RocksDBException {
        return db.get(next(), into);
    }

    @Benchmark
    public int getDirect() throws RocksDBException {
        directKey.clear();
        directKey.put(next()).flip();
        directValue.clear();
        return db.get(readOptions, directKey, directValue);
    }

    @Benchmark
    @OperationsPerInvocation(MULTI_GET)
    public List<byte[]> multiGet32() throws RocksDBException {
        for (byte[] each : keys) {
            fill(each, random.nextInt(KEYS));
        }
        return db.multiGetAsList(keys);
    }

    @Benchmark
    public void seekAnd10(Blackhole hole) {
        iterator.seek(next());
        for (int at = 0; at < 10 && iterator.isValid(); at++) {
            hole.consume(iterator.key());
            hole.consume(iterator.value());
            iterator.next();
        }
    }

    @Benchmark
    @OperationsPerInvocation(SCAN)
    public void scan(Blackhole hole) {
        fill(key, random.nextInt(KEYS - SCAN));
        iterator.seek(key);
        for (int at = 0; at < SCAN; at++) {
            hole.consume(iterator.key());
            hole.consume(iterator.value());
            iterator.next();
        }
    }

    @Benchmark
    public void putLogged() throws RocksDBException {
        db.put(next(), value);
    }

    @Benchmark
    @OperationsPerInvocation(BATCH)
    public void batch100() throws RocksDBException {
        batch.clear();
        for (int at = 0; at < BATCH; at++) {
            batch.put(next(), value);
        }
        db.write(writeOptions, batch);
    }
}
