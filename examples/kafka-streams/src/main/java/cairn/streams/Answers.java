package cairn.streams;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.function.Function;
import java.util.zip.CRC32C;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.StateQueryRequest;
import org.apache.kafka.streams.query.VersionedKeyQuery;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.QueryableStoreType;
import org.apache.kafka.streams.state.QueryableStoreTypes;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;
import org.apache.kafka.streams.state.WindowStoreIterator;

/**
 * The contents of the stores of a partition and the answers to interactive queries, one query a line: the query, the
 * number of its entries, a checksum of them in their order, and the first two.
 */
final class Answers {
    private static final int SAMPLES = 60;
    private static final int SHOWN = 2;

    private final KafkaStreams streams;
    private final Workload workload;
    private final int partition;
    private final List<String> lines = new ArrayList<>();

    Answers(KafkaStreams streams, Workload workload, int partition) {
        this.streams = streams;
        this.workload = workload;
        this.partition = partition;
    }

    void write(Path file) throws IOException {
        keyValues(StoresTopology.TOTALS, user -> user);
        keyValues(StoresTopology.RECENT, user -> user + "/");
        windows();
        sessions();
        history();
        try (PrintWriter out = new PrintWriter(Files.newBufferedWriter(file))) {
            lines.forEach(out::println);
        }
    }

    private <T> T store(String name, QueryableStoreType<T> type) {
        return streams.store(StoreQueryParameters.fromNameAndType(name, type).withPartition(partition));
    }

    /** Users of this and of other partitions, and some that do not exist, in order. */
    private List<String> users() {
        List<String> users = new ArrayList<>();
        for (long at = 0; at < SAMPLES; at++) {
            users.add(Workload.name(at * workload.users() * 11 / (SAMPLES * 10)));
            users.add(workload.user(at * workload.events() / SAMPLES));
        }
        users.sort(null);
        return users;
    }

    private void keyValues(String name, Function<String, String> key) {
        ReadOnlyKeyValueStore<String, byte[]> store = store(name, QueryableStoreTypes.keyValueStore());
        entries(name + " all", store.all());
        entries(name + " reverse all", store.reverseAll());
        List<String> users = users();
        for (int at = 0; at + 1 < users.size(); at++) {
            String from = key.apply(users.get(at));
            String to = key.apply(users.get(at + 1));
            String range = name + " " + from + " " + to;
            value(name + " get " + from, store.get(from));
            entries("range " + range, store.range(from, to));
            entries("reverse range " + range, store.reverseRange(from, to));
            entries("prefix " + from, store.prefixScan(from.substring(0, 11), new StringSerializer()));
        }
        String middle = key.apply(Workload.name(workload.users() / 2));
        entries(name + " range from " + middle, store.range(middle, null));
        entries(name + " range to " + middle, store.range(null, middle));
        entries(name + " reverse range from " + middle, store.reverseRange(middle, null));
        entries(name + " reverse range to " + middle, store.reverseRange(null, middle));
    }

    private void windows() {
        ReadOnlyWindowStore<String, byte[]> store = store(StoresTopology.WINDOWS, QueryableStoreTypes.windowStore());
        Instant start = Instant.ofEpochMilli(workload.start());
        Instant end = start.plus(Workload.SPAN);
        windowed("windows all", store.all());
        windowed("windows backward all", store.backwardAll());
        for (Instant from = start; from.isBefore(end); from = from.plus(StoresTopology.WINDOW.multipliedBy(2))) {
            Instant to = from.plus(StoresTopology.WINDOW.multipliedBy(3));
            windowed("windows fetch all " + from, store.fetchAll(from, to));
            windowed("windows backward fetch all " + from, store.backwardFetchAll(from, to));
        }
        long size = StoresTopology.WINDOW.toMillis();
        List<String> users = users();
        for (int at = 0; at + 1 < users.size(); at++) {
            String user = users.get(at);
            String last = users.get(at + 1);
            Instant from = start.plus(Workload.SPAN.dividedBy(SAMPLES).multipliedBy(at % SAMPLES));
            Instant to = from.plus(Duration.ofMinutes(45));
            times("windows fetch " + user + " " + from, store.fetch(user, from, to));
            times("windows backward fetch " + user + " " + from, store.backwardFetch(user, from, to));
            times("windows fetch " + user, store.fetch(user, start, end));
            windowed("windows fetch " + user + " " + last + " " + from, store.fetch(user, last, from, to));
            windowed("windows backward fetch " + user + " " + last + " " + from,
                    store.backwardFetch(user, last, from, to));
            long window = from.toEpochMilli() / size * size;
            value("windows fetch " + user + " " + window, store.fetch(user, window));
        }
    }

