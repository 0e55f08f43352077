"""Nodes that are read from a Prometheus are told from those of our agents."""

from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the column; every node so far has an agent."""

    dependencies = [("inventory", "0008_node_served_by")]

    operations = [
        migrations.AddField(
            model_name="node",
            name="source",
            field=models.CharField(
                blank=True,
                default="",
                help_text="prometheus: read from a Prometheus; empty: an agent of ours tells of it.",
                max_length=20,
            ),
            preserve_default=False,
        ),
    ]
