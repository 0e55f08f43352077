"""When the advisor last ran, and who runs it now."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("findings", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="Cycle",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=40, unique=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                (
                    "ended_at",
                    models.DateTimeField(blank=True, help_text="Null while a run is going, or after one that died.", null=True),
                ),
                (
                    "error",
                    models.CharField(blank=True, help_text="Why the newest run failed; empty after a good one.", max_length=300),
                ),
            ],
        ),
    ]
