package org.rocksdb;

/** A class of a release that the library does not serve. */
public class BlockBasedTableConfig extends TableFormatConfig {
  @Override
  protected long newTableFactoryHandle() {
    return newTableFactoryHandle(4096);
  }

  private static native long newTableFactoryHandle(final long blockSize);
}
