package cairn.flink;

/** The same tests with full checkpoints. */
class RocksDBTtlFullSnapshotTest extends RocksDBTtlTest {
    @Override
    boolean isIncremental() {
        return false;
    }
}
