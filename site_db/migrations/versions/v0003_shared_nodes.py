"""Time-shared nodes: social contracts, measurements in isolation, predictions of turnaround."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "social_contract",
        sa.Column("cluster_id", sa.Integer(), nullable=False),
        sa.Column("share", sa.Double(), nullable=False),
        sa.Column("most_jobs", sa.Integer(), nullable=False),
        sa.Column("most_cpu", sa.Double(), nullable=True),
        sa.CheckConstraint("share > 0 AND share <= 1", name=op.f("ck_social_contract_share_is_a_share")),
        sa.CheckConstraint(
            "most_jobs > 0 AND most_jobs < 1e15", name=op.f("ck_social_contract_most_jobs_positive")
        ),
        sa.CheckConstraint(
            "most_cpu > 0 AND most_cpu < 1e15", name=op.f("ck_social_contract_most_cpu_positive")
        ),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["cluster.id"], name=op.f("fk_social_contract_cluster_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("cluster_id", name=op.f("pk_social_contract")),
    )
    op.create_table(
        "characterisation",
        sa.Column("job_class_id", sa.Integer(), nullable=False),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("exe_s", sa.Double(), nullable=False),
        sa.Column("cpu", sa.Double(), nullable=False),
        sa.Column("memory_mb", sa.Double(), nullable=False),
        sa.CheckConstraint("tasks > 0 AND tasks < 1e15", name=op.f("ck_characterisation_tasks_positive")),
        sa.CheckConstraint("exe_s > 0 AND exe_s < 1e15", name=op.f("ck_characterisation_exe_s_positive")),
        sa.CheckConstraint("cpu > 0 AND cpu <= 1", name=op.f("ck_characterisation_cpu_is_a_share")),
        sa.CheckConstraint(
            "memory_mb >= 0 AND memory_mb < 1e15", name=op.f("ck_characterisation_memory_mb_not_negative")
        ),
        sa.ForeignKeyConstraint(
            ["job_class_id"],
            ["job_class.id"],
            name=op.f("fk_characterisation_job_class_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_class_id", "tasks", name=op.f("pk_characterisation")),
    )
    with op.batch_alter_table("prediction") as batch:
        batch.add_column(sa.Column("predictor", sa.String(), server_default="", nullable=False))
        batch.add_column(sa.Column("waiting", sa.Boolean(), nullable=True))
        batch.add_column(sa.Column("jobs_there", sa.Integer(), nullable=True))
        batch.drop_constraint(op.f("ck_prediction_inside_its_interval"), type_="check")
        batch.create_check_constraint(op.f("ck_prediction_interval_in_order"), "low_s <= high_s")
        batch.create_check_constraint(
            op.f("ck_prediction_jobs_there_not_negative"), "jobs_there >= 0 AND jobs_there < 1e15"
        )
