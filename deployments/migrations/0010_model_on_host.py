import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ("deployments", "0009_ready_by_itself"),
        ("hosts", "0002_gpu_display"),
    ]

    operations = [
        migrations.CreateModel(
            name="ModelOnHost",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(max_length=64)),
                ("path", models.TextField()),
                ("workdir", models.TextField(blank=True)),
                ("files", models.JSONField(default=dict, help_text="As of fit/stored.py; empty when never read.")),
                ("read_at", models.DateTimeField(null=True)),
                ("requested_at", models.DateTimeField(null=True)),
                ("started_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
                ("problem", models.TextField(blank=True, help_text="Why the last reading gave nothing.")),
                ("hint", models.TextField(blank=True)),
                (
                    "host",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="models_read", to="hosts.host"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("host", "key"), name="model_once_per_path")],
            },
        ),
    ]