    private void sessions() {
        ReadOnlySessionStore<String, byte[]> store = store(StoresTopology.SESSIONS, QueryableStoreTypes.sessionStore());
        windowed("sessions all", store.fetch(null, null));
        windowed("sessions backward all", store.backwardFetch(null, null));
        List<String> users = users();
        for (int at = 0; at + 1 < users.size(); at++) {
            String user = users.get(at);
            String last = users.get(at + 1);
            long from = workload.start() + Workload.SPAN.toMillis() / SAMPLES * (at % SAMPLES);
            long to = from + Duration.ofMinutes(45).toMillis();
            String range = user + " " + last;
            windowed("sessions fetch " + user, store.fetch(user));
            windowed("sessions backward fetch " + user, store.backwardFetch(user));
            windowed("sessions fetch " + range, store.fetch(user, last));
            windowed("sessions backward fetch " + range, store.backwardFetch(user, last));
            windowed("sessions find " + user + " " + from, store.findSessions(user, from, to));
            windowed("sessions backward find " + user + " " + from, store.backwardFindSessions(user, from, to));
            windowed("sessions find " + range + " " + from, store.findSessions(user, last, from, to));
            windowed("sessions backward find " + range + " " + from, store.backwardFindSessions(user, last, from, to));
            try (KeyValueIterator<Windowed<String>, byte[]> found = store.fetch(user)) {
                if (found.hasNext()) {
                    Windowed<String> session = found.next().key;
                    value("sessions session " + session, store.fetchSession(user, session.window().start(),
                            session.window().end()));
                }
            }
        }
    }

    private void history() {
        Instant start = Instant.ofEpochMilli(workload.start());
        Instant end = start.plus(Workload.SPAN);
        List<String> users = users();
        for (int at = 0; at < users.size(); at++) {
            String user = users.get(at);
            Instant time = end.minus(Duration.ofSeconds(19L * at));
            VersionedKeyQuery<String, byte[]> latest = VersionedKeyQuery.withKey(user);
            version("history latest " + user, ask(latest));
            version("history of " + time + " " + user, ask(latest.asOf(time)));
            MultiVersionedKeyQuery<String, byte[]> versions = MultiVersionedKeyQuery.withKey(user);
            versions("history descending " + user, ask(versions.fromTime(start).toTime(end)));
            versions("history ascending " + user, ask(versions.fromTime(start).toTime(time).withAscendingTimestamps()));
        }
    }

    private <R> R ask(Query<R> query) {
        StateQueryRequest<R> request = StateQueryRequest.inStore(StoresTopology.HISTORY).withQuery(query)
                .withPartitions(Set.of(partition));
        return streams.query(request).getPartitionResults().get(partition).getResult();
    }

    private void version(String query, VersionedRecord<byte[]> record) {
        value(query, record == null ? null : record.value());
    }

    private void versions(String query, VersionedRecordIterator<byte[]> versions) {
        add(query, versions, record -> record.timestamp() + "-" + record.validTo() + " " + hex(record.value()));
        versions.close();
    }

    private void value(String query, byte[] value) {
        lines.add(query + ": " + (value == null ? "absent" : hex(value)));
    }

    private void entries(String query, KeyValueIterator<String, byte[]> all) {
        add(query, all, entry -> entry.key + " " + hex(entry.value));
        all.close();
    }

    private void times(String query, WindowStoreIterator<byte[]> all) {
        add(query, all, entry -> entry.key + " " + hex(entry.value));
        all.close();
    }

    private void windowed(String query, KeyValueIterator<Windowed<String>, byte[]> all) {
        add(query, all, entry -> entry.key + " " + hex(entry.value));
        all.close();
    }

    private <T> void add(String query, Iterator<T> all, Function<T, String> text) {
        CRC32C checksum = new CRC32C();
        long count = 0;
        StringBuilder first = new StringBuilder();
        while (all.hasNext()) {
            String entry = text.apply(all.next());
            checksum.update(entry.getBytes(StandardCharsets.UTF_8));
            if (count < SHOWN) {
                first.append(' ').append(entry);
            }
            count++;
        }
        lines.add(query + ": " + count + " " + Long.toHexString(checksum.getValue()) + first);
    }


    private static String hex(byte[] value) {
        return HexFormat.of().formatHex(value);
    }
}
