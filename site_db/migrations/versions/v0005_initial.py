"""The tables of the first version. When one of them first changes, write it out here, as it was."""

from alembic import op

from site_db.schema import Base
from site_db.schema.resources import use_options_of_postgresql

revision = "0005"
down_revision = None
LATER = {"job_class_data", "job_data"}
"""The tables of later versions."""


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        use_options_of_postgresql()
    tables = [table for name, table in Base.metadata.tables.items() if name not in LATER]
    Base.metadata.create_all(op.get_bind(), tables)
