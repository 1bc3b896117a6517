from django.urls import path

from hosts import views

app_name = "hosts"

urlpatterns = [
    path("hosts/", views.hosts, name="hosts"),
    path("hosts/add/", views.add, name="add"),
    path("hosts/<int:pk>/", views.host, name="host"),
    path("hosts/<int:pk>/edit/", views.edit, name="edit"),
    path("hosts/<int:pk>/delete/", views.delete, name="delete"),
    path("hosts/<int:pk>/test/", views.test, name="test"),
    path("hosts/<int:pk>/part/<str:part>/", views.host_part, name="host_part"),
    path("hosts/<int:pk>/maintenance/", views.maintenance, name="maintenance"),
    path("hosts/<int:pk>/maintenance/end/", views.maintenance_end, name="maintenance_end"),
    path("hosts/<int:pk>/memory/", views.memory, name="memory"),
    path("hosts/<int:pk>/keys/<int:key_pk>/trust/", views.trust, name="trust"),
    path("hosts/<int:pk>/keys/<int:key_pk>/forget/", views.forget, name="forget"),
    path("hosts/<int:pk>/gpus/<int:gpu_pk>/baseline/", views.baseline, name="baseline"),
]
