package cairn.streams;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import kafka.Kafka;
import kafka.tools.StorageTool;
import org.apache.kafka.common.Uuid;

/** A Kafka broker of one node, which is its own controller. Arguments: a folder and two ports. */
public final class Broker {
    private Broker() {}

    public static void main(String[] arguments) throws Exception {
        Comparison.endWithParent();
        Path folder = Path.of(arguments[0]);
        Files.createDirectories(folder);
        Path properties = folder.resolve("server.properties");
        Files.write(properties, properties(folder.resolve("data"), arguments[1], arguments[2]));
        String[] format = {"format", "-t", Uuid.randomUuid().toString(), "-c", properties.toString()};
        if (StorageTool.execute(format, System.err) != 0) {
            throw new IllegalStateException("the folder of the broker cannot be formatted");
        }
        Kafka.main(new String[] {properties.toString()});
    }

    private static List<String> properties(Path data, String port, String controllerPort) {
        return List.of(
                "process.roles=broker,controller",
                "node.id=1",
                "controller.quorum.voters=1@localhost:" + controllerPort,
                "controller.listener.names=CONTROLLER",
                "listeners=PLAINTEXT://localhost:" + port + ",CONTROLLER://localhost:" + controllerPort,
                "advertised.listeners=PLAINTEXT://localhost:" + port,
                "log.dirs=" + data,
                // Replication of internal topics, for one node.
                "offsets.topic.replication.factor=1",
                "offsets.topic.num.partitions=1",
                "transaction.state.log.replication.factor=1",
                "transaction.state.log.min.isr=1",
                "transaction.state.log.num.partitions=1",
                "share.coordinator.state.topic.replication.factor=1",
                "share.coordinator.state.topic.min.isr=1",
                // A killed instance leaves its group and its transactions soon.
                "group.initial.rebalance.delay.ms=0",
                "group.min.session.timeout.ms=1000",
                "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
                // Changelogs are restored completely, independently of the cleaner.
                "log.retention.ms=-1",
                "log.cleaner.backoff.ms=3600000",
                "log.cleaner.min.compaction.lag.ms=86400000",
                "log.segment.bytes=268435456");
    }
}
