package cairn.streams;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Runs the application on RocksDB's library and on Cairn's, with the same events, and compares answers and figures.
 *
 * <p>Each run starts an instance, kills it, starts it again, adds a second instance, which takes over half of the
 * partitions, and queries all stores at the end.
 */
public final class Comparison {
    private static final double KILLED_AT = 0.6;
    private static final double SECOND_AT = 0.15;
    private static final long PATIENCE_MILLIS = 300_000;

    private final Map<String, String> arguments;
    private final Path work;
    private final Workload workload;
    private final String broker;
    private final List<String> options;
    private final Admin admin;

    private Comparison(Map<String, String> arguments, String broker) {
        this.arguments = arguments;
        this.broker = broker;
        work = Path.of(arguments.get("work"));
        long events = Long.parseLong(arguments.get("events"));
        long start = System.currentTimeMillis() - Workload.SPAN.toMillis();
        int users = (int) Math.max(100, events / 30);
        workload = new Workload(events, users, Integer.parseInt(arguments.get("partitions")), start);
        options = List.of(arguments.get("java").split(" "));
        admin = admin(broker);
    }

    public static void main(String[] words) throws Exception {
        Map<String, String> arguments = arguments(words);
        Path work = Path.of(arguments.get("work"));
        delete(work);
        Files.createDirectories(work);
        endWithParent();
        boolean equal;
        try (RunningBroker broker = RunningBroker.start(work, List.of(arguments.get("java").split(" ")))) {
            equal = new Comparison(arguments, broker.address()).run();
        } finally {
            delete(work.resolve("broker"));
        }
        System.exit(equal ? 0 : 1);
    }

