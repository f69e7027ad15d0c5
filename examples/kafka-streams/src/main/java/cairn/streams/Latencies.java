package cairn.streams;

import java.util.concurrent.atomic.AtomicLongArray;

/** A histogram of durations with 16 buckets per power of two. */
final class Latencies {
    private static final int SUB_BITS = 4;

    private final AtomicLongArray buckets = new AtomicLongArray(64 << SUB_BITS);

    void add(long nanos) {
        buckets.getAndIncrement(bucket(nanos));
    }

    private static int bucket(long nanos) {
        int magnitude = 63 - Long.numberOfLeadingZeros(nanos | (1 << SUB_BITS));
        int sub = (int) (nanos >>> (magnitude - SUB_BITS)) & ((1 << SUB_BITS) - 1);
        return (magnitude << SUB_BITS) + sub;
    }

    long count() {
        long all = 0;
        for (int at = 0; at < buckets.length(); at++) {
            all += buckets.get(at);
        }
        return all;
    }

    /** The upper limit of the bucket that the given share of all durations does not exceed. */
    long nanos(double share) {
        long all = count();
        long rest = (long) Math.ceil(all * share);
        for (int at = 0; at < buckets.length(); at++) {
            rest -= buckets.get(at);
            if (rest <= 0 && all > 0) {
                int magnitude = at >>> SUB_BITS;
                long sub = (at & ((1 << SUB_BITS) - 1)) + 1;
                return (1L << magnitude) + (sub << (magnitude - SUB_BITS));
            }
        }
        return 0;
    }
}
