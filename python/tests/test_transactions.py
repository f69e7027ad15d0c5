"""Pessimistic and optimistic transactions."""

import contextlib
import threading

import cairn
import pytest

KINDS = [cairn.TransactionDb, cairn.OptimisticTransactionDb]


@pytest.fixture(params=KINDS)
def db(request, path):
    with request.param(path, create_if_missing=True) as db:
        yield db


def test_a_block_commits_or_rolls_back(db):
    with db.begin() as txn:
        txn[b"a"] = b"1"
        txn.put(b"b", b"2")
        assert txn[b"a"] == b"1" and b"b" in txn and txn.get(b"c", b"?") == b"?"
        assert b"a" not in db
    assert dict(db.items()) == {b"a": b"1", b"b": b"2"}
    with pytest.raises(KeyError), db.begin() as txn:
        txn[b"c"] = b"3"
        del txn[b"a"]
        txn[b"none"]
    assert dict(db.items()) == {b"a": b"1", b"b": b"2"}
    with db.begin() as txn:
        txn[b"d"] = b"4"
        txn.rollback()
    assert b"d" not in db
    with db.begin() as txn:
        txn[b"d"] = b"4"
        txn.commit()
    assert db[b"d"] == b"4"


def test_conflicts(db):
    db[b"k"] = b"0"
    first, second = db.begin(), db.begin()
    assert first.get_for_update(b"k") == b"0"
    with pytest.raises((cairn.Busy, cairn.TimedOut)):
        second.put(b"k", b"2")
        second.commit()
        first.commit()
    second.rollback()
    first.rollback()


def test_save_points_and_families(db):
    other = db.create_family("other")
    with db.begin() as txn:
        txn.put(b"a", b"1", family=other)
        txn.set_save_point()
        txn.put(b"a", b"2", family=other)
        txn.delete(b"a", family=other)
        assert txn.get(b"a", family=other) is None
        txn.rollback_to_save_point()
        assert txn.get(b"a", family=other) == b"1"
    assert other[b"a"] == b"1" and b"a" not in db


@pytest.mark.parametrize("reverse", [False, True])
def test_scans_include_the_writes_of_the_transaction(db, reverse):
    for number in range(0, 3000, 2):
        db[b"%04d" % number] = b"base"
    with db.begin() as txn:
        for number in range(1, 3000, 2):
            txn.put(b"%04d" % number, b"own")
        txn.delete(b"0100")
        scan = txn.items(reverse=reverse)
        first = next(scan)
        # Later writes of others are not seen.
        other = b"0000x" if not reverse else b"2998x"
        db[other] = b"later"
        expected = [(b"%04d" % n, b"own" if n % 2 else b"base") for n in range(3000) if n != 100]
        assert [first, *scan] == (expected[::-1] if reverse else expected)
        part = list(txn.items(b"0099", b"0102", reverse=reverse))
        assert sorted(part) == [(b"0099", b"own"), (b"0101", b"own")]
        txn.rollback()


def test_no_transfer_is_lost(db):
    for account in range(4):
        db[b"%d" % account] = b"100"

    def work(thread):
        for step in range(50):
            source, target = b"%d" % thread, b"%d" % ((thread + 1 + step % 3) % 4)

            def transfer(txn):
                if source == target:
                    return
                txn.put(source, b"%d" % (int(txn.get_for_update(source)) - 1))
                txn.put(target, b"%d" % (int(txn.get_for_update(target)) + 1))

            db.transact(transfer, attempts=10_000)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(int(amount) for amount in db.values()) == 400


