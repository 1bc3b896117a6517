from django.db import migrations

ROLES = ("viewer", "operator", "approver", "administrator")


def make_roles(apps, schema_editor):
    group = apps.get_model("auth", "Group")
    for name in ROLES:
        group.objects.get_or_create(name=name)
    apps.get_model("controlpanel", "AuditHead").objects.get_or_create(pk=1, defaults={"hash": "0" * 64})


class Migration(migrations.Migration):
    dependencies = [("controlpanel", "0001_initial"), ("auth", "0012_alter_user_first_name_max_length")]
    operations = [migrations.RunPython(make_roles, migrations.RunPython.noop)]
