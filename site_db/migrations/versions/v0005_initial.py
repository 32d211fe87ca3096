"""The tables of the first release. When they first change, write them out here, as they were."""

from alembic import op

from site_db.schema import Base
from site_db.schema.resources import use_options_of_postgresql

revision = "0005"
down_revision = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        use_options_of_postgresql()
    Base.metadata.create_all(op.get_bind())
