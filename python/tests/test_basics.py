"""Reads, writes, scans, families, batches and snapshots."""

import gc

import cairn
import pytest


def test_a_database_is_a_mapping(db):
    db[b"granite"] = b"igneous"
    assert db[b"granite"] == b"igneous"
    assert b"granite" in db and b"slate" not in db
    assert db.get(b"slate") is None and db.get(b"slate", b"?") == b"?"
    db.update({b"slate": b"metamorphic", b"chalk": b"sedimentary"})
    assert list(db) == list(db.keys()) == [b"chalk", b"granite", b"slate"]
    del db[b"granite"]
    with pytest.raises(KeyError) as error:
        db[b"granite"]
    assert error.value.args == (b"granite",)
    with pytest.raises(KeyError):
        del db[b"granite"]
    db.delete(b"granite")
    assert dict(db.items()) == {b"slate": b"metamorphic", b"chalk": b"sedimentary"}


def test_keys_and_values_have_the_buffer_protocol(db):
    db[bytearray(b"k")] = memoryview(b"value")[1:]
    assert db[memoryview(b"k")] == b"alue"
    assert db.multi_get([bytearray(b"k"), b"none"]) == [b"alue", None]
    for wrong in ("text", 7, None):
        with pytest.raises(TypeError):
            db.put(b"k", wrong)
        with pytest.raises(TypeError):
            db[wrong]


def test_ranges(db):
    names = [bytes([a, b]) for a in b"abc" for b in b"xyz"]
    for name in names:
        db[name] = name * 2
    assert list(db.keys()) == names
    assert list(db.keys(reverse=True)) == names[::-1]
    assert list(db.keys(b"az", b"cx")) == names[2:6]
    assert list(db.keys(b"az", b"cx", reverse=True)) == names[2:6][::-1]
    assert list(db.values(prefix=b"b")) == [name * 2 for name in names[3:6]]
    assert list(db.keys(prefix=b"b", reverse=True)) == names[3:6][::-1]
    assert list(db.keys(b"by", prefix=b"b")) == names[4:6]
    assert list(db.keys(None, b"by", prefix=b"b")) == names[3:4]
    assert list(db.keys(prefix=b"")) == names
    db[b"\xff\xff"] = b"last"
    assert list(db.keys(prefix=b"\xff")) == [b"\xff\xff"]
    assert list(db.items(stop=b"ay")) == [(b"ax", b"axax")]


def test_a_scan_longer_than_its_chunks_shows_the_state_of_its_creation(db):
    keys = [b"%06d" % number for number in range(5000)]
    for key in keys:
        db[key] = key * 3
    scan = db.items()
    first = next(scan)
    db[b"000000x"] = b"later"
    db.delete_range(b"0", b"1")
    assert [first, *scan] == [(key, key * 3) for key in keys]
    assert list(scan) == []
    assert list(db) == []


def test_a_cursor_moves_both_ways(db):
    for key in (b"a", b"c", b"e"):
        db[key] = key.upper()
    with db.cursor() as cursor:
        assert not cursor.valid and cursor.key is None and cursor.item is None
        assert cursor.seek(b"b") and cursor.item == (b"c", b"C")
        assert cursor.next() and cursor.key == b"e"
        pinned = cursor.value_pinned
        assert cursor.prev() and cursor.value == b"C"
        assert pinned == b"E"
        assert cursor.seek_for_prev(b"b") and cursor.key == b"a"
        assert not cursor.prev()
        assert cursor.seek_to_last() and not cursor.next() and not cursor.valid
        db[b"g"] = b"G"
        assert cursor.seek_to_last() and cursor.key == b"e"
        cursor.refresh()
        assert cursor.seek_to_last() and cursor.key == b"g"
    with pytest.raises(cairn.Closed):
        cursor.seek_to_first()
    bounded = db.cursor(b"b", b"e")
    assert bounded.seek_to_first() and bounded.key == b"c" and not bounded.next()


def test_families(db, path):
    stones = db.create_family("stones", write_buffer_size=1 << 20)
    stones[b"k"] = b"in stones"
    db[b"k"] = b"in default"
    assert (db[b"k"], stones[b"k"]) == (b"in default", b"in stones")
    assert stones.name == "stones" and db.name == "default"
    assert list(db.families()) == ["default", "stones"]
    assert stones.options()["write_buffer_size"] == str(1 << 20)
    db.close()
    assert cairn.list_families(path) == ["default", "stones"]
    options = {"stones": {"write_buffer_size": 2 << 20}}
    with cairn.Db(path, families=options) as again:
        stones = again.family("stones")
        assert stones[b"k"] == b"in stones"
        assert stones.options()["write_buffer_size"] == str(2 << 20)
        again.drop_family(stones)
        assert stones[b"k"] == b"in stones"
        with pytest.raises(cairn.InvalidArgument, match="stones"):
            again.family("stones")


