import django.core.validators
from django.db import migrations, models


def nobody_has_chosen(apps, schema_editor):
    """Until now 1800 s stood for: what the last starts took decides."""
    apps.get_model("deployments", "Deployment").objects.filter(ready_seconds=1800).update(ready_seconds=None)


class Migration(migrations.Migration):

    dependencies = [
        ("deployments", "0008_effective"),
    ]

    operations = [
        migrations.AlterField(
            model_name="deployment",
            name="ready_seconds",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Empty: what the last starts took decides.",
                null=True,
                validators=[django.core.validators.MaxValueValidator(86400)],
            ),
        ),
        migrations.RunPython(nobody_has_chosen, migrations.RunPython.noop),
    ]
