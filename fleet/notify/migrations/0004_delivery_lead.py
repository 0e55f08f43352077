"""One message may tell of several findings: the deliveries that share it name the one that carries it."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Adds `lead`, null for all there is: each delivery so far was a message of its own."""

    dependencies = [("notify", "0003_names")]

    operations = [
        migrations.AddField(
            model_name="delivery",
            name="lead",
            field=models.ForeignKey(
                blank=True,
                help_text="The delivery whose message tells of this one too; its state is this one's. Null: a message of its own.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="others",
                to="notify.delivery",
            ),
        ),
    ]
