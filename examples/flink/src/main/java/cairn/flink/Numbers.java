package cairn.flink;

import java.util.Collection;
import java.util.concurrent.CompletableFuture;

import org.apache.flink.api.connector.source.ReaderOutput;
import org.apache.flink.api.connector.source.SourceReader;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.SplitEnumerator;
import org.apache.flink.api.connector.source.SplitEnumeratorContext;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.api.connector.source.lib.util.IteratorSourceEnumerator;
import org.apache.flink.api.connector.source.lib.util.IteratorSourceReaderBase;
import org.apache.flink.core.io.InputStatus;
import org.apache.flink.util.NumberSequenceIterator;

/** The numbers from 0 below a limit, in splits whose number does not depend on the parallelism. */
final class Numbers extends NumberSequenceSource {
    private static final long serialVersionUID = 1L;
    private static final int SPLITS = 16;

    Numbers(long limit) {
        super(0, limit - 1);
    }

    @Override
    public SplitEnumerator<NumberSequenceSplit, Collection<NumberSequenceSplit>> createEnumerator(
            SplitEnumeratorContext<NumberSequenceSplit> context) {
        return new IteratorSourceEnumerator<>(context, splitNumberRange(getFrom(), getTo(), SPLITS));
    }

    @Override
    public SourceReader<Long, NumberSequenceSplit> createReader(SourceReaderContext context) {
        return new Reader(context);
    }

    /** Stops at the limit of the driver; barriers of checkpoints still pass. */
    private static final class Reader
            extends IteratorSourceReaderBase<Long, Long, NumberSequenceIterator, NumberSequenceSplit> {
        Reader(SourceReaderContext context) {
            super(context);
        }

        @Override
        protected Long convert(Long number) {
            Probe.EMITTED.increment();
            return number;
        }

        @Override
        public InputStatus pollNext(ReaderOutput<Long> output) {
            return Probe.untilAllowed() == null ? super.pollNext(output) : InputStatus.NOTHING_AVAILABLE;
        }

        @Override
        public CompletableFuture<Void> isAvailable() {
            CompletableFuture<Void> allowed = Probe.untilAllowed();
            return allowed == null ? super.isAvailable() : allowed;
        }
    }

    /** A hash that spreads the numbers over all values. */
    static long mix(long number) {
        long mixed = (number ^ (number >>> 30)) * 0xbf58476d1ce4e5b9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94d049bb133111ebL;
        return mixed ^ (mixed >>> 31);
    }

    /** The key of a record. */
    static long key(long number, long keys) {
        return Math.floorMod(mix(number), keys);
    }

    /** The amount of a record, from 0 to 999. */
    static long amount(long number) {
        return Math.floorMod(mix(number + 0x9e3779b97f4a7c15L), 1000L);
    }
}
