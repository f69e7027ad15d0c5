package cairn.streams;

import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;

/** The measurements of a run. */
final class Figures {
    private final String engine;
    private final double rate;
    private final double processorMicros;
    private final double p50Micros;
    private final double p99Micros;
    private long restored;
    private double restoreSeconds;
    private double emptyRestoreRate;
    private long peakMib;
    long diskMib;
    int partitionsMoved;

    /** The figures of the first instance, which is about to be killed. */
    Figures(String engine, Instance first) {
        this.engine = engine;
        rate = first.rate();
        processorMicros = first.processorMicros();
        p50Micros = first.status().p50() / 1e3;
        p99Micros = first.status().p99() / 1e3;
        peakMib = first.peakMib();
    }

    void addRestore(Instance instance) {
        restored += instance.status().restored();
        restoreSeconds += instance.status().restoreMillis() / 1e3;
    }

    /** Adds the restoration into stores that drop what they get. */
    void addEmptyRestore(Instance instance) {
        emptyRestoreRate = instance.status().restored() * 1e3 / Math.max(instance.status().restoreMillis(), 1);
    }

    void addMemory(Instance... instances) {
        for (Instance instance : instances) {
            peakMib = Math.max(peakMib, instance.peakMib());
        }
    }

    private double restoreRate() {
        return restored / Math.max(restoreSeconds, 1e-3);
    }

    @Override
    public String toString() {
        return String.format(Locale.ROOT,
                "%s: %.0f records/s, %.0f us of CPU time a record, latency %.0f us, p99 %.0f us, %d records restored "
                        + "in %.1f s, peak memory %d MiB, %d MiB on disk, %d partitions moved",
                engine, rate, processorMicros, p50Micros, p99Micros, restored, restoreSeconds, peakMib, diskMib,
                partitionsMoved);
    }

    /** Prints a table of the medians and their ratios. */
    static void print(List<Figures> all) {
        System.out.printf("%n%-26s %12s %12s %8s%n", "", "rocksdb", "cairn", "ratio");
        row(all, "records/s", figures -> figures.rate);
        row(all, "CPU time, us/record", figures -> figures.processorMicros);
        row(all, "latency p50, us", figures -> figures.p50Micros);
        row(all, "latency p99, us", figures -> figures.p99Micros);
        row(all, "restored records/s", Figures::restoreRate);
        row(all, "restore time, s", figures -> figures.restoreSeconds);
        if (all.stream().anyMatch(figures -> figures.emptyRestoreRate > 0)) {
            row(all, "into empty stores, rec./s", figures -> figures.emptyRestoreRate);
        }
        row(all, "peak memory, MiB", figures -> figures.peakMib);
        row(all, "stores on disk, MiB", figures -> figures.diskMib);
    }

    private static void row(List<Figures> all, String name, ToDoubleFunction<Figures> value) {
        double rocksdb = median(all, "rocksdb", value);
        double cairn = median(all, "cairn", value);
        System.out.printf(Locale.ROOT, "%-26s %12.1f %12.1f %8.2f%n", name, rocksdb, cairn, cairn / rocksdb);
    }

    private static double median(List<Figures> all, String engine, ToDoubleFunction<Figures> value) {
        double[] sorted = all.stream().filter(figures -> figures.engine.equals(engine)).mapToDouble(value).sorted()
                .toArray();
        return sorted[sorted.length / 2];
    }
}