def test_transact_detects_deadlocks(path):
    with cairn.TransactionDb(path, create_if_missing=True) as db:
        both_hold_one = threading.Barrier(2)
        failures = []

        def work(first, second):
            attempts = []

            def lock_both(txn):
                attempts.append(None)
                txn.put(first, b"v")
                if len(attempts) == 1:
                    both_hold_one.wait()
                try:
                    txn.put(second, b"v")
                except cairn.Error as error:
                    failures.append(type(error))
                    raise

            db.transact(lock_both)

        threads = [threading.Thread(target=work, args=keys) for keys in ((b"a", b"b"), (b"b", b"a"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(failures) == {cairn.Deadlock}


def test_transact_returns_the_result_or_the_exception(db):
    assert db.transact(lambda txn: txn.put(b"k", b"v") or 7) == 7
    assert db[b"k"] == b"v"
    with pytest.raises(ZeroDivisionError):
        db.transact(lambda txn: (txn.put(b"k", b"w"), 1 / 0))
    assert db[b"k"] == b"v"


def test_transact_needs_an_attempt(db):
    with pytest.raises(cairn.InvalidArgument):
        db.transact(lambda txn: txn.put(b"k", b"v"), attempts=0)
    assert b"k" not in db


@pytest.mark.parametrize("plain", [False, True])
def test_closing_ends_waits_for_locks(path, plain):
    with cairn.TransactionDb(path, create_if_missing=True, default_lock_timeout=-1) as db:
        holder = db.begin()
        holder.put(b"k", b"held")
        # Waits for `holder`, and the writer below for this one.
        first = db.begin(lock_timeout=-1)
        first.put(b"l", b"held")
        started = threading.Barrier(3)

        def wait(write):
            started.wait()
            with contextlib.suppress(cairn.Error):
                write()

        last = db if plain else db.begin(lock_timeout=-1)
        threads = [
            threading.Thread(target=wait, args=(lambda: last.put(b"l", b"v"),)),
            threading.Thread(target=wait, args=(lambda: first.put(b"k", b"v"),)),
        ]
        for thread in threads:
            thread.start()
        started.wait()
        db.close()
        for thread in threads:
            thread.join()


def test_writes_after_a_commit_in_a_block_are_committed_or_an_error(db):
    txn = db.begin()

    def block():
        with txn:
            txn.put(b"a", b"1")
            txn.commit()
            txn.put(b"b", b"2")

    if isinstance(db, cairn.OptimisticTransactionDb):
        block()
        assert db[b"b"] == b"2"
        return
    with pytest.raises(cairn.InvalidArgument):
        block()
    assert db[b"a"] == b"1" and b"b" not in db
    db[b"b"] = b"its lock is released"


def test_plain_writes_take_locks(path):
    with cairn.TransactionDb(path, create_if_missing=True, default_lock_timeout=10) as db:
        txn = db.begin()
        txn.put(b"k", b"v")
        for write in (
            lambda: db.put(b"k", b"w"),
            lambda: db.delete(b"k"),
            lambda: db.update({b"k": b"w"}),
        ):
            with pytest.raises(cairn.LockTimeout):
                write()
        txn.commit()
        db[b"k"] = b"w"


def test_deadlocks(path):
    with cairn.TransactionDb(path, create_if_missing=True, transaction_lock_timeout=20_000) as db:
        first, second = (db.begin(deadlock_detect=True) for _ in range(2))
        first.put(b"a", b"1")
        second.put(b"b", b"2")
        outcomes = []

        def wait(txn, key):
            try:
                txn.put(key, b"x")
                outcomes.append("locked")
            except cairn.Deadlock:
                outcomes.append("deadlock")
                txn.rollback()

        threads = [
            threading.Thread(target=wait, args=(first, b"b")),
            threading.Thread(target=wait, args=(second, b"a")),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["deadlock", "locked"]


def test_prepared_transactions_are_found_again(path):
    with cairn.TransactionDb(path, create_if_missing=True) as db:
        txn = db.begin()
        txn.name = b"transfer 4711"
        txn.put(b"k", b"v")
        txn.prepare()
        assert b"k" not in db
    with cairn.TransactionDb(path) as db:
        [txn] = db.prepared_transactions()
        assert txn.name == b"transfer 4711"
        txn.commit()
        assert db[b"k"] == b"v"


def test_a_transaction_ends_with_its_database(path):
    db = cairn.TransactionDb(path, create_if_missing=True)
    txn = db.begin()
    txn.put(b"k", b"v")
    scan = txn.items()
    db.close()
    for use in (lambda: txn.get(b"k"), txn.commit, lambda: next(scan)):
        with pytest.raises(cairn.Closed):
            use()
    with cairn.Db(path) as plain:
        assert b"k" not in plain


def test_scans_with_options_find_all_prefixes(path):
    """Regression: a scan with an option or a snapshot seeked within one prefix."""
    options = {"prefix_extractor": "fixed:3", "filter_policy": "bloomfilter:10:false"}
    with cairn.TransactionDb(path, create_if_missing=True, whole_key_filtering=False,
                             disable_auto_compactions=True, **options) as db:
        for table in range(4):
            for number in range(table, 200, 4):
                db[b"%03d-x" % number] = b"v"
            db.flush()
        snapshot = db.snapshot()
        with db.begin() as txn:
            for more in ({}, {"fill_cache": False}, {"auto_prefix_mode": False}):
                for reverse in (False, True):
                    assert len(list(txn.items(reverse=reverse, **more))) == 200, more
        for more in ({}, {"fill_cache": False}, {"snapshot": snapshot}, {"total_order_seek": True}):
            cursor = db.cursor(**more)
            found, count = cursor.seek(b"004"), 0
            while found:
                found, count = cursor.next(), count + 1
            assert count == 196, more
            assert len(list(db.items(b"004", **more))) == 196, more


def test_a_family_of_another_database_is_not_read(db, tmp_path):
    """Regression: a transaction read the data of the other database."""
    with cairn.Db(tmp_path / "other", create_if_missing=True) as other:
        other[b"k"] = b"v"
        with db.begin() as txn:
            for read in (
                lambda: txn.get(b"k", family=other),
                lambda: txn.items(family=other),
                lambda: txn.put(b"k", b"v", family=other),
            ):
                with pytest.raises(cairn.InvalidArgument):
                    read()
