"""What the panel remembers: recipes, services, starts of servers, and the jobs that change them."""

from deployments.models.benchmark import Benchmark
from deployments.models.clone import CloneCheck
from deployments.models.deployment import Deployment, Placement
from deployments.models.flags import FlagCatalogue
from deployments.models.job import CardClaim, Check, Effect, Gate, Job, JobStep, PortClaim
from deployments.models.launch import Launch
from deployments.models.log import JobReading, LogChunk
from deployments.models.look import ServerLook
from deployments.models.modelfiles import ModelOnHost
from deployments.models.notice import Notice, NoticeAddress
from deployments.models.profile import Profile, Revision
from deployments.models.secret import Secret
from deployments.models.standing import StandingApproval

__all__ = [
    "Benchmark",
    "CardClaim",
    "Check",
    "CloneCheck",
    "Deployment",
    "Effect",
    "FlagCatalogue",
    "Gate",
    "Job",
    "JobReading",
    "JobStep",
    "Launch",
    "LogChunk",
    "ModelOnHost",
    "Notice",
    "NoticeAddress",
    "Placement",
    "PortClaim",
    "Profile",
    "Revision",
    "Secret",
    "ServerLook",
    "StandingApproval",
]
