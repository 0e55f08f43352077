from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("inventory", "0007_gpu_memory_accounting"),
    ]

    operations = [
        migrations.AddField(
            model_name="node",
            name="served_by",
            field=models.CharField(blank=True, help_text="The server process that last took its hello in.", max_length=32),
        ),
    ]
