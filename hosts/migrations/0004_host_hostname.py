from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('hosts', '0003_memory_history'),
    ]

    operations = [
        migrations.AddField(
            model_name='host',
            name='hostname',
            field=models.CharField(blank=True, help_text='What it calls itself, by its last test.', max_length=255),
        ),
    ]
