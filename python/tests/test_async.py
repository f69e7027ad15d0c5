"""Coroutines of asyncio."""

import asyncio
import contextlib

import cairn
import pytest


@pytest.fixture(params=[False, True], ids=["buffered", "direct"])
def cold(request, path):
    """A database whose blocks are not in memory; with direct reads, nor in the page cache, so that tasks wait."""
    with cairn.Db(path, create_if_missing=True, compression="kNoCompression") as db:
        for number in range(5000):
            db[b"%05d" % number] = b"%d" % number * 50
        db.flush()
    with cairn.Db(path, use_direct_reads=request.param) as db:
        yield db


def test_gets(cold):
    async def main():
        assert await cold.get_async(b"00007") == b"7" * 50
        assert await cold.get_async(b"none") is None
        assert await cold.get_async(b"none", b"?") == b"?"
        wanted = [b"%05d" % number for number in range(0, 5000, 7)]
        found = await asyncio.gather(*(cold.get_async(key) for key in wanted))
        assert found == [cold[key] for key in wanted]
        task = asyncio.create_task(cold.get_async(b"00008", fill_cache=False))
        assert await task == b"8" * 50
        many = await cold.multi_get_async([b"00001", b"x", b"04999"])
        assert many == [b"1" * 50, None, b"4999" * 50]
        with cold.snapshot() as snapshot:
            del cold[b"00001"]
            assert await cold.get_async(b"00001", snapshot=snapshot) == b"1" * 50
        cold[b"00001"] = b"1" * 50
        with pytest.raises(cairn.InvalidArgument):
            await cold.get_async(b"k", fil_cache=True)

    asyncio.run(main())
    # Each loop has a bridge of its own.
    asyncio.run(main())


def test_scans(cold):
    async def main():
        entries = [entry async for entry in cold.items_async()]
        assert entries == list(cold.items())
        part = [key async for key, _ in cold.items_async(b"00010", b"00020")]
        assert part == list(cold.keys(b"00010", b"00020"))
        part = [key async for key, _ in cold.items_async(prefix=b"0123")]
        assert part == list(cold.keys(prefix=b"0123"))
        async with contextlib.aclosing(cold.items_async()) as scan:
            async for key, _ in scan:
                assert key == b"00000"
                break

    asyncio.run(main())


def test_writes(db):
    async def main():
        async def write(number):
            batch = cairn.WriteBatch()
            batch.put(b"%d" % number, b"v")
            coroutine = db.write_async(batch, sync=True)
            batch.clear()
            await coroutine

        await asyncio.gather(*(write(number) for number in range(100)))

    asyncio.run(main())
    assert sum(1 for _ in db.keys()) == 100


def test_cancelled_and_forgotten_coroutines(cold):
    async def main():
        tasks = [asyncio.create_task(cold.get_async(b"%05d" % n)) for n in range(0, 5000, 100)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(
            isinstance(value, (bytes, asyncio.CancelledError)) for value in done
        )
        coroutine = cold.get_async(b"00003")
        coroutine.close()
        assert await cold.get_async(b"00004") == b"4" * 50

    asyncio.run(main())


def test_closing_ends_coroutines(path):
    async def main():
        db = cairn.Db(path, create_if_missing=True)
        db[b"k"] = b"v"
        batch = cairn.WriteBatch()
        batch.put(b"l", b"w")
        waiting = [asyncio.create_task(db.write_async(batch, sync=True)) for _ in range(20)]
        await asyncio.sleep(0)
        db.close()
        for outcome in await asyncio.gather(*waiting, return_exceptions=True):
            assert outcome is None or isinstance(outcome, cairn.Error)
        with pytest.raises(cairn.Closed):
            await db.get_async(b"k")
        with pytest.raises(cairn.Closed):
            async for _ in db.items_async():
                pass

    asyncio.run(main())
    cairn.Db(path).close()


def test_a_coroutine_needs_a_loop(cold):
    with pytest.raises(RuntimeError, match="loop"):
        cold.multi_get_async([b"k"])
