package cairn.flink;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

/** Counts and signals that the operators share with the driver; both run in the JVM of the mini cluster. */
final class Probe {
    /** Records that operators processed, those repeated after a failure included. */
    static final LongAdder RECORDS = new LongAdder();
    /** Records that sources emitted, and the number at which they stop. */
    static final LongAdder EMITTED = new LongAdder();
    private static volatile long limit = Long.MAX_VALUE;
    private static volatile CompletableFuture<Void> raised = new CompletableFuture<>();
    /** Time from a record's due time to the end of its processing. */
    static volatile Histogram latency = new Histogram();
    /** Time of a record in the operator, with all accesses to the state. */
    static volatile Histogram processing = new Histogram();
    /** The number of records after which an operator fails once; zero for no failure. */
    static final AtomicLong FAIL_AT = new AtomicLong();
    /** The final state by bucket of keys: the number of keys and the sum of their digests. */
    static final Map<Integer, long[]> BUCKETS = new ConcurrentHashMap<>();
    /** Sums over all keys: records, amounts, timers that fired, and counts of state with a time to live. */
    static final Map<String, LongAdder> TOTALS = new ConcurrentHashMap<>();
    /** The durations of restoring the state, in milliseconds. */
    static final List<Long> RESTORES = new CopyOnWriteArrayList<>();
    /** A failed check in an operator. */
    static final ConcurrentLinkedQueue<String> PROBLEMS = new ConcurrentLinkedQueue<>();

    private Probe() {}

    /** Lets the sources emit {@code count} further records. */
    static void allow(long count) {
        limit = count == Long.MAX_VALUE ? count : EMITTED.sum() + count;
        CompletableFuture<Void> waiting = raised;
        raised = new CompletableFuture<>();
        waiting.complete(null);
    }

    /** Returns null if the sources may emit, or a future that completes when they may. */
    static CompletableFuture<Void> untilAllowed() {
        // Read before the limit: one that is raised in between completes it.
        CompletableFuture<Void> waiting = raised;
        return EMITTED.sum() >= limit ? waiting : null;
    }

    static void total(String name, long amount) {
        TOTALS.computeIfAbsent(name, ignored -> new LongAdder()).add(amount);
    }

    static void bucket(int bucket, long digest) {
        BUCKETS.compute(bucket, (ignored, sums) -> {
            long[] both = sums == null ? new long[2] : sums;
            both[0]++;
            both[1] += digest;
            return both;
        });
    }
}
