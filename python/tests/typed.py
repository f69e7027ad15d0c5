"""A program that the type checker reads; it is not run."""

from pathlib import Path

import cairn


async def types() -> None:
    db: cairn.Db = cairn.Db(Path("db"), create_if_missing=True, families={"f": {"ttl": 60}})
    with cairn.TransactionDb("other", default_lock_timeout=10) as locking, locking.begin() as txn:
        txn[b"k"] = b"v"
        found: bytes | None = txn.get_for_update(b"k")
        counted: int = locking.transact(lambda txn: len(txn.get(b"k", b"")))
    value: bytes = db[b"k"]
    maybe: bytes | None = db.get(b"k")
    sure: bytes | int = db.get(b"k", 7)
    many: list[bytes | None] = db.multi_get([b"k", bytearray(b"l")])
    pairs: dict[bytes, bytes] = dict(db.items(prefix=b"k", reverse=True))
    keys: list[bytes] = list(db)
    awaited: bytes | None = await db.get_async(b"k")
    async for key, value in db.items_async():
        print(key, value)
    family: cairn.Family = db.family("f")
    with db.batch(sync=True) as batch, db.snapshot() as snapshot:
        batch.put(b"k", b"v", family=family)
        family.get(b"k", snapshot=snapshot)
    pinned = db.get_pinned(b"k")
    if pinned is not None:
        print(memoryview(pinned)[0])
    try:
        db.flush()
    except cairn.NoSpace as error:
        print(error.subcode, error.errno)
    print(found, counted, maybe, sure, many, pairs, keys, awaited)
