package cairn.flink;

import java.nio.file.Files;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.CheckpointStorage;
import org.apache.flink.runtime.state.StateBackendMigrationTestBase;
import org.apache.flink.runtime.state.storage.FileSystemCheckpointStorage;
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend;
import org.apache.flink.testutils.junit.extensions.parameterized.NoOpTestExtension;
import org.junit.jupiter.api.extension.ExtendWith;

/** Flink's tests of state whose serializers change, on RocksDB. */
@ExtendWith(NoOpTestExtension.class)
class RocksDBMigrationTest extends StateBackendMigrationTestBase<EmbeddedRocksDBStateBackend> {
    @Override
    protected EmbeddedRocksDBStateBackend getStateBackend() throws Exception {
        EmbeddedRocksDBStateBackend backend = new EmbeddedRocksDBStateBackend(true);
        backend = backend.configure(new Configuration(), RocksDBMigrationTest.class.getClassLoader());
        backend.setDbStoragePath(Files.createTempDirectory(tempFolder, "state").toString());
        return backend;
    }

    @Override
    protected CheckpointStorage getCheckpointStorage() throws Exception {
        return new FileSystemCheckpointStorage(Files.createTempDirectory(tempFolder, "checkpoints").toUri().toString());
    }
}
