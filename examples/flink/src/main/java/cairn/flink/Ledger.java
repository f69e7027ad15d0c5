package cairn.flink;

import java.time.Duration;
import java.util.Map;

import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.AggregatingState;
import org.apache.flink.api.common.state.AggregatingStateDescriptor;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.state.MapStateDescriptor;
import org.apache.flink.api.common.state.ReducingState;
import org.apache.flink.api.common.state.ReducingStateDescriptor;
import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * An account for each key, in every kind of state. All of it is determined by the set of the records, so that two runs
 * end with the same state even though records of several splits arrive in different orders.
 */
final class Ledger extends KeyedProcessFunction<Long, Tuple2<Long, Long>, String> {
    private static final long serialVersionUID = 1L;
    /** Records of a key after which its list is folded into the account. */
    private static final int FOLD = 16;
    static final Duration SHORT_TTL = Duration.ofMillis(500);
    static final String[] EXPIRING = {"expiring-value", "expiring-list", "expiring-texts", "expiring-map"};

    private final int payload;

    /** Records, their amounts, the digest of folded lists, and a payload that depends on key and records. */
    transient ValueState<Tuple4<Long, Long, Long, byte[]>> account;
    transient ListState<Long> recent;
    transient MapState<Integer, Long> amounts;
    transient ReducingState<Long> largest;
    transient AggregatingState<Long, Long> average;
    transient ValueState<Long> fired;
    transient ValueState<Long> expiringValue;
    transient ListState<Long> expiringList;
    transient ListState<String> expiringTexts;
    transient MapState<Integer, Long> expiringMap;
    transient ValueState<Long> lasting;

    Ledger(int payload) {
        this.payload = payload;
    }

    @Override
    public void open(OpenContext context) {
        var runtime = getRuntimeContext();
        account = runtime.getState(new ValueStateDescriptor<>("account", accountType()));
        recent = runtime.getListState(new ListStateDescriptor<>("recent", Types.LONG));
        amounts = runtime.getMapState(new MapStateDescriptor<>("amounts", Types.INT, Types.LONG));
        largest = runtime.getReducingState(new ReducingStateDescriptor<>("largest", Math::max, Types.LONG));
        average = runtime.getAggregatingState(
                new AggregatingStateDescriptor<>("average", new Average(), Types.TUPLE(Types.LONG, Types.LONG)));
        fired = runtime.getState(new ValueStateDescriptor<>("fired", Types.LONG));
        expiringValue = runtime.getState(with(SHORT_TTL, new ValueStateDescriptor<>(EXPIRING[0], Types.LONG)));
        expiringList = runtime.getListState(with(SHORT_TTL, new ListStateDescriptor<>(EXPIRING[1], Types.LONG)));
        expiringTexts = runtime.getListState(with(SHORT_TTL, new ListStateDescriptor<>(EXPIRING[2], Types.STRING)));
        expiringMap =
                runtime.getMapState(with(SHORT_TTL, new MapStateDescriptor<>(EXPIRING[3], Types.INT, Types.LONG)));
        lasting = runtime.getState(with(Duration.ofDays(30), new ValueStateDescriptor<>("lasting", Types.LONG)));
    }

    private static TypeInformation<Tuple4<Long, Long, Long, byte[]>> accountType() {
        return Types.TUPLE(Types.LONG, Types.LONG, Types.LONG, Types.PRIMITIVE_ARRAY(Types.BYTE));
    }

    private static <D extends StateDescriptor<?, ?>> D with(Duration ttl, D descriptor) {
        descriptor.enableTimeToLive(
                StateTtlConfig.newBuilder(ttl)
                        .cleanupInRocksdbCompactFilter(100)
                        .build());
        return descriptor;
    }

    @Override
    public void processElement(Tuple2<Long, Long> record, Context context, Collector<String> out) throws Exception {
        long begin = System.nanoTime();
        long number = record.f0;
        long amount = Numbers.amount(number);
        Tuple4<Long, Long, Long, byte[]> old = account.value();
        Tuple4<Long, Long, Long, byte[]> now = old == null ? Tuple4.of(0L, 0L, 0L, null) : old;
        now.f0++;
        now.f1 += amount;
        recent.add(number);
        int field = (int) (Numbers.mix(number) >>> 60);
        Long before = amounts.get(field);
        amounts.put(field, before == null ? amount : before + amount);
        largest.add(amount);
        average.add(amount);
        if (now.f0 % FOLD == 0) {
            now.f2 += fold(now);
        }
        now.f3 = payload(context.getCurrentKey(), now.f0);
        account.update(now);
        if ((number & 3) == 0) {
            context.timerService().registerEventTimeTimer(number + Math.floorMod(Numbers.mix(~number), 10_000L));
            expire(number, context.getCurrentKey());
        }
        end(record.f1, begin);
    }

