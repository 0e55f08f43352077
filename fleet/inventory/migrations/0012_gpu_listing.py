"""Which rows of a node's GPUs count: a version that changes with them, for processes that remember them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds the table; a node gets its row with the next change of its GPUs."""

    dependencies = [
        ("inventory", "0011_node_rdma_ready"),
    ]

    operations = [
        migrations.CreateModel(
            name="GpuListing",
            fields=[
                (
                    "node",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="listing",
                        serialize=False,
                        to="inventory.node",
                    ),
                ),
                ("version", models.BigIntegerField()),
            ],
            options={
                "verbose_name": "version of a node's GPUs",
                "verbose_name_plural": "versions of nodes' GPUs",
            },
        ),
    ]
