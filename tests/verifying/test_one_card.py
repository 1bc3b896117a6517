"""A chat model, an embedder and a reranker on one 80 GB card: each restarts beside the others, which are left alone."""

from dataclasses import dataclass

import pytest

from deployments.models import Check, Deployment, Effect, Job
from lab.fleet import Fleet
from tests.support.story import Place, Story, one_server, told
from tests.support.waiting import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

CHAT_MIB, EMBED_MIB, RERANK_MIB = 50_000, 9_000, 4_000
TOTAL_MIB = 81_559
IMPATIENT = {"memory_seconds": 3, "stuck_seconds": 5}


@dataclass
class Card:
    """The one card and who is on it."""

    story: Story
    chat: Deployment
    embed: Deployment
    rerank: Deployment
    places: dict[int, Place]

    def server(self, deployment: Deployment) -> tuple[int, int]:
        """The only one on its port: pid and start time."""
        process = one_server(self.places[deployment.pk], deployment.port).process
        return process.pid, process.started

    def plan(self, job: Job) -> set[str]:
        assert job.plan is not None
        return {row["deployment"] or row["name"] for row in job.plan["co_tenants"]}


@pytest.fixture(params=["ssh", pytest.param("pct", marks=pytest.mark.slow)])
def card(request: pytest.FixtureRequest, story: Story, fleet: Fleet) -> Card:
    """All three serve. By pct the embedder is in a container of its own, which the chat model's does not see."""
    if request.param == "ssh":
        chat_place = small_place = story.add_host(fleet.host("gpu1"))
    else:
        chat_place = story.add_container(fleet.container(129))
        small_place = story.add_container(fleet.container(131))
    chat = put(story, chat_place, CHAT_MIB)
    embed = put(story, small_place, EMBED_MIB)
    rerank = put(story, chat_place, RERANK_MIB)
    chat.shares_with.add(embed, rerank)
    embed.shares_with.add(rerank)
    places = {chat.pk: chat_place, embed.pk: small_place, rerank.pk: chat_place}
    for deployment in (embed, rerank, chat):
        story.start(deployment)
    return Card(story, chat, embed, rerank, places)


def put(story: Story, place: Place, mib: int) -> Deployment:
    """The stand-in engine with so much memory, which the deployment states."""
    argv = ["/lab/bin/standin", "--port", "{port}", "--gpu", "0", "--mib", str(mib), "--ready", "0.2", "--delay", "0"]
    return story.deploy(place, argv, cards=(0,), ready="standin ready", shared_need_mib=mib + 500, **IMPATIENT)


def test_each_restarts_beside_the_others(card: Card) -> None:
    story = card.story
    servers = {deployment.pk: card.server(deployment) for deployment in (card.chat, card.embed, card.rerank)}
    for deployment in (card.chat, card.embed, card.rerank):
        Deployment.objects.filter(pk=deployment.pk).update(shared_need_mib=None)  # measured by the start
        job = story.run_job(deployment)
        others = {card.chat, card.embed, card.rerank} - {deployment}
        assert [gate.kind for gate in job.gates.all()] == ["plan"], told(job)
        assert card.plan(job) == {other.name for other in others}
        uuid = deployment.placement.gpu_uuids[0]
        check = Check.objects.get(step__job=job, step__name="verify", key=f"memory {uuid}")
        mib = {card.chat: CHAT_MIB, card.embed: EMBED_MIB, card.rerank: RERANK_MIB}
        held = sum(mib[other] for other in others)
        assert (check.status, check.value) == ("ok", f"{TOTAL_MIB - held:,} MiB"), told(job)
        assert check.limit == f"at least {mib[deployment]:,} MiB"
        for other in others:
            assert card.server(other) == servers[other.pk], "a co-tenant was touched"
        servers[deployment.pk] = card.server(deployment)


@pytest.mark.slow
def test_one_less_makes_the_plan_out_of_date(card: Card) -> None:
    story = card.story
    job = story.ask(card.chat)
    gate = story.gate(job, "plan")
    kill(card, card.rerank)
    story.answer(gate, "approve")
    job.refresh_from_db()
    until(lambda: job.gates.count() == 2, seconds=60, what="a second question", tell=lambda: told(job))
    gate = story.gate(job, "plan")
    assert "Co-tenants" in str(gate.evidence), told(job)
    assert not Effect.objects.filter(job=job, kind__startswith="signal").exists()
    story.answer(gate, "approve")
    story.succeeded(job)
    assert card.plan(job) == {card.embed.name}


def kill(card: Card, deployment: Deployment) -> None:
    """As if it crashed."""
    place, (pid, _) = card.places[deployment.pk], card.server(deployment)
    place.machine.exec(["kill", "-9", str(pid)], timeout=20)
    until(lambda: not place.servers(deployment.port), seconds=20, what="its end")


@pytest.mark.slow
def test_a_stranger_beside_them_is_not_free(card: Card, fleet: Fleet) -> None:
    """On a container's card it is seen from the node only."""
    story = card.story
    node = card.places[card.chat.pk].node
    fleet.faults.gpu_hold(node, 0, 1000)
    job = story.begin_job(card.chat)
    gate = story.gate(job, "not free")
    assert "sleep" in str(gate.evidence), told(job)
    assert not card.places[card.chat.pk].servers(card.chat.port)
    card.server(card.embed), card.server(card.rerank)
    node.exec(["pkill", "-9", "-x", "sleep"], timeout=20)
    story.answer(gate, "again")
    story.succeeded(job)


@pytest.mark.slow
def test_what_does_not_fit_is_not_started_and_nobody_can_insist(card: Card) -> None:
    story = card.story
    bigger = story.add_revision(card.chat, ["/lab/bin/standin", "--port", "{port}", "--gpu", "0", "--mib", "70000"])
    Deployment.objects.filter(pk=card.chat.pk).update(shared_need_mib=70_000)
    job = story.ask(card.chat, revision=bigger)
    gate = story.gate(job, "plan")
    assert job.plan is not None
    if card.places[card.chat.pk].machine is card.places[card.chat.pk].node:
        assert "only 68,559 MiB will be free" in str(job.plan["warnings"]), job.plan["warnings"]
    story.answer(gate, "approve")
    gate = story.gate(job, "not free")
    assert "68,559 MiB free beside its co-tenants; 70,000 MiB are needed" in str(gate.evidence), told(job)
    assert [choice["key"] for choice in gate.choices] == ["again", "leave"]
    assert not card.places[card.chat.pk].servers(card.chat.port)
