"""Nodes with cores, memory and GPUs: their resources, partitions, and what jobs request of them."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    with op.batch_alter_table("machine") as batch:
        for column in ("threads_per_core", "slots"):
            batch.add_column(sa.Column(column, sa.Integer, server_default="1", nullable=False))
            batch.create_check_constraint(op.f(f"ck_machine_{column}_positive"), _positive(column))
    for column in ("account", "qos"):
        op.add_column("job", sa.Column(column, sa.String, server_default="", nullable=False))
    _of_machine("machine_gpu", "gpu_type", _amount(sa.Integer))
    _of_machine("machine_resource", "resource", _amount(sa.BigInteger))
    _of_machine("machine_feature", "feature")
    _of_site("site_resource", *_amount(sa.BigInteger))
    _of_site(
        "partition",
        sa.Column("max_time_s", sa.Double),
        sa.Column("default_time_s", sa.Double),
        sa.Column("max_nodes", sa.Integer),
        sa.Column("exclusive", sa.Boolean, nullable=False),
        *(
            _check(f"{name}_positive", _positive(name))
            for name in ("max_time_s", "default_time_s", "max_nodes")
        ),
    )
    op.create_table(
        "partition_node",
        sa.Column("partition_id", sa.Integer, _reference("partition"), primary_key=True),
        sa.Column("machine_id", sa.Integer, _reference("machine"), primary_key=True),
    )
    op.create_table(
        "request",
        sa.Column("job_class_id", sa.Integer, _reference("job_class"), primary_key=True),
        sa.Column("nodes", sa.Integer, nullable=False),
        sa.Column("tasks", sa.Integer),
        sa.Column("cores", sa.Double, nullable=False),
        sa.Column("memory_mb", sa.BigInteger, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("gpu_share", sa.Double, nullable=False),
        *(
            sa.Column(name, sa.JSON, nullable=False)
            for name in ("gpu_types", "resources", "site_resources", "features", "partitions")
        ),
        sa.Column("exclusive", sa.Boolean, nullable=False),
        sa.Column("time_limit_s", sa.Double),
        *(_check(f"{name}_positive", _positive(name)) for name in ("nodes", "tasks", "time_limit_s")),
        *(
            _check(f"{name}_not_negative", f"{name} >= 0 AND {name} < 1e15")
            for name in ("cores", "memory_mb", "gpus")
        ),
        _check("gpu_share_is_a_share", "gpu_share > 0 AND gpu_share <= 1"),
        _check("nodes_or_tasks", "tasks IS NULL OR nodes = 1"),
    )


def _of_machine(table: str, named: str, more: tuple[sa.schema.SchemaItem, ...] = ()) -> None:
    op.create_table(
        table,
        sa.Column("machine_id", sa.Integer, _reference("machine"), primary_key=True),
        sa.Column(named, sa.String, primary_key=True),
        _check(f"{named}_not_empty", f"{named} <> ''"),
        *more,
    )


def _of_site(table: str, *more: sa.schema.SchemaItem) -> None:
    op.create_table(
        table,
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("site_id", sa.Integer, _reference("site"), nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.UniqueConstraint("site_id", "name"),
        _check("name_not_empty", "name <> ''"),
        *more,
    )


def _amount(kind: type[sa.Integer]) -> tuple[sa.schema.SchemaItem, ...]:
    return sa.Column("amount", kind, nullable=False), _check("amount_positive", _positive("amount"))


def _reference(table: str) -> sa.ForeignKey:
    return sa.ForeignKey(f"{table}.id", ondelete="CASCADE")


def _check(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=name)


def _positive(column: str) -> str:
    return f"{column} > 0 AND {column} < 1e15"
