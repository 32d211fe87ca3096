"""The data of jobs, and of the jobs of a class."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    job_class = sa.ForeignKeyConstraint(["job_class_id"], ["job_class.id"], ondelete="CASCADE")
    job = sa.ForeignKeyConstraint(
        ["site_id", "job_serial"], ["job.site_id", "job.serial"], ondelete="CASCADE"
    )
    _create("job_class_data", job_class)
    _create("job_data", job, sqlite_with_rowid=False)


def _create(table: str, parent: sa.ForeignKeyConstraint, **options: bool) -> None:
    sizes = ("input_mb", "output_mb")
    columns = [sa.Column(key, sa.Integer, primary_key=True) for key in parent.column_keys]
    columns += [sa.Column(size, sa.Double, nullable=False) for size in sizes]
    checks = [sa.CheckConstraint(f"{size} >= 0 AND {size} < 1e15", f"{size}_not_negative") for size in sizes]
    op.create_table(table, *columns, sa.Column("at", sa.String, nullable=False), *checks, parent, **options)


def downgrade() -> None:
    op.drop_table("job_data")
    op.drop_table("job_class_data")
