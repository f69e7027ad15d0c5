package cairn.flink;

import java.util.concurrent.locks.LockSupport;

import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.java.tuple.Tuple2;

/**
 * Adds to each number the time at which it is due, in nanoseconds. At most {@code rate} numbers a second pass; without
 * a rate they pass at once. A late number keeps the time at which it was due, so that delays count in latencies.
 */
final class Pace implements MapFunction<Long, Tuple2<Long, Long>> {
    private static final long serialVersionUID = 1L;

    private final long interval;
    private transient long due;

    Pace(double rate) {
        interval = rate > 0 ? (long) (1e9 / rate) : 0;
    }

    @Override
    public Tuple2<Long, Long> map(Long number) {
        long now = System.nanoTime();
        if (interval == 0) {
            return Tuple2.of(number, now);
        }
        due = due == 0 ? now : due + interval;
        while (due > now) {
            LockSupport.parkNanos(due - now);
            now = System.nanoTime();
        }
        return Tuple2.of(number, due);
    }
}
