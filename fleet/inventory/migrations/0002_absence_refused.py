from django.db import migrations, models


class Migration(migrations.Migration):
    """Tell what the server refused from what agents call absent: each ends in its own way."""

    dependencies = [("inventory", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="absence",
            name="refused",
            field=models.BooleanField(
                default=False, help_text="The server refused the values that came; else the agent says so."
            ),
        ),
    ]
