"""Threads, the interpreter's lock, and forks."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import cairn
import pytest


def run(count, work):
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert failures == []


def test_many_threads_share_a_database(path):
    with cairn.Db(path, create_if_missing=True, write_buffer_size=256 << 10) as db:

        def work(number):
            for step in range(2000):
                key = b"%d/%d" % (number, step)
                db[key] = key * 10
                assert db[key] == key * 10
                if step % 500 == 0:
                    assert len(list(db.keys(prefix=b"%d/" % number))) == step + 1
                    with db.snapshot() as snapshot:
                        assert db.get(key, snapshot=snapshot) == key * 10

        run(8, work)
        assert sum(1 for _ in db.keys()) == 16_000


def test_threads_share_a_scan_a_cursor_and_a_batch(db):
    for number in range(20_000):
        db[b"%05d" % number] = b"v"
    scan, batch, seen = db.keys(), cairn.WriteBatch(), []

    def work(number):
        mine = list(scan)
        seen.append(mine)
        for key in mine:
            batch.put(b"copy" + key, b"v")

    run(4, work)
    assert sorted(key for mine in seen for key in mine) == [b"%05d" % n for n in range(20_000)]
    db.write(batch)
    assert sum(1 for _ in db.keys(prefix=b"copy")) == 20_000


def test_other_threads_run_while_a_call_waits(path):
    """A transaction waits for a lock for a second, and the interpreter counts meanwhile."""
    with cairn.TransactionDb(path, create_if_missing=True, transaction_lock_timeout=1000) as db:
        holder, waiter = db.begin(), db.begin()
        holder.put(b"k", b"v")
        started = threading.Event()
        outcome = []

        def wait():
            started.set()
            with pytest.raises(cairn.LockTimeout):
                waiter.put(b"k", b"w")
            outcome.append(time.monotonic())

        thread = threading.Thread(target=wait)
        thread.start()
        started.wait()
        counted = 0
        while not outcome:
            counted += 1
            time.sleep(0.001)
        thread.join()
        # Without the release, the loop would run once, after the wait.
        assert counted > 20


def test_merge_functions_run_in_threads_of_the_database(path):
    callers = set()

    def join(key, existing, operands):
        callers.add(threading.get_ident())
        return b"".join([existing or b"", *operands])

    operator = cairn.MergeOperator("join", join)
    with cairn.Db(path, create_if_missing=True, merge_operator=operator) as db:
        for step in range(20):
            for key in range(50):
                db.merge(b"%d" % key, b"%d," % step)
            db.flush()
        db.compact_range()
        expected = b"".join(b"%d," % step for step in range(20))
        assert set(db.values()) == {expected}
    assert callers - {threading.get_ident()}


def test_closing_waits_for_calls_and_ends_the_others(path):
    db = cairn.Db(path, create_if_missing=True)
    for number in range(1000):
        db[b"%d" % number] = b"v" * 100
    ready, reads = threading.Barrier(5), []

    def work(number):
        if number == 4:
            ready.wait()
            time.sleep(0.05)
            db.close()
            return
        ready.wait()
        with pytest.raises(cairn.Closed):
            while True:
                assert sum(1 for _ in db.values(snapshot=None)) == 1000
                reads.append(number)

    run(5, work)
    assert reads
    cairn.Db(path).close()


def test_a_forked_child_gets_an_exception(path):
    db = cairn.Db(path, create_if_missing=True)
    db[b"k"] = b"v"
    family, snapshot, scan, cursor = db.family("default"), db.snapshot(), db.items(), db.cursor()
    uses = [
        lambda: db[b"k"],
        lambda: db.put(b"k", b"v"),
        lambda: family.get(b"k"),
        lambda: snapshot.sequence,
        lambda: next(scan),
        lambda: cursor.seek_to_first(),
        lambda: db.snapshot(),
        lambda: db.close(),
    ]
    child = os.fork()
    if child == 0:
        code = 0
        for number, use in enumerate(uses):
            try:
                use()
                code = code or number + 1
            except cairn.Forked:
                pass
        # A database of its own works, and the objects of the parent are dropped.
        with cairn.Db(path.with_name("child"), create_if_missing=True) as own:
            own[b"k"] = b"v"
        del uses, scan, cursor, snapshot, family, db
        os._exit(code)
    deadline = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        assert time.monotonic() < deadline, "the child hangs"
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(ended[1]) == 0
    assert db[b"k"] == b"v" and next(scan) == (b"k", b"v")
    db.close()


def test_a_process_that_exits_with_open_databases_loses_nothing(path):
    program = """
        import sys, cairn
        db = cairn.Db(sys.argv[1], create_if_missing=True, merge_operator=cairn.MergeOperator(
            "join", lambda key, existing, operands: b"".join([existing or b"", *operands])))
        for number in range(1000):
            db.put(b"%d" % number, b"v", disable_wal=True)
            db.merge(b"m", b"x")
        scan = db.items()
        next(scan)
        kept = [db, scan]
        kept.append(kept)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    subprocess.run(command, check=True, timeout=60)
    operator = cairn.MergeOperator("join", lambda key, existing, operands: b"".join(operands))
    with cairn.Db(path, merge_operator=operator) as db:
        # Closing flushes what was not logged.
        assert db[b"999"] == b"v" and sum(1 for _ in db.keys()) == 1001


