"""Routes that choose, groups that wait, silences, inhibitions and acknowledgements; routes that are there take what they took."""

import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("findings", "0007_causes_and_witnesses"),
        ("notify", "0004_delivery_lead"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Acknowledgement",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("severity_rank", models.PositiveSmallIntegerField(help_text="Of the finding when it was acknowledged.")),
                (
                    "by_name",
                    models.CharField(
                        help_text="Of a link in a message: the route's name, for whoever reads there may press it.",
                        max_length=150,
                    ),
                ),
                ("via", models.CharField(help_text="page, api or link", max_length=4)),
                ("comment", models.CharField(blank=True, max_length=300)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                "verbose_name": "acknowledgement",
                "verbose_name_plural": "acknowledgements",
                "ordering": ("-at", "-pk"),
            },
        ),
        migrations.CreateModel(
            name="Group",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key", models.CharField(help_text="Digest of the labels.", max_length=64)),
                ("labels", models.JSONField(default=dict, help_text="What its alerts have in common, by label.")),
                (
                    "release_at",
                    models.DateTimeField(blank=True, help_text="When what waits leaves; empty: nothing waits.", null=True),
                ),
                ("sent_at", models.DateTimeField(blank=True, help_text="When its newest message was made.", null=True)),
            ],
            options={
                "verbose_name": "group of alerts",
                "verbose_name_plural": "groups of alerts",
            },
        ),
        migrations.CreateModel(
            name="Inhibition",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100, unique=True)),
                ("source", models.JSONField(help_text="Matchers, as a route's; at least one.")),
                ("target", models.JSONField(help_text="Matchers, as a route's; at least one.")),
                ("equal", models.JSONField(blank=True, default=list, help_text="Labels whose values both have, and have alike.")),
                ("enabled", models.BooleanField(default=True)),
            ],
            options={
                "verbose_name": "inhibition",
                "verbose_name_plural": "inhibitions",
                "ordering": ("name",),
            },
        ),
        migrations.CreateModel(
            name="Silence",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("matchers", models.JSONField(help_text="As a route's; at least one.")),
                ("starts_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("ends_at", models.DateTimeField(help_text="What still fires then is told.")),
                ("comment", models.CharField(help_text="Why; people ask at three in the morning.", max_length=300)),
                ("by_name", models.CharField(max_length=150)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "ended_by_name",
                    models.CharField(blank=True, help_text="Who ended it before its time; empty: nobody.", max_length=150),
                ),
            ],
            options={
                "verbose_name": "silence",
                "verbose_name_plural": "silences",
                "ordering": ("-ends_at", "-pk"),
            },
        ),
        migrations.AlterModelOptions(
            name="route",
            options={"ordering": ("position", "pk"), "verbose_name": "route", "verbose_name_plural": "routes"},
        ),
        migrations.RemoveConstraint(
            model_name="delivery",
            name="one_delivery",
        ),
        migrations.AddField(
            model_name="delivery",
            name="is_digest",
            field=models.BooleanField(
                default=False, help_text="Its message tells of alerts of several groups, because its route is above its rate."
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="kind",
            field=models.CharField(default="news", max_length=10),
        ),
        migrations.AddField(
            model_name="delivery",
            name="released_at",
            field=models.DateTimeField(
                blank=True, help_text="When it left its group; empty while it waits or is muted.", null=True
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="round",
            field=models.PositiveIntegerField(default=0, help_text="Of repeats and escalations: the how-manieth."),
        ),
        migrations.AddField(
            model_name="delivery",
            name="status",
            field=models.PositiveSmallIntegerField(
                blank=True, help_text="HTTP status of the newest answer, where there was one.", null=True
            ),
        ),
        migrations.AddField(
            model_name="delivery",
            name="why_muted",
            field=models.CharField(
                blank=True,
                help_text="What kept it quiet: a silence, an inhibition, a cause that was told; a sentence.",
                max_length=300,
            ),
        ),
        migrations.AddField(
            model_name="route",
            name="active_times",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text='When it takes them, any of: [{"days": [0, 1, 2, 3, 4], "from": "09:00", "to": "18:00", "timezone": "Asia/Shanghai"}], Monday is 0. What comes outside is held until they begin. Empty: always.',
            ),
        ),
        migrations.AddField(
            model_name="route",
            name="escalate_after_s",
            field=models.FloatField(
                blank=True,
                help_text="An alert that it told and that nobody acknowledged goes to `escalate_to` after so many seconds.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="route",
            name="escalate_to",
            field=models.ForeignKey(
                blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to="notify.route"
            ),
        ),
        migrations.AddField(
            model_name="route",
            name="group_by",
            field=models.JSONField(
                blank=True, default=list, help_text="Labels by which alerts share a message. Empty: rule and severity."
            ),
        ),
        migrations.AddField(
            model_name="route",
            name="group_interval_s",
            field=models.FloatField(
                default=60.0, help_text="Seconds between two messages of one group; critical ones never wait."
            ),
        ),
        migrations.AddField(
            model_name="route",
            name="group_wait_s",
            field=models.FloatField(
                default=10.0,
                help_text="How long the first alert of a group waits for more of its kind, in seconds. A critical one never waits.",
            ),
        ),
        migrations.AddField(
            model_name="route",
            name="language",
            field=models.CharField(blank=True, help_text="en or zh-hans; empty: the site's.", max_length=10),
        ),
        migrations.AddField(
            model_name="route",
            name="last",
            field=models.BooleanField(default=False, help_text="Routes after it do not get what it takes."),
        ),
        migrations.AddField(
            model_name="route",
            name="matchers",
            field=models.JSONField(
                blank=True,
                default=list,
                help_text='What it takes, all of: [{"label": "partition", "op": "in", "values": ["prod*"]}]; `op` is in or not_in, `*` stands for any characters and `?` for one. Empty: everything.',
            ),
        ),
        migrations.AddField(
            model_name="route",
            name="max_per_minute",
            field=models.PositiveSmallIntegerField(
                default=12, help_text="Messages a minute; what is more is told as a digest. Critical ones count and never wait."
            ),
        ),
        migrations.AddField(
            model_name="route",
            name="position",
            field=models.PositiveSmallIntegerField(default=100, help_text="Routes are asked from the smallest to the greatest."),
        ),
        migrations.AddField(
            model_name="route",
            name="repeat_every_s",
            field=models.FloatField(
                blank=True,
                default=14400.0,
                help_text="An alert that still fires and nobody acknowledged is told again after so many seconds. Empty: never.",
                null=True,
            ),
        ),
        migrations.AddField(
            model_name="route",
            name="send_resolved",
            field=models.BooleanField(default=True, help_text="Whether it is told of an alert's end."),
        ),
        migrations.AddField(
            model_name="acknowledgement",
            name="by",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddField(
            model_name="acknowledgement",
            name="finding",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.CASCADE, related_name="acknowledgements", to="findings.finding"
            ),
        ),
        migrations.AddField(
            model_name="group",
            name="route",
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="groups", to="notify.route"),
        ),
        migrations.AddField(
            model_name="delivery",
            name="group",
            field=models.ForeignKey(
                blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="deliveries", to="notify.group"
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["-created_at"], name="delivery_newest"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["released_at"], name="delivery_released"),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.UniqueConstraint(fields=("route", "transition", "kind", "round"), name="one_delivery"),
        ),
        migrations.AddField(
            model_name="silence",
            name="by",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="+", to=settings.AUTH_USER_MODEL
            ),
        ),
        migrations.AddConstraint(
            model_name="acknowledgement",
            constraint=models.UniqueConstraint(fields=("finding", "severity_rank"), name="acknowledged_once"),
        ),
        migrations.AddIndex(
            model_name="group",
            index=models.Index(fields=["release_at"], name="group_due"),
        ),
        migrations.AddConstraint(
            model_name="group",
            constraint=models.UniqueConstraint(fields=("route", "key"), name="group_once"),
        ),
        migrations.AddIndex(
            model_name="silence",
            index=models.Index(fields=["ends_at"], name="silence_end"),
        ),
    ]
