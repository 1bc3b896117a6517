import django.db.models.deletion
from django.db import migrations, models

KINDS = [("restart", "Restart"), ("start", "Start"), ("stop", "Stop"), ("benchmark", "Benchmark")]


class Migration(migrations.Migration):

    dependencies = [
        ("deployments", "0010_model_on_host"),
    ]

    operations = [
        migrations.AlterField(
            model_name="job",
            name="kind",
            field=models.CharField(choices=KINDS, max_length=12),
        ),
        migrations.AddField(
            model_name="launch",
            name="model",
            field=models.JSONField(
                default=dict,
                help_text="{path, print} of its model's files on the host; {path, unknown} where not read.",
            ),
        ),
        migrations.AddField(
            model_name="deployment",
            name="proven_with",
            field=models.JSONField(
                default=dict,
                editable=False,
                help_text="What that launch ran with: engine, image, model, cards; who, when.",
            ),
        ),
        migrations.CreateModel(
            name="Benchmark",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "engine_version",
                    models.CharField(blank=True, help_text="Empty: the engine did not tell.", max_length=100),
                ),
                ("cards", models.JSONField(default=list, help_text="[{uuid, label, name}]")),
                ("tokens", models.PositiveIntegerField(help_text="Asked for with each request.")),
                (
                    "levels",
                    models.JSONField(default=list, help_text="Figures by concurrency (benchmark/figures.py)."),
                ),
                ("measured_at", models.DateTimeField()),
                (
                    "job",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="benchmark",
                        to="deployments.job",
                    ),
                ),
                (
                    "launch",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="benchmarks",
                        to="deployments.launch",
                    ),
                ),
                (
                    "revision",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="benchmarks",
                        to="deployments.revision",
                    ),
                ),
            ],
            options={"ordering": ["-measured_at"]},
        ),
    ]
