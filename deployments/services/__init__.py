"""What people may do with profiles, deployments and jobs: the only doors for views and commands.

Each is one transaction that changes the rows and writes the audit entry; workers are rung after the commit.
"""

from controlpanel.refusal import Refused
from deployments.services.adopting import adopt, attach, is_old, owner_of, request_look
from deployments.services.benchmarks import request_benchmark
from deployments.services.cloning import clone_deployment, request_clone_check
from deployments.services.deployments import create_deployment, mark_proven, unmark_proven, update_deployment
from deployments.services.flags import request_flags
from deployments.services.jobs import answer_gate, cancel_job, request_job, why_not_answer
from deployments.services.modelfiles import request_model
from deployments.services.notices import add_notice_address, remove_notice_address, send_test_notice
from deployments.services.profiles import add_revision, check_import, clone_profile, create_profile, import_profile
from deployments.services.releasing import release, tidy_up_again
from deployments.services.replacing import request_replacement
from deployments.services.secrets import remove_secret, set_secret
from deployments.services.standing import allow_after_crash, approve_when_idle, ask_for_lease, give_lease
from deployments.services.standing import revoke as revoke_standing
from deployments.services.traffic import request_put_back, say_it_is_back

__all__ = [
    "Refused",
    "add_notice_address",
    "add_revision",
    "adopt",
    "allow_after_crash",
    "answer_gate",
    "approve_when_idle",
    "ask_for_lease",
    "attach",
    "cancel_job",
    "check_import",
    "clone_deployment",
    "clone_profile",
    "create_deployment",
    "create_profile",
    "give_lease",
    "import_profile",
    "is_old",
    "mark_proven",
    "owner_of",
    "release",
    "remove_notice_address",
    "remove_secret",
    "request_benchmark",
    "request_clone_check",
    "request_flags",
    "request_job",
    "request_look",
    "request_model",
    "request_put_back",
    "request_replacement",
    "revoke_standing",
    "say_it_is_back",
    "send_test_notice",
    "set_secret",
    "tidy_up_again",
    "unmark_proven",
    "update_deployment",
    "why_not_answer",
]
