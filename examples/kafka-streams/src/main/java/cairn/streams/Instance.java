package cairn.streams;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** A running {@link Application}, as the comparison sees it. */
final class Instance implements AutoCloseable {
    /** A line of status. */
    record Status(String state, int partitions, long processed, long p50, long p99, long restored, long restoreMillis,
            int restoring) {
        static Status parse(String line) {
            String[] words = line.split(" ");
            return new Status(words[1], Integer.parseInt(words[2]), Long.parseLong(words[3]), Long.parseLong(words[4]),
                    Long.parseLong(words[5]), Long.parseLong(words[6]), Long.parseLong(words[7]),
                    Integer.parseInt(words[8]));
        }

        boolean settled() {
            return state.equals("RUNNING") && partitions > 0 && restoring == 0;
        }
    }

    private final Process process;
    private final String name;
    private final Path log;
    private Status status = new Status("STARTING", 0, 0, 0, 0, 0, 0, 0);
    private String library = "";
    private boolean answered;
    private long firstNanos;
    private long firstProcessed;
    private long statusNanos;
    private long firstTicks;
    private long ticks;
    private long peakKib;

    /** Starts an instance with the native library in `libraries`. */
    Instance(Path libraries, Map<String, String> properties, List<String> options, Path folder) throws IOException {
        name = properties.get("application") + "-" + properties.get("instance");
        log = folder.resolve(name + ".log");
        List<String> command = new ArrayList<>(List.of(java(), "-Djava.library.path=" + libraries));
        command.addAll(options);
        properties.forEach((key, value) -> command.add("-D" + key + "=" + value));
        command.add("-Dstate=" + folder.resolve(name));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Application.class.getName()));
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.appendTo(log.toFile())).start();
        Thread reader = new Thread(this::read, name);
        reader.setDaemon(true);
        reader.start();
    }

    static String java() {
        return Path.of(System.getProperty("java.home"), "bin", "java").toString();
    }

    private void read() {
        try (BufferedReader lines = process.inputReader()) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                accept(line);
            }
        } catch (IOException ended) {
            // The process was killed.
        }
    }

    private synchronized void accept(String line) throws IOException {
        if (line.startsWith("status ")) {
            status = Status.parse(line);
            statusNanos = System.nanoTime();
            ticks = processorTicks();
            if (firstNanos == 0 && status.processed > 0) {
                firstNanos = statusNanos;
                firstProcessed = status.processed;
                firstTicks = ticks;
            }
            peakKib = Math.max(peakKib, memory("VmHWM"));
        } else if (line.startsWith("library ")) {
            library = line.substring("library ".length());
        } else if (line.equals("answered")) {
            answered = true;
        }
        notifyAll();
    }

    /** The processor time of the process in hundredths of a second: the fields utime and stime. */
    private long processorTicks() throws IOException {
        Path file = Path.of("/proc", "" + process.pid(), "stat");
        if (!Files.exists(file)) {
            return ticks;
        }
        String line = Files.readString(file);
        String[] fields = line.substring(line.lastIndexOf(')') + 2).split(" ");
        return Long.parseLong(fields[11]) + Long.parseLong(fields[12]);
    }

    private long memory(String field) throws IOException {
        Path file = Path.of("/proc", "" + process.pid(), "status");
        if (!Files.exists(file)) {
            return 0;
        }
        for (String line : Files.readAllLines(file)) {
            if (line.startsWith(field)) {
                return Long.parseLong(line.replaceAll("[^0-9]", ""));
            }
        }
        return 0;
    }

    synchronized Status status() {
        if (!process.isAlive() || status.state.equals("ERROR") || status.state.equals("NOT_RUNNING")) {
            throw new IllegalStateException(name + " ended: see " + log);
        }
        return status;
    }

    /** Path and version of the native library. */
    synchronized String library() {
        return library;
    }

    /** Records a second, from the first status with records to the last one. */
    synchronized double rate() {
        return (status.processed - firstProcessed) * 1e9 / Math.max(1, statusNanos - firstNanos);
    }

    /** Processor time of all threads in microseconds a record, in the same period. */
    synchronized double processorMicros() {
        return (ticks - firstTicks) * 10_000.0 / Math.max(1, status.processed - firstProcessed);
    }

    /** The maximum of the resident memory. */
    synchronized long peakMib() {
        return peakKib >> 10;
    }

    /** Writes the answers to all queries of the instance's partitions into `folder`. */
    synchronized void answer(Path folder) throws IOException, InterruptedException {
        answered = false;
        send("answers " + folder);
        while (!answered) {
            status();
            wait(1000);
        }
    }

    /** True if the instance could not open a store because its own process has it open. */
    boolean metLockedStore() throws IOException {
        return Files.readString(log).contains("/LOCK: ");
    }

    /** Ends the process without any chance to close its stores. */
    void kill() throws InterruptedException {
        process.destroyForcibly();
        process.waitFor();
    }

    void stop() throws IOException, InterruptedException {
        send("stop");
        if (!process.waitFor(60, TimeUnit.SECONDS) || process.exitValue() != 0) {
            throw new IllegalStateException(name + " did not stop: see " + log);
        }
    }

    private void send(String command) throws IOException {
        OutputStream input = process.getOutputStream();
        input.write((command + "\n").getBytes(StandardCharsets.UTF_8));
        input.flush();
    }

    @Override
    public void close() {
        process.destroyForcibly();
    }
}