def alone(program, *arguments):
    """Runs `program` in a process of its own: a thread that waits for itself may hold the interpreter's lock."""
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    subprocess.run(command, check=True, timeout=60)


def test_pairs_of_an_update_can_close_the_database(path):
    program = """
        import sys, cairn
        db = cairn.Db(sys.argv[1], create_if_missing=True)
        def pairs():
            yield b"a", b"1"
            db.close()
            yield b"b", b"2"
        try:
            db.update(pairs())
        except cairn.Closed:
            sys.exit(0)
        sys.exit("not closed")
    """
    alone(program, path)
    with cairn.Db(path) as db:
        assert list(db.keys()) == []
        db.update((b"%d" % number, b"v") for number in range(3))
        assert list(db.keys()) == [b"0", b"1", b"2"]


def test_a_merge_function_cannot_use_the_batch_of_its_write(path):
    program = """
        import sys, cairn
        raised, batch = [], cairn.WriteBatch()
        def join(key, existing, operands):
            for use in (lambda: len(batch), lambda: batch.put(b"a", b"1"), batch.data, batch.clear):
                try:
                    use()
                except cairn.Busy as error:
                    raised.append(error)
            return b"".join([existing or b"", *operands])
        with cairn.Db(sys.argv[1], create_if_missing=True, max_successive_merges=1,
                      merge_operator=cairn.MergeOperator("join", join)) as db:
            db.merge(b"k", b"1")
            batch.merge(b"k", b"2")
            db.write(batch)
            assert len(raised) >= 4, raised
            assert len(batch) == 1
            assert db[b"k"] == b"12"
    """
    alone(program, path)


def test_a_merge_function_cannot_scan_the_transaction_of_its_read(path):
    program = """
        import sys, cairn
        raised, scans = [], []
        def join(key, existing, operands):
            for scan in scans:
                try:
                    next(scan)
                except cairn.Busy as error:
                    raised.append(error)
            return b"".join([existing or b"", *operands])
        with cairn.TransactionDb(sys.argv[1], create_if_missing=True,
                                 merge_operator=cairn.MergeOperator("join", join)) as db:
            with db.begin() as txn:
                txn.merge(b"k", b"1")
                scans.append(txn.items())
                assert txn.get(b"k") == b"1"
                assert len(raised) == 1, raised
                scans.clear()
                assert list(txn.items()) == [(b"k", b"1")]
    """
    alone(program, path)


def test_a_chunk_of_an_asynchronous_scan_waits_for_the_one_that_is_read(path):
    program = """
        import asyncio, sys, cairn
        scans, chunks = [], []
        def join(key, existing, operands):
            while scans:
                chunks.append(scans.pop().ag_frame.f_locals["scan"].chunk())
            return b"".join([existing or b"", *operands])
        async def work(db):
            scan = db.items_async()
            scans.append(scan)
            assert await anext(scan) == (b"k", b"1")
            assert await chunks[0] == []
        with cairn.Db(sys.argv[1], create_if_missing=True,
                      merge_operator=cairn.MergeOperator("join", join)) as db:
            db.merge(b"k", b"1")
            asyncio.run(asyncio.wait_for(work(db), 30))
    """
    alone(program, path)


def test_forked_children_open_databases_while_others_write(path, tmp_path):
    """Regression: locks with a table of the parent's threads crashed children."""
    with cairn.Db(path, create_if_missing=True, write_buffer_size=65536) as db:
        done = threading.Event()

        def work():
            number = 0
            while not done.is_set():
                db[b"%d" % number] = b"v" * 100
                list(db.keys(b"10", b"2"))
                number += 1

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        statuses = []
        for child in range(60):
            pid = os.fork()
            if pid == 0:
                # Kills a child that hangs.
                signal.alarm(20)
                own = cairn.Db(tmp_path / str(child), create_if_missing=True)
                own[b"a"] = b"b"
                own.flush()
                own.close()
                os._exit(0)
            statuses.append(os.waitpid(pid, 0)[1])
        done.set()
        for thread in threads:
            thread.join()
    assert statuses == [0] * 60


def test_an_option_of_a_put_can_close_the_database(path):
    """Regression: `put` held the family while it called `__str__` of an option, and closing waited for it."""
    for kind in (cairn.Db, cairn.TransactionDb, cairn.OptimisticTransactionDb):
        db = kind(path, create_if_missing=True)

        class Closing(int):
            def __str__(self):
                db.close()
                return "0"

        with pytest.raises(cairn.Closed):
            db.put(b"k", b"v", protection_bytes_per_key=Closing())
