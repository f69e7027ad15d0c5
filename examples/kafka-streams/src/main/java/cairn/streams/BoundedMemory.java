package cairn.streams;

import java.util.Map;
import org.apache.kafka.streams.state.RocksDBConfigSetter;
import org.rocksdb.BlockBasedTableConfig;
import org.rocksdb.Cache;
import org.rocksdb.LRUCache;
import org.rocksdb.Options;
import org.rocksdb.WriteBufferManager;

/** One block cache for all stores of the process, which memtables, indexes and filters are charged to. */
public final class BoundedMemory implements RocksDBConfigSetter {
    private static final long CACHE_BYTES = Long.getLong("stores.cache", 64L << 20);
    private static final long MEMTABLE_BYTES = CACHE_BYTES / 4;
    private static final boolean DIRECT = Boolean.getBoolean("stores.direct");
    private static final Cache CACHE = new LRUCache(CACHE_BYTES, -1, false, 0.1);
    private static final WriteBufferManager MEMTABLES = new WriteBufferManager(MEMTABLE_BYTES, CACHE);

    @Override
    public void setConfig(String store, Options options, Map<String, Object> configs) {
        BlockBasedTableConfig table = (BlockBasedTableConfig) options.tableFormatConfig();
        table.setBlockCache(CACHE);
        table.setCacheIndexAndFilterBlocks(true);
        table.setCacheIndexAndFilterBlocksWithHighPriority(true);
        table.setPinTopLevelIndexAndFilter(true);
        options.setWriteBufferManager(MEMTABLES);
        // A windowed store has a database for each of its segments, which share the memory of the memtables.
        options.setWriteBufferSize(MEMTABLE_BYTES / 16);
        options.setTableFormatConfig(table);
        // The page cache does not hold what the block cache lacks.
        options.setUseDirectReads(DIRECT);
        options.setUseDirectIoForFlushAndCompaction(DIRECT);
    }

    @Override
    public void close(String store, Options options) {
        // Cache and manager belong to the process.
    }
}
