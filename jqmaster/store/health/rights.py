"""The minimal rights of the store's users: masters (`deploy/valkey.acl`) and backups (`deploy/valkey-backup.acl`).

`python -m jqmaster.store.health.rights --write` rewrites the files; a test fails on a difference, and on a right that
no code uses.
"""

import sys
from pathlib import Path
from typing import Final

# By command on keys of the shard: sample arguments after the key. They are complete, because the store checks their
# number.
ON_KEYS: Final = {
    "append": "v", "del": "", "exists": "", "get": "", "getrange": "0 0", "hdel": "f", "hexists": "f", "hget": "f",
    "hgetall": "", "hincrby": "f 1", "hkeys": "", "hlen": "", "hmget": "f", "hscan": "0", "hset": "f v", "hvals": "",
    "lrange": "0 0", "ltrim": "0 0", "mget": "", "mset": "v", "pexpire": "1", "pttl": "", "rpush": "v", "sadd": "m",
    "scard": "",
    "set": "v", "setrange": "0 v", "sismember": "m", "smembers": "", "smismember": "m", "srandmember": "1", "srem": "m",
    "sscan": "0", "strlen": "", "unlink": "", "xadd": "* f v", "xinfo|stream": "", "xrange": "- +",
    "xrevrange": "+ -", "xtrim": "MAXLEN 1", "zadd": "1 m", "zcard": "",
    "zcount": "0 0", "zrange": "0 0", "zrangebyscore": "0 0", "zrem": "m", "zremrangebyrank": "0 0",
    "zremrangebyscore": "0 0", "zscan": "0", "zscore": "m",
}  # fmt: skip
# Commands for messages that go to only one node of a Cluster. Without these rights, each message goes to all nodes.
SHARDED: Final = frozenset({"spublish", "ssubscribe"})
ON_CHANNELS: Final = {"publish": "m", "spublish": "m", "ssubscribe": "", "subscribe": "", "unsubscribe": ""}
# By command without keys: sample arguments. `scan` lists the names of all keys, even those of other users, but reads no
# values.
ON_NOTHING: Final = {
    "cluster|nodes": "", "config|get": "x", "eval": "x 0", "evalsha": "x 0", "info": "", "ping": "", "role": "",
    "scan": "0", "select": "0", "time": "", "wait": "0 0",
}  # fmt: skip
# Masters also work without these rights, because some stores cannot give them:
#
# * `config|get`: a managed store forbids it, and the operator then declares the durability.
# * `cluster|nodes`, `role`: a Cluster and Sentinels need them, because no connection works without them.
# * `SHARDED`: see above.
OPTIONAL: Final = frozenset({"cluster|nodes", "config|get", "role", *SHARDED})

# The rights of `jqmaster backup`. It reads keys, receives notices of changes, and pauses the writes of the whole server
# for a moment.
BACKUP: Final = (
    "client|pause", "client|tracking", "client|unpause", "cluster|nodes", "get", "hgetall", "hlen", "hscan", "hvals",
    "info", "llen", "lrange", "ping", "pttl", "role", "scan", "scard", "select", "smembers", "sscan", "strlen", "time",
    "xlen", "xrange", "zcard", "zrange",
)  # fmt: skip

FILE: Final = Path(__file__).parents[3] / "deploy" / "valkey.acl"
BACKUP_FILE: Final = FILE.with_name("valkey-backup.acl")
USER: Final = "jqmaster"
BACKUP_USER: Final = "jqmaster-backup"
PASSWORD: Final = "change-me"  # noqa: S105 - nobody's password: the file is a template


def rule(shard: str) -> str:
    """Return the rights as `ACL SETUSER` takes them, without the password."""
    commands = " ".join(f"+{command}" for command in sorted((*ON_KEYS, *ON_CHANNELS, *ON_NOTHING)))
    return f"resetkeys ~{{{shard}}}:* resetchannels &{{{shard}}}:* -@all {commands}"


def acl_file(shard: str = "jq") -> str:
    """Return the text of an ACL file with this user alone."""
    return f"user {USER} reset on >{PASSWORD} {rule(shard)}\n"


def backup_acl_file(shard: str = "jq") -> str:
    """Return the text of an ACL file with the user of backups alone."""
    commands = " ".join(f"+{command}" for command in BACKUP)
    rights = f"resetkeys ~{{{shard}}}:* resetchannels -@all {commands}"
    return f"user {BACKUP_USER} reset on >{PASSWORD} {rights}\n"


def samples(shard: str) -> list[tuple[str, list[str]]]:
    """Return each right, with the words of a command that needs it."""
    key, channel = f"{{{shard}}}:probe", f"{{{shard}}}:wake"
    return [
        *((command, [*command.split("|"), key, *rest.split()]) for command, rest in ON_KEYS.items()),
        *((command, [command, channel, *rest.split()]) for command, rest in ON_CHANNELS.items()),
        *((command, [*command.split("|"), *rest.split()]) for command, rest in ON_NOTHING.items()),
    ]


if __name__ == "__main__":
    if "--write" not in sys.argv:
        sys.exit("usage: python -m jqmaster.store.health.rights --write")
    FILE.write_text(acl_file())
    BACKUP_FILE.write_text(backup_acl_file())
