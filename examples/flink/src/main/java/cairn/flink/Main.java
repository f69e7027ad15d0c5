package cairn.flink;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;

import org.apache.flink.api.common.JobID;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.AbstractCheckpointStats;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.runtime.checkpoint.CompletedCheckpointStats;

/**
 * One process of the example: {@code Main SIZE RESULTS ENGINE TASK...}. {@code RESULTS} is a folder that all processes
 * of a comparison share, {@code ENGINE} the one whose native library this process must use, {@code cairn} or
 * {@code rocksdb}. Tasks are {@code run}, which measures, and {@code exchange}, which begins jobs, or continues those
 * that the other engine handed over; {@code finish} lets them end.
 */
public final class Main {
    /** The ways in which one engine hands a job to the other. */
    private enum Handover {
        NATIVE,
        CANONICAL,
        CHECKPOINT
    }

    /** A part of a run: with this parallelism, until this share of the records has been processed, and its end. */
    private record Leg(int parallelism, double share, Handover end) {}

    /** From two subtasks to four and to one, by each kind of handover. */
    private static final List<Leg> LEGS =
            List.of(
                    new Leg(2, 0.08, Handover.CHECKPOINT),
                    new Leg(4, 0.10, Handover.CHECKPOINT),
                    new Leg(1, 0.04, Handover.NATIVE),
                    new Leg(2, 0.36, Handover.NATIVE),
                    new Leg(4, 0.10, Handover.CANONICAL),
                    new Leg(1, 0.04, Handover.CANONICAL));

    private final Sizes sizes;
    private final Path results;
    private final String engine;
    private final Map<String, Double> measured = new TreeMap<>();
    private final List<Long> checkpoints = new ArrayList<>();
    private double seconds;
    private long records;
    private long stateBytes;

    private Main(Sizes sizes, Path results, String engine) {
        this.sizes = sizes;
        this.results = results;
        this.engine = engine;
    }

    public static void main(String[] args) throws Exception {
        Sizes sizes = Sizes.named(args[0]);
        Main main = new Main(sizes, Path.of(args[1]), args[2]);
        Path work = Files.createTempDirectory(main.results, args[2]);
        try (Cluster cluster = new Cluster(sizes, work)) {
            for (String task : List.of(args).subList(3, args.length)) {
                long begin = System.nanoTime();
                switch (task) {
                    case "run" -> main.run(cluster);
                    case "exchange" -> main.exchange(cluster, false);
                    case "finish" -> main.exchange(cluster, true);
                    default -> throw new IllegalArgumentException("run, exchange or finish, not " + task);
                }
                System.out.printf("%s: %s took %.1f s%n", args[2], task, (System.nanoTime() - begin) / 1e9);
            }
        }
        if (!Probe.PROBLEMS.isEmpty()) {
            throw new IllegalStateException(Probe.PROBLEMS.size() + " states disagree: " + Probe.PROBLEMS.peek());
        }
        // Threads of the cluster that do not end must not keep the process.
        System.exit(0);
    }

    /** Runs all legs, the last one paced, and writes results and measurements. */
    private void run(Cluster cluster) throws Exception {
        String from = null;
        for (int i = 0; i < LEGS.size(); i++) {
            from = leg(cluster, LEGS.get(i), from, i == 0);
        }
        measured.put("processing_p99_us", Probe.processing.percentile(0.99));
        measured.put("processing_p999_us", Probe.processing.percentile(0.999));
        Probe.latency = new Histogram();
        Probe.allow(Long.MAX_VALUE);
        JobID job = cluster.submit(2, from, sizes.rate(), false);
        cluster.finish(job);
        measured.put("latency_p50_ms", Probe.latency.percentile(0.5) / 1000);
        measured.put("latency_p99_ms", Probe.latency.percentile(0.99) / 1000);
        noteCheckpoints(cluster.statistics(job));
        measured.put("records_per_second", records / seconds);
        measured.put("checkpoints", (double) checkpoints.size());
        measured.put("checkpoint_mean_ms", checkpoints.stream().mapToLong(Long::longValue).average().orElseThrow());
        measured.put("checkpoint_max_ms", (double) Collections.max(checkpoints));
        measured.put("state_mb", stateBytes / 1e6);
        measured.put("restores", (double) Probe.RESTORES.size());
        measured.put("restore_mean_ms", Probe.RESTORES.stream().mapToLong(Long::longValue).average().orElseThrow());
        measured.put("restore_max_ms", (double) Collections.max(Probe.RESTORES));
        measured.put("cpu_us_per_record", cpuSeconds() * 1e6 / Probe.RECORDS.sum());
        measured.put("peak_rss_mb", status("VmHWM:") / 1000.0);
        checkLibrary();
        Stream<Map.Entry<String, Double>> figures = measured.entrySet().stream();
        write("measured", figures.map(one -> String.format(Locale.ROOT, "%s %.3f", one.getKey(), one.getValue())));
        writeState("run");
    }

