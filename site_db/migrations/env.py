"""Alembic's environment; `site_db.migrations` passes the connection."""

from alembic import context

from site_db.schema import Base

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=Base.metadata, transactional_ddl=False)
context.run_migrations()
