"""Coroutines over the futures of the native module."""

import asyncio
import weakref
from collections.abc import AsyncGenerator
from typing import Any

from ._cairn import AsyncScan, Bridge

_bridges: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Bridge] = (
    weakref.WeakKeyDictionary()
)


def bridge() -> tuple[Bridge, asyncio.Future[Any]]:
    """The bridge of the running loop, and a new future of it."""
    loop = asyncio.get_running_loop()
    found = _bridges.get(loop)
    if found is None:
        found = _bridges[loop] = Bridge()
        loop.add_reader(found.fileno(), found.run)
    return found, loop.create_future()


async def done(value: Any) -> Any:
    return value


async def wait(promise: asyncio.Future[Any], task: object) -> Any:
    # `task` is kept until the promise is fulfilled.
    return await promise


async def entries(scan: AsyncScan) -> AsyncGenerator[tuple[bytes, bytes], None]:
    try:
        while chunk := await scan.chunk():
            for entry in chunk:
                yield entry
    finally:
        scan.release()
