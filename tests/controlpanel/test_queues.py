"""Each task goes to a queue that the worker asks, and a short look does not wait behind jobs."""

import deployments.tasks
import hosts.tasks
from controlpanel.celery import QUEUES, app
from controlpanel.supervisor import children


def test_every_task_of_ours_has_a_queue() -> None:
    ours = {name for name in app.tasks if not name.startswith("celery.")}
    assert ours == {task for tasks in QUEUES.values() for task in tasks}
    routes = {name: app.amqp.router.route({}, name)["queue"].name for name in ours}
    short = (hosts.tasks.run_test, deployments.tasks.read_flags, deployments.tasks.read_model)
    assert {routes[task.name] for task in short} == {"probes"}
    assert routes[deployments.tasks.advance.name] == "jobs"


def test_the_worker_asks_every_queue() -> None:
    worker = next(child for child in children(fd=3) if child.name == "worker")
    assert worker.argv[worker.argv.index("-Q") + 1].split(",") == [*QUEUES]
