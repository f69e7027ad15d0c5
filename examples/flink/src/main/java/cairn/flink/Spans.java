package cairn.flink;

import java.util.Properties;

import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.traces.Span;
import org.apache.flink.traces.reporter.TraceReporter;
import org.apache.flink.traces.reporter.TraceReporterFactory;

/** Collects the durations of restores from the spans that Flink reports. */
public final class Spans implements TraceReporter, TraceReporterFactory {
    @Override
    public TraceReporter createTraceReporter(Properties properties) {
        return this;
    }

    @Override
    public void open(MetricConfig config) {}

    @Override
    public void close() {}

    @Override
    public void notifyOfAddedSpan(Span span) {
        if (!span.getName().equals("JobInitialization") || !span.getAttributes().containsKey("checkpointId")) {
            return;
        }
        Object restored = span.getAttributes().get("maxRestoreStateDurationMs");
        if (restored instanceof Long duration) {
            Object download = span.getAttributes().getOrDefault("maxDownloadStateDurationMs", 0L);
            Probe.RESTORES.add(duration + (download instanceof Long more ? more : 0));
        }
    }
}
