import django.db.models.deletion
from django.db import migrations, models


def wrap(apps, schema_editor):
    """What an engine told was kept as name -> value; now it is one part of more."""
    launch = apps.get_model("deployments", "Launch")
    for row in launch.objects.exclude(effective={}).only("pk", "effective").iterator():
        if "told" not in row.effective:
            row.effective = {"told": row.effective}
            row.save(update_fields=["effective"])


class Migration(migrations.Migration):

    dependencies = [
        ("deployments", "0007_secrets"),
    ]

    operations = [
        migrations.AddField(
            model_name="deployment",
            name="found",
            field=models.JSONField(default=dict, editable=False, help_text="Of a server on its port that the panel did not start: identity, argv, and what the engine tells."),
        ),
        migrations.AddField(
            model_name="deployment",
            name="proven_launch",
            field=models.ForeignKey(blank=True, editable=False, help_text="The launch that was marked as proven: what the engine made of the flags then.", null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="deployments.launch"),
        ),
        migrations.AddField(
            model_name="revision",
            name="engine_versions",
            field=models.CharField(blank=True, help_text="Versions of the engine that it is known to be good with; empty: any.", max_length=200),
        ),
        migrations.RunPython(wrap, migrations.RunPython.noop),
    ]