    private static void end(long due, long begin) {
        long end = System.nanoTime();
        Probe.processing.add(end - begin);
        Probe.latency.add(end - due);
        Probe.RECORDS.increment();
        long failAt = Probe.FAIL_AT.get();
        if (failAt > 0 && Probe.RECORDS.sum() >= failAt && Probe.FAIL_AT.compareAndSet(failAt, 0)) {
            throw new IllegalStateException("the failure that the example injects");
        }
    }

    /** Writes the states with a time to live. */
    private void expire(long number, long key) throws Exception {
        expiringValue.update(number);
        expiringList.add(number);
        expiringTexts.add("t".repeat(1 + (int) (number % 7)));
        expiringMap.put((int) (number & 7), number);
        lasting.update(key % 5);
    }

    /** Empties the list of recent records, returns their digest, and checks that all states agree. */
    private long fold(Tuple4<Long, Long, Long, byte[]> now) throws Exception {
        long digest = 0;
        int length = 0;
        for (long number : recent.get()) {
            digest += Numbers.mix(number);
            length++;
        }
        recent.clear();
        long sum = 0;
        for (Map.Entry<Integer, Long> entry : amounts.entries()) {
            sum += entry.getValue();
        }
        if (length != FOLD || sum != now.f1 || average.get() != now.f1 / now.f0) {
            Probe.PROBLEMS.add(now + ": list of " + length + ", amounts " + sum + ", average " + average.get());
        }
        return digest;
    }

    private byte[] payload(long key, long records) {
        byte[] bytes = new byte[payload];
        long random = Numbers.mix(key * 31 + records);
        for (int i = 0; i < bytes.length; i++) {
            random = random * 0x5851f42d4c957f2dL + 1;
            bytes[i] = (byte) (random >>> 56);
        }
        return bytes;
    }

    @Override
    public void onTimer(long timestamp, OnTimerContext context, Collector<String> out) throws Exception {
        Long before = fired.value();
        fired.update((before == null ? 0 : before) + Numbers.mix(timestamp + context.getCurrentKey()));
        Probe.total("timer firings, with those repeated", 1);
    }

    /** Adds the state of the current key to the results. */
    void report(long key) throws Exception {
        Tuple4<Long, Long, Long, byte[]> last = account.value();
        long digest = last.f2;
        for (long number : recent.get()) {
            digest += Numbers.mix(number);
        }
        digest = Numbers.mix(digest) ^ key;
        digest = Numbers.mix(digest + last.f0) ^ last.f1;
        for (byte part : last.f3) {
            digest = digest * 31 + part;
        }
        for (Map.Entry<Integer, Long> entry : amounts.entries()) {
            digest = Numbers.mix(digest + entry.getKey()) + entry.getValue();
        }
        digest = Numbers.mix(digest + largest.get()) + average.get();
        Long timers = fired.value();
        digest = Numbers.mix(digest) + (timers == null ? 0 : timers);
        Probe.bucket((int) (key & 1023), digest);
        Probe.total("records", last.f0);
        Probe.total("amounts", last.f1);
        Probe.total("lasting", lasting.value() == null ? 0 : lasting.value());
    }

    /** The average of amounts, from their number and sum. */
    private static final class Average implements AggregateFunction<Long, Tuple2<Long, Long>, Long> {
        private static final long serialVersionUID = 1L;

        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(Long amount, Tuple2<Long, Long> sums) {
            return Tuple2.of(sums.f0 + 1, sums.f1 + amount);
        }

        @Override
        public Long getResult(Tuple2<Long, Long> sums) {
            return sums.f1 / Math.max(sums.f0, 1);
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> left, Tuple2<Long, Long> right) {
            return Tuple2.of(left.f0 + right.f0, left.f1 + right.f1);
        }
    }
}
