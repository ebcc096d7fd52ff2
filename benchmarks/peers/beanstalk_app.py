"""beanstalkd as a peer, by its own protocol. With the argument COUNT, this program pushes jobs. With `work`, it runs
them. A round trip runs one job or pushes a hundred."""

import os
import socket
import sys

import msgpack

from benchmarks.peers.counter import ARGUMENT, Counter, tell

AT_A_TIME = 100


def connect() -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", int(os.environ["BEANSTALK_PORT"])))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def push(count: int) -> None:
    body: bytes = msgpack.packb(ARGUMENT)
    put = b"put 0 0 60 %d\r\n%s\r\n" % (len(body), body)
    with connect() as connection, connection.makefile("rb") as answers:
        for start in range(0, count, AT_A_TIME):
            size = min(AT_A_TIME, count - start)
            connection.sendall(put * size)
            for _ in range(size):
                answer = answers.readline()
                if not answer.startswith(b"INSERTED"):
                    raise SystemExit(answer.decode())


def work() -> None:
    counter = Counter()
    with connect() as connection, connection.makefile("rb") as answers:
        connection.sendall(b"reserve\r\n")
        while head := answers.readline():
            if head.startswith(b"DELETED"):
                continue
            _, job_id, size = head.split()
            msgpack.unpackb(answers.read(int(size) + 2)[:-2])
            counter.one()
            connection.sendall(b"delete %s\r\nreserve\r\n" % job_id)


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work()
    else:
        tell(push)