    /** Runs one leg and returns the path from which the next can start. */
    private String leg(Cluster cluster, Leg leg, String from, boolean failing) throws Exception {
        long before = Probe.RECORDS.sum();
        long count = (long) (sizes.records() * leg.share);
        Probe.allow(failing ? count / 2 : count);
        JobID job = cluster.submit(leg.parallelism, from, 0, false);
        cluster.await(job, before + 1);
        long begin = System.nanoTime();
        if (failing) {
            cluster.await(job, before + count / 2);
            cluster.checkpoint(job);
            Probe.FAIL_AT.set(Probe.RECORDS.sum() + count / 4);
            Probe.allow(count);
            cluster.awaitRestored(job);
            // Records that were emitted before the failure may not have arrived.
            Probe.allow(count);
        }
        cluster.await(job, before + count);
        if (failing) {
            System.out.println(engine + ": recovered from a failure");
        } else {
            seconds += (System.nanoTime() - begin) / 1e9;
            records += Probe.RECORDS.sum() - before;
        }
        long stop = System.nanoTime();
        String path = handOver(cluster, job, leg.end);
        if (leg.end != Handover.CHECKPOINT) {
            String name = "savepoint_" + leg.end.name().toLowerCase(Locale.ROOT) + "_ms";
            measured.merge(name, (System.nanoTime() - stop) / 1e6, Double::sum);
        }
        System.out.printf(
                "%s: %d subtasks processed %d records in %.1f s; %s in %.1f s%n",
                engine,
                leg.parallelism,
                Probe.RECORDS.sum() - before,
                (stop - begin) / 1e9,
                leg.end.name().toLowerCase(Locale.ROOT),
                (System.nanoTime() - stop) / 1e9);
        noteCheckpoints(cluster.statistics(job));
        return path;
    }

    private static String handOver(Cluster cluster, JobID job, Handover end) throws Exception {
        return switch (end) {
            case NATIVE -> cluster.stop(job, SavepointFormatType.NATIVE);
            case CANONICAL -> cluster.stop(job, SavepointFormatType.CANONICAL);
            case CHECKPOINT -> cluster.cancelAfterCheckpoint(job);
        };
    }

    private void noteCheckpoints(CheckpointStatsSnapshot statistics) {
        for (AbstractCheckpointStats checkpoint : statistics.getHistory().getCheckpoints()) {
            if (checkpoint instanceof CompletedCheckpointStats && !checkpoint.getProperties().isSavepoint()) {
                checkpoints.add(checkpoint.getEndToEndDuration());
                stateBytes = Math.max(stateBytes, checkpoint.getStateSize());
            }
        }
    }

    /**
     * Continues the jobs that the other engine handed over, or begins them, one for each kind of handover. Hands them
     * over in the same way; {@code last} lets them end.
     */
    private void exchange(Cluster cluster, boolean last) throws Exception {
        for (Handover handover : Handover.values()) {
            Path note = results.resolve("handed-over-" + handover);
            String from = Files.exists(note) ? Files.readString(note) : null;
            long before = Probe.RECORDS.sum();
            long count = sizes.records() / 4;
            Probe.allow(last ? Long.MAX_VALUE : count);
            Probe.BUCKETS.clear();
            Probe.TOTALS.clear();
            JobID job = cluster.submit(handover == Handover.CANONICAL ? 1 : 2, from, 0, handover == Handover.NATIVE);
            if (last) {
                cluster.finish(job);
                writeState("exchange-" + handover);
            } else {
                cluster.await(job, before + count);
                Files.writeString(note, handOver(cluster, job, handover));
            }
        }
    }

    /** Compares the totals with those of the input, and writes the digests of the state. */
    private void writeState(String name) throws IOException {
        long amounts = 0;
        for (long number = 0; number < sizes.records(); number++) {
            amounts += Numbers.amount(number);
        }
        expect("records", sizes.records());
        expect("amounts", amounts);
        expect("entries of expired states", 0);
        Stream<String> buckets =
                new TreeMap<>(Probe.BUCKETS)
                        .entrySet().stream()
                                .map(entry -> entry.getKey() + " " + entry.getValue()[0] + " " + entry.getValue()[1]);
        Stream<String> totals =
                Stream.of("records", "amounts", "lasting", "entries of lasting state")
                        .map(total -> total + " " + Probe.TOTALS.get(total).sum());
        write(name + ".state", Stream.concat(totals, buckets));
        write(name + ".totals", new TreeMap<>(Probe.TOTALS).entrySet().stream().map(Object::toString));
    }

    private static void expect(String total, long expected) {
        long found = Probe.TOTALS.get(total).sum();
        if (found != expected) {
            throw new IllegalStateException(total + ": " + found + " instead of " + expected);
        }
    }

    /** Checks that this process uses the library of the engine: Cairn's comes from {@code java.library.path}. */
    private void checkLibrary() throws IOException {
        List<String> libraries;
        try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
            libraries =
                    maps.filter(line -> line.contains("librocksdbjni"))
                            .map(line -> line.substring(line.indexOf('/')))
                            .distinct()
                            .collect(Collectors.toList());
        }
        String path = System.getProperty("java.library.path");
        boolean ours = libraries.size() == 1 && Path.of(libraries.get(0)).getParent().equals(Path.of(path));
        if (libraries.isEmpty() || ours != engine.equals("cairn")) {
            throw new IllegalStateException(engine + " uses the libraries " + libraries);
        }
        System.out.println(engine + ": " + libraries);
    }

    /** The processor time of this process, the start of the JVM and of the cluster included. */
    private static double cpuSeconds() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime() / 1e9;
    }

    private static long status(String field) throws IOException {
        try (Stream<String> lines = Files.lines(Path.of("/proc/self/status"))) {
            String line = lines.filter(candidate -> candidate.startsWith(field)).findFirst().orElseThrow();
            return Long.parseLong(line.replaceAll("\\D", ""));
        }
    }

    private void write(String name, Stream<String> lines) throws IOException {
        Files.write(results.resolve(engine + "." + name), lines.toList());
    }
}
