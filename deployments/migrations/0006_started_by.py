"""How a server is started: what a deployment is told, and what a launch was started by."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('deployments', '0005_revision_container'),
    ]

    operations = [
        migrations.AddField(
            model_name='deployment',
            name='started_by',
            field=models.CharField(blank=True, help_text='The way its server is started (plan/ways.py); empty: as what serves now.', max_length=260, default=''),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name='launch',
            name='started_by',
            field=models.CharField(blank=True, help_text='The way it was started (plan/ways.py).', max_length=260, default=''),
            preserve_default=False,
        ),
    ]