    /**
     * Ends this process, and with it its children, when its standard input is closed: then the process that started it
     * has ended.
     */
    static void endWithParent() {
        Thread thread = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                    // Nothing is expected.
                }
            } catch (IOException closed) {
                // As at the end.
            }
            Runtime.getRuntime().halt(1);
        }, "parent");
        thread.setDaemon(true);
        thread.start();
    }

    static Admin admin(String broker) {
        return Admin.create(Map.of("bootstrap.servers", broker, "default.api.timeout.ms", (int) PATIENCE_MILLIS));
    }

    private static Map<String, String> arguments(String[] words) {
        Map<String, String> arguments = new HashMap<>(Map.of("events", "2000000", "partitions", "4", "threads", "1",
                "cache", "64", "caching", "false", "direct", "false", "java", "-Xmx512m", "commit", "1000",
                "rounds", "1"));
        arguments.put("parallel", "false");
        arguments.put("empty", "false");
        for (String word : words) {
            String[] parts = word.split("=", 2);
            arguments.put(parts[0], parts[1]);
        }
        return arguments;
    }

    private boolean run() throws Exception {
        produce();
        Map<String, Path> libraries = new LinkedHashMap<>();
        libraries.put("rocksdb", Path.of(arguments.get("rocksdb")));
        libraries.put("cairn", Path.of(arguments.get("cairn")));
        List<Figures> all = new ArrayList<>();
        boolean equal = true;
        for (int round = 0; round < Integer.parseInt(arguments.get("rounds")); round++) {
            all.addAll(runs(libraries, round));
            equal &= compare(work.resolve("rocksdb-" + round), work.resolve("cairn-" + round));
        }
        Figures.print(all);
        return equal;
    }

    /** Runs the application on each library; on all at the same time with {@code parallel}. */
    private List<Figures> runs(Map<String, Path> libraries, int round) throws Exception {
        int threads = Boolean.parseBoolean(arguments.get("parallel")) ? libraries.size() : 1;
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            List<Future<Figures>> running = new ArrayList<>();
            for (Map.Entry<String, Path> library : libraries.entrySet()) {
                running.add(pool.submit(() -> run(library.getKey(), library.getValue(), round)));
            }
            List<Figures> all = new ArrayList<>();
            for (Future<Figures> one : running) {
                Figures figures = one.get();
                System.out.println(figures);
                all.add(figures);
            }
            return all;
        } finally {
            pool.shutdownNow();
        }
    }

    /** Writes all events to their topic. */
    private void produce() throws Exception {
        NewTopic topic = new NewTopic(Workload.TOPIC, workload.partitions(), (short) 1);
        admin.createTopics(List.of(topic.configs(Map.of("retention.ms", "-1")))).all().get();
        Map<String, Object> settings = Map.of("bootstrap.servers", broker, "linger.ms", 20, "batch.size", 1 << 17);
        try (KafkaProducer<String, byte[]> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new ByteArraySerializer())) {
            for (long event = 0; event < workload.events(); event++) {
                String user = workload.user(event);
                producer.send(new ProducerRecord<>(Workload.TOPIC, workload.partition(user), workload.timestamp(event),
                        user, Workload.value(event)));
            }
        }
        System.out.println(workload.events() + " events of " + workload.users() + " users");
    }

    private Figures run(String engine, Path libraries, int round) throws Exception {
        Map<String, String> properties = new LinkedHashMap<>();
        properties.put("application", engine + "-" + round);
        properties.put("broker", broker);
        properties.put("events", "" + workload.events());
        properties.put("users", "" + workload.users());
        properties.put("partitions", "" + workload.partitions());
        properties.put("start", "" + workload.start());
        properties.put("threads", arguments.get("threads"));
        properties.put("commit", arguments.get("commit"));
        properties.put("stores.caching", arguments.get("caching"));
        properties.put("stores.direct", arguments.get("direct"));
        properties.put("stores.cache", "" + (Long.parseLong(arguments.get("cache")) << 20));
        properties.put("records.cache", arguments.get("caching").equals("true") ? "" + (32 << 20) : "0");
        Path folder = Files.createDirectories(work.resolve(engine));
        Path answers = Files.createDirectories(work.resolve(engine + "-" + round));
        properties.put("instance", "a");
        Figures figures;
        try (Instance first = new Instance(libraries, properties, options, folder)) {
            await("the first instance", () -> first.status().processed() >= workload.events() * KILLED_AT, first);
            check(first.library(), libraries);
            figures = new Figures(engine, first);
            first.kill();
        }
        try (Instance restarted = restart(libraries, properties, folder)) {
            figures.addRestore(restarted);
            properties.put("instance", "b");
            try (Instance second = new Instance(libraries, properties, options, folder)) {
                await("the second instance", () -> second.status().settled(), second);
                figures.addRestore(second);
                await("the end of the events", () -> committed(properties.get("application")) == workload.events()
                        && restarted.status().settled() && second.status().settled(), restarted);
                figures.partitionsMoved = second.status().partitions();
                figures.diskMib = size(folder) >> 20;
                restarted.answer(answers);
                second.answer(answers);
                figures.addMemory(restarted, second);
                restarted.stop();
                second.stop();
            }
        }
        if (Boolean.parseBoolean(arguments.get("empty"))) {
            restoreEmpty(libraries, properties, folder, figures);
        }
        discard(properties.get("application"), folder);
        return figures;
    }

    /** Restores the changelogs once more, into stores that drop every record. */
    private void restoreEmpty(Path libraries, Map<String, String> properties, Path folder, Figures figures)
            throws Exception {
        Map<String, String> dropping = new LinkedHashMap<>(properties);
        dropping.put("instance", "empty");
        dropping.put("stores.empty", "true");
        try (Instance empty = new Instance(libraries, dropping, options, folder)) {
            await("the restoration into empty stores",
                    () -> empty.status().settled() && empty.status().partitions() == workload.partitions(), empty);
            figures.addEmptyRestore(empty);
            empty.stop();
        }
    }

    /**
     * Starts an instance on the stores of a killed one, and waits until it processes events.
     *
     * <p>Kafka Streams 4.4 cannot start on stores of segments of which only a later one shows that it was not closed:
     * it opens the segments before it registers their store, so the first ones stay open when another one is refused,
     * and cannot be opened again. What a kill leaves in the files depends on when memtables were flushed, with either
     * library. The instance then starts once more and deletes the stores first, as a user must.
     */
    private Instance restart(Path libraries, Map<String, String> properties, Path folder) throws Exception {
        Instance restarted = new Instance(libraries, properties, options, folder);
        try {
            awaitRestart(restarted);
            return restarted;
        } catch (IllegalStateException failed) {
            restarted.close();
            if (!restarted.metLockedStore()) {
                throw failed;
            }
        }
        System.out.println("  " + properties.get("application") + ": Kafka Streams left a segment open; deleting stores");
        Map<String, String> cleaning = new LinkedHashMap<>(properties);
        cleaning.put("clean", "true");
        restarted = new Instance(libraries, cleaning, options, folder);
        awaitRestart(restarted);
        return restarted;
    }

    private void awaitRestart(Instance restarted) throws InterruptedException {
        await("the restart", () -> restarted.status().settled()
                && restarted.status().processed() >= workload.events() * SECOND_AT, restarted);
    }

    /** Waits until `done`, as long as `instance` makes progress. */
    private static void await(String phase, BooleanSupplier done, Instance instance) throws InterruptedException {
        Instance.Status last = instance.status();
        long changed = System.currentTimeMillis();
        while (!done.getAsBoolean()) {
            Thread.sleep(100);
            Instance.Status now = instance.status();
            if (!now.equals(last)) {
                last = now;
                changed = System.currentTimeMillis();
            } else if (System.currentTimeMillis() - changed > PATIENCE_MILLIS) {
                throw new IllegalStateException(phase + " makes no progress: " + now);
            }
        }
    }

    /** Fails if the native library is not that of the given folder. */
    private static void check(String library, Path folder) throws IOException {
        System.out.println("  " + library);
        if (!library.startsWith(folder.toRealPath().toString())) {
            throw new IllegalStateException(library + " is not in " + folder);
        }
    }

    /** The number of events whose results the application has committed. */
    private long committed(String application) {
        try {
            return admin.listConsumerGroupOffsets(application).partitionsToOffsetAndMetadata().get().values().stream()
                    .mapToLong(offset -> offset.offset()).sum();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** Deletes what a run leaves: its changelogs and its stores. */
    private void discard(String application, Path folder) throws Exception {
        Set<String> topics = admin.listTopics().names().get().stream()
                .filter(topic -> topic.startsWith(application)).collect(Collectors.toSet());
        admin.deleteTopics(topics).all().get();
        try (Stream<Path> entries = Files.list(folder)) {
            for (Path entry : entries.filter(Files::isDirectory).toList()) {
                delete(entry);
            }
        }
    }

    /** Compares the answers of the two runs, and prints the first that differ. */
    private boolean compare(Path one, Path other) throws IOException {
        long answers = 0;
        long different = 0;
        for (int partition = 0; partition < workload.partitions(); partition++) {
            String file = "partition-" + partition + ".txt";
            List<String> left = Files.readAllLines(one.resolve(file));
            List<String> right = Files.readAllLines(other.resolve(file));
            for (int at = 0; at < Math.max(left.size(), right.size()); at++) {
                String expected = at < left.size() ? left.get(at) : "nothing";
                String found = at < right.size() ? right.get(at) : "nothing";
                answers++;
                if (!expected.equals(found) && ++different <= 5) {
                    System.out.println("partition " + partition + "\n  rocksdb " + expected + "\n  cairn   " + found);
                }
            }
        }
        System.out.println(answers + " answers compared, " + different + " differ");
        return different == 0 && answers > 0;
    }

    private static long size(Path folder) throws IOException {
        for (int attempt = 0;; attempt++) {
            try (Stream<Path> files = Files.walk(folder)) {
                return files.mapToLong(file -> file.toFile().isFile() ? file.toFile().length() : 0).sum();
            } catch (UncheckedIOException deleted) {
                // Compactions delete files.
                if (attempt == 10) {
                    throw deleted;
                }
            }
        }
    }

    private static void delete(Path folder) throws IOException {
        if (!Files.exists(folder)) {
            return;
        }
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
        }
    }
}
