package cairn.flink;

import java.util.concurrent.atomic.AtomicLongArray;

/** A histogram of durations in nanoseconds, in steps of at most three percent. */
final class Histogram {
    private static final int BITS = 5;

    private final AtomicLongArray counts = new AtomicLongArray(64 << BITS);

    void add(long nanoseconds) {
        counts.incrementAndGet(place(Math.max(nanoseconds, 0)));
    }

    /** The duration in microseconds that the given share of the durations does not exceed. */
    double percentile(double share) {
        long total = 0;
        for (int i = 0; i < counts.length(); i++) {
            total += counts.get(i);
        }
        long left = (long) Math.ceil(total * share);
        for (int i = 0; i < counts.length(); i++) {
            left -= counts.get(i);
            if (left <= 0 && total > 0) {
                return upper(i) / 1000.0;
            }
        }
        return 0;
    }

    private static int place(long value) {
        int shift = Math.max(63 - Long.numberOfLeadingZeros(value | 1) - BITS, 0);
        return (shift << BITS) + (int) (value >>> shift);
    }

    private static long upper(int place) {
        int shift = Math.max((place >> BITS) - 1, 0);
        long value = place - ((long) shift << BITS);
        return ((value + 1) << shift) - 1;
    }
}
