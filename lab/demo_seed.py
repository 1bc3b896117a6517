"""What the demo's panel knows when it is opened for the first time. Imported only once Django is set up."""

from deployments.models import Deployment, Placement, Profile, Revision
from hosts import links, testing
from hosts.models import Host, HostKey, HostTest
from lab.fleet import Fleet


def seed(fleet: Fleet) -> None:
    """Add the fleet's hosts with their keys, and deployments on them."""
    for machine in fleet.machines:
        host = Host.objects.create(name=machine.name, address=machine.address, user=machine.user, port=machine.port)
        _trust(host, machine.host_key_line)
    node = Host.objects.get(name="pve")
    Host.objects.create(name="ct129", transport=Host.TransportKind.PCT, via=node, vmid=129)
    for host in Host.objects.order_by("pk"):
        testing.run_test(HostTest.objects.create(host=host).pk)
    links.POOL.close_all()
    add_deployments()


def add_deployments() -> None:
    """One on each kind of host, and one that can take the place of another on its cards."""
    qwen = {"cards": 2, "context": 131_072}
    _deploy("chat-27b", "gpu1", "sglang", _sglang("/models/qwen-27b", "0.8", port=30000, **qwen), port=30000, cards=2)
    long = qwen | {"context": 262_144}
    _deploy(
        "chat-27b-long", "gpu1", "sglang", _sglang("/models/qwen-27b", "0.9", port=30001, **long), port=30001, cards=2
    )
    tiny = ["/lab/bin/llama-server", "-m", "/models/tiny.gguf", "--host", "0.0.0.0", "--port", "8080", "--metrics"]
    _deploy("tiny-llama", "gpu2", "llama_server", tiny, port=8080, cards=1)
    large = _sglang("/models/qwen-397b", "0.85", port=30000, cards=8, context=131_072)
    _deploy("chat-397b", "ct129", "sglang", large, port=30000, cards=8)


def _trust(host: Host, line: str) -> None:
    from hosts.transport.base import PublicHostKey

    key_type, key_base64, *_ = line.split()
    fingerprint = PublicHostKey(key_type, key_base64).fingerprint
    key = HostKey.objects.create(host=host, key_type=key_type, key_base64=key_base64, fingerprint=fingerprint)
    HostKey.objects.filter(pk=key.pk).update(pinned_at=key.offered_at)


def _sglang(model: str, fraction: str, *, cards: int, port: int, context: int) -> list[str]:
    return [
        "/lab/bin/python",
        *("-m", "sglang.launch_server"),
        *("--model-path", model),
        *("--tp-size", str(cards)),
        *("--host", "0.0.0.0", "--port", str(port)),
        *("--context-length", str(context)),
        *("--mem-fraction-static", fraction),
        "--enable-metrics",
    ]


def _deploy(name: str, host_name: str, engine: str, argv: list[str], *, port: int, cards: int) -> None:
    host = Host.objects.get(name=host_name)
    profile = Profile.objects.create(name=name, engine=engine, description="Made by the demo.")
    revision = Revision.objects.create(profile=profile, number=1, argv=argv, port=port)
    # The demo's policy is explicit: whoever asks may approve.
    deployment = Deployment.objects.create(
        name=name, profile=profile, revision=revision, port=port, requester_may_approve=True
    )
    uuids = [gpu.uuid for gpu in host.gpus.order_by("index")[:cards]]
    Placement.objects.create(deployment=deployment, host=host, gpu_uuids=uuids)
