package cairn.bench;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * Runs {@link Operations} with two native libraries in alternating forks, and prints times, processor times, ratios and
 * allocation for each operation.
 *
 * <p>Arguments: the folders of RocksDB's and Cairn's library, the number of rounds, the number of iterations of a fork,
 * and optionally names of operations.
 */
public final class Compare {
    private static final List<String> OPERATIONS = List.of("emptyCall", "getFromEmpty", "get", "getIntoArray",
            "getDirect", "multiGet32", "seekAnd10", "scan", "putLogged", "batch100");

    private Compare() {}

    public static void main(String[] arguments) throws RunnerException {
        String[] libraries = {arguments[0], arguments[1]};
        int rounds = Integer.parseInt(arguments[2]);
        int iterations = Integer.parseInt(arguments[3]);
        List<String> operations = arguments.length > 4 ? List.of(arguments).subList(4, arguments.length) : OPERATIONS;
        System.out.printf("%-14s %12s %12s %8s %12s %12s %8s %10s %10s%n", "", "rocksdb, ns", "cairn, ns", "faster",
                "rocksdb, CPU", "cairn, CPU", "less", "rocksdb, B", "cairn, B");
        for (String operation : operations) {
            List<List<RunResult>> results = List.of(new ArrayList<>(), new ArrayList<>());
            for (int round = 0; round < rounds; round++) {
                for (int at = 0; at < libraries.length; at++) {
                    // Neither library is always the first.
                    int library = (at + round) % 2;
                    results.get(library).add(fork(operation, libraries[library], iterations));
                }
            }
            double[] times = medians(results, result -> result.getPrimaryResult().getScore());
            double[] cpu = medians(results, result -> secondary(result, CpuTime.NAME));
            double[] allocated = medians(results, result -> secondary(result, "gc.alloc.rate.norm"));
            System.out.printf(Locale.ROOT, "%-14s %12.1f %12.1f %8.2f %12.1f %12.1f %8.2f %10.1f %10.1f%n", operation,
                    times[0], times[1], times[0] / times[1], cpu[0], cpu[1], cpu[0] / cpu[1], allocated[0],
                    allocated[1]);
        }
    }

    private static double secondary(RunResult result, String name) {
        return result.getSecondaryResults().get(name).getScore();
    }

    private static double[] medians(List<List<RunResult>> results, ToDoubleFunction<RunResult> value) {
        return results.stream().mapToDouble(library -> {
            double[] sorted = library.stream().mapToDouble(value).sorted().toArray();
            return sorted[sorted.length / 2];
        }).toArray();
    }

    private static RunResult fork(String operation, String libraries, int iterations) throws RunnerException {
        Collection<RunResult> results = new Runner(new OptionsBuilder()
                .include(Operations.class.getName() + "\\." + operation + "$")
                .forks(1)
                .warmupIterations(2).warmupTime(TimeValue.seconds(1))
                .measurementIterations(iterations).measurementTime(TimeValue.seconds(1))
                .addProfiler(GCProfiler.class).addProfiler(CpuTime.class)
                .jvmArgsAppend("-Djava.library.path=" + libraries, "-Xmx512m", "-XX:+UseSerialGC")
                .verbosity(VerboseMode.SILENT).shouldFailOnError(true).build()).run();
        return results.iterator().next();
    }
}
