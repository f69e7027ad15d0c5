"""Options, errors, maintenance."""

import os
import random

import cairn
import pytest


def test_options_have_rocksdbs_names(path):
    with cairn.Db(
        path,
        create_if_missing=True,
        write_buffer_size=8 << 20,
        max_background_jobs=3,
        compression_opts={"level": 3},
        block_size=16384,
        filter_policy="bloomfilter:10:false",
        compression_per_level=["kNoCompression", "kLZ4Compression"],
        memory_budget=64 << 20,
    ) as db:
        options = db.options()
        assert options["write_buffer_size"] == str(8 << 20)
        assert "level=3" in options["compression_opts"]
        assert "block_size=16384" in options["block_based_table_factory"]
        assert options["compression_per_level"] == "kNoCompression:kLZ4Compression"
        db.set_options(write_buffer_size=4 << 20, disable_auto_compactions=True)
        assert db.options()["write_buffer_size"] == str(4 << 20)
        db.set_db_options(max_background_jobs=4)
        with pytest.raises(cairn.InvalidArgument):
            db.set_options(num_levels=3)
    [file] = sorted(name for name in os.listdir(path) if name.startswith("OPTIONS"))[-1:]
    assert "max_background_jobs=4" in (path / file).read_text()


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("write_bufer_size", "write_buffer_size"),
        ("create_if_mising", "create_if_missing"),
        ("blok_size", "block_size"),
        ("max_backgroud_jobs", "max_background_jobs"),
    ],
)
def test_unknown_options_are_errors_with_the_nearest_name(path, wrong, nearest):
    with pytest.raises(cairn.InvalidArgument, match=f"did you mean {nearest!r}".replace("'", '"')):
        cairn.Db(path, **{wrong: 1})
    assert not path.exists()
    assert nearest in cairn.option_names()


def test_invalid_values_are_errors(path):
    with pytest.raises(ValueError, match="write_buffer_size"):
        cairn.Db(path, write_buffer_size="many")
    with pytest.raises(TypeError, match="write_buffer_size"):
        cairn.Db(path, write_buffer_size=object())
    with pytest.raises(cairn.InvalidArgument, match="did you mean"):
        cairn.Db(path, families={"f": {"write_bufer_size": 1}})


def test_errors_have_the_classes_of_rocksdbs_codes(path):
    with pytest.raises(cairn.InvalidArgument, match="does not exist") as missing:
        cairn.Db(path)
    assert isinstance(missing.value, (cairn.Error, ValueError))
    assert missing.value.subcode == 0
    with cairn.Db(path, create_if_missing=True) as db:
        with pytest.raises(cairn.IoError) as locked:
            cairn.Db(path)
        assert isinstance(locked.value, OSError) and "LOCK" in str(locked.value)
        db[b"k"] = b"v" * 1000
        db.flush()
        with pytest.raises(cairn.InvalidArgument, match="no merge operator"):
            db.merge(b"k", b"v")
    [table] = path.glob("*.sst")
    data = bytearray(table.read_bytes())
    data[10] ^= 0xFF
    table.write_bytes(data)
    with cairn.Db(path) as db, pytest.raises(cairn.Corruption, match=table.name):
        db.verify_checksum()
    assert issubclass(cairn.NoSpace, cairn.IoError) and issubclass(cairn.Deadlock, cairn.Busy)
    assert issubclass(cairn.LockTimeout, TimeoutError)


def test_use_after_closing_raises(path):
    db = cairn.Db(path, create_if_missing=True)
    family = db.create_family("f")
    db[b"k"] = b"v"
    scan, cursor, snapshot = db.items(), db.cursor(), db.snapshot()
    batch = db.batch()
    pinned = db.get_pinned(b"k")
    assert not db.closed
    db.close()
    db.close()
    assert db.closed
    uses = [
        lambda: db[b"k"],
        lambda: db.put(b"k", b"v"),
        lambda: family.get(b"k"),
        lambda: db.create_family("g"),
        lambda: next(scan),
        lambda: cursor.seek_to_first(),
        lambda: snapshot.sequence,
        lambda: db.get(b"k", snapshot=snapshot),
        lambda: db.write(batch),
        lambda: db.snapshot(),
        lambda: db.items(),
        lambda: db.multi_get([b"k"]),
        lambda: db.statistics(),
    ]
    for use in uses:
        with pytest.raises(cairn.Closed):
            use()
    assert pinned == b"v"
    assert "closed" in repr(db)
    with cairn.Db(path) as again:
        assert again[b"k"] == b"v"


