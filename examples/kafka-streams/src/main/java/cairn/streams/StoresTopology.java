package cairn.streams;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** The topology: one stream of events, aggregated into stores of every kind that Kafka Streams keeps in RocksDB. */
final class StoresTopology {
    /** Sums of each user. */
    static final String TOTALS = "totals";
    /** Sums of each user in overlapping windows. */
    static final String WINDOWS = "windows";
    /** Sums of the sessions of each user. */
    static final String SESSIONS = "sessions";
    /** The last events of each user, by user and number. */
    static final String RECENT = "recent";
    /** All versions of the last event of each user. */
    static final String HISTORY = "history";
    static final List<String> STORES = List.of(TOTALS, WINDOWS, SESSIONS, RECENT, HISTORY);

    static final Duration WINDOW = Duration.ofMinutes(10);
    static final Duration GAP = Duration.ofMinutes(3);
    private static final Duration GRACE = Duration.ofMinutes(2);
    private static final Duration RETENTION = Duration.ofHours(1);
    private static final Duration HISTORY_RETENTION = Duration.ofMinutes(40);
    private static final int RECENT_EVENTS = 8;

    private static final Serde<String> KEY = Serdes.String();
    private static final Serde<byte[]> VALUE = Serdes.ByteArray();

    private StoresTopology() {}

    static Topology topology(Latencies latencies, boolean caching) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(recentStore(caching));
        KStream<String, byte[]> events = builder.stream(Workload.TOPIC, Consumed.with(KEY, VALUE))
                .processValues(() -> new Timer(latencies));
        KGroupedStream<String, byte[]> users = events.groupByKey(Grouped.with(KEY, VALUE));
        Materialized<String, byte[], KeyValueStore<Bytes, byte[]>> totals =
                Materialized.<String, byte[], KeyValueStore<Bytes, byte[]>>as(TOTALS)
                        .withKeySerde(KEY).withValueSerde(VALUE);
        users.aggregate(StoresTopology::zero, StoresTopology::plus, cached(totals, caching));
        Materialized<String, byte[], WindowStore<Bytes, byte[]>> windows =
                Materialized.<String, byte[], WindowStore<Bytes, byte[]>>as(WINDOWS)
                        .withKeySerde(KEY).withValueSerde(VALUE).withRetention(RETENTION);
        users.windowedBy(TimeWindows.ofSizeAndGrace(WINDOW, GRACE).advanceBy(WINDOW.dividedBy(2)))
                .aggregate(StoresTopology::zero, StoresTopology::plus, cached(windows, caching));
        Materialized<String, byte[], SessionStore<Bytes, byte[]>> sessions =
                Materialized.<String, byte[], SessionStore<Bytes, byte[]>>as(SESSIONS)
                        .withKeySerde(KEY).withValueSerde(VALUE).withRetention(RETENTION);
        users.windowedBy(SessionWindows.ofInactivityGapAndGrace(GAP, GRACE))
                .aggregate(StoresTopology::zero, StoresTopology::plus, (user, one, other) -> sum(one, other),
                        cached(sessions, caching));
        events.toTable(Materialized.<String, byte[]>as(
                        Stores.persistentVersionedKeyValueStore(HISTORY, HISTORY_RETENTION))
                .withKeySerde(KEY).withValueSerde(VALUE));
        events.processValues(Recent::new, RECENT);
        return builder.build();
    }

    private static StoreBuilder<KeyValueStore<String, byte[]>> recentStore(boolean caching) {
        StoreBuilder<KeyValueStore<String, byte[]>> builder = Stores.keyValueStoreBuilder(
                Stores.persistentKeyValueStore(RECENT), KEY, VALUE);
        builder.withLoggingEnabled(Map.of());
        return caching ? builder.withCachingEnabled() : builder.withCachingDisabled();
    }

    private static <S extends StateStore> Materialized<String, byte[], S> cached(
            Materialized<String, byte[], S> store, boolean caching) {
        return caching ? store.withCachingEnabled() : store.withCachingDisabled();
    }

    /** An aggregate: number of events, sum of amounts, sum of checksums, and the text of the last event. */
    private static byte[] zero() {
        return new byte[24 + Workload.VALUE_BYTES];
    }

    private static byte[] plus(String user, byte[] event, byte[] aggregate) {
        CRC32 checksum = new CRC32();
        checksum.update(event);
        ByteBuffer one = ByteBuffer.allocate(24 + event.length);
        one.putLong(1).putLong(ByteBuffer.wrap(event).getLong(8)).putLong(checksum.getValue()).put(event);
        return sum(aggregate, one.array());
    }

    private static byte[] sum(byte[] older, byte[] newer) {
        byte[] sum = newer.clone();
        ByteBuffer fields = ByteBuffer.wrap(sum);
        ByteBuffer others = ByteBuffer.wrap(older);
        for (int at = 0; at < 24; at += 8) {
            fields.putLong(at, fields.getLong(at) + others.getLong(at));
        }
        return sum;
    }

    /** Measures the time that the processors below need for an event. */
    private record Timer(Latencies latencies, FixedKeyProcessorContext<String, byte[]>[] context)
            implements FixedKeyProcessor<String, byte[], byte[]> {
        @SuppressWarnings("unchecked")
        Timer(Latencies latencies) {
            this(latencies, new FixedKeyProcessorContext[1]);
        }

        @Override
        public void init(FixedKeyProcessorContext<String, byte[]> given) {
            context[0] = given;
        }

        @Override
        public void process(FixedKeyRecord<String, byte[]> event) {
            long start = System.nanoTime();
            context[0].forward(event);
            latencies.add(System.nanoTime() - start);
        }
    }

    /** Keeps the last events of each user: a put, a scan of a prefix, and deletions. */
    private static final class Recent implements FixedKeyProcessor<String, byte[], byte[]> {
        private KeyValueStore<String, byte[]> store;

        @Override
        public void init(FixedKeyProcessorContext<String, byte[]> context) {
            store = context.getStateStore(RECENT);
        }

        @Override
        public void process(FixedKeyRecord<String, byte[]> event) {
            String prefix = event.key() + "/";
            long number = ByteBuffer.wrap(event.value()).getLong();
            String digits = Long.toString(number);
            store.put(prefix + "000000000000".substring(digits.length()) + digits, event.value());
            String oldest = null;
            int count = 0;
            try (KeyValueIterator<String, byte[]> all = store.prefixScan(prefix, new StringSerializer())) {
                while (all.hasNext()) {
                    KeyValue<String, byte[]> next = all.next();
                    oldest = oldest == null ? next.key : oldest;
                    count++;
                }
            }
            if (count > RECENT_EVENTS) {
                store.delete(oldest);
            }
        }
    }
}
