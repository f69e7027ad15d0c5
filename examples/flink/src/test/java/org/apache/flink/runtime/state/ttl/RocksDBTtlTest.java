package org.apache.flink.runtime.state.ttl;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;

import org.apache.flink.api.common.state.StateDescriptor;
import org.apache.flink.api.common.state.StateTtlConfig;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.state.CheckpointStorage;
import org.apache.flink.runtime.state.StateBackend;
import org.apache.flink.runtime.state.internal.InternalKvState;
import org.apache.flink.runtime.state.storage.FileSystemCheckpointStorage;
import org.apache.flink.state.rocksdb.EmbeddedRocksDBStateBackend;
import org.apache.flink.state.rocksdb.RocksDBKeyedStateBackend;
import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.TestTemplate;
import org.junit.jupiter.api.io.TempDir;

/** Flink's tests of state with a time to live, on RocksDB, and the compaction filter with a clock of the test. */
class RocksDBTtlTest extends TtlStateTestBase {
    @TempDir Path directory;

    @Override
    protected boolean incrementalCleanupSupported() {
        return false;
    }

    @Override
    protected StateBackendTestContext createStateBackendTestContext(TtlTimeProvider clock) {
        return new StateBackendTestContext(clock) {
            @Override
            protected StateBackend createStateBackend() {
                EmbeddedRocksDBStateBackend backend = new EmbeddedRocksDBStateBackend(false);
                backend = backend.configure(new Configuration(), RocksDBTtlTest.class.getClassLoader());
                backend.setDbStoragePath(folder());
                return backend;
            }

            @Override
            protected CheckpointStorage createCheckpointStorage() {
                return new FileSystemCheckpointStorage(Path.of(folder()).toUri().toString());
            }
        };
    }

    private String folder() {
        try {
            return Files.createTempDirectory(directory, "state").toString();
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    /** State migrates from a time to live to none on RocksDB; the inherited test expects a failure. */
    @Override
    @TestTemplate
    protected void testRestoreTtlAndRegisterNonTtlStateCompatFailure() throws Exception {
        initTest();
        ctx().update(ctx().updateEmpty);
        sbetc.createAndRestoreKeyedStateBackend(sbetc.takeSnapshot());
        sbetc.setCurrentKey("defaultKey");
        sbetc.createState(ctx().createStateDescriptor(), "");
    }

    @Override
    @Disabled("fails at random with RocksDB's library, too")
    @TestTemplate
    void testMultipleKeysWithSnapshotCleanup() {}

    @Override
    @Disabled("fails at random with RocksDB's library, too")
    @TestTemplate
    void testMultipleNamespacesWithSnapshotCleanup() {}

    @TestTemplate
    void compactionRemovesExpiredStateOnly() throws Exception {
        StateTtlConfig.StateVisibility visibility = StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp;
        StateDescriptor<?, ?> state = initTest(getConfBuilder(TTL).setStateVisibility(visibility).build());
        timeProvider.time = 0;
        for (String key : new String[] {"k1", "k2"}) {
            sbetc.setCurrentKey(key);
            ctx().update(ctx().updateEmpty);
        }
        compact(state, TTL / 2);
        for (String key : new String[] {"k1", "k2"}) {
            sbetc.setCurrentKey(key);
            assertThat(ctx().isOriginalEmptyValue()).isFalse();
            assertThat(ctx().get()).isEqualTo(ctx().getUpdateEmpty);
        }
        sbetc.createAndRestoreKeyedStateBackend(sbetc.takeSnapshot());
        sbetc.setCurrentKey("k2");
        initTestAgain(state);
        compact(state, TTL + 1);
        sbetc.setCurrentKey("k1");
        assertThat(ctx().isOriginalEmptyValue()).isTrue();
        sbetc.setCurrentKey("k2");
        assertThat(ctx().isOriginalEmptyValue()).isTrue();
    }

    /** Binds the restored state to the test's context. */
    @SuppressWarnings({"rawtypes", "unchecked"})
    private void initTestAgain(StateDescriptor state) throws Exception {
        ((TtlStateTestContextBase) ctx).ttlState = (InternalKvState) sbetc.createState(state, "defaultNamespace");
    }

    private void compact(StateDescriptor<?, ?> state, long time) throws Exception {
        timeProvider.time = time;
        RocksDBKeyedStateBackend<String> backend = sbetc.getKeyedStateBackend();
        backend.compactState(state);
    }
}
