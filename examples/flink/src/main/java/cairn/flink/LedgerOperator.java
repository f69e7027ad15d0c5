package cairn.flink;

import java.lang.reflect.Field;
import java.util.Map;
import java.util.stream.Stream;

import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.runtime.state.KeyedStateBackend;
import org.apache.flink.runtime.state.VoidNamespace;
import org.apache.flink.state.rocksdb.RocksDBKeyedStateBackend;
import org.apache.flink.streaming.api.operators.BoundedOneInput;
import org.apache.flink.streaming.api.operators.KeyedProcessOperator;
import org.rocksdb.ColumnFamilyHandle;
import org.rocksdb.CompactRangeOptions;
import org.rocksdb.FlushOptions;
import org.rocksdb.RocksDB;
import org.rocksdb.RocksIterator;

/** Runs a ledger; at the end of the input it reports all keys, and checks the compaction filter of expired state. */
final class LedgerOperator extends KeyedProcessOperator<Long, Tuple2<Long, Long>, String> implements BoundedOneInput {
    private static final long serialVersionUID = 1L;

    private final Ledger ledger;

    LedgerOperator(Ledger ledger) {
        super(ledger);
        this.ledger = ledger;
    }

    @Override
    public void endInput() throws Exception {
        KeyedStateBackend<Long> backend = getKeyedStateBackend();
        report(backend);
        RocksDB db = (RocksDB) field(backend, "db");
        Map<?, ?> families = (Map<?, ?>) field(backend, "kvStateInformation");
        for (String state : Ledger.EXPIRING) {
            Probe.total("entries of " + state + " before compaction", entries(db, family(families, state)));
        }
        Thread.sleep(2 * Ledger.SHORT_TTL.toMillis());
        for (Object state : families.keySet()) {
            compact(db, family(families, state));
        }
        for (String state : Ledger.EXPIRING) {
            Probe.total("entries of expired states", entries(db, family(families, state)));
        }
        Probe.total("entries of lasting state", entries(db, family(families, "lasting")));
    }

    /** Reports the keys while the iterator over them is open. */
    private void report(KeyedStateBackend<Long> backend) throws Exception {
        try (Stream<Long> keys = backend.getKeys("account", VoidNamespace.INSTANCE)) {
            for (var iterator = keys.iterator(); iterator.hasNext();) {
                long key = iterator.next();
                backend.setCurrentKey(key);
                ledger.report(key);
            }
        }
    }

    /** The number of entries in the column family; Flink's own reads would remove those that have expired. */
    private static long entries(RocksDB db, ColumnFamilyHandle family) throws Exception {
        long entries = 0;
        try (RocksIterator iterator = db.newIterator(family)) {
            for (iterator.seekToFirst(); iterator.isValid(); iterator.next()) {
                entries++;
            }
            iterator.status();
        }
        return entries;
    }

    /** Flushes and compacts the column family, so that its filter sees all entries. */
    private static void compact(RocksDB db, ColumnFamilyHandle family) throws Exception {
        try (CompactRangeOptions options = new CompactRangeOptions();
                FlushOptions flush = new FlushOptions().setWaitForFlush(true)) {
            options.setBottommostLevelCompaction(CompactRangeOptions.BottommostLevelCompaction.kForce);
            db.flush(flush, family);
            db.compactRange(family, null, null, options);
        }
    }

    private static ColumnFamilyHandle family(Map<?, ?> families, Object state) {
        return ((RocksDBKeyedStateBackend.RocksDbKvStateInfo) families.get(state)).columnFamilyHandle;
    }

    private static Object field(Object backend, String name) throws ReflectiveOperationException {
        Field field = RocksDBKeyedStateBackend.class.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(backend);
    }
}
