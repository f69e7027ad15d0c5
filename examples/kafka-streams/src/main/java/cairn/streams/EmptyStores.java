package cairn.streams;

import java.util.Collection;
import java.util.Map;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.BatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.StoreBuilder;

/**
 * The stores of {@link StoresTopology}, but each drops what is restored into it, and no event is processed.
 *
 * <p>Their restoration takes the time that Kafka Streams needs itself: no store can be restored faster.
 */
final class EmptyStores {
    private EmptyStores() {}

    static Topology topology() {
        Topology topology = new Topology();
        topology.addSource("events", Serdes.String().deserializer(), Serdes.ByteArray().deserializer(), Workload.TOPIC);
        topology.addProcessor("drop", Drop::new, "events");
        for (String store : StoresTopology.STORES) {
            topology.addStateStore(new Builder(store), "drop");
        }
        return topology;
    }

    private static final class Drop extends ContextualProcessor<String, byte[], Void, Void> {
        @Override
        public void process(Record<String, byte[]> event) {
            // The restoration is all that is measured.
        }
    }

    private record Builder(String name) implements StoreBuilder<StateStore> {
        @Override
        public StateStore build() {
            return new Empty(name);
        }

        @Override
        public boolean loggingEnabled() {
            return true;
        }

        @Override
        public Map<String, String> logConfig() {
            return Map.of();
        }

        @Override
        public StoreBuilder<StateStore> withCachingEnabled() {
            return this;
        }

        @Override
        public StoreBuilder<StateStore> withCachingDisabled() {
            return this;
        }

        @Override
        public StoreBuilder<StateStore> withLoggingEnabled(Map<String, String> config) {
            return this;
        }

        @Override
        public StoreBuilder<StateStore> withLoggingDisabled() {
            throw new UnsupportedOperationException("a store without a changelog has nothing to restore");
        }
    }

    private static final class Empty implements StateStore {
        private final String name;
        private boolean open;

        Empty(String name) {
            this.name = name;
        }

        @Override
        public String name() {
            return name;
        }

        @Override
        public void init(StateStoreContext context, StateStore root) {
            open = true;
            context.register(root, new BatchingStateRestoreCallback() {
                @Override
                public void restoreAll(Collection<KeyValue<byte[], byte[]>> records) {
                    // Dropped.
                }
            });
        }

        @Override
        public void close() {
            open = false;
        }

        @Override
        public boolean persistent() {
            return false;
        }

        @Override
        public boolean isOpen() {
            return open;
        }
    }
}
