"""Hints are coalesced, bounded in time, and never in anybody's way."""

import asyncio
import threading
import time

import pytest
from pytest_django import Settings

from controlpanel.live.hints import SEND_SECONDS, Sender, _send_to_layer


class Layer:
    """Records what is sent; may fail or hang."""

    def __init__(self) -> None:
        self.sent: list[tuple[float, str]] = []
        self.trouble: str | None = None
        self.tried = threading.Event()
        self.arrived = threading.Condition()

    async def send(self, stream: str) -> None:
        self.tried.set()
        if self.trouble == "fails":
            raise ConnectionError("the broker is away")
        if self.trouble == "hangs":
            await asyncio.Event().wait()
        with self.arrived:
            self.sent.append((time.monotonic(), stream))
            self.arrived.notify_all()

    def wait_for(self, stream: str, *, count: int = 1, timeout: float = 5) -> bool:
        with self.arrived:
            return self.arrived.wait_for(lambda: [name for _, name in self.sent].count(stream) >= count, timeout)


@pytest.fixture
def layer() -> Layer:
    return Layer()


@pytest.fixture
def sender(layer: Layer) -> Sender:
    return Sender(send=layer.send)


def test_a_thousand_hints_from_many_threads_become_a_few(sender: Sender, layer: Layer) -> None:
    def work() -> None:
        for _ in range(200):
            sender.hint("job:1")

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sender.hint("end")

    assert layer.wait_for("end")
    assert 1 <= [name for _, name in layer.sent].count("job:1") <= 3


@pytest.mark.long
def test_at_most_five_a_second_and_the_last_one_arrives(sender: Sender, layer: Layer) -> None:
    begin = time.monotonic()
    count = 0
    while time.monotonic() - begin < 0.7:
        sender.hint("job:1")
        count += 1
        layer.wait_for("never", timeout=0.005)
    sender.hint("end")

    assert layer.wait_for("end")
    assert count > 20 and len([name for _, name in layer.sent if name == "job:1"]) <= 5


@pytest.mark.parametrize("trouble", ["fails", "hangs"])
@pytest.mark.long
def test_a_layer_in_trouble_costs_the_caller_nothing_and_is_survived(
    sender: Sender, layer: Layer, trouble: str
) -> None:
    layer.trouble = trouble
    begin = time.monotonic()
    sender.hint("job:1")
    assert time.monotonic() - begin < 0.1
    assert layer.tried.wait(5)

    layer.trouble = None
    sender.hint("job:2")
    assert layer.wait_for("job:2", timeout=SEND_SECONDS + 4)


@pytest.mark.long
def test_trouble_is_logged_once(sender: Sender, layer: Layer, caplog: pytest.LogCaptureFixture) -> None:
    layer.trouble = "fails"
    for number in range(3):
        layer.tried.clear()
        sender.hint(f"job:{number}")
        assert layer.tried.wait(5)
    layer.trouble = None
    sender.hint("end")

    assert layer.wait_for("end")
    assert len([record for record in caplog.records if "hints" in record.getMessage()]) == 1


def test_where_no_broker_is_set_hints_go_nowhere_without_a_complaint(settings: Settings) -> None:
    settings.CHANNEL_LAYERS = {}  # as the demo does while it fills its tables

    asyncio.run(_send_to_layer("overview"))