def test_an_object_that_is_not_referenced_is_closed(path):
    cairn.Db(path, create_if_missing=True).put(b"k", b"v")
    scan = cairn.Db(path).items()
    # The scan keeps its database open.
    with pytest.raises(cairn.IoError):
        cairn.Db(path)
    assert list(scan) == [(b"k", b"v")]
    del scan
    cairn.Db(path).close()


def test_statistics_and_properties(db):
    for number in range(100):
        db[b"%d" % number] = random.randbytes(1000)
    db.flush()
    assert db.statistics()["rocksdb.number.keys.written"] == 100
    assert db.property("rocksdb.estimate-num-keys") == "100"
    assert db.property("rocksdb.no-such-property") is None
    assert db.property_map("rocksdb.aggregated-table-properties") is not None
    assert db.approximate_size(b"0", b"9") > 0
    assert db.histogram("rocksdb.bytes.per.write")["count"] >= 0
    with pytest.raises(cairn.InvalidArgument):
        db.histogram("none")
    assert db.background_error is None


def test_a_memory_budget_is_shared(tmp_path):
    budget = cairn.MemoryBudget(64 << 20)
    assert budget.size == 64 << 20
    for name in ("a", "b"):
        with cairn.Db(tmp_path / name, create_if_missing=True, memory_budget=budget) as db:
            db[b"k"] = b"v"
            db.flush()
            assert db[b"k"] == b"v"
    budget.size = 128 << 20
    assert budget.size == 128 << 20


def test_checkpoints_and_backups(db, tmp_path):
    db[b"k"] = b"first"
    db.checkpoint(tmp_path / "checkpoint")
    backups = cairn.BackupEngine(tmp_path / "backups")
    first = backups.create(db, app_metadata=b"note")
    db[b"k"] = b"second"
    second = backups.create(db, flush_before_backup=True)
    with cairn.Db(tmp_path / "checkpoint") as copy:
        assert copy[b"k"] == b"first"
    found = backups.backups()
    assert [backup["id"] for backup in found] == [first, second]
    assert found[0]["app_metadata"] == b"note"
    for backup, value in ((first, b"first"), (None, b"second")):
        backups.restore(tmp_path / "restored", backup)
        with cairn.Db(tmp_path / "restored") as copy:
            assert copy[b"k"] == value
    backups.verify(second)
    assert backups.corrupted_backups() == []
    backups.purge(1)
    assert [backup["id"] for backup in backups.backups()] == [second]
    backups.delete(second)
    with pytest.raises(cairn.NotFound):
        backups.verify(second)


def test_tables_are_written_and_ingested(db, tmp_path):
    table = tmp_path / "t.sst"
    with cairn.SstFileWriter(table, compression="kZSTD") as writer:
        for number in range(1000):
            writer[b"%04d" % number] = b"%d" % number
        with pytest.raises(cairn.InvalidArgument):
            writer.put(b"0001", b"out of order")
    reader = cairn.SstFileReader(table)
    reader.verify_checksum()
    assert reader.get(b"0007") == b"7" and reader.get(b"x", b"?") == b"?"
    assert len(list(reader.items())) == 1000
    assert [key for key, _ in reader.items(prefix=b"000", reverse=True)][0] == b"0009"
    db[b"0007"] = b"old"
    db.ingest([table], move_files=True)
    assert db[b"0007"] == b"7" and not table.exists()
    with pytest.raises(cairn.InvalidArgument, match="move_files"):
        db.ingest([table], move_file=True)
    with pytest.raises(RuntimeError), cairn.SstFileWriter(table) as writer:
        raise RuntimeError
    with pytest.raises(cairn.Closed):
        writer.put(b"k", b"v")


