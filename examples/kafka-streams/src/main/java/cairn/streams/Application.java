package cairn.streams;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.rocksdb.RocksDB;

/**
 * An instance of the application, as its own process.
 *
 * <p>It prints a line of status several times a second, and reads commands from its standard input: {@code answers
 * FOLDER} writes the answers to all queries of its partitions, {@code stop} closes it. System properties configure it
 * ({@link Instance} sets them).
 */
public final class Application {
    private static final long STATUS_MILLIS = 200;

    private final Latencies latencies = new Latencies();
    private final Restores restores = new Restores();
    private final KafkaStreams streams;
    private final Workload workload;

    private Application(Workload workload) {
        this.workload = workload;
        boolean caching = Boolean.getBoolean("stores.caching");
        Topology topology = Boolean.getBoolean("stores.empty") ? EmptyStores.topology()
                : StoresTopology.topology(latencies, caching);
        streams = new KafkaStreams(topology, configuration());
        streams.setGlobalStateRestoreListener(restores);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
    }

    public static void main(String[] arguments) throws Exception {
        Workload workload = new Workload(Long.getLong("events"), Integer.getInteger("users"),
                Integer.getInteger("partitions"), Long.getLong("start"));
        RocksDB.loadLibrary();
        System.out.println("library " + library() + " " + RocksDB.rocksdbVersion());
        try {
            new Application(workload).run();
        } catch (Exception error) {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        }
    }

    /** The file that the native library of RocksJava was loaded from. */
    private static String library() throws Exception {
        Set<String> files = new TreeSet<>();
        for (String line : Files.readAllLines(Path.of("/proc/self/maps"))) {
            if (line.contains("librocksdbjni")) {
                files.add(line.substring(line.indexOf('/')));
            }
        }
        return String.join(",", files);
    }

    private static Properties configuration() {
        Properties all = new Properties();
        all.put(StreamsConfig.APPLICATION_ID_CONFIG, System.getProperty("application"));
        all.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, System.getProperty("broker"));
        all.put(StreamsConfig.STATE_DIR_CONFIG, System.getProperty("state"));
        all.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, System.getProperty("threads"));
        all.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        all.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, System.getProperty("commit"));
        all.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, Long.getLong("records.cache"));
        all.put(StreamsConfig.ROCKSDB_CONFIG_SETTER_CLASS_CONFIG, BoundedMemory.class);
        all.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        // Partitions move to a new instance at once, and are restored there.
        all.put(StreamsConfig.ACCEPTABLE_RECOVERY_LAG_CONFIG, Long.MAX_VALUE);
        all.put(StreamsConfig.consumerPrefix(ConsumerConfig.GROUP_INSTANCE_ID_CONFIG), System.getProperty("instance"));
        all.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        all.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 15000);
        all.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 500);
        all.put(StreamsConfig.restoreConsumerPrefix(ConsumerConfig.MAX_POLL_RECORDS_CONFIG), 10000);
        all.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 20);
        return all;
    }

    private void run() throws Exception {
        Thread status = new Thread(this::printStatus, "status");
        status.setDaemon(true);
        if (Boolean.getBoolean("clean")) {
            streams.cleanUp();
        }
        streams.start();
        status.start();
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); !"stop".equals(line); line = commands.readLine()) {
            if (line == null) {
                throw new IllegalStateException("the comparison ended");
            }
            Path folder = Path.of(line.substring("answers ".length()));
            for (int partition : partitions()) {
                new Answers(streams, workload, partition).write(folder.resolve("partition-" + partition + ".txt"));
            }
            System.out.println("answered");
        }
        streams.close();
        System.out.println("stopped");
    }

    /** The partitions whose active tasks this instance runs. */
    private Set<Integer> partitions() {
        Set<Integer> partitions = new TreeSet<>();
        for (ThreadMetadata thread : streams.metadataForLocalThreads()) {
            thread.activeTasks().forEach(task -> partitions.add(task.taskId().partition()));
        }
        return partitions;
    }

    private void printStatus() {
        try {
            while (true) {
                System.out.println(String.join(" ", "status", streams.state().name(), "" + partitions().size(),
                        "" + latencies.count(), "" + latencies.nanos(0.5), "" + latencies.nanos(0.99),
                        "" + restores.records, "" + restores.millis(), "" + restores.open()));
                Thread.sleep(STATUS_MILLIS);
            }
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    /** The records that were restored from changelogs, and the time that it took. */
    private static final class Restores implements StateRestoreListener {
        private final AtomicLong records = new AtomicLong();
        private final Set<String> running = ConcurrentHashMap.newKeySet();
        private long began;
        private long busyMillis;

        @Override
        public synchronized void onRestoreStart(TopicPartition topic, String store, long from, long to) {
            if (running.isEmpty()) {
                began = System.currentTimeMillis();
            }
            running.add(store + topic);
        }

        @Override
        public void onBatchRestored(TopicPartition topic, String store, long to, long count) {
            records.addAndGet(count);
        }

        @Override
        public synchronized void onRestoreEnd(TopicPartition topic, String store, long count) {
            end(topic, store);
        }

        @Override
        public synchronized void onRestoreSuspended(TopicPartition topic, String store, long count) {
            end(topic, store);
        }

        private void end(TopicPartition topic, String store) {
            if (running.remove(store + topic) && running.isEmpty()) {
                busyMillis += System.currentTimeMillis() - began;
            }
        }

        synchronized long millis() {
            return busyMillis;
        }

        int open() {
            return running.size();
        }
    }
}
