"""The versions of Slurm's protocol that are spoken here, and the releases of controllers that understand
them."""

from __future__ import annotations

from sil.slurm.protocol.packing.fields import ProtocolError

RELEASES = {36 << 8: "20.11", 37 << 8: "21.08", 38 << 8: "22.05", 39 << 8: "23.02", 40 << 8: "23.11"}
"""Protocol versions by their number in messages."""

V20_11, V21_08, V22_05 = 36 << 8, 37 << 8, 38 << 8
SPOKEN = (V21_08, V22_05)
"""All messages of these versions can be read and written."""
BEFORE_REGISTRATION = (V20_11,)
"""What controllers speak to a node until it has registered, the oldest version that they know. Messages
without a body and REQUEST_ABORT_JOB can be read."""

FOR_CONTROLLERS = {"21.08": V21_08, "22.05": V22_05, "23.02": V22_05, "23.11": V22_05}
"""The version that is spoken to a controller of a release: each understands those of two releases before. A
controller of 22.05 was tried with both versions; that later ones take 22.05 was read in their sources."""


class UnsupportedVersion(ProtocolError):
    """A message, or a release of Slurm, of another protocol version."""


def spoken_to(release: str) -> int:
    """The protocol version for controllers of a release like "22.05" or "22.05.8". Raises
    UnsupportedVersion."""
    version = FOR_CONTROLLERS.get(".".join(release.split(".")[:2]))
    if version is None:
        raise UnsupportedVersion(
            f"Slurm {release} is not supported: the protocol versions spoken here ({_names()}) are "
            f"understood by controllers of {', '.join(FOR_CONTROLLERS)}; install one of these"
        )
    return version


def check_version(version: int) -> None:
    """Raises UnsupportedVersion if a message of this protocol version cannot be read."""
    if version not in SPOKEN and version not in BEFORE_REGISTRATION:
        release = RELEASES.get(version)
        raise UnsupportedVersion(
            f"a message has protocol version {version} ({f'Slurm {release}' if release else 'unknown'}); "
            f"supported are {_names()}: use a controller of Slurm {', '.join(FOR_CONTROLLERS)}"
        )


def _names() -> str:
    return " and ".join(f"{version} (Slurm {RELEASES[version]})" for version in SPOKEN)
