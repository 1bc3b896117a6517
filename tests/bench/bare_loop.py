"""The least that reads a fleet: a thread and a link a host, a shell loop on it, and its lines as numbers in a table.

Nothing is stored and nobody is told: what the panel's monitor is measured against. Run as a process of its own:
``python -m tests.bench.bare_loop KEY SECONDS ADDRESS...`` prints, as JSON, its readings and the CPU seconds they cost.
"""

import json
import socket
import sys
import threading
import time
from dataclasses import dataclass, field

import paramiko

FIELDS = "index,uuid,memory.used,memory.total,utilization.gpu,temperature.gpu,power.draw"
LOOP = f"while :; do echo begin; nvidia-smi --query-gpu={FIELDS} --format=csv,noheader,nounits; echo end; sleep 1; done"


@dataclass
class Table:
    """The last reading of every card, and how many looks there were."""

    cards: dict[tuple[str, str], tuple[float, ...]] = field(default_factory=dict)
    looks: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def main(key: str, seconds: float, addresses: list[str]) -> None:
    """Read until the time is up."""
    table, private = Table(), paramiko.Ed25519Key.from_private_key_file(key)
    ready = threading.Semaphore(0)
    for address in addresses:
        threading.Thread(target=follow, args=(address, private, table, ready), daemon=True).start()
    for _ in addresses:
        ready.acquire()
    time.sleep(2.0)
    looks, cpu = table.looks, time.process_time()
    time.sleep(seconds)
    print(json.dumps({"readings": table.looks - looks, "cpu": time.process_time() - cpu, "cards": len(table.cards)}))


def follow(address: str, key: paramiko.PKey, table: Table, ready: threading.Semaphore) -> None:
    """One host, for ever."""
    sock = socket.create_connection((address, 22))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link = paramiko.Transport(sock)
    link.start_client(timeout=60)
    link.auth_publickey("root", key)
    channel = link.open_session()
    channel.exec_command(LOOP)
    ready.release()
    rest = b""
    while data := channel.recv(65536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            take(line, address, table)


def take(line: bytes, address: str, table: Table) -> None:
    """A line of a look."""
    if line == b"end":
        with table.lock:
            table.looks += 1
    elif line != b"begin":
        index, uuid, *numbers = line.decode().split(", ")
        table.cards[address, uuid] = (float(index), *map(float, numbers))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
