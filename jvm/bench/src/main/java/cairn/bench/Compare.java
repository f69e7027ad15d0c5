package cairn.bench;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * Runs {@link Operations} with two native libraries in alternating forks, and prints times, ratios and allocation.
 *
 * <p>Arguments: the folders of RocksDB's and Cairn's library, the number of rounds, the number of iterations of a fork, and
 * optionally names of operations.
 */
public final class Compare {
    private static final List<String> OPERATIONS = List.of("emptyCall", "get", "getIntoArray", "getDirect", "multiGet32",
            "seekAnd10", "scan", "putLogged", "batch100");

    private Compare() {}

    public static void main(String[] arguments) throws RunnerException {
        String[] libraries = {arguments[0], arguments[1]};
        int rounds = Integer.parseInt(arguments[2]);
        int iterations = Integer.parseInt(arguments[3]);
        List<String> operations = arguments.length > 4 ? List.of(arguments).subList(4, arguments.length) : OPERATIONS;
        System.out.printf("%-14s %12s %12s %8s %14s %14s%n", "", "rocksdb, ns", "cairn, ns", "faster", "rocksdb, bytes",
                "cairn, bytes");
        for (String operation : operations) {
            List<List<Double>> times = List.of(new ArrayList<>(), new ArrayList<>());
            double[] allocated = new double[2];
            for (int round = 0; round < rounds; round++) {
                for (int at = 0; at < libraries.length; at++) {
                    // Neither library is always the first.
                    int library = (at + round) % 2;
                    RunResult result = fork(operation, libraries[library], iterations);
                    times.get(library).add(result.getPrimaryResult().getScore());
                    allocated[library] = result.getSecondaryResults().get("gc.alloc.rate.norm").getScore();
                }
            }
            double rocksdb = median(times.get(0));
            double cairn = median(times.get(1));
            System.out.printf(Locale.ROOT, "%-14s %12.1f %12.1f %8.2f %14.1f %14.1f%n", operation, rocksdb, cairn,
                    rocksdb / cairn, allocated[0], allocated[1]);
        }
    }

    private static RunResult fork(String operation, String libraries, int iterations) throws RunnerException {
        Collection<RunResult> results = new Runner(new OptionsBuilder()
                .include(Operations.class.getName() + "\\." + operation + "$")
                .forks(1)
                .warmupIterations(2).warmupTime(TimeValue.seconds(1))
                .measurementIterations(iterations).measurementTime(TimeValue.seconds(1))
                .addProfiler(GCProfiler.class)
                .jvmArgsAppend("-Djava.library.path=" + libraries, "-Xmx512m", "-XX:+UseSerialGC")
                .verbosity(VerboseMode.SILENT).shouldFailOnError(true).build()).run();
        return results.iterator().next();
    }

    private static double median(List<Double> values) {
        return values.stream().sorted().skip(values.size() / 2).findFirst().orElseThrow();
    }
}
