from django.urls import path

from deployments.lifecycle import JobKind
from deployments.views import (
    deployments,
    flagcheck,
    history,
    job,
    jobplan,
    log,
    overview,
    profile_files,
    profiles,
    secrets,
)

app_name = "deployments"

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("strip/", job.strip, name="strip"),
    path("profiles/", profiles.profiles, name="profiles"),
    path("profiles/new/", profiles.new, name="profile_new"),
    path("profiles/import/", profile_files.bring, name="profile_import"),
    path("profiles/<int:pk>/", profiles.profile, name="profile"),
    path("profiles/<int:pk>/revise/", profiles.revise, name="revise"),
    path("profiles/<int:pk>/clone/", profile_files.clone, name="profile_clone"),
    path("profiles/<int:pk>/profile.yaml", profile_files.export, name="profile_export"),
    path("profiles/<int:pk>/compare/", profiles.compare, name="compare"),
    path("flags/<int:pk>.json", flagcheck.flags, name="flags"),
    path("deployments/", deployments.deployments, name="deployments"),
    path("deployments/new/", deployments.new, name="deployment_new"),
    path("deployments/<int:pk>/", deployments.deployment, name="deployment"),
    path("deployments/<int:pk>/part/", deployments.part, name="deployment_part"),
    path("deployments/<int:pk>/edit/", deployments.edit, name="deployment_edit"),
    path("deployments/<int:pk>/secrets/", secrets.secrets, name="secrets"),
    path("deployments/<int:pk>/secrets/remove/", secrets.remove, name="secret_remove"),
    path("deployments/<int:pk>/restart/", jobplan.ask, {"kind": JobKind.RESTART}, name="plan_restart"),
    path("deployments/<int:pk>/start/", jobplan.ask, {"kind": JobKind.START}, name="plan_start"),
    path("deployments/<int:pk>/stop/", jobplan.ask, {"kind": JobKind.STOP}, name="plan_stop"),
    path("launches/<uuid:pk>/proven/", deployments.proven, name="proven"),
    path("jobs/", history.jobs, name="jobs"),
    path("jobs/export.csv", history.export, {"kind": "csv"}, name="jobs_csv"),
    path("jobs/export.json", history.export, {"kind": "json"}, name="jobs_json"),
    path("jobs/<int:pk>/", job.job, name="job"),
    path("jobs/<int:pk>/part/<str:part>/", job.part, name="job_part"),
    path("jobs/<int:pk>/gates/<int:gate_pk>/", job.answer, name="answer"),
    path("jobs/<int:pk>/cancel/", job.cancel, name="cancel"),
    path("jobs/<int:pk>/log.txt", log.log_text, name="log_text"),
    path("jobs/<int:pk>/log.json", log.piece, name="log_piece"),
    path("jobs/<int:pk>/log/find.json", log.find, name="log_find"),
]
