package cairn.streams;

import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;

/** A {@link Broker} in a process of its own. */
final class RunningBroker implements AutoCloseable {
    /** The number of attempts to start it: another process may take one of its ports first. */
    private static final int ATTEMPTS = 3;

    private static final long PATIENCE_MILLIS = 120_000;

    private final Process process;
    private final String address;

    private RunningBroker(Process process, String address) {
        this.process = process;
        this.address = address;
    }

    /** Starts a broker with its data and its log in `work`, and waits until it answers. */
    static RunningBroker start(Path work, List<String> options) throws Exception {
        for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
            int port = freePort();
            List<String> command = new ArrayList<>(List.of(Instance.java()));
            command.addAll(options);
            command.addAll(List.of("-cp", System.getProperty("java.class.path"), Broker.class.getName(),
                    work.resolve("broker").resolve("" + attempt).toString(), "" + port, "" + freePort()));
            Process process = new ProcessBuilder(command).redirectErrorStream(true)
                    .redirectOutput(work.resolve("broker-" + attempt + ".log").toFile()).start();
            Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
            RunningBroker broker = new RunningBroker(process, "localhost:" + port);
            if (broker.answers()) {
                return broker;
            }
            broker.close();
        }
        throw new IllegalStateException("the broker does not start: see broker-" + ATTEMPTS + ".log in " + work);
    }

    /** Waits until the broker answers; false if it ends instead. */
    private boolean answers() throws InterruptedException, ExecutionException {
        long end = System.currentTimeMillis() + PATIENCE_MILLIS;
        try (Admin admin = Comparison.admin(address)) {
            while (process.isAlive() && System.currentTimeMillis() < end) {
                try {
                    admin.describeCluster().clusterId().get(1, TimeUnit.SECONDS);
                    return process.isAlive();
                } catch (TimeoutException waiting) {
                    // It is still starting.
                }
            }
        }
        return false;
    }

    String address() {
        return address;
    }

    @Override
    public void close() throws InterruptedException {
        process.destroyForcibly().waitFor();
    }

    private static int freePort() throws IOException {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }
}
