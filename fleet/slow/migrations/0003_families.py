"""Past runs take the family of their job in place of its program, so that runs of one program are compared whatever number they bear."""

from typing import Any

from django.db import migrations

from advisor.job_family import job_family


def to_families(apps: Any, _schema_editor: Any) -> None:
    """Rewrite what differs."""
    runs = apps.get_model("slow", "JobRun").objects
    for job, node, program in runs.order_by().values_list("job", "node__name", "program").distinct():
        family = job_family(job, node)
        if family != program:
            runs.filter(job=job, program=program).update(program=family)


class Migration(migrations.Migration):
    dependencies = [("slow", "0002_jobrun_ooms"), ("inventory", "0001_initial")]

    operations = [migrations.RunPython(to_families, migrations.RunPython.noop, elidable=True)]
