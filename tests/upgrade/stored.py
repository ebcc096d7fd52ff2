"""All keys of a shard as one portable file: types and values for any server, and no addresses of a machine."""

import gzip
from pathlib import Path
from typing import Any

import msgpack

from tests.upgrade.former import DATA, VERSION

FIXTURE = DATA / f"store-{VERSION}.msgpack.gz"


async def dump(admin: Any, tag: str) -> list[list[Any]]:
    """Return [key without the tag, type, value, TTL in ms or -1] for each key."""
    found = sorted([key async for key in admin.scan_iter(match=f"{tag}*", count=1_000)])
    return [
        [key.decode().removeprefix(tag), kind, await _value(admin, key, kind), await admin.pttl(key)]
        for key in found
        for kind in [(await admin.type(key)).decode()]
    ]


async def _value(admin: Any, key: bytes, kind: str) -> Any:
    match kind:
        case "string":
            return await admin.get(key)
        case "hash":
            return sorted((await admin.hgetall(key)).items())
        case "set":
            return sorted(await admin.smembers(key))
        case "zset":
            return [
                [member, repr(score)] for member, score in await admin.zrange(key, 0, -1, withscores=True)
            ]
        case "list":
            return await admin.lrange(key, 0, -1)
        case "stream":
            return [[position, list(fields.items())] for position, fields in await admin.xrange(key)]
    raise AssertionError(f"no such type: {kind}")


async def restore(admin: Any, tag: str, keys: list[list[Any]]) -> None:
    """Restore what `dump` returned, under another tag."""
    for name, kind, value, ttl_ms in keys:
        key = tag + name
        match kind:
            case "string":
                await admin.set(key, value)
            case "hash":
                await admin.hset(key, mapping=dict(value))
            case "set":
                await admin.sadd(key, *value)
            case "zset":
                await admin.zadd(key, {member: float(score) for member, score in value})
            case "list":
                await admin.rpush(key, *value)
            case "stream":
                for position, fields in value:
                    await admin.xadd(key, dict(fields), id=position)
        if ttl_ms >= 0:
            await admin.pexpire(key, max(1, ttl_ms))


def write(content: dict[str, Any], path: Path = FIXTURE) -> None:
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:
        packed.write(msgpack.packb(content))


def read(path: Path = FIXTURE) -> dict[str, Any]:
    content: dict[str, Any] = msgpack.unpackb(gzip.decompress(path.read_bytes()), strict_map_key=False)
    return content