def test_batches(db):
    other = db.create_family("other")
    batch = cairn.WriteBatch()
    batch.put(b"a", b"1")
    batch[b"b"] = b"2"
    batch.put(b"a", b"3", family=other)
    batch.set_save_point()
    batch.delete(b"a")
    batch.rollback_to_save_point()
    assert len(batch) == 3 and bool(batch)
    copy = cairn.WriteBatch(batch.data())
    db.write(batch, sync=True)
    assert (db[b"a"], db[b"b"], other[b"a"]) == (b"1", b"2", b"3")
    db.delete_range(b"a", b"z")
    db.write(copy)
    assert db[b"b"] == b"2"
    with pytest.raises(RuntimeError), db.batch() as failing:
        failing[b"c"] = b"lost"
        raise RuntimeError
    assert b"c" not in db
    with db.batch(disable_wal=True) as batch:
        batch[b"c"] = b"kept"
        del batch[b"a"]
        batch.delete_range(b"b", b"c")
    assert list(db) == [b"c"]
    with pytest.raises(cairn.InvalidArgument), cairn.WriteBatch():
        pass


def test_snapshots(db):
    db[b"k"] = b"old"
    with db.snapshot() as snapshot:
        db[b"k"] = b"new"
        db[b"l"] = b"new"
        assert db.get(b"k", snapshot=snapshot) == b"old"
        assert db.multi_get([b"k", b"l"], snapshot=snapshot) == [b"old", None]
        assert list(db.items(snapshot=snapshot)) == [(b"k", b"old")]
        assert db.get_pinned(b"k", snapshot=snapshot) == b"old"
        assert db.latest_sequence > snapshot.sequence
    with pytest.raises(cairn.Closed):
        db.get(b"k", snapshot=snapshot)


def test_entities(db):
    db.put_entity(b"quartz", {b"formula": b"SiO2", b"": b"a mineral"})
    assert db.get_entity(b"quartz") == {b"": b"a mineral", b"formula": b"SiO2"}
    assert db[b"quartz"] == b"a mineral"
    assert db.get_entity(b"none") is None


def test_pinned_values_outlive_the_database(path):
    with cairn.Db(path, create_if_missing=True) as db:
        db[b"table"] = bytes(range(256)) * 64
        db.flush()
        db[b"memtable"] = b"m" * 1000
        views = [memoryview(db.get_pinned(key)) for key in (b"table", b"memtable")]
        assert db.get_pinned(b"none") is None
        assert len(db.get_pinned(b"memtable")) == 1000
        for view in views:
            assert view.readonly
            with pytest.raises(TypeError):
                view[0] = 0
    del db
    gc.collect()
    cairn.destroy(path)
    assert bytes(views[0]) == bytes(range(256)) * 64
    assert views[1] == b"m" * 1000
    slices = views[0][10:20]
    del views
    gc.collect()
    assert bytes(slices) == bytes(range(10, 20))


def test_values_are_read_from_files_and_with_options(path):
    with cairn.Db(path, create_if_missing=True, compression="kNoCompression") as db:
        for number in range(1000):
            db[b"%04d" % number] = b"v" * 1000
    with cairn.Db(path) as db:
        with pytest.raises(cairn.Incomplete):
            db.get(b"0500", read_tier="kBlockCacheTier")
        assert db[b"0500"] == b"v" * 1000
        assert db.get(b"0500", read_tier="kBlockCacheTier") == b"v" * 1000
        assert db.get(b"0001", verify_checksums=False, fill_cache=False) == b"v" * 1000
        with pytest.raises(cairn.InvalidArgument, match='did you mean "fill_cache"'):
            db.get(b"0001", fil_cache=False)
        with pytest.raises(cairn.InvalidArgument, match='no option "sinc"'):
            db.put(b"0001", b"", sinc=True)


def test_empty_keys_and_values_and_large_ones(db):
    db[b""] = b""
    assert db[b""] == b"" and list(db.items()) == [(b"", b"")]
    large = bytes(3 << 20)
    db[b"l" * 100_000] = large
    db.flush()
    assert db[b"l" * 100_000] == large
    assert [len(value) for value in db.values()] == [0, 3 << 20]


def test_a_snapshot_of_another_database_is_rejected(db, tmp_path):
    db[b"k"] = b"v"
    with cairn.Db(tmp_path / "other", create_if_missing=True) as other, other.snapshot() as foreign:
        cursor = db.cursor()
        for read in (
            lambda: db.get(b"k", snapshot=foreign),
            lambda: db.get_pinned(b"k", snapshot=foreign),
            lambda: db.multi_get([b"k"], snapshot=foreign),
            lambda: list(db.items(snapshot=foreign)),
            lambda: db.cursor(snapshot=foreign),
            lambda: cursor.refresh(foreign),
        ):
            with pytest.raises(cairn.InvalidArgument):
                read()


def test_a_batch_is_empty_after_its_block(db):
    """Regression: a batch kept the writes of its block, and its next block wrote them as well."""
    batch = db.batch()
    with pytest.raises(KeyError), batch:
        batch[b"a"] = b"1"
        raise KeyError
    assert len(batch) == 0
    with batch:
        batch[b"b"] = b"2"
    assert len(batch) == 0
    assert list(db) == [b"b"]


def test_a_prefix_of_a_table_needs_the_order_of_bytes(tmp_path):
    """Regression: a table in another order had no keys with any prefix."""
    order = {"comparator": "rocksdb.ReverseBytewiseComparator"}
    with cairn.SstFileWriter(tmp_path / "table.sst", **order) as writer:
        writer[b"ab"] = b"1"
    reader = cairn.SstFileReader(tmp_path / "table.sst", **order)
    assert list(reader.items()) == [(b"ab", b"1")]
    with pytest.raises(cairn.InvalidArgument):
        reader.items(prefix=b"a")
