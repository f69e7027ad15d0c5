package cairn.flink;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/** {@code Compare RESULTS}: compares the final states, and prints the measurements as a table in Markdown. */
public final class Compare {
    /** A measurement, its name in the table, and true if larger values are better. */
    private record Row(String key, String name, boolean higherIsBetter) {}

    private static final List<Row> ROWS =
            List.of(
                    new Row("records_per_second", "records/s", true),
                    new Row("cpu_us_per_record", "processor time per record, µs", false),
                    new Row("processing_p99_us", "p99 of a record in the operator, µs", false),
                    new Row("processing_p999_us", "p99.9 of a record in the operator, µs", false),
                    new Row("latency_p99_ms", "p99 latency at a fixed rate, ms", false),
                    new Row("checkpoint_mean_ms", "incremental checkpoint, mean, ms", false),
                    new Row("checkpoint_max_ms", "incremental checkpoint, longest, ms", false),
                    new Row("savepoint_native_ms", "two native savepoints, ms", false),
                    new Row("savepoint_canonical_ms", "two canonical savepoints, ms", false),
                    new Row("restore_mean_ms", "restore, mean, ms", false),
                    new Row("restore_max_ms", "restore, longest, ms", false),
                    new Row("peak_rss_mb", "peak resident memory, MB", false),
                    new Row("state_mb", "largest checkpoint, MB", false));

    private Compare() {}

    public static void main(String[] args) throws IOException {
        Path results = Path.of(args[0]);
        List<Path> states = new ArrayList<>();
        try (Stream<Path> files = Files.list(results)) {
            files.filter(file -> file.toString().endsWith(".state")).sorted().forEach(states::add);
        }
        List<String> first = Files.readAllLines(states.get(0));
        for (Path state : states) {
            List<String> lines = Files.readAllLines(state);
            for (int i = 0; i < Math.max(lines.size(), first.size()); i++) {
                String one = i < lines.size() ? lines.get(i) : "nothing";
                String other = i < first.size() ? first.get(i) : "nothing";
                if (!one.equals(other)) {
                    System.err.printf("%s has %s, %s has %s%n", state, one, states.get(0), other);
                    System.exit(1);
                }
            }
        }
        System.out.printf("%d final states are equal: %s%n%n", states.size(), String.join(", ", first.subList(0, 4)));
        Map<String, Double> rocksdb = measured(results.resolve("rocksdb.measured"));
        Map<String, Double> cairn = measured(results.resolve("cairn.measured"));
        System.out.println("| | RocksDB | Cairn | times better |\n|---|---|---|---|");
        for (Row row : ROWS) {
            double theirs = rocksdb.get(row.key);
            double ours = cairn.get(row.key);
            double ratio = row.higherIsBetter ? ours / theirs : theirs / ours;
            System.out.printf(
                    Locale.ROOT, "| %s | %s | %s | %.2f |%n", row.name, rounded(theirs), rounded(ours), ratio);
        }
    }

    private static Map<String, Double> measured(Path file) throws IOException {
        Map<String, Double> values = new TreeMap<>();
        for (String line : Files.readAllLines(file)) {
            String[] words = line.split(" ");
            values.put(words[0], Double.valueOf(words[1]));
        }
        return values;
    }

    private static String rounded(double value) {
        return String.format(Locale.ROOT, value < 100 ? "%.1f" : "%,.0f", value);
    }
}
