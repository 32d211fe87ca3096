"""Time-shared nodes: social contracts, measurements in isolation, predictions of turnaround."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "social_contract",
        sa.Column(
            "cluster_id", sa.Integer, sa.ForeignKey("cluster.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("share", sa.Double, nullable=False),
        sa.Column("most_jobs", sa.Integer, nullable=False),
        sa.Column("most_cpu", sa.Double),
        sa.CheckConstraint("share > 0 AND share <= 1", name="share_is_a_share"),
        sa.CheckConstraint("most_jobs > 0 AND most_jobs < 1e15", name="most_jobs_positive"),
        sa.CheckConstraint("most_cpu > 0 AND most_cpu < 1e15", name="most_cpu_positive"),
    )
    job_class = sa.ForeignKey("job_class.id", ondelete="CASCADE")
    op.create_table(
        "characterisation",
        sa.Column("job_class_id", sa.Integer, job_class, primary_key=True),
        sa.Column("tasks", sa.Integer, primary_key=True),
        sa.Column("exe_s", sa.Double, nullable=False),
        sa.Column("cpu", sa.Double, nullable=False),
        sa.Column("memory_mb", sa.Double, nullable=False),
        sa.CheckConstraint("tasks > 0 AND tasks < 1e15", name="tasks_positive"),
        sa.CheckConstraint("exe_s > 0 AND exe_s < 1e15", name="exe_s_positive"),
        sa.CheckConstraint("cpu > 0 AND cpu <= 1", name="cpu_is_a_share"),
        sa.CheckConstraint("memory_mb >= 0 AND memory_mb < 1e15", name="memory_mb_not_negative"),
    )
    with op.batch_alter_table("prediction") as batch:
        batch.add_column(sa.Column("predictor", sa.String, server_default="", nullable=False))
        batch.add_column(sa.Column("waiting", sa.Boolean))
        batch.add_column(sa.Column("jobs_there", sa.Integer))
        batch.drop_constraint(op.f("ck_prediction_inside_its_interval"), type_="check")
        batch.create_check_constraint(op.f("ck_prediction_interval_in_order"), "low_s <= high_s")
        batch.create_check_constraint(
            op.f("ck_prediction_jobs_there_not_negative"), "jobs_there >= 0 AND jobs_there < 1e15"
        )