def test_read_only_and_secondary_instances(path, tmp_path):
    with cairn.Db(path, create_if_missing=True) as db:
        db[b"k"] = b"1"
        db.flush()
        with cairn.Db(path, secondary_path=tmp_path / "second") as second:
            assert second[b"k"] == b"1"
            db[b"k"] = b"2"
            second.catch_up()
            assert second[b"k"] == b"2"
            with pytest.raises(cairn.NotSupported):
                second[b"k"] = b"3"
        with cairn.Db(path, read_only=True) as reader:
            assert reader[b"k"] == b"2"
            with pytest.raises(cairn.NotSupported):
                reader[b"k"] = b"3"
    with pytest.raises(cairn.InvalidArgument):
        cairn.Db(path, secondary_path=tmp_path / "a", follower_path=tmp_path / "b")


def test_repair_and_destroy(path):
    with cairn.Db(path, create_if_missing=True) as db:
        db[b"k"] = b"v"
        db.flush()
    [manifest] = path.glob("MANIFEST-*")
    manifest.unlink()
    with pytest.raises(cairn.Error):
        cairn.Db(path)
    kept, lost = cairn.repair(path)
    assert kept == 1 and lost == []
    with cairn.Db(path) as db:
        assert db[b"k"] == b"v"
        db.compact_range(b"a", b"z")
        db.wait_for_compact()
        db.sync_wal()
    cairn.destroy(path)
    assert not list(path.glob("*.sst"))


def test_merge_operators(path, capsys):
    def add(key, existing, operands):
        assert key == b"sum"
        return b"%d" % (int(existing or 0) + sum(map(int, operands)))

    operator = cairn.MergeOperator("python.add", add, lambda _, operands: b"%d" % sum(map(int, operands)))
    with cairn.Db(path, create_if_missing=True, merge_operator=operator) as db:
        for number in range(100):
            db.merge(b"sum", b"%d" % number)
            if number % 30 == 0:
                db.flush()
        assert db[b"sum"] == b"4950"
        assert db.multi_get([b"sum"]) == [b"4950"]
        assert dict(db.items()) == {b"sum": b"4950"}
        db.compact_range()
        assert db[b"sum"] == b"4950"
        db.merge(b"sum", b"seven")
        with pytest.raises(cairn.Corruption) as failed:
            db[b"sum"]
        assert isinstance(failed.value.__cause__, ValueError)
        db[b"sum"] = b"0"
    with cairn.Db(path.with_name("numbers"), create_if_missing=True, merge_operator="uint64add") as db:
        for _ in range(3):
            db.merge(b"n", (5).to_bytes(8, "little"))
        assert int.from_bytes(db[b"n"], "little") == 15


def test_the_exception_of_a_merge_is_the_cause_of_no_other_error(path):
    def fail(key, existing, operands):
        raise ZeroDivisionError

    operator = cairn.MergeOperator("fail", fail)
    with cairn.Db(path, create_if_missing=True, merge_operator=operator, max_successive_merges=1) as db:
        # The write that cannot merge its operand keeps it.
        db.merge(b"k", b"1")
        db.merge(b"k", b"2")
        with pytest.raises(cairn.InvalidArgument) as failed:
            db.set_db_options(of_the_future=1)
        assert failed.value.__cause__ is None
        with pytest.raises(cairn.Corruption) as failed:
            db[b"k"]
        assert isinstance(failed.value.__cause__, ZeroDivisionError)


def test_endless_recursion_of_a_merge_function_is_an_error_in_each_thread(path):
    db = None

    def recurse(key, existing, operands):
        return db.get(key)

    operator = cairn.MergeOperator("recurse", recurse)
    db = cairn.Db(path, create_if_missing=True, merge_operator=operator)
    db.put(b"k", b"0")
    db.merge(b"k", b"1")
    db.merge(b"k", b"2")
    with pytest.raises(cairn.Corruption):
        db[b"k"]
    # Regression: the stack of the thread that flushes was smaller than what Python's limit allows, and the process ended.
    with pytest.raises(cairn.Corruption):
        db.flush()
    db.close()


def test_a_merge_function_cannot_close_its_database(path):
    def close(key, existing, operands):
        with pytest.raises(cairn.Busy):
            db.close()
        return b"".join(operands)

    db = cairn.Db(path, create_if_missing=True, merge_operator=cairn.MergeOperator("close", close))
    db.merge(b"k", b"v")
    assert db[b"k"] == b"v"
    db.close()
