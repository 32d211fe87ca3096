"""The `sil` command."""

from sil.cli.app import app as app
from sil.cli.app import main as main
