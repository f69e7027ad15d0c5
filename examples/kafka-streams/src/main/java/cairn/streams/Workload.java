package cairn.streams;

import java.nio.ByteBuffer;
import java.time.Duration;

/**
 * The events of a run, as a function of their number: the same for both libraries and in every run.
 *
 * <p>Half of the events belong to a twentieth of the users. Their times extend over {@link #SPAN}, so that old windows
 * expire, and are up to four seconds out of order.
 */
record Workload(long events, int users, int partitions, long start) {
    static final String TOPIC = "events";
    static final Duration SPAN = Duration.ofHours(2);
    static final int VALUE_BYTES = 100;

    private static final byte[] DIGITS = "0123456789abcdef".getBytes();

    String user(long event) {
        long random = mix(event);
        long range = (random & 1) == 0 ? users : Math.max(1, users / 20);
        return name(Long.remainderUnsigned(random >>> 1, range));
    }

    static String name(long user) {
        String digits = Long.toString(user);
        return "user-" + "00000000".substring(digits.length()) + digits;
    }

    long timestamp(long event) {
        long regular = start + event * SPAN.toMillis() / events;
        return regular - (mix(event + events) & 4095);
    }

    /** The number of the event, an amount and text. */
    static byte[] value(long event) {
        ByteBuffer value = ByteBuffer.allocate(VALUE_BYTES);
        long random = mix(~event);
        value.putLong(event).putLong(random & 0xffff);
        while (value.hasRemaining()) {
            value.put(DIGITS[(int) (random & 15)]);
            random = value.position() % 16 == 0 ? mix(random) : random >>> 4;
        }
        return value.array();
    }

    int partition(String user) {
        return Math.floorMod(user.hashCode(), partitions);
    }

    private static long mix(long number) {
        long mixed = (number + 1) * 0x9e3779b97f4a7c15L;
        mixed = (mixed ^ (mixed >>> 30)) * 0xbf58476d1ce4e5b9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94d049bb133111ebL;
        return mixed ^ (mixed >>> 31);
    }
}
