package cairn.flink;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;

import org.apache.flink.api.common.JobID;
import org.apache.flink.api.common.JobStatus;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.CheckpointType;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.CheckpointStatsSnapshot;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.jobgraph.SavepointRestoreSettings;
import org.apache.flink.runtime.jobmaster.JobResult;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A cluster of four task managers with one slot each, and the jobs on it. */
final class Cluster implements AutoCloseable {
    private static final int TASK_MANAGERS = 4;

    private final Sizes sizes;
    private final Path directory;
    private final MiniCluster cluster;

    Cluster(Sizes sizes, Path directory) throws Exception {
        this.sizes = sizes;
        this.directory = directory;
        Configuration configuration =
                Configuration.fromMap(
                        Map.of(
                                "taskmanager.memory.managed.size", sizes.managedMegabytes() + "m",
                                "web.checkpoints.history", "100000",
                                "taskmanager.memory.network.min", "32m",
                                "taskmanager.memory.network.max", "32m",
                                "rest.port", "0",
                                "io.tmp.dirs", directory.resolve("tmp").toString(),
                                "traces.reporters", "example",
                                "traces.reporter.example.factory.class", Spans.class.getName()));
        cluster =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setConfiguration(configuration)
                                .setNumTaskManagers(TASK_MANAGERS)
                                .setNumSlotsPerTaskManager(1)
                                .build());
        cluster.start();
    }

    /** Submits the job, from a savepoint or checkpoint unless {@code from} is null. */
    JobID submit(int parallelism, String from, double rate, boolean ingest) throws Exception {
        Configuration configuration = new Configuration();
        for (String[] setting : settings()) {
            configuration.setString(setting[0], setting[1]);
        }
        configuration.setString("state.backend.rocksdb.use-ingest-db-restore-mode", String.valueOf(ingest));
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.getExecutionEnvironment(configuration);
        environment.setParallelism(parallelism);
        environment.setMaxParallelism(128);
        environment.enableCheckpointing(sizes.checkpointMillis());
        if (rate > 0) {
            environment.setBufferTimeout(2);
        }
        long keys = sizes.keys();
        environment
                .fromSource(
                        new Numbers(sizes.records()),
                        WatermarkStrategy.<Long>forMonotonousTimestamps()
                                .withTimestampAssigner((number, ignored) -> number),
                        "numbers")
                .uid("numbers")
                .map(new Pace(rate / parallelism))
                .returns(Types.TUPLE(Types.LONG, Types.LONG))
                .uid("pace")
                .keyBy(record -> Numbers.key(record.f0, keys), Types.LONG)
                .transform("ledger", Types.STRING, new LedgerOperator(new Ledger(sizes.payload())))
                .uid("ledger")
                .sinkTo(new DiscardingSink<>())
                .uid("sink");
        JobGraph graph = environment.getStreamGraph().getJobGraph();
        if (from != null) {
            graph.setSavepointRestoreSettings(SavepointRestoreSettings.forPath(from, false));
        }
        cluster.submitJob(graph).get();
        return graph.getJobID();
    }

    private String[][] settings() {
        return new String[][] {
            {"state.backend.type", "rocksdb"},
            {"state.backend.rocksdb.timer-service.factory", "ROCKSDB"},
            {"state.backend.rocksdb.localdir", directory.resolve("state").toString()},
            {"state.backend.rocksdb.memory.managed", "true"},
            {"execution.checkpointing.incremental", "true"},
            {"execution.checkpointing.storage", "filesystem"},
            {"execution.checkpointing.dir", directory.resolve("checkpoints").toUri().toString()},
            {"execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION"},
            {"execution.checkpointing.timeout", "10 min"},
            {"restart-strategy.type", "fixed-delay"},
            {"restart-strategy.fixed-delay.attempts", "1"},
            {"restart-strategy.fixed-delay.delay", "0 s"},
        };
    }

    /** Takes an incremental checkpoint. */
    void checkpoint(JobID job) throws Exception {
        cluster.triggerCheckpoint(job, CheckpointType.INCREMENTAL).get();
    }

    /** Takes an incremental checkpoint, cancels the job, and returns the path of the checkpoint. */
    String cancelAfterCheckpoint(JobID job) throws Exception {
        checkpoint(job);
        String path = statistics(job).getHistory().getLatestCompletedCheckpoint().getExternalPath();
        cluster.cancelJob(job).get();
        cluster.requestJobResult(job).get();
        return path;
    }

    /** Stops the job with a savepoint and returns its path. */
    String stop(JobID job, SavepointFormatType format) throws Exception {
        String savepoints = directory.resolve("savepoints").toUri().toString();
        String path = cluster.stopWithSavepoint(job, savepoints, false, format).get();
        cluster.requestJobResult(job).get();
        return path;
    }

    /** Waits for the job's end, which must be that of its input. */
    void finish(JobID job) throws Exception {
        JobResult result = cluster.requestJobResult(job).get();
        if (!result.isSuccess()) {
            throw new IllegalStateException("the job failed", result.getSerializedThrowable().orElse(null));
        }
    }

    /** Waits until operators have processed the given number of records. */
    void await(JobID job, long records) throws Exception {
        while (Probe.RECORDS.sum() < records) {
            JobStatus status = cluster.getJobStatus(job).get();
            if (status.isTerminalState()) {
                finish(job);
                throw new IllegalStateException("the job is " + status + " after " + Probe.RECORDS.sum() + " records");
            }
            Thread.sleep(Duration.ofMillis(5).toMillis());
        }
    }

    /** Waits until all tasks of the job run again after they were restored from a checkpoint. */
    void awaitRestored(JobID job) throws Exception {
        while (statistics(job).getCounts().getNumberOfRestoredCheckpoints() == 0 || !isRunning(job)) {
            Thread.sleep(5);
        }
    }

    private boolean isRunning(JobID job) throws Exception {
        for (AccessExecutionVertex task : cluster.getExecutionGraph(job).get().getAllExecutionVertices()) {
            if (task.getExecutionState() != ExecutionState.RUNNING) {
                return false;
            }
        }
        return true;
    }

    CheckpointStatsSnapshot statistics(JobID job) throws Exception {
        AccessExecutionGraph graph = cluster.getExecutionGraph(job).get();
        return graph.getCheckpointStatsSnapshot();
    }

    @Override
    public void close() throws Exception {
        cluster.close();
    }
}
